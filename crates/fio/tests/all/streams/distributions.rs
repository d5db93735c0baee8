//! Comparison of random distributions with those of fio 3.33, by two-sample chi-square tests at the 0.1 % level.
//!
//! Like fio, we rotate each distribution over the range by a random number of blocks. The tests choose the rotation
//! with the smallest statistic. A wrong rotation increases the statistic by orders of magnitude, so this choice does
//! not hide a wrong distribution, as `a_slightly_different_exponent_is_detected` shows.

use super::fake::{jobs, offsets};
use super::recorded::numbers;
use flashlab_fio::job::Distribution;

fn recorded(name: &str) -> (String, Vec<u64>) {
    numbers(&format!("{name}.counts"))
}

fn drawn(options: &str, blocks: usize) -> Vec<u64> {
    let mut counts = vec![0; blocks];
    for offset in offsets(&format!("--rw=randread --bs=4k --norandommap {options}")) {
        counts[(offset / 4096) as usize] += 1;
    }
    counts
}

/// Returns the two-sample statistic and its degrees of freedom. Blocks with few counts in both samples are merged until
/// their count reaches 20.
fn chi_square(a: &[u64], b: impl Iterator<Item = u64> + Clone) -> (f64, f64) {
    let (total_a, total_b) = (a.iter().sum::<u64>() as f64, b.clone().sum::<u64>() as f64);
    let (to_a, to_b) = ((total_b / total_a).sqrt(), (total_a / total_b).sqrt());
    let (mut statistic, mut bins) = (0.0, 0.0);
    let mut add = |a: u64, b: u64| {
        statistic += (to_a * a as f64 - to_b * b as f64).powi(2) / (a + b) as f64;
        bins += 1.0;
    };
    let (mut few_a, mut few_b) = (0, 0);
    for (&a, b) in a.iter().zip(b) {
        if a + b >= 20 {
            add(a, b);
            continue;
        }
        few_a += a;
        few_b += b;
        if few_a + few_b >= 20 {
            add(std::mem::take(&mut few_a), std::mem::take(&mut few_b));
        }
    }
    (statistic, bins - 1.0)
}

/// Returns the 99.9 % quantile of a chi-square distribution (Wilson and Hilferty's approximation).
fn critical(freedom: f64) -> f64 {
    let part = 2.0 / (9.0 * freedom);
    freedom * (1.0 - part + 3.0902 * part.sqrt()).powi(3)
}

/// Returns the statistic and the critical value at the rotation that fits best.
fn compare(theirs: &[u64], ours: &[u64], rotates: bool) -> (f64, f64) {
    let blocks = theirs.len();
    let rotations = if rotates { blocks } else { 1 };
    (0..rotations)
        .map(|by| {
            let (statistic, freedom) = chi_square(theirs, ours.iter().copied().cycle().skip(by).take(blocks));
            (statistic, critical(freedom))
        })
        .min_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))
        .expect("at least one rotation")
}

#[test]
fn distributions_equal_those_of_fio() {
    for name in [
        "zipf-1.1",
        "zipf-1.1-of-1024",
        "zipf-0.8",
        "pareto-0.2",
        "pareto-0.2-of-1024",
        "normal-10",
        "normal-40",
        "zoned",
        "zoned-abs",
        "random",
    ] {
        let (options, theirs) = recorded(name);
        let ours = drawn(&options, theirs.len());
        let rotates = matches!(
            jobs(&format!("--rw=randread {options}"))[0].distribution,
            Distribution::Zipf(_) | Distribution::Pareto(_) | Distribution::Normal(_)
        );
        let (statistic, critical) = compare(&theirs, &ours, rotates);
        assert!(
            statistic < critical,
            "{name}: the statistic {statistic:.0} exceeds {critical:.0}, as in 0.1 % of equal samples"
        );
    }
}

#[test]
fn a_slightly_different_exponent_is_detected() {
    let (options, theirs) = recorded("zipf-1.1");
    let ours = drawn(&options.replace("zipf:1.1", "zipf:1.12"), theirs.len());
    let (statistic, critical) = compare(&theirs, &ours, true);
    assert!(statistic > critical, "{statistic:.0} is not above {critical:.0}");
}
