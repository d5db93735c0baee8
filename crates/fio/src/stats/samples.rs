//! Minimum, maximum, mean and deviation of the rates in successive windows, or of successive requests,
//! computed as in fio.

/// Statistics of the rates in successive windows: fio's `bw_min` to `bw_samples`, and `iops_min` to `iops_samples`.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Samples {
    count: u64,
    min: u64,
    max: u64,
    mean: f64,
    squared_deviations: f64,
}

impl Samples {
    /// Adds the rate of one window.
    pub fn record(&mut self, rate: u64) {
        self.min = if self.count == 0 { rate } else { self.min.min(rate) };
        self.max = self.max.max(rate);
        self.count += 1;
        let delta = rate as f64 - self.mean;
        self.mean += delta / self.count as f64;
        self.squared_deviations += delta * (rate as f64 - self.mean);
    }

    /// Adds the rates of a job that ran in parallel. As in fio, the minima, maxima and means are summed, since the jobs
    /// together have the sum of their rates.
    pub fn add_parallel(&mut self, other: &Samples) {
        self.count += other.count;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.squared_deviations += other.squared_deviations;
    }

    /// Returns the number of windows.
    pub fn count(&self) -> u64 {
        self.count
    }
    /// Returns the minimum rate, or zero if there is no window.
    pub fn min(&self) -> u64 {
        self.min
    }
    /// Returns the maximum rate, or zero if there is no window.
    pub fn max(&self) -> u64 {
        self.max
    }
    /// Returns the mean rate, or zero if there is no window.
    pub fn mean(&self) -> f64 {
        self.mean
    }
    /// Returns the sample standard deviation, or zero for fewer than two windows.
    pub fn stddev(&self) -> f64 {
        if self.count < 2 { 0.0 } else { (self.squared_deviations / (self.count as f64 - 1.0)).sqrt() }
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
    fn rates_of_parallel_jobs_are_summed() {
        let mut one = Samples::default();
        [100, 104].into_iter().for_each(|rate| one.record(rate));
        let mut both = one;
        both.add_parallel(&one);
        assert_eq!((both.min(), both.max(), both.count()), (200, 208, 4));
        assert!((both.mean() - 204.0).abs() < 1e-12);
    }
}
