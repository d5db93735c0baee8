//! Devices and filesystems as arguments name them.
//!
//! [`Device::open`] turns `sd/kingston:host=raspberry-pi-4,flash.t_prog=250us` into a device that can run: a card or an
//! SSD in a host. Every number of the device has a value and a source, and all checks have passed. [`Filesystem::open`]
//! does the same for filesystems (`vfat:align=4M`).
//!
//! `state=FILE` restores a used device: see [`State`].

mod argument;
mod free;
mod state;
mod undetermined;

pub use argument::{ArgumentError, ArgumentProblem};
pub use free::free_parameters;
pub use state::{State, StateError};
pub use undetermined::Alternative;

use crate::kind::Hardware;
use crate::library::{Library, LibraryError, read_file};
use crate::profile::{Kind, Number, Parameter, Parts, Profile, Source};
use crate::provenance;
use argument::{Argument, Scope, Settings};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_host::{FilesystemParameters, PageCacheParameters};
use flashlab_sd::Card;
use flashlab_sim::{Duration, Model, Store};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A card or an SSD in a host.
#[derive(Clone, Debug)]
pub struct Device {
    /// Name of the device's profile, or path of its file: `sd/kingston`.
    pub name: String,
    /// The argument that selected the device: `sd/kingston:flash.t_prog=250us`.
    pub argument: String,
    /// Full name of the product.
    pub title: String,
    /// Name of the host's profile, or path of its file.
    pub host_name: String,
    /// Saved state that the device starts from; `None` for a new device.
    pub state: Option<Arc<State>>,
    /// Path of the state file. [`Device::open_or_create`] sets it even if the file does not exist yet.
    pub state_path: Option<PathBuf>,
    kind: Kind,
    hardware: Arc<dyn Hardware>,
    page_cache: PageCacheParameters,
    numbers: Vec<SourcedNumber>,
    none: Vec<RemovedParameter>,
}

/// A filesystem between a job and a device.
#[derive(Clone, Debug)]
pub struct Filesystem {
    /// Name of the filesystem's profile, or path of its file.
    pub name: String,
    /// The argument that selected the filesystem: `vfat:align=4M`.
    pub argument: String,
    /// Full name of the filesystem.
    pub title: String,
    /// Parameters of the filesystem.
    pub parameters: FilesystemParameters,
    numbers: Vec<SourcedNumber>,
    none: Vec<RemovedParameter>,
}

/// A number and the profile that it belongs to.
#[derive(Clone, PartialEq, Debug)]
pub struct SourcedNumber {
    /// Name of the profile with its folder: `sd/kingston`, `host/raspberry-pi-4`, `fs/vfat`.
    pub profile: String,
    /// The number from the profile, or the one that the argument sets instead.
    pub number: Number,
}

/// An optional number that an argument removes.
#[derive(Clone, Debug)]
struct RemovedParameter {
    profile: String,
    parameter: &'static Parameter,
    source: Source,
}

impl Device {
    /// Opens the device that `argument` describes: `name`, `name:key=value,...`, or the path of a TOML file instead of
    /// a name.
    pub fn open(argument: &str, library: &Library) -> Result<Device, DeviceError> {
        let argument = Argument::parse(argument)?;
        Device::assemble(&argument, argument.name(), library, false)
    }

    /// Opens the devices whose names match a pattern, sorted by name: `sd/*`, `sd/s*:host=at91rm9200`. `*` stands for
    /// any characters, `?` for one. A pattern leaves out devices without timing, unless it matches no others.
    pub fn open_all(pattern: &str, library: &Library) -> Result<Vec<Device>, DeviceError> {
        let argument = Argument::parse(pattern)?;
        if !argument.name().contains(['*', '?']) {
            return Device::assemble(&argument, argument.name(), library, false).map(|device| vec![device]);
        }
        let (mut timed, mut untimed) = (Vec::new(), Vec::new());
        for device in Device::matching(&argument, library)? {
            if device.is_timed() { timed.push(device) } else { untimed.push(device) }
        }
        Ok(if timed.is_empty() { untimed } else { timed })
    }

    /// Returns the names of the devices that a pattern matches and [`Device::open_all`] leaves out.
    pub fn untimed(pattern: &str, library: &Library) -> Result<Vec<String>, DeviceError> {
        let argument = Argument::parse(pattern)?;
        if !argument.name().contains(['*', '?']) {
            return Ok(Vec::new());
        }
        let matching = Device::matching(&argument, library)?;
        let untimed = matching.iter().filter(|device| !device.is_timed());
        let names: Vec<String> = untimed.map(|device| device.name.clone()).collect();
        Ok(if names.len() == matching.len() { Vec::new() } else { names })
    }

    /// Opens all devices whose names match the pattern of `argument`, with or without timing.
    fn matching(argument: &Argument, library: &Library) -> Result<Vec<Device>, DeviceError> {
        let names = library.devices().map(|(name, _)| name);
        let matching: Vec<_> = names.filter(|name| matches(argument.name(), name)).collect();
        if matching.is_empty() {
            return Err(DeviceError::NoMatch { pattern: crate::units::clip(argument.name()) });
        }
        matching.into_iter().map(|name| Device::assemble(argument, name, library, false)).collect()
    }

    /// Opens a device as [`Device::open`] does, for callers that save its state later. The device is new if the state
    /// file does not exist yet.
    pub fn open_or_create(argument: &str, library: &Library) -> Result<Device, DeviceError> {
        let argument = Argument::parse(argument)?;
        Device::assemble(&argument, argument.name(), library, true)
    }

    fn assemble(
        argument: &Argument,
        name: &str,
        library: &Library,
        may_be_new: bool,
    ) -> Result<Device, DeviceError> {
        let profile = find(argument, &argument.name, name, &Kind::devices(), library)?;
        let kinds = [profile.kind, profile.kind.host().expect("a device has a host")];
        let settings = argument.settings(Scope::Kinds(&kinds))?;
        let host_span = settings.host.clone().unwrap_or(argument.name.clone());
        let host_name = match &settings.host {
            Some(span) => argument.slice(span).to_owned(),
            None => profile.host.clone().expect("a device's profile names a host"),
        };
        let host = find(argument, &host_span, &host_name, &kinds[1..], library)?;
        library.check_fitted_cells(name, &profile)?;
        library.check_fitted_cells(&format!("host/{host_name}"), &host)?;
        let profiles = [(name.to_owned(), &profile), (format!("host/{host_name}"), &host)];
        let (numbers, none) = numbers(&profiles, &settings, argument);
        let parts = parts(argument, &kinds, &numbers, &[&profile, &host])?;
        let hardware = profile
            .kind
            .hardware(&parts)
            .expect("`find` returns devices")
            .expect("`parts` checks the parameters");
        let mut device = Device {
            name: name.to_owned(),
            argument: format!("{name}{}", &argument.text.text[argument.name.end..]),
            title: profile.full_title(),
            host_name,
            state: None,
            state_path: settings.state.as_ref().map(|span| PathBuf::from(argument.slice(span))),
            kind: profile.kind,
            hardware: hardware.into(),
            page_cache: *parts.get(),
            numbers,
            none,
        };
        if let Some(path) = device.state_path.clone().filter(|path| !may_be_new || path.exists()) {
            let state = State::read(&path)?;
            state.check_compatible(&device)?;
            device.state = Some(Arc::new(state));
        }
        Ok(device)
    }

    /// Returns every number of the device and its host, in the order of the parameter table.
    pub fn sourced_numbers(&self) -> &[SourcedNumber] {
        &self.numbers
    }

    /// Returns the numbers that an argument sets by key without a source, as (path, value) in the order of the
    /// parameter table. Removed numbers follow with the value `none`.
    pub fn overrides(&self) -> Vec<(&'static str, String)> {
        overrides(&self.numbers, &self.none)
    }

    /// Replaces the source of each number that the argument sets with the source that `sources` lists for its path.
    pub fn set_override_sources(&mut self, sources: &BTreeMap<String, Source>) {
        set_override_sources(&mut self.numbers, &mut self.none, sources);
    }

    /// Returns true if a number has no source because it was set by hand or its profile is a draft.
    pub fn lacks_source(&self) -> bool {
        lacks_source(&self.numbers, &self.none)
    }

    /// Returns the argument of the device, marked "(unsourced)" if its own profile or its host's profile is a draft.
    /// The argument itself shows the numbers that are set by hand, which [`Device::lacks_source`] counts too.
    pub fn label(&self) -> String {
        let draft = self.numbers.iter().any(|sourced| sourced.number.source == Source::Unsourced);
        format!("{}{}", self.argument, if draft { " (unsourced)" } else { "" })
    }

    /// Returns remarks on the device's numbers that a reader of its results should know, one sentence each.
    pub fn remarks(&self) -> Vec<String> {
        let mut drafts: Vec<&str> = Vec::new();
        for sourced in self.numbers.iter().filter(|sourced| sourced.number.source == Source::Unsourced) {
            if !drafts.contains(&sourced.profile.as_str()) {
                drafts.push(&sourced.profile);
            }
        }
        let drafts =
            drafts.into_iter().map(|draft| format!("unsourced: {draft} is a draft without [source]"));
        let set: Vec<String> =
            self.overrides().into_iter().map(|(path, value)| format!("{path} = {value}")).collect();
        let by_hand = (!set.is_empty()).then(|| format!("set by hand: {}", set.join(", ")));
        drafts.chain(by_hand).collect()
    }

    /// Returns every number in the form of a report.
    pub fn numbers(&self) -> Vec<provenance::Number> {
        self.numbers.iter().map(|sourced| sourced.number.report()).collect()
    }

    /// Returns the device in the form of a report.
    pub fn report(&self) -> provenance::Device {
        provenance::Device { name: self.argument.clone(), title: self.title.clone(), numbers: self.numbers() }
    }

    /// Builds a new device with the medium of `seed`. If the argument names a state file, the device starts in that
    /// state, with the medium of that state.
    pub fn build(&self, seed: u64) -> Box<dyn Model> {
        self.restored(self.hardware.build(self.medium_seed(seed)))
    }

    /// Builds the device as [`Device::build`] does, but without the host's software time, for callers with a host of
    /// their own. Memory that a host lends to a drive remains.
    pub fn build_without_host(&self, seed: u64) -> Box<dyn Model> {
        self.restored(self.hardware.build_without_host(self.medium_seed(seed)))
    }

    /// Builds the card without its host, with the medium of `seed` or in the state that the argument names. The card
    /// stores data in `store`, or no data at all. Returns `None` if the device is not a card.
    pub fn card(&self, seed: u64, store: Option<Box<dyn Store>>) -> Option<Card> {
        let mut card = self.hardware.build_card(self.medium_seed(seed), store)?;
        if let Some(state) = &self.state {
            card.restore(&state.model).expect("the state was restored once when the device was opened");
        }
        Some(card)
    }

    /// Returns the seed of the medium: that of the saved state if there is one, otherwise `seed`.
    fn medium_seed(&self, seed: u64) -> u64 {
        self.state.as_ref().map_or(seed, |state| state.seed)
    }

    fn restored(&self, mut model: Box<dyn Model>) -> Box<dyn Model> {
        if let Some(state) = &self.state {
            model.restore(&state.model).expect("the state was restored once when the device was opened");
        }
        model
    }

    /// Returns the parameters of the device in its host, if they have the type `T`: [`CardInHost`] for a card,
    /// [`SsdParameters`](flashlab_nvme::SsdParameters) for an SSD.
    ///
    /// [`CardInHost`]: crate::kind::CardInHost
    pub fn hardware<T: Hardware>(&self) -> Option<&T> {
        let hardware: &dyn Any = &*self.hardware;
        hardware.downcast_ref()
    }

    /// Returns true if the device is timed. Cards without timing exist to compare commands with; a table of times
    /// leaves them out.
    pub(crate) fn is_timed(&self) -> bool {
        self.hardware.is_timed()
    }

    /// Returns the kind of the device.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the simulated time for which the device was used before.
    pub fn used_time(&self) -> Duration {
        self.state.as_ref().map_or(Duration::ZERO, |state| state.used)
    }

    /// Returns the difference of erase counts at which static wear leveling moves data; `None` if wear leveling is not
    /// static.
    pub fn leveling_threshold(&self) -> Option<u32> {
        match self.hardware.wear_leveling() {
            LevelingPolicy::Static { threshold, .. } => Some(threshold),
            _ => None,
        }
    }

    /// Returns the page cache of the host.
    pub fn page_cache(&self) -> &PageCacheParameters {
        &self.page_cache
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.hardware.capacity()
    }

    /// Returns the mean read time of the array.
    pub fn t_read(&self) -> Duration {
        self.hardware.t_read()
    }
}

impl Filesystem {
    /// Opens the filesystem that `argument` describes: `vfat`, `vfat:align=4M,cluster=32K`, or the path of a TOML file.
    pub fn open(argument: &str, library: &Library) -> Result<Filesystem, DeviceError> {
        let argument = Argument::parse(argument)?;
        let name = argument.name();
        let profile = find(&argument, &argument.name, name, &[Kind::FILESYSTEM], library)?;
        let settings = argument.settings(Scope::FilesystemModel(profile.filesystem_model()))?;
        library.check_fitted_cells(&format!("fs/{name}"), &profile)?;
        let (numbers, none) = numbers(&[(format!("fs/{name}"), &profile)], &settings, &argument);
        let parts = parts(&argument, &[Kind::FILESYSTEM], &numbers, &[&profile])?;
        Ok(Filesystem {
            name: name.to_owned(),
            argument: argument.text.text.clone(),
            title: profile.full_title(),
            parameters: parts.get::<FilesystemParameters>().clone(),
            numbers,
            none,
        })
    }

    /// Replaces the source of each number that the argument sets with the source that `sources` lists for its path.
    pub fn set_override_sources(&mut self, sources: &BTreeMap<String, Source>) {
        set_override_sources(&mut self.numbers, &mut self.none, sources);
    }

    /// Returns true if a number has no source because it was set by hand or its profile is a draft.
    pub fn lacks_source(&self) -> bool {
        lacks_source(&self.numbers, &self.none)
    }

    /// Returns every number of the filesystem with the profile that it belongs to.
    pub fn sourced_numbers(&self) -> &[SourcedNumber] {
        &self.numbers
    }

    /// Returns every number in the form of a report.
    pub fn numbers(&self) -> Vec<provenance::Number> {
        self.numbers.iter().map(|sourced| sourced.number.report()).collect()
    }

    /// Returns the filesystem in the form of a report.
    pub fn report(&self) -> provenance::Device {
        provenance::Device { name: self.argument.clone(), title: self.title.clone(), numbers: self.numbers() }
    }
}

/// Returns the numbers that were set by hand, then the removed ones with the value `none`.
fn overrides(numbers: &[SourcedNumber], none: &[RemovedParameter]) -> Vec<(&'static str, String)> {
    let set =
        numbers.iter().map(|sourced| &sourced.number).filter(|n| matches!(n.source, Source::SetByKey(_)));
    let set = set.map(|n| (n.parameter.path, n.value.to_string()));
    let none = none.iter().filter(|n| matches!(n.source, Source::SetByKey(_)));
    set.chain(none.map(|n| (n.parameter.path, "none".to_owned()))).collect()
}

fn set_override_sources(
    numbers: &mut [SourcedNumber],
    none: &mut [RemovedParameter],
    sources: &BTreeMap<String, Source>,
) {
    let set = numbers.iter_mut().map(|sourced| (sourced.number.parameter, &mut sourced.number.source));
    for (parameter, source) in set.chain(none.iter_mut().map(|n| (n.parameter, &mut n.source))) {
        if let (Source::SetByKey(_), Some(known)) = (&source, sources.get(parameter.path)) {
            source.clone_from(known);
        }
    }
}

fn lacks_source(numbers: &[SourcedNumber], none: &[RemovedParameter]) -> bool {
    let sources = numbers.iter().map(|sourced| &sourced.number.source).chain(none.iter().map(|n| &n.source));
    sources.filter_map(Source::free).any(|kind| kind.lacks_source())
}

/// Returns the profile from the library, or from disk if `name` ends in `.toml`. The profile must be of one of `kinds`.
fn find(
    argument: &Argument,
    span: &Range<usize>,
    name: &str,
    kinds: &[Kind],
    library: &Library,
) -> Result<Profile, DeviceError> {
    if name.ends_with(".toml") {
        let profile = Profile::parse(name, &read_file(Path::new(name))?).map_err(LibraryError::Profile)?;
        if !kinds.contains(&profile.kind) {
            let expected = kinds.to_vec();
            let problem = ArgumentProblem::WrongKind { file: name.to_owned(), found: profile.kind, expected };
            return Err(argument.error_at(span.clone(), problem).into());
        }
        return Ok(profile);
    }
    let found = match kinds {
        [kind] if !kind.is_device() => library.profile(*kind, name),
        _ => library.device(name),
    };
    let found = found.cloned();
    let other = Kind::all().find(|kind| library.profile(*kind, name).is_ok());
    if let (Err(_), Some(other)) = (&found, other) {
        let problem =
            ArgumentProblem::WrongKind { file: name.to_owned(), found: other, expected: kinds.to_vec() };
        return Err(argument.error_at(span.clone(), problem).into());
    }
    found.map_err(|unknown| argument.error_at(span.clone(), ArgumentProblem::Unknown(unknown)).into())
}

/// Merges the numbers of the profiles with `settings`. Returns the resulting numbers in the order of the parameter
/// table, and the removed ones.
fn numbers(
    profiles: &[(String, &Profile)],
    settings: &Settings,
    argument: &Argument,
) -> (Vec<SourcedNumber>, Vec<RemovedParameter>) {
    let profile_of = |parameter: &Parameter| {
        let mut profiles = profiles.iter().filter(|(_, profile)| profile.kind.has(parameter));
        profiles.next().map(|(name, _)| name.clone()).expect("the parameter was looked up in their kinds")
    };
    let mut numbers = Vec::new();
    for parameter in Parameter::all().iter().filter(|p| !settings.none.iter().any(|n| n.path == p.path)) {
        let in_profile = |(name, profile): &(String, &Profile)| {
            let number = profile.number(parameter.path)?.clone();
            Some(SourcedNumber { profile: name.clone(), number })
        };
        let given = settings.numbers.iter().find(|n| n.parameter.path == parameter.path);
        let given = given.map(|n| SourcedNumber { profile: profile_of(parameter), number: n.clone() });
        numbers.extend(given.or_else(|| profiles.iter().find_map(in_profile)));
    }
    let none = settings.none.iter().map(|parameter| RemovedParameter {
        profile: profile_of(parameter),
        parameter,
        source: Source::SetByKey(argument.text.text.clone()),
    });
    (numbers, none.collect())
}

/// Fills the parts from `numbers` and checks them. Each profile alone passed the same checks when it was read, so an
/// error results from the argument.
fn parts(
    argument: &Argument,
    kinds: &[Kind],
    numbers: &[SourcedNumber],
    profiles: &[&Profile],
) -> Result<Parts, ArgumentError> {
    let mut parts = Parts::blank();
    for SourcedNumber { number, .. } in numbers {
        number.parameter.set(&mut parts, &number.value);
    }
    for kind in kinds {
        let Err(impossible) = kind.check(&parts) else { continue };
        let number =
            numbers.iter().map(|sourced| &sourced.number).find(|n| n.parameter.path == impossible.path);
        let given = number.filter(|n| matches!(n.source, Source::SetByKey(_)));
        let line = |number: &Number| {
            let profile = profiles.iter().find(|p| p.number(number.parameter.path).is_some());
            profile.filter(|_| given.is_none()).map(|p| p.line_of(number))
        };
        let span = given.map_or_else(|| argument.settings_span(), |n| n.span.clone());
        let value = number.map(|n| (n.value.to_string(), line(n)));
        return Err(argument.error_at(span, ArgumentProblem::Impossible { impossible, value }));
    }
    Ok(parts)
}

/// Returns true if `name` matches `pattern`, in which `*` stands for any characters and `?` for one.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut retry = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(c) if *c == '?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    (p, n) = (star + 1, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// An error while opening a device or a filesystem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// The argument is invalid.
    Argument(ArgumentError),
    /// A profile that the argument names is invalid or cannot be read.
    File(LibraryError),
    /// The state file cannot be used.
    State(StateError),
    /// No name of a device matches the pattern.
    NoMatch {
        /// The pattern.
        pattern: String,
    },
}

impl From<ArgumentError> for DeviceError {
    fn from(error: ArgumentError) -> Self {
        DeviceError::Argument(error)
    }
}

impl From<StateError> for DeviceError {
    fn from(error: StateError) -> Self {
        DeviceError::State(error)
    }
}

impl From<LibraryError> for DeviceError {
    fn from(error: LibraryError) -> Self {
        DeviceError::File(error)
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Argument(error) => error.fmt(f),
            DeviceError::File(error) => error.fmt(f),
            DeviceError::State(error) => error.fmt(f),
            DeviceError::NoMatch { pattern } => {
                write!(f, "no device matches {pattern}; `flashlab devices` lists all")
            }
        }
    }
}

impl std::error::Error for DeviceError {}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("sd/*", "sd/kingston", true),
            ("sd/*", "usb/x", false),
            ("*", "sd/kingston", true),
            ("sd/k?oxia", "sd/kioxia", true),
            ("sd/sandisk", "sd/sandisk-2gb", false),
            ("*sk*b", "sd/sandisk-2gb", true),
            ("sd/*x", "sd/kioxia", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
