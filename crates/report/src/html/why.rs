//! Explains every cell: the mechanisms that took its time, and the decisive one in words.
//!
//! Cells are grouped by device, in the order of the charts, so that raw and vfat are adjacent. Of the cells of a curve,
//! only those with a published figure appear; the others are in the curve's figure. Cells that timed no request, such
//! as counts, appear only in the figures.

use super::{Section, curves, devices, tables};
use crate::{
    explain,
    figure::{bars, chart, mechanisms},
    grid,
    markup::{Element, element},
    number::{self, plural},
};
use flashlab_lab::results::{Cell, Published, Results};
use flashlab_sim::Mechanism;

pub(super) fn section(results: &Results) -> Option<Section> {
    section_with(results, &|_| None)
}

/// Returns the section. `explanation` may replace the sentence on a cell.
pub(super) fn section_with(
    results: &Results,
    explanation: &dyn Fn(&Cell) -> Option<String>,
) -> Option<Section> {
    let charts = chart::charts(results);
    let mut ordered: Vec<&Cell> = vec![];
    for chart in &charts {
        ordered.extend(chart.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.cell));
    }
    let on_curves = results.cells.iter().filter(|cell| grid::is_curve(results, &cell.table));
    ordered.extend(on_curves.filter(|cell| grid::stands_alone(results, cell)));
    ordered.retain(|cell| !explain::parts(cell).is_empty());
    let mut columns: Vec<&str> = vec![];
    for &cell in &ordered {
        if !columns.contains(&cell.column.as_str()) {
            columns.push(&cell.column);
        }
    }
    let mut body = vec![words(results)];
    for (i, column) in columns.into_iter().enumerate() {
        let cells: Vec<&Cell> = ordered.iter().copied().filter(|cell| cell.column == column).collect();
        let is_open = i == 0 || ordered.len() <= OPEN;
        body.push(device(results, column, &cells, is_open, explanation));
    }
    (!ordered.is_empty()).then(|| Section {
        id: "why",
        title: "Where the time goes",
        short: "Why",
        intro: Some(
            "The mean latency of a request, split by mechanism. The parts of each bar add up to the latency exactly."
                .into(),
        ),
        body,
    })
}

/// Number of cells up to which the cards of all devices are unfolded. With more cells, only the first card is
/// unfolded.
const OPEN: usize = 8;

/// Returns the mechanisms that any cell has, with their colours and definitions.
fn words(results: &Results) -> Element {
    let mut names: Vec<&str> = vec![];
    for part in results.cells.iter().flat_map(explain::parts) {
        if !names.contains(&part.mechanism) {
            names.push(part.mechanism);
        }
    }
    names.sort_by_key(|name| Mechanism::from_name(name).map_or(usize::MAX, |mechanism| mechanism as usize));
    element("dl").class("words").children(names.into_iter().map(|name| {
        element("div")
            .child(swatch(name))
            .child(element("dt").text(name))
            .child(element("dd").text(explain::definition(name)))
    }))
}

fn swatch(mechanism: &str) -> Element {
    element("svg").class("swatch").attr("width", 11).attr("height", 11).attr("aria-hidden", "true").child(
        element("rect")
            .class(mechanisms::class(mechanism))
            .attr("width", 11)
            .attr("height", 11)
            .attr("rx", 2),
    )
}

fn device(
    results: &Results,
    column: &str,
    cells: &[&Cell],
    is_open: bool,
    explanation: &dyn Fn(&Cell) -> Option<String>,
) -> Element {
    let profile = results.devices.iter().position(|device| {
        let base = devices::base(device);
        base == column || base.rsplit_once('/').is_some_and(|(_, name)| name == column)
    });
    let name = if column.is_empty() { "Figures without a device" } else { column };
    let summary = element("summary").child(element("h3").text(name));
    let html = element("details").class("card");
    let mut html = if is_open { html.attr("open", "open") } else { html };
    html.push(summary.text(format!(" · {}", plural(cells.len(), "figure"))));
    if let Some(i) = profile.filter(|_| !column.is_empty()) {
        let device = &results.devices[i];
        html.push(
            element("p")
                .text(format!("{} · ", device.title))
                .child(element("a").attr("href", format!("#device-{i}")).text("its parameters")),
        );
    }
    let explained = cells
        .iter()
        .map(|cell| explained(results, cell, explanation(cell).unwrap_or_else(|| explain::sentence(cell))));
    html.child(element("div").class("cells").children(explained))
}

fn explained(results: &Results, cell: &Cell, sentence: String) -> Element {
    let parts = explain::parts(cell);
    let latency = format!("{} per request", number::duration_ns(cell.latency_ns_mean));
    let name = [cell.table.as_str(), &cell.row]
        .into_iter()
        .filter(|w| !w.is_empty())
        .collect::<Vec<_>>()
        .join(" · ");
    let head = element("h4")
        .text(name)
        .child(tables::role(cell))
        .child(element("span").class("latency").text(latency));
    let shares = parts.iter().map(|part| {
        element("li")
            .child(swatch(part.mechanism))
            .text(part.mechanism)
            .child(element("b").text(number::duration_ns(part.ns)))
            .text(number::share(part.share))
    });
    let mut html = element("div")
        .class("cell")
        .child(head)
        .child(compared(cell))
        .child(mechanisms::bar(cell, &parts))
        .child(element("ul").class("parts").children(shares));
    if let Some(link) = curves::link(results, &cell.table) {
        html.push(element("p").class("on-curve").child(element("a").attr("href", link).text("its curve")));
    }
    html.child(element("p").class("why").text(sentence))
}

/// Returns the comparison of a cell, such as `40.3 MiB/s simulated, 40.5 ± 0.3 measured, −0.5 %`. If the cell
/// is compared with a figure of another origin, the text names this origin: `1.234 closed form`.
fn compared(cell: &Cell) -> Element {
    let (mean, sd) = tables::published(cell, grid::decimals_of(cell));
    let mut line = format!("{} simulated", number::with_unit(String::new(), &cell.unit));
    let origin = match &cell.reference {
        Some(reference) if cell.published.is_none() => reference.kind.name(),
        _ => "measured",
    };
    match grid::compared(cell) {
        None => {}
        Some(Published::Text { text }) => line += &format!("; published: {text}"),
        Some(_) if sd.is_empty() => line += &format!(", {mean} {origin}"),
        Some(_) => line += &format!(", {mean} ± {sd} {origin}"),
    }
    if let Some(error) = bars::error_label(cell) {
        line += &format!(", {error}");
    }
    let decimals = grid::decimals_of(cell).max(number::decimals_for(cell.simulated.mean, 3));
    let simulated = number::fixed(cell.simulated.mean, decimals);
    element("p").class("compare").child(element("b").text(simulated)).text(line)
}
