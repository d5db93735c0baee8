//! The devices at the bottom of a stack. [`REGISTRY`] lists the words with which an argument can begin, each
//! with a module. The program registers openers of devices outside this process, by the schemes of their
//! URIs. Any other argument names a simulated device of the catalogue.

mod directory;
mod edge;
mod file;
mod made;
mod memory;
mod simulated;
mod volume;

pub(crate) use made::Made;
#[cfg(feature = "image")]
pub use made::check_kept_changes;

use crate::argument::Part;
use crate::checksummed::ChecksummedStore;
use crate::closing::Closing;
use crate::error::{Problem, ServedError};
use crate::new_files::NewFiles;
use crate::sources::{Opener, Sources};
use flashlab_block::{BlockDevice, Geometry};
use flashlab_catalogue::device::Device;
use flashlab_sim::{Model, Store};
use std::io;
use std::sync::Arc;

/// Opens the device that a part of an argument describes.
type Open = fn(Part<'_>, &Opening<'_>) -> Result<Bottom, ServedError>;

/// The devices of this process that are not in the catalogue, by the word before the colon.
static REGISTRY: &[(&str, Open)] =
    &[("memory", memory::open), ("file", file::open), ("dir", directory::open), ("volume", volume::open)];

/// The conditions under which a device is opened.
pub(crate) struct Opening<'a> {
    /// Seed of the medium.
    pub(crate) seed: u64,
    /// True if nothing will write to the bytes.
    pub(crate) read_only_bytes: bool,
    /// True for a member of a volume.
    pub(crate) is_member: bool,
    /// The profiles, and the openers of devices outside this process.
    pub(crate) sources: Sources<'a>,
    /// The files that the opening creates.
    pub(crate) new_files: &'a NewFiles,
}

/// A device without layers.
pub(crate) struct Bottom {
    pub(crate) bytes: Box<dyn Bytes>,
    /// The model of a simulated device; `None` if the device has no timing of its own.
    pub(crate) simulated: Option<Simulated>,
    /// The bytes if they were made when the device was opened; `None` for all other bytes.
    pub(crate) made: Option<Made>,
    /// Background work, commands and closing of a volume; `None` for other devices.
    pub(crate) closing: Option<Arc<dyn Closing>>,
}

/// A simulated device and its model.
pub(crate) struct Simulated {
    pub(crate) device: Device,
    pub(crate) model: Box<dyn Model>,
    /// The store of a device with a state file; otherwise `None`.
    pub(crate) stored: Option<ChecksummedStore>,
}

/// The store of the bytes. It becomes a device without a model, or the store below a model.
pub(crate) trait Bytes {
    fn geometry(&self) -> Geometry;

    /// Converts the bytes to a device that answers as soon as it can.
    fn into_device(self: Box<Self>) -> io::Result<Arc<dyn BlockDevice>>;

    /// Converts the bytes to the store below a model.
    fn into_store(self: Box<Self>) -> Box<dyn Store>;
}

/// Returns true if `word` names a device of [`REGISTRY`].
pub(crate) fn is_registered(word: &str) -> bool {
    REGISTRY.iter().any(|(registered, _)| *registered == word)
}

/// Opens the device at the bottom of an argument.
pub(crate) fn open(part: Part<'_>, opening: &Opening<'_>) -> Result<Bottom, ServedError> {
    if part.word().is_empty() {
        return Err(part.error(Problem::NoName));
    }
    let has_scheme = |opener: &&Opener| opener.schemes.contains(&part.word());
    if let Some(opener) = opening.sources.openers.iter().find(has_scheme) {
        return edge::open(&part, opening.read_only_bytes, opener);
    }
    let registered = REGISTRY.iter().find(|(word, _)| *word == part.word());
    let open = registered.map_or(simulated::open as Open, |(_, open)| *open);
    open(part, opening)
}
