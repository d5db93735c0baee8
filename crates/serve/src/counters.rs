//! What a server has done so far, counted by its connections and read by whoever shows it.

use flashlab_sim::{Duration, Histogram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What can be counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Count {
    /// Connections that were accepted.
    Accepted,
    /// Connections that have ended.
    Ended,
    /// Reads answered.
    Reads,
    /// Bytes of them.
    ReadBytes,
    /// Writes answered.
    Writes,
    /// Bytes of them.
    WriteBytes,
    /// Other requests answered: flushes, discards, zeroes, caches, block status.
    Others,
    /// Requests answered with an error.
    Errors,
    /// Batches: what came in with one receive, or with several while a request was not complete.
    Batches,
    /// System calls that moved these bytes or waited for them.
    Calls,
}

const COUNTS: usize = 10;

/// Which requests a latency is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum Way {
    Read,
    Write,
    Flush,
    /// Discards, zeroes, caches, block status.
    Other,
}

impl Way {
    pub(crate) const ALL: [Way; 4] = [Way::Read, Way::Write, Way::Flush, Way::Other];

    pub(crate) fn name(self) -> &'static str {
        ["read", "write", "flush", "other"][self as usize]
    }
}

/// Latencies are counted in buckets that end here, and one for longer ones.
pub(crate) const LATENCY_BOUNDS: [Duration; 19] = [
    Duration::from_us(10),
    Duration::from_us(20),
    Duration::from_us(50),
    Duration::from_us(100),
    Duration::from_us(200),
    Duration::from_us(500),
    Duration::from_ms(1),
    Duration::from_ms(2),
    Duration::from_ms(5),
    Duration::from_ms(10),
    Duration::from_ms(20),
    Duration::from_ms(50),
    Duration::from_ms(100),
    Duration::from_ms(200),
    Duration::from_ms(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];
const BUCKETS: usize = LATENCY_BOUNDS.len() + 1;

/// Latencies of one way.
#[derive(Debug, Default)]
struct Latency {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// Counts that several threads add to.
#[derive(Debug, Default)]
pub struct Counters {
    counts: [AtomicU64; COUNTS],
    late: Mutex<Histogram>,
    latency: [Latency; Way::ALL.len()],
}

/// Counts at one moment, or between two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted([u64; COUNTS]);

impl Counters {
    /// What was counted until now.
    pub fn read(&self) -> Counted {
        Counted(std::array::from_fn(|n| self.counts[n].load(Ordering::Relaxed)))
    }

    /// Adds what a thread has counted for itself, and begins that anew.
    pub(crate) fn add(&self, counted: &mut Counted) {
        for (total, n) in self.counts.iter().zip(&mut counted.0) {
            if *n > 0 {
                total.fetch_add(std::mem::take(n), Ordering::Relaxed);
            }
        }
    }

    /// How much later than a device said replies were sent, on the wall: one entry for all that were due together.
    pub fn lateness(&self) -> Histogram {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn late(&self, by: Duration) {
        self.late.lock().unwrap_or_else(PoisonError::into_inner).record(by);
    }

    /// A request was answered so much after it arrived.
    pub(crate) fn answered(&self, way: Way, after: Duration) {
        let latency = &self.latency[way as usize];
        let bucket = LATENCY_BOUNDS.partition_point(|bound| *bound < after);
        latency.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        latency.sum_ns.fetch_add(after.as_ns(), Ordering::Relaxed);
    }

    /// How many latencies fell between one bound and the next, and their sum in nanoseconds.
    pub(crate) fn latency(&self, way: Way) -> ([u64; BUCKETS], u64) {
        let Latency { buckets, sum_ns } = &self.latency[way as usize];
        (buckets.each_ref().map(|count| count.load(Ordering::Relaxed)), sum_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self, what: Count) {
        self.counts[what as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl Counted {
    /// How many.
    pub fn get(&self, what: Count) -> u64 {
        self.0[what as usize]
    }
    /// Connections that are open.
    pub fn connections(&self) -> u64 {
        self.get(Count::Accepted).saturating_sub(self.get(Count::Ended))
    }
    /// Requests that were answered.
    pub fn requests(&self) -> u64 {
        self.get(Count::Reads) + self.get(Count::Writes) + self.get(Count::Others)
    }
    /// What was counted since `earlier`.
    pub fn since(&self, earlier: &Counted) -> Counted {
        Counted(std::array::from_fn(|n| self.0[n].saturating_sub(earlier.0[n])))
    }
    pub(crate) fn add(&mut self, what: Count, n: u64) {
        self.0[what as usize] += n;
    }
}
