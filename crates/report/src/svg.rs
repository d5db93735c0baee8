//! Drawing in SVG that fits any width without scaling its text: across in per cent of the width, down in pixels.
//!
//! Colours come from CSS classes and variables, so that one drawing serves a light and a dark page.

use crate::markup::{Element, element};
use std::fmt::{Display, Formatter, Result, Write};

/// A position or length across, in per cent of the drawing's width.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub(crate) struct Percent(pub(crate) f64);

impl Display for Percent {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}%", short(self.0))
    }
}

/// At most two decimals, none that are zero.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text.is_empty() || text == "-0" { "0".into() } else { text.into() }
}

/// A drawing that is as wide as its place and `height` pixels tall. Title and description are for those who hear it.
pub(crate) fn drawing(height: f64, title: &str, description: &str) -> Element {
    element("svg")
        .class("chart")
        .attr("role", "img")
        .attr("aria-label", format!("{title}. {description}"))
        .attr("width", "100%")
        .attr("height", short(height))
        .child(element("title").text(title))
}

/// A rectangle; one with a negative width is empty.
pub(crate) fn rect(x: Percent, y: f64, width: Percent, height: f64) -> Element {
    element("rect")
        .attr("x", x)
        .attr("y", short(y))
        .attr("width", Percent(width.0.max(0.0)))
        .attr("height", short(height))
}

/// A straight line.
pub(crate) fn line(from: (Percent, f64), to: (Percent, f64)) -> Element {
    element("line").attr("x1", from.0).attr("y1", short(from.1)).attr("x2", to.0).attr("y2", short(to.1))
}

/// Which end of a text its position is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Anchor {
    /// The text begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// Text whose base line is at `y`, `dx` pixels right of `x`.
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

/// A group that says what it is when pointed at.
pub(crate) fn named(name: impl Display) -> Element {
    element("g").child(element("title").text(name))
}

/// Units of a [`canvas`] across one per cent of its width.
const UNITS: f64 = 100.0;

/// A layer as large as the drawing, for paths: across in hundredths of a per cent, down in pixels, so that a path bends
/// with the width while its stroke does not (the style says `non-scaling-stroke`).
pub(crate) fn canvas(height: f64) -> Element {
    element("svg")
        .attr("aria-hidden", "true")
        .attr("width", "100%")
        .attr("height", short(height))
        .attr("viewBox", format!("0 0 {} {}", 100.0 * UNITS, short(height)))
        .attr("preserveAspectRatio", "none")
}

/// The outline of what is drawn on a [`canvas`].
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
    /// Begins anew at a place.
    pub(crate) fn move_to(&mut self, x: Percent, y: f64) {
        self.at('M', x, y);
    }
    /// A straight line to a place; where nothing has begun, the path begins there.
    pub(crate) fn line_to(&mut self, x: Percent, y: f64) {
        self.at(if self.d.is_empty() { 'M' } else { 'L' }, x, y);
    }
    /// A point, as a round cap of the stroke.
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
    /// The path as an element.
    pub(crate) fn element(self) -> Element {
        element("path").attr("d", self.d)
    }
}

/// What marks a place with a shape that does not bend: its path is in pixels around (0, 0).
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
