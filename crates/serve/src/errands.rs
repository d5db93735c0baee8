//! What is to be done to a device that another thread owns: that thread does it, between two of its own steps.

use flashlab_sim::Instant;
use rustix::event::{EventfdFlags, eventfd};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};

type Errand<D> = Box<dyn FnOnce(&mut D, Instant) + Send>;

/// Errands to the owner of a `D`. Clones lead to the same one.
pub struct Errands<D>(Arc<Inner<D>>);

struct Inner<D> {
    /// `None`: the owner has ended.
    waiting: Mutex<Option<Vec<Errand<D>>>>,
    /// Readable while something waits.
    event: OwnedFd,
}

impl<D> Errands<D> {
    /// None yet.
    pub fn new() -> io::Result<Errands<D>> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Errands(Arc::new(Inner { waiting: Mutex::new(Some(Vec::new())), event })))
    }

    /// Has `errand` done, with the device's time, and gives what came of it; `None` where the owner has ended.
    pub fn send<R: Send + 'static>(
        &self,
        errand: impl FnOnce(&mut D, Instant) -> R + Send + 'static,
    ) -> Option<R> {
        let (done, answer) = mpsc::channel();
        self.lock().as_mut()?.push(Box::new(move |device, now| {
            // Whoever sent it waits for this.
            let _ = done.send(errand(device, now));
        }));
        // It fails only where the counter is full: then it is readable already.
        let _ = rustix::io::write(&self.0.event, &1u64.to_ne_bytes());
        answer.recv().ok()
    }

    /// Does all that waits.
    pub(crate) fn run(&self, device: &mut D, now: Instant) {
        // Nothing to read means that nothing waits, or not yet.
        let _ = rustix::io::read(&self.0.event, &mut [0; 8]);
        let waiting = self.lock().as_mut().map(std::mem::take).unwrap_or_default();
        waiting.into_iter().for_each(|errand| errand(device, now));
    }

    /// Nobody does them any more.
    pub(crate) fn close(&self) {
        *self.lock() = None;
    }

    /// Errands are not run while it is locked.
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Errand<D>>>> {
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D> Clone for Errands<D> {
    fn clone(&self) -> Self {
        Errands(self.0.clone())
    }
}

impl<D> AsFd for Errands<D> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.event.as_fd()
    }
}

impl<D> fmt::Debug for Errands<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Errands").finish_non_exhaustive()
    }
}
