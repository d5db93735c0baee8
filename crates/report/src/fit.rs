//! The estimates of a fit, as a table and as JSON.

use crate::number;
use crate::terminal::{columns, wrapped};
use flashlab_fit::estimate::{CellEstimate, NextMeasurement, NumberEstimate, UNEXPLAINED};
use flashlab_lab::fitting::{Alternative, CardFit, Change, Difference, Separation, Size};

/// Maximum number of further measurements that a table suggests.
const NEXT_MAX: usize = 3;

/// Returns the numbers with their intervals, the measured and simulated cells, and the conclusions.
pub fn table(fit: &CardFit, width: usize) -> String {
    let mut text = summary(fit, width);
    if let Some(verdict) = verdict(fit) {
        text += "\n";
        text += &wrapped(&verdict, width);
    }
    let mut rows = vec![NUMBER_HEAD.map(str::to_owned).to_vec()];
    rows.extend(fit.estimate.numbers.iter().map(|number| number_row(number).to_vec()));
    text += "\n";
    text += &aligned(&rows, &[false, true, true, false, false], width);
    let mut rows = vec![CELL_HEAD.map(str::to_owned).to_vec()];
    rows.extend(fit.estimate.cells.iter().map(|cell| cell_row(cell).to_vec()));
    text += "\n";
    text += &aligned(&rows, &[false, true, true, true, true], width);
    let conclusions = conclusions(fit);
    if !conclusions.is_empty() {
        text += "\n";
    }
    for sentence in conclusions {
        text += &wrapped(&sentence, width);
    }
    number::plain(&text)
}

/// Returns the complete fit as JSON.
pub fn json(fit: &CardFit) -> String {
    crate::json::document_text(serde_json::to_string_pretty(fit))
}

/// Number of cells that a row names. A row that would leave out a single cell names this cell too.
const CELLS_MAX: usize = 3;

/// Share of the time above which one slow request dominates a cell.
const RARE: f64 = 0.25;

pub(crate) const NUMBER_HEAD: [&str; 5] = ["number", "estimate", "90\u{a0}% interval", "determined", "by"];
pub(crate) const CELL_HEAD: [&str; 5] = ["cell", "measured", "simulated", "error", "left out"];

/// Returns a sentence on the fit as a whole.
pub(crate) fn summary(fit: &CardFit, width: usize) -> String {
    let estimate = &fit.estimate;
    let mut hosts: Vec<&str> = Vec::new();
    for host in &fit.hosts {
        if !hosts.contains(&host.as_str()) {
            hosts.push(host);
        }
    }
    let sentence = format!(
        "{} fitted on {} of {} on {}; all other numbers are those of {}.",
        number::plural(estimate.numbers.len(), "number"),
        number::plural(estimate.cells.len(), "cell"),
        fit.cards.join(", "),
        hosts.join(" and "),
        fit.base
    );
    wrapped(&sentence, width)
}

/// Returns the warning about a model that does not explain the cells.
pub(crate) fn verdict(fit: &CardFit) -> Option<String> {
    let inflation = fit.estimate.inflation;
    (inflation > UNEXPLAINED).then(|| {
        format!(
            "Warning: the model does not explain the cells within their deviations, and no number counts as determined: the \
             card works in a way that the model lacks, or the measurements contradict each other. The intervals are \
             therefore {} times as wide. Use the profile only for jobs like those whose cells agree.",
            number::fixed(inflation, 1)
        )
    })
}

/// Returns the texts of a number: name, estimate, interval, extent of determination, cells.
pub(crate) fn number_row(number: &NumberEstimate) -> [String; 5] {
    let value = |value| quantity(value, &number.unit);
    [
        number.name.clone(),
        value(number.value),
        format!("{} to {}", value(number.low), value(number.high)),
        number.determined.word().to_owned(),
        some_of(&number.cells),
    ]
}

/// Returns the first names of a list, and the number of the others.
fn some_of(names: &[String]) -> String {
    match names.len().saturating_sub(CELLS_MAX) {
        0 | 1 => names.join(", "),
        others => format!("{} and {others} others", names[..CELLS_MAX].join(", ")),
    }
}

/// Returns the texts of a cell: name, measured, simulated, error of the fit, error of a fit without the cell.
pub(crate) fn cell_row(cell: &CellEstimate) -> [String; 5] {
    let percent = |error: f64| number::signed_percent(error, 1);
    [
        cell.name.clone(),
        quantity(cell.measured, &cell.unit),
        quantity(cell.simulated, &cell.unit),
        percent(cell.error_percent),
        cell.left_out_error_percent.map_or(number::NONE.to_owned(), percent),
    ]
}

/// Returns the conclusions, one sentence each.
pub(crate) fn conclusions(fit: &CardFit) -> Vec<String> {
    let estimate = &fit.estimate;
    let is_explained = verdict(fit).is_none();
    // If this model does not explain the cells, other models that agree equally badly prove nothing.
    let mut sentences = if is_explained { alternatives(fit) } else { Vec::new() };
    sentences.extend(estimate.contradictions.iter().cloned());
    sentences.extend(slow_requests(fit));
    if estimate.inflation > 1.2 && is_explained {
        sentences.push(format!(
            "The model does not explain the cells within their deviations; the intervals are therefore {} times as wide.",
            number::fixed(estimate.inflation, 1)
        ));
    }
    sentences.extend(estimate.inseparable.iter().map(|pair| pair.sentence.clone()));
    if is_explained {
        sentences.extend(worth_measuring(fit));
    }
    let held = fit.held.iter().filter(|held| held.value != "none");
    sentences.extend(held.map(|held| format!("{} stays at {}: {}.", held.name, held.value, held.reason)));
    sentences.extend(fit.notes.iter().map(|note| format!("{note}.")));
    sentences
}

/// Returns the sentence on cells in which one slow request takes a large part of the time.
fn slow_requests(fit: &CardFit) -> Option<String> {
    let share = |cell: &CellEstimate| number::percent(100.0 * cell.slowest_share, 0);
    let rare: Vec<&CellEstimate> =
        fit.estimate.cells.iter().filter(|cell| cell.slowest_share > RARE).collect();
    match rare[..] {
        [] => None,
        [cell] => Some(format!(
            "{}: {} of the time is the excess of one slow request over a mean request. The cell does \
             not show how often such requests occur; measure more requests.",
            cell.name,
            share(cell)
        )),
        _ => {
            let all: Vec<String> =
                rare.iter().map(|cell| format!("{} ({})", cell.name, share(cell))).collect();
            Some(format!(
                "In {} cells, a large share of the time is the excess of one slow request over a mean \
                 request: {}. The cells do not show how often such requests occur; measure more requests.",
                rare.len(),
                all.join(", ")
            ))
        }
    }
}

/// Returns sentences on the measurements that would help most: first those that tell the fitted model from
/// other models that explain the cells, then those that narrow the intervals of the fitted model, except
/// intervals that include values of other models.
fn worth_measuring(fit: &CardFit) -> Vec<String> {
    let others = fit.alternatives.len();
    let separate = |separation: &Separation| {
        let models = match (separation.models, others) {
            (_, 1) => "the other one that explains the cells".to_owned(),
            (models, others) if models == others => format!("all {others} others that explain the cells"),
            (models, others) => format!("{models} of the {others} others that explain the cells"),
        };
        format!("Worth measuring: {} would tell this model from {models}.", separation.measurement)
    };
    let is_widened =
        |name: &str| fit.alternatives.iter().any(|other| other.numbers.iter().any(|n| n == name));
    let numbers = &fit.estimate.numbers;
    let narrow = |next: &NextMeasurement| {
        let number = numbers.iter().find(|number| number.name == next.number)?;
        let [name, _, interval, ..] = number_row(number);
        let after = number::percent(next.after_percent, 2);
        let is_named = fit.separations.iter().take(NEXT_MAX).any(|other| other.measurement == next.name);
        let is_useful = next.gain > 0.2 && !is_widened(&name) && !is_named;
        is_useful.then(|| {
            format!("Worth measuring: {} would narrow {name}, {interval}, to about ±{after}.", next.name)
        })
    };
    let narrowing = fit.estimate.next.iter().filter_map(narrow);
    fit.separations.iter().map(separate).chain(narrowing).take(NEXT_MAX).collect()
}

/// Returns a sentence for each typical card and each mechanism that also explains the cells, and for each
/// size of the base profile that the cells do not show.
fn alternatives(fit: &CardFit) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut sizes: Vec<(&str, Vec<(&Size, &Alternative)>)> = Vec::new();
    for other in &fit.alternatives {
        let values = format!("{}{}", with_other_values(&other.numbers), without(&other.unused));
        let advice = other.difference.as_ref().map_or(String::new(), advice);
        match &other.change {
            Change::Base(base) => sentences.push(format!(
                "The measurements do not tell whether the card is like {} or like {base}, which explains them too{values}.{advice}",
                fit.base
            )),
            Change::Mechanism { without, with } => {
                let place = without.map_or(String::new(), |without| format!(" in place of \"{without}\""));
                sentences.push(format!(
                    "Another mechanism, \"{with}\"{place}, would explain the measurements too{values}.{advice}"
                ));
            }
            Change::Size(size) => match sizes.iter_mut().find(|(name, _)| *name == size.number) {
                Some((_, known)) => known.push((size, other)),
                None => sizes.push((&size.number, vec![(size, other)])),
            },
        }
    }
    let has_effect = |others: &[(&Size, &Alternative)]| {
        others.iter().any(|(_, other)| !other.numbers.is_empty() || other.difference.is_some())
    };
    let (shown, hidden): (Vec<_>, Vec<_>) = sizes.iter().partition(|(_, others)| has_effect(others));
    sentences.extend(shown.into_iter().map(|(name, others)| size(name, others)));
    let hidden: Vec<&str> = hidden.into_iter().map(|(name, _)| *name).collect();
    if !hidden.is_empty() {
        sentences.push(format!("No measurement here shows {}.", hidden.join(", ")));
    }
    sentences
}

/// Returns the sentences on a size of the base profile that also explains the cells with other values.
fn size(name: &str, others: &[(&Size, &Alternative)]) -> String {
    let here = others[0].0.value;
    let values = || others.iter().map(|(size, _)| size.other).chain([here]);
    let text = |bytes: f64| number::bytes(bytes.round() as u64);
    let names = |of: fn(&Alternative) -> &Vec<String>| {
        let mut names: Vec<String> = others.iter().flat_map(|(_, other)| of(other).iter().cloned()).collect();
        names.sort();
        names.dedup();
        names
    };
    let (numbers, unused) = (names(|other| &other.numbers), names(|other| &other.unused));
    let ratio =
        |difference: &&Difference| (difference.alternative_latency_ns / difference.latency_ns).ln().abs();
    let differences = others.iter().filter_map(|(_, other)| other.difference.as_ref());
    let most = differences.max_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    format!(
        "The measurements do not show {name}: it stays at {}, and {} to {} would explain them{}{}.{}",
        text(here),
        text(values().fold(f64::INFINITY, f64::min)),
        text(values().fold(0.0, f64::max)),
        with_other_values(&numbers),
        without(&unused),
        most.map_or(String::new(), advice)
    )
}

/// Returns the end of a sentence on a model with other values of `numbers`.
fn with_other_values(numbers: &[String]) -> String {
    match numbers {
        [] => String::new(),
        [number] => format!(", with another {number}, which its interval includes"),
        numbers => format!(", with other values of {}, which the intervals include", numbers.join(", ")),
    }
}

/// Returns the end of a sentence on a model in which the numbers `unused` have no effect.
fn without(unused: &[String]) -> String {
    match unused {
        [] => String::new(),
        names => format!("; {} is not used by that model", names.join(" or ")),
    }
}

/// Returns the sentence on the measurement that tells two models apart.
fn advice(difference: &Difference) -> String {
    format!(
        " The models differ most in {}, which take {} or {}: measure them.",
        difference.measurement,
        number::duration_ns(difference.latency_ns),
        number::duration_ns(difference.alternative_latency_ns)
    )
}

/// Formats a quantity in a readable unit.
fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "ns" | "latency_ns_mean" => number::duration_ns(value),
        "B" => number::bytes(value.round() as u64),
        "B/s" | "bytes_per_second" => number::rate(value, 3),
        "iops" => number::with_unit(number::significant(value, 4), "IOPS"),
        "" => number::fixed(value, 0),
        unit => number::with_unit(number::significant(value, 4), unit),
    }
}

pub(crate) fn aligned(rows: &[Vec<String>], right: &[bool], width: usize) -> String {
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    columns(&rows, right, width)
}
