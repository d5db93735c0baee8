//! SVG drawings that fit any width without scaling their text: horizontal positions are in percent of the width,
//! vertical ones in pixels.
//!
//! Colours come from CSS classes and variables, so the same drawing serves a light and a dark page.

use crate::markup::{Element, element};
use std::fmt::{Display, Formatter, Result, Write};

/// A horizontal position or length, in percent of the drawing's width.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub(crate) struct Percent(pub(crate) f64);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}%", short(self.0))
    }
}

/// Formats a value with at most two decimals, without trailing zeroes.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".into() } else { text.into() }
}

/// Returns a drawing that is as wide as its container and `height` pixels high. Screen readers read the title and the
/// description.
pub(crate) fn drawing(height: f64, title: &str, description: &str) -> Element {
    element("svg")
        .class("chart")
        .attr("role", "img")
        .attr("aria-label", format!("{title}. {description}"))
        .attr("width", "100%")
        .attr("height", short(height))
        .child(element("title").text(title))
}

/// Returns a rectangle. A negative width gives an empty one.
pub(crate) fn rect(x: Percent, y: f64, width: Percent, height: f64) -> Element {
    element("rect")
        .attr("x", x)
        .attr("y", short(y))
        .attr("width", Percent(width.0.max(0.0)))
        .attr("height", short(height))
}

/// Returns a straight line.
pub(crate) fn line(from: (Percent, f64), to: (Percent, f64)) -> Element {
    element("line").attr("x1", from.0).attr("y1", short(from.1)).attr("x2", to.0).attr("y2", short(to.1))
}

/// The part of a text that is at its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    /// The text begins at the position.
    Start,
    /// The text is centred at the position.
    Middle,
    /// The text ends at the position.
    End,
}

/// Returns a text whose baseline is at `y` and whose anchor is `dx` pixels right of `x`.
pub(crate) fn text(x: Percent, dx: f64, y: f64, anchor: Anchor, content: impl Display) -> Element {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    element("text")
        .attr("x", x)
        .attr("dx", short(dx))
        .attr("y", short(y))
        .attr("text-anchor", anchor)
        .text(content)
}

/// Returns a group with a tooltip.
pub(crate) fn named(name: impl Display) -> Element {
    element("g").child(element("title").text(name))
}

/// Horizontal units of a [`canvas`] per percent of its width.
const UNITS: f64 = 100.0;

/// Returns a layer of the drawing's size for paths. The horizontal unit of the layer is a hundredth of a
/// percent of the width, and its vertical unit is a pixel. A path therefore stretches with the width, but its
/// stroke does not (the style sets `non-scaling-stroke`).
pub(crate) fn canvas(height: f64) -> Element {
    element("svg")
        .attr("aria-hidden", "true")
        .attr("width", "100%")
        .attr("height", short(height))
        .attr("viewBox", format!("0 0 {} {}", 100.0 * UNITS, short(height)))
        .attr("preserveAspectRatio", "none")
}

/// The outline of a shape on a [`canvas`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    d: String,
}

impl Path {
    fn at(&mut self, command: char, x: Percent, y: f64) {
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        let (x, y) = ((finite(x.0) * UNITS).round(), (finite(y) * 10.0).round() / 10.0);
        let _ = write!(self.d, "{command}{} {}", short(x), short(y)); // a String takes everything
    }
    /// Begins a new part of the outline at a position.
    pub(crate) fn move_to(&mut self, x: Percent, y: f64) {
        self.at('M', x, y);
    }
    /// Adds a straight line to a position. An empty path begins there.
    pub(crate) fn line_to(&mut self, x: Percent, y: f64) {
        self.at(if self.d.is_empty() { 'M' } else { 'L' }, x, y);
    }
    /// Adds a point, which is drawn by the round cap of the stroke.
    pub(crate) fn dot(&mut self, x: Percent, y: f64) {
        self.move_to(x, y);
        self.d.push_str("h0");
    }
    /// Closes the outline.
    pub(crate) fn close(&mut self) {
        self.d.push('Z');
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.d.is_empty()
    }
    /// Returns the path as an element.
    pub(crate) fn element(self) -> Element {
        element("path").attr("d", self.d)
    }
}

/// Returns a layer for a marker at a position. The paths of the layer are in pixels around (0, 0), so that
/// they do not stretch.
pub(crate) fn symbol(x: Percent, y: f64, name: impl Display) -> Element {
    element("svg")
        .attr("aria-hidden", "true")
        .attr("overflow", "visible")
        .attr("x", x)
        .attr("y", short(y))
        .child(element("title").text(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_short() {
        assert_eq!(Percent(33.333_333).to_string(), "33.33%");
        assert_eq!(Percent(50.0).to_string(), "50%");
        assert_eq!(Percent(-0.001).to_string(), "0%");
    }
}
