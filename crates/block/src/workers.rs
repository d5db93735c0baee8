//! A thread pool that sends concurrent requests to a device that blocks.
//!
//! A file opened with [`Access::Direct`](crate::Access::Direct) answers when its disk does, so a client that waits for
//! each request never gives the disk two at a time. The threads do not order requests: overlapping ones end as if one
//! came after the other, as on every device.

use crate::promise::Promise;
use crate::{Abilities, BlockDevice, Context, Geometry, Io, IoError, Started};
use flashlab_sim::Instant;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

/// A device whose requests run on a pool of threads.
pub struct Workers {
    inner: Arc<dyn BlockDevice>,
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Desk {
    waiting: Mutex<Waiting>,
    arrived: Condvar,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<(Context, Io, Promise)>,
    closed: bool,
}

impl Workers {
    /// Starts `threads` threads for `inner`, which must answer each request before `start` returns.
    pub fn new(inner: Arc<dyn BlockDevice>, threads: usize) -> io::Result<Workers> {
        let mut workers = Workers { inner, desk: Arc::default(), threads: Vec::new() };
        for n in 0..threads {
            let (inner, desk) = (workers.inner.clone(), workers.desk.clone());
            let thread = thread::Builder::new().name(format!("block {n}"));
            workers.threads.push(thread.stack_size(256 << 10).spawn(move || desk.work(&*inner))?);
        }
        Ok(workers)
    }
}

impl Desk {
    fn work(&self, inner: &dyn BlockDevice) {
        loop {
            let waiting = lock(&self.waiting);
            let nothing = |waiting: &mut Waiting| waiting.requests.is_empty() && !waiting.closed;
            let waiting = self.arrived.wait_while(waiting, nothing);
            let mut waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            let Some((context, io, promise)) = waiting.requests.pop_front() else { return };
            drop(waiting);
            let outcome = match inner.start(&context, io) {
                Started::Done(outcome) => outcome,
                // A device that answers later needs no threads.
                Started::Later(_) => Err(IoError::Unsupported),
            };
            promise.keep(outcome);
        }
    }
}

impl Drop for Workers {
    /// Completes the queued requests first.
    fn drop(&mut self) {
        lock(&self.desk.waiting).closed = true;
        self.desk.arrived.notify_all();
        for thread in self.threads.drain(..) {
            // The panic of a thread has been reported already.
            let _ = thread.join();
        }
    }
}

impl BlockDevice for Workers {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let promise = Promise::default();
        lock(&self.desk.waiting).requests.push_back((*cx, io, promise.clone()));
        self.desk.arrived.notify_one();
        Started::Later(Box::pin(promise))
    }
    fn next_due(&self) -> Option<Instant> {
        self.inner.next_due()
    }
    fn advance(&self, now: Instant) {
        self.inner.advance(now);
    }
    fn power_losses(&self) -> u64 {
        self.inner.power_losses()
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

/// Locks a mutex. No code panics while it holds the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
