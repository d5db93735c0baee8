//! Count, sum and standard deviation of durations. The sums are exact; the mean and the standard deviation
//! are computed in floating point.

use crate::Duration;
use serde::{Deserialize, Serialize};

/// Exact count, sum, sum of squares, minimum and maximum of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Moments {
    count: u64,
    sum_ns: u128,
    squares_ns: u128,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Moments {
    fn default() -> Self {
        Moments { count: 0, sum_ns: 0, squares_ns: 0, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Moments {
    /// Returns the moments of `count` durations of zero.
    pub fn zeros(count: u64) -> Self {
        Moments { count, min_ns: if count == 0 { u64::MAX } else { 0 }, ..Moments::default() }
    }

    /// Records one duration.
    #[inline]
    pub fn record(&mut self, duration: Duration) {
        let ns = duration.as_ns();
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.squares_ns += u128::from(ns) * u128::from(ns);
        if ns < self.min_ns {
            self.min_ns = ns;
        }
        if ns > self.max_ns {
            self.max_ns = ns;
        }
    }

    /// Adds the durations of `other`.
    pub fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.squares_ns += other.squares_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Returns the sum in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }
    /// Returns the minimum in nanoseconds, or zero if there is no duration.
    pub fn min_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min_ns }
    }
    /// Returns the maximum in nanoseconds, or zero if there is no duration.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }
    /// Returns the mean in nanoseconds, or zero if there is no duration.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }
    /// Returns the sample standard deviation in nanoseconds, or zero if there are fewer than two durations.
    pub fn stddev_ns(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        // n*squares - sum^2 can exceed 128 bits, so the subtraction uses floating point.
        let n = self.count as f64;
        let variance = (self.squares_ns as f64 - self.sum_ns as f64 / n * self.sum_ns as f64) / (n - 1.0);
        libm::sqrt(variance.max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Histogram;

    #[test]
    fn moments_equal_those_of_a_histogram() {
        let (mut histogram, mut moments) = (Histogram::new(), Moments::default());
        for ns in [5, 1_000, 7_777_777] {
            histogram.record(Duration::from_ns(ns));
            moments.record(Duration::from_ns(ns));
        }
        assert_eq!(*histogram.moments(), moments);
        assert_eq!(*Histogram::new().moments(), Moments::default());
    }
}
