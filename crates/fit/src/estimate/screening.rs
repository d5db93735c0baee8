//! Short searches of many models that share most of their numbers.
//!
//! The extensions of a model have nearly the same derivatives as the model. The derivatives of the model are
//! therefore computed once, and each extension computes only the derivatives of its additional numbers.

use super::Minimum;
use super::advice::WITHOUT_EFFECT;
use super::descent::{DAMPINGS, Descent, learn};
use super::matrix::gram;
use super::problem::{FitError, Problem};

/// Largest number of rounds of damped steps.
const ROUNDS: usize = 5;
/// Share by which chi-squared must fall in a round for the search to continue.
const FALL_MIN: f64 = 0.1;

/// The derivatives of the cells at the start of a model.
#[derive(Clone, Debug)]
pub struct Slopes {
    /// Names of the numbers.
    names: Vec<String>,
    /// One row for each cell, one column for each number.
    rows: Vec<Vec<f64>>,
}

impl Slopes {
    /// Returns true if the number has no noticeable effect on the cells, or is unknown.
    pub fn is_without_effect(&self, name: &str) -> bool {
        let column = self.names.iter().position(|known| known == name);
        column.is_none_or(|k| self.rows.iter().map(|row| row[k] * row[k]).sum::<f64>() < WITHOUT_EFFECT)
    }
}

/// Computes the derivatives at the start of `problem`.
pub fn slopes(problem: &Problem<'_>) -> Result<Slopes, FitError> {
    problem.check()?;
    let mut descent = Descent::new(problem);
    let start = descent.start()?;
    let names = problem.numbers.iter().map(|number| number.name.clone()).collect();
    Ok(Slopes { names, rows: descent.jacobian(&start) })
}

/// Runs a short search from the start of `problem`, which extends the model of `slopes`. For the numbers of
/// that model, the search begins with the derivatives in `slopes`.
pub fn screen(problem: &Problem<'_>, slopes: &Slopes) -> Result<Minimum, FitError> {
    problem.check()?;
    let mut descent = Descent::new(problem);
    let mut point = descent.start()?;
    let known = |k: usize| slopes.names.iter().position(|name| *name == problem.numbers[k].name);
    let n = problem.numbers.len();
    let is_power = |k: usize| problem.numbers[k].is_power();
    let new: Vec<usize> = (0..n).filter(|k| known(*k).is_none() && !is_power(*k)).collect();
    let (ends, steps) = descent.differences(&point, 1.0);
    let moved = descent.points(new.iter().map(|k| ends[*k].clone()).collect());
    let slope = |k: usize, cell: usize| match (known(k), new.iter().position(|other| *other == k)) {
        // Powers of two keep their values, because a fraction of their step changes nothing.
        _ if is_power(k) => 0.0,
        (Some(column), _) => slopes.rows[cell][column],
        (None, Some(at)) => match &moved[at] {
            Some(end) => (end.residuals[cell] - point.residuals[cell]) / steps[k],
            None => 0.0,
        },
        (None, None) => unreachable!("a number is known or new"),
    };
    let mut jacobian: Vec<Vec<f64>> =
        (0..point.residuals.len()).map(|cell| (0..n).map(|k| slope(k, cell)).collect()).collect();
    let products = gram(&jacobian, n);
    let largest = (0..n).map(|k| products[k][k]).fold(1e-9, f64::max);
    for _ in 0..ROUNDS {
        let steps = DAMPINGS.map(|factor| descent.step(&point, &jacobian, 1e-3 * largest * factor));
        let tried = descent.points(steps.to_vec()).into_iter().flatten();
        match tried.min_by(|a, b| a.chi2.total_cmp(&b.chi2)) {
            Some(lower) if lower.chi2 < point.chi2 => {
                learn(&mut jacobian, &point, &lower);
                let is_settled = lower.chi2 > (1.0 - FALL_MIN) * point.chi2;
                point = lower;
                if is_settled {
                    break;
                }
            }
            _ => break,
        }
    }
    Ok(Minimum::at(problem, &point, descent.evaluations))
}
