//! The search of a refit.
//!
//! A number with one cell is the solution of an equation: its simulated cell has the measured value.
//! [`settle`] solves all these equations together, each by secants. A number with several cells cannot meet
//! all of its cells. A coordinate search, from coarse steps to fine ones, looks for the values of such
//! numbers with the least sum of squared deviations, and settles the other numbers at each point. Both
//! searches start from the values of the profiles. The search ends with a pass in which nothing improves the
//! sum. The values of the profiles stay if they explain the cells as well as the best point, so a search that
//! starts from its own result changes nothing.

use super::super::FittingError;
use super::problem::{Grid, Point, RefitCell, RefitProblem};
use flashlab_catalogue::units::Dimension;

/// Largest number of rounds in which the numbers with one cell are settled.
const ROUNDS_MAX: usize = 8;
/// Largest step of a number in a round, as a logarithm.
const STEP_MAX: f64 = 0.7;
/// Steps of the coordinate search, as logarithms.
const STEPS: [f64; 3] = [0.3, 0.1, 0.03];
/// Smallest relative decrease of the sum at which a step is kept.
const IMPROVEMENT: f64 = 0.01;
/// Rise of the sum at the ends of a 90 % interval: the square of the normal distribution's 95th percentile.
const RISE_90: f64 = 2.705_543;
/// Largest error, as a share of the cell's deviation, at which a number of a profile stays.
const ERROR_MAX: f64 = 1.0 / 3.0;
/// Largest number of passes of the coordinate search. A pass follows only if the previous one changed the values.
const PASSES_MAX: usize = 20;

/// Returns the best point of a search from the values of the profiles, or these values if they are as good.
pub(super) fn search(problem: &mut RefitProblem<'_>) -> Result<Point, FittingError> {
    let start = problem.at(problem.before(), is_fitted)?;
    let mut best = settle(problem, start.values.clone())?;
    for _ in 0..PASSES_MAX {
        let before = best.values.clone();
        for step in STEPS {
            best = pass(problem, best, step)?;
        }
        best = settle(problem, best.values)?;
        if best.values == before {
            break;
        }
    }
    let stays = is_as_good(problem, &start, &best);
    Ok(if stays { start } else { best })
}

/// Returns true if the values of the profiles explain the cells as well as the best point: each number with one cell
/// meets it within a third of the deviation, and the sum lies within the 90 % interval. A change that the measurements
/// cannot tell from the present values does not justify new figures for everything that depends on a profile.
fn is_as_good(problem: &RefitProblem<'_>, start: &Point, best: &Point) -> bool {
    let is_met = |k: usize| {
        let cell = problem.numbers[k].cells[0];
        let allowed = ERROR_MAX * problem.cells[cell].share;
        problem.error(start, cell).abs() <= allowed.max(problem.tolerance(start, cell))
    };
    let sum = |point: &Point| problem.sum(point, is_fitted);
    // As in the fit of one card, the interval is wider if the model does not explain the cells within their deviations.
    let cells = problem.cells.iter().filter(|cell| cell.is_fitted).count();
    let free = cells.saturating_sub(problem.numbers.len()).max(1);
    let rise_max = RISE_90 * (sum(best) / free as f64).max(1.0);
    sum(start) <= sum(best) + rise_max && problem.numbers_with(|cells| cells == 1).into_iter().all(is_met)
}

fn is_fitted(cell: &RefitCell) -> bool {
    cell.is_fitted
}

/// Moves each number with several cells by `step` while this lowers the sum.
fn pass(problem: &mut RefitProblem<'_>, mut best: Point, step: f64) -> Result<Point, FittingError> {
    for k in problem.numbers_with(|cells| cells > 1) {
        let step = match problem.numbers[k].grid {
            Grid::PowersOfTwo if step < STEPS[0] => continue,
            Grid::PowersOfTwo => std::f64::consts::LN_2,
            _ => step,
        };
        for step in [step, -step] {
            let mut moved = false;
            while let Some(better) = moved_by(problem, &best, k, step)? {
                (best, moved) = (better, true);
            }
            if moved {
                break;
            }
        }
    }
    Ok(best)
}

/// Returns the point with number `k` moved by `step` and the others settled; `None` if its sum is not smaller, or if
/// the simulation fails at this point.
fn moved_by(
    problem: &mut RefitProblem<'_>,
    from: &Point,
    k: usize,
    step: f64,
) -> Result<Option<Point>, FittingError> {
    let mut values = from.values.clone();
    values[k] = problem.rounded(k, values[k] * step.exp(), &values);
    if values[k] == from.values[k] {
        return Ok(None);
    }
    for n in 0..values.len() {
        if problem.numbers[n].grid == Grid::MultiplesOf(k) {
            values[n] = problem.rounded(n, values[n], &values);
        }
    }
    let point = match settle(problem, values) {
        Ok(point) => point,
        Err(FittingError::Stopped) => return Err(FittingError::Stopped),
        Err(_) => return Ok(None),
    };
    let sum = |point: &Point| problem.sum(point, is_fitted);
    Ok((sum(&point) < sum(from) * (1.0 - IMPROVEMENT)).then_some(point))
}

/// Returns the point at which each number with one cell meets this cell, within the tolerance of the cell, as
/// far as the bounds and the grid of the number permit.
fn settle(problem: &mut RefitProblem<'_>, values: Vec<f64>) -> Result<Point, FittingError> {
    let from = problem.at(values, |cell| cell.is_own)?;
    let single = problem.numbers_with(|cells| cells == 1);
    // A cell is a rate of requests or bytes. It falls as a time or a unit of work grows, and rises as a rate
    // grows.
    let sign = |k: usize| if problem.numbers[k].dimension == Dimension::Rate { 1.0 } else { -1.0 };
    let signs: Vec<f64> = (0..problem.numbers.len()).map(sign).collect();
    let mut slopes = signs.clone();
    let (mut point, mut best) = (from.clone(), from.clone());
    for _ in 0..ROUNDS_MAX {
        let mut values = point.values.clone();
        for k in &single {
            let cell = problem.numbers[*k].cells[0];
            let error = problem.error(&point, cell);
            if error.abs() > problem.tolerance(&point, cell) {
                let step = (-error / slopes[*k]).clamp(-STEP_MAX, STEP_MAX);
                values[*k] = problem.rounded(*k, values[*k] * step.exp(), &values);
            }
        }
        if values == point.values {
            break;
        }
        let next = problem.at(values, |cell| cell.is_own)?;
        for k in &single {
            let moved = (next.values[*k] / point.values[*k]).ln();
            let cell = problem.numbers[*k].cells[0];
            if moved != 0.0 {
                let slope = (problem.error(&next, cell) - problem.error(&point, cell)) / moved;
                slopes[*k] = signs[*k] * (slope * signs[*k]).clamp(0.1, 1.5);
            }
        }
        point = next;
        if excess(problem, &point, &single) < excess(problem, &best, &single) {
            best = point.clone();
        }
    }
    // With a weaker condition, the search might not end: a number with little effect on its cell would change
    // endlessly.
    let is_better = excess(problem, &best, &single) < 0.9 * excess(problem, &from, &single);
    problem.at(if is_better { best.values } else { from.values }, is_fitted)
}

/// Returns the sum of the squared errors beyond the tolerance, in units of the tolerance, over the cells of the numbers
/// in `single`.
fn excess(problem: &RefitProblem<'_>, point: &Point, single: &[usize]) -> f64 {
    let of = |k: &usize| {
        let cell = problem.numbers[*k].cells[0];
        (problem.error(point, cell).abs() / problem.tolerance(point, cell) - 1.0).max(0.0).powi(2)
    };
    single.iter().map(of).sum()
}
