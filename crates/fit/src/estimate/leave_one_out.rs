//! Predictions of each cell from a model that was fitted on the others: the honest error of the model on a device.
//!
//! The derivatives at the estimate give the estimate without the cell; one evaluation corrects it, a second one predicts.

use super::descent::{Descent, Local, Point};
use super::matrix::{Matrix, solve, transposed_times};

/// Returns the prediction of each cell without it; `None` where the model cannot run.
pub(super) fn predictions(descent: &mut Descent<'_>, best: &Point, local: &Local) -> Vec<Option<f64>> {
    let cells: Vec<usize> = (0..best.residuals.len()).collect();
    if cells.len() < 2 {
        return vec![None; cells.len()];
    }
    let first: Vec<Vec<f64>> = cells.iter().map(|cell| without(descent, local, best, *cell)).collect();
    let points = descent.points(first);
    let second = cells.iter().map(|cell| match &points[*cell] {
        Some(point) => without(descent, local, point, *cell),
        None => best.at.clone(),
    });
    let corrected = descent.points(second.collect());
    let others = |point: &Point, cell: usize| point.chi2 - point.residuals[cell] * point.residuals[cell];
    let prediction = |cell: usize| {
        let found = [&points[cell], &corrected[cell]].into_iter().flatten();
        let best = found.min_by(|a, b| others(a, cell).total_cmp(&others(b, cell)));
        best.map(|point| point.predicted[cell])
    };
    cells.iter().map(|cell| prediction(*cell)).collect()
}

/// Returns the minimum that the derivatives predict from `point` if the cell does not count.
fn without(descent: &Descent<'_>, local: &Local, point: &Point, cell: usize) -> Vec<f64> {
    let n = point.at.len();
    let left = &local.jacobian[cell];
    let information: Matrix =
        (0..n).map(|i| (0..n).map(|k| local.information[i][k] - left[i] * left[k]).collect()).collect();
    let mut right = transposed_times(&local.jacobian, &point.residuals, n);
    right.iter_mut().zip(left).for_each(|(sum, slope)| *sum -= slope * point.residuals[cell]);
    let steps = solve(&information, &right);
    let moved = point.at.iter().zip(steps).zip(&descent.problem.numbers);
    moved
        .map(|((at, step), number)| {
            let (low, high) = number.limits();
            (at - step.clamp(-2.0, 2.0)).clamp(low, high)
        })
        .collect()
}
