//! Refits: the profiles of an experiment's devices, generated together from its published cells.
//!
//! A profile states for each fitted number which cells determine it. [`refit`] reads the problem from these
//! statements: the numbers are those with the source `fitted`, and the cells are those that these sources
//! name. All other cells stay predictions. A number that several profiles fit on the same cells is one number
//! that these devices share, even on different hosts and filesystems. A refit therefore never adds a free
//! parameter.
//!
//! The search starts from the values of the profiles and keeps only improvements; `search.rs` describes it. A
//! second refit, of the result of the first one, changes nothing.
//!
//! A refit leaves counts, words, and sizes without a known unit as they are, and lists them with the reason.

mod problem;
mod search;
mod write;

use super::{FittingError, Held};
use crate::progress::Progress;
use flashlab_catalogue::library::Library;
use problem::{Point, RefitProblem};
use serde::Serialize;
use std::collections::BTreeMap;

/// Settings of a refit.
#[derive(Clone, Debug)]
pub struct RefitSettings {
    /// Error of the model as a share of each cell's value, in addition to the deviation of the measurement.
    pub floor: f64,
    /// Seed of the medium.
    pub seed: u64,
}

impl Default for RefitSettings {
    fn default() -> Self {
        RefitSettings { floor: 0.015, seed: 1 }
    }
}

/// The result of a refit.
#[derive(Clone, Debug, Serialize)]
pub struct Refit {
    /// Name of the experiment.
    pub experiment: String,
    /// The numbers of the search.
    pub numbers: Vec<NumberOfRefit>,
    /// Numbers with the source `fitted` that a refit leaves as they are, with the reason.
    pub held: Vec<Held>,
    /// All cells with a published figure.
    pub cells: Vec<CellOfRefit>,
    /// Sum of the squared deviations of the fitted cells with the profiles as they are.
    pub sum_before: f64,
    /// The same sum with the profiles of the refit.
    pub sum_after: f64,
    /// Sum of the squared deviations of the predicted cells with the profiles as they are.
    pub predicted_before: f64,
    /// The same sum with the profiles of the refit.
    pub predicted_after: f64,
    /// Number of simulated runs of one column in one row.
    pub runs: usize,
    /// Texts of the profiles by name, with the numbers of the refit.
    #[serde(skip)]
    pub profiles: BTreeMap<String, String>,
}

/// A number of a refit.
#[derive(Clone, Debug, Serialize)]
pub struct NumberOfRefit {
    /// Path: `flash.t_read`.
    pub path: String,
    /// Names of the profiles that contain the number.
    pub profiles: Vec<String>,
    /// Cells that determine the number.
    pub cells: Vec<String>,
    /// Value in the profiles, as they write it.
    pub before: String,
    /// Value of the refit.
    pub after: String,
}

/// A published cell of the experiment, and the errors of its simulation.
#[derive(Clone, Debug, Serialize)]
pub struct CellOfRefit {
    /// Name of the cell.
    pub name: String,
    /// True if the source of a number names the cell.
    pub is_fitted: bool,
    /// Published mean.
    pub published: f64,
    /// Deviation by which the sums divide the cell's error, in per cent: the published deviation combined with the
    /// floor.
    pub deviation_percent: f64,
    /// Error with the profiles as they are, in per cent.
    pub before_percent: f64,
    /// Error with the profiles of the refit, in per cent.
    pub after_percent: f64,
}

/// Fits the numbers of all devices of an experiment together.
///
/// A refit that `progress` stops ends with [`FittingError::Stopped`].
pub fn refit(
    experiment: &str,
    settings: &RefitSettings,
    library: &Library,
    progress: &Progress,
) -> Result<Refit, FittingError> {
    let (mut problem, held) = RefitProblem::of(experiment, settings, library, progress)?;
    let found = search::search(&mut problem)?;
    let before = problem.at(problem.before(), |_| true)?;
    let after = problem.at(found.values, |_| true)?;
    let profiles = write::profiles(&problem, &after.values, library)?;
    let sum = |point: &Point, is_fitted: bool| problem.sum(point, |cell| cell.is_fitted == is_fitted);
    let number = |k: usize| {
        let number = &problem.numbers[k];
        NumberOfRefit {
            path: number.path.to_owned(),
            profiles: number.profiles.clone(),
            cells: number.cells.iter().map(|n| problem.cells[*n].name.clone()).collect(),
            before: number.print(number.before),
            after: number.print(after.values[k]),
        }
    };
    let cell = |n: usize| {
        let cell = &problem.cells[n];
        let percent = |point: &Point| 100.0 * (problem.error(point, n).exp() - 1.0);
        CellOfRefit {
            name: cell.name.clone(),
            is_fitted: cell.is_fitted,
            published: cell.mean,
            deviation_percent: 100.0 * cell.share,
            before_percent: percent(&before),
            after_percent: percent(&after),
        }
    };
    Ok(Refit {
        experiment: experiment.to_owned(),
        numbers: (0..problem.numbers.len()).map(number).collect(),
        held,
        cells: (0..problem.cells.len()).map(cell).collect(),
        sum_before: sum(&before, true),
        sum_after: sum(&after, true),
        predicted_before: sum(&before, false),
        predicted_after: sum(&after, false),
        runs: problem.runs(),
        profiles,
    })
}
