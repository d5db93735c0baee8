//! The files of a device with a state file: FILE with the state, FILE.bytes, FILE.sums, and FILE.journal while the
//! device is served.
//!
//! The state records whether bytes belong to it. Bytes belong to the state of a device that has been served,
//! but not to a state that `flashlab age` wrote. An incomplete set of files is rejected, because a device
//! with zeroes as its bytes, or with new flash, would seem to work.
//!
//! New bytes have temporary names until their state is written. Whenever a process dies, the next process finds either
//! a complete device or none.

use crate::checksummed::ChecksummedStore;
use crate::error::ServedError;
use crate::journal;
use flashlab_block::{Access, File, sync_folder_of};
use flashlab_catalogue::device::Device;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The paths of the files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    state: PathBuf,
    bytes: PathBuf,
    sums: PathBuf,
}

/// The reason why the files of a device cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceFilesError {
    /// The bytes exist, but the state file does not.
    NoState {
        /// The state file.
        state: PathBuf,
        /// The file of bytes.
        bytes: PathBuf,
    },
    /// A file that belongs to the state is missing.
    Missing {
        /// The state file.
        state: PathBuf,
        /// The missing file.
        path: PathBuf,
    },
    /// The bytes lie beside a state to which no bytes belong.
    NotOfState {
        /// The state file.
        state: PathBuf,
        /// The file of bytes.
        bytes: PathBuf,
    },
    /// A file has the wrong size.
    Size {
        /// The file.
        path: PathBuf,
        /// Size of the file in bytes.
        found: u64,
        /// Size with which the file was created, in bytes.
        expected: u64,
    },
    /// The file of checksums has an invalid header.
    NoSums {
        /// The file.
        path: PathBuf,
    },
    /// The journal is damaged before its end, or has another version.
    Journal {
        /// The file.
        path: PathBuf,
        /// Number of the damaged line.
        line: usize,
    },
}

impl std::error::Error for DeviceFilesError {}

impl fmt::Display for DeviceFilesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceFilesError::NoState { state, bytes } => write!(
                f,
                "{}: the state file is missing, but the bytes of the device are in {}: restore the state file, or delete the \
                 bytes to begin with a new device",
                state.display(),
                bytes.display()
            ),
            DeviceFilesError::Missing { state, path } => write!(
                f,
                "{}: the file is missing; it belongs to the state file {}: restore it, or delete the state file and the files \
                 beside it to begin with a new device",
                path.display(),
                state.display()
            ),
            DeviceFilesError::NotOfState { state, bytes } => write!(
                f,
                "{}: these bytes do not belong to {}, a state without bytes that `flashlab age` wrote: move or delete \
                 them to begin with zeroes",
                bytes.display(),
                state.display()
            ),
            DeviceFilesError::Size { path, found, expected } => write!(
                f,
                "{}: it has {found} bytes instead of {expected}: restore a complete copy, or delete the state file and the \
                 files beside it to begin with a new device",
                path.display()
            ),
            DeviceFilesError::NoSums { path } => write!(
                f,
                "{}: the header of the file of checksums is invalid: the file is damaged, or from another version of flashlab; \
                 restore a copy, or delete the state file and the files beside it to begin with a new device",
                path.display()
            ),
            DeviceFilesError::Journal { path, line } => write!(
                f,
                "{}:{line}: the line is damaged, or the journal is from another version of flashlab: restore a copy of the \
                 journal, or delete it to continue with the wear of the last state",
                path.display()
            ),
        }
    }
}

impl Files {
    /// Returns the paths that belong to the state file `state`.
    pub(super) fn of(state: &Path) -> Files {
        Files { state: state.to_owned(), bytes: beside(state, ".bytes"), sums: beside(state, ".sums") }
    }

    /// Returns the names of all files that belong to the state, also the temporary ones.
    pub(super) fn names(&self) -> [PathBuf; 6] {
        let Files { state, bytes, sums } = self;
        [state.clone(), bytes.clone(), sums.clone(), new(bytes), new(sums), journal::of(state)]
    }

    /// Opens the bytes of `device`, whose state has been read. New bytes have temporary names until
    /// [`Files::commit`].
    pub(super) fn open(&self, device: &Device) -> Result<ChecksummedStore, ServedError> {
        let (state, bytes, capacity) = (self.state.clone(), self.bytes.clone(), device.capacity());
        let there = bytes.exists();
        match &device.state {
            None if there => return Err(DeviceFilesError::NoState { state, bytes }.into()),
            Some(saved) if !saved.has_bytes && there => {
                return Err(DeviceFilesError::NotOfState { state, bytes }.into());
            }
            Some(saved) if saved.has_bytes => {}
            None | Some(_) => return self.create(capacity),
        }
        if !there && new(&bytes).exists() {
            // The previous process died between writing the state and renaming the bytes.
            self.commit().map_err(|error| ServedError::System { path: bytes.clone(), error })?;
        }
        for path in [&bytes, &self.sums] {
            if !path.exists() {
                return Err(DeviceFilesError::Missing { state, path: path.clone() }.into());
            }
        }
        let found = fs::metadata(&bytes).map_or(0, |there| there.len());
        if found != capacity {
            return Err(DeviceFilesError::Size { path: bytes, found, expected: capacity }.into());
        }
        let held = File::open(&bytes, Some(capacity), Access::Cached, false)?;
        let checksummed = ChecksummedStore::new(
            held,
            ChecksummedStore::open_sums(&self.sums, capacity, false)?,
            &bytes,
            capacity,
        );
        checksummed.resume(&self.sums)?;
        Ok(checksummed)
    }

    fn create(&self, capacity: u64) -> Result<ChecksummedStore, ServedError> {
        let (bytes, sums) = (new(&self.bytes), new(&self.sums));
        for path in [&bytes, &sums] {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ServedError::System { path: path.clone(), error });
                }
                _ => {}
            }
        }
        let held = File::open(&bytes, Some(capacity), Access::Cached, false)?;
        let sums = ChecksummedStore::open_sums(&sums, capacity, true)?;
        let checksummed = ChecksummedStore::new(held, sums, &self.bytes, capacity);
        let failed = |error| ServedError::System { path: self.sums.clone(), error: io::Error::other(error) };
        checksummed.close().map_err(failed)?;
        Ok(checksummed)
    }

    /// Renames new bytes to their final names, once their state is written.
    pub(super) fn commit(&self) -> io::Result<()> {
        // The bytes are renamed last: as long as their final name is missing, the renaming is incomplete.
        match fs::rename(new(&self.sums), &self.sums) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.sums.exists() => {}
            renamed => renamed?,
        }
        sync_folder_of(&self.sums)?;
        fs::rename(new(&self.bytes), &self.bytes)?;
        sync_folder_of(&self.bytes)
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// Returns the temporary name of a new file.
fn new(path: &Path) -> PathBuf {
    beside(path, ".new")
}
