//! `flashlab explain` and `flashlab devices`: list devices, hosts and filesystems, and describe parameters with their
//! meaning, values and sources.

use crate::device::{Device, DeviceError, Filesystem, SourcedNumber};
use crate::library::{Library, LibraryError, read_file};
use crate::profile::{Kind, Number, Parameter, Profile, suggest};
use crate::units::{clip, or_list};
use flashlab_sim::Mechanism;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;

/// An error of `flashlab explain`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExplainError {
    /// The name is unknown.
    Unknown {
        /// The name.
        name: String,
        /// The most similar known name.
        did_you_mean: Option<String>,
    },
    /// The device, the filesystem or the file that the name refers to is invalid.
    Device(DeviceError),
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainError::Unknown { name, did_you_mean: Some(nearest) } => {
                write!(f, "unknown name {name}; did you mean {nearest}?")
            }
            ExplainError::Unknown { name, did_you_mean: None } => write!(
                f,
                "unknown name {name}; expected a parameter (t_prog), a device (`flashlab devices` lists all), a \
                 mechanism (merge), an fio option (bs), an experiment (at91) or a word of the glossary (wear)"
            ),
            ExplainError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExplainError {}

/// Explains `name`: a parameter (`flash.t_prog`, `t_prog`), a device (`sd/kingston`, also with settings), a host, a
/// filesystem or a mechanism of the results. `elsewhere` explains other names, such as the options of fio.
///
/// A name with several meanings gets all of its explanations. Lines have at most `width` characters, except lines of a
/// single longer word.
pub fn explain(
    name: &str,
    library: &Library,
    width: usize,
    elsewhere: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ExplainError> {
    found(name, library, &|subject| subject.text(library, width), elsewhere).map(|found| found.join("\n"))
}

/// Returns the explanations of `name` as a JSON list; `elsewhere` explains other names, such as the options
/// of fio.
pub fn explain_json(
    name: &str,
    library: &Library,
    elsewhere: &dyn Fn(&str) -> Option<Value>,
) -> Result<Value, ExplainError> {
    found(name, library, &|subject| subject.json(library), elsewhere).map(Value::Array)
}

/// Returns each explanation of `name`: as parameters, as a mechanism, by `elsewhere`, and as a device, host
/// or filesystem.
fn found<T>(
    name: &str,
    library: &Library,
    of: &dyn Fn(&Subject<'_>) -> T,
    elsewhere: &dyn Fn(&str) -> Option<T>,
) -> Result<Vec<T>, ExplainError> {
    let parameters = Parameter::named(name).map(Subject::Parameter);
    let mechanisms = Mechanism::ALL.into_iter().filter(|m| m.name() == name).map(Subject::Mechanism);
    let mut found: Vec<T> =
        parameters.chain(mechanisms).map(|subject| of(&subject)).chain(elsewhere(name)).collect();
    found.extend(thing(name, library).map_err(ExplainError::Device)?.map(|subject| of(&subject)));
    if found.is_empty() {
        let nearest = suggest(before_settings(name), names(library));
        return Err(ExplainError::Unknown { name: clip(name), did_you_mean: nearest.map(str::to_owned) });
    }
    Ok(found)
}

/// The subject of an explanation.
enum Subject<'a> {
    Parameter(&'static Parameter),
    Mechanism(Mechanism),
    Host { name: String, profile: Box<Cow<'a, Profile>> },
    Filesystem(Box<Filesystem>),
    Device(Box<Device>),
}

impl Subject<'_> {
    fn text(&self, library: &Library, width: usize) -> String {
        let mut text = Text { text: String::new(), width };
        match self {
            Subject::Parameter(of) => parameter(&mut text, of, library),
            Subject::Mechanism(of) => mechanism(&mut text, *of),
            Subject::Host { name, profile } => host(&mut text, name, profile),
            Subject::Filesystem(of) => filesystem(&mut text, of, library),
            Subject::Device(of) => device(&mut text, of, library),
        }
        text.text
    }

    fn json(&self, library: &Library) -> Value {
        match self {
            Subject::Parameter(of) => json!({
                "kind": "parameter",
                "name": of.path,
                "meaning": of.meaning,
                "form": of.shape().kind(),
                "absent": of.default_meaning,
                "values": values(of, library).map(|[name, value, source]| {
                    json!({ "profile": name, "value": value, "source": source })
                }).collect::<Vec<_>>(),
            }),
            Subject::Mechanism(of) => {
                let (meaning, moved_by) = in_words(*of);
                json!({ "kind": "mechanism", "name": of.name(), "meaning": meaning, "moved_by": moved_by })
            }
            Subject::Host { name, profile } => json!({
                "kind": "host",
                "name": name,
                "title": profile.full_title(),
                "notes": profile.notes,
                "numbers": listed(profile.numbers.iter()),
            }),
            Subject::Filesystem(of) => json!({
                "kind": "filesystem",
                "name": of.name,
                "title": of.title,
                "notes": library.profile(Kind::FILESYSTEM, &of.name).ok().and_then(|p| p.notes.as_ref()),
                "numbers": listed(of.sourced_numbers().iter().map(|SourcedNumber { number, .. }| number)),
            }),
            Subject::Device(of) => json!({
                "kind": of.kind().name(),
                "name": of.argument,
                "title": of.title,
                "host": of.host_name,
                "notes": library.device(&of.name).ok().and_then(|profile| profile.notes.as_ref()),
                "numbers": listed(of.sourced_numbers().iter().map(|SourcedNumber { number, .. }| number)),
            }),
        }
    }
}

/// Lists numbers with their meaning and source.
fn listed<'a>(numbers: impl Iterator<Item = &'a Number>) -> Vec<Value> {
    let one = |number: &Number| {
        json!({
            "name": number.parameter.path,
            "value": number.value.to_string(),
            "meaning": number.parameter.meaning,
            "source": number.source.to_string(),
        })
    };
    numbers.map(one).collect()
}

/// Returns all names that this module can explain.
fn names(library: &Library) -> Vec<&str> {
    let parameters = Parameter::all().iter().map(|p| p.path);
    let things = Kind::all().flat_map(|kind| library.of_kind(kind)).map(|(name, _)| name);
    parameters.chain(things).chain(Mechanism::ALL.map(Mechanism::name)).collect()
}

/// Finds a device, host or filesystem, with its settings; `None` if no such thing has that name.
fn thing<'a>(name: &str, library: &'a Library) -> Result<Option<Subject<'a>>, DeviceError> {
    let as_host = name.strip_prefix("host/").unwrap_or(name);
    for kind in Kind::hosts() {
        if let Ok(profile) = library.profile(kind, as_host) {
            let profile = Box::new(Cow::Borrowed(profile));
            return Ok(Some(Subject::Host { name: as_host.to_owned(), profile }));
        }
    }
    let as_filesystem = name.strip_prefix("fs/").unwrap_or(name);
    let kind = match name.strip_suffix(".toml") {
        Some(_) => {
            let profile =
                Profile::parse(name, &read_file(Path::new(name))?).map_err(LibraryError::Profile)?;
            if profile.kind.is_host() {
                let profile = Box::new(Cow::Owned(profile));
                return Ok(Some(Subject::Host { name: name.to_owned(), profile }));
            }
            Some(profile.kind)
        }
        None if library.profile(Kind::FILESYSTEM, before_settings(as_filesystem)).is_ok() => {
            Some(Kind::FILESYSTEM)
        }
        None => library.device(before_settings(name)).ok().map(|profile| profile.kind),
    };
    Ok(match kind {
        Some(kind) if kind == Kind::FILESYSTEM => {
            Some(Subject::Filesystem(Box::new(Filesystem::open(as_filesystem, library)?)))
        }
        Some(_) => Some(Subject::Device(Box::new(Device::open(name, library)?))),
        None => None,
    })
}

fn before_settings(argument: &str) -> &str {
    argument.split_once(':').map_or(argument, |(name, _)| name)
}

/// Writes a parameter and its value in every profile.
fn parameter(text: &mut Text, parameter: &Parameter, library: &Library) {
    let kinds: Vec<Kind> = Kind::all().filter(|kind| kind.has(parameter)).collect();
    text.line(parameter.path);
    text.paragraph(2, parameter.meaning);
    let absent = parameter.default_meaning.map_or(String::new(), |absent| format!(" If omitted: {absent}."));
    let nouns: Vec<&str> = kinds.iter().map(|kind| kind.noun()).collect();
    let sentence = format!("Of {}: {}.{absent}", or_list(&nouns), parameter.form());
    text.paragraph(2, &sentence);
    text.line("");
    let rows: Vec<_> = values(parameter, library).collect();
    text.table(&rows);
    if let Some([name, value, _]) = rows.first() {
        let example = match kinds[0] {
            kind if kind.is_device() => format!("{name}:{}={value}", parameter.path),
            kind if kind.is_host() => format!("DEVICE:{}={value}", parameter.path),
            _ => format!("--fs {name}:{}={value}", parameter.key()),
        };
        text.line("");
        text.paragraph(2, &format!("Set it with {example}"));
    }
}

/// Returns the profiles that have a parameter, each as name, value and source.
fn values<'a>(parameter: &'a Parameter, library: &'a Library) -> impl Iterator<Item = [String; 3]> + 'a {
    let kinds = Kind::all().filter(|kind| kind.has(parameter));
    kinds
        .flat_map(|kind| library.of_kind(kind))
        .filter_map(|(name, profile)| Some((name, profile.number(parameter.path)?)))
        .map(|(name, number)| [name.to_owned(), number.value.to_string(), number.source.to_string()])
}

fn device(text: &mut Text, device: &Device, library: &Library) {
    text.paragraph(0, &format!("{}: {}", device.argument, device.title));
    let kind = device.kind();
    let profile = library.device(&device.name).ok();
    let host = kind.host().and_then(|host| library.profile(host, &device.host_name).ok());
    notes(text, profile);
    text.line("");
    text.paragraph(2, &format!("The {}", kind.subject()));
    let (own, machine): (Vec<_>, Vec<_>) =
        device.sourced_numbers().iter().partition(|sourced| kind.has(sourced.number.parameter));
    numbers(text, own.into_iter().map(|sourced| &sourced.number));
    text.line("");
    text.paragraph(2, &format!("The host, {}", device.host_name));
    notes(text, host);
    numbers(text, machine.into_iter().map(|sourced| &sourced.number));
}

fn host(text: &mut Text, name: &str, profile: &Profile) {
    text.paragraph(0, &format!("{name}: {}", profile.full_title()));
    notes(text, Some(profile));
    text.line("");
    numbers(text, profile.numbers.iter());
}

fn filesystem(text: &mut Text, filesystem: &Filesystem, library: &Library) {
    text.paragraph(0, &format!("{}: {}", filesystem.argument, filesystem.title));
    notes(text, library.profile(Kind::FILESYSTEM, &filesystem.name).ok());
    text.line("");
    numbers(text, filesystem.sourced_numbers().iter().map(|SourcedNumber { number, .. }| number));
}

fn notes(text: &mut Text, profile: Option<&Profile>) {
    if let Some(notes) = profile.and_then(|p| p.notes.as_deref()) {
        text.paragraph(2, notes);
    }
}

/// Writes a line with the meaning of each number, and a second line with its source.
fn numbers<'a>(text: &mut Text, numbers: impl Iterator<Item = &'a Number>) {
    let mut rows = Vec::new();
    for number in numbers {
        let row = |path: String, value: String, words: &str| [path, value, words.to_owned()];
        rows.push(row(number.parameter.path.to_owned(), number.value.to_string(), number.parameter.meaning));
        rows.push(row(String::new(), String::new(), &number.source.to_string()));
    }
    text.table(&rows);
}

/// Returns the definition of a mechanism of the results, and the parameters that it depends on.
pub fn in_words(mechanism: Mechanism) -> (&'static str, &'static str) {
    match mechanism {
        Mechanism::Bus => (
            "Transfer of data and commands between host and device, while no slower operation overlaps with \
             it.",
            "card.modes, host.modes, host.bus_clock, host.bus_width; nvme.generation, nvme.lanes, nvme.payload",
        ),
        Mechanism::Host => (
            "The host's own work: building commands, interrupts, copies, the filesystem.",
            "host.command_max, host.t_request, host.t_command, host.t_block, host.t_gap, host.prepare, vfat.t_unexplained; \
             cache.t_call, cache.t_page, cache.t_writeback, cache.t_submit",
        ),
        Mechanism::Firmware => (
            "The controller's processor: decoding a command and planning its execution.",
            "card.t_command, card.t_command_write; nvme.t_command, nvme.t_command_write, nvme.t_command_unmapped",
        ),
        Mechanism::Program => (
            "Programming the data of the request, except for the time that overlaps with the transfer.",
            "flash.page, flash.stripe, card.write_buffer, flash.t_prog, flash.erase_block, flash.t_bers, ftl.program_unit; nand.t_prog, \
             ftl.write_buffer, ftl.reserve",
        ),
        Mechanism::Read => (
            "Reading the requested data from the array.",
            "flash.t_read, flash.read_rate, card.read_ahead, card.t_access_ddr50 and the other card.t_access_* \
             parameters; nand.t_read, nand.channel_rate",
        ),
        Mechanism::ReadModifyWrite => (
            "Reading and rewriting a rewrite unit because part of it was overwritten.",
            "ftl.rewrite_unit, ftl.map_unit, ftl.overwrite, flash.read_rate, flash.t_prog",
        ),
        Mechanism::Merge => (
            "Completing an open rewrite unit to make room for another one, switching between rewrite units, \
             and garbage collection.",
            "ftl.open_units, ftl.rewrite_unit, ftl.overwrite, ftl.t_copy, ftl.t_switch, ftl.collect_step",
        ),
        Mechanism::Map => (
            "Loading mapping information that was not in the controller's memory, and writing the map entries of a \
             card's write that begins at a new place or ends inside a program unit.",
            "ftl.map_cache, ftl.map_page, ftl.map_unit, ftl.t_commit, ftl.program_unit; map.sram, map.t_load, map.t_hmb, map.loaders, pc.hmb",
        ),
        Mechanism::Queue => ("Waiting behind other requests.", "iodepth, numjobs"),
        Mechanism::Busy => (
            "Time that the card stays busy after every write command, beside programs and commits.",
            "ftl.t_write",
        ),
        Mechanism::Fold => (
            "Moving data out of the area for small writes, to make room in it.",
            "ftl.small_size, ftl.small_max, ftl.rewrite_unit",
        ),
        Mechanism::Housekeeping => (
            "Periodic work of the controller, such as saving its map, that no single request causes.",
            "ftl.housekeeping_every, ftl.t_housekeeping",
        ),
        Mechanism::Cache => (
            "Waiting for a cache. A write waits for room in the volatile cache, a flush or a forced write \
             waits for its drain, and a read waits for the page that the drain programs. A buffered write \
             waits until the page cache is below its dirty limits.",
            "card.cache, card.drain, flash.t_prog, ftl.t_commit, ftl.t_write; cache.memory, cache.dirty, cache.dirty_background",
        ),
        Mechanism::Cipher => (
            "Encryption, decryption and authentication of a volume's data by the host's processors.",
            "codec.t_chacha20_poly1305, codec.t_aes_256_gcm, cache.processors",
        ),
        Mechanism::Compression => (
            "Compression of a volume's data by the host's processors.",
            "codec.t_lz4_compress, codec.t_zstd_compress, cache.processors",
        ),
        Mechanism::Decompression => (
            "Decompression of a volume's data by the host's processors.",
            "codec.t_lz4_decompress, codec.t_zstd_decompress, cache.processors",
        ),
    }
}

fn mechanism(text: &mut Text, mechanism: Mechanism) {
    let (words, moved_by) = in_words(mechanism);
    text.line(mechanism.name());
    text.paragraph(2, "A part of a request's latency. The parts sum to the latency exactly.");
    text.paragraph(2, words);
    text.paragraph(2, &format!("Depends on: {moved_by}."));
}

/// The devices, hosts and filesystems of a library, or those whose names match a pattern.
pub struct Listing<'a> {
    devices: Vec<(&'a str, &'a Profile)>,
    hosts: Vec<(&'a str, &'a Profile)>,
    filesystems: Vec<(&'a str, &'a Profile)>,
}

impl<'a> Listing<'a> {
    /// Returns the listing of the whole library.
    pub fn all(library: &'a Library) -> Listing<'a> {
        Listing {
            devices: library.devices().collect(),
            hosts: Kind::hosts().flat_map(|kind| library.of_kind(kind)).collect(),
            filesystems: library.of_kind(Kind::FILESYSTEM).collect(),
        }
    }

    /// Returns the entries that `pattern` selects: the beginning of a name (`sd/`), or a whole name with `*` and `?`
    /// (`sd/s*`).
    ///
    /// # Errors
    /// If no name matches.
    pub fn matching(pattern: &str, library: &'a Library) -> Result<Listing<'a>, NoMatch> {
        let all = Listing::all(library);
        let mut known: Vec<String> = all.names().map(str::to_owned).collect();
        known
            .extend(all.devices.iter().filter_map(|(name, _)| Some(format!("{}/", name.split_once('/')?.0))));
        let select = |folder: &str, list: Vec<(&'a str, &'a Profile)>| -> Vec<_> {
            let fits = |name: &str| fits(pattern, name) || fits(pattern, &format!("{folder}{name}"));
            list.into_iter().filter(|(name, _)| fits(name)).collect()
        };
        let found = Listing {
            devices: select("", all.devices),
            hosts: select("host/", all.hosts),
            filesystems: select("fs/", all.filesystems),
        };
        if found.names().next().is_none() {
            let did_you_mean = suggest(pattern, known.iter().map(String::as_str)).map(str::to_owned);
            return Err(NoMatch { pattern: clip(pattern), did_you_mean });
        }
        Ok(found)
    }

    /// Returns the names in the order of the listing.
    pub fn names(&self) -> impl Iterator<Item = &'a str> {
        [&self.devices, &self.hosts, &self.filesystems].into_iter().flatten().map(|(name, _)| *name)
    }

    /// Returns the names of the devices.
    pub fn device_names(&self) -> impl Iterator<Item = &'a str> {
        self.devices.iter().map(|(name, _)| *name)
    }

    /// Returns the listing as JSON.
    pub fn json(&self) -> Value {
        let titled = |list: &[(&str, &Profile)]| -> Vec<Value> {
            list.iter()
                .map(|(name, profile)| json!({ "name": name, "title": profile.full_title() }))
                .collect()
        };
        let device = |(name, profile): &(&str, &Profile)| {
            let capacity = capacity_of(profile).and_then(|number| number.value.magnitude());
            json!({
                "name": name,
                "kind": profile.kind.name(),
                "title": profile.title,
                "model": profile.model,
                "unsourced": profile.is_draft(),
                "capacity_bytes": capacity,
                "timed": is_timed(profile),
                "host": profile.host,
            })
        };
        json!({
            "devices": self.devices.iter().map(device).collect::<Vec<_>>(),
            "hosts": titled(&self.hosts),
            "filesystems": titled(&self.filesystems),
        })
    }

    /// Returns the listing as text, in lines of at most `width` characters.
    pub fn text(&self, width: usize) -> String {
        let device = |(name, card): &(&str, &Profile)| {
            let capacity = capacity_of(card).map_or(String::new(), capacity);
            let host = card.host.as_deref().unwrap_or_default();
            let mark = if is_timed(card) { "" } else { " (without timing)" };
            [(*name).to_owned(), capacity, format!("{}, on {host}{mark}", card.full_title())]
        };
        let other =
            |(name, profile): &(&str, &Profile)| [(*name).to_owned(), profile.full_title(), String::new()];
        let sections = [
            ("Devices", self.devices.iter().map(device).collect::<Vec<_>>()),
            ("Hosts", self.hosts.iter().map(other).collect()),
            ("Filesystems", self.filesystems.iter().map(other).collect()),
        ];
        let mut text = Text { text: String::new(), width };
        for (heading, rows) in sections.iter().filter(|(_, rows)| !rows.is_empty()) {
            text.line(heading);
            text.table(rows);
            text.line("");
        }
        text.paragraph(0, "`flashlab explain NAME` prints the numbers of NAME with their sources.");
        text.text
    }
}

/// No name of a device, host or filesystem matches the pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoMatch {
    /// The pattern.
    pub pattern: String,
    /// The most similar name or folder of names.
    pub did_you_mean: Option<String>,
}

impl fmt::Display for NoMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no device, host or filesystem matches {}; ", self.pattern)?;
        match &self.did_you_mean {
            Some(nearest) => write!(f, "did you mean {nearest}?"),
            None => write!(f, "`flashlab devices` lists all"),
        }
    }
}

impl std::error::Error for NoMatch {}

/// Returns true if `name` begins with `pattern`. A pattern with `*` or `?` must match the whole name.
fn fits(pattern: &str, name: &str) -> bool {
    if pattern.contains(['*', '?']) {
        crate::device::matches(pattern, name)
    } else {
        name.starts_with(pattern)
    }
}

/// Returns false for a card without timing: `flash.t_read` and `flash.t_prog` are at most 1 ns.
fn is_timed(profile: &Profile) -> bool {
    let magnitude = |path| profile.number(path).and_then(|number| number.value.magnitude());
    ["flash.t_read", "flash.t_prog"].iter().any(|path| magnitude(path).is_none_or(|time| time > 1))
}

fn capacity_of(profile: &Profile) -> Option<&Number> {
    ["card.capacity", "stick.capacity", "ftl.capacity"].into_iter().find_map(|path| profile.number(path))
}

/// Formats a capacity in decimal GB or MB, as printed on a card.
fn capacity(number: &Number) -> String {
    let bytes = number.value.magnitude().expect("a capacity is a size");
    if bytes >= 1_000_000_000 {
        return format!("{} GB", (bytes + 500_000_000) / 1_000_000_000);
    }
    format!("{} MB", (bytes + 500_000) / 1_000_000)
}

/// Text for a terminal.
struct Text {
    text: String,
    /// Maximum number of characters in a line.
    width: usize,
}

/// Minimum width of the last column. If less is left, [`Text::table`] prints the words below the name and the value.
const WORDS_MIN: usize = 30;
/// Indent of the words below a name.
const BELOW: usize = 6;

impl Text {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes rows of two narrow columns and a third one that wraps, indented by two spaces.
    fn table(&mut self, rows: &[[String; 3]]) {
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (first, second) = (width(0), width(1));
        let indent = 2 + first + 2 + second + 2;
        let has_words = rows.iter().any(|[_, _, words]| !words.is_empty());
        let needed = if has_words { indent + WORDS_MIN } else { indent - 2 };
        for [name, value, words] in rows {
            if needed > self.width {
                self.hung(2, BELOW, &format!("{name}  {value}"));
                self.paragraph(BELOW, words);
                continue;
            }
            let head = format!("  {name:first$}  {value:second$}  ");
            let start = self.text.len();
            self.paragraph(indent, words);
            if self.text.len() == start {
                self.line(head.trim_end());
            } else {
                self.text.replace_range(start..start + indent, &head);
            }
        }
    }

    /// Writes `words` in lines of at most the width, indented by `indent` spaces. Line breaks in `words` remain.
    fn paragraph(&mut self, indent: usize, words: &str) {
        for line in words.lines() {
            self.hung(indent, indent, line);
        }
    }

    /// Wraps one line of `words`. The first output line is indented by `first` spaces, the others by `rest` spaces.
    fn hung(&mut self, first: usize, rest: usize, words: &str) {
        let mut used = 0;
        let mut indent = first;
        for word in words.split(' ').filter(|word| !word.is_empty()) {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > self.width {
                self.text.push('\n');
                used = 0;
                indent = rest;
            }
            if used == 0 {
                self.text.extend(std::iter::repeat_n(' ', indent));
                used = indent;
            } else {
                self.text.push(' ');
                used += 1;
            }
            self.text.push_str(word);
            used += length;
        }
        if used > 0 || words.trim().is_empty() && first == rest {
            self.text.push('\n');
        }
    }
}
