//! Count, sum and spread of a series: exact for latencies ([`Moments`]), as fio keeps them for rates ([`Samples`]).

use flashlab_sim::{Duration, Histogram};

/// Exact count, sum, squares, least and greatest of durations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// `count` durations of zero.
    pub fn zeros(count: u64) -> Self {
        Moments { count, min_ns: if count == 0 { u64::MAX } else { 0 }, ..Moments::default() }
    }

    /// Adds one.
    pub fn record(&mut self, duration: Duration) {
        let ns = duration.as_ns();
        self.count += 1;
        self.sum_ns += u128::from(ns);
        self.squares_ns += u128::from(ns) * u128::from(ns);
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Adds all that another one holds.
    pub fn merge(&mut self, other: &Moments) {
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.squares_ns += other.squares_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The sum of all, in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }
    /// The least in nanoseconds, zero where there is none.
    pub fn min_ns(&self) -> u64 {
        if self.count == 0 { 0 } else { self.min_ns }
    }
    /// The greatest in nanoseconds.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }
    /// The mean in nanoseconds, zero where there is none.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }
    /// The sample standard deviation in nanoseconds.
    pub fn stddev_ns(&self) -> f64 {
        if self.count < 2 {
            return 0.0;
        }
        let n = self.count as f64;
        let variance = (self.squares_ns as f64 - self.sum_ns as f64 / n * self.sum_ns as f64) / (n - 1.0);
        variance.max(0.0).sqrt()
    }
}

impl From<&Histogram> for Moments {
    fn from(h: &Histogram) -> Self {
        Moments {
            count: h.count(),
            sum_ns: h.sum_ns(),
            squares_ns: h.squares_ns(),
            min_ns: if h.count() == 0 { u64::MAX } else { h.min().as_ns() },
            max_ns: h.max().as_ns(),
        }
    }
}

/// Rates seen in successive windows: fio's `bw_min` to `bw_samples`, `iops_min` to `iops_samples`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Samples {
    count: u64,
    min: u64,
    max: u64,
    mean: f64,
    deviations: f64,
}

impl Samples {
    /// Adds the rate of one window.
    pub fn record(&mut self, rate: u64) {
        self.min = if self.count == 0 { rate } else { self.min.min(rate) };
        self.max = self.max.max(rate);
        self.count += 1;
        let delta = rate as f64 - self.mean;
        self.mean += delta / self.count as f64;
        self.deviations += delta * (rate as f64 - self.mean);
    }

    /// Adds the rates of a job that ran beside this one. As fio does, least, greatest and mean are summed: together the
    /// jobs were as fast as all of them.
    pub fn add_parallel(&mut self, other: &Samples) {
        self.count += other.count;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.deviations += other.deviations;
    }

    /// How many windows.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// The least rate, zero where there is none.
    pub fn min(&self) -> u64 {
        self.min
    }
    /// The greatest rate.
    pub fn max(&self) -> u64 {
        self.max
    }
    /// The mean rate.
    pub fn mean(&self) -> f64 {
        self.mean
    }
    /// The sample standard deviation.
    pub fn stddev(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.deviations / (self.count as f64 - 1.0)).sqrt() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_of_one_to_five_have_their_closed_form() {
        let mut samples = Samples::default();
        (1..=5).for_each(|rate| samples.record(rate));
        assert_eq!((samples.min(), samples.max(), samples.count()), (1, 5, 5));
        assert!((samples.mean() - 3.0).abs() < 1e-12);
        assert!((samples.stddev() - 2.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn jobs_side_by_side_are_as_fast_as_their_sum() {
        let mut one = Samples::default();
        [100, 104].into_iter().for_each(|rate| one.record(rate));
        let mut both = one;
        both.add_parallel(&one);
        assert_eq!((both.min(), both.max(), both.count()), (200, 208, 4));
        assert!((both.mean() - 204.0).abs() < 1e-12);
    }

    #[test]
    fn the_moments_of_a_histogram_are_its_own() {
        let (mut histogram, mut moments) = (Histogram::new(), Moments::default());
        for ns in [5, 1_000, 7_777_777] {
            histogram.record(Duration::from_ns(ns));
            moments.record(Duration::from_ns(ns));
        }
        assert_eq!(Moments::from(&histogram), moments);
        assert_eq!(Moments::from(&Histogram::new()), Moments::default());
    }
}
