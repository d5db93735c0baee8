//! A simulated device that remembers bytes and wear: `state=FILE`.
//!
//! FILE has what the model keeps, as `flashlab age` writes it; FILE.bytes beside it, a sparse file, has the bytes, and FILE.sums
//! their checksums ([`Summed`]). A state that `age` made has no bytes yet: they are zeroes.
//!
//! Bytes go to their file as they are answered, so all that was answered is there however the server ended, and what was
//! flushed even if the machine did. The model is written whole, when the server ends in order or is told to, and from time to
//! time; what it is asked in between is in a [`journal`], so that a kill costs nothing of it either. The file is
//! replaced when it is written; there is never half of one.

use super::error::ServedError;
use super::journal::{self, Journal};
use super::kept::Files;
use super::summed::Summed;
use crate::device::{Device, State};
use crate::library::Library;
use flashlab_block::Timed;
use flashlab_sim::{Instant, Op};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Writes a device's state.
pub struct Keeper {
    device: Device,
    seed: u64,
    path: PathBuf,
    timed: Arc<Timed>,
    bytes: Summed,
    journal: Shared,
    /// One writes at a time: how many requests the device had been asked when it was last written.
    written: Mutex<u64>,
}

/// A journal that the device notes in, and the keeper looks after.
#[derive(Clone)]
struct Shared(Arc<Mutex<Journal>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Journal> {
        // Each line is whole or the last.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl flashlab_block::Journal for Shared {
    fn asked(&mut self, now: Instant, op: Op, offset: u64, length: u64) {
        self.lock().asked(now, op, offset, length);
    }
    fn power_cut(&mut self, now: Instant) {
        self.lock().power_cut(now);
    }
    fn power_up(&mut self, now: Instant) {
        self.lock().power_up(now);
    }
}

/// The device of an argument, and the file of its bytes where its state is kept; a journal that was left is caught up with, once
/// the file is ours alone.
pub(super) fn open(argument: &str, library: &Library) -> Result<(Device, Option<Summed>), ServedError> {
    let device = Device::open_kept(argument, library)?;
    let Some(path) = &device.kept_in else { return Ok((device, None)) };
    let bytes = Files::of(path).open(&device)?;
    let caught_up = device.state.is_some() && journal::catch_up(&device, path)?;
    let device = if caught_up { Device::open_kept(argument, library)? } else { device };
    Ok((device, Some(bytes)))
}

impl Keeper {
    /// Keeps `timed`, which is `device` as it was opened, with its `bytes`. Writes the state of a new one at once, and begins
    /// the journal.
    ///
    /// # Panics
    /// Where the device has no file.
    pub(super) fn of(
        device: Device,
        seed: u64,
        timed: Arc<Timed>,
        bytes: Summed,
    ) -> Result<Keeper, ServedError> {
        let path = device.kept_in.clone().expect("kept bytes lie beside a state");
        let system = |error| ServedError::System { path: path.clone(), error };
        if !device.state.as_ref().is_some_and(|state| state.has_bytes) {
            let state = timed.with_model(|model| State::keep(&device, seed, device.used(), model))?;
            replace(&path, &state.with_bytes().to_bytes()).map_err(system)?;
            Files::of(&path).establish().map_err(system)?;
        }
        let state = fs::read(&path).map_err(system)?;
        let journal = Journal::create(&path, &journal::id(&state)).map_err(system)?;
        let journal = Shared(Arc::new(Mutex::new(journal)));
        timed.note_in(Box::new(journal.clone()));
        Ok(Keeper { device, seed, path, timed, bytes, journal, written: Mutex::new(0) })
    }

    /// Where the state is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says which of its bytes are damaged, if any were met.
    pub fn damage(&self) -> Option<String> {
        self.bytes.damage()
    }

    /// Writes the state as it is when all that is outstanding is done.
    pub fn keep(&self) -> Result<(), ServedError> {
        self.keep_after(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The same for the last time: nothing more is asked of the device, so there is no journal any more.
    pub fn keep_at_the_end(&self) -> Result<(), ServedError> {
        self.keep()?;
        let failed = |error| ServedError::System { path: self.path.clone(), error: io::Error::other(error) };
        self.bytes.close().map_err(failed)?;
        self.journal
            .lock()
            .remove()
            .map_err(|error| ServedError::System { path: journal::of(&self.path), error })
    }

    /// Whether the journal has become so long that a state should be written before its time.
    pub fn is_due(&self) -> bool {
        self.journal.lock().length() >= journal::LONG
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
        let (model, settled, place) = self.timed.settled(|| self.journal.lock().length());
        let used = self.device.used() + settled;
        let state = State::keep(&self.device, self.seed, used, &*model)?.with_bytes().to_bytes();
        let (id, at) = (journal::id(&state), Instant::ZERO + settled);
        self.journal.lock().state(&id, place, at);
        replace(&self.path, &state).map_err(system)?;
        self.journal.lock().shorten(&id, place, at).map_err(system)?;
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
