//! The files of a kept device: FILE with the state, FILE.bytes, FILE.sums, and while it is served FILE.journal.
//!
//! A state says whether bytes belong to it: they do once the device was served, and not when `flashlab age` made it. Files of which
//! one is missing are refused, since a device that begins with zeroes, or with new flash, would look like one that works.
//!
//! New bytes lie under other names until the state that they belong to is written. Whenever a process dies, the next one finds a
//! device that is complete, or none.

use super::error::ServedError;
use super::summed::Summed;
use crate::device::Device;
use flashlab_block::{Access, File};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The names of the files.
#[derive(Clone, Debug)]
pub(super) struct Files {
    state: PathBuf,
    bytes: PathBuf,
    sums: PathBuf,
}

/// Why kept files cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeptError {
    /// Bytes without a state.
    NoState {
        /// The state.
        state: PathBuf,
        /// The bytes.
        bytes: PathBuf,
    },
    /// A state without one of its files.
    Missing {
        /// The state.
        state: PathBuf,
        /// The file that is not there.
        path: PathBuf,
    },
    /// Bytes beside a state that has none.
    NotOfState {
        /// The state.
        state: PathBuf,
        /// The bytes.
        bytes: PathBuf,
    },
    /// A file of another size.
    Size {
        /// The file.
        path: PathBuf,
        /// Its bytes.
        found: u64,
        /// The bytes that it was made with.
        expected: u64,
    },
    /// A file of checksums that is none.
    NoSums {
        /// The file.
        path: PathBuf,
    },
    /// A journal that is damaged before its end.
    Journal {
        /// The file.
        path: PathBuf,
        /// The damaged line.
        line: usize,
    },
}

impl std::error::Error for KeptError {}

impl fmt::Display for KeptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptError::NoState { state, bytes } => write!(
                f,
                "{}: the state of a kept device is missing, but its bytes are in {}: put the state back, or delete the bytes to begin \
                 with a new device",
                state.display(),
                bytes.display()
            ),
            KeptError::Missing { state, path } => write!(
                f,
                "{}: the file is missing; it belongs to the kept device {}: put it back, or delete that file and the files beside it to \
                 begin with a new device",
                path.display(),
                state.display()
            ),
            KeptError::NotOfState { state, bytes } => write!(
                f,
                "{}: these bytes do not belong to {}, a state without bytes (`flashlab age` made it): move or delete them to begin with \
                 zeroes",
                bytes.display(),
                state.display()
            ),
            KeptError::Size { path, found, expected } => write!(
                f,
                "{}: it has {found} bytes, and was made with {expected}: put a whole copy back, or delete the state and the files \
                 beside it to begin with a new device",
                path.display()
            ),
            KeptError::NoSums { path } => write!(
                f,
                "{}: no checksums of a kept device: the file is damaged, or of another version of flashlab; put a copy back, or delete \
                 the state and the files beside it to begin with a new device",
                path.display()
            ),
            KeptError::Journal { path, line } => write!(
                f,
                "{}:{line}: the line is damaged, and lines behind it are not: put a copy of the journal back; without it (delete it) the \
                 device has the wear of its last state",
                path.display()
            ),
        }
    }
}

impl Files {
    /// Of the state at `state`.
    pub(super) fn of(state: &Path) -> Files {
        Files { state: state.to_owned(), bytes: beside(state, ".bytes"), sums: beside(state, ".sums") }
    }

    /// Opens the bytes of `device`, whose state was read; new ones until [`Files::establish`] under another name.
    pub(super) fn open(&self, device: &Device) -> Result<Summed, ServedError> {
        let (state, bytes, capacity) = (self.state.clone(), self.bytes.clone(), device.capacity());
        let there = bytes.exists();
        match &device.state {
            None if there => return Err(KeptError::NoState { state, bytes }.into()),
            Some(kept) if !kept.has_bytes && there => {
                return Err(KeptError::NotOfState { state, bytes }.into());
            }
            Some(kept) if kept.has_bytes => {}
            None | Some(_) => return self.create(capacity),
        }
        if !there && new(&bytes).exists() {
            // The process died right behind the state.
            self.establish().map_err(|error| ServedError::System { path: bytes.clone(), error })?;
        }
        for path in [&bytes, &self.sums] {
            if !path.exists() {
                return Err(KeptError::Missing { state, path: path.clone() }.into());
            }
        }
        let found = fs::metadata(&bytes).map_or(0, |there| there.len());
        if found != capacity {
            return Err(KeptError::Size { path: bytes, found, expected: capacity }.into());
        }
        let held = File::open(&bytes, Some(capacity), Access::Cached, false)?;
        let summed = Summed::new(held, Summed::open_sums(&self.sums, capacity, false)?, &bytes, capacity);
        summed.resume(&self.sums)?;
        Ok(summed)
    }

    fn create(&self, capacity: u64) -> Result<Summed, ServedError> {
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
        let sums = Summed::open_sums(&sums, capacity, true)?;
        let summed = Summed::new(held, sums, &self.bytes, capacity);
        let failed = |error| ServedError::System { path: self.sums.clone(), error: io::Error::other(error) };
        summed.close().map_err(failed)?;
        Ok(summed)
    }

    /// Gives new bytes their names: their state is there.
    pub(super) fn establish(&self) -> io::Result<()> {
        // The bytes come last: while they lack their name, there is something left to do.
        match fs::rename(new(&self.sums), &self.sums) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.sums.exists() => {}
            renamed => renamed?,
        }
        fs::rename(new(&self.bytes), &self.bytes)
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The name of a file that is being made.
fn new(path: &Path) -> PathBuf {
    beside(path, ".new")
}
