//! `stats`: counts requests, bytes and errors by kind, and the largest number of outstanding requests. A server counts
//! the requests of its clients itself; this layer counts at any place of the stack.

use super::{pass_on, when_done};
use crate::{Abilities, BlockDevice, Context, Io, Started};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
struct Counted {
    kinds: [Tally; 7],
    outstanding: u64,
    outstanding_max: u64,
}

/// A device that counts its requests.
pub struct Stats {
    inner: Arc<dyn BlockDevice>,
    counted: Arc<Mutex<Counted>>,
}

impl Stats {
    /// Creates the layer over `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Stats {
        Stats { inner, counted: Arc::default() }
    }

    /// Returns the counters of `kind`.
    pub fn tally(&self, kind: Kind) -> Tally {
        lock(&self.counted).kinds[kind as usize]
    }

    /// Returns the largest number of requests that were outstanding at the same time.
    pub fn outstanding_max(&self) -> u64 {
        lock(&self.counted).outstanding_max
    }
}

impl BlockDevice for Stats {
    pass_on!();
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let kind = Kind::of(&io) as usize;
        {
            let mut counted = lock(&self.counted);
            counted.outstanding += 1;
            counted.outstanding_max = counted.outstanding_max.max(counted.outstanding);
            let tally = &mut counted.kinds[kind];
            tally.requests += 1;
            tally.bytes += io.range().map_or(0, |(_, length)| length);
        }
        let counted = self.counted.clone();
        when_done(self.inner.start(cx, io), move |outcome| {
            let mut counted = lock(&counted);
            counted.outstanding -= 1;
            counted.kinds[kind].errors += u64::from(outcome.is_err());
        })
    }
}

/// Locks the counters. No code panics while it holds the lock.
fn lock(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}
