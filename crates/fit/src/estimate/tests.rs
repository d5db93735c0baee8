//! Tests against closed forms, many of them for models that are linear in logarithms, whose estimates and
//! covariances are known exactly.

use super::*;
use proptest::prelude::*;

/// A model whose cells are products of powers of the numbers.
fn powers(exponents: &'static [&'static [f64]]) -> impl Fn(&[Vec<f64>]) -> Vec<Predictions> {
    move |points| {
        let cell = |point: &Vec<f64>, row: &&[f64]| point.iter().zip(*row).map(|(x, e)| x.powf(*e)).product();
        points.iter().map(|point| Ok(exponents.iter().map(|row| cell(point, row)).collect())).collect()
    }
}

fn cells(values: &[f64], sd: f64) -> Vec<Cell> {
    let cell = |(n, value): (usize, &f64)| Cell {
        name: format!("cell {n}"),
        unit: "IOPS".into(),
        value: *value,
        sd: sd * value,
        slowest_share: 0.0,
        repeats: None,
    };
    values.iter().enumerate().map(cell).collect()
}

fn numbers(starts: &[f64]) -> Vec<Number> {
    starts.iter().zip(["a", "b", "c"]).map(|(s, name)| Number::log(name, "us", (1e-3, 1e6), *s)).collect()
}

fn problem<'a>(starts: &[f64], cells: Vec<Cell>, forward: &'a Forward<'a>) -> Problem<'a> {
    Problem {
        numbers: numbers(starts),
        cells,
        forward,
        candidates: Vec::new(),
        forward_candidates: None,
        settings: Settings { floor: 0.0, ..Settings::default() },
    }
}

#[test]
fn intervals_of_a_linear_problem_equal_the_closed_form() {
    // y1 = a, y2 = a b, y3 = b: least squares in logarithms with the information [[2, 1], [1, 2]].
    let forward = powers(&[&[1.0, 0.0], &[1.0, 1.0], &[0.0, 1.0]]);
    let estimate =
        estimate(&problem(&[10.0, 10.0], cells(&[200.0, 200.0 * 30.0, 30.0], 0.02), &forward)).unwrap();
    let half = (CHI2_RISE * 2.0 / 3.0).sqrt() * 0.02;
    for (number, truth) in estimate.numbers.iter().zip([200.0, 30.0]) {
        assert!((number.value / truth - 1.0).abs() < 1e-4, "{number:?}");
        assert!(((number.high / number.value).ln() / half - 1.0).abs() < 0.02, "{number:?} {half}");
        assert!(((number.value / number.low).ln() / half - 1.0).abs() < 0.02, "{number:?} {half}");
        assert_eq!(number.determined, Determined::Yes);
    }
}

#[test]
fn residuals_follow_the_weights() {
    // One number, two cells that disagree: the mean of the logarithms, weighted by the inverse variances 1 and 1/4.
    let forward = powers(&[&[1.0], &[1.0]]);
    let mut cells = cells(&[100.0, 110.0], 0.02);
    cells[1].sd = 0.04 * 110.0;
    let estimate = estimate(&problem(&[50.0], cells, &forward)).unwrap();
    let mean = (100f64.ln() + 0.25 * 110f64.ln()) / 1.25;
    assert!((estimate.numbers[0].value.ln() - mean).abs() < 1e-4);
    // Without the first cell, the second one alone predicts it, and vice versa.
    assert!((estimate.cells[0].left_out.unwrap() / 110.0 - 1.0).abs() < 1e-3, "{:?}", estimate.cells);
    assert!((estimate.cells[1].left_out.unwrap() / 100.0 - 1.0).abs() < 1e-3);
}

#[test]
fn a_cell_that_alone_determines_a_number_has_no_prediction_from_the_others() {
    // y1 = a, y2 = b, y3 = b: without the first cell, nothing is known of a.
    let forward = powers(&[&[1.0, 0.0], &[0.0, 1.0], &[0.0, 1.0]]);
    let estimate = estimate(&problem(&[10.0, 10.0], cells(&[200.0, 30.0, 33.0], 0.02), &forward)).unwrap();
    assert_eq!(estimate.cells[0].left_out, None);
    assert!((estimate.cells[1].left_out.unwrap() / 33.0 - 1.0).abs() < 1e-3, "{:?}", estimate.cells);
}

#[test]
fn an_interval_that_reaches_both_bounds_determines_nothing() {
    // The cells hardly depend on b.
    let forward = powers(&[&[1.0, 0.0], &[1.0, 1e-3]]);
    let estimate = estimate(&problem(&[10.0, 10.0], cells(&[200.0, 200.0], 0.02), &forward)).unwrap();
    let b = &estimate.numbers[1];
    assert_eq!(b.determined, Determined::No, "{b:?}");
    assert!((b.low / 1e-3 - 1.0).abs() < 1e-6 && (b.high / 1e6 - 1.0).abs() < 1e-6, "{b:?}");
}

#[test]
fn as_many_numbers_as_cells_that_still_miss_cells_get_wider_intervals() {
    // y1 = a b, y2 = a b: two numbers, and cells that contradict each other.
    let forward = powers(&[&[1.0, 1.0], &[1.0, 1.0]]);
    let estimate = estimate(&problem(&[10.0, 10.0], cells(&[100.0, 150.0], 0.02), &forward)).unwrap();
    assert!(estimate.inflation > 5.0, "{}", estimate.inflation);
}

/// A read of `n` blocks takes `a + b + n c` microseconds; cells are rates.
fn reads(blocks: &'static [f64]) -> impl Fn(&[Vec<f64>]) -> Vec<Predictions> {
    move |points| {
        let rate = |p: &Vec<f64>, n: &f64| 1e6 / (p[0] + p[1] + n * p[2]);
        points.iter().map(|p| Ok(blocks.iter().map(|n| rate(p, n)).collect())).collect()
    }
}

#[test]
fn numbers_of_which_only_the_sum_is_observed_are_inseparable() {
    let forward = reads(&[1.0, 8.0, 64.0]);
    let candidate = |points: &[Vec<f64>]| -> Vec<Predictions> {
        points.iter().map(|p| Ok(vec![1e6 / p[0], 1e6 / (p[0] + p[1] + 2.0 * p[2])])).collect()
    };
    let values: Vec<f64> = forward(&[vec![300.0, 60.0, 10.0]])[0].clone().unwrap();
    let mut problem = problem(&[100.0, 100.0, 5.0], cells(&values, 0.02), &forward);
    let named = |name: &str| Candidate { name: name.into(), share: 0.02 };
    problem.candidates = vec![named("a read without a"), named("a read of 2 blocks")];
    problem.forward_candidates = Some(&candidate);
    let estimate = estimate(&problem).unwrap();
    let [a, b, c] = &estimate.numbers[..] else { panic!("three numbers") };
    assert!(((a.value + b.value) / 360.0 - 1.0).abs() < 0.01, "{a:?} {b:?}");
    assert_eq!((a.determined, b.determined), (Determined::AtMost, Determined::AtMost), "{a:?} {b:?}");
    assert!((c.value / 10.0 - 1.0).abs() < 0.01);
    assert_eq!(estimate.inseparable.len(), 1, "{:?}", estimate.inseparable);
    let pair = &estimate.inseparable[0];
    assert_eq!((pair.first.as_str(), pair.second.as_str()), ("a", "b"));
    assert_eq!(pair.separated_by.as_deref(), Some("a read without a"));
    assert_eq!(estimate.next[0].name, "a read without a");
    assert!(estimate.next[0].after_percent < 5.0 && estimate.next[0].before_percent > 50.0);
}

#[test]
fn the_next_measurement_narrows_the_interval_that_is_printed() {
    // y1 = y2 = a, and cells that contradict each other.
    let forward = powers(&[&[1.0], &[1.0]]);
    let candidate = powers(&[&[1.0]]);
    let mut problem = problem(&[10.0], cells(&[100.0, 110.0], 0.02), &forward);
    problem.candidates = vec![Candidate { name: "again".into(), share: 0.02 }];
    problem.forward_candidates = Some(&candidate);
    let estimate = estimate(&problem).unwrap();
    let a = &estimate.numbers[0];
    let half = 50.0 * (a.high - a.low) / a.value;
    assert!(estimate.inflation > 2.0, "{}", estimate.inflation);
    assert!((estimate.next[0].before_percent / half - 1.0).abs() < 0.2, "{half}: {:?}", estimate.next);
}

#[test]
fn a_number_that_is_hidden_beyond_a_knee_has_an_open_interval() {
    // The bus hides a faster rate: the first two cells show the slower of the two.
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        points.iter().map(|p| Ok(vec![p[0].min(20.0), p[0].min(20.0) * 1.0001, p[1]])).collect()
    };
    let estimate = estimate(&problem(&[40.0, 5.0], cells(&[20.0, 20.0, 7.0], 0.02), &forward)).unwrap();
    let hidden = &estimate.numbers[0];
    assert_eq!(hidden.determined, Determined::AtLeast, "{hidden:?}");
    assert!((18.5..=20.0).contains(&hidden.low), "{hidden:?}");
    assert_eq!(estimate.numbers[1].determined, Determined::Yes);
}

#[test]
fn an_estimate_stops_at_its_bound() {
    let forward = powers(&[&[1.0, 0.0], &[1.0, 1.0], &[0.0, 1.0]]);
    let mut problem = problem(&[10.0, 10.0], cells(&[200.0, 6000.0, 30.0], 0.02), &forward);
    problem.numbers[0].bounds.1 = 190.0;
    let estimate = estimate(&problem).unwrap();
    assert_eq!(estimate.numbers[0].value, 190.0);
    // With a at its bound, b is the mean of 6000 / 190 and 30.
    let expected = (6000.0_f64 / 190.0 * 30.0).sqrt();
    assert!((estimate.numbers[1].value / expected - 1.0).abs() < 1e-3);
}

#[test]
fn a_number_with_a_unit_is_a_whole_multiple() {
    // The model is not smooth: odd multiples of 10 take longer, by more than neighbouring multiples differ.
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        let rugged = |units: f64| if (units / 10.0).round() as u64 % 2 == 1 { 1.15 } else { 1.0 };
        points.iter().map(|p| Ok(vec![p[0] * rugged(p[0]), p[0] * p[1], p[1]])).collect()
    };
    let values = forward(&[vec![180.0, 7.0]])[0].clone().unwrap();
    let mut problem = problem(&[60.0, 3.0], cells(&values, 0.02), &forward);
    problem.settings.starts = 1;
    (problem.numbers[0].unit_size, problem.numbers[0].step) = (Some(10.0), 0.3);
    let estimate = estimate(&problem).unwrap();
    assert_eq!(estimate.numbers[0].value, 180.0);
    assert!(estimate.numbers[0].low <= 180.0 && estimate.numbers[0].high >= 180.0);
}

#[test]
fn a_derivative_reaches_the_next_multiple() {
    // With a step of a third, one unit would round back to one unit.
    let mut number = Number::log("a", "B", (128.0, 1e6), 128.0);
    (number.unit_size, number.step) = (Some(128.0), 0.35);
    let one = 128f64.ln();
    assert_eq!(number.rounded(one + number.difference(one, 1.0)), 256.0);
    // There is no smaller multiple, so the step of the derivative goes upwards.
    assert_eq!(number.rounded(one + number.difference(one, -1.0)), 256.0);
    let ten = 1280f64.ln();
    assert_eq!(number.rounded(ten + number.difference(ten, -1.0)), 896.0);
}

#[test]
fn contradictory_measurements_are_named() {
    let forward = powers(&[&[1.0, 0.0], &[1.0, 0.0], &[0.0, 1.0], &[0.0, 1.0], &[1.0, 1.0]]);
    let mut measured = cells(&[100.0, 140.0, 30.0, 30.0, 3600.0], 0.02);
    measured[0].repeats = Some("read".into());
    measured[1].repeats = Some("read".into());
    let estimate = estimate(&problem(&[10.0, 10.0], measured, &forward)).unwrap();
    assert!(
        estimate.contradictions[0].starts_with("cell 0 (100.0 IOPS) and cell 1 (140.0 IOPS)"),
        "{:?}",
        estimate.contradictions
    );
    assert!(estimate.inflation > 3.0);
}

#[test]
fn numbers_without_effect_or_cells_are_not_selected() {
    // b has no effect, and c acts exactly as a does.
    let forward = powers(&[&[1.0, 0.0, 1.0], &[2.0, 0.0, 2.0]]);
    let problem = problem(&[10.0, 10.0, 10.0], cells(&[200.0, 40000.0], 0.02), &forward);
    let selection = |most| select(&problem, most).unwrap();
    assert_eq!(selection(2), Selection { kept: vec![0, 2], without_effect: vec![1], without_cells: vec![] });
    assert_eq!(selection(1), Selection { kept: vec![0], without_effect: vec![1], without_cells: vec![2] });
}

#[test]
fn problems_without_an_answer_are_refused() {
    let forward = powers(&[&[1.0, 0.0, 1.0], &[0.0, 1.0, 1.0]]);
    let more = estimate(&problem(&[1.0, 1.0, 1.0], cells(&[1.0, 2.0], 0.02), &forward)).unwrap_err();
    assert_eq!(
        more.to_string(),
        "3 numbers cannot be fitted to 2 cells: a, b, c; add measurements or fix numbers"
    );
    let zero = estimate(&problem(&[1.0], cells(&[0.0, 2.0], 0.02), &forward)).unwrap_err();
    assert_eq!(zero.to_string(), "cell cell 0: its value is 0; expected a number above 0");
    let fails =
        |points: &[Vec<f64>]| -> Vec<Predictions> { points.iter().map(|_| Err("no".into())).collect() };
    let fails = estimate(&problem(&[1.0], cells(&[1.0, 2.0], 0.02), &fails)).unwrap_err();
    assert_eq!(fails, FitError::Forward { message: "no".into() });
}

#[test]
fn a_model_that_cannot_run_everywhere_is_still_fitted() {
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        let cells = |p: &Vec<f64>| match p[0] > 500.0 {
            true => Err("too slow".to_owned()),
            false => Ok(vec![p[0], p[0] * p[1], p[1] * p[1]]),
        };
        points.iter().map(cells).collect()
    };
    let estimate = estimate(&problem(&[20.0, 2.0], cells(&[480.0, 4800.0, 100.0], 0.02), &forward)).unwrap();
    assert!((estimate.numbers[0].value / 480.0 - 1.0).abs() < 1e-3, "{:?}", estimate.numbers);
}

/// Fits exact cells: rates of four kinds of requests, each a sum of two times, which are nonlinear in logarithms.
fn exact_cells_give([a, b, c]: [f64; 3], seed: u64) {
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        let cell = |p: &Vec<f64>| {
            vec![
                1e6 / (p[0] + p[1]),
                1e6 / (p[0] + 64.0 * p[2]),
                1e6 / (p[1] + p[2]),
                1e6 / (8.0 * p[0] + p[2]),
            ]
        };
        points.iter().map(|p| Ok(cell(p))).collect()
    };
    let values = forward(&[vec![a, b, c]])[0].clone().unwrap();
    let mut problem = problem(&[300.0, 60.0, 8.0], cells(&values, 0.02), &forward);
    problem.settings.seed = seed;
    let first = estimate(&problem).unwrap();
    assert!(first.chi2 < 0.05, "{first:?}");
    for (number, truth) in first.numbers.iter().zip([a, b, c]) {
        assert!(number.low <= truth && truth <= number.high, "{number:?} {truth}");
    }
    assert_eq!(format!("{first:?}"), format!("{:?}", estimate(&problem).unwrap()));
}

#[test]
fn a_search_that_crawls_along_a_valley_does_not_end_there() {
    exact_cells_give([1836.69, 8.83, 27.95], 23);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn exact_cells_give_true_intervals(a in 50.0..2000.0f64, b in 5.0..500.0f64, c in 1.0..40.0f64, seed in 0..100u64) {
        exact_cells_give([a, b, c], seed);
    }
}

/// A device that writes each request in whole pages of `page` KiB, which take `time` each, and sends `rate` KiB in a unit of
/// time.
fn pages(points: &[Vec<f64>]) -> Vec<Predictions> {
    let cells = |point: &Vec<f64>| {
        let [time, page, rate] = point[..] else { panic!("three numbers") };
        [4.0, 8.0, 12.0, 64.0, 256.0_f64].map(|kib| (kib / page).ceil() * time + kib / rate).to_vec()
    };
    points.iter().map(|point| Ok(cells(point))).collect()
}

fn number_of_pages(start: f64) -> Vec<Number> {
    let mut numbers = numbers(&[50.0, start, 3.0]);
    (numbers[1].scale, numbers[1].bounds) = (Scale::PowersOfTwo, (1.0, 4096.0));
    numbers
}

#[test]
fn a_power_of_two_is_found_exactly_from_a_wrong_start() {
    for (truth, start) in [(8.0, 32.0), (16.0, 4.0), (32.0, 256.0)] {
        let measured = pages(&[vec![200.0, truth, 2.0]]).pop().unwrap().unwrap();
        let problem = Problem {
            numbers: number_of_pages(start),
            ..problem(&[1.0, 1.0, 1.0], cells(&measured, 0.02), &pages)
        };
        let found = minimum(&problem, 4).unwrap();
        assert_eq!(found.values[1], truth, "{found:?}");
        let estimate = estimate(&problem).unwrap();
        let page = &estimate.numbers[1];
        assert_eq!((page.low, page.value, page.high), (truth, truth, truth), "{page:?}");
        assert_eq!(page.determined, Determined::Yes);
        assert!(found.evaluations < estimate.evaluations);
    }
}

#[test]
fn a_power_of_two_beyond_all_cells_is_limited_from_below_only() {
    // Every request fits into one page of 256 KiB or more.
    let measured = pages(&[vec![200.0, 512.0, 2.0]]).pop().unwrap().unwrap();
    let numbers = number_of_pages(512.0);
    let estimate =
        estimate(&Problem { numbers, ..problem(&[1.0, 1.0, 1.0], cells(&measured, 0.02), &pages) }).unwrap();
    let page = &estimate.numbers[1];
    assert_eq!(page.determined, Determined::AtLeast, "{page:?}");
    assert_eq!(page.low, 256.0);
}

#[test]
fn a_screening_finds_the_number_that_an_extension_needs_with_few_evaluations() {
    // y1 = a, y2 = a b, y3 = b c, where the base model lacks c: it is 1.
    let base = powers(&[&[1.0, 0.0], &[1.0, 1.0], &[0.0, 1.0]]);
    let extended = powers(&[&[1.0, 0.0, 0.0], &[1.0, 1.0, 0.0], &[0.0, 1.0, 1.0]]);
    let cells = cells(&[200.0, 6000.0, 30.0 * 5.0], 0.02);
    let without = problem(&[200.0, 60.0], cells.clone(), &base);
    let slopes = slopes(&without).unwrap();
    let with = problem(&[200.0, 60.0, 2.0], cells, &extended);
    let found = screen(&with, &slopes).unwrap();
    let full = estimate(&with).unwrap();
    assert!(found.chi2 < 1.0 && (found.values[2] / 5.0 - 1.0).abs() < 0.05, "{found:?}");
    assert!(found.evaluations <= 17, "the start, one derivative and five rounds of three steps: {found:?}");
    assert!(full.evaluations > 2 * found.evaluations, "{}", full.evaluations);
}

#[test]
fn a_multiple_is_found_although_its_other_numbers_lie_far_away() {
    // A write copies the rest of its last unit at `rate` KiB per microsecond. Units of 384 and 128 KiB
    // explain small writes equally well, with rates that differ by a factor of three.
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        let cells = |point: &Vec<f64>| {
            let [time, unit, rate] = point[..] else { panic!("three numbers") };
            let write = |kib: f64| time + kib / 40.0 + ((kib / unit).ceil() * unit - kib) / rate;
            Ok([4.0, 64.0, 256.0, 1000.0].map(write).to_vec())
        };
        points.iter().map(cells).collect()
    };
    for (start, rate) in [(384.0, 0.3), (640.0, 0.5), (256.0, 0.2)] {
        let measured = forward(&[vec![500.0, 128.0, 0.1]]).pop().unwrap().unwrap();
        let mut numbers = numbers(&[500.0, start, rate]);
        (numbers[1].unit_size, numbers[1].bounds) = (Some(128.0), (128.0, 4096.0));
        numbers[2].bounds = (0.01, 10.0);
        let problem = Problem {
            numbers,
            settings: Settings { starts: 1, ..Settings::default() },
            ..problem(&[1.0; 3], cells(&measured, 0.02), &forward)
        };
        let estimate = estimate(&problem).unwrap();
        let [_, unit, rate] = &estimate.numbers[..] else { panic!("three numbers") };
        assert_eq!((unit.low, unit.value, unit.high), (128.0, 128.0, 128.0), "from {start}: {estimate:?}");
        assert!(rate.low <= 0.1 && 0.1 <= rate.high, "{rate:?}");
    }
}

#[test]
fn a_screening_keeps_the_power_of_two_that_it_starts_from() {
    // The base model has pages of 8 KiB and 200 units of time for each; the device has pages of 4 KiB and 100.
    let of_8 = |points: &[Vec<f64>]| pages(&points.iter().map(|p| vec![p[0], 8.0, p[1]]).collect::<Vec<_>>());
    let measured = pages(&[vec![100.0, 4.0, 2.0]]).pop().unwrap().unwrap();
    let all = number_of_pages(4.0);
    let of_base = vec![all[0].clone(), all[2].clone()];
    let without = Problem { numbers: of_base, ..problem(&[1.0, 1.0], cells(&measured, 0.02), &of_8) };
    let slopes = slopes(&without).unwrap();
    let found =
        screen(&Problem { numbers: all, ..problem(&[1.0; 3], cells(&measured, 0.02), &pages) }, &slopes)
            .unwrap();
    assert!(found.values[1] == 4.0 && found.chi2 < 1.0, "{found:?}");
}

#[test]
fn a_cell_that_one_slow_request_dominates_decides_little() {
    let forward = powers(&[&[1.0], &[1.0]]);
    let value = |slowest_share: f64| {
        let mut cells = cells(&[100.0, 200.0], 0.02);
        cells[1].slowest_share = slowest_share;
        estimate(&problem(&[50.0], cells, &forward)).unwrap().numbers[0].value
    };
    assert!((value(0.0) / 100.0 - 2.0_f64.sqrt()).abs() < 0.01, "{}", value(0.0));
    assert!((value(1.0) / 100.0 - 1.0).abs() < 0.01, "{}", value(1.0));
}

/// A cell that shows a size only if its requests cross the end of a unit, as with a large unit that is copied
/// rarely.
#[test]
fn a_size_that_one_cell_shows_in_a_narrow_range_is_found() {
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        let crossed = |unit: f64| if (unit / 430.0).ln().abs() < 0.1 { 60.0 } else { 600.0 };
        points.iter().map(|p| Ok(vec![p[0], 2.0 * p[0], crossed(p[1])])).collect()
    };
    let mut problem = problem(&[30.0, 2.0], cells(&[40.0, 80.0, 60.0], 0.02), &forward);
    problem.settings.starts = 1;
    (problem.numbers[1].unit_size, problem.numbers[1].bounds) = (Some(1.0), (1.0, 2000.0));
    let estimate = estimate(&problem).unwrap();
    assert!((380.0..480.0).contains(&estimate.numbers[1].value), "{:?}", estimate.numbers);
}

#[test]
fn a_permitted_value_of_another_model_widens_the_interval() {
    let forward = powers(&[&[1.0], &[1.0]]);
    let mut estimate = estimate(&problem(&[50.0], cells(&[100.0, 100.0], 0.02), &forward)).unwrap();
    assert!(estimate.permits(estimate.chi2 + 2.7) && !estimate.permits(estimate.chi2 + 2.8));
    let number = &mut estimate.numbers[0];
    assert_eq!(number.determined, Determined::Yes);
    number.include(101.0);
    assert_eq!(number.determined, Determined::Yes, "it lies in the interval");
    number.include(200.0);
    assert_eq!((number.high, number.determined), (200.0, Determined::Loosely));
}

#[test]
fn cells_that_the_model_does_not_explain_determine_a_number_loosely() {
    let forward = powers(&[&[1.0], &[1.0], &[1.0]]);
    let with = |third: f64| {
        let estimate = estimate(&problem(&[50.0], cells(&[100.0, 100.0, third], 0.02), &forward)).unwrap();
        (estimate.inflation > UNEXPLAINED, estimate.numbers[0].determined)
    };
    assert_eq!(with(101.0), (false, Determined::Yes));
    assert_eq!(with(150.0), (true, Determined::Loosely));
}

#[test]
fn a_search_leaves_a_plateau_on_which_a_number_has_no_effect() {
    // A bus of 300 hides a faster array, and a slow array hides nothing.
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        points.iter().map(|point| Ok(vec![point[0].min(300.0), point[1], point[1]])).collect()
    };
    let settings = Settings { starts: 1, floor: 0.0, ..Settings::default() };
    let on_plateau = problem(&[400.0, 5.0], cells(&[250.0, 10.0, 10.0], 0.02), &forward);
    let found = minimum(&Problem { settings, ..on_plateau }, 4).expect("a minimum");
    assert!((found.values[0] / 250.0 - 1.0).abs() < 1e-3, "{found:?}");
}

#[test]
fn a_cell_without_a_number_asks_for_the_host_unless_a_number_is_at_its_bound() {
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        points.iter().map(|point| Ok(vec![300.0, point[0], point[0]])).collect()
    };
    let sentence = |value: f64| {
        let problem = problem(&[5.0], cells(&[250.0, value, value], 0.02), &forward);
        estimate(&problem).expect("an estimate").contradictions[0].clone()
    };
    assert!(
        sentence(10.0).ends_with("than measured. Was it measured on another host?"),
        "{}",
        sentence(10.0)
    );
    assert!(sentence(1e7).contains("a is at the end of its range"), "{}", sentence(1e7));
}

#[test]
fn a_number_that_changes_no_cell_is_without_effect() {
    let forward = powers(&[&[1.0, 0.0], &[2.0, 0.0]]);
    let problem = problem(&[10.0, 10.0], cells(&[200.0, 40000.0], 0.02), &forward);
    let slopes = slopes(&problem).expect("derivatives");
    assert!(!slopes.is_without_effect("a") && slopes.is_without_effect("b"));
}

#[test]
fn cells_with_the_same_fault_share_a_sentence() {
    let forward = |points: &[Vec<f64>]| -> Vec<Predictions> {
        points.iter().map(|point| Ok(vec![300.0, 300.0, point[0], point[0], point[0], point[0]])).collect()
    };
    let problem = problem(&[5.0], cells(&[250.0, 200.0, 10.0, 10.0, 30.0, 30.0], 0.02), &forward);
    let found = estimate(&problem).expect("an estimate").contradictions;
    let [host, others] = &found[..] else { panic!("one sentence for each fault: {found:?}") };
    assert!(host.starts_with("No fitted number affects 2 cells at the estimate; "), "{host}");
    assert!(host.contains("cell 0 (20 % larger), cell 1 (50 % larger). Were they measured"), "{host}");
    assert!(
        others.starts_with("For each of these 4 cells, the other cells imply a value other than"),
        "{others}"
    );
    assert!(others.contains("cell 2 (") && others.contains(" deviations), cell 5 ("), "{others}");
}
