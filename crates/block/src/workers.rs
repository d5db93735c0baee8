//! A thread pool that sends concurrent requests to a device that blocks.
//!
//! A file opened with [`Access::Direct`](crate::Access::Direct) answers when its disk does, so a client that waits for
//! each request never gives the disk two at a time. The threads do not order requests: overlapping ones end as if one
//! came after the other, as on every device.

use crate::promise::Promise;
use crate::{BlockDevice, Context, Features, Geometry, Io, IoError, Started};
use flashlab_sim::Instant;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::{fmt, io};

/// A device whose requests run on a pool of threads.
pub struct Workers {
    inner: Arc<dyn BlockDevice>,
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
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
        let mut workers = Workers { inner, queue: Arc::default(), threads: Vec::new() };
        for n in 0..threads {
            let (inner, queue) = (workers.inner.clone(), workers.queue.clone());
            let thread = thread::Builder::new().name(format!("block {n}"));
            workers.threads.push(thread.stack_size(256 << 10).spawn(move || queue.work(&*inner))?);
        }
        Ok(workers)
    }
}

impl Queue {
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
                Started::Pending(_) => Err(IoError::Unsupported),
            };
            promise.resolve(outcome);
        }
    }
}

impl Drop for Workers {
    /// Completes the queued requests first.
    fn drop(&mut self) {
        lock(&self.queue.waiting).closed = true;
        self.queue.arrived.notify_all();
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
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let promise = Promise::default();
        lock(&self.queue.waiting).requests.push_back((cx.clone(), io, promise.clone()));
        self.queue.arrived.notify_one();
        Started::Pending(Box::pin(promise))
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
