//! `flashlab explain` and `flashlab devices`: what exists, what a number means, and where it comes from.

use crate::device::{Device, DeviceError, Filesystem, Held};
use crate::library::{Library, LibraryError, read_file};
use crate::profile::{Kind, Number, Parameter, Profile, suggest};
use crate::units::{clip, or_list};
use flashlab_sim::Mechanism;
use std::fmt::{self, Write};
use std::path::Path;

/// The widest line of a text.
const WIDTH: usize = 110;

/// Why something cannot be explained.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExplainError {
    /// Nothing has that name.
    Unknown {
        /// The name.
        name: String,
        /// The nearest that can be explained.
        did_you_mean: Option<String>,
    },
    /// A device or filesystem with settings, or a file, that is wrong.
    Device(DeviceError),
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplainError::Unknown { name, did_you_mean: Some(nearest) } => {
                write!(f, "nothing here is called {name}; did you mean {nearest}?")
            }
            ExplainError::Unknown { name, did_you_mean: None } => write!(
                f,
                "nothing here is called {name}; expected a parameter (t_prog), a device (`flashlab devices` lists all), \
                 a mechanism (merge) or an fio option (bs)"
            ),
            ExplainError::Device(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ExplainError {}

/// What `name` is: a parameter (`flash.t_prog`, `t_prog`), a device (`sd/kingston`, also with settings), a host, a
/// filesystem, a mechanism of the results, or else what `elsewhere` knows: the options of fio.
///
/// A name that is several things gets all of its explanations.
pub fn explain(
    name: &str,
    library: &Library,
    elsewhere: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ExplainError> {
    let parameters = Parameter::named(name).map(|p| parameter(p, library));
    let mechanisms = Mechanism::ALL.into_iter().filter(|m| m.name() == name).map(mechanism);
    let mut found: Vec<String> = parameters.chain(mechanisms).chain(elsewhere(name)).collect();
    found.extend(thing(name, library).map_err(ExplainError::Device)?);
    if found.is_empty() {
        let nearest = suggest(before_settings(name), names(library));
        return Err(ExplainError::Unknown { name: clip(name), did_you_mean: nearest.map(str::to_owned) });
    }
    Ok(found.join("\n"))
}

/// All that can be explained here.
fn names(library: &Library) -> Vec<&str> {
    let parameters = Parameter::all().iter().map(|p| p.path);
    let things = Kind::ALL.into_iter().flat_map(|kind| library.of_kind(kind)).map(|(name, _)| name);
    parameters.chain(things).chain(Mechanism::ALL.map(Mechanism::name)).collect()
}

/// A device, host or filesystem, with its settings; `None` if nothing of the sort has that name.
fn thing(name: &str, library: &Library) -> Result<Option<String>, DeviceError> {
    let as_host = name.strip_prefix("host/").unwrap_or(name);
    for kind in HOSTS {
        if let Ok(profile) = library.profile(kind, as_host) {
            return Ok(Some(host(as_host, profile)));
        }
    }
    let as_filesystem = name.strip_prefix("fs/").unwrap_or(name);
    let kind = match name.strip_suffix(".toml") {
        Some(_) => {
            let profile =
                Profile::parse(name, &read_file(Path::new(name))?).map_err(LibraryError::Profile)?;
            if HOSTS.contains(&profile.kind) {
                return Ok(Some(host(name, &profile)));
            }
            Some(profile.kind)
        }
        None if library.profile(Kind::Filesystem, before_settings(as_filesystem)).is_ok() => {
            Some(Kind::Filesystem)
        }
        None => library.device(before_settings(name)).ok().map(|profile| profile.kind),
    };
    Ok(match kind {
        Some(Kind::Filesystem) => Some(filesystem(&Filesystem::open(as_filesystem, library)?, library)),
        Some(_) => Some(device(&Device::open(name, library)?, library)),
        None => None,
    })
}

fn before_settings(argument: &str) -> &str {
    argument.split_once(':').map_or(argument, |(name, _)| name)
}

/// What devices are plugged into.
const HOSTS: [Kind; 2] = [Kind::Host, Kind::Pc];

/// One parameter, and its value in every profile.
fn parameter(parameter: &Parameter, library: &Library) -> String {
    let kinds: Vec<Kind> = Kind::ALL.into_iter().filter(|kind| kind.has(parameter)).collect();
    let mut text = format!("{}\n", parameter.path);
    paragraph(&mut text, 2, parameter.meaning);
    let range = match parameter.limits() {
        Some((least, most)) if parameter.range.1 < u64::MAX => format!(", {least} to {most}"),
        _ => String::new(),
    };
    let absent = parameter.absent.map_or(String::new(), |absent| format!(" Left out: {absent}."));
    let nouns: Vec<&str> = kinds.iter().map(|kind| kind.noun()).collect();
    let sentence = format!("Of {}: {}{range}.{absent}", or_list(&nouns), parameter.shape().kind());
    paragraph(&mut text, 2, &sentence);
    text.push('\n');
    let rows: Vec<_> = kinds
        .iter()
        .flat_map(|kind| library.of_kind(*kind))
        .filter_map(|(name, profile)| Some((name, profile.number(parameter.path)?)))
        .map(|(name, number)| [name.to_owned(), number.value.to_string(), number.source.to_string()])
        .collect();
    table(&mut text, &rows);
    if let Some([name, value, _]) = rows.first() {
        let example = match kinds[0] {
            Kind::Card | Kind::Ssd => format!("{name}:{}={value}", parameter.path),
            Kind::Host | Kind::Pc => format!("DEVICE:{}={value}", parameter.path),
            Kind::Filesystem => format!("--fs {name}:{}={value}", parameter.key()),
        };
        write!(text, "\n  Set it with {example}\n").expect("writing to a string");
    }
    text
}

fn device(device: &Device, library: &Library) -> String {
    let mut text = format!("{}: {}\n", device.argument, device.title);
    let kind = device.kind();
    let profile = library.device(&device.name).ok();
    let host = kind.host().and_then(|host| library.profile(host, &device.host_name).ok());
    notes(&mut text, profile);
    let noun = if kind == Kind::Ssd { "SSD" } else { "card" };
    write!(text, "\n  The {noun}\n").expect("writing to a string");
    let (own, machine): (Vec<_>, Vec<_>) =
        device.held().iter().partition(|held| kind.has(held.number.parameter));
    numbers(&mut text, own.into_iter().map(|held| &held.number));
    write!(text, "\n  The host, {}\n", device.host_name).expect("writing to a string");
    notes(&mut text, host);
    numbers(&mut text, machine.into_iter().map(|held| &held.number));
    text
}

fn host(name: &str, profile: &Profile) -> String {
    let mut text = format!("{name}: {}\n", profile.title);
    notes(&mut text, Some(profile));
    text.push('\n');
    numbers(&mut text, profile.numbers.iter());
    text
}

fn filesystem(filesystem: &Filesystem, library: &Library) -> String {
    let mut text = format!("{}: {}\n", filesystem.argument, filesystem.title);
    notes(&mut text, library.profile(Kind::Filesystem, &filesystem.name).ok());
    text.push('\n');
    numbers(&mut text, filesystem.held().iter().map(|Held { number, .. }| number));
    text
}

fn notes(text: &mut String, profile: Option<&Profile>) {
    if let Some(notes) = profile.and_then(|p| p.notes.as_deref()) {
        paragraph(text, 2, notes);
    }
}

/// A line for each number with its meaning, and one under it with its source.
fn numbers<'a>(text: &mut String, numbers: impl Iterator<Item = &'a Number>) {
    let mut rows = Vec::new();
    for number in numbers {
        let row = |path: String, value: String, words: &str| [path, value, words.to_owned()];
        rows.push(row(number.parameter.path.to_owned(), number.value.to_string(), number.parameter.meaning));
        rows.push(row(String::new(), String::new(), &number.source.to_string()));
    }
    table(text, &rows);
}

/// What a mechanism of the results stands for.
fn mechanism(mechanism: Mechanism) -> String {
    let (words, moved_by) = match mechanism {
        Mechanism::Bus => (
            "Time in which data and commands move over the wires between host and device, where nothing else was slower.",
            "card.modes, host.modes, host.bus_clock, host.bus_width; nvme.generation, nvme.lanes, nvme.payload",
        ),
        Mechanism::Host => (
            "The host's own work: building commands, interrupts, copies, the filesystem.",
            "host.command_max, host.t_request, host.t_command, host.t_block, vfat.t_unexplained",
        ),
        Mechanism::Firmware => (
            "The controller's processor: taking a command apart, deciding what it needs.",
            "nvme.t_command, nvme.t_command_write, nvme.t_command_unmapped",
        ),
        Mechanism::Program => (
            "Programming what the request wrote, as far as it did not overlap with the transfer, and making a partial \
             program unit durable.",
            "flash.page, flash.t_prog, flash.erase_block, flash.t_bers, ftl.program_unit, ftl.t_commit; nand.t_prog, \
             ftl.write_buffer, ftl.reserve",
        ),
        Mechanism::Read => (
            "Reading what the request asked for from the array.",
            "flash.t_read, flash.read_rate; nand.t_read, nand.channel_rate",
        ),
        Mechanism::ReadModifyWrite => (
            "Reading and rewriting a superblock because part of it was overwritten.",
            "ftl.superblock, ftl.map_unit, ftl.overwrite, flash.read_rate, flash.t_prog",
        ),
        Mechanism::Merge => (
            "Completing an open superblock that had to give way to another one.",
            "ftl.open_units, ftl.superblock, ftl.overwrite",
        ),
        Mechanism::Map => (
            "Loading mapping information that was not in the controller's memory.",
            "ftl.map_cache, ftl.map_page, ftl.map_unit; map.sram, map.t_load, map.t_hmb, map.loaders, pc.hmb",
        ),
        Mechanism::Queue => ("Waiting behind other requests.", "iodepth, numjobs"),
    };
    let mut text = format!("{}\n", mechanism.name());
    paragraph(&mut text, 2, "A part of a request's latency; the parts of a latency sum to it exactly.");
    paragraph(&mut text, 2, words);
    paragraph(&mut text, 2, &format!("Moved by: {moved_by}."));
    text
}

/// The listing of all devices, hosts and filesystems.
pub fn devices(library: &Library) -> String {
    let mut text = String::from("Devices\n");
    let devices: Vec<_> = library.devices().collect();
    let rows: Vec<_> = devices
        .iter()
        .map(|(name, card)| {
            let number = ["card.capacity", "ftl.capacity"].into_iter().find_map(|path| card.number(path));
            let capacity = number.map_or(String::new(), capacity);
            let host = card.host.as_deref().unwrap_or_default();
            let model = card.model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
            [name.to_string(), capacity, format!("{}{model}, on {host}", card.title)]
        })
        .collect();
    table(&mut text, &rows);
    for (heading, kinds) in [("Hosts", &HOSTS[..]), ("Filesystems", &[Kind::Filesystem])] {
        write!(text, "\n{heading}\n").expect("writing to a string");
        let row = |(name, profile): (&str, &Profile)| [name.to_owned(), profile.title.clone(), String::new()];
        let rows: Vec<_> = kinds.iter().flat_map(|kind| library.of_kind(*kind)).map(row).collect();
        table(&mut text, &rows);
    }
    text.push_str("\n`flashlab explain NAME` prints the numbers of one and where they come from.\n");
    text
}

/// In GB, as it stands on a card.
fn capacity(number: &Number) -> String {
    let bytes = number.value.magnitude().expect("a capacity is a size");
    if bytes >= 1_000_000_000 {
        return format!("{} GB", (bytes + 500_000_000) / 1_000_000_000);
    }
    format!("{} MB", (bytes + 500_000) / 1_000_000)
}

/// Rows of two narrow columns and one that wraps, two spaces in.
fn table(text: &mut String, rows: &[[String; 3]]) {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    let indent = 2 + first + 2 + second + 2;
    for [name, value, words] in rows {
        let mut line = String::new();
        paragraph(&mut line, indent, words);
        let head = format!("  {name:first$}  {value:second$}  ");
        match line.get(indent..) {
            Some(rest) => write!(text, "{head}{rest}"),
            None => writeln!(text, "{}", head.trim_end()),
        }
        .expect("writing to a string");
    }
}

/// `words` in lines of at most [`WIDTH`] characters, `indent` spaces in. A line break in them stays one.
fn paragraph(text: &mut String, indent: usize, words: &str) {
    let room = WIDTH.saturating_sub(indent).max(40);
    for line in words.lines() {
        let mut used = 0;
        for word in line.split_whitespace() {
            let length = word.chars().count();
            if used > 0 && used + 1 + length > room {
                text.push('\n');
                used = 0;
            }
            if used == 0 {
                text.extend(std::iter::repeat_n(' ', indent));
            } else {
                text.push(' ');
                used += 1;
            }
            text.push_str(word);
            used += length;
        }
        text.push('\n');
    }
}
