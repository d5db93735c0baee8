//! The search for members whose devices could not be opened with the volume, so that they return without a command.
//!
//! A thread opens the devices, because the opening of a device that does not answer takes long. A device that no longer
//! belongs to the volume, or that is stale, is reported once and then left alone.

use super::{OpenPool, is_shared, shared_device};
use crate::{NewFiles, Served, Sources};
use flashlab_block::Context;
use flashlab_sim::{Duration, Instant};
use flashlab_volume::VolumeError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Pause between two attempts to open the devices.
const PAUSE: Duration = Duration::from_secs(5);

/// The devices that could not be opened, by their names.
#[derive(Debug, Default)]
pub(super) struct Absent(Mutex<Vec<String>>);

impl Absent {
    pub(super) fn new(devices: Vec<String>) -> Absent {
        Absent(Mutex::new(devices))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the search for a device.
    pub(super) fn forget(&self, device: &str) {
        self.lock().retain(|known| known != device);
    }
}

/// The search of a server.
#[derive(Default)]
pub(super) struct Search {
    /// Devices that a thread opens at present.
    opening: Option<Receiver<Vec<(String, Served)>>>,
    /// True once the thread has opened a device.
    has_opened: Arc<AtomicBool>,
    /// Time of the next attempt.
    next: Instant,
}

impl Search {
    /// Begins an attempt to open the absent devices, or takes back the members whose devices an attempt has opened.
    pub(super) async fn look(&mut self, pool: &OpenPool, cx: &Context) {
        match self.opening.as_ref().map(Receiver::try_recv) {
            Some(Err(TryRecvError::Empty)) => {}
            Some(opened) => {
                self.opening = None;
                self.has_opened.store(false, Ordering::Relaxed);
                self.next = cx.now() + PAUSE;
                for (device, served) in opened.unwrap_or_default() {
                    take_back(pool, cx, &device, served).await;
                }
            }
            None if cx.now() >= self.next => self.opening = open(pool, &self.has_opened),
            None => {}
        }
    }

    /// Returns a flag that is true once a device has returned, so that other work should end soon.
    pub(super) fn has_opened(&self) -> Arc<AtomicBool> {
        self.has_opened.clone()
    }
}

/// Opens the absent devices on a thread. Returns `None` if there are none.
fn open(pool: &OpenPool, has_opened: &Arc<AtomicBool>) -> Option<Receiver<Vec<(String, Served)>>> {
    let devices = pool.absent.lock().clone();
    if devices.is_empty() {
        return None;
    }
    let ((sender, receiver), has_opened) = (channel(), has_opened.clone());
    let (library, openers, seed, claims) =
        (pool.library.clone(), pool.openers, pool.seed, pool.claims.clone());
    let is_simulated = pool.sources().is_simulated;
    let open = move |device: String| {
        let sources = Sources { library: &library, openers, is_simulated };
        let new_files = NewFiles::default();
        let mut served = Served::open_for(&device, seed, false, (sources, true, &new_files)).ok()?;
        if is_shared(&served) {
            served.device = claims.claim(vec![shared_device(&served)]).ok()?.remove(0);
        }
        // A new file is no member, and a simulated device does not disappear.
        (new_files.is_empty() && served.timed.is_none()).then_some((device, served))
    };
    let opening = move || {
        let opened: Vec<_> = devices.into_iter().filter_map(open).collect();
        // The flag comes first, so that it is never set after the search has received the devices.
        has_opened.store(!opened.is_empty(), Ordering::Relaxed);
        // A server that has ended receives nothing.
        let _ = sender.send(opened);
    };
    thread::Builder::new().name("search".to_owned()).spawn(opening).ok()?;
    Some(receiver)
}

/// Takes back the member whose device has returned. Ends the search for the device, unless it fails requests.
async fn take_back(pool: &OpenPool, cx: &Context, device: &str, served: Served) {
    match pool.volume.rejoin(cx, served.device).await {
        Ok(number) => tracing::warn!(number, device, "a missing member of the volume has returned"),
        Err(VolumeError::Member { .. }) => return,
        Err(error) => {
            tracing::warn!(%error, device, "the device of a missing member has returned, but it cannot be used");
        }
    }
    pool.absent.forget(device);
}
