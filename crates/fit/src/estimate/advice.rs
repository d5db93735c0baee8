//! Conclusions from the derivatives at the estimate: numbers that the cells cannot separate, the next measurement worth
//! making, and cells that contradict others.

use super::descent::{CandidateRows, Local, Point};
use super::interval::Interval;
use super::matrix::{Matrix, dot, times};
use super::problem::{Cell, Problem};
use super::{CHI2_RISE, Determined, NextMeasurement, NumberEstimate, Pair};

/// Smallest absolute correlation at which two numbers count as inseparable.
const INSEPARABLE: f64 = 0.9;
/// Difference, in standard deviations, above which two measurements of one job contradict each other, or a
/// cell contradicts the value that the other cells imply.
const CONTRADICTION: f64 = 3.0;

/// Returns the covariance after one more measurement. `row` contains its derivatives in units of its standard
/// deviation.
fn after(covariance: &Matrix, row: &[f64]) -> Matrix {
    let spread = times(covariance, row);
    let divisor = 1.0 + dot(row, &spread);
    let shrunk = |i: usize, k: usize| covariance[i][k] - spread[i] * spread[k] / divisor;
    (0..row.len()).map(|i| (0..row.len()).map(|k| shrunk(i, k)).collect()).collect()
}

/// Returns the pairs of numbers that are not determined and whose estimates depend on each other.
pub(super) fn pairs(
    problem: &Problem<'_>,
    local: &Local,
    intervals: &[Interval],
    candidates: &CandidateRows,
) -> Vec<Pair> {
    let covariance = &local.covariance;
    let is_wide = |k: usize| {
        let number = &problem.numbers[k];
        let (low, high) = (number.value(intervals[k].low), number.value(intervals[k].high));
        intervals[k].determined(0.5 * (low + high), low, high) != Determined::Yes
    };
    let mut pairs = Vec::new();
    for i in 0..problem.numbers.len() {
        for k in i + 1..problem.numbers.len() {
            let correlation = covariance[i][k] / (covariance[i][i] * covariance[k][k]).sqrt();
            if correlation.abs() < INSEPARABLE || !is_wide(i) || !is_wide(k) {
                continue;
            }
            let variance = |covariance: &Matrix| covariance[i][i] + covariance[k][k];
            let separated = candidates.iter().enumerate().filter_map(|(c, row)| {
                let rest = variance(&after(covariance, row.as_ref()?));
                // A measurement is worth naming if it reduces the root of the sum of the two variances to two
                // thirds or less.
                (rest < 0.45 * variance(covariance)).then_some((c, rest))
            });
            let separated = separated.min_by(|(_, a), (_, b)| a.total_cmp(b));
            let separated = separated.map(|(c, _)| problem.candidates[c].name.clone());
            let (first, second) = (problem.numbers[i].name.clone(), problem.numbers[k].name.clone());
            let mut sentence = format!("{first} and {second} cannot be separated by these cells");
            match &separated {
                Some(candidate) => sentence += &format!("; {candidate} would separate them."),
                None => sentence += ".",
            }
            pairs.push(Pair { first, second, correlation, separated_by: separated, sentence });
        }
    }
    pairs
}

/// Half-width of an interval, in per cent, above which a number counts as unknown.
const UNKNOWN: f64 = 100.0;

/// Returns the candidates in descending order of gain, without those that would leave even the number whose
/// interval shrinks most unknown. `inflation` widens the intervals.
pub(super) fn next_measurements(
    problem: &Problem<'_>,
    local: &Local,
    candidates: &CandidateRows,
    numbers: &[NumberEstimate],
    inflation: f64,
) -> Vec<NextMeasurement> {
    let covariance = &local.covariance;
    let measurement = |(candidate, row): (&super::Candidate, &Option<Vec<f64>>)| {
        let row = row.as_ref()?;
        let gain = 0.5 * (1.0 + dot(row, &times(covariance, row))).ln();
        let after = after(covariance, row);
        let shrunk = |k: usize| after[k][k] / covariance[k][k];
        let best = (0..numbers.len()).min_by(|a, b| shrunk(*a).total_cmp(&shrunk(*b)))?;
        let percent = |variance: f64| 100.0 * inflation * (CHI2_RISE * variance).sqrt();
        let (before, after) = (percent(covariance[best][best]), percent(after[best][best]));
        if after > UNKNOWN {
            return None;
        }
        let number = numbers[best].name.clone();
        let text = |percent: f64| match percent {
            wide if wide > UNKNOWN => "an unknown range".to_owned(),
            percent => format!("{percent:.1} %"),
        };
        let sentence = format!(
            "{} would narrow {number} from {} to {} in this model.",
            candidate.name,
            text(before),
            text(after)
        );
        let name = candidate.name.clone();
        Some(NextMeasurement { name, gain, number, before_percent: before, after_percent: after, sentence })
    };
    let mut next: Vec<NextMeasurement> =
        problem.candidates.iter().zip(candidates).filter_map(measurement).collect();
    next.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    next
}

/// Sum of squared derivatives, of one cell with respect to all numbers or of all cells with respect to one
/// number. Below this sum, the numbers count as without effect on the cells.
pub(super) const WITHOUT_EFFECT: f64 = 0.01;

/// Returns the value of a cell in a readable unit.
fn quantity(cell: &Cell) -> String {
    let (value, unit) = match cell.unit.as_str() {
        "iops" => (cell.value, "IOPS"),
        "bytes_per_second" => (cell.value / 1_048_576.0, "MiB/s"),
        "latency_ns_mean" => (cell.value / 1e3, "us"),
        unit => (cell.value, unit),
    };
    // Four significant digits.
    let decimals = (3.0 - value.log10().floor()).clamp(0.0, 9.0) as usize;
    format!("{value:.decimals$} {unit}")
}

/// Returns a sentence for each pair of measurements of one job that contradict each other, a sentence about
/// the cells that no number affects, and a sentence about the cells that contradict the others.
pub(super) fn contradictions(problem: &Problem<'_>, best: &Point, local: &Local) -> Vec<String> {
    let mut found = Vec::new();
    let mut named = vec![false; problem.cells.len()];
    let at_bound = problem.numbers.iter().zip(&best.at).filter(|(number, at)| number.is_at_bound(**at));
    let at_bound: Vec<&str> = at_bound.map(|(number, _)| number.name.as_str()).collect();
    for (i, cell) in problem.cells.iter().enumerate() {
        for (k, other) in problem.cells.iter().enumerate().skip(i + 1) {
            if cell.repeats.is_none() || cell.repeats != other.repeats {
                continue;
            }
            let (a, b) = (cell.share(&problem.settings), other.share(&problem.settings));
            let deviations = (cell.value / other.value).ln().abs() / a.hypot(b);
            if deviations > CONTRADICTION {
                (named[i], named[k]) = (true, true);
                found.push(format!(
                    "{} ({}) and {} ({}) measure the same and differ by {deviations:.1} deviations.",
                    cell.name,
                    quantity(cell),
                    other.name,
                    quantity(other)
                ));
            }
        }
    }
    let (mut without_number, mut implied) = (Vec::new(), Vec::new());
    for (i, cell) in problem.cells.iter().enumerate() {
        if named[i] {
            continue;
        }
        let row = &local.jacobian[i];
        let leverage = local.leverage(i);
        // A cell that alone determines a number always fits, so its residual cannot show a contradiction.
        if leverage > 0.98 {
            continue;
        }
        let deviations = best.residuals[i].abs() / (1.0 - leverage).sqrt();
        if deviations > CONTRADICTION {
            let error = 100.0 * (best.predicted[i] / cell.value - 1.0);
            let by = format!("{:.0} % {}", error.abs(), if error > 0.0 { "larger" } else { "smaller" });
            if dot(row, row) < WITHOUT_EFFECT {
                without_number.push((cell.name.as_str(), by));
            } else {
                implied.push((cell.name.as_str(), by, deviations));
            }
        }
    }
    found.extend(cells_without_number(&without_number, &at_bound));
    found.extend(cells_against_others(&implied));
    found
}

/// Returns the sentence about the cells that differ from the model and that no number affects; `None` without
/// such cells. `at_bound` contains the names of the numbers at the ends of their ranges.
fn cells_without_number(cells: &[(&str, String)], at_bound: &[&str]) -> Option<String> {
    let they = if cells.len() == 1 { "Was it" } else { "Were they" };
    let advice = match at_bound {
        [] => format!("{they} measured on another host?"),
        [one] => format!("{one} is at the end of its range, where it may have lost its effect."),
        all => format!(
            "{} are at the ends of their ranges, where they may have lost their effect.",
            all.join(" and ")
        ),
    };
    let before = "at the estimate; the host, its bus and the base profile give";
    match cells {
        [] => None,
        [(cell, by)] => Some(format!(
            "{cell}: no fitted number affects this cell {before} a value {by} than measured. {advice}"
        )),
        _ => {
            let all: Vec<String> = cells.iter().map(|(cell, by)| format!("{cell} ({by})")).collect();
            Some(format!(
                "No fitted number affects {} cells {before} other values than measured: {}. {advice}",
                cells.len(),
                all.join(", ")
            ))
        }
    }
}

/// Returns the sentence about the cells that contradict the others; `None` without such cells. Each element
/// of `cells` has the name of a cell, the difference as text, and the difference in standard deviations.
fn cells_against_others(cells: &[(&str, String, f64)]) -> Option<String> {
    match cells {
        [] => None,
        [(cell, by, deviations)] => Some(format!(
            "{cell}: the other cells imply a value {by} than measured, {deviations:.1} deviations."
        )),
        _ => {
            let text = |(cell, by, deviations): &(&str, String, f64)| {
                format!("{cell} ({by}, {deviations:.1} deviations)")
            };
            let all: Vec<String> = cells.iter().map(text).collect();
            Some(format!(
                "For each of these {} cells, the other cells imply a value other than the measured one: {}.",
                cells.len(),
                all.join(", ")
            ))
        }
    }
}
