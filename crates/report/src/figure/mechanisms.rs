//! The time of a request by mechanism: one stacked bar whose parts are the shares of the mean latency.

use super::{
    Figure, Key,
    mark::{self, mark},
};
use crate::{
    explain::{self, Part},
    grid,
    markup::Element,
    number,
    svg::{self, Percent},
};
use flashlab_lab::results::{Cell, Results};
use flashlab_sim::Mechanism;

const HEIGHT: f64 = 14.0;

/// Returns one figure for each cell of `results` that timed requests and stands alone, in order. [`super::latency`] has
/// the points of curves.
pub fn figures(results: &Results) -> Vec<Figure> {
    let timed = results.cells.iter().filter(|cell| grid::stands_alone(results, cell));
    let timed = timed.filter(|cell| !explain::parts(cell).is_empty());
    timed
        .map(|cell| {
            let keys = explain::parts(cell).iter().map(|part| key(part.mechanism)).collect();
            Figure {
                title: grid::name(cell),
                subtitle: format!("{} per request", number::duration_ns(cell.latency_ns_mean)),
                height: HEIGHT,
                svg: bar(cell, &explain::parts(cell)),
                legend: keys,
            }
        })
        .collect()
}

/// Returns the bar of one cell.
pub(crate) fn bar(cell: &Cell, parts: &[Part]) -> Element {
    let words: Vec<String> =
        parts.iter().map(|part| format!("{} {}", part.mechanism, number::share(part.share))).collect();
    let mut svg =
        mark::drawing(HEIGHT, &format!("{}: where the time went", grid::name(cell)), &words.join(", "));
    let mut stack = mark::stack();
    let mut x = 0.0;
    for part in parts {
        let width = 100.0 * part.share;
        let name =
            format!("{}: {}, {}", part.mechanism, number::duration_ns(part.ns), number::share(part.share));
        let rect = svg::rect(Percent(x), 0.0, Percent(width), HEIGHT).class(class(part.mechanism));
        stack.push(mark(part.mechanism, &cell.column, name).child(rect));
        x += width;
    }
    svg.push(stack);
    svg
}

/// Returns the class for the colour of a mechanism, which is the same in all figures.
pub(crate) fn class(mechanism: &str) -> String {
    format!("part m-{}", colour_name(mechanism))
}

/// Returns the CSS variable for the colour of a mechanism.
#[cfg(feature = "fit")]
pub(crate) fn colour(mechanism: &str) -> String {
    format!("--{}", colour_name(mechanism))
}

/// Returns the name of a mechanism's colour in the style sheets.
fn colour_name(mechanism: &str) -> &'static str {
    match Mechanism::from_name(mechanism) {
        Some(Mechanism::ReadModifyWrite) => "rmw",
        Some(known) => known.name(),
        None => "other",
    }
}

/// Returns the legend entry of a mechanism.
pub(crate) fn key(mechanism: &str) -> Key {
    Key::swatch(class(mechanism), None, mechanism)
}
