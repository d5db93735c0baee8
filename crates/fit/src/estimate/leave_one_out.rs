//! Predictions of each cell from a model that was fitted to the others. Such predictions show how large the
//! errors of the model on a device are likely to be.
//!
//! The derivatives at the estimate from all cells approximate the estimate without one cell; one evaluation
//! corrects the approximation, and a second one gives the prediction. Derivatives do not hold across the
//! jumps of a number with few values. If the model has such numbers, a second try holds them fixed, and the
//! better try counts.

use super::descent::{Descent, Local, Point};
use super::matrix::{Matrix, solve, transposed_times};

/// Leverage above which a cell alone determines a number, so that the other cells do not predict the cell.
const ALONE: f64 = 0.999;

/// Returns the prediction of each cell from a model fitted without it; `None` where the other cells predict
/// nothing, or the model cannot run.
pub(super) fn predictions(descent: &mut Descent<'_>, best: &Point, local: &Local) -> Vec<Option<f64>> {
    let cells: Vec<usize> = (0..best.residuals.len()).collect();
    if cells.len() < 2 {
        return vec![None; cells.len()];
    }
    let others = |point: &Point, cell: usize| point.chi2 - point.residuals[cell] * point.residuals[cell];
    let numbers = &descent.problem.numbers;
    let is_coarse: Vec<bool> = numbers.iter().zip(&best.at).map(|(n, at)| n.is_coarse(*at)).collect();
    let all = vec![false; is_coarse.len()];
    let mut tries: Vec<[Vec<Option<Point>>; 2]> = Vec::new();
    for held in if is_coarse == all { vec![all] } else { vec![all, is_coarse] } {
        let first = cells.iter().map(|cell| without(descent, local, best, *cell, &held)).collect();
        let points = descent.points(first);
        let second = cells.iter().map(|cell| match &points[*cell] {
            Some(point) => without(descent, local, point, *cell, &held),
            None => best.at.clone(),
        });
        let second = second.collect();
        tries.push([points, descent.points(second)]);
    }
    let prediction = |cell: usize| {
        if local.leverage(cell) > ALONE {
            return None;
        }
        let found = tries.iter().flatten().filter_map(|points| points[cell].as_ref());
        let best = found.min_by(|a, b| others(a, cell).total_cmp(&others(b, cell)));
        best.map(|point| point.predicted[cell])
    };
    cells.iter().map(|cell| prediction(*cell)).collect()
}

/// Returns the minimum that the derivatives predict from `point` if `cell` is left out. The numbers marked in
/// `held` keep their values.
fn without(descent: &Descent<'_>, local: &Local, point: &Point, cell: usize, held: &[bool]) -> Vec<f64> {
    let n = point.at.len();
    let free: Vec<usize> = (0..n).filter(|k| !held[*k]).collect();
    if free.is_empty() {
        return point.at.clone();
    }
    let left = &local.jacobian[cell];
    let information = |i: usize, k: usize| local.information[i][k] - left[i] * left[k];
    let information: Matrix =
        free.iter().map(|i| free.iter().map(|k| information(*i, *k)).collect()).collect();
    let mut right = transposed_times(&local.jacobian, &point.residuals, n);
    right.iter_mut().zip(left).for_each(|(sum, slope)| *sum -= slope * point.residuals[cell]);
    let right: Vec<f64> = free.iter().map(|k| right[*k]).collect();
    let mut at = point.at.clone();
    for (k, step) in free.iter().zip(solve(&information, &right)) {
        let (low, high) = descent.problem.numbers[*k].limits();
        at[*k] = (at[*k] - step.clamp(-2.0, 2.0)).clamp(low, high);
    }
    at
}
