//! Extrapolation of a history's erase counts to the end of a life.
//!
//! The blocks are sorted by erase count, at the midpoint of a history and at its end. The growth of the count at each
//! rank is the wear rate of the block that has this rank at the end. The most worn blocks therefore continue at the
//! rate of the most worn blocks, even if different blocks were the most worn ones before. A block that is always
//! written keeps its own rate. Blocks that are written in turn share one rate. If wear leveling lets a pool of blocks
//! wear ahead of the rest, the extrapolation continues the front of this pool, although blocks enter and leave the
//! pool. Blocks with the same count have the same rate: the mean of the rates at their ranks.
//!
//! Each block has its own limit. The life ends with the first erase beyond a block's limit. Changes of rank
//! after the end of the history are not modelled, although they may bring a block with a lower limit to the front.

use crate::statistics::in_use;
use flashlab_sim::Instant;

/// The properties of a medium that its seed determines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Medium {
    /// Number of erases that each block endures; empty if blocks never wear out.
    pub(super) limits: Vec<u32>,
    /// Indices of the blocks that are bad from the factory, ascending.
    pub(super) bad: Vec<u32>,
}

/// The erase counts of all blocks at an instant.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) at: Instant,
    pub(super) erase_counts: Vec<u32>,
}

/// The end of a life if wear continues as before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Estimate {
    /// Time until the first block exceeds its limit, in nanoseconds from the start of the life.
    pub(super) first_failure_ns: f64,
    /// Time until the block with the lowest limit fails if all blocks have the mean erase count, in
    /// nanoseconds from the start of the life.
    pub(super) even_failure_ns: f64,
    /// Mean number of erases, in the time over which rates were taken, of the blocks with the same count as the first
    /// failing block.
    pub(super) erases: f64,
    /// Difference in erases between the most and the least worn block, now.
    pub(super) gap_now: f64,
    /// The same difference at the end of the life.
    pub(super) gap_at_end: f64,
}

/// Wear rates of blocks in the second half of a history.
pub(super) struct Rates {
    /// The distinct erase counts at the end, ascending, each with the mean growth since the midpoint at its ranks.
    places: Vec<(u32, f64)>,
    /// Mean erase count at the end, and its growth since the midpoint.
    mean: (f64, f64),
    /// Duration of the second half in nanoseconds.
    time: f64,
}

impl Rates {
    /// Computes the rates between the midpoint (`half`) and the `end` of a history, on a medium whose `bad` blocks are
    /// out of use.
    pub(super) fn new(half: &Snapshot, end: &Snapshot, bad: &[u32]) -> Self {
        let sorted = |snapshot: &Snapshot| {
            let mut counts: Vec<u32> = in_use(&snapshot.erase_counts, bad).collect();
            counts.sort_unstable();
            counts
        };
        let (before, after) = (sorted(half), sorted(end));
        let grown: Vec<(u32, u32)> = after.iter().zip(&before).map(|(a, b)| (*a, a - b)).collect();
        let place = |same: &[(u32, u32)]| {
            let sum: f64 = same.iter().map(|(_, grown)| f64::from(*grown)).sum();
            (same[0].0, sum / same.len() as f64)
        };
        let places = grown.chunk_by(|(a, _), (b, _)| a == b).map(place).collect();
        let sum = |of: &dyn Fn(&(u32, u32)) -> u32| grown.iter().map(|pair| f64::from(of(pair))).sum::<f64>();
        let blocks = grown.len().max(1) as f64;
        let mean = (sum(&|(count, _)| *count) / blocks, sum(&|(_, grown)| *grown) / blocks);
        Rates { places, mean, time: end.at.since(half.at).as_ns() as f64 }
    }

    /// Estimates when the first block of `medium` exceeds its limit if the history continues as it did up to its `end`.
    /// Times count from `begin`. Returns `None` if no block wears, or if blocks never wear out.
    pub(super) fn extrapolate(&self, end: &Snapshot, medium: &Medium, begin: Instant) -> Option<Estimate> {
        let counts = in_use(&end.erase_counts, &medium.bad);
        let lives = counts.zip(in_use(&medium.limits, &medium.bad)).filter_map(|(count, limit)| {
            let grown = self.grown(count);
            // A block fails at the first erase beyond its limit.
            let left = f64::from(limit) + 1.0 - f64::from(count);
            (grown > 0.0).then(|| (left * self.time / grown, grown))
        });
        let (rest, erases) = lives.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let weakest = in_use(&medium.limits, &medium.bad).min()?;
        let even = (f64::from(weakest) + 1.0 - self.mean.0).max(0.0) * self.time / self.mean.1;
        let so_far = end.at.since(begin).as_ns() as f64;
        let then = |(count, grown): (u32, f64)| f64::from(count) + grown * rest / self.time;
        let (least, most) = (*self.places.first()?, *self.places.last()?);
        Some(Estimate {
            first_failure_ns: so_far + rest,
            even_failure_ns: so_far + even,
            erases,
            gap_now: f64::from(most.0 - least.0),
            gap_at_end: then(most) - then(least),
        })
    }

    /// Returns the mean growth since the midpoint of the blocks that have `count` erases at the end.
    fn grown(&self, count: u32) -> f64 {
        let place = self.places.binary_search_by_key(&count, |(count, _)| *count);
        self.places[place.expect("the counts are those of the history's end")].1
    }
}

impl Medium {
    /// Returns true if a block would have failed, because it was erased more often than its limit.
    pub(super) fn has_failed(&self, erase_counts: &[u32]) -> bool {
        self.limits.iter().zip(erase_counts).any(|(limit, count)| count > limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(half: Vec<u32>, end: Vec<u32>, limits: Vec<u32>) -> Option<Estimate> {
        let half = Snapshot { at: Instant::from_ns(100), erase_counts: half };
        let end = Snapshot { at: Instant::from_ns(200), erase_counts: end };
        let medium = Medium { limits, bad: vec![] };
        Rates::new(&half, &end, &medium.bad).extrapolate(&end, &medium, Instant::ZERO)
    }

    #[test]
    fn a_block_that_is_always_written_continues_at_its_own_rate() {
        let found =
            end(vec![100, 0, 1, 0, 1], vec![200, 0, 1, 0, 1], vec![999; 5]).expect("the device wears out");
        // The most worn block gains 100 erases in 100 ns, and 800 are left.
        let expected = Estimate {
            first_failure_ns: 1_000.0,
            // On average, a block has 40.4 erases and gains 20 in 100 ns.
            even_failure_ns: 4_998.0,
            erases: 100.0,
            gap_now: 200.0,
            gap_at_end: 1_000.0,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_that_take_turns_continue_at_the_mean_rate() {
        // In each half of the history, one half of the blocks was written.
        let found = end(vec![10, 10, 0, 0], vec![10, 10, 10, 10], vec![999, 899, 999, 999]);
        let found = found.expect("the device wears out");
        assert_eq!((found.first_failure_ns, found.erases), (200.0 + 890.0 * 100.0 / 5.0, 5.0));
    }

    #[test]
    fn a_pool_that_wears_ahead_continues_at_its_rate_although_its_blocks_change() {
        // The two highest ranks gain ten erases in each half. One of the two most worn blocks at the end was
        // not among the two most worn ones at the midpoint.
        let found = end(vec![10, 10, 2, 2], vec![20, 4, 20, 4], vec![119; 4]).expect("the device wears out");
        assert_eq!(found.first_failure_ns, 200.0 + 1_000.0);
        assert_eq!((found.gap_now, found.gap_at_end), (16.0, 96.0));
    }

    #[test]
    fn the_block_with_the_fewest_erases_left_for_its_rate_fails_first() {
        let found = end(vec![10, 5], vec![20, 10], vec![999, 99]).expect("the device wears out");
        assert_eq!(found.first_failure_ns, 200.0 + 90.0 * 20.0);
    }

    #[test]
    fn factory_bad_blocks_do_not_count() {
        let half = Snapshot { at: Instant::ZERO, erase_counts: vec![0, 10, 10] };
        let end = Snapshot { at: Instant::from_ns(10), erase_counts: vec![0, 20, 20] };
        let medium = Medium { limits: vec![5, 99, 99], bad: vec![0] };
        let rates = Rates::new(&half, &end, &medium.bad);
        let found = rates.extrapolate(&end, &medium, Instant::ZERO).expect("the device wears out");
        assert_eq!((found.first_failure_ns, found.gap_now), (10.0 + 80.0, 0.0));
        assert!(!medium.has_failed(&[0, 99, 0]) && medium.has_failed(&[0, 100, 0]));
    }

    #[test]
    fn a_device_without_erases_or_without_limits_has_no_end_of_life() {
        assert_eq!(end(vec![7, 7, 7], vec![7, 7, 7], vec![100; 3]), None);
        assert_eq!(end(vec![1, 1], vec![2, 2], vec![]), None, "without limits there is no end");
    }
}
