//! Other models that explain the measurements of a fit too: another base profile, a further mechanism,
//! possibly in place of a mechanism of the fit, or another value of a size of the base profile. The intervals
//! of a fit include the values of the numbers in these models.

use super::session::{Free, Model, Session};
use super::table::{Grid, Row, TABLE};
use super::{FittingError, Input};
use flashlab_fit::estimate::Estimate;
use serde::Serialize;

/// A model that explains the cells as well as the fitted model, and the measurement that would distinguish
/// the two.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Alternative {
    /// Difference from the fitted model.
    pub change: Change,
    /// Fitted numbers whose value in this model lies outside the interval that the cells give with the base profile.
    pub numbers: Vec<String>,
    /// Fitted numbers whose value in this model lies outside that interval but changes no cell, so that the
    /// interval does not include the value.
    pub unused: Vec<String>,
    /// The measurement in which the two models differ most; `None` if no measurement distinguishes them.
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
        /// Name of the mechanism that the fitted model has and this model lacks.
        without: Option<&'static str>,
        /// Name of the further mechanism.
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

/// A measurement that distinguishes the fitted model from other models that explain the cells.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Separation {
    /// Name of the measurement.
    pub measurement: String,
    /// Number of the other models that predict another result, without those that an earlier separation excludes.
    pub models: usize,
}

/// Another model that explains the cells, with its best values as the starts.
pub(super) struct Other<'a> {
    pub(super) change: Change,
    /// Session of another base profile; `None` for the session of the fit.
    pub(super) session: Option<Session<'a>>,
    pub(super) model: Model,
}

/// Least ratio of the latencies of two cards at which a measurement distinguishes the cards. The difference
/// is three standard deviations of a measurement.
const TOLD_APART: f64 = 1.06;

/// Other models, and the measurements that distinguish the fitted model from them, the most useful
/// measurement first.
type Compared = (Vec<Alternative>, Vec<Separation>);

/// Compares the fitted `model` of `session` with other models, and widens the intervals of `estimate` so that
/// they include the values of the other models. Another base profile that gives the same predictions is not
/// an alternative. Neither is a model that cannot run the measurements.
pub(super) fn alternatives(
    session: &Session<'_>,
    model: &Model,
    others: &[Other<'_>],
    estimate: &mut Estimate,
) -> Result<Compared, FittingError> {
    // The intervals that the cells give with the base profile, before alternatives widen the intervals of
    // `estimate`.
    let given = estimate.numbers.clone();
    let mut alternatives: Vec<Alternative> = Vec::new();
    // For each alternative, the measurements that distinguish it from the fitted model.
    let mut told_apart: Vec<Vec<String>> = Vec::new();
    for other in others {
        let theirs = other.session.as_ref().unwrap_or(session);
        let predicted = session
            .predict_candidates(model)
            .and_then(|ours| Ok((ours, theirs.predict_candidates(&other.model)?)));
        let differences = match predicted {
            Err(FittingError::Stopped) => return Err(FittingError::Stopped),
            Err(_) => continue,
            Ok((ours, theirs)) => differences(ours, theirs),
        };
        let difference = differences.first().cloned();
        if difference.is_none() && matches!(other.change, Change::Base(_)) {
            continue;
        }
        let is_mechanism = matches!(other.change, Change::Mechanism { .. });
        let values = other.model.numbers.iter().zip(&other.model.starts);
        let mut outside = Vec::new();
        for (number, value) in values {
            let name = theirs.name(number);
            if given.iter().any(|n| n.name == name && !(n.low..=n.high).contains(value)) {
                outside.push((name, *value));
            }
        }
        // The value of a number without effect shows nothing about the card.
        let slopes = if outside.is_empty() { None } else { Some(theirs.slopes(&other.model)?) };
        let is_unused = |name: &str| slopes.as_ref().is_some_and(|slopes| slopes.is_without_effect(name));
        let (mut numbers, mut unused) = (Vec::new(), Vec::new());
        for (name, value) in outside {
            if is_unused(&name) {
                unused.push(name);
                continue;
            }
            estimate.numbers.iter_mut().filter(|n| n.name == name).for_each(|n| n.include(value));
            numbers.push(name);
        }
        // A further mechanism that changes no number is not worth a mention: any card may have one.
        if is_mechanism && numbers.is_empty() {
            continue;
        }
        let alternative = Alternative { change: other.change.clone(), numbers, unused, difference };
        let apart = differences.into_iter().map(|difference| difference.measurement).collect();
        // Several values of one mechanism count as one alternative: the value that differs most.
        match alternatives.iter().position(|found| is_mechanism && found.change == alternative.change) {
            Some(found) if alternatives[found].log_ratio() < alternative.log_ratio() => {
                (alternatives[found], told_apart[found]) = (alternative, apart);
            }
            Some(_) => {}
            None => {
                alternatives.push(alternative);
                told_apart.push(apart);
            }
        }
    }
    Ok((alternatives, separations(told_apart)))
}

/// Returns measurements that together distinguish the fitted model from all other models. The first
/// measurement excludes the most models, and each further measurement excludes the most of the remaining
/// models. A separation states the number of models that its measurement excludes. `told_apart` lists, for
/// each model, the measurements that distinguish it from the fitted model, the best one first.
fn separations(mut told_apart: Vec<Vec<String>>) -> Vec<Separation> {
    let mut found = Vec::new();
    loop {
        let mut best: Option<Separation> = None;
        for measurement in told_apart.iter().flatten() {
            let models = told_apart.iter().filter(|apart| apart.contains(measurement)).count();
            if best.as_ref().is_none_or(|best| models > best.models) {
                best = Some(Separation { measurement: measurement.clone(), models });
            }
        }
        let Some(best) = best else { return found };
        told_apart.retain(|apart| !apart.contains(&best.measurement));
        found.push(best);
    }
}

impl Alternative {
    /// Returns the logarithmic ratio of the difference; zero if no measurement distinguishes the models.
    fn log_ratio(&self) -> f64 {
        self.difference.as_ref().map_or(0.0, Difference::log_ratio)
    }
}

impl Difference {
    /// Returns the absolute value of the logarithm of the ratio of the two latencies.
    fn log_ratio(&self) -> f64 {
        (self.alternative_latency_ns / self.latency_ns).ln().abs()
    }
}

/// Returns the measurements whose latencies differ between two lists, the largest difference first.
fn differences(ours: Vec<(String, f64)>, theirs: Vec<(String, f64)>) -> Vec<Difference> {
    let difference = |((measurement, latency_ns), (_, theirs)): ((String, f64), (String, f64))| Difference {
        measurement,
        latency_ns,
        alternative_latency_ns: theirs,
    };
    let mut all: Vec<Difference> = ours.into_iter().zip(theirs).map(difference).collect();
    all.retain(|difference| difference.log_ratio() > TOLD_APART.ln());
    all.sort_by(|a, b| b.log_ratio().total_cmp(&a.log_ratio()));
    all
}

/// Returns models with other values of the sizes that the fit takes from the base profile. Each size is
/// halved repeatedly, and doubled repeatedly, while the cells are explained as well as by `model`. The last
/// value of each series counts. `estimate` is the estimate of `model`. A profile that is fitted again keeps
/// its sizes, and so does a fit of chosen numbers.
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

/// Returns `model` with the size at `row` fixed at `size`, and with starts that explain the cells as well.
/// Returns `None` if there are no such starts, or if no device can have this size.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_measurement_that_separates_most_models_comes_first() {
        let apart = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let told_apart = vec![
            apart(&["large", "small"]),
            apart(&["small"]),
            apart(&["fsync"]),
            apart(&[]),
            apart(&["small"]),
        ];
        let separation = |name: &str, models| Separation { measurement: name.to_owned(), models };
        assert_eq!(separations(told_apart), [separation("small", 3), separation("fsync", 1)]);
    }
}
