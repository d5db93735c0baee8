//! fio's coarse tables: latencies in steps of 2, 4, 10, 20, 50, ..., queue depths in powers of two, and batch sizes.

use flashlab_sim::Duration;

/// Upper bounds (exclusive) of the latency table in nanoseconds. Latencies at or above the last bound have their own
/// bin.
const BOUNDS_NS: [u64; 31] = {
    let steps = [2, 4, 10, 20, 50, 100, 250, 500, 750, 1_000];
    let mut bounds = [0; 31];
    let mut i = 0;
    while i < 30 {
        bounds[i] = steps[i % 10] * [1, 1_000, 1_000_000][i / 10];
        i += 1;
    }
    bounds[30] = 2_000_000_000;
    bounds
};

/// The bounds near one power of two: the number of bounds at or below it, and the last value before each of the (at
/// most two) bounds between it and the next power.
#[derive(Clone, Copy)]
struct Octave {
    first: usize,
    inside: [u64; 2],
}

const OCTAVES: [Octave; 64] = {
    let mut octaves = [Octave { first: 0, inside: [u64::MAX; 2] }; 64];
    let mut msb = 0;
    while msb < 64 {
        let low = 1u64 << msb;
        let mut i = 0;
        let mut inside = 0;
        while i < BOUNDS_NS.len() {
            if BOUNDS_NS[i] <= low {
                octaves[msb].first += 1;
            } else if BOUNDS_NS[i] - low < low {
                octaves[msb].inside[inside] = BOUNDS_NS[i] - 1;
                inside += 1;
            }
            i += 1;
        }
        msb += 1;
    }
    octaves
};

/// fio's `lat (nsec)`, `lat (usec)` and `lat (msec)` lines: counts of latencies between successive bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyTable([u64; BOUNDS_NS.len() + 1]);

impl Default for LatencyTable {
    fn default() -> Self {
        LatencyTable([0; BOUNDS_NS.len() + 1])
    }
}

impl LatencyTable {
    /// Bounds of the nanosecond and microsecond parts, with fio's names.
    pub const STEPS: [&str; 10] = ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
    /// Bounds of the millisecond part.
    pub const STEPS_MS: [&str; 12] =
        ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];

    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        self.0[Self::bin_of(latency.as_ns())] += 1;
    }

    #[inline]
    fn bin_of(ns: u64) -> usize {
        let octave = &OCTAVES[(ns | 1).ilog2() as usize];
        octave.first + usize::from(ns > octave.inside[0]) + usize::from(ns > octave.inside[1])
    }

    /// Adds the counts of another table.
    pub fn merge(&mut self, other: &LatencyTable) {
        add(&mut self.0, &other.0);
    }

    /// Returns the counts of the bins that end at 2, 4, ..., 1000 nanoseconds.
    pub fn ns(&self) -> &[u64] {
        &self.0[..10]
    }
    /// Returns the counts of the bins that end at 2, 4, ..., 1000 microseconds. The first one begins at 1 microsecond.
    pub fn us(&self) -> &[u64] {
        &self.0[10..20]
    }
    /// Returns the counts of the bins that end at 2, 4, ..., 2000 milliseconds, and of the bin of longer latencies. The
    /// first one begins at 1 millisecond.
    pub fn ms(&self) -> &[u64] {
        &self.0[20..]
    }
}

/// fio's `IO depths` line: numbers of in-flight requests when a request is submitted, itself included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DepthTable([u64; 7]);

impl DepthTable {
    /// The bins with fio's names. Each bin counts the depths from its own name up to just below the next
    /// name.
    pub const STEPS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];

    /// Adds `count` requests that were submitted at `depth`.
    #[inline]
    pub fn record(&mut self, depth: u32, count: u64) {
        self.0[((depth | 1).ilog2() as usize).min(6)] += count;
    }
    /// Adds the counts of another table.
    pub fn merge(&mut self, other: &DepthTable) {
        add(&mut self.0, &other.0);
    }
    /// Returns the counts.
    pub fn counts(&self) -> &[u64; 7] {
        &self.0
    }
}

/// fio's `submit` and `complete` lines: numbers of requests submitted, or reaped, at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BatchTable([u64; 7]);

impl BatchTable {
    /// The bins with fio's names. Each bin counts the sizes above the previous name, up to its own name. The
    /// last bin counts the sizes above 64.
    pub const STEPS: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

    /// Adds `times` batches of `size` requests.
    #[inline]
    pub fn record(&mut self, size: u32, times: u64) {
        let bin = match size {
            0 => 0,
            1..=4 => 1,
            5..=8 => 2,
            9..=16 => 3,
            17..=32 => 4,
            33..=64 => 5,
            _ => 6,
        };
        self.0[bin] += times;
    }
    /// Adds the counts of another table.
    pub fn merge(&mut self, other: &BatchTable) {
        add(&mut self.0, &other.0);
    }
    /// Returns the counts.
    pub fn counts(&self) -> &[u64; 7] {
        &self.0
    }
    /// Returns the number of batches.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

fn add(mine: &mut [u64], theirs: &[u64]) {
    for (mine, theirs) in mine.iter_mut().zip(theirs) {
        *mine += theirs;
    }
}

/// Returns `count` as a percentage of `total`, but at least `least` if `count` is not zero. The result is
/// zero if `total` is zero. fio never prints a small count as zero.
pub(crate) fn share(count: u64, total: u64, least: f64) -> f64 {
    if count == 0 || total == 0 { 0.0 } else { (100.0 * count as f64 / total as f64).max(least) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_bound_begins_the_next_bin() {
        for (i, &bound) in BOUNDS_NS.iter().enumerate() {
            assert_eq!(LatencyTable::bin_of(bound - 1), i);
            assert_eq!(LatencyTable::bin_of(bound), i + 1);
        }
        assert_eq!(LatencyTable::bin_of(0), 0);
        assert_eq!(LatencyTable::bin_of(u64::MAX), 31);
    }

    #[test]
    fn depths_fall_between_powers_of_two_and_batches_at_or_below_them() {
        let mut depths = DepthTable::default();
        for depth in [1, 2, 3, 4, 7, 8, 63, 64, 1_000] {
            depths.record(depth, 1);
        }
        assert_eq!(depths.counts(), &[1, 2, 2, 1, 0, 1, 2]);
        let mut batches = BatchTable::default();
        for size in [0, 1, 4, 5, 8, 9, 64, 65] {
            batches.record(size, 1);
        }
        assert_eq!(batches.counts(), &[1, 2, 2, 1, 0, 1, 1]);
    }

    #[test]
    fn a_nonzero_share_is_never_printed_as_zero() {
        assert_eq!(share(0, 10, 0.01), 0.0);
        assert_eq!(share(1, 1_000_000, 0.01), 0.01);
        assert_eq!(share(1, 4, 0.01), 25.0);
    }

    proptest! {
        #[test]
        fn a_bin_is_the_number_of_bounds_reached(ns: u64, shift in 0u32..64) {
            let ns = ns >> shift;
            prop_assert_eq!(LatencyTable::bin_of(ns), BOUNDS_NS.iter().filter(|&&b| b <= ns).count());
        }
    }
}
