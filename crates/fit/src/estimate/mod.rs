//! Estimates of numbers from observations: values, intervals, and the numbers that the data do not determine.
//!
//! A [`Problem`] has numbers with bounds, measured cells with standard deviations, and a forward model: a closure that
//! predicts the cells for a batch of points. [`estimate`] minimises the sum of the squared residuals with the
//! Levenberg-Marquardt method (Nocedal and Wright, "Numerical Optimization", chapter 10) from several starts. A
//! residual is the logarithm of the ratio of predicted to measured, divided by the relative standard deviation, so that
//! a rate and its reciprocal time count alike. A floor of the deviation covers effects that the model leaves out. The
//! deviation also includes the effect of one slow request: if few requests of a cell copy a large unit, chance decides
//! their number, and one more or one fewer changes the mean of the cell.
//!
//! The module guarantees:
//! - The same problem gives the same estimate. The seed only draws the additional starts.
//! - The module starts no thread. The closure receives whole batches and may compute their points in parallel.
//! - A problem with more numbers than cells is refused.
//!
//! Unless [`Settings::profile_likelihood`] is off, intervals come from the profile likelihood: the range of a
//! number in which the other numbers can still explain the cells. The module models neither priors nor
//! correlations between the errors of cells.

mod advice;
mod descent;
mod interval;
mod leave_one_out;
mod matrix;
mod problem;
mod ranges;
mod screening;
mod selection;

pub use problem::{Candidate, Cell, FitError, Forward, Number, Predictions, Problem, Scale, Settings};
pub use screening::{Slopes, screen, slopes};
pub use selection::{Selection, select};

use advice::{contradictions, next_measurements, pairs};
use descent::{Descent, NEIGHBOUR_ROUNDS};
use serde::Serialize;

/// Half-width of a 90 % interval, as a share of the estimate, up to which a number counts as determined.
pub const DETERMINED_SHARE: f64 = 0.05;

/// Inflation above which a model does not explain the cells. None of its numbers then counts as determined,
/// since a mechanism that the model lacks may have moved any of them.
pub const UNEXPLAINED: f64 = 3.0;

/// Square of the 95th percentile of the normal distribution: the rise of chi-squared at the ends of a 90 % interval.
pub(crate) const CHI2_RISE: f64 = 2.705_543;

/// The estimate of all numbers of a problem.
#[derive(Clone, Debug, Serialize)]
pub struct Estimate {
    /// The numbers, in the order of the problem.
    pub numbers: Vec<NumberEstimate>,
    /// The cells, in the order of the problem.
    pub cells: Vec<CellEstimate>,
    /// Sum of the squared residuals, each in units of its standard deviation.
    pub chi2: f64,
    /// Number of cells minus number of numbers.
    pub degrees_of_freedom: usize,
    /// Factor by which the intervals are widened because the model does not explain the cells within their deviations;
    /// 1 if it does.
    pub inflation: f64,
    /// Pairs of numbers that the cells cannot separate.
    pub inseparable: Vec<Pair>,
    /// The candidate measurements in descending order of gain, without those that would leave every number
    /// unknown.
    pub next: Vec<NextMeasurement>,
    /// Sentences about cells that contradict other cells, and about cells that differ from the model although
    /// no number affects them.
    pub contradictions: Vec<String>,
    /// Number of points at which the forward model was evaluated.
    pub evaluations: usize,
}

/// The estimate of one number.
#[derive(Clone, Debug, Serialize)]
pub struct NumberEstimate {
    /// Name of the number, such as `flash.t_read`.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Value that the search began with.
    pub start: f64,
    /// Best estimate.
    pub value: f64,
    /// Lower end of the 90 % interval.
    pub low: f64,
    /// Upper end of the 90 % interval.
    pub high: f64,
    /// Extent to which the cells determine the number.
    pub determined: Determined,
    /// Names of the cells that determine the number, the most informative one first.
    pub cells: Vec<String>,
}

/// The extent to which the cells determine a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Determined {
    /// Half the width of the interval is at most [`DETERMINED_SHARE`] of the estimate, and the model explains
    /// the cells.
    Yes,
    /// The interval is wider, or the model does not explain the cells.
    Loosely,
    /// The cells limit the number from above only.
    AtMost,
    /// The cells limit the number from below only.
    AtLeast,
    /// The cells do not limit the number within its bounds.
    No,
}

impl Estimate {
    /// Returns true if another model, whose chi-squared is `chi2`, explains the cells as well: within the rise that limits
    /// the intervals.
    pub fn permits(&self, chi2: f64) -> bool {
        chi2 - self.chi2 < CHI2_RISE * self.inflation * self.inflation
    }
}

impl NumberEstimate {
    /// Widens the interval to include `value`.
    pub fn include(&mut self, value: f64) {
        (self.low, self.high) = (self.low.min(value), self.high.max(value));
        let half = 0.5 * (self.high - self.low) / self.value.abs();
        if self.determined == Determined::Yes && half > DETERMINED_SHARE {
            self.determined = Determined::Loosely;
        }
    }
}

impl Determined {
    /// Returns the word for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Determined::Yes => "yes",
            Determined::Loosely => "loosely",
            Determined::AtMost => "at most",
            Determined::AtLeast => "at least",
            Determined::No => "no",
        }
    }
}

/// One cell, measured and simulated.
#[derive(Clone, Debug, Serialize)]
pub struct CellEstimate {
    /// Name of the cell.
    pub name: String,
    /// Unit of the values.
    pub unit: String,
    /// Measured value.
    pub measured: f64,
    /// Standard deviation of the measurement; `None` if the measurement states none.
    pub sd: Option<f64>,
    /// Standard deviation that weights the cell, as a share of its value, including the floor and one slow request.
    pub sd_share: f64,
    /// Excess of the slowest measured request over the mean request, as a share of the time of all requests;
    /// 0 if unknown.
    pub slowest_share: f64,
    /// Value that the fitted model gives.
    pub simulated: f64,
    /// Difference of the model from the measurement in per cent.
    pub error_percent: f64,
    /// Prediction of a model that was fitted without this cell; `None` if the other cells do not determine it, or if
    /// [`Settings::leave_one_out`] is off.
    pub left_out: Option<f64>,
    /// Difference of `left_out` from the measurement in per cent.
    pub left_out_error_percent: Option<f64>,
}

/// Two numbers that the cells cannot separate.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// Name of the first number.
    pub first: String,
    /// Name of the second number.
    pub second: String,
    /// Correlation of their estimates.
    pub correlation: f64,
    /// Name of the candidate that separates them best; `None` if none does.
    pub separated_by: Option<String>,
    /// The finding in one sentence.
    pub sentence: String,
}

/// A measurement that is worth making.
#[derive(Clone, Debug, Serialize)]
pub struct NextMeasurement {
    /// Name of the candidate.
    pub name: String,
    /// Logarithm of the factor by which the volume of the numbers' joint interval shrinks.
    pub gain: f64,
    /// Name of the number whose interval shrinks most.
    pub number: String,
    /// Half-width of this number's interval before the measurement, in per cent of the estimate.
    pub before_percent: f64,
    /// Half-width after the measurement, in per cent of the estimate.
    pub after_percent: f64,
    /// The finding in one sentence.
    pub sentence: String,
}

/// The best point of a search, without intervals.
#[derive(Clone, PartialEq, Debug)]
pub struct Minimum {
    /// Values of the numbers, in the order of the problem.
    pub values: Vec<f64>,
    /// Sum of the squared residuals.
    pub chi2: f64,
    /// Number of points at which the forward model was evaluated.
    pub evaluations: usize,
}

/// Searches for the minimum of chi-squared alone, to compare models. The search takes a fraction of the
/// evaluations of [`estimate`]. `neighbour_rounds` is the number of rounds over the neighbours of stepped
/// numbers, at most 4. With four rounds, the search also covers whole ranges of numbers, and compares the
/// minima at rival values of coarse numbers.
pub fn minimum(problem: &Problem<'_>, neighbour_rounds: usize) -> Result<Minimum, FitError> {
    problem.check()?;
    let mut descent = Descent::new(problem);
    let best = descent.minimum(neighbour_rounds)?;
    Ok(Minimum::at(problem, &best, descent.evaluations))
}

/// The best point of a search, and the agreement of the cells that the numbers affect. The residual of a cell that no
/// number affects is a fact about the host, not about the model.
#[derive(Clone, PartialEq, Debug)]
pub struct AffectedMinimum {
    /// Values of the numbers, in the order of the problem.
    pub values: Vec<f64>,
    /// Sum of the squared residuals of the affected cells.
    pub chi2: f64,
    /// Count of the affected cells.
    pub cells: usize,
}

/// Searches for the minimum of chi-squared alone, and judges the model by the cells that its numbers affect.
pub fn minimum_of_affected(
    problem: &Problem<'_>,
    neighbour_rounds: usize,
) -> Result<AffectedMinimum, FitError> {
    problem.check()?;
    let mut descent = Descent::new(problem);
    let best = descent.minimum(neighbour_rounds)?;
    let rows = descent.jacobian(&best);
    let affected =
        best.residuals.iter().zip(&rows).filter(|(_, row)| matrix::dot(row, row) >= advice::WITHOUT_EFFECT);
    let (chi2, cells) =
        affected.fold((0.0, 0), |(chi2, cells), (residual, _)| (chi2 + residual * residual, cells + 1));
    Ok(AffectedMinimum { values: Minimum::at(problem, &best, descent.evaluations).values, chi2, cells })
}

impl Minimum {
    fn at(problem: &Problem<'_>, point: &descent::Point, evaluations: usize) -> Minimum {
        let values = problem.numbers.iter().zip(&point.at).map(|(number, at)| number.rounded(*at)).collect();
        Minimum { values, chi2: point.chi2, evaluations }
    }
}

/// Estimates the numbers of `problem`.
pub fn estimate(problem: &Problem<'_>) -> Result<Estimate, FitError> {
    problem.check()?;
    let mut descent = Descent::new(problem);
    let best = descent.minimum(NEIGHBOUR_ROUNDS)?;
    let local = descent.local(&best)?;
    let free = problem.cells.len().saturating_sub(problem.numbers.len());
    // With as many numbers as cells, the fit is exact unless the model cannot produce these values.
    let inflation = (best.chi2 / free.max(1) as f64).max(1.0).sqrt();
    let intervals = interval::intervals(&mut descent, &best, &local, inflation);
    let left_out = match problem.settings.leave_one_out {
        true => leave_one_out::predictions(&mut descent, &best, &local),
        false => vec![None; problem.cells.len()],
    };
    let numbers: Vec<NumberEstimate> = problem
        .numbers
        .iter()
        .zip(&intervals)
        .enumerate()
        .map(|(k, (number, interval))| {
            let value = number.rounded(best.at[k]);
            // All values that round to the same number give the same model.
            let low = number.rounded(interval.low).min(value);
            let high = number.rounded(interval.high).max(value);
            let determined = match interval.determined(value, low, high) {
                Determined::Yes if inflation > UNEXPLAINED => Determined::Loosely,
                determined => determined,
            };
            NumberEstimate {
                name: number.name.clone(),
                unit: number.unit.clone(),
                start: number.start,
                value,
                low,
                high,
                determined,
                cells: local.informative_cells(problem, k),
            }
        })
        .collect();
    let percent = |value: f64, of: f64| 100.0 * (value / of - 1.0);
    let cells = problem.cells.iter().zip(&best.predicted).zip(left_out).map(|((cell, simulated), left)| {
        CellEstimate {
            name: cell.name.clone(),
            unit: cell.unit.clone(),
            measured: cell.value,
            sd: (cell.sd > 0.0).then_some(cell.sd),
            sd_share: cell.share(&problem.settings),
            slowest_share: cell.slowest_share,
            simulated: *simulated,
            error_percent: percent(*simulated, cell.value),
            left_out: left,
            left_out_error_percent: left.map(|left| percent(left, cell.value)),
        }
    });
    let cells = cells.collect();
    let candidates = descent.candidates(&best);
    Ok(Estimate {
        inseparable: pairs(problem, &local, &intervals, &candidates),
        next: next_measurements(problem, &local, &candidates, &numbers, inflation),
        contradictions: contradictions(problem, &best, &local),
        numbers,
        cells,
        chi2: best.chi2,
        degrees_of_freedom: free,
        inflation,
        evaluations: descent.evaluations,
    })
}

#[cfg(test)]
mod tests;
