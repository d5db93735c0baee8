//! A latency histogram with fio's buckets, so that percentiles can be compared with fio's.
//!
//! Each value below 128 ns has its own bucket. Above that, each power of two is divided into 64 equal buckets, which
//! gives a resolution of 1/64. A percentile is the midpoint of its bucket, as in fio, so a high percentile can exceed
//! the maximum latency slightly. The last bucket also counts all latencies above 17 s, as in fio.

use crate::{Duration, Moments};
use alloc::boxed::Box;
use alloc::vec;

/// Base-2 logarithm of the number of buckets per power of two (fio's `FIO_IO_U_PLAT_BITS`).
const GROUP_BITS: u32 = 6;
const GROUP: usize = 1 << GROUP_BITS;
/// Number of bucket groups (fio's `FIO_IO_U_PLAT_GROUP_NR`), which cover latencies up to 17 s.
const GROUPS: usize = 29;
const BUCKETS: usize = GROUPS * GROUP;

/// A logarithmic histogram of latencies in nanoseconds. Count, sum, minimum and maximum are exact.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    buckets: Box<[u64; BUCKETS]>,
    moments: Moments,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Returns an empty histogram.
    pub fn new() -> Self {
        Histogram {
            buckets: vec![0; BUCKETS].into_boxed_slice().try_into().expect("the vector has BUCKETS elements"),
            moments: Moments::default(),
        }
    }

    /// Returns a histogram of `count` latencies of zero.
    pub fn zeros(count: u64) -> Self {
        let mut histogram = Histogram { moments: Moments::zeros(count), ..Self::new() };
        histogram.buckets[0] = count;
        histogram
    }

    #[inline]
    fn bucket_of(ns: u64) -> usize {
        // The number of low bits that the bucket drops: zero where each value has its own bucket.
        let shift = (ns | GROUP as u64).ilog2() - GROUP_BITS;
        (shift as usize * GROUP + (ns >> shift) as usize).min(BUCKETS - 1)
    }

    /// Returns the midpoint of a bucket.
    fn value_of(bucket: usize) -> u64 {
        if bucket < 2 * GROUP {
            return bucket as u64;
        }
        let shift = bucket / GROUP - 1;
        let base = (GROUP + bucket % GROUP) as u64;
        (base << shift) + (1 << (shift - 1))
    }

    /// Returns a histogram with the given moments and buckets. The buckets have the form that
    /// [`Histogram::occupied`] returns.
    pub fn from_parts(buckets: impl IntoIterator<Item = (u64, u64)>, moments: Moments) -> Self {
        let mut histogram = Histogram { moments, ..Self::new() };
        for (midpoint_ns, count) in buckets {
            histogram.buckets[Self::bucket_of(midpoint_ns)] += count;
        }
        histogram
    }

    /// Records one latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.buckets[Self::bucket_of(latency.as_ns())] += 1;
        self.moments.record(latency);
    }

    /// Adds the contents of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.buckets.iter_mut().zip(other.buckets.iter()) {
            *mine += theirs;
        }
        self.moments.merge(&other.moments);
    }

    /// Returns the exact moments of the recorded latencies.
    pub fn moments(&self) -> &Moments {
        &self.moments
    }
    /// Returns the number of latencies.
    pub fn count(&self) -> u64 {
        self.moments.count()
    }
    /// Returns the sum in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.moments.sum_ns()
    }
    /// Returns the minimum, or zero if the histogram is empty.
    pub fn min(&self) -> Duration {
        Duration::from_ns(self.moments.min_ns())
    }
    /// Returns the maximum, or zero if the histogram is empty.
    pub fn max(&self) -> Duration {
        Duration::from_ns(self.moments.max_ns())
    }
    /// Returns the mean in nanoseconds, or zero if the histogram is empty.
    pub fn mean_ns(&self) -> f64 {
        self.moments.mean_ns()
    }
    /// Returns the sample standard deviation in nanoseconds, or zero if there are fewer than two latencies.
    pub fn stddev_ns(&self) -> f64 {
        self.moments.stddev_ns()
    }
    /// Returns the rank of a percentile: the number of latencies that make up `percent` of `count`, rounded
    /// up and at least 1.
    ///
    /// The calculation uses the exact value of the double, which for 99.9 is slightly above 99.9. The 99.9th percentile
    /// of 1,000 latencies is therefore the last one, as in fio.
    pub fn rank(count: u64, percent: f64) -> u64 {
        const SCALE: u32 = 62;
        let scaled = (percent.clamp(0.0, 100.0) * (1u64 << SCALE) as f64) as u128;
        let rank = (scaled * u128::from(count)).div_ceil(100 << SCALE);
        u64::try_from(rank).expect("not above the count").max(1)
    }
    /// Returns the midpoint of the bucket that holds the given percentile, as fio does.
    pub fn percentile(&self, percent: f64) -> Duration {
        let rank = Self::rank(self.count(), percent);
        let mut seen = 0;
        for (bucket, &n) in self.buckets.iter().enumerate() {
            seen += n;
            if n > 0 && seen >= rank {
                return Duration::from_ns(Self::value_of(bucket));
            }
        }
        Duration::ZERO
    }
    /// Iterates over the buckets that are not empty, as pairs of midpoint in nanoseconds and count.
    pub fn occupied(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets
            .iter()
            .enumerate()
            .filter(|&(_, &n)| n > 0)
            .map(|(bucket, &n)| (Self::value_of(bucket), n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_below_128_are_exact_and_1000_has_the_midpoint_that_fio_prints() {
        for ns in 0..128 {
            assert_eq!(Histogram::value_of(Histogram::bucket_of(ns)), ns);
        }
        // 1,000 lies in [1000, 1008), which fio prints as 1004.
        assert_eq!(Histogram::value_of(Histogram::bucket_of(1_000)), 1_004);
    }

    #[test]
    fn a_histogram_is_restored_from_its_buckets_and_moments() {
        let mut h = Histogram::new();
        [0, 127, 128, 1_000, 123_456_789, u64::MAX]
            .into_iter()
            .for_each(|ns| h.record(Duration::from_ns(ns)));
        assert_eq!(Histogram::from_parts(h.occupied(), *h.moments()), h);
    }

    #[test]
    fn percentiles_of_the_numbers_from_1_to_100_are_exact() {
        let mut h = Histogram::new();
        for ns in 1..=100 {
            h.record(Duration::from_ns(ns));
        }
        assert_eq!(h.percentile(50.0), Duration::from_ns(50));
        assert_eq!(h.percentile(99.0), Duration::from_ns(99));
        assert!((h.mean_ns() - 50.5).abs() < 1e-9);
        assert!((h.stddev_ns() - 29.011_491_975_882_016).abs() < 1e-9);
    }

    #[test]
    fn the_99_9th_percentile_of_1000_latencies_is_the_last_one_as_in_fio() {
        let mut h = Histogram::new();
        (0..999).for_each(|_| h.record(Duration::from_ns(1)));
        h.record(Duration::from_ns(100));
        assert_eq!(h.percentile(99.9), Duration::from_ns(100));
        assert_eq!(h.percentile(99.5), Duration::from_ns(1));
    }

    #[test]
    fn latencies_past_the_last_bucket_are_counted_in_it() {
        let mut h = Histogram::new();
        h.record(Duration::from_secs(100));
        assert_eq!(h.count(), 1);
        assert_eq!(h.max(), Duration::from_secs(100));
        assert_eq!(h.percentile(100.0), Duration::from_ns(Histogram::value_of(BUCKETS - 1)));
    }

    #[test]
    fn a_merged_histogram_equals_one_that_recorded_all_latencies() {
        let (mut a, mut b, mut both) = (Histogram::new(), Histogram::new(), Histogram::new());
        for ns in [3, 70_000, 2_000_000] {
            a.record(Duration::from_ns(ns));
            both.record(Duration::from_ns(ns));
        }
        for ns in [1, 5_000_000_000] {
            b.record(Duration::from_ns(ns));
            both.record(Duration::from_ns(ns));
        }
        a.merge(&b);
        assert_eq!(a, both);
    }

    proptest! {
        #[test]
        fn the_midpoint_of_a_bucket_is_within_a_64th_of_each_value(ns in 0u64..17_000_000_000) {
            let middle = Histogram::value_of(Histogram::bucket_of(ns));
            prop_assert!(middle.abs_diff(ns) <= ns / 64, "{ns} became {middle}");
        }
    }
}
