//! `stats`: counts requests, bytes and errors by kind, and keeps the largest number of outstanding requests. A server
//! counts the requests of its clients itself; this layer counts at any position in the stack.

use super::{LayerKind, Opened, forward, when_done};
use crate::{BlockDevice, Context, Features, Io, Started};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Registry entry of `stats`.
pub(super) const KIND: LayerKind = LayerKind {
    name: "stats",
    keys: &[],
    example: "",
    open: |inner, _| {
        let stats = Arc::new(Stats::new(inner));
        Ok(Opened { device: stats.clone(), faults: None, stats: Some(stats) })
    },
};

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes.
    Flush,
    /// Discards.
    Discard,
    /// Writes of zeroes.
    WriteZeroes,
    /// Requests to read ahead.
    Cache,
    /// Queries for extents.
    Extents,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 7] =
        [Kind::Read, Kind::Write, Kind::Flush, Kind::Discard, Kind::WriteZeroes, Kind::Cache, Kind::Extents];

    /// Returns the kind of a request.
    pub fn of(io: &Io) -> Kind {
        match io {
            Io::Read { .. } => Kind::Read,
            Io::Write { .. } => Kind::Write,
            Io::Flush => Kind::Flush,
            Io::Discard { .. } => Kind::Discard,
            Io::WriteZeroes { .. } => Kind::WriteZeroes,
            Io::Cache { .. } => Kind::Cache,
            Io::Extents { .. } => Kind::Extents,
        }
    }

    /// Returns the name of the kind, as logs and rules write it.
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "discard", "write-zeroes", "cache", "extents"][self as usize]
    }
}

/// Counters of one kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests that were started.
    pub requests: u64,
    /// Bytes of the requests that were started.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

#[derive(Default)]
struct Counters {
    kinds: [Tally; 7],
    outstanding: u64,
    outstanding_max: u64,
}

/// A device that counts its requests.
pub struct Stats {
    inner: Arc<dyn BlockDevice>,
    counters: Arc<Mutex<Counters>>,
}

impl Stats {
    /// Creates the layer over `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Stats {
        Stats { inner, counters: Arc::default() }
    }

    /// Returns the counters of `kind`.
    pub fn tally(&self, kind: Kind) -> Tally {
        lock(&self.counters).kinds[kind as usize]
    }

    /// Returns the largest number of requests that were outstanding at the same time.
    pub fn outstanding_max(&self) -> u64 {
        lock(&self.counters).outstanding_max
    }
}

impl BlockDevice for Stats {
    forward!();
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let kind = Kind::of(&io) as usize;
        {
            let mut counters = lock(&self.counters);
            counters.outstanding += 1;
            counters.outstanding_max = counters.outstanding_max.max(counters.outstanding);
            let tally = &mut counters.kinds[kind];
            tally.requests += 1;
            tally.bytes += io.range().map_or(0, |(_, length)| length);
        }
        let counters = self.counters.clone();
        when_done(self.inner.start(cx, io), move |outcome| {
            let mut counters = lock(&counters);
            counters.outstanding -= 1;
            counters.kinds[kind].errors += u64::from(outcome.is_err());
        })
    }
}

/// Locks the counters. No code panics while it holds the lock.
fn lock(counters: &Mutex<Counters>) -> MutexGuard<'_, Counters> {
    counters.lock().unwrap_or_else(PoisonError::into_inner)
}
