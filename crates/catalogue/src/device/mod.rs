//! Opens the devices and filesystems that arguments name.
//!
//! [`Device::open`] turns `sd/kingston:host=raspberry-pi-4,flash.t_prog=250us` into a device in a host that
//! can run. Every number of the device has a value and, unless it comes from a draft, a source; all checks
//! have passed. [`Filesystem::open`] does the same for filesystems (`vfat:align=4M`).
//!
//! `state=FILE` restores a used device: see [`State`].

mod argument;
mod codecs;
mod error;
mod filesystem;
mod free;
mod lookup;
mod numbers;
mod state;
mod undetermined;

pub use argument::{ArgumentError, ArgumentProblem};
pub use codecs::HostCodecs;
pub use error::DeviceError;
pub use filesystem::Filesystem;
pub use free::{free_codec_parameters, free_parameters};
pub(crate) use lookup::matches;
pub use numbers::SourcedNumber;
pub use state::{State, StateError};
pub use undetermined::Alternative;

use crate::kind::Hardware;
use crate::library::Library;
use crate::profile::{Kind, Source};
use crate::provenance;
use argument::{Argument, Scope};
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_host::{CodecParameters, PageCacheParameters};
use flashlab_sd::Card;
use flashlab_sim::{Duration, Model, Store};
use lookup::find;
use numbers::Numbers;
use std::any::Any;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A card, an eMMC device, a USB stick or an SSD in a host.
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
    codecs: CodecParameters,
    numbers: Numbers,
    /// Folder to which the paths in `argument` are relative; empty for the current one.
    folder: PathBuf,
}

impl Device {
    /// Opens the device that `argument` describes: `name`, `name:key=value,...`, or the path of a TOML file instead of
    /// a name.
    pub fn open(argument: &str, library: &Library) -> Result<Device, DeviceError> {
        Device::open_in(Path::new(""), argument, library)
    }

    /// Opens a device as [`Device::open`] does. Paths of profiles and of a state file in `argument` are
    /// relative to `folder`. Names in results do not contain `folder`.
    pub fn open_in(folder: &Path, argument: &str, library: &Library) -> Result<Device, DeviceError> {
        let argument = Argument::parse(argument)?;
        Device::assemble(&argument, argument.name(), folder, library, false)
    }

    /// Opens the devices whose names match a pattern, sorted by name: `sd/*`, `sd/s*:host=at91rm9200`. `*`
    /// stands for any characters, `?` for one. A pattern leaves out devices without timing if it also matches
    /// timed devices.
    pub fn open_all(pattern: &str, library: &Library) -> Result<Vec<Device>, DeviceError> {
        let argument = Argument::parse(pattern)?;
        if !argument.name().contains(['*', '?']) {
            let device = Device::assemble(&argument, argument.name(), Path::new(""), library, false)?;
            return Ok(vec![device]);
        }
        let (mut timed, mut untimed) = (Vec::new(), Vec::new());
        for device in Device::matching(&argument, library)? {
            if device.is_timed() { timed.push(device) } else { untimed.push(device) }
        }
        Ok(if timed.is_empty() { untimed } else { timed })
    }

    /// Returns the names of the devices that match a pattern but that [`Device::open_all`] leaves out.
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
        let assemble = |name| Device::assemble(argument, name, Path::new(""), library, false);
        matching.into_iter().map(assemble).collect()
    }

    /// Opens a device as [`Device::open`] does, for callers that save its state later. The device is new if the state
    /// file does not exist yet.
    pub fn open_or_create(argument: &str, library: &Library) -> Result<Device, DeviceError> {
        let argument = Argument::parse(argument)?;
        Device::assemble(&argument, argument.name(), Path::new(""), library, true)
    }

    fn assemble(
        argument: &Argument,
        name: &str,
        folder: &Path,
        library: &Library,
        may_be_new: bool,
    ) -> Result<Device, DeviceError> {
        let profile = find(argument.place_of_name(), (folder, name), &Kind::devices(), library)?;
        let kinds = [profile.kind, profile.kind.host().expect("a device has a host")];
        let settings = argument.settings(Scope::Kinds(&kinds))?;
        let (host_name, place) = match &settings.host {
            Some(span) => (argument.slice(span).to_owned(), argument.text.place(span.clone())),
            None => (profile.host.clone().expect("a device's profile names a host"), profile.host_place()),
        };
        let host = find(place, (folder, &host_name), &kinds[1..], library)?;
        library.check_fitted_cells(name, &profile)?;
        library.check_fitted_cells(&format!("host/{host_name}"), &host)?;
        let profiles = [(name.to_owned(), &profile), (format!("host/{host_name}"), &host)];
        let numbers = Numbers::merge(&profiles, &settings, argument);
        let parts = numbers.parts(argument, &kinds, &[&profile, &host])?;
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
            state_path: settings.state.as_ref().map(|span| folder.join(argument.slice(span))),
            kind: profile.kind,
            hardware: hardware.into(),
            page_cache: *parts.get(),
            codecs: *parts.get(),
            numbers,
            folder: folder.to_owned(),
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
        &self.numbers.set
    }

    /// Returns the numbers that an argument sets by key without a source, as pairs (path, value) in the order
    /// of the parameter table. The numbers that the argument removes follow, with the value `none`.
    pub fn overrides(&self) -> Vec<(&'static str, String)> {
        self.numbers.overrides()
    }

    /// Replaces the source of each number that the argument sets with the source that `sources` lists for its path.
    pub fn set_override_sources(&mut self, sources: &BTreeMap<String, Source>) {
        self.numbers.set_override_sources(sources);
    }

    /// Returns true if a number has no source because it was set by hand or its profile is a draft.
    pub fn lacks_source(&self) -> bool {
        self.numbers.lacks_source()
    }

    /// Returns the argument of the device, marked "(unsourced)" if its own profile or its host's profile is a draft.
    /// The argument itself shows the numbers that are set by hand.
    pub fn label(&self) -> String {
        let mark = if self.numbers.drafts().is_empty() { "" } else { " (unsourced)" };
        format!("{}{mark}", self.argument)
    }

    /// Returns remarks on drafts and on numbers set by hand, for readers of the device's results.
    pub fn remarks(&self) -> Vec<String> {
        let drafts = self.numbers.drafts().into_iter();
        let drafts = drafts.map(|draft| format!("unsourced: {draft} is a draft without [source]"));
        let set: Vec<String> =
            self.overrides().into_iter().map(|(path, value)| format!("{path} = {value}")).collect();
        let by_hand = (!set.is_empty()).then(|| format!("set by hand: {}", set.join(", ")));
        drafts.chain(by_hand).collect()
    }

    /// Returns every number in the form of a report.
    pub fn numbers(&self) -> Vec<provenance::Number> {
        self.numbers.report()
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
    /// their own. A drive keeps its host memory buffer.
    pub fn build_without_host(&self, seed: u64) -> Box<dyn Model> {
        self.restored(self.hardware.build_without_host(self.medium_seed(seed)))
    }

    /// Builds the card without its host, with the medium of `seed` or in the state that the argument names.
    /// The card stores data in `store`; without a store, it keeps no data. Returns `None` if the device is
    /// not an SD card.
    pub fn card(&self, seed: u64, store: Option<Box<dyn Store>>) -> Option<Card> {
        let mut card = self.hardware.build_card(self.medium_seed(seed), store)?;
        if let Some(state) = &self.state {
            card.restore(&state.model).expect("the state was restored once when the device was opened");
        }
        Some(card)
    }

    /// Returns the seed of the medium: that of the saved state if there is one, otherwise `seed`.
    pub fn medium_seed(&self, seed: u64) -> u64 {
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

    /// Returns true if the device is timed. Cards without timing serve to compare logs of commands; a table of times
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

    /// Returns the times of the host's processors for the codecs of a volume.
    pub fn codecs(&self) -> &CodecParameters {
        &self.codecs
    }

    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> u64 {
        self.hardware.capacity()
    }

    /// Returns the mean of `flash.t_read` or `nand.t_read`; `None` for a device with read-ahead, where a read
    /// of written data may need no access to the array.
    pub fn t_read(&self) -> Option<Duration> {
        self.hardware.t_read()
    }
}
