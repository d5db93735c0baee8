//! The upper tail of a binomial distribution, computed in log space so that small terms do not underflow.

/// Returns the probability of more than `t` successes in `n` trials of probability `p`: the sum over k > t of
/// C(n,k) p^k (1-p)^(n-k), to about ten significant digits even for values such as 1e-200.
///
/// Sums the terms on the side of `t` that lies away from the mean, from the largest term outwards.
pub(super) fn more_than(t: u32, n: u32, p: f64) -> f64 {
    if p <= 0.0 || t >= n {
        return 0.0;
    }
    if p >= 1.0 {
        return 1.0;
    }
    let odds = p / (1.0 - p);
    if f64::from(t) + 1.0 > f64::from(n) * p {
        let first = t + 1;
        let ratios = (first..n).map(|k| f64::from(n - k) / f64::from(k + 1) * odds);
        sum(probability(first, n, p), ratios).min(1.0)
    } else {
        let ratios = (1..=t).rev().map(|k| f64::from(k) / f64::from(n - k + 1) / odds);
        (1.0 - sum(probability(t, n, p), ratios)).max(0.0)
    }
}

/// Sums a series from its first term and the ratios of successive terms until the terms become negligible.
fn sum(first: f64, ratios: impl Iterator<Item = f64>) -> f64 {
    let (mut term, mut sum) = (first, first);
    for ratio in ratios {
        term *= ratio;
        sum += term;
        if term < sum * 1e-17 {
            break;
        }
    }
    sum
}

/// Returns the probability of exactly `k` successes in `n` trials.
fn probability(k: u32, n: u32, p: f64) -> f64 {
    let factorial = |x: u32| libm::lgamma(f64::from(x) + 1.0);
    let ways = factorial(n) - factorial(k) - factorial(n - k);
    libm::exp(ways + f64::from(k) * libm::log(p) + f64::from(n - k) * libm::log1p(-p))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the tail for p = parts / 16 with integers.
    fn exact(t: u32, n: u32, parts: u128) -> f64 {
        let ways = |k: u32| (0..u128::from(k)).fold(1u128, |c, i| c * (u128::from(n) - i) / (i + 1));
        let sum: u128 = (t + 1..=n).map(|k| ways(k) * parts.pow(k) * (16 - parts).pow(n - k)).sum();
        sum as f64 / 16f64.powi(n as i32)
    }

    #[test]
    fn small_cases_agree_with_integer_arithmetic() {
        for n in 1..=20 {
            for t in 0..=n {
                for parts in 0..=16 {
                    let (ours, exact) = (more_than(t, n, parts as f64 / 16.0), exact(t, n, parts));
                    assert!((ours - exact).abs() <= 1e-12, "t {t}, n {n}, p {parts}/16: {ours}, not {exact}");
                }
            }
        }
    }

    #[test]
    fn a_tail_of_one_term_equals_the_power_even_if_it_is_tiny() {
        // The tail consists of the term p^n.
        for (n, p) in [(30, 1e-6), (60, 1e-4), (3, 1e-90)] {
            let (ours, exact) = (more_than(n - 1, n, p), p.powi(n as i32));
            assert!((ours / exact - 1.0).abs() < 1e-10, "n {n}, p {p}: {ours}, not {exact}");
        }
    }

    #[test]
    fn the_tail_of_a_large_codeword_agrees_with_direct_sums() {
        // The probabilities cover means on both sides of t, and so both directions of summation.
        let (n, t) = (8_768, 72);
        for p in [0.004, 0.006, 0.008, 0.010, 0.014] {
            let below: f64 = (0..=t).map(|k| probability(k, n, p)).sum();
            let above: f64 = (t + 1..=n.min(t + 600)).map(|k| probability(k, n, p)).sum();
            assert!((below + above - 1.0).abs() < 1e-9, "p {p}: {below} and {above}");
            assert!((more_than(t, n, p) / above - 1.0).abs() < 1e-8, "p {p}");
        }
    }

    #[test]
    fn the_tail_rises_with_the_probability() {
        let mut last = 0.0;
        for step in 1..2_000 {
            let tail = more_than(72, 8_768, f64::from(step) * 2e-5);
            assert!(tail >= last, "step {step}: {tail} after {last}");
            last = tail;
        }
    }
}
