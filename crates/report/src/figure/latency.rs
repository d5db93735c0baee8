//! The processing time of a request at each point of a sweep: bars stacked by mechanism.
//!
//! Bars exclude the time that a request waits behind others: with a hundred requests in flight, waiting is
//! nearly all of the latency and follows from the processing times. The label after a bar also states the
//! whole latency. A chart has one figure per series, and the bars of all its series have the same scale, so
//! that they can be compared.

use super::{
    Figure, Labels,
    mark::{self, mark},
    mechanisms,
    scale::Scale,
};
use crate::{
    explain::{self, Part},
    grid, number,
    svg::{self, Anchor, Percent},
};
use flashlab_lab::results::{Cell, Results};

const BAR: f64 = 12.0;
const GAP: f64 = 4.0;
const TOP: f64 = 2.0;
/// Right end of the longest bar, in percent of the width; the numbers are right of it.
const RIGHT: f64 = 68.0;

/// Returns one figure for each series of each curve of `results` whose cells timed requests.
pub fn figures(results: &Results) -> Vec<Figure> {
    results
        .curves
        .iter()
        .flat_map(|curve| of_chart(results, &curve.chart))
        .map(|(_, figure)| figure)
        .collect()
}

/// Returns the figures of one chart with their columns.
pub(crate) fn of_chart<'a>(results: &'a Results, chart: &str) -> Vec<(&'a str, Figure)> {
    let timed = |cell: &&Cell| cell.table == chart && !explain::parts(cell).is_empty();
    let cells: Vec<&Cell> = results.cells.iter().filter(timed).collect();
    let scale = Scale::from_zero(cells.iter().map(|cell| sum(&own(cell))));
    let mut columns: Vec<&str> = vec![];
    for cell in &cells {
        if !columns.contains(&cell.column.as_str()) {
            columns.push(&cell.column);
        }
    }
    let labels = Labels::of(cells.iter().map(|cell| cell.row.as_str()));
    let of = |column: &'a str| -> (&'a str, Figure) {
        let cells: Vec<&Cell> = cells.iter().copied().filter(|cell| cell.column == column).collect();
        (column, figure(column, &cells, scale, labels))
    };
    columns.into_iter().map(of).collect()
}

/// Returns the parts of a request's latency except for waiting.
fn own(cell: &Cell) -> Vec<Part> {
    explain::parts(cell).into_iter().filter(|part| part.mechanism != "queue").collect()
}

fn sum(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.ns).sum()
}

fn figure(column: &str, cells: &[&Cell], scale: Scale, labels: Labels) -> Figure {
    let above: f64 = cells.iter().map(|cell| labels.height(&cell.row)).sum();
    let height = TOP + above + cells.len() as f64 * (BAR + GAP);
    let left = labels.left();
    let width = RIGHT - left.0;
    let description = "Processing time of a request by mechanism at each point, without waiting";
    let mut svg = mark::drawing(height, column, description);
    let mut names: Vec<&str> = vec![];
    let mut y = TOP;
    for cell in cells {
        y += labels.height(&cell.row);
        labels.draw(&mut svg, &cell.row, y, BAR);
        let mut stack = mark::stack();
        let mut from = 0.0;
        for part in own(cell) {
            if !names.contains(&part.mechanism) {
                names.push(part.mechanism);
            }
            let (a, b) = (scale.fraction(from), scale.fraction(from + part.ns));
            from += part.ns;
            let name = format!(
                "{}, {}: {}, {}",
                grid::place(cell),
                part.mechanism,
                number::duration_ns(part.ns),
                number::share(part.share)
            );
            let rect = svg::rect(Percent(left.0 + a * width), y, Percent((b - a) * width), BAR);
            let rect = rect.class(mechanisms::class(part.mechanism));
            stack.push(mark(part.mechanism, &cell.row, name).child(rect));
        }
        let end = Percent(left.0 + scale.fraction(from) * width);
        let whole = sum(&explain::parts(cell));
        let mut label = number::duration_ns(from);
        if whole > from {
            label += &format!(" of {}", number::duration_ns(whole));
        }
        stack.push(svg::text(end, 5.0, y + BAR - 2.0, Anchor::Start, label).class("value"));
        svg.push(stack);
        y += BAR + GAP;
    }
    Figure {
        title: column.into(),
        subtitle: "processing time of a request; the rest of its mean latency is waiting".into(),
        height,
        svg,
        legend: names.into_iter().map(mechanisms::key).collect(),
    }
}
