//! The estimates of a fit, as a table and as JSON.

use crate::number;
use crate::terminal::{columns, wrapped};
use flashlab_fit::estimate::{CellEstimate, NumberEstimate, UNEXPLAINED};
use flashlab_lab::fitting::{CardFit, Difference};

/// Maximum number of further measurements that a table suggests.
const NEXT_MAX: usize = 3;

/// Returns the numbers with their intervals, the measured and simulated cells, and the conclusions.
pub fn table(fit: &CardFit, width: usize) -> String {
    let mut text = summary(fit, width);
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
    let mut text = serde_json::to_string_pretty(fit).expect("a fit has plain values");
    text.push('\n');
    text
}

/// Maximum number of cells that a row names.
const CELLS_MAX: usize = 3;

/// Share of the time from which one slow request dominates a cell.
const RARE: f64 = 0.25;

pub(crate) const NUMBER_HEAD: [&str; 5] = ["number", "estimate", "90\u{a0}% interval", "determined", "by"];
pub(crate) const CELL_HEAD: [&str; 5] = ["cell", "measured", "simulated", "error", "left out"];

/// Returns a sentence on the fit as a whole.
pub(crate) fn summary(fit: &CardFit, width: usize) -> String {
    let estimate = &fit.estimate;
    let mut hosts = fit.hosts.clone();
    hosts.dedup();
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
    let mut sentences = alternatives(fit);
    sentences.extend(estimate.contradictions.iter().cloned());
    let rare = estimate.cells.iter().filter(|cell| cell.slowest_share > RARE);
    sentences.extend(rare.map(|cell| {
        format!(
            "{}: one request took {} of the time. The cell does not show how often that happens; measure more requests.",
            cell.name,
            number::percent(100.0 * cell.slowest_share, 0)
        )
    }));
    if estimate.inflation > 1.2 {
        sentences.push(format!(
            "The model does not explain the cells within their deviations; the intervals are therefore {} times as wide.",
            number::fixed(estimate.inflation, 1)
        ));
    }
    if estimate.inflation > UNEXPLAINED {
        sentences.push(
            "No number counts as determined: the card works in a way that the model lacks, or the measurements contradict \
             each other. Use the profile only for jobs like those whose cells agree."
                .to_owned(),
        );
    }
    sentences.extend(estimate.inseparable.iter().map(|pair| pair.sentence.clone()));
    let useful = estimate.next.iter().filter(|next| next.gain > 0.2).take(NEXT_MAX);
    sentences.extend(useful.map(|next| format!("Worth measuring: {}", next.sentence)));
    let held = fit.held.iter().filter(|held| held.value != "none");
    sentences.extend(held.map(|held| format!("{} stays at {}: {}.", held.name, held.value, held.reason)));
    sentences.extend(fit.notes.iter().map(|note| format!("{note}.")));
    sentences
}

/// Returns a sentence for each typical card and each assumed number with another value that explains the cells too.
fn alternatives(fit: &CardFit) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for other in &fit.alternatives {
        let what = match &other.assumed {
            None => format!(
                "The measurements do not tell whether the card is like {} or like {}, which explains them too{}.",
                fit.base,
                other.base,
                with_other_values(&other.numbers)
            ),
            Some(assumed) if seen.contains(&assumed.number.as_str()) => continue,
            Some(assumed) => {
                seen.push(&assumed.number);
                let same = fit.alternatives.iter().filter_map(|other| {
                    other.assumed.as_ref().filter(|a| a.number == assumed.number).map(|a| (a, &other.numbers))
                });
                let (values, mut numbers): (Vec<&str>, Vec<Vec<String>>) =
                    same.map(|(assumed, numbers)| (assumed.other.as_str(), numbers.clone())).unzip();
                let mut numbers = std::mem::take(&mut numbers).concat();
                numbers.sort();
                numbers.dedup();
                format!(
                    "The measurements do not show {}. It stays at {}; {} would explain them too{}.",
                    assumed.number,
                    assumed.value,
                    values.join(" or "),
                    with_other_values(&numbers)
                )
            }
        };
        let advice = other.difference.as_ref().map_or(String::new(), advice);
        sentences.push(what + &advice);
    }
    sentences
}

/// Returns the end of a sentence on a model with other values of `numbers`.
fn with_other_values(numbers: &[String]) -> String {
    match numbers {
        [] => String::new(),
        [number] => format!(", with another {number}; the interval includes both"),
        numbers => format!(", with other values of {}; the intervals include them", numbers.join(", ")),
    }
}

/// Returns the sentence on the measurement that tells two models apart.
fn advice(difference: &Difference) -> String {
    format!(
        " The two differ most in {}, which take {} or {}: measure them.",
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
