//! Requests of the engine to its members: their numbers, bytes, times and errors.

use super::Inner;
use super::health::ATTEMPT_EVERY;
use crate::member;
use flashlab_block::{Context, IoError, Payload};
use flashlab_sim::{Duration, Instant};
use std::sync::atomic::{AtomicU64, Ordering};

/// Weight of a new time in the moving average: one eighth.
const WEIGHT: u64 = 8;

/// Counters of the requests to a member.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    read_ns: AtomicU64,
    write_ns: AtomicU64,
    /// Time of the next attempt after a failed read; zero if the last read succeeded.
    next_attempt_ns: AtomicU64,
}

/// Counters of the extents that requests read while the volume has a promote target.
#[derive(Debug, Default)]
pub(super) struct CacheReads {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CacheReads {
    pub(super) fn add(&self, is_cached: bool) {
        let counter = if is_cached { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the numbers of extents that were read from cached copies and from other copies.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}

/// Requests to a member since the volume was opened, including failed ones and those for the first journal
/// entry of the mount, and excluding those for superblocks, probes and recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Requests {
    /// Number of reads.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Moving average of the time of a read that succeeds. Zero if the contexts of the requests have no clock.
    pub read_ns: u64,
    /// Moving average of the time of a write. Zero if the contexts of the requests have no clock.
    pub write_ns: u64,
}

impl Requests {
    /// Returns the number of all requests.
    pub(super) fn count(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }
}

impl Statistics {
    pub(super) fn requests(&self) -> Requests {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Requests {
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            writes: get(&self.writes),
            written_bytes: get(&self.written_bytes),
            flushes: get(&self.flushes),
            read_ns: get(&self.read_ns),
            write_ns: get(&self.write_ns),
        }
    }

    /// Returns the expected time of a read.
    pub(super) fn read_ns(&self) -> u64 {
        self.read_ns.load(Ordering::Relaxed)
    }

    /// Returns true if the last read succeeded, or if another attempt is due.
    pub(super) fn reads_work(&self, now: Instant) -> bool {
        now.as_ns() >= self.next_attempt_ns.load(Ordering::Relaxed)
    }

    /// Returns true if the last read failed.
    pub(super) fn reads_fail(&self) -> bool {
        self.next_attempt_ns.load(Ordering::Relaxed) != 0
    }

    /// Notes the result of a read. A failed read may take no time, so it says nothing about the speed of the
    /// member. After a failed read, the member is the last choice for reads until the next attempt is due.
    fn note_read(&self, began: Instant, now: Instant, is_good: bool) {
        let next_attempt = if is_good { Instant::ZERO } else { now + ATTEMPT_EVERY };
        self.next_attempt_ns.store(next_attempt.as_ns(), Ordering::Relaxed);
        if is_good {
            average(&self.read_ns, now.saturating_since(began));
        }
    }

    fn add(&self, counts: [(&AtomicU64, u64); 2]) {
        for (counter, n) in counts {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// Adds a time to a moving average.
fn average(of: &AtomicU64, taken: Duration) {
    let (average, taken) = (of.load(Ordering::Relaxed), taken.as_ns());
    if taken != average {
        let average = if average == 0 { taken } else { average - average / WEIGHT + taken / WEIGHT };
        of.store(average, Ordering::Relaxed);
    }
}

impl Inner {
    /// Reads from a member, and counts an error.
    pub(super) async fn read_from(
        &self,
        cx: &Context,
        member: u8,
        offset: u64,
        buffer: Vec<u8>,
    ) -> Result<Vec<u8>, IoError> {
        let (statistics, began, length) = (&self.statistics[usize::from(member)], cx.now(), buffer.len());
        let device = &*self.members[usize::from(member)].device;
        let read = member::read(device, cx, offset, buffer).await;
        statistics.add([(&statistics.reads, 1), (&statistics.read_bytes, length as u64)]);
        statistics.note_read(began, cx.now(), read.is_ok());
        if read.is_err() {
            self.read_failed(member);
        }
        read
    }

    /// Writes to a member. Notes an error, or the end of a series of errors.
    pub(super) async fn write_to(
        &self,
        cx: &Context,
        member: u8,
        offset: u64,
        data: Payload,
    ) -> Result<(), IoError> {
        let (statistics, began) = (&self.statistics[usize::from(member)], cx.now());
        statistics.add([(&statistics.writes, 1), (&statistics.written_bytes, data.len() as u64)]);
        let written = member::write(&*self.members[usize::from(member)].device, cx, offset, data).await;
        average(&statistics.write_ns, cx.now().saturating_since(began));
        self.note_write(cx, member, false, written)
    }

    /// Flushes a member. Notes an error, or the end of a series of errors.
    pub(super) async fn flush_member(&self, cx: &Context, member: u8) -> Result<(), IoError> {
        let statistics = &self.statistics[usize::from(member)];
        statistics.add([(&statistics.flushes, 1), (&statistics.writes, 0)]);
        let flushed = member::flush(&*self.members[usize::from(member)].device, cx).await;
        self.note_write(cx, member, true, flushed)
    }
}
