//! The differences between two results, as a table and as JSON.

use crate::number;
use crate::number::plural;
use crate::terminal::{columns, wrapped};
use flashlab_lab::difference::{Changed, Difference, FigureDifference, LineDifference, MechanismDifference};
use std::fmt::Display;

/// Percentiles that tables show. JSON contains all of them.
const SHOWN_PERCENTILES: [&str; 3] = ["p50", "p99", "p99.9"];

/// Returns the changed figures, the changed inputs and the lines that one file lacks, in lines of at most `width`
/// characters. Figures that differ by at most `tolerance` percent count as equal. `a` and `b` are the names of the
/// files.
pub fn table(difference: &Difference, a: &str, b: &str, tolerance: f64, width: usize) -> String {
    let mut text = wrapped(&format!("A is {a}, B is {b}."), width);
    for (title, changed) in [("run", &difference.facts), ("input", &difference.inputs)] {
        if !changed.is_empty() {
            text.push('\n');
            text += &changed_values(title, changed, width);
        }
    }
    let changed = changed_lines(difference, tolerance);
    if !changed.is_empty() {
        text.push('\n');
        text += &figures(&changed, tolerance, width);
    }
    text.push('\n');
    for sentence in summary(difference, tolerance) {
        text += &wrapped(&sentence, width);
    }
    number::plain(&text)
}

/// Returns all differences as JSON, ending in a line feed.
pub fn json(difference: &Difference) -> String {
    crate::json::document_text(serde_json::to_string_pretty(difference))
}

/// Returns the lines with a figure that differs by more than `tolerance` percent.
pub(crate) fn changed_lines(difference: &Difference, tolerance: f64) -> Vec<&LineDifference> {
    difference.lines.iter().filter(|line| line.is_changed(tolerance)).collect()
}

/// Returns the changed figures that tables show; all changed figures if tables show none of them.
pub(crate) fn shown_figures(line: &LineDifference, tolerance: f64) -> Vec<&FigureDifference> {
    let changed = || line.figures.iter().filter(|figure| figure.is_changed(tolerance));
    let is_shown = |figure: &&FigureDifference| {
        let name = figure.quantity.as_str();
        let is_percentile = name.strip_prefix('p').is_some_and(|digits| digits.parse::<f64>().is_ok());
        !is_percentile || SHOWN_PERCENTILES.contains(&name)
    };
    let shown: Vec<&FigureDifference> = changed().filter(is_shown).collect();
    if shown.is_empty() { changed().collect() } else { shown }
}

fn changed_values(title: &str, changed: &[Changed<String>], width: usize) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| number::NONE.to_owned());
    let rows: Vec<[String; 3]> =
        changed.iter().map(|value| [value.name.clone(), text(&value.a), text(&value.b)]).collect();
    let mut lines = vec![vec![title, "A", "B"]];
    lines.extend(rows.iter().map(|row| row.iter().map(String::as_str).collect()));
    columns(&lines, &[false; 3], width)
}

/// Width below which the columns of figures would be too narrow to read.
const NARROW: usize = 80;

fn figures(lines: &[&LineDifference], tolerance: f64, width: usize) -> String {
    if width < NARROW {
        return lines
            .iter()
            .map(|line| narrow_figures(line, tolerance, width))
            .collect::<Vec<_>>()
            .join("\n");
    }
    let mut rows = vec![["", "figure", "A", "B", "change", "mechanism"].map(str::to_owned)];
    for line in lines {
        let shown = shown_figures(line, tolerance);
        for (i, figure) in shown.iter().enumerate() {
            let name = if i == 0 { line.name.clone() } else { String::new() };
            let (a, b) = values(figure);
            // The mechanisms add up to the mean latency.
            let is_explained = figure.quantity == "mean latency";
            let mechanism = if is_explained { main_mechanism(&line.mechanisms) } else { None };
            rows.push([name, figure.quantity.clone(), a, b, change(figure), mechanism.unwrap_or_default()]);
        }
    }
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    columns(&rows, &[false, false, true, true, true, false], width)
}

/// Returns the figures of one line below its name, with the mechanism below them.
fn narrow_figures(line: &LineDifference, tolerance: f64, width: usize) -> String {
    let mut rows = vec![["figure", "A", "B", "change"].map(str::to_owned)];
    for figure in shown_figures(line, tolerance) {
        let (a, b) = values(figure);
        rows.push([figure.quantity.clone(), a, b, change(figure)]);
    }
    let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
    let mut text = wrapped(&line.name, width) + &columns(&rows, &[false, true, true, true], width);
    if let Some(mechanism) = main_mechanism(&line.mechanisms) {
        text += &wrapped(&format!("mechanism: {mechanism}"), width);
    }
    text
}

/// Returns both values with their units: durations in a unit that suits their magnitude, data rates in MiB/s or KiB/s.
pub(crate) fn values(figure: &FigureDifference) -> (String, String) {
    let text = |value: f64| match figure.unit.as_str() {
        "ns" => number::duration_ns(value),
        "B/s" => number::rate(value, 4),
        // The name of the quantity is its unit: IOPS, or the unit of an experiment's cells.
        unit if unit == figure.quantity || unit.is_empty() => number::significant(value, 4),
        unit => number::with_unit(number::significant(value, 4), unit),
    };
    (text(figure.a), text(figure.b))
}

/// Returns the change in percent, and in standard deviations where they are known.
pub(crate) fn change(figure: &FigureDifference) -> String {
    let percent = figure.percent.map_or_else(
        || number::NONE.to_owned(),
        |percent| {
            let decimals = if percent.abs() < 0.1 { 3 } else { 1 };
            number::signed_percent(percent, decimals)
        },
    );
    match figure.deviations {
        Some(deviations) => format!("{percent} ({})", number::with_unit(number::fixed(deviations, 1), "sd")),
        None => percent,
    }
}

/// Returns the mechanism whose time per request changed most, with its change: `program +1.20 ms`.
pub(crate) fn main_mechanism(mechanisms: &[MechanismDifference]) -> Option<String> {
    let most = mechanisms.first().filter(|most| most.change_ns() != 0.0)?;
    Some(format!("{} {}", most.mechanism, number::signed_duration_ns(most.change_ns())))
}

/// Returns the sentences below the table: the number of changed lines, changed bounds, failed jobs, and lines that only
/// one file has.
pub(crate) fn summary(difference: &Difference, tolerance: f64) -> Vec<String> {
    let (all, changed) = (difference.lines.len(), changed_lines(difference, tolerance).len());
    let percent = number::with_unit(number::written(tolerance), "%");
    let limit = if tolerance > 0.0 { format!(" by more than {percent}") } else { String::new() };
    let mut sentences = vec![match changed {
        0 if tolerance > 0.0 => {
            format!("No figure of {} differs{limit}.", plural(all, "common line"))
        }
        0 => format!("All figures of {} are equal.", plural(all, "common line")),
        _ => format!("{changed} of {} changed{limit}.", plural(all, "common line")),
    }];
    for bound in &difference.bounds {
        let held = |held: Option<bool>| match held {
            Some(true) => "held",
            Some(false) => "missed",
            None => "absent",
        };
        sentences.push(format!("Bound {}: {} in A, {} in B.", bound.name, held(bound.a), held(bound.b)));
    }
    for job in &difference.errors {
        let ended =
            |error: Option<i64>| error.map_or("no error".to_owned(), |error| format!("error {error}"));
        sentences.push(format!("Job {}: {} in A, {} in B.", job.name, ended(job.a), ended(job.b)));
    }
    sentences.extend(only("A", &difference.only_a));
    sentences.extend(only("B", &difference.only_b));
    let is_explained = |line: &&LineDifference| !line.mechanisms.is_empty();
    if changed > 0 && !difference.lines.iter().any(|line| is_explained(&line)) {
        sentences.push(
            "Mechanisms are known only if both files are results of flashlab that contain them.".into(),
        );
    }
    sentences
}

fn only(file: impl Display, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("Only in {file}: {}.", names.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_table_has_the_name_of_a_line_above_its_figures() {
        let figure = |quantity: &str, unit: &str, a, b| FigureDifference {
            quantity: quantity.into(),
            unit: unit.into(),
            a,
            b,
            percent: Some(-20.0),
            deviations: None,
        };
        let line = LineDifference {
            name: "raw write 4k, sd/kingston:host=raspberry-pi-4".into(),
            figures: vec![figure("IOPS", "IOPS", 250.0, 200.0), figure("mean latency", "ns", 4e6, 5e6)],
            mechanisms: vec![MechanismDifference { mechanism: "program".into(), a_ns: 1e6, b_ns: 2e6 }],
        };
        let lines = [&line];
        let expected = "raw write 4k, sd/kingston:host=raspberry-pi-4\n\
                        figure              A        B   change\n\
                        IOPS            250.0    200.0  -20.0 %\n\
                        mean latency  4.00 ms  5.00 ms  -20.0 %\n\
                        mechanism: program +1.00 ms\n";
        assert_eq!(number::plain(&figures(&lines, 0.0, 60)), expected);
        assert!(
            figures(&lines, 0.0, 120).starts_with("                 "),
            "wide tables have columns of names"
        );
    }
}
