//! Filesystems between a job and a device: the trait, and the registry of models.
//!
//! A filesystem model is one file (or folder) here and one line in [`MODELS`]. The model declares its parameters, from
//! which the profile parser, `explain` and the overrides are generated. A profile in profiles/fs selects the model by
//! the name of its section.

mod parameters;
pub mod vfat;

pub use parameters::{FilesystemParameters, Parameter, Unit};

use alloc::boxed::Box;
use core::fmt;
use flashlab_flash::Impossible;
use flashlab_sim::{FileId, Instant, Model};

/// The filesystem models.
pub const MODELS: &[FilesystemModel] = &[vfat::MODEL];

/// Sections of a filesystem's profile: the names of the models.
pub const SECTIONS: [&str; MODELS.len()] = {
    let mut sections = [""; MODELS.len()];
    let mut n = 0;
    while n < MODELS.len() {
        sections[n] = MODELS[n].name;
        n += 1;
    }
    sections
};

/// A kind of filesystem, in the registry.
#[derive(Debug)]
pub struct FilesystemModel {
    /// Name of the model, and of its section in a profile.
    pub name: &'static str,
    /// The parameters, in the order of display.
    pub parameters: &'static [Parameter],
    /// Checks the parameters.
    pub check: fn(&FilesystemParameters) -> Result<(), Impossible>,
    /// Formats a device. Returns the mounted filesystem and the instant of completion, or `None` if the device is too
    /// small.
    pub format: Format,
}

/// Formats a device with a filesystem of these parameters, beginning at an instant.
pub type Format =
    fn(&FilesystemParameters, Box<dyn Model>, Instant) -> Option<(Box<dyn Filesystem>, Instant)>;

/// A mounted filesystem on a device. As a model, it is a device of files: a request names a [`FileId`] and an offset in
/// that file.
pub trait Filesystem: Model + CloneFilesystem {
    /// Returns the name of the filesystem's model.
    fn name(&self) -> &'static str;

    /// Returns true if jobs can trim files.
    fn supports_trim(&self) -> bool {
        false
    }

    /// Creates `file` after removing an existing file of that number, and allocates room for `bytes` as
    /// `allocate` says. Returns the instant at which all writes are complete. No request may be in flight.
    ///
    /// # Errors
    /// Returns the largest possible size if the file does not fit.
    fn create(
        &mut self,
        now: Instant,
        file: FileId,
        bytes: u64,
        allocate: Allocate,
    ) -> Result<Instant, NoRoom>;

    /// Removes `file` if it exists, and writes the metadata. Returns the instant of completion. No request may be in
    /// flight.
    fn remove(&mut self, now: Instant, file: FileId) -> Instant;

    /// Returns the size of `file` in bytes, if it exists.
    fn size(&self, file: FileId) -> Option<u64>;

    /// Returns the device below the filesystem.
    fn device(&self) -> &dyn Model;
}

/// Clones a `dyn Filesystem`. Every filesystem that is `Clone` implements it.
pub trait CloneFilesystem {
    /// Returns a copy of the filesystem and its device with all their state.
    fn clone_filesystem(&self) -> Box<dyn Filesystem>;
}

impl<F: Filesystem + Clone + 'static> CloneFilesystem for F {
    fn clone_filesystem(&self) -> Box<dyn Filesystem> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn Filesystem> {
    fn clone(&self) -> Self {
        (**self).clone_filesystem()
    }
}

/// Allocation of a new file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocate {
    /// Allocates no clusters or extents: the file is empty and grows as it is written.
    Nothing,
    /// Allocates the space; the size stays zero.
    KeepSize,
    /// Allocates the space and sets the size. A read returns zeroes, which a filesystem without unwritten
    /// extents has to write.
    Zeroed,
}

/// The filesystem has no room for a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoom {
    /// Name of the filesystem's model.
    pub filesystem: &'static str,
    /// Requested bytes.
    pub wanted: u64,
    /// Largest size that is possible, in bytes.
    pub most: u64,
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NoRoom { filesystem, wanted, most } = self;
        write!(f, "a {filesystem} file of {wanted} B does not fit; the limit here is {most} B")
    }
}
impl core::error::Error for NoRoom {}
