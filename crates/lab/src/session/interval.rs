//! The figures of the requests that completed in one interval.

use flashlab_fio::job::Direction;
use flashlab_fio::workload::{Cause, Io, Record};
use flashlab_sim::{Duration, Instant, Mechanism, Spent};
use serde::Serialize;

/// Upper bounds of the rows of the latency heat map: five per decade, from 1.6 us to 100 s. Longer latencies count in
/// the last row.
pub const LATENCY_BOUNDS_NS: [u64; 40] = bounds();

const fn bounds() -> [u64; 40] {
    // The fifth roots of 10, 100, ..., 100,000 in thousandths.
    const STEPS: [u64; 5] = [1_585, 2_512, 3_981, 6_310, 10_000];
    let mut bounds = [0; 40];
    let mut n = 0;
    while n < 40 {
        bounds[n] = STEPS[n % 5] * 10_u64.pow((n / 5) as u32);
        n += 1;
    }
    bounds
}

/// Figures of one interval. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Interval {
    /// Start of the interval in simulated time.
    pub from_ns: u64,
    /// End of the interval in simulated time.
    pub to_ns: u64,
    /// Wall-clock time of the interval.
    pub wall_ns: u64,
    /// True if a number of the device was changed in the interval.
    pub is_changed: bool,
    /// Completed reads, writes and trims.
    pub requests: [u64; 3],
    /// Bytes of completed reads, writes and trims.
    pub bytes: [u64; 3],
    /// Submission of the earliest of these requests; 0 without requests. Rates over the time from here to the last
    /// completion do not depend on the number of long requests that happen to end in the interval.
    pub busy_from_ns: u64,
    /// Completion of the last of these requests; 0 without requests.
    pub busy_to_ns: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Greatest latency.
    pub latency_max_ns: u64,
    /// Sum of the latencies by mechanism, in the order of [`Mechanism::ALL`].
    pub mechanisms_ns: [u64; Mechanism::ALL.len()],
    /// Rows of the latency heat map with their numbers of requests; empty rows are left out.
    pub latencies: Vec<(usize, u64)>,
}

impl Interval {
    /// Returns true if no request completed or failed.
    pub fn is_empty(&self) -> bool {
        self.failed == 0 && self.requests == [0; 3]
    }

    /// Counts a request that completed at `done`.
    pub fn count(&mut self, direction: Direction, bytes: u64, done: Instant, spent: &Spent) {
        let issued = done.as_ns().saturating_sub(spent.total().as_ns());
        self.busy_from_ns = if self.busy_to_ns == 0 { issued } else { self.busy_from_ns.min(issued) };
        self.busy_to_ns = self.busy_to_ns.max(done.as_ns());
        self.requests[direction as usize] += 1;
        self.bytes[direction as usize] += bytes;
        let latency = spent.total().as_ns();
        self.latency_max_ns = self.latency_max_ns.max(latency);
        for (sum, (_, time)) in self.mechanisms_ns.iter_mut().zip(spent.iter()) {
            *sum += time.as_ns();
        }
        let row =
            LATENCY_BOUNDS_NS.partition_point(|bound| *bound < latency).min(LATENCY_BOUNDS_NS.len() - 1);
        match self.latencies.iter_mut().find(|(known, _)| *known == row) {
            Some((_, count)) => *count += 1,
            None => self.latencies.push((row, 1)),
        }
    }

    /// Returns the interval with its times set. The caller has counted the last request of the interval.
    pub fn closed(mut self, begin: Instant, end: Instant, wall: Duration) -> Interval {
        (self.from_ns, self.to_ns, self.wall_ns) = (begin.as_ns(), end.as_ns(), wall.as_ns());
        self.latencies.sort_unstable();
        self
    }
}

/// Records requests in the current interval, and the failures of jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder {
    pub(super) interval: Interval,
    /// Time by which the clock of the requests is ahead of the clock of the interval.
    pub(super) ahead: Duration,
    pub(super) failures: Vec<(Instant, Cause)>,
}

impl Recorder {
    /// Ends the interval and begins an empty one.
    pub(super) fn take(&mut self, begin: Instant, end: Instant, wall: Duration) -> Interval {
        std::mem::take(&mut self.interval).closed(begin, end, wall)
    }
}

impl Record for Recorder {
    fn started(&mut self, _: usize, _: Instant) {}
    fn submitted(&mut self, _: usize, _: &Io, _: u32) {}
    fn completed(&mut self, _: usize, io: &Io, done: Instant, spent: &Spent) {
        let done = done.saturating_sub(self.ahead);
        self.interval.count(io.direction, io.length, done, spent);
    }
    fn synced(&mut self, _: usize, _: Instant, _: Instant, _: &Spent, _: u32) {}
    fn ramp_over(&mut self, _: usize, _: Instant) {}
    fn failed(&mut self, _: usize, _: &Io, at: Instant, cause: Cause) {
        self.interval.failed += 1;
        self.failures.push((at, cause));
    }
    fn finished(&mut self, _: usize, _: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_fall_into_rows_of_a_fifth_of_a_decade() {
        let mut interval = Interval::default();
        for ns in [0, 1_585, 1_586, 1_000_000, 200_000_000_000] {
            let mut spent = Spent::default();
            spent[Mechanism::Program] = Duration::from_ns(ns);
            interval.count(Direction::Write, 512, Instant::from_ns(300_000_000_000 + ns), &spent);
        }
        assert_eq!(interval.latencies, [(0, 2), (1, 1), (14, 1), (39, 1)]);
        assert_eq!((interval.requests, interval.bytes), ([0, 5, 0], [0, 2_560, 0]));
        assert_eq!((interval.busy_from_ns, interval.busy_to_ns), (300_000_000_000, 500_000_000_000));
        assert_eq!(LATENCY_BOUNDS_NS[39], 100_000_000_000);
    }
}
