//! The kinds of things that profiles describe: one module each, registered in one line of `REGISTRY`.
//!
//! A kind consists of the parameters that its profiles set, the structs that the parameters fill, and a check
//! of these structs. A kind of device also builds models. In the rest of the catalogue, only `explain`
//! distinguishes kinds of device, by keys such as `card.capacity`.

mod card;
mod codec;
mod emmc;
mod filesystem;
mod machine;
mod page_cache;
mod pc;
mod ssd;
mod usb_port;
mod usb_stick;
mod wear;

pub use card::CardInHost;

use crate::profile::Parameter;
use flashlab_flash::Impossible;
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_sd::Card;
use flashlab_sim::{Duration, Model, Store};
use std::any::Any;
use std::fmt;

/// All kinds, in the order of listings.
static REGISTRY: &[&Definition] = &[
    &card::KIND,
    &emmc::KIND,
    &ssd::KIND,
    &usb_stick::KIND,
    &machine::KIND,
    &pc::KIND,
    &usb_port::KIND,
    &filesystem::KIND,
];

/// The definition of a kind.
struct Definition {
    /// Value of `kind` in a profile: `card`.
    name: &'static str,
    /// The kind with its article: `a card`.
    noun: &'static str,
    /// The kind in a sentence about one of its profiles: `card`, `SSD`.
    subject: &'static str,
    /// Folder of the kind's profiles under `profiles`: `sd/`.
    folder: &'static str,
    /// Sections that contain the kind's numbers.
    sections: &'static [&'static str],
    /// Parameters of the kind. Several kinds may share a table.
    tables: fn() -> &'static [&'static [Parameter]],
    role: Role,
    /// Inserts the structs that the parameters fill.
    blank: fn(&mut Parts),
    /// Rejects values that are impossible, and devices that are too large to simulate.
    check: fn(&Parts) -> Result<(), Impossible>,
}

/// The role of a kind in a run.
enum Role {
    Device(DeviceKind),
    /// A machine that devices are plugged into.
    Host,
    /// A filesystem between jobs and a device.
    Filesystem,
}

/// The properties of a kind of device.
struct DeviceKind {
    /// Kind of machine that the device is plugged into.
    host: &'static Definition,
    /// Name of a host of that kind, for messages.
    host_example: &'static str,
    /// True if the saved state of a device depends on the numbers of its host.
    state_includes_host: bool,
    /// Converts the parts to the parameters of a device in a host.
    hardware: fn(&Parts) -> Result<Box<dyn Hardware>, Impossible>,
}

/// The parameters of a device in its host, from which models are built.
pub trait Hardware: Any + fmt::Debug + Send + Sync {
    /// Builds a new device in its host with the medium of `seed`.
    fn build(&self, seed: u64) -> Box<dyn Model>;

    /// Builds a new device as [`build`](Hardware::build) does, but without the host's software time. A drive keeps its
    /// host memory buffer.
    fn build_without_host(&self, seed: u64) -> Box<dyn Model>;

    /// Builds a new card at the level of commands. The card stores data in `store`; without a store, it keeps no data.
    /// Returns `None` if the device is not an SD card.
    fn build_card(&self, seed: u64, store: Option<Box<dyn Store>>) -> Option<Card> {
        let _ = (seed, store);
        None
    }

    /// Returns false for a card without timing, whose array takes the shortest possible times.
    fn is_timed(&self) -> bool {
        true
    }

    /// Returns the addressable bytes.
    fn capacity(&self) -> u64;

    /// Returns the mean of `flash.t_read` or `nand.t_read`; `None` for a device with read-ahead, where a read
    /// of written data may need no access to the array.
    fn t_read(&self) -> Option<Duration>;

    /// Returns the policy of wear leveling.
    fn wear_leveling(&self) -> LevelingPolicy;
}

/// A kind of thing that a profile describes.
#[derive(Clone, Copy)]
pub struct Kind(&'static Definition);

impl Kind {
    /// Kind of filesystems.
    pub(crate) const FILESYSTEM: Kind = Kind(&filesystem::KIND);

    /// Returns all kinds, in the order of listings.
    pub fn all() -> impl Iterator<Item = Kind> + Clone {
        REGISTRY.iter().map(|definition| Kind(definition))
    }

    /// Returns the kinds of devices.
    pub(crate) fn devices() -> Vec<Kind> {
        Kind::all().filter(|kind| kind.is_device()).collect()
    }

    /// Returns the kinds of machines that devices are plugged into.
    pub(crate) fn hosts() -> impl Iterator<Item = Kind> + Clone {
        Kind::all().filter(|kind| kind.is_host())
    }

    /// Returns the kind whose profiles state `name` as their `kind`.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::all().find(|kind| kind.name() == name)
    }

    /// Returns the value of `kind` in a profile.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the sections that contain the numbers of this kind.
    pub(crate) const fn sections(self) -> &'static [&'static str] {
        self.0.sections
    }

    /// Returns the kind with its article: "a card".
    pub(crate) const fn noun(self) -> &'static str {
        self.0.noun
    }

    /// Returns the kind without an article, as in "unknown SSD x".
    pub(crate) const fn subject(self) -> &'static str {
        self.0.subject
    }

    /// Returns the folder of the kind's profiles under `profiles`.
    pub(crate) const fn folder(self) -> &'static str {
        self.0.folder
    }

    /// Returns the folder that names of profiles omit. Names of devices contain their folder.
    pub(crate) const fn omitted_folder(self) -> &'static str {
        if self.is_device() { "" } else { self.0.folder }
    }

    const fn device(self) -> Option<&'static DeviceKind> {
        match &self.0.role {
            Role::Device(device) => Some(device),
            Role::Host | Role::Filesystem => None,
        }
    }

    /// Returns the kind of machine that devices of this kind are plugged into; `None` if the kind is not a device.
    pub fn host(self) -> Option<Kind> {
        self.device().map(|device| Kind(device.host))
    }

    /// Returns the name of a host for devices of this kind; `None` if the kind is not a device.
    pub(crate) fn host_example(self) -> Option<&'static str> {
        self.device().map(|device| device.host_example)
    }

    /// Returns true if the saved state of a device of this kind depends on the numbers of its host.
    pub(crate) fn state_includes_host(self) -> bool {
        self.device().is_some_and(|device| device.state_includes_host)
    }

    /// Returns true if jobs can run on this kind.
    pub(crate) const fn is_device(self) -> bool {
        self.device().is_some()
    }

    /// Returns true if the profile describes a filesystem.
    pub(crate) const fn is_filesystem(self) -> bool {
        matches!(self.0.role, Role::Filesystem)
    }

    /// Returns true if devices are plugged into this kind.
    pub(crate) const fn is_host(self) -> bool {
        matches!(self.0.role, Role::Host)
    }

    /// Returns true if profiles of this kind contain `parameter`. Some parameters belong to several kinds.
    pub fn has(self, parameter: &Parameter) -> bool {
        parameter.kinds.contains(&self)
    }

    /// Returns the parameters of this kind, in the order of the parameter table.
    pub fn parameters(self) -> impl Iterator<Item = &'static Parameter> {
        Parameter::all().iter().filter(move |p| self.has(p))
    }

    /// Returns the tables of the kind's parameters.
    pub(crate) fn tables(self) -> &'static [&'static [Parameter]] {
        (self.0.tables)()
    }

    /// Rejects values that are impossible for this kind, and devices that are too large to simulate.
    pub(crate) fn check(self, parts: &Parts) -> Result<(), Impossible> {
        (self.0.check)(parts)
    }

    /// Converts the parts to the parameters of a device; `None` if the kind is not a device.
    pub(crate) fn hardware(self, parts: &Parts) -> Option<Result<Box<dyn Hardware>, Impossible>> {
        self.device().map(|device| (device.hardware)(parts))
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Kind) -> bool {
        self.name() == other.name()
    }
}
impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parameter structs that the numbers of profiles fill, one of each type. The numbers of a device and of
/// its host fill one `Parts`.
pub struct Parts(Vec<Box<dyn Any>>);

impl Parts {
    /// Returns the structs of all kinds without any parameter set. Mandatory sizes are zero, so the check of
    /// a device fails.
    pub fn blank() -> Parts {
        let mut parts = Parts(Vec::new());
        for definition in REGISTRY {
            (definition.blank)(&mut parts);
        }
        parts
    }

    /// Inserts a struct, unless another kind has inserted one of the same type.
    fn insert<T: Any>(&mut self, part: T) {
        if !self.0.iter().any(|other| other.is::<T>()) {
            self.0.push(Box::new(part));
        }
    }

    pub(crate) fn get<T: Any>(&self) -> &T {
        let mut found = self.0.iter().filter_map(|part| part.downcast_ref());
        found.next().expect("the kinds insert every struct that their parameters fill")
    }

    pub(crate) fn get_mut<T: Any>(&mut self) -> &mut T {
        let mut found = self.0.iter_mut().filter_map(|part| part.downcast_mut());
        found.next().expect("the kinds insert every struct that their parameters fill")
    }
}
