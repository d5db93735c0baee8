//! The longest write latencies, and the buffer that a program needs so that it loses no data.
//!
//! Tails are predictions: no profile is fitted to them.

use flashlab_sim::{Duration, Histogram, Instant};

/// The tail of the write latencies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Latency that 99 of 100 writes do not exceed.
    pub p99: Duration,
    /// Latency that 999 of 1,000 writes do not exceed.
    pub p99_9: Duration,
    /// Latency that no write exceeds.
    pub max: Duration,
}

impl Tail {
    /// Returns the tail of the latencies, or `None` if there are none.
    pub fn from_histogram(latencies: &Histogram) -> Option<Tail> {
        (latencies.count() > 0).then(|| Tail {
            p99: latencies.percentile(99.0).min(latencies.max()),
            p99_9: latencies.percentile(99.9).min(latencies.max()),
            max: latencies.max(),
        })
    }
}

const NS_PER_S: u128 = 1_000_000_000;

/// The buffer that a producer with a constant rate needs in front of the recorded writes.
///
/// While the device works on writes and flushes, the producer adds `rate` bytes a second. The bytes of a write leave the
/// buffer when the write completes; a flush only delays the next write. Time without an in-flight write or flush does
/// not count (a logger would have waited for data), and the backlog never falls below zero (the logger would have
/// written less). The required size of the buffer is the maximum backlog, which is exact only if writes complete in the
/// order in which they were issued. The block that the producer is filling needs space in addition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LoggerBuffer {
    rate: u64,
    /// Backlog in bytes multiplied by 10^9 (nanoseconds per second), so that it is an exact integer.
    backlog: u128,
    backlog_max: u128,
    busy_ns: u128,
    bytes: u128,
    last: Instant,
}

impl LoggerBuffer {
    /// Limitation that accompanies every result.
    pub const LIMITATION: &'static str = "a lower bound: the models leave out pauses of real devices for garbage \
        collection and housekeeping; published worst-case write latencies of cards are 8 to 500 ms";

    /// Returns the buffer of a producer of `rate` bytes a second.
    pub fn new(rate: u64) -> Self {
        LoggerBuffer { rate, backlog: 0, backlog_max: 0, busy_ns: 0, bytes: 0, last: Instant::ZERO }
    }

    /// Adds a write of `length` bytes. Writes must be added in the order of completion.
    pub fn completed(&mut self, issued: Instant, done: Instant, length: u64) {
        let busy_ns = u128::from(done.saturating_since(issued.max(self.last)).as_ns());
        self.last = self.last.max(done);
        self.busy_ns += busy_ns;
        self.bytes += u128::from(length);
        self.backlog += busy_ns * u128::from(self.rate);
        self.backlog_max = self.backlog_max.max(self.backlog);
        self.backlog = self.backlog.saturating_sub(u128::from(length) * NS_PER_S);
    }

    /// Adds a flush (`fsync` or `fdatasync`), during which the logger writes nothing. Flushes and writes must be added
    /// in the order of completion.
    pub fn synced(&mut self, issued: Instant, done: Instant) {
        self.completed(issued, done, 0);
    }

    /// Adds another logger of the same rate that ran in parallel. Each logger has its own buffer; the result is the
    /// larger one.
    pub fn merge(&mut self, other: &LoggerBuffer) {
        self.backlog_max = self.backlog_max.max(other.backlog_max);
        self.busy_ns += other.busy_ns;
        self.bytes += other.bytes;
    }

    /// Returns the producer's rate in bytes a second.
    pub fn rate(&self) -> u64 {
        self.rate
    }
    /// Returns the maximum backlog in bytes, rounded up.
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.backlog_max.div_ceil(NS_PER_S)).unwrap_or(u64::MAX)
    }
    /// Returns true if all merged loggers together wrote and flushed at least as fast as the producers. If not, the
    /// backlog grows without limit, and no buffer is large enough.
    pub fn is_fast_enough(&self) -> bool {
        self.bytes * NS_PER_S >= self.busy_ns * u128::from(self.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_ms(ms)
    }

    #[test]
    fn steady_writes_need_the_data_produced_during_one_write() {
        let mut buffer = LoggerBuffer::new(1_000_000);
        for i in 0..100 {
            buffer.completed(at(10 * i), at(10 * (i + 1)), 16_384);
        }
        assert_eq!(buffer.bytes(), 10_000);
        assert!(buffer.is_fast_enough());
    }

    #[test]
    fn one_long_write_needs_rate_times_its_latency() {
        // Each write transfers 4 KiB and takes 1 ms; the 50th takes 300 ms.
        let mut buffer = LoggerBuffer::new(2_000_000);
        let mut now = 0;
        for i in 0..100 {
            let ms = if i == 50 { 300 } else { 1 };
            buffer.completed(at(now), at(now + ms), 4_096);
            now += ms;
        }
        assert_eq!(buffer.bytes(), 600_000);
    }

    #[test]
    fn two_long_writes_add_up_less_the_bytes_drained_between_them() {
        // At 1 MB/s: 100 ms add 100,000 bytes, five writes of 1 ms remove 4,096 - 1,000 each, then 100 ms follow.
        let mut buffer = LoggerBuffer::new(1_000_000);
        let mut now = 0;
        for ms in [100, 1, 1, 1, 1, 1, 100] {
            buffer.completed(at(now), at(now + ms), 4_096);
            now += ms;
        }
        assert_eq!(buffer.bytes(), 100_000 + 100_000 + 5 * 1_000 - 6 * 4_096);
    }

    #[test]
    fn writes_slower_than_the_producer_need_a_buffer_for_the_difference() {
        // Each write moves 1,000 bytes in 1 ms, while the producer adds 3,000. The backlog grows by 2,000
        // bytes a write, and is 3,000 bytes higher just before the last completion.
        let mut buffer = LoggerBuffer::new(3_000_000);
        for i in 0..50 {
            buffer.completed(at(i), at(i + 1), 1_000);
        }
        assert_eq!(buffer.bytes(), 49 * 2_000 + 3_000);
        assert!(!buffer.is_fast_enough());
    }

    /// At 1 MB/s, a write of 4,096 bytes takes 1 ms and a flush 4 ms: each pair adds 5,000 - 4,096 bytes.
    #[test]
    fn a_flush_after_each_write_fills_the_buffer() {
        let mut buffer = LoggerBuffer::new(1_000_000);
        for i in 0..10 {
            buffer.completed(at(5 * i), at(5 * i + 1), 4_096);
            buffer.synced(at(5 * i + 1), at(5 * i + 5));
        }
        assert_eq!(buffer.bytes(), 5_000 + 8 * (5_000 - 4_096));
        assert!(!buffer.is_fast_enough());
    }

    #[test]
    fn idle_time_fills_no_buffer() {
        let mut buffer = LoggerBuffer::new(1_000_000);
        for i in 0..10 {
            buffer.completed(at(1_000 * i), at(1_000 * i + 2), 4_096);
        }
        assert_eq!(buffer.bytes(), 2_000);
    }

    proptest! {
        /// Compares the recursion with its definition: the maximum, over every contiguous sequence of writes, of rate
        /// times busy time minus the bytes that completed before.
        #[test]
        fn the_backlog_is_that_of_the_worst_sequence_of_writes(
            rate in 1u64..100_000_000,
            writes in prop::collection::vec((1u64..50_000_000, 1u64..1 << 20), 1..40),
        ) {
            let mut buffer = LoggerBuffer::new(rate);
            let mut now = Instant::ZERO;
            for &(ns, length) in &writes {
                let done = now + Duration::from_ns(ns);
                buffer.completed(now, done, length);
                now = done;
            }
            let mut worst = 0i128;
            for from in 0..writes.len() {
                let mut backlog = 0i128;
                for &(ns, length) in &writes[from..] {
                    backlog += i128::from(rate) * i128::from(ns);
                    worst = worst.max(backlog);
                    backlog -= i128::from(length) * NS_PER_S as i128;
                }
            }
            prop_assert_eq!(i128::from(buffer.bytes()), (worst + NS_PER_S as i128 - 1) / NS_PER_S as i128);
        }
    }
}
