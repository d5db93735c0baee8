//! Marks: the bars of a drawing, and the parts of stacked bars. The script of a page reads out the values of
//! marks, switches marks off, and links them.
//!
//! A drawing with marks has the attribute `data-bars`. A mark is a group with a title; its `data-value` is
//! its value in words, unless the title contains it. Its `data-key` is the label of its series in the legend.
//! Its `data-place` names the thing that it describes, such as a device or a range of latencies: marks with
//! the same place in different drawings belong together. A row of stacked marks is a group of the class
//! `stack`. The keys of stacked marks are mechanisms, which link these marks across drawings.

use crate::{
    markup::{Element, element},
    svg,
};
use std::fmt::Display;

/// Attribute of a drawing with marks: its value is the direction in which the bars grow.
pub(crate) const DRAWING: &str = "data-bars";

/// Returns a drawing whose bars grow to the right.
pub(crate) fn drawing(height: f64, title: &str, description: &str) -> Element {
    svg::drawing(height, title, description).attr(DRAWING, "right")
}

/// Returns a drawing whose bars grow upwards.
pub(crate) fn upright_drawing(height: f64, title: &str, description: &str) -> Element {
    svg::drawing(height, title, description).attr(DRAWING, "up")
}

/// Returns an empty mark. `key` is empty if the mark belongs to no series.
pub(crate) fn mark(key: &str, place: &str, title: impl Display) -> Element {
    let group = svg::named(title).attr("data-place", place);
    if key.is_empty() { group } else { group.attr("data-key", key) }
}

/// Returns an empty row of stacked marks.
pub(crate) fn stack() -> Element {
    element("g").class("stack")
}
