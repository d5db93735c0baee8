//! Bit errors, codewords and read retries against their closed forms (E1), within four standard deviations.
//! Labels: docs/closed-forms.md.

use flashlab_flash::nand::{Decoder, ReadOutcome, Reliability};
use flashlab_sim::{Duration, Rng};

const DAY: u64 = 86_400;

/// A code that corrects 72 bits in codewords of 1 KiB plus parity, on cells that wear fast enough for tests.
const TLC: Reliability = Reliability {
    fresh: 1e-4,
    worn: 4e-4,
    cycles_exponent: 1.5,
    doubling: Duration::from_secs(90 * DAY),
    age_exponent: 1.0,
    codeword_bits: 9_200,
    correctable: 72,
    codewords: 4,
    retries_max: 8,
    retry_gain: 0.9,
};

fn assert_binomial(count: usize, trials: usize, p: f64, what: &str) {
    let mean = trials as f64 * p;
    let deviation = (mean * (1.0 - p)).sqrt();
    assert!(
        (count as f64 - mean).abs() <= 4.0 * deviation.max(1e-9),
        "{what}: {count} of {trials}, expected {mean:.2} +- {deviation:.2}"
    );
}

#[test]
fn errors_rise_as_the_power_of_cycles_and_with_age() {
    assert_eq!(TLC.check(), Ok(()));
    let worn = |cycles, days| TLC.raw_bit_error_rate(cycles, Duration::from_secs(days * DAY)) - TLC.fresh;
    assert_eq!(worn(0, 400), 0.0);
    assert!((worn(1_000, 0) / 4e-4 - 1.0).abs() < 1e-9);
    assert!((worn(4_000, 0) / worn(1_000, 0) - 8.0).abs() < 1e-9);
    assert!((worn(1_000, 90) / worn(1_000, 0) - 2.0).abs() < 1e-9);
    assert!((worn(1_000, 270) / worn(1_000, 0) - 4.0).abs() < 1e-9);
    assert_eq!(TLC.raw_bit_error_rate(u32::MAX, Duration::from_secs(1 << 30)), 0.5);
}

#[test]
fn a_codeword_fails_as_often_as_simulated_bit_errors_exceed_its_code() {
    // E1 against bit errors that are drawn one by one, with a small code.
    let code = Reliability { codeword_bits: 60, correctable: 3, codewords: 2, ..TLC };
    for (seed, p) in [(1, 0.01), (2, 0.05), (3, 0.1)] {
        let mut rng = Rng::new(seed);
        let trials = 40_000;
        let mut word = || (0..60).filter(|_| rng.unit() < p).count() > 3;
        let words = (0..trials).filter(|_| word()).count();
        assert_binomial(words, trials, code.codeword_failure(p), "codewords");
        let pages = (0..trials).filter(|_| [word(), word()].contains(&true)).count();
        assert_binomial(pages, trials, code.page_failure(p), "pages of two");
    }
}

#[test]
fn without_retry_gain_the_number_of_retries_is_geometric() {
    let reliability = Reliability { retry_gain: 1.0, retries_max: 1_000, ..TLC };
    let decoder = Decoder::new(&reliability);
    let (cycles, age) = (5_500, Duration::from_secs(30 * DAY));
    let p = reliability.page_failure(reliability.raw_bit_error_rate(cycles, age));
    assert!((0.2..0.8).contains(&p), "{p} tests little");
    let mut rng = Rng::new(4);
    let trials = 100_000;
    let outcomes: Vec<ReadOutcome> = (0..trials).map(|_| decoder.read(cycles, age, &mut rng)).collect();
    for k in 0..8 {
        let count = outcomes.iter().filter(|outcome| outcome.retries == k).count();
        assert_binomial(count, trials, (1.0 - p) * p.powi(k as i32), "retries");
    }
    let mean = outcomes.iter().map(|outcome| f64::from(outcome.retries)).sum::<f64>() / trials as f64;
    let (expected, deviation) = (p / (1.0 - p), (p / (trials as f64)).sqrt() / (1.0 - p));
    assert!((mean - expected).abs() < 4.0 * deviation, "{mean}, not {expected} +- {deviation}");
    assert!(
        (reliability.mean_retries(reliability.raw_bit_error_rate(cycles, age)) / expected - 1.0).abs() < 1e-9
    );
}

#[test]
fn reads_fail_at_every_age_and_wear_as_often_as_the_closed_form_says() {
    let decoder = Decoder::new(&TLC);
    let trials = 30_000;
    let mut telling = 0;
    for cycles in [1, 1_000, 3_000, 4_000, 5_000, 6_000, 7_777, 20_000] {
        for days in [0, 1, 60, 365] {
            let age = Duration::from_secs(days * DAY);
            let rate = TLC.raw_bit_error_rate(cycles, age);
            let mut rng = Rng::for_purpose(u64::from(cycles), days);
            let outcomes: Vec<ReadOutcome> =
                (0..trials).map(|_| decoder.read(cycles, age, &mut rng)).collect();
            let again = outcomes.iter().filter(|outcome| outcome.retries > 0).count();
            let lost = outcomes.iter().filter(|outcome| outcome.uncorrectable).count();
            let what = format!("{cycles} cycles, {days} days");
            assert_binomial(again, trials, TLC.page_failure(rate), &what);
            assert_binomial(lost, trials, TLC.uncorrectable(rate), &what);
            telling += u32::from((0.001..0.999).contains(&TLC.page_failure(rate)));
        }
    }
    assert!(telling >= 5, "only {telling} of the cases are neither never nor always");
}

#[test]
fn retries_that_lower_the_error_rate_rarely_fail() {
    let steep = Reliability { retry_gain: 0.5, ..TLC };
    let rate = 72.0 / 9_200.0;
    assert!(steep.uncorrectable(rate) < 1e-12);
    assert!(steep.mean_retries(rate) < 1.01);
    assert!(Reliability { retry_gain: 1.0, ..TLC }.mean_retries(rate) > 5.0);
}

#[test]
fn no_random_number_is_drawn_where_errors_cannot_happen() {
    let decoder = Decoder::new(&TLC);
    let mut rng = Rng::new(1);
    for cycles in 0..100 {
        assert_eq!(decoder.read(cycles, Duration::from_secs(DAY), &mut rng), ReadOutcome::default());
    }
    assert_eq!(rng, Rng::new(1));
}

#[test]
fn the_same_draws_give_the_same_outcomes() {
    let decoder = Decoder::new(&TLC);
    let run = |decoder: &Decoder| -> Vec<ReadOutcome> {
        let mut rng = Rng::new(11);
        (0..1_000).map(|n| decoder.read(4_000 + 3 * n, Duration::from_secs(DAY), &mut rng)).collect()
    };
    assert_eq!(run(&decoder), run(&decoder.clone()));
}

#[test]
fn impossible_codes_are_refused() {
    for (wrong, path) in [
        (Reliability { fresh: 0.7, ..TLC }, "reliability.fresh"),
        (Reliability { worn: f64::NAN, ..TLC }, "reliability.worn"),
        (Reliability { cycles_exponent: 0.0, ..TLC }, "reliability.cycles_exponent"),
        (Reliability { age_exponent: f64::INFINITY, ..TLC }, "reliability.age_exponent"),
        (Reliability { doubling: Duration::ZERO, ..TLC }, "reliability.doubling"),
        (Reliability { codeword_bits: 0, ..TLC }, "reliability.codeword_bits"),
        (Reliability { correctable: 9_200, ..TLC }, "reliability.correctable"),
        (Reliability { codewords: 0, ..TLC }, "reliability.codewords"),
        (Reliability { retries_max: 1_001, ..TLC }, "reliability.retries_max"),
        (Reliability { retry_gain: 1.1, ..TLC }, "reliability.retry_gain"),
    ] {
        assert_eq!(wrong.check().unwrap_err().path, path);
    }
}
