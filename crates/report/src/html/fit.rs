//! The page of a fit: numbers with intervals, measured beside simulated values, the time by mechanism, and conclusions.

use super::{Section, comparison, document, footer, tables, why};
use crate::{
    figure::errors,
    fit::{CELL_HEAD, NUMBER_HEAD, cell_row, conclusions, number_row, summary, verdict},
    markup::{Element, element},
    number,
};
use flashlab_fit::estimate::{CellEstimate, Determined};
use flashlab_lab::fitting::CardFit;
use flashlab_lab::results::{Cell, Figure, Mechanisms, Reference, ReferenceKind, Results, Role};

/// The content of the page.
#[derive(Clone, Copy, Debug)]
pub struct FitPage<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// The version of flashlab.
    pub version: &'a str,
    /// The command that reproduces the page.
    pub command: &'a str,
    /// The fit.
    pub fit: &'a CardFit,
}

/// Returns the page.
pub fn fit_page(page: &FitPage<'_>) -> String {
    let fit = page.fit;
    let header = element("header")
        .child(element("p").class("kicker").text(format!("Fitted with flashlab {}", page.version)))
        .child(element("h1").text(page.title))
        .child(element("p").class("lead").text(summary(fit, usize::MAX).trim()))
        .children(verdict(fit).map(|text| element("p").class("lead").child(element("strong").text(text))));
    let results = as_results(fit);
    let numbers = fit.estimate.numbers.iter().map(|number| number_row(number).to_vec());
    let cells = fit.estimate.cells.iter().map(|cell| cell_row(cell).to_vec());
    let mut sections = vec![
        Section {
            id: "numbers",
            title: "Numbers",
            short: "Numbers",
            intro: Some("A determined number has a 90\u{a0}% interval within 5\u{a0}% of its estimate, in a model that explains the cells.".into()),
            body: vec![table("Numbers", &NUMBER_HEAD, numbers)],
        },
        Section {
            id: "cells",
            title: "Measured and simulated",
            short: "Cells",
            intro: Some(
                "The column \"left out\" is the error of a model that was fitted without the cell: the error to expect of \
                 a prediction for this card."
                    .into(),
            ),
            body: vec![table("Cells", &CELL_HEAD, cells)],
        },
    ];
    // A single card would have one chart for each cell, with a pair of bars each.
    match &fit.cards[..] {
        [card] => sections.push(errors(&results, card)),
        _ => sections.extend(comparison::figures(&results)),
    }
    sections.extend(why::section(&results));
    let open: Vec<Element> = undetermined(fit).into_iter().map(|text| element("li").text(text)).collect();
    if !open.is_empty() {
        let list = vec![element("ul").class("note").children(open)];
        sections.push(Section::new("open", "Not determined", "Not determined", list));
    }
    let remarks: Vec<Element> = conclusions(fit).into_iter().map(|text| element("li").text(text)).collect();
    if !remarks.is_empty() {
        let list = vec![element("ul").class("note").children(remarks)];
        sections.push(Section::new("conclusions", "Conclusions", "Conclusions", list));
    }
    document(page.title, &format!("flashlab {}", page.version), header, &sections, footer(page.command))
}

/// Returns the errors of all cells of one card in one chart.
fn errors(results: &Results, card: &str) -> Section {
    let cell = |cell: &Cell| Cell {
        table: card.to_owned(),
        row: if cell.table.is_empty() { cell.column.clone() } else { cell.table.clone() },
        column: card.to_owned(),
        // Errors are in percent whatever the unit of the cell is.
        unit: "%".to_owned(),
        ..cell.clone()
    };
    let results = Results { cells: results.cells.iter().map(cell).collect(), ..Results::default() };
    Section {
        id: "errors",
        title: "Errors",
        short: "Errors",
        intro: Some(
            "The error of each simulated cell in percent of its measurement. All cells were fitted; the column \"left \
             out\" above is the error of a prediction."
                .into(),
        ),
        body: errors::figures(&results).iter().map(comparison::framed).collect(),
    }
}

/// Returns a sentence for each number that the cells do not determine.
fn undetermined(fit: &CardFit) -> Vec<String> {
    let sentence = |number: &flashlab_fit::estimate::NumberEstimate| {
        let [name, value, interval, ..] = number_row(number);
        Some(match number.determined {
            Determined::Yes => return None,
            Determined::Loosely => format!("{name} lies in the interval {interval}."),
            Determined::AtMost | Determined::AtLeast => {
                format!("{name}: the cells limit it on one side only, {interval}.")
            }
            Determined::No => {
                format!("The cells do not limit {name} within its bounds; the profile contains {value}.")
            }
        })
    };
    fit.estimate.numbers.iter().filter_map(sentence).collect()
}

fn table(label: &str, head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Element {
    let columns: Vec<(&str, bool)> = head
        .iter()
        .map(|name| (*name, ["estimate", "measured", "simulated", "error", "left out"].contains(name)))
        .collect();
    let row = |cells: Vec<String>| {
        let others = cells[1..].iter().zip(&columns[1..]).map(|(text, (_, is_number))| match is_number {
            true => tables::number(text),
            false => tables::text(text),
        });
        element("tr").child(tables::row_head(&cells[0])).children(others.collect::<Vec<_>>())
    };
    let rows: Vec<Element> = rows.map(row).collect();
    let html = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    tables::scrolling(label, html)
}

/// Returns the cells as results for the charts of experiments: one table per step, one column per card.
fn as_results(fit: &CardFit) -> Results {
    let cell = |(cell, mechanisms): (&CellEstimate, &Vec<(&'static str, f64)>)| {
        let (table, column) = match &fit.cards[..] {
            [card] if fit.hosts.len() == 1 => {
                (cell.name.trim_end_matches(&format!("/{card}")), card.as_str())
            }
            _ => cell.name.rsplit_once('/').unwrap_or((&cell.name, "")),
        };
        let (unit, factor) = match cell.unit.as_str() {
            "bytes_per_second" => ("MiB/s", number::mib(1.0)),
            "latency_ns_mean" => ("us", 1e-3),
            _ => ("IOPS", 1.0),
        };
        let reference = Reference {
            kind: ReferenceKind::Measurement,
            name: String::new(),
            mean: cell.measured * factor,
            sd: cell.sd.map(|sd| sd * factor),
            error_percent: cell.error_percent,
        };
        Cell {
            table: table.to_owned(),
            row: String::new(),
            column: column.to_owned(),
            unit: unit.to_owned(),
            published: None,
            reference: Some(reference),
            simulated: Figure { mean: cell.simulated * factor, sd: 0.0 },
            role: Role::Fitted,
            error_percent: None,
            requests: 0,
            latency_ns_mean: mechanisms.iter().map(|(_, ns)| ns).sum(),
            mechanisms: Mechanisms(mechanisms.clone()),
            mechanism_ns_totals: Mechanisms(vec![]),
            tail: None,
        }
    };
    let cells = fit.estimate.cells.iter().zip(&fit.mechanisms_ns).map(cell).collect();
    Results { cells, ..Results::default() }
}
