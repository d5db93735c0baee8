//! A simulated device that remembers bytes and wear: `state=FILE`.
//!
//! FILE has what the model keeps, as `flashlab age` writes it; FILE.bytes beside it, a sparse file, has the bytes. A state
//! that `age` made has no bytes yet: they are zeroes.
//!
//! Bytes go to their file as they are answered, so all that was answered is there however the server ended, and what was
//! flushed even if the machine did. The model is written whole, when the server ends in order or is told to, and from time to
//! time: after a kill the wear since the last time is not known, but nothing that the device holds is lost. The file is
//! replaced when it is written; there is never half of one.

use super::error::ServedError;
use crate::device::{Device, State};
use flashlab_block::Timed;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Writes a device's state.
pub struct Keeper {
    device: Device,
    seed: u64,
    path: PathBuf,
    timed: Arc<Timed>,
    /// One writes at a time: how many requests the device had been asked when it was last written.
    written: Mutex<u64>,
}

/// The file of the bytes beside a state.
pub(super) fn bytes_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bytes");
    name.into()
}

impl Keeper {
    pub(super) fn of(device: Device, seed: u64, timed: Arc<Timed>) -> Option<Keeper> {
        let path = device.kept_in.clone()?;
        Some(Keeper { device, seed, path, timed, written: Mutex::new(0) })
    }

    /// Where the state is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the state as it is when all that is outstanding is done.
    pub fn keep(&self) -> Result<(), ServedError> {
        self.keep_after(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same, where anything was asked of the device since the last time.
    pub fn keep_if_used(&self) -> Result<(), ServedError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if self.timed.asked() == *written { Ok(()) } else { self.keep_after(&mut written) }
    }

    fn keep_after(&self, written: &mut u64) -> Result<(), ServedError> {
        let asked = self.timed.asked();
        let system = |error| ServedError::System { path: self.path.clone(), error };
        self.timed.sync().map_err(|error| system(io::Error::other(error)))?;
        let (model, used) = self.timed.settled();
        let used = self.device.used() + used;
        let state = State::keep(&self.device, self.seed, used, &*model)?;
        replace(&self.path, &state.to_bytes()).map_err(system)?;
        *written = asked;
        Ok(())
    }
}

/// Writes beside the file, and renames when all of it is on disk.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    let mut file = File::create(&beside)?;
    let written =
        file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // What is left of it is of no use; what went wrong is told.
        let _ = fs::remove_file(&beside);
    }
    written
}
