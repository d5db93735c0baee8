//! Figures: charts of results. Each kind of figure is a pure function of the results in a file of its own.
//!
//! A [`Figure`] fits the width of its container. In a page, a figure takes its colours from the page's style.
//! As a file ([`Figure::to_svg`]), it includes its colours.

pub mod bars;
pub(crate) mod chart;
pub mod curves;
pub mod errors;
#[cfg(feature = "fit")]
pub mod evidence;
pub(crate) mod interactive;
pub mod latency;
pub(crate) mod latency_heat;
pub(crate) mod latency_histogram;
mod map_hits;
pub(crate) mod mark;
pub mod mechanisms;
pub(crate) mod paths;
pub(crate) mod plot;
pub(crate) mod scale;
pub mod series;
mod symbol;
pub mod wear_histogram;
pub mod wear_map;

use crate::{
    html::style,
    markup::{Element, element},
    svg::{self, Anchor, Percent},
};
use flashlab_lab::results::{Results, Role};
use std::fmt::Display;

/// A chart with its caption.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The title: `Sequential write, 1 MiB`.
    pub title: String,
    /// The unit of the axis, and other information that is needed to read the chart.
    pub subtitle: String,
    pub(crate) height: f64,
    pub(crate) svg: Element,
    pub(crate) legend: Vec<Key>,
}

/// An entry of a legend: a swatch and its label.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    swatch: Element,
    pub(crate) label: String,
}

/// Width and height of the swatch in pixels.
const SWATCH: (f64, f64) = (16.0, 9.0);

/// Returns all figures of `results`, each with its kind.
pub fn all(results: &Results) -> Vec<(&'static str, Figure)> {
    let kinds: [(&'static str, Vec<Figure>); 8] = [
        ("bars", bars::figures(results)),
        ("errors", errors::figures(results)),
        ("curves", curves::figures(results)),
        ("latency", latency::figures(results)),
        ("wear-map", wear_map::figures(results)),
        ("wear-histogram", wear_histogram::figures(results)),
        ("series", series::figures(results)),
        ("mechanisms", mechanisms::figures(results)),
    ];
    kinds
        .into_iter()
        .flat_map(|(kind, figures)| figures.into_iter().map(move |figure| (kind, figure)))
        .collect()
}

/// Width of a file in pixels.
const FILE_WIDTH: f64 = 760.0;

impl Figure {
    /// Returns the figure as an SVG file with title, legend and both themes. It has no data for scripts.
    pub fn to_svg(&self) -> String {
        let top = 78.0;
        let mut file = element("svg")
            .attr("xmlns", "http://www.w3.org/2000/svg")
            .attr("width", FILE_WIDTH)
            .attr("height", self.height + top + 14.0)
            .attr("font-family", "system-ui, sans-serif")
            .child(style::figure_sheet())
            .child(element("rect").class("paper").attr("width", "100%").attr("height", "100%"))
            .child(defs())
            .child(svg::text(Percent(2.0), 0.0, 26.0, Anchor::Start, &self.title).class("headline"))
            .child(svg::text(Percent(2.0), 0.0, 44.0, Anchor::Start, &self.subtitle).class("label"));
        let mut x = 2.0;
        for key in &self.legend {
            let at = Percent(x);
            file.push(key.at(at, 54.0));
            file.push(svg::text(at, 22.0, 63.0, Anchor::Start, &key.label).class("label"));
            x += 100.0 * (22.0 + 7.0 * key.label.chars().count() as f64 + 14.0) / FILE_WIDTH;
        }
        file.push(
            element("svg").attr("y", top).attr("x", "2%").attr("width", "96%").child(self.svg.without_data()),
        );
        file.to_string()
    }
}

impl Key {
    /// Returns an entry with a filled rectangle of these classes.
    pub(crate) fn swatch(class: impl Display, fill: Option<String>, label: impl Display) -> Key {
        let rect = element("rect").class(class).attr("width", SWATCH.0).attr("height", SWATCH.1);
        let swatch = match fill {
            Some(fill) => rect.attr("fill", fill),
            None => rect,
        };
        Key { swatch, label: label.to_string() }
    }

    /// Returns an entry with a stack of paths around the centre of the swatch, each with its classes.
    pub(crate) fn paths<'a>(paths: impl IntoIterator<Item = (String, &'a str)>, label: impl Display) -> Key {
        let middle = format!("translate({} {})", SWATCH.0 / 2.0, SWATCH.1 / 2.0);
        let paths = paths.into_iter().map(|(class, d)| element("path").class(class).attr("d", d));
        Key { swatch: element("g").attr("transform", middle).children(paths), label: label.to_string() }
    }

    /// Returns the swatch with its upper left corner at a position.
    fn at(&self, x: Percent, y: f64) -> Element {
        element("svg").attr("x", x).attr("y", y).attr("overflow", "visible").child(self.swatch.clone())
    }

    /// Returns the entry as HTML.
    pub(crate) fn html(&self) -> Element {
        let swatch = element("svg")
            .class("swatch")
            .attr("width", SWATCH.0 + 2.0)
            .attr("height", SWATCH.1 + 2.0)
            .attr("aria-hidden", "true")
            .child(element("g").attr("transform", "translate(1 1)").child(self.swatch.clone()));
        element("li").child(swatch).text(&self.label)
    }
}

/// Number of different series colours of bars. Further series use the same colours in turn.
pub(crate) const SERIES: usize = 6;
/// Number of different series colours of lines: those of bars and more.
pub(crate) const LINES: usize = 10;

/// Returns the hatch patterns of predicted bars. A document contains them once.
pub(crate) fn defs() -> Element {
    const IDS: [&str; SERIES] = ["hatch-0", "hatch-1", "hatch-2", "hatch-3", "hatch-4", "hatch-5"];
    let patterns = IDS.iter().enumerate().map(|(i, id)| {
        element("pattern")
            .attr("id", id)
            .attr("patternUnits", "userSpaceOnUse")
            .attr("width", 4)
            .attr("height", 4)
            .attr("patternTransform", "rotate(45)")
            .child(element("rect").class(format!("tint s{i}")).attr("width", 4).attr("height", 4))
            .child(element("rect").class(format!("solid s{i}")).attr("width", 1.8).attr("height", 4))
    });
    element("defs").children(patterns)
}

/// Returns the classes and the fill of a simulated bar of this series. A pale bar has no published figure, unlike
/// others of its chart.
pub(crate) fn simulated_style(series: usize, role: Role, is_pale: bool) -> (String, Option<String>) {
    let series = series % SERIES;
    match role {
        Role::Predicted if is_pale => {
            (format!("outline pale s{series}"), Some(format!("url(#hatch-{series})")))
        }
        Role::Predicted => (format!("outline s{series}"), Some(format!("url(#hatch-{series})"))),
        Role::Fitted => (format!("outline hollow s{series}"), None),
        Role::Assumed | Role::Unsourced => (format!("outline hollow dashed s{series}"), None),
    }
}

/// Number of characters that fit in the widest gutter of a narrow chart. The gutter is the space for labels
/// left of the plot.
const GUTTER_LETTERS: usize = 20;

/// Maximum number of characters in a line of a label above its row: the width of a narrow chart.
const ROW_LETTERS: usize = 42;

/// Height in pixels of one line of a label above its row.
pub(crate) const LABEL_LINE: f64 = 15.0;

/// The position of the row labels of a chart.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Labels {
    /// Left of the plot, which begins at this position.
    Beside(Percent),
    /// Left of the plot, in the widest gutter, with long labels in two lines.
    Wrapped,
    /// Above each row, because a label is too long for the widest gutter. The plot has the whole width.
    Above,
}

/// Width of the widest gutter.
const GUTTER_MAX: Percent = Percent(38.0);
/// Height in pixels that a second line beside a row adds.
const SECOND_LINE: f64 = 12.0;

impl Labels {
    /// Returns the position at which every label is fully readable.
    pub(crate) fn of<'a>(labels: impl Iterator<Item = &'a str>) -> Labels {
        let longest = labels.map(|label| label.chars().count()).max().unwrap_or(0);
        if longest > GUTTER_LETTERS {
            Labels::Above
        } else {
            Labels::Beside(Percent((3.0 + 1.9 * longest as f64).clamp(12.0, GUTTER_MAX.0)))
        }
    }

    /// Returns the position beside the rows, in two lines if necessary, at which every label is fully readable; above the
    /// rows if two lines are too few.
    pub(crate) fn on_rows<'a>(labels: impl Iterator<Item = &'a str> + Clone) -> Labels {
        match Labels::of(labels.clone()) {
            Labels::Above if labels.clone().all(|label| halves(label).is_some()) => Labels::Wrapped,
            other => other,
        }
    }

    /// Returns the left edge of the plot.
    pub(crate) fn left(self) -> Percent {
        match self {
            Labels::Beside(left) => left,
            Labels::Wrapped => GUTTER_MAX,
            Labels::Above => Percent(1.0),
        }
    }

    /// Returns the height in pixels of the label above its row.
    pub(crate) fn height(self, label: &str) -> f64 {
        match self {
            Labels::Beside(_) => 0.0,
            Labels::Wrapped if label.chars().count() > GUTTER_LETTERS => SECOND_LINE,
            Labels::Wrapped => 0.0,
            Labels::Above => LABEL_LINE * lines(label).len() as f64,
        }
    }

    /// Draws the label of the row whose plot extends from `top` to `top + height`.
    pub(crate) fn draw(self, svg: &mut Element, label: &str, top: f64, height: f64) {
        match self {
            Labels::Beside(left) => {
                let middle = top + height / 2.0 + 4.0;
                svg.push(svg::text(left, -8.0, middle, Anchor::End, label).class("name"));
            }
            Labels::Wrapped => {
                let middle = top + height / 2.0 + 4.0;
                let both = halves(label).unwrap_or((label, ""));
                let texts = match both {
                    (whole, "") => vec![(middle, whole)],
                    // The free line is above the row, so the pair lies slightly above the middle.
                    (first, second) => vec![(middle - 10.0, first), (middle + 3.0, second)],
                };
                for (y, text) in texts {
                    svg.push(svg::text(self.left(), -8.0, y, Anchor::End, text).class("name"));
                }
            }
            Labels::Above => {
                let first = top - self.height(label) + 10.0;
                for (n, line) in lines(label).iter().enumerate() {
                    let y = first + LABEL_LINE * n as f64;
                    svg.push(svg::text(self.left(), 5.0, y, Anchor::Start, line).class("name"));
                }
            }
        }
    }
}

/// Splits a label at a space, or after a hyphen or a slash, into two lines that fit in the gutter, the first
/// one as long as possible. The second line of a short label is empty. Returns `None` if two lines are too
/// few.
fn halves(label: &str) -> Option<(&str, &str)> {
    let fits = |text: &str| text.chars().count() <= GUTTER_LETTERS;
    if fits(label) {
        return Some((label, ""));
    }
    let places = label.char_indices().filter(|(_, letter)| matches!(letter, ' ' | '-' | '/'));
    let split = |(at, _): (usize, char)| (label[..=at].trim_end(), label[at + 1..].trim_start());
    places.rev().map(split).find(|(first, second)| fits(first) && fits(second))
}

/// Wraps the label at [`ROW_LETTERS`]. Breaks longer words.
pub(crate) fn lines(label: &str) -> Vec<String> {
    let mut lines: Vec<String> = vec![];
    for word in label.split_whitespace() {
        let mut word: Vec<char> = word.chars().collect();
        let length = |line: &String| line.chars().count();
        match lines.last_mut().filter(|line| length(line) + 1 + word.len() <= ROW_LETTERS) {
            Some(line) => line.extend([' '].into_iter().chain(word)),
            None => {
                while word.len() > ROW_LETTERS {
                    let rest = word.split_off(ROW_LETTERS);
                    lines.push(word.into_iter().collect());
                    word = rest;
                }
                lines.push(word.into_iter().collect());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_label_lies_on_its_row_in_two_lines() {
        let steps = ["write-random-4k-untouched", "read-random-4k"];
        let labels = Labels::on_rows(steps.into_iter());
        assert_eq!(labels, Labels::Wrapped);
        let mut drawing = element("svg");
        labels.draw(&mut drawing, steps[0], 100.0, 19.0);
        let text = drawing.to_string();
        // The baselines lie on both sides of the middle at 109.5.
        assert!(text.contains("y=\"103.5\"") && text.contains("y=\"116.5\""), "{text}");
        assert!(text.contains(">write-random-4k-<") && text.contains(">untouched<"), "{text}");
        assert_eq!(Labels::on_rows(["short"].into_iter()), Labels::of(["short"].into_iter()));
        assert_eq!(
            Labels::on_rows(["one word that has more than forty letters in it"].into_iter()),
            Labels::Above
        );
    }
}
