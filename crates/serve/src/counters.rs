//! Counters of a server, which its connections update and other threads report.

use flashlab_sim::{Duration, Histogram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The quantities that a server counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum Count {
    /// Accepted connections.
    Accepted,
    /// Ended connections.
    Ended,
    /// Completed reads.
    Reads,
    /// Bytes that were read, without the holes of sparse replies.
    ReadBytes,
    /// Completed writes.
    Writes,
    /// Bytes of completed writes.
    WriteBytes,
    /// Other completed requests: flush, trim, write zeroes, cache, block status.
    Others,
    /// Requests answered with an error.
    Errors,
    /// Batches: requests that arrived with one receive, or with several receives while a request was incomplete.
    Batches,
    /// System calls that sent, received or waited for bytes.
    Calls,
}

const COUNTS: usize = 10;

/// Type of request, for latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(crate) enum RequestType {
    Read,
    Write,
    Flush,
    /// Trim, write zeroes, cache, block status.
    Other,
}

impl RequestType {
    pub(crate) const ALL: [RequestType; 4] =
        [RequestType::Read, RequestType::Write, RequestType::Flush, RequestType::Other];

    pub(crate) fn name(self) -> &'static str {
        ["read", "write", "flush", "other"][self as usize]
    }
}

/// Upper bounds of the latency buckets. One more bucket counts longer latencies.
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

/// Latencies of one type of request.
#[derive(Debug, Default)]
struct Latency {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// Counters that several threads update.
#[derive(Debug, Default)]
pub struct Counters {
    counts: [AtomicU64; COUNTS],
    lateness: Mutex<Histogram>,
    latency: [Latency; RequestType::ALL.len()],
}

/// Values of the counters at one moment, or their increase between two moments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CounterValues([u64; COUNTS]);

impl Counters {
    /// Returns the current values.
    pub fn read(&self) -> CounterValues {
        CounterValues(std::array::from_fn(|n| self.counts[n].load(Ordering::Relaxed)))
    }

    /// Adds the counts of one thread, and resets them.
    pub(crate) fn add(&self, values: &mut CounterValues) {
        for (total, n) in self.counts.iter().zip(&mut values.0) {
            if *n > 0 {
                total.fetch_add(std::mem::take(n), Ordering::Relaxed);
            }
        }
    }

    /// Returns a histogram of the delay between the instant at which a device completed a request and the
    /// wall-clock time at which the reply was sent. Replies that are due together have one entry.
    pub fn lateness(&self) -> Histogram {
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn record_lateness(&self, by: Duration) {
        self.lateness.lock().unwrap_or_else(PoisonError::into_inner).record(by);
    }

    /// Records the latency of a request.
    pub(crate) fn record_latency(&self, request_type: RequestType, latency: Duration) {
        let counters = &self.latency[request_type as usize];
        let bucket = LATENCY_BOUNDS.partition_point(|bound| *bound < latency);
        counters.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        counters.sum_ns.fetch_add(latency.as_ns(), Ordering::Relaxed);
    }

    /// Returns the number of latencies in each bucket, and their sum in nanoseconds.
    pub(crate) fn latency(&self, request_type: RequestType) -> ([u64; BUCKETS], u64) {
        let Latency { buckets, sum_ns } = &self.latency[request_type as usize];
        (buckets.each_ref().map(|count| count.load(Ordering::Relaxed)), sum_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn count(&self, quantity: Count) {
        self.counts[quantity as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl CounterValues {
    /// Returns one count.
    pub fn get(&self, quantity: Count) -> u64 {
        self.0[quantity as usize]
    }
    /// Returns the number of open connections.
    pub fn connections(&self) -> u64 {
        self.get(Count::Accepted).saturating_sub(self.get(Count::Ended))
    }
    /// Returns the number of answered requests, including those that were answered with an error.
    pub fn requests(&self) -> u64 {
        self.get(Count::Reads) + self.get(Count::Writes) + self.get(Count::Others) + self.get(Count::Errors)
    }
    /// Returns the increase since `earlier`.
    pub fn since(&self, earlier: &CounterValues) -> CounterValues {
        CounterValues(std::array::from_fn(|n| self.0[n].saturating_sub(earlier.0[n])))
    }
    pub(crate) fn add(&mut self, quantity: Count, n: u64) {
        self.0[quantity as usize] += n;
    }
}
