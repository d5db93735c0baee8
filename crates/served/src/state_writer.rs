//! A simulated device that keeps its bytes and its wear in files: `state=FILE`.
//!
//! FILE is the state of the model, in the format of `flashlab age`. FILE.bytes is a sparse file with the
//! bytes, and FILE.sums contains their checksums ([`ChecksummedStore`]). A state that `age` wrote has no
//! bytes yet, so the device reads as zeroes.
//!
//! Each write goes to FILE.bytes before it is answered, so no answered write is lost however the server ends, and no
//! flushed write is lost even if the machine crashes. The state of the model is written as a whole: when the server
//! ends in order, on request, and from time to time. A [`journal`] records the requests in between, so that killing the
//! server loses none of them. The state file is replaced atomically and is never incomplete.

use crate::checksummed::ChecksummedStore;
use crate::device_files::Files;
use crate::error::ServedError;
use crate::journal::{self, Journal};
use flashlab_block::{Timed, write_whole};
use flashlab_catalogue::device::{Device, State};
use flashlab_catalogue::library::Library;
use flashlab_sim::{Instant, Op};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Writes the state file of a device.
pub struct StateWriter {
    device: Device,
    seed: u64,
    path: PathBuf,
    timed: Arc<Timed>,
    bytes: ChecksummedStore,
    journal: Shared,
    /// Number of requests that the device had received when its state was last written. The lock lets one
    /// thread write at a time.
    written: Mutex<u64>,
}

/// A journal that the device writes and the [`StateWriter`] shortens.
#[derive(Clone)]
struct Shared(Arc<Mutex<Journal>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Journal> {
        // A panic leaves at most the last line incomplete.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl flashlab_block::Journal for Shared {
    fn submitted(&mut self, now: Instant, op: Op, offset: u64, length: u64) {
        self.lock().submitted(now, op, offset, length);
    }
    fn power_cut(&mut self, now: Instant) {
        self.lock().power_cut(now);
    }
    fn power_up(&mut self, now: Instant) {
        self.lock().power_up(now);
    }
}

/// Opens the device of an argument and, if it has a state file, the store of its bytes. Once this process has locked
/// the file, replays a journal that a killed server left.
pub(super) fn open(
    argument: &str,
    library: &Library,
) -> Result<(Device, Option<ChecksummedStore>), ServedError> {
    let device = Device::open_or_create(argument, library)?;
    let Some(path) = &device.state_path else { return Ok((device, None)) };
    let bytes = Files::of(path).open(&device)?;
    let caught_up = device.state.is_some() && journal::replay(&device, path)?;
    let device = if caught_up { Device::open_or_create(argument, library)? } else { device };
    Ok((device, Some(bytes)))
}

impl StateWriter {
    /// Returns the writer of the state of `timed`, which was built from `device` and stores its data in `bytes`. Writes
    /// the state of a new device, and creates the journal.
    ///
    /// # Panics
    /// Panics if the device has no state file.
    pub(super) fn of(
        device: Device,
        seed: u64,
        timed: Arc<Timed>,
        bytes: ChecksummedStore,
    ) -> Result<StateWriter, ServedError> {
        let path = device.state_path.clone().expect("bytes with checksums lie beside a state");
        let system = |error| ServedError::System { path: path.clone(), error };
        if !device.state.as_ref().is_some_and(|state| state.has_bytes) {
            let state = timed.with_model(|model| State::save(&device, seed, device.used_time(), model))?;
            write_whole(&path, &state.with_bytes().to_bytes()).map_err(system)?;
            Files::of(&path).commit().map_err(system)?;
        }
        let state = fs::read(&path).map_err(system)?;
        let journal = Journal::create(&path, &journal::id(&state)).map_err(system)?;
        let journal = Shared(Arc::new(Mutex::new(journal)));
        timed.set_journal(Box::new(journal.clone()));
        Ok(StateWriter { device, seed, path, timed, bytes, journal, written: Mutex::new(0) })
    }

    /// Returns the path of the state file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a message about damaged bytes, or `None` if no request has encountered any.
    pub fn damage(&self) -> Option<String> {
        self.bytes.damage()
    }

    /// Writes the state that the device has once all in-flight requests have completed.
    pub fn write(&self) -> Result<(), ServedError> {
        self.write_after(&mut self.written.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the state for the last time, closes the bytes and deletes the journal. The device must receive no more
    /// requests. If the state cannot be written, closes the bytes all the same, and keeps the journal, from which the
    /// next process restores the state.
    pub fn close(&self) -> Result<(), ServedError> {
        let written = self.write();
        let failed = |error| ServedError::System { path: self.path.clone(), error: io::Error::other(error) };
        let closed = self.bytes.close().map_err(failed);
        written.and(closed)?;
        self.journal
            .lock()
            .remove()
            .map_err(|error| ServedError::System { path: journal::of(&self.path), error })
    }

    /// Returns true if the journal is so long that a new state should be written now.
    pub fn is_due(&self) -> bool {
        self.journal.lock().length() >= journal::LONG
    }

    /// Writes the state if the device has received requests since it was last written.
    pub fn write_if_changed(&self) -> Result<(), ServedError> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if self.timed.submitted_count() == *written { Ok(()) } else { self.write_after(&mut written) }
    }

    fn write_after(&self, written: &mut u64) -> Result<(), ServedError> {
        let asked = self.timed.submitted_count();
        let system = |error| ServedError::System { path: self.path.clone(), error };
        self.timed.sync().map_err(|error| system(io::Error::other(error)))?;
        let (model, settled, place) = self.timed.model_when_idle(|| self.journal.lock().length());
        let used = self.device.used_time() + settled;
        let state = State::save(&self.device, self.seed, used, &*model)?.with_bytes().to_bytes();
        let (id, at) = (journal::id(&state), Instant::ZERO + settled);
        self.journal.lock().state(&id, place, at);
        write_whole(&self.path, &state).map_err(system)?;
        self.journal.lock().shorten(&id, place, at).map_err(system)?;
        *written = asked;
        Ok(())
    }
}
