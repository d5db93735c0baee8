//! The differences between two results, as a table and as JSON.

use crate::number;
use crate::number::plural;
use crate::terminal::{columns, wrapped};
use flashlab_lab::difference::{Changed, Difference, FigureDifference, LineDifference, MechanismDifference};
use std::fmt::Display;

/// Percentiles that tables show. JSON contains all percentiles.
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
    let (shown, small) = without_small(&changed);
    if !shown.is_empty() {
        text.push('\n');
        text += &figures(shown, tolerance, width);
    }
    text.push('\n');
    let left_out = (!small.is_empty()).then(|| format!("{}; the JSON contains them.", small_lines(small)));
    for sentence in summary(difference, tolerance).into_iter().chain(left_out) {
        text += &wrapped(&sentence, width);
    }
    number::plain(&text)
}

/// Returns all differences as JSON, ending in a line feed.
pub fn json(difference: &Difference) -> String {
    crate::json::document_text(serde_json::to_string_pretty(difference))
}

/// Changes below this many percent are left out of tables if others are larger.
const SMALL: f64 = 0.1;

/// Returns the lines with a figure that differs by more than `tolerance` percent, the largest change first.
pub(crate) fn changed_lines(difference: &Difference, tolerance: f64) -> Vec<&LineDifference> {
    let mut changed: Vec<&LineDifference> =
        difference.lines.iter().filter(|line| line.is_changed(tolerance)).collect();
    // The sort is stable: lines that changed equally keep the order of the files.
    changed.sort_by(|x, y| size(y).total_cmp(&size(x)));
    changed
}

/// Splits sorted lines into those that tables show and those with small changes. Without larger changes, the small ones
/// are shown.
pub(crate) fn without_small<'a, 'b>(
    changed: &'a [&'b LineDifference],
) -> (&'a [&'b LineDifference], &'a [&'b LineDifference]) {
    let (large, small) = changed.split_at(changed.partition_point(|line| size(line) >= SMALL));
    if large.is_empty() { (small, large) } else { (large, small) }
}

/// Returns the number of lines with small changes: `3 lines changed by less than 0.1 %`.
pub(crate) fn small_lines(small: &[&LineDifference]) -> String {
    let limit = number::with_unit(number::written(SMALL), "%");
    format!("{} changed by less than {limit}", plural(small.len(), "line"))
}

/// Returns the largest change of a line's figures in percent.
fn size(line: &LineDifference) -> f64 {
    line.figures.iter().map(size_of_figure).fold(0.0, f64::max)
}

/// Returns the change of a figure in percent; infinity if the figure was zero.
fn size_of_figure(figure: &FigureDifference) -> f64 {
    match figure.percent {
        Some(percent) => percent.abs(),
        None if figure.a == figure.b => 0.0,
        None => f64::INFINITY,
    }
}

/// Returns the changed figures that tables show, without small changes if the line has larger ones. If tables
/// show none of the changed figures, returns all of them.
pub(crate) fn shown_figures(line: &LineDifference, tolerance: f64) -> Vec<&FigureDifference> {
    let changed = || line.figures.iter().filter(|figure| figure.is_changed(tolerance));
    let is_shown = |figure: &&FigureDifference| {
        let name = figure.quantity.as_str();
        let is_percentile = name.strip_prefix('p').is_some_and(|digits| digits.parse::<f64>().is_ok());
        !is_percentile || SHOWN_PERCENTILES.contains(&name)
    };
    let shown: Vec<&FigureDifference> = changed().filter(is_shown).collect();
    let large: Vec<&FigureDifference> =
        shown.iter().copied().filter(|figure| size_of_figure(figure) >= SMALL).collect();
    match (large.is_empty(), shown.is_empty()) {
        (false, _) => large,
        (true, false) => shown,
        (true, true) => changed().collect(),
    }
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
    let without: Vec<&str> = ["A", "B"]
        .into_iter()
        .zip(difference.has_mechanisms)
        .filter(|(_, has)| !has)
        .map(|(file, _)| file)
        .collect();
    if changed > 0 && !without.is_empty() {
        let contains = if without.len() == 1 { "contains" } else { "contain" };
        sentences
            .push(format!("{} {contains} no mechanisms; results of flashlab do.", without.join(" and ")));
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

    #[test]
    fn the_table_has_the_largest_change_first_and_counts_small_ones() {
        let line = |name: &str, b: f64| LineDifference {
            name: name.into(),
            figures: [("IOPS", b), ("mean latency", 1000.1)]
                .map(|(quantity, b)| FigureDifference {
                    quantity: quantity.into(),
                    unit: String::new(),
                    a: 1000.0,
                    b,
                    percent: Some((b - 1000.0) / 10.0),
                    deviations: None,
                })
                .to_vec(),
            mechanisms: vec![],
        };
        let with = |lines: Vec<LineDifference>| {
            let difference = Difference { lines, has_mechanisms: [true; 2], ..Difference::default() };
            table(&difference, "a.json", "b.json", 0.0, 100)
        };
        let text = with(vec![line("tiny", 1000.5), line("second", 1100.0), line("third", 300.0)]);
        let places = ["third", "second", "1 line changed by less than 0.1 %"].map(|part| text.find(part));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{text}");
        assert!(!text.contains("tiny") && !text.contains("mean latency"), "{text}");
        // Without larger changes, small changes are shown.
        let text = with(vec![line("tiny", 1000.5)]);
        assert!(text.contains("tiny") && !text.contains("changed by less than"), "{text}");
    }
}
