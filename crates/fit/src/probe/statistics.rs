//! The statistical rules of the probe.

use super::Confidence;
use super::noise::Effect;

/// Greatest number of batches of a series.
const BATCHES: usize = 8;
/// Least difference, as a share of the smaller mean, that a finding with low confidence needs.
pub(super) const SHARE_LOW: f64 = 0.04;
/// Least difference, as a share of the smaller mean, that a finding with high confidence needs.
const SHARE_HIGH: f64 = 0.05;
/// Least difference in standard errors for low confidence: p < 0.01 with 14 degrees of freedom.
const T_LOW: f64 = 3.0;
/// Least difference in standard errors for high confidence: p < 0.0003 with 14 degrees of freedom.
const T_HIGH: f64 = 5.0;

/// Returns the mean; zero for an empty slice.
pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the median; zero for an empty slice.
pub(super) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

/// Comparison of two series of times by batch means.
///
/// Each series is split into up to eight batches of equal length; a shorter last batch is dropped. The means
/// of batches are nearly independent even if the latencies have a period (an erase with every 32nd write).
/// Single latencies are not. The rule: the difference has high confidence if it is at least 5 % of the
/// smaller mean and at least 5 standard errors, and low confidence from 4 % and 3 standard errors on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Contrast {
    /// Mean of the first series, or the reference of [`Contrast::of_samples`].
    pub first: f64,
    /// Mean of the second series, or the median of the samples.
    pub second: f64,
    /// Standard error of the difference.
    pub error: f64,
}

impl Contrast {
    /// Compares two series.
    pub fn of(first: &[f64], second: &[f64]) -> Contrast {
        let (a, b) = (batch_means(first), batch_means(second));
        let error = (variance(&a) / a.len().max(1) as f64 + variance(&b) / b.len().max(1) as f64).sqrt();
        Contrast { first: mean(first), second: mean(second), error }
    }

    /// Compares the median of independent samples with a reference. `spread` contains at least three samples under
    /// equal conditions; their variance determines the error, because an effect may differ from sample to sample.
    pub fn of_samples(spread: &[f64], reference: f64, samples: &[f64]) -> Contrast {
        let error = variance(spread).sqrt()
            * (1.0 / spread.len().max(1) as f64 + 1.0 / samples.len().max(1) as f64).sqrt();
        Contrast { first: reference, second: median(samples), error }
    }

    /// Returns the confidence that the second series takes longer.
    pub fn is_slower(&self) -> Confidence {
        let difference = self.second - self.first;
        let share = difference / self.first.min(self.second).max(1.0);
        let t = difference / self.error.max(f64::MIN_POSITIVE);
        if share >= SHARE_HIGH && t >= T_HIGH {
            Confidence::High
        } else if share >= SHARE_LOW && t >= T_LOW {
            Confidence::Low
        } else {
            Confidence::None
        }
    }

    /// Returns the difference of the means as an effect.
    pub(super) fn effect(&self) -> Effect {
        Effect::Means((self.second - self.first).abs())
    }

    /// Returns the time of the second series in units of that of the first.
    pub fn ratio(&self) -> f64 {
        self.second / self.first.max(f64::MIN_POSITIVE)
    }
}

fn batch_means(values: &[f64]) -> Vec<f64> {
    let size = values.len().div_ceil(BATCHES).max(1);
    values.chunks_exact(size).map(mean).collect()
}

fn variance(values: &[f64]) -> f64 {
    let centre = mean(values);
    let sum: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    sum / (values.len().max(2) - 1) as f64
}

/// Returns the value at zero of the straight line through `points`, by least squares.
pub(super) fn intercept(points: &[(f64, f64)]) -> f64 {
    let n = points.len().max(1) as f64;
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let xx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let xy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    my - slope * mx
}

/// A hierarchy of caches in a range sweep: mean(R) = base + the sum over the levels of rise x max(0, 1 - size / R), the
/// closed form of a cache under uniform random accesses.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Knees {
    pub(super) base: f64,
    /// Size and rise of each level, smallest first.
    pub(super) levels: Vec<(f64, f64)>,
    /// Sum of the squared residuals.
    pub(super) residual: f64,
}

/// Fits a hierarchy of at most two levels whose sizes are among `candidates`. A level must reduce the sum of squared
/// residuals by a factor of four and must rise by at least 4 % of the base.
pub(super) fn knees(points: &[(f64, f64)], candidates: &[f64]) -> Knees {
    let base = points.iter().map(|p| p.1).sum::<f64>() / points.len().max(1) as f64;
    let residual = points.iter().map(|p| (p.1 - base).powi(2)).sum();
    let mut best = Knees { base, levels: vec![], residual };
    let significant = |knees: &Knees, than: &Knees| {
        knees.residual < than.residual / 4.0 && knees.levels.iter().all(|l| l.1 > SHARE_LOW * knees.base)
    };
    let one = candidates.iter().map(|a| fit_levels(points, &[*a]));
    if let Some(one) = one.min_by(|a, b| a.residual.total_cmp(&b.residual)).filter(|k| significant(k, &best))
    {
        best = one;
        let pairs = candidates.iter().enumerate().flat_map(|(i, a)| {
            candidates[i + 1..].iter().filter(move |b| **b > 2.0 * a).map(move |b| [*a, *b])
        });
        let two = pairs.map(|pair| fit_levels(points, &pair));
        if let Some(two) =
            two.min_by(|a, b| a.residual.total_cmp(&b.residual)).filter(|k| significant(k, &best))
        {
            best = two;
        }
    }
    best
}

/// Fits the base and the rises for given sizes, by the normal equations.
fn fit_levels(points: &[(f64, f64)], sizes: &[f64]) -> Knees {
    let n = sizes.len() + 1;
    let row = |x: f64| -> Vec<f64> {
        std::iter::once(1.0).chain(sizes.iter().map(|size| (1.0 - size / x).max(0.0))).collect()
    };
    let mut matrix = vec![vec![0.0; n + 1]; n];
    for (x, y) in points {
        let r = row(*x);
        for i in 0..n {
            for j in 0..n {
                matrix[i][j] += r[i] * r[j];
            }
            matrix[i][n] += r[i] * y;
        }
    }
    let solved = solve(matrix);
    let residual = points
        .iter()
        .map(|(x, y)| (y - row(*x).iter().zip(&solved).map(|(r, s)| r * s).sum::<f64>()).powi(2))
        .sum();
    let levels = sizes.iter().copied().zip(solved.iter().skip(1).copied()).collect();
    Knees { base: solved[0], levels, residual }
}

/// Solves a small system of linear equations by elimination. A singular system gives zeros.
fn solve(mut m: Vec<Vec<f64>>) -> Vec<f64> {
    let n = m.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| m[*a][i].abs().total_cmp(&m[*b][i].abs())).unwrap_or(i);
        m.swap(i, pivot);
        if m[i][i].abs() < 1e-12 {
            return vec![0.0; n];
        }
        let pivot = m[i].clone();
        for (_, row) in m.iter_mut().enumerate().filter(|(j, _)| *j != i) {
            let factor = row[i] / pivot[i];
            for (value, above) in row.iter_mut().zip(&pivot).skip(i) {
                *value -= factor * above;
            }
        }
    }
    (0..n).map(|i| m[i][n] / m[i][i]).collect()
}

/// Returns the period, in samples, of a series whose level changes at multiples of a period. Also returns the
/// share of the intervals between changes that are whole multiples of the period, and the number of these
/// intervals. Returns `None` below six intervals.
pub(super) fn step_period(values: &[f64]) -> Option<(usize, f64, usize)> {
    const WINDOW: usize = 8;
    let moves: Vec<f64> = values.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect();
    let noise = (1.5 * median(&moves)).max(median(values) * 5e-4);
    let mut steps: Vec<usize> = Vec::new();
    for i in WINDOW..values.len().saturating_sub(WINDOW) {
        let (before, after) = (&values[i - WINDOW..i], &values[i..i + WINDOW]);
        let is_edge = (values[i] - values[i - 1]).abs() > 3.0 * noise;
        if is_edge && (median(after) - median(before)).abs() > 3.0 * noise {
            match steps.last() {
                Some(last) if i - last < WINDOW => {}
                _ => steps.push(i),
            }
        }
    }
    let gaps: Vec<usize> = steps.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if gaps.len() < 6 {
        return None;
    }
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    let period = sorted[gaps.len() / 3];
    let multiples = gaps.iter().filter(|gap| gap.is_multiple_of(period)).count();
    Some((period, multiples as f64 / gaps.len() as f64, gaps.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_in_the_latencies_does_not_hide_a_difference() {
        let series = |base: f64| -> Vec<f64> {
            (0..256).map(|i| base + if i % 32 == 0 { 2_000.0 } else { 0.0 }).collect()
        };
        assert_eq!(Contrast::of(&series(300.0), &series(345.0)).is_slower(), Confidence::High);
        assert_eq!(Contrast::of(&series(300.0), &series(300.0)).is_slower(), Confidence::None);
        assert_eq!(Contrast::of(&series(345.0), &series(300.0)).is_slower(), Confidence::None, "faster");
    }

    #[test]
    fn noise_gives_no_high_confidence() {
        let mut rng = flashlab_sim::Rng::new(7);
        for _ in 0..200 {
            let mut series = || (0..64).map(|_| 100.0 + rng.below(60) as f64).collect::<Vec<_>>();
            assert_ne!(Contrast::of(&series(), &series()).is_slower(), Confidence::High);
        }
    }

    #[test]
    fn two_levels_of_a_cache_hierarchy_are_found() {
        let curve = |x: f64| 80.0 + 6.0 * (1.0 - 600.0 / x).max(0.0) + 90.0 * (1.0 - 128_000.0 / x).max(0.0);
        let points: Vec<(f64, f64)> = (0..32)
            .map(|i| 16.0 * 2f64.powf(f64::from(i) / 2.0))
            .map(|x| (x, curve(x)))
            .filter(|p| p.0 < 250_000.0)
            .collect();
        let candidates: Vec<f64> = (0..90).map(|i| 20.0 * 1.11f64.powi(i)).collect();
        let found = knees(&points, &candidates);
        assert_eq!(found.levels.len(), 2, "{found:?}");
        assert!((found.levels[0].0 / 600.0 - 1.0).abs() < 0.15, "{found:?}");
        assert!((found.levels[1].0 / 128_000.0 - 1.0).abs() < 0.15, "{found:?}");
        let flat: Vec<(f64, f64)> = points.iter().map(|p| (p.0, 80.0 + p.0 % 0.7)).collect();
        assert_eq!(knees(&flat, &candidates).levels, vec![]);
    }

    #[test]
    fn steps_of_equal_length_have_a_period() {
        let mut rng = flashlab_sim::Rng::new(3);
        let levels: Vec<f64> = (0..40).map(|_| 1_000.0 + rng.below(60) as f64).collect();
        let values: Vec<f64> = (0..40 * 64).map(|i| levels[i / 64]).collect();
        let (period, share, _) = step_period(&values).expect("steps");
        assert_eq!(period, 64);
        assert!(share > 0.9);
        let noise: Vec<f64> = (0..2_560).map(|_| 1_000.0 + rng.below(60) as f64).collect();
        assert!(step_period(&noise).is_none_or(|(_, share, _)| share < 0.9));
    }
}
