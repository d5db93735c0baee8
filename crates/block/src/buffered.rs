//! A file that is accessed through the page cache; requests that have to wait for the disk run on other threads.
//!
//! - A read that finds its data in the page cache, and a write that the page cache takes at once, are answered
//!   immediately (`RWF_NOWAIT` of preadv2(2) and pwritev2(2)). All other requests that may wait go to a pool of
//!   threads: a flush, a discard, a read from the disk, a write that has to wait for a page.
//! - Some filesystems, ext4 among them, do not report whether a write to the page cache would wait. On such a
//!   filesystem, a write goes to the pool only while another request of the file waits in the pool. Linux
//!   throttles a program that writes faster than the disk for a long time (`vm.dirty_ratio`). The first
//!   throttled write then blocks its caller.
//! - Unanswered requests take effect in an arbitrary order, as on every device.

use crate::file::File;
use crate::promise::Answerer;
use crate::thread_pool::ThreadPool;
use crate::{Answer, BlockDevice, Context, Features, Geometry, Io, Started};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::{fmt, io};

/// Maximum number of requests that wait for the disk on threads concurrently.
const THREADS: usize = 16;

/// A file in the page cache, with a pool of threads for the requests that wait for the disk.
pub struct Buffered {
    file: Arc<File>,
    /// The pool, which starts with the first request that may wait; `None` if the system cannot start its threads.
    threads: OnceLock<Option<ThreadPool>>,
    /// Number of requests that the threads run or that are queued for them.
    waiting: Arc<AtomicUsize>,
    /// True until the filesystem turns out not to support reads without waiting.
    reads_now: AtomicBool,
    /// True until the filesystem turns out not to support writes without waiting.
    writes_now: AtomicBool,
}

impl Buffered {
    /// Wraps a file that was opened with [`Access::Cached`](crate::Access::Cached).
    pub fn new(file: File) -> Buffered {
        let [reads_now, writes_now] = [true, true].map(AtomicBool::new);
        let (threads, waiting) = (OnceLock::new(), Arc::default());
        Buffered { file: Arc::new(file), threads, waiting, reads_now, writes_now }
    }

    /// Tries to execute a request without waiting. Returns the request if it may have to wait.
    fn try_now(&self, cx: &Context, mut io: Io) -> Result<Started, Io> {
        let geometry = BlockDevice::geometry(&*self.file);
        if io.check(&geometry).is_err() || self.file.features().read_only && io.is_write() {
            return Ok(self.file.start(cx, io));
        }
        match &mut io {
            Io::Read { offset, buffer } if self.reads_now.load(Ordering::Relaxed) => {
                match supported(self.file.read_now(*offset, buffer), &self.reads_now) {
                    true => Ok(Started::Done(Ok(Answer::Read(std::mem::take(buffer))))),
                    false => Err(io),
                }
            }
            Io::Write { offset, data, durable: false } if self.writes_now.load(Ordering::Relaxed) => {
                match supported(self.file.write_now(*offset, data), &self.writes_now) {
                    true => Ok(Started::Done(Ok(Answer::Done))),
                    false => Err(io),
                }
            }
            Io::Write { durable: false, .. } if self.waiting.load(Ordering::Relaxed) == 0 => {
                Ok(self.file.start(cx, io))
            }
            Io::Cache { .. } | Io::Extents { .. } => Ok(self.file.start(cx, io)),
            _ => Err(io),
        }
    }

    fn threads(&self) -> Option<&ThreadPool> {
        let start = || -> io::Result<ThreadPool> { ThreadPool::new("file", THREADS) };
        self.threads.get_or_init(|| start().ok()).as_ref()
    }
}

/// Returns true if an attempt without waiting succeeded. Clears `flag` if the filesystem does not support such
/// attempts.
fn supported(attempt: Result<bool, Errno>, flag: &AtomicBool) -> bool {
    match attempt {
        Ok(done) => done,
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            flag.store(false, Ordering::Relaxed);
            false
        }
        // The next attempt, which may wait, meets the error again and reports it.
        Err(_) => false,
    }
}

impl BlockDevice for Buffered {
    fn geometry(&self) -> Geometry {
        BlockDevice::geometry(&*self.file)
    }
    fn features(&self) -> Features {
        self.file.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let io = match self.try_now(cx, io) {
            Ok(started) => return started,
            Err(io) => io,
        };
        let Some(threads) = self.threads() else { return self.file.start(cx, io) };
        let answerer = Answerer::default();
        let (file, cx, promise) = (self.file.clone(), cx.clone(), answerer.promise());
        let waiting = self.waiting.clone();
        waiting.fetch_add(1, Ordering::Relaxed);
        threads.run(Box::new(move || {
            let Started::Done(outcome) = file.start(&cx, io) else { unreachable!("a file answers at once") };
            waiting.fetch_sub(1, Ordering::Relaxed);
            // The file is closed, and its lock released, as soon as no request is in flight.
            drop(file);
            answerer.answer(outcome);
        }));
        Started::Pending(Box::pin(promise))
    }
}

impl fmt::Debug for Buffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffered").field("file", &self.file).finish_non_exhaustive()
    }
}
