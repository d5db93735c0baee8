//! Other models that explain the measurements of a fit too: another typical card, or another value of a number that the
//! fit takes from the base profile. The intervals of a fit include their values.

use super::session::{Free, Model, Session};
use super::table::{Grid, Row, TABLE};
use super::{FitSettings, FittingError, Input};
use flashlab_fit::estimate::{Estimate, NumberEstimate, Settings, UNEXPLAINED};
use serde::Serialize;

/// A model that explains the cells as the fitted one does, and the measurement that would tell them apart.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Alternative {
    /// Name of its base profile.
    pub base: String,
    /// The number in which its base profile differs; `None` for another base profile.
    pub assumed: Option<Assumed>,
    /// Fitted numbers whose value in this model lies outside the interval that the cells give with the base profile.
    pub numbers: Vec<String>,
    /// The measurement in which the two models differ most; `None` if no measurement tells them apart.
    pub difference: Option<Difference>,
}

/// A number of the base profile that is not fitted, with another value that explains the cells too.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Assumed {
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
    pub(super) base: &'a str,
    pub(super) assumed: Option<Assumed>,
    /// Session of another base profile; `None` for that of the fit.
    pub(super) session: Option<Session<'a>>,
    pub(super) model: Model,
}

/// Ratio of the latencies of two cards from which a measurement tells them apart, three of its deviations.
const TOLD_APART: f64 = 1.06;

/// Compares the fitted `model` of `session` with other models, and widens the intervals of `estimate` so that they include
/// the values of the others. A model of another typical card that predicts the same is no alternative, and neither is one
/// that cannot run the measurements.
pub(super) fn alternatives(
    session: &Session<'_>,
    model: &Model,
    others: &[Other<'_>],
    estimate: &mut Estimate,
) -> Result<Vec<Alternative>, FittingError> {
    let mut alternatives = Vec::new();
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
        if difference.is_none() && other.assumed.is_none() {
            continue;
        }
        let values = other.model.numbers.iter().zip(&other.model.starts);
        let mut numbers = Vec::new();
        for (number, value) in values {
            let name = theirs.name(number);
            let estimates = estimate.numbers.iter_mut();
            numbers.extend(estimates.filter(|number| number.name == name).filter_map(|n| include(n, *value)));
        }
        let (base, assumed) = (other.base.to_owned(), other.assumed.clone());
        alternatives.push(Alternative { base, assumed, numbers, difference });
    }
    Ok(alternatives)
}

/// Widens the interval of a number to include `value`. Returns the name of the number if it did not include it.
fn include(number: &mut NumberEstimate, value: f64) -> Option<String> {
    let is_outside = !(number.low..=number.high).contains(&value);
    number.include(value);
    is_outside.then(|| number.name.clone())
}

/// Returns the measurement in which two lists of names and latencies differ most.
fn largest_difference(ours: Vec<(String, f64)>, theirs: Vec<(String, f64)>) -> Option<Difference> {
    let differences = ours.into_iter().zip(theirs).map(|((measurement, latency_ns), (_, theirs))| {
        (
            (theirs / latency_ns).ln().abs(),
            Difference { measurement, latency_ns, alternative_latency_ns: theirs },
        )
    });
    let most = differences.max_by(|(a, _), (b, _)| a.total_cmp(b));
    most.filter(|(ratio, _)| *ratio > TOLD_APART.ln()).map(|(_, difference)| difference)
}

/// Returns models with smaller and larger values of a size that the fit takes from the base profile, as far as they explain
/// the cells as well as `model`, whose estimate is `estimate`. A profile that is fitted again keeps its sizes, and so does a
/// fit of chosen numbers. If `model` does not explain the cells, there is nothing to compare.
pub(super) fn other_sizes<'a>(
    session: &Session<'a>,
    base: &'a str,
    model: &Model,
    estimate: &Estimate,
    inputs: &[Input],
    settings: &FitSettings,
) -> Result<Vec<Other<'a>>, FittingError> {
    let mut others = Vec::new();
    let is_explained = estimate.inflation < UNEXPLAINED;
    if !is_explained || !settings.numbers.is_empty() || inputs.iter().any(|input| input.is_refit(base)) {
        return Ok(others);
    }
    let search = Settings { starts: 1, followed: 1, iterations_max: 20, ..settings.search.clone() };
    for card in 0..session.labels.len() {
        for row in TABLE.iter().filter(|row| row.grid == Grid::PowersOfTwo && !model.has(card, row.path)) {
            let is_fixed = model.fixed.iter().any(|(of, (path, _))| *of == card && *path == row.path);
            let Some(value) = session.value_in(model, card, row.path).filter(|_| !is_fixed) else { continue };
            for step in [0.5, 2.0] {
                let mut other = step * value;
                while (row.bounds.0..=row.bounds.1).contains(&other) {
                    let Some(model) = with_size(session, model, card, row, other, estimate, &search) else {
                        break;
                    };
                    let number = session.name(&Free { card: Some(card), row });
                    let assumed = Assumed { number, value, other };
                    others.push(Other { base, assumed: Some(assumed), session: None, model });
                    other *= step;
                }
            }
        }
    }
    Ok(others)
}

/// Returns `model` with the size at `row` fixed at `size` and with its best values as the starts; `None` if it does not
/// explain the cells as well, or if no device can have this size.
fn with_size(
    session: &Session<'_>,
    model: &Model,
    card: usize,
    row: &Row,
    size: f64,
    estimate: &Estimate,
    search: &Settings,
) -> Option<Model> {
    let ratio = size / session.value_in(model, card, row.path)?;
    let mut changed = session.with_fixed(model, card, row, size);
    if is_program(session, model, card, row) {
        let is_it =
            |number: &Free| number.row.path == "flash.t_prog" && number.card.is_none_or(|of| of == card);
        // The rate of long writes stays the same.
        let t_prog = changed.numbers.iter().zip(&mut changed.starts).find(|(number, _)| is_it(number));
        t_prog.into_iter().for_each(|(_, start)| *start *= ratio);
    }
    let (chi2, values) = session.minimum(&changed, search, 1).ok()?;
    changed.starts = values;
    estimate.permits(chi2).then_some(changed)
}

/// Returns true if `flash.t_prog` programs as many bytes as the number at `row` states.
fn is_program(session: &Session<'_>, model: &Model, card: usize, row: &Row) -> bool {
    match session.value_in(model, card, "flash.stripe") {
        Some(_) => row.path == "flash.stripe",
        None => row.path == "flash.page",
    }
}
