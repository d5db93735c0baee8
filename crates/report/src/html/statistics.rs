//! The counters of each device: bytes, write amplification, erases, garbage collection, map look-ups, remaining life.

use super::{Section, folded, tables};
use crate::{
    markup::{Element, element},
    number::plural,
    statistics::{self, Line},
};
use flashlab_lab::results::{DeviceStatistics, Results};

/// Maximum number of runs that are shown as columns; more runs are shown as lines.
const COLUMNS_MAX: usize = 6;

pub(super) fn section(results: &Results) -> Option<Section> {
    let mut body = vec![];
    let whole = statistics::whole_runs(results);
    if !whole.is_empty() {
        let summary = format!("Statistics of {}", plural(whole.len(), "run"));
        let table = table("Statistics of the devices", &whole);
        body.push(if whole.len() > COLUMNS_MAX { folded(&summary, [table]) } else { table });
    }
    let points = statistics::points(results);
    if !points.is_empty() {
        let summary = format!("Statistics of {} on the curves", plural(points.len(), "point"));
        body.push(folded(&summary, [table(&summary, &points)]));
    }
    (!body.is_empty()).then(|| Section {
        id: "statistics",
        title: "Device counters",
        short: "Statistics",
        intro: Some(
            "Counted from the end of the preparation, or over the device's life where a line says so.".into(),
        ),
        body,
    })
}

fn table(label: &str, runs: &[&DeviceStatistics]) -> Element {
    let lines = statistics::lines(runs);
    let names: Vec<String> = runs.iter().map(|run| statistics::name(run)).collect();
    let html = if runs.len() <= COLUMNS_MAX { by_quantity(&lines, &names) } else { by_run(&lines, &names) };
    tables::scrolling(label, html)
}

fn by_quantity(lines: &[Line], names: &[String]) -> Element {
    let columns: Vec<(&str, bool)> =
        [("", false)].into_iter().chain(names.iter().map(|name| (name.as_str(), true))).collect();
    let rows = lines.iter().map(|line| {
        let mut head = tables::row_head(&line.name);
        if !line.meaning.is_empty() {
            head = head.attr("title", line.meaning);
        }
        element("tr").child(head).children(line.values.iter().map(tables::number))
    });
    element("table").child(tables::head(&columns)).child(element("tbody").children(rows))
}

fn by_run(lines: &[Line], names: &[String]) -> Element {
    let columns: Vec<(&str, bool)> =
        [("run", false)].into_iter().chain(lines.iter().map(|line| (line.name.as_str(), true))).collect();
    let rows = names.iter().enumerate().map(|(i, name)| {
        let values = lines.iter().map(|line| tables::number(line.values[i].as_str()));
        element("tr").child(tables::row_head(name)).children(values)
    });
    element("table").child(tables::head(&columns)).child(element("tbody").children(rows))
}
