//! The error of every cell in percent of the published figure or the reference: one figure per table, all with the same
//! axis.
//!
//! The band behind a row is the published standard deviation; marks on both sides of zero are the bound on the cell.
//! Predicted cells are filled dots, fitted ones rings, assumed ones dashed rings. The tables follow the order of the
//! charts, so that raw and vfat are adjacent. The tables of curves, and those with references, show only cells that
//! have an error.

use super::{
    Figure, Labels,
    bars::error_label,
    chart::charts,
    mark::{self, mark},
    scale::step,
};
use crate::{
    grid::{self, Table},
    markup::{Element, element},
    number,
    svg::{self, Anchor, Percent},
};
use flashlab_lab::results::{Cell, Results, Role};

const ROW: f64 = 19.0;
const TOP: f64 = 4.0;
const AXIS: f64 = 22.0;
/// Right edge of the plot, in percent of the width; the numbers are right of it.
const RIGHT: f64 = 84.0;
/// Maximum end of the axis in percent. A larger error is drawn at the edge, with its number.
const LIMIT_MAX_PERCENT: f64 = 50.0;

/// Returns one figure for each table of `results` that has an error.
pub fn figures(results: &Results) -> Vec<Figure> {
    let mut tables = grid::tables(results);
    for table in &mut tables {
        let has_references = table.cells.iter().any(|cell| cell.reference.is_some());
        if has_references || grid::is_curve(results, table.name) {
            table.cells.retain(|cell| error(cell).is_some());
            table.rows.retain(|row| table.cells.iter().any(|cell| cell.row == *row));
        }
    }
    tables.retain(|table| table.cells.iter().any(|cell| error(cell).is_some()));
    let charts = charts(results);
    tables.sort_by_key(|table| charts.iter().position(|chart| chart.tables.contains(&table.name)));
    let errors = results.cells.iter().filter_map(error).map(f64::abs).fold(0.0, f64::max);
    let limit = ceiling(errors.max(1.0)).min(LIMIT_MAX_PERCENT);
    let labels =
        Labels::on_rows(tables.iter().flat_map(|table| table.cells.iter().map(|cell| label(table, cell))));
    let mut figures: Vec<Figure> =
        tables.iter().map(|table| figure(results, table, &Plot { labels, limit })).collect();
    for (i, table) in tables.iter().enumerate() {
        if tables.iter().filter(|other| other.name == table.name).count() > 1 {
            figures[i].title = format!("{}, {}", table.name, table.unit);
        }
    }
    figures
}

/// Returns the label of a cell: its column, or its row if the table has only one column.
fn label<'a>(table: &Table<'a>, cell: &'a Cell) -> &'a str {
    if table.has_rows() && table.columns.len() == 1 { &cell.row } else { &cell.column }
}

fn error(cell: &Cell) -> Option<f64> {
    cell.compared_percent().filter(|error| error.is_finite())
}

/// Returns the end of an axis that includes `value`.
fn ceiling(value: f64) -> f64 {
    let step = step(value / 4.0);
    (value / step).ceil() * step
}

struct Plot {
    labels: Labels,
    limit: f64,
}

impl Plot {
    fn x(&self, error: f64) -> Percent {
        let fraction = 0.5 + 0.5 * (error / self.limit).clamp(-1.0, 1.0);
        let left = self.labels.left().0;
        Percent(left + fraction * (RIGHT - left))
    }

    fn row(&self, results: &Results, cell: &Cell, label: &str, y: f64) -> Element {
        let middle = y + ROW / 2.0;
        let value = error_label(cell).unwrap_or_else(|| number::NONE.into());
        let name =
            format!("{}, {}: {value}", grid::name(cell), grid::role_name(cell.role, grid::is_compared(cell)));
        let mut group = mark("", label, name);
        self.labels.draw(&mut group, label, y, ROW);
        if let Some(sd) = grid::sd_percent(cell).filter(|sd| *sd > 0.0) {
            let (from, to) = (self.x(-sd), self.x(sd));
            group.push(svg::rect(from, y + 3.0, Percent(to.0 - from.0), ROW - 6.0).class("band"));
        }
        let bound = grid::bound_of(results, cell);
        let missed = grid::is_missed(results, cell);
        if let Some(limit) = bound.and_then(|bound| grid::limit_percent(bound, cell)) {
            let class = if missed { "limit missed" } else { "limit" };
            for x in [self.x(-limit), self.x(limit)] {
                group.push(svg::line((x, y + 2.0), (x, y + ROW - 2.0)).class(class));
            }
        }
        let Some(error) = error(cell) else {
            group
                .push(svg::text(Percent(100.0), 0.0, middle + 4.0, Anchor::End, number::NONE).class("value"));
            return group;
        };
        let x = self.x(error);
        group.push(svg::line((self.x(0.0), middle), (x, middle)).class("stem"));
        group.push(marker(cell.role, x, middle));
        let label = error_label(cell).unwrap_or_default();
        group.push(svg::text(Percent(100.0), -2.0, middle + 4.0, Anchor::End, label).class(if missed {
            "value missed"
        } else {
            "value"
        }));
        group
    }
}

fn marker(role: Role, x: Percent, y: f64) -> Element {
    let circle = element("circle").attr("cx", x).attr("cy", y).attr("r", 4);
    match role {
        Role::Predicted => circle.class("dot"),
        Role::Fitted => circle.class("ring"),
        Role::Assumed | Role::Unsourced => circle.class("ring dashed"),
    }
}

/// Returns the figure of one table. In a table with several columns, the name of a row is a heading above its cells.
fn figure(results: &Results, table: &Table<'_>, plot: &Plot) -> Figure {
    let has_headings = table.columns.len() > 1;
    let headings = table.rows.iter().filter(|row| has_headings && !row.is_empty()).count();
    let above: f64 = table.cells.iter().map(|cell| plot.labels.height(label(table, cell))).sum();
    let bottom = TOP + above + (table.cells.len() + headings) as f64 * ROW;
    let height = bottom + AXIS;
    let description = format!("Signed error of each simulated figure of {} in percent", table.name);
    let mut svg = mark::drawing(height, table.name, &description);
    let step = step(plot.limit / 3.5);
    let reach = (plot.limit / step).floor() as i32;
    for i in -reach..=reach {
        let value = f64::from(i) * step;
        let x = plot.x(value);
        svg.push(svg::line((x, TOP), (x, bottom)).class(if i == 0 { "axis" } else { "grid" }));
        let label = number::signed(value, number::decimals_for(step, 1));
        svg.push(svg::text(x, 0.0, height - 7.0, Anchor::Middle, label).class("tick"));
    }
    let mut y = TOP;
    let mut row = "";
    for cell in &table.cells {
        if cell.row != row {
            row = &cell.row;
            if has_headings && !row.is_empty() {
                svg.push(
                    svg::text(Percent(0.0), 0.0, y + ROW / 2.0 + 4.0, Anchor::Start, row).class("group"),
                );
                y += ROW;
            }
        }
        let label = label(table, cell);
        y += plot.labels.height(label);
        svg.push(plot.row(results, cell, label, y));
        y += ROW;
    }
    Figure { title: table.name.into(), subtitle: "error, %".into(), height, svg, legend: vec![] }
}
