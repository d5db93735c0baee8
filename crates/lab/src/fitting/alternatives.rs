//! Other models that explain the measurements of a fit too: another typical card, another mechanism in place of one that
//! the fit took up, or another value of a size of the base profile. The intervals of a fit include their values.

use super::session::{Free, Model, Session};
use super::table::{Grid, Row, TABLE};
use super::{FittingError, Input};
use flashlab_fit::estimate::Estimate;
use serde::Serialize;

/// A model that explains the cells as the fitted one does, and the measurement that would tell them apart.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Alternative {
    /// Difference from the fitted model.
    pub change: Change,
    /// Fitted numbers whose value in this model lies outside the interval that the cells give with the base profile.
    pub numbers: Vec<String>,
    /// The measurement in which the two models differ most; `None` if no measurement tells them apart.
    pub difference: Option<Difference>,
}

/// The difference of a model from the fitted one.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Another base profile, with its name.
    Base(String),
    /// A further mechanism, possibly in place of another one.
    Mechanism {
        /// Name of the mechanism that the fit took up, and that this model lacks.
        without: Option<&'static str>,
        /// Name of the further one.
        with: &'static str,
    },
    /// A size of the base profile has another value.
    Size(Size),
}

/// A size of the base profile that is not fitted, with another value that explains the cells too.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Size {
    /// Name of the number, such as `flash.page`.
    pub number: String,
    /// Value in the base profile in bytes.
    pub value: f64,
    /// The other value.
    pub other: f64,
}

/// A measurement in which two models differ.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Difference {
    /// Name of the measurement.
    pub measurement: String,
    /// Mean latency with the fitted model, in nanoseconds.
    pub latency_ns: f64,
    /// Mean latency with the other model.
    pub alternative_latency_ns: f64,
}

/// Another model that explains the cells, with its best values as the starts.
pub(super) struct Other<'a> {
    pub(super) change: Change,
    /// Session of another base profile; `None` for that of the fit.
    pub(super) session: Option<Session<'a>>,
    pub(super) model: Model,
}

/// Ratio of the latencies of two cards from which a measurement tells them apart, three of its deviations.
const TOLD_APART: f64 = 1.06;

/// Compares the fitted `model` of `session` with other models, and widens the intervals of `estimate` so that they include
/// the values of the others. Another typical card that predicts the same is no alternative, and neither is a model that cannot
/// run the measurements.
pub(super) fn alternatives(
    session: &Session<'_>,
    model: &Model,
    others: &[Other<'_>],
    estimate: &mut Estimate,
) -> Result<Vec<Alternative>, FittingError> {
    // The intervals that the cells give with the base profile. The alternatives widen those of `estimate`.
    let given = estimate.numbers.clone();
    let mut alternatives: Vec<Alternative> = Vec::new();
    for other in others {
        let theirs = other.session.as_ref().unwrap_or(session);
        let predicted = session
            .predict_candidates(model)
            .and_then(|ours| Ok((ours, theirs.predict_candidates(&other.model)?)));
        let difference = match predicted {
            Err(FittingError::Stopped) => return Err(FittingError::Stopped),
            Err(_) => continue,
            Ok((ours, theirs)) => largest_difference(ours, theirs),
        };
        if difference.is_none() && matches!(other.change, Change::Base(_)) {
            continue;
        }
        let is_mechanism = matches!(other.change, Change::Mechanism { .. });
        let values = other.model.numbers.iter().zip(&other.model.starts);
        let mut numbers = Vec::new();
        for (number, value) in values {
            let name = theirs.name(number);
            for (estimate, given) in estimate.numbers.iter_mut().zip(&given).filter(|(_, n)| n.name == name) {
                estimate.include(*value);
                if !(given.low..=given.high).contains(value) {
                    numbers.push(name.clone());
                }
            }
        }
        // A card may have further mechanisms that change no number.
        if is_mechanism && numbers.is_empty() {
            continue;
        }
        let alternative = Alternative { change: other.change.clone(), numbers, difference };
        // Several values of one mechanism are one alternative: the one that differs most.
        match alternatives.iter_mut().find(|found| is_mechanism && found.change == alternative.change) {
            Some(found) if found.log_ratio() < alternative.log_ratio() => *found = alternative,
            Some(_) => {}
            None => alternatives.push(alternative),
        }
    }
    Ok(alternatives)
}

impl Alternative {
    /// Returns that of the difference; zero if no measurement tells the models apart.
    fn log_ratio(&self) -> f64 {
        self.difference.as_ref().map_or(0.0, Difference::log_ratio)
    }
}

impl Difference {
    /// Returns the size of the logarithm of the ratio of the two latencies.
    fn log_ratio(&self) -> f64 {
        (self.alternative_latency_ns / self.latency_ns).ln().abs()
    }
}

/// Returns the measurement in which two lists of names and latencies differ most.
fn largest_difference(ours: Vec<(String, f64)>, theirs: Vec<(String, f64)>) -> Option<Difference> {
    let differences = ours.into_iter().zip(theirs).map(|((measurement, latency_ns), (_, theirs))| {
        Difference { measurement, latency_ns, alternative_latency_ns: theirs }
    });
    let most = differences.max_by(|a, b| a.log_ratio().total_cmp(&b.log_ratio()));
    most.filter(|difference| difference.log_ratio() > TOLD_APART.ln())
}

/// Returns the models with the smallest and the largest value of each size that the fit takes from the base profile, as far
/// as all values up to them explain the cells as well as `model`, whose estimate is `estimate`. A profile that is
/// fitted again keeps its sizes, and so does a fit of chosen numbers.
pub(super) fn other_sizes<'a>(
    session: &Session<'a>,
    base: &str,
    model: &Model,
    estimate: &Estimate,
    inputs: &[Input],
) -> Vec<Other<'a>> {
    let mut others = Vec::new();
    if !session.settings.numbers.is_empty() || inputs.iter().any(|input| input.is_refit(base)) {
        return others;
    }
    for card in 0..session.labels.len() {
        for row in TABLE.iter().filter(|row| row.grid == Grid::PowersOfTwo && !model.has(card, row.path)) {
            let is_fixed = model.fixed.iter().any(|(of, (path, _))| *of == card && *path == row.path);
            let Some(value) = session.value_in(model, card, row.path).filter(|_| !is_fixed) else { continue };
            for step in [0.5, 2.0] {
                let mut last = None;
                let mut other = step * value;
                while (row.bounds.0..=row.bounds.1).contains(&other)
                    && let Some(model) = with_size(session, model, card, row, other, estimate)
                {
                    let number = session.name(&Free { card: Some(card), row });
                    let change = Change::Size(Size { number, value, other });
                    last = Some(Other { change, session: None, model });
                    other *= step;
                }
                others.extend(last);
            }
        }
    }
    others
}

/// Returns `model` with the size at `row` fixed at `size`, and with starts that explain the cells as well; `None` if
/// there are none, or if no device can have this size.
fn with_size(
    session: &Session<'_>,
    model: &Model,
    card: usize,
    row: &Row,
    size: f64,
    estimate: &Estimate,
) -> Option<Model> {
    let mut changed = session.with_fixed(model, card, row, size);
    session.keep_rate(&mut changed, card, session.program(model, card));
    let (start, _) = session.minimum(&changed, &session.search(0), 0).ok()?;
    if estimate.permits(start) {
        return Some(changed);
    }
    let (chi2, values) = session.minimum(&changed, &session.search(20), 1).ok()?;
    changed.starts = values;
    estimate.permits(chi2).then_some(changed)
}
