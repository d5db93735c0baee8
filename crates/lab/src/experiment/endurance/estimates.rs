//! Estimates of the lives of media that share a history, and their confidence intervals.
//!
//! A history is examined [`GRID`] times in each doubling of its length. Each examination gives an estimate of every
//! medium's life; the first estimate needs five examinations. The relative error of an estimate is the square root of
//! the sum of the squares of three errors:
//!
//! - the largest deviation among the estimates of the last doubling,
//! - the 95 % confidence interval of the erase rate, from batch means over the same examinations,
//! - the resolution of the erase count that the estimate extrapolates.
//!
//! While estimates drift, or while too few erases were observed, the upper end of the interval is at least
//! the life with even wear, which wear leveling cannot exceed. Lives simulated to their end were up to
//! [`SHORT`] longer than extrapolated lives; the upper end includes this difference.

use super::extrapolation::{Estimate, Medium, Rates, Snapshot};
use flashlab_sim::Instant;
use std::collections::VecDeque;

/// Number of estimates of a life in each doubling of a history.
pub(super) const GRID: usize = 4;
/// Minimum number of erases of the block that fails first, in the time over which rates are taken, for a reliable rate.
const ERASES_LEAST: f64 = 4.0;
/// Quantile of Student's t distribution for a two-sided interval of 95 % with GRID - 1 degrees of freedom.
const STUDENT: f64 = 3.182;
/// Relative amount by which extrapolated lives of cards were too short (experiments/endurance/README.md).
const SHORT: f64 = 0.06;
/// Largest relative difference between the estimates of a doubling that does not count as drift.
const STEADY: f64 = 0.05;
/// Relative error of an estimate if there are too few estimates to compute the error.
const UNKNOWN: f64 = 0.5;

/// Returns the lengths at which a history is examined, in steps: [`GRID`] in each doubling.
pub(super) fn lengths() -> impl Iterator<Item = u64> {
    (0..).flat_map(|doublings| (0..GRID as u64).map(move |n| (GRID as u64 + n) << doublings))
}

/// Estimates of the lives of media that share one history.
pub(super) struct Estimates<'a> {
    media: &'a [Medium],
    /// Indices of the media whose lives are estimated. The first one is the simulated medium.
    medium_indices: Vec<usize>,
    /// Start of the history.
    begin: Instant,
    /// Snapshots of the last doubling of the history.
    snapshots: VecDeque<Snapshot>,
    /// Estimates of the last doubling, by medium.
    known: Vec<VecDeque<Option<Estimate>>>,
}

impl<'a> Estimates<'a> {
    pub(super) fn new(media: &'a [Medium], medium_indices: Vec<usize>, begin: Instant) -> Self {
        let known = vec![VecDeque::new(); media.len()];
        Estimates { media, medium_indices, begin, snapshots: VecDeque::new(), known }
    }

    /// Examines the erase counts at the current `end` of the history. Returns true if the examination gave estimates.
    /// Removes the media that would have failed by now, because they need a history of their own.
    pub(super) fn examine(&mut self, end: Snapshot) -> bool {
        let media = self.media;
        self.medium_indices.retain(|n| !media[*n].has_failed(&end.erase_counts));
        let Some(half) = pushed(&mut self.snapshots, end.clone()) else { return false };
        let Some(first) = self.medium_indices.first() else { return false };
        let rates = Rates::new(&half, &end, &media[*first].bad);
        for &n in &self.medium_indices {
            pushed(&mut self.known[n], rates.extrapolate(&end, &media[n], self.begin));
        }
        true
    }

    /// Returns the indices of the media whose lives are estimated.
    pub(super) fn medium_indices(&self) -> &[usize] {
        &self.medium_indices
    }

    /// Returns true if the blocks of the media never wear out.
    pub(super) fn are_endless(&self) -> bool {
        self.medium_indices.iter().all(|n| self.media[*n].limits.is_empty())
    }

    /// Returns the latest estimate of a medium's life; `None` before the first one, or if no block wears.
    pub(super) fn latest(&self, medium: usize) -> Option<Estimate> {
        self.known[medium].back().copied().flatten()
    }

    /// Returns true if no block was erased in the last doubling, or if blocks never wear out.
    pub(super) fn are_idle(&self) -> bool {
        self.medium_indices.iter().all(|n| self.known[*n].back() == Some(&None))
    }

    /// Returns true if the wear of every medium is steady. The estimates since the midpoint of the history must lie
    /// within `percent` of each other, and the block that fails first must have been erased a few times. Static wear
    /// leveling, which begins at a difference of `threshold` erases, must have begun already or not begin within the
    /// life.
    pub(super) fn are_steady(&self, percent: f64, threshold: Option<u32>) -> bool {
        let is_steady = |estimates: &VecDeque<Option<Estimate>>| {
            let Some(estimates) = estimates.iter().copied().collect::<Option<Vec<Estimate>>>() else {
                return false;
            };
            let (Some(now), true) = (estimates.last(), estimates.len() > GRID) else { return false };
            let lives = estimates.iter().map(|estimate| estimate.first_failure_ns);
            let (least, most) =
                lives.fold((f64::INFINITY, 0.0_f64), |(a, b), life| (a.min(life), b.max(life)));
            let leveling_will_begin = threshold.is_some_and(|threshold| {
                let threshold = f64::from(threshold);
                now.gap_now < threshold && now.gap_at_end >= threshold
            });
            most - least <= percent / 100.0 * now.first_failure_ns
                && now.erases >= ERASES_LEAST
                && !leveling_will_begin
        };
        self.medium_indices.iter().all(|n| is_steady(&self.known[*n]))
    }

    /// Returns the estimated life of a medium in nanoseconds, if there is an estimate.
    pub(super) fn life_ns(&self, medium: usize) -> Option<f64> {
        self.latest(medium).map(|now| now.first_failure_ns)
    }

    /// Returns true if enough erases show how unevenly the blocks of a medium wear. With fewer erases, only
    /// the interval of the life is known.
    pub(super) fn is_known(&self, medium: usize) -> bool {
        self.latest(medium).is_some_and(|now| now.erases >= ERASES_LEAST)
    }

    /// Returns the 95 % interval of a medium's life, in nanoseconds, if there is an estimate.
    pub(super) fn interval(&self, medium: usize) -> Option<(f64, f64)> {
        let now = self.latest(medium)?;
        let life = now.first_failure_ns;
        let earlier: Vec<f64> =
            self.known[medium].iter().flatten().map(|e| (e.first_failure_ns / life - 1.0).abs()).collect();
        let drift = if earlier.len() > GRID { earlier.into_iter().fold(0.0, f64::max) } else { UNKNOWN };
        let resolution = 1.0 / now.erases.max(1.0);
        let batches = self.batch_error();
        let error = (drift * drift + batches * batches + resolution * resolution).sqrt();
        // While estimates drift, wear may still become even.
        let longest = if drift > STEADY || now.erases < ERASES_LEAST { now.even_failure_ns } else { 0.0 };
        let most = (life * (1.0 + error)).max(longest * (1.0 + batches)) * (1.0 + SHORT);
        Some((life / (1.0 + error), most))
    }

    /// Returns the 95 % confidence interval of the erase rate, as a fraction of the rate, from the means of the batches
    /// between examinations.
    fn batch_error(&self) -> f64 {
        let erases = |s: &Snapshot| s.erase_counts.iter().map(|n| u64::from(*n)).sum::<u64>() as f64;
        let rate = |(a, b): (&Snapshot, &Snapshot)| (erases(b) - erases(a)) / b.at.since(a.at).as_ns() as f64;
        let rates: Vec<f64> = self.snapshots.iter().zip(self.snapshots.iter().skip(1)).map(rate).collect();
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let error = STUDENT * (variance / count).sqrt() / mean;
        if error.is_finite() { error } else { UNKNOWN }
    }
}

/// Appends `next` and limits the queue to one doubling. Returns the element one doubling before `next`.
fn pushed<T: Clone>(last: &mut VecDeque<T>, next: T) -> Option<T> {
    last.push_back(next);
    if last.len() > GRID + 1 {
        last.pop_front();
    }
    (last.len() > GRID).then(|| last[0].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns estimates for blocks whose wear rate varies by `jitter` between examinations.
    fn estimates(media: &[Medium], looks: usize, jitter: u32) -> Estimates<'_> {
        let mut estimates = Estimates::new(media, vec![0], Instant::ZERO);
        let mut erased = 0;
        for (n, length) in lengths().take(looks).enumerate() {
            erased = (length as u32 * 10 + n as u32 % 2 * jitter).max(erased);
            let at = Instant::from_ns(length * 1_000);
            estimates.examine(Snapshot { at, erase_counts: vec![erased; 4] });
        }
        estimates
    }

    #[test]
    fn a_life_is_unknown_while_the_block_that_fails_first_has_few_erases() {
        let media = [Medium { limits: vec![100_000; 4], bad: vec![] }];
        let mut few = Estimates::new(&media, vec![0], Instant::ZERO);
        for length in lengths().take(5) {
            let at = Instant::from_ns(length * 1_000);
            few.examine(Snapshot { at, erase_counts: vec![length as u32 / 4; 4] });
        }
        assert!(few.interval(0).is_some() && !few.is_known(0), "{:?}", few.latest(0));
        assert!(estimates(&media, 5, 0).is_known(0));
    }

    #[test]
    fn an_interval_holds_its_estimate_and_narrows_as_the_history_grows() {
        let media = [Medium { limits: vec![100_000; 4], bad: vec![] }];
        let width = |looks, jitter| {
            let estimates = estimates(&media, looks, jitter);
            let life = estimates.latest(0).expect("the device wears out").first_failure_ns;
            let (from, to) = estimates.interval(0).expect("the device wears out");
            assert!(from < life && life < to, "{from} {life} {to}");
            (to - from) / life
        };
        assert_eq!(estimates(&media, GRID, 0).interval(0), None, "too early");
        let widths = [width(5, 3), width(13, 3), width(25, 3)];
        assert!(widths.windows(2).all(|w| w[1] < w[0]), "{widths:?}");
        assert!(width(13, 40) > width(13, 3), "irregular wear gives a wider interval");
        assert!(width(41, 0) >= SHORT, "no history is long enough for an exact life");
    }
}
