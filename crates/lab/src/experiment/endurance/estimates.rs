//! Estimates of the lives of media that share a history, and how far they can be trusted.
//!
//! A history is looked at [`GRID`] times in each doubling of its length. Each look gives an estimate of every medium's life;
//! the first five looks give the first one. The interval of an estimate adds up, as squares, how far the estimates of the
//! last doubling lie from it, the 95 % confidence interval of the erase rate from batch means over the same looks, and the
//! resolution of the erase count by which the estimate extrapolates. While estimates drift, or too few erases were seen, the
//! upper end is the life with even wear, which levelling cannot exceed. Lives simulated to their end came out up to
//! [`SHORT`] longer than extrapolated ones; the upper end allows for it.

use super::extrapolation::{Estimate, Medium, Rates, Snapshot};
use flashlab_sim::Instant;
use std::collections::VecDeque;

/// Estimates of a life in each doubling of a history.
pub(super) const GRID: usize = 4;
/// Erases that the block which fails first must have seen in the time over which rates are taken.
const ERASES_LEAST: f64 = 4.0;
/// Quantile of Student's t distribution for a two-sided interval of 95 % with GRID - 1 degrees of freedom.
const STUDENT: f64 = 3.182;
/// Share of a life by which extrapolated lives of cards have come out too short (experiments/endurance/README.md).
const SHORT: f64 = 0.06;
/// Estimates of a doubling that lie closer together than this do not drift.
const STEADY: f64 = 0.05;
/// Relative error where too few estimates were made to tell.
const UNKNOWN: f64 = 0.5;

/// The lengths of a history at which it is looked at, in steps: [`GRID`] in each doubling.
pub(super) fn lengths() -> impl Iterator<Item = u64> {
    (0..).flat_map(|doublings| (0..GRID as u64).map(move |n| (GRID as u64 + n) << doublings))
}

/// Estimates of the lives of media that share one history.
pub(super) struct Estimates<'a> {
    media: &'a [Medium],
    /// The media whose lives are estimated, of which the first is the one that is simulated.
    sharing: Vec<usize>,
    /// When the history began.
    begin: Instant,
    /// The last doubling of the history.
    snapshots: VecDeque<Snapshot>,
    /// The estimates in it, by medium.
    known: Vec<VecDeque<Option<Estimate>>>,
}

impl<'a> Estimates<'a> {
    pub(super) fn new(media: &'a [Medium], sharing: Vec<usize>, begin: Instant) -> Self {
        let known = vec![VecDeque::new(); media.len()];
        Estimates { media, sharing, begin, snapshots: VecDeque::new(), known }
    }

    /// Looks at the erase counts at the `end` of the history so far. Returns true if it gave estimates. Drops the media
    /// that would have failed by now: they need a history of their own.
    pub(super) fn look(&mut self, end: Snapshot) -> bool {
        let media = self.media;
        self.sharing.retain(|n| !media[*n].has_failed(&end.erase_counts));
        let Some(half) = pushed(&mut self.snapshots, end.clone()) else { return false };
        let Some(first) = self.sharing.first() else { return false };
        let rates = Rates::new(&half, &end, &media[*first].bad);
        for &n in &self.sharing {
            pushed(&mut self.known[n], rates.carry_on(&end, &media[n], self.begin));
        }
        true
    }

    /// The media whose lives are estimated.
    pub(super) fn sharing(&self) -> &[usize] {
        &self.sharing
    }

    /// Returns true if the blocks of the media never wear out.
    pub(super) fn are_endless(&self) -> bool {
        self.sharing.iter().all(|n| self.media[*n].limits.is_empty())
    }

    /// The latest estimate of a medium's life; `None` where nothing wears.
    pub(super) fn latest(&self, medium: usize) -> Option<Estimate> {
        self.known[medium].back().copied().flatten()
    }

    /// Returns true if nothing has worn in the last doubling.
    pub(super) fn are_idle(&self) -> bool {
        self.sharing.iter().all(|n| self.known[*n].back() == Some(&None))
    }

    /// Returns true if the estimates of every medium since the half of the history lie within `percent` of each other, the
    /// block that fails first has seen some erases, and static levelling, if it will move data at all, does so from a
    /// difference of `threshold` erases on.
    pub(super) fn are_steady(&self, percent: f64, threshold: Option<u32>) -> bool {
        let is_steady = |estimates: &VecDeque<Option<Estimate>>| {
            let Some(estimates) = estimates.iter().copied().collect::<Option<Vec<Estimate>>>() else {
                return false;
            };
            let (Some(now), true) = (estimates.last(), estimates.len() > GRID) else { return false };
            let lives = estimates.iter().map(|estimate| estimate.first_failure_ns);
            let (least, most) =
                lives.fold((f64::INFINITY, 0.0_f64), |(a, b), life| (a.min(life), b.max(life)));
            let levelling_will_begin = threshold.is_some_and(|threshold| {
                let threshold = f64::from(threshold);
                now.gap_now < threshold && now.gap_at_end >= threshold
            });
            most - least <= percent / 100.0 * now.first_failure_ns
                && now.erases >= ERASES_LEAST
                && !levelling_will_begin
        };
        self.sharing.iter().all(|n| is_steady(&self.known[*n]))
    }

    /// The estimated life of a medium in nanoseconds; `None` where nothing wears. Where too few erases tell how unevenly
    /// blocks wear, it is the geometric mean of the lives with wear as uneven as it was seen and with even wear.
    pub(super) fn life_ns(&self, medium: usize) -> Option<f64> {
        let now = self.latest(medium)?;
        let seen = now.first_failure_ns;
        Some(if now.erases < ERASES_LEAST { (seen * now.even_failure_ns.max(seen)).sqrt() } else { seen })
    }

    /// The interval of 95 % around a medium's life, in nanoseconds; `None` where nothing wears.
    pub(super) fn interval(&self, medium: usize) -> Option<(f64, f64)> {
        let now = self.latest(medium)?;
        let life = now.first_failure_ns;
        let earlier: Vec<f64> =
            self.known[medium].iter().flatten().map(|e| (e.first_failure_ns / life - 1.0).abs()).collect();
        let drift = if earlier.len() > GRID { earlier.into_iter().fold(0.0, f64::max) } else { UNKNOWN };
        let resolution = 1.0 / now.erases.max(1.0);
        let batches = self.batch_error();
        let error = (drift * drift + batches * batches + resolution * resolution).sqrt();
        // While estimates drift, wear may yet become as even as can be.
        let longest = if drift > STEADY || now.erases < ERASES_LEAST { now.even_failure_ns } else { 0.0 };
        let most = (life * (1.0 + error)).max(longest * (1.0 + batches)) * (1.0 + SHORT);
        Some((life / (1.0 + error), most))
    }

    /// The 95 % confidence interval of the rate of erases, as a share of the rate, from the means of the batches between
    /// looks.
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

/// Keeps one doubling of what `next` ends; what lay one doubling before `next` falls out.
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

    /// Blocks that wear at a rate that `jitter` changes from look to look.
    fn estimates(media: &[Medium], looks: usize, jitter: u32) -> Estimates<'_> {
        let mut estimates = Estimates::new(media, vec![0], Instant::ZERO);
        let mut erased = 0;
        for (n, length) in lengths().take(looks).enumerate() {
            erased = (length as u32 * 10 + n as u32 % 2 * jitter).max(erased);
            let at = Instant::from_ns(length * 1_000);
            estimates.look(Snapshot { at, erase_counts: vec![erased; 4] });
        }
        estimates
    }

    #[test]
    fn an_interval_holds_its_estimate_and_narrows_as_the_history_grows() {
        let media = [Medium { limits: vec![100_000; 4], bad: vec![] }];
        let width = |looks, jitter| {
            let estimates = estimates(&media, looks, jitter);
            let life = estimates.latest(0).expect("it wears").first_failure_ns;
            let (from, to) = estimates.interval(0).expect("it wears");
            assert!(from < life && life < to, "{from} {life} {to}");
            (to - from) / life
        };
        assert_eq!(estimates(&media, GRID, 0).interval(0), None, "too early");
        let widths = [width(5, 3), width(13, 3), width(25, 3)];
        assert!(widths.windows(2).all(|w| w[1] < w[0]), "{widths:?}");
        assert!(width(13, 40) > width(13, 3), "wear that comes and goes is known less well");
        assert!(width(41, 0) >= SHORT, "no history is long enough to say it to the day");
    }
}
