//! Estimate of the rate of write-back (Linux 6.1, mm/page-writeback.c: `wb_update_write_bandwidth`).
//!
//! The estimate is updated at most every 200 ms. It is a running mean over three seconds, smoothed a second time so
//! that it follows a change without overshooting. As in Linux, it begins at 100 MiB/s.

use flashlab_sim::{Duration, Instant};

/// Least time between two updates.
const INTERVAL: Duration = Duration::from_ms(200);
/// Period of the mean: three seconds, rounded up to a power-of-two number of ticks at 250 Hz.
const PERIOD: Duration = Duration::from_ms(4_096);
/// Initial estimate: 100 MiB/s in pages.
const INITIAL: u64 = 100 << (20 - 12);

/// Pages written back, and their rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bandwidth {
    /// Pages written since the last update.
    written: u64,
    since: Instant,
    /// Running mean and smoothed mean in pages a second.
    mean: u64,
    smoothed: u64,
}

impl Bandwidth {
    pub(super) fn new() -> Bandwidth {
        Bandwidth { written: 0, since: Instant::ZERO, mean: INITIAL, smoothed: INITIAL }
    }

    /// Returns the estimate in pages a second, which is at least 1.
    pub(super) fn pages_per_second(&self) -> u64 {
        self.smoothed.max(1)
    }

    /// Notes that write-back begins at `now`. The time before `now` does not count.
    pub(super) fn resume(&mut self, now: Instant) {
        (self.written, self.since) = (0, now);
    }

    /// Counts pages whose write-back completed at `now`.
    pub(super) fn count(&mut self, pages: u64, now: Instant) {
        self.written += pages;
        let elapsed = now.saturating_since(self.since);
        if elapsed < INTERVAL {
            return;
        }
        let old = self.mean;
        let ns = elapsed.as_ns();
        if elapsed > PERIOD {
            self.mean = (u128::from(self.written) * 1_000_000_000 / u128::from(ns)) as u64;
            self.smoothed = self.mean;
        } else {
            let recent = u128::from(self.written) * 1_000_000_000;
            let before = u128::from(old) * u128::from(PERIOD.as_ns() - ns);
            self.mean = ((recent + before) / u128::from(PERIOD.as_ns())) as u64;
            if self.smoothed > old && old >= self.mean {
                self.smoothed -= (self.smoothed - old) >> 3;
            }
            if self.smoothed < old && old <= self.mean {
                self.smoothed += (old - self.smoothed) >> 3;
            }
        }
        self.resume(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_converges_to_the_rate() {
        let mut bandwidth = Bandwidth::new();
        bandwidth.resume(Instant::ZERO);
        for n in 1..=300 {
            bandwidth.count(1_000, Instant::ZERO + Duration::from_ms(200 * n));
        }
        let rate = bandwidth.pages_per_second();
        assert!((5_000..5_100).contains(&rate), "5,000 pages a second give {rate}");
    }

    #[test]
    fn the_estimate_does_not_change_within_an_interval() {
        let mut bandwidth = Bandwidth::new();
        bandwidth.count(9, Instant::ZERO + Duration::from_ms(199));
        assert_eq!(bandwidth.pages_per_second(), INITIAL);
    }
}
