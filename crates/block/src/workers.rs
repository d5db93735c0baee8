//! A thread pool that sends concurrent requests to a device that blocks.
//!
//! A request to a file opened with [`Access::Direct`](crate::Access::Direct) blocks until the disk has
//! answered. Without the threads, the disk would therefore receive only one request at a time. The threads do
//! not order requests. As on every device, overlapping requests take effect as if one had followed the other.

use crate::promise::Answerer;
use crate::thread_pool::ThreadPool;
use crate::{BlockDevice, Context, Features, Geometry, Io, IoError, Started};
use flashlab_sim::Instant;
use std::sync::Arc;
use std::{fmt, io};

/// A device whose requests run on a pool of threads.
pub struct Workers {
    inner: Arc<dyn BlockDevice>,
    threads: ThreadPool,
}

impl Workers {
    /// Starts `threads` threads for `inner`, which must answer each request before `start` returns.
    pub fn new(inner: Arc<dyn BlockDevice>, threads: usize) -> io::Result<Workers> {
        Ok(Workers { inner, threads: ThreadPool::new("block", threads)? })
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
        let answerer = Answerer::default();
        let (inner, cx, promise) = (self.inner.clone(), cx.clone(), answerer.promise());
        self.threads.run(Box::new(move || {
            answerer.answer(match inner.start(&cx, io) {
                Started::Done(outcome) => outcome,
                // A device that answers later needs no threads.
                Started::Pending(_) => Err(IoError::Unsupported),
            });
        }));
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
        f.debug_struct("Workers").field("threads", &self.threads).finish_non_exhaustive()
    }
}
