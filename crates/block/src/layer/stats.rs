//! `stats`: counts what passes, by kind, with bytes and errors, and how much of it is outstanding at a time. A server counts
//! for itself what its clients ask; this counts at any place in between.

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
    /// Reading ahead.
    Cache,
    /// Questions for holes.
    Extents,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] =
        [Kind::Read, Kind::Write, Kind::Flush, Kind::Discard, Kind::WriteZeroes, Kind::Cache, Kind::Extents];

    /// Of a request.
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

    /// As it is written.
    pub fn name(self) -> &'static str {
        ["read", "write", "flush", "discard", "write-zeroes", "cache", "extents"][self as usize]
    }
}

/// What was counted of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Requests that were started.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that failed.
    pub errors: u64,
}

#[derive(Default)]
struct Counted {
    kinds: [Tally; 7],
    outstanding: u64,
    outstanding_max: u64,
}

/// A device whose requests are counted.
pub struct Stats {
    inner: Arc<dyn BlockDevice>,
    counted: Arc<Mutex<Counted>>,
}

impl Stats {
    /// Over `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Stats {
        Stats { inner, counted: Arc::default() }
    }

    /// What was counted of `kind`.
    pub fn tally(&self, kind: Kind) -> Tally {
        lock(&self.counted).kinds[kind as usize]
    }

    /// The most that was outstanding at a time.
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

/// Nothing panics while it is locked.
fn lock(counted: &Mutex<Counted>) -> MutexGuard<'_, Counted> {
    counted.lock().unwrap_or_else(PoisonError::into_inner)
}
