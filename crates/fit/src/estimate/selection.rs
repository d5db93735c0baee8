//! Selection of the numbers of a problem that its cells can determine.

use super::descent::Descent;
use super::matrix::dot;
use super::problem::{FitError, Problem};

/// Norm of a number's derivatives below which no cell counts as depending on the number. At this norm, a factor of e^2
/// in the number moves the cells by one standard deviation.
const NORM_MIN: f64 = 0.5;

/// Indices of numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Selection {
    /// Numbers to estimate, ascending.
    pub kept: Vec<usize>,
    /// Numbers on which no cell depends.
    pub without_effect: Vec<usize>,
    /// Numbers for which too few cells are left.
    pub without_cells: Vec<usize>,
}

/// Selects the numbers of `problem` that its cells can determine. Earlier numbers have priority. If more than `most`
/// numbers remain, the selection drops those that are the least independent of the numbers before them.
pub fn select(problem: &Problem<'_>, most: usize) -> Result<Selection, FitError> {
    let mut descent = Descent::new(problem);
    let point = descent.start()?;
    let local = descent.local(&point)?;
    let column = |k: usize| local.jacobian.iter().map(|row| row[k]).collect::<Vec<f64>>();
    let norm = |column: &[f64]| dot(column, column).sqrt();
    let (mut kept, mut without_effect) = (Vec::new(), Vec::new());
    for k in 0..problem.numbers.len() {
        if norm(&column(k)) < NORM_MIN { without_effect.push(k) } else { kept.push(k) }
    }
    let mut without_cells = Vec::new();
    while kept.len() > most {
        let mut basis: Vec<Vec<f64>> = Vec::new();
        let mut rests = Vec::new();
        for k in &kept {
            let mut rest = column(*k);
            for direction in &basis {
                let along = dot(direction, &rest);
                rest.iter_mut().zip(direction).for_each(|(rest, d)| *rest -= along * d);
            }
            let length = norm(&rest);
            rests.push(length);
            if length > 1e-9 {
                basis.push(rest.into_iter().map(|x| x / length).collect());
            }
        }
        let least = (0..kept.len()).rev().min_by(|a, b| rests[*a].total_cmp(&rests[*b]));
        without_cells.push(kept.remove(least.expect("there are numbers")));
    }
    without_cells.sort_unstable();
    Ok(Selection { kept, without_effect, without_cells })
}
