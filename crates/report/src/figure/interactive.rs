//! The data of an interactive chart, which the script of a page draws with uPlot in place of the static drawing.
//!
//! The data is JSON in the attribute `data-charts` of the element around the drawing. Numbers are rounded to five
//! digits. Charts with the same `link` show the same part of their horizontal axis.

use crate::markup::{Element, element};
use serde_json::{Value, json};

/// An axis with its unit, linear or logarithmic.
///
/// The script formats values in `ns` as durations, and values in `B/s` as rates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Axis {
    pub(crate) unit: String,
    pub(crate) logarithmic: bool,
    /// True if the axis is linear around zero and logarithmic on both sides of it.
    pub(crate) symmetric: bool,
}

impl Axis {
    pub(crate) fn linear(unit: impl Into<String>) -> Axis {
        Axis { unit: unit.into(), logarithmic: false, symmetric: false }
    }
    pub(crate) fn logarithmic(unit: impl Into<String>) -> Axis {
        Axis { unit: unit.into(), logarithmic: true, symmetric: false }
    }
    /// Returns an axis for values of both signs: linear, or symmetric and logarithmic if the largest value would flatten
    /// most others.
    #[cfg(feature = "fit")]
    pub(crate) fn for_changes(unit: &str, values: impl Iterator<Item = f64>) -> Axis {
        let mut sizes: Vec<f64> = values.map(f64::abs).filter(|size| size.is_finite()).collect();
        sizes.sort_by(f64::total_cmp);
        let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
        let greatest = sizes.last().copied().unwrap_or(0.0);
        Axis { symmetric: greatest > FLATTENED * median.max(1.0), ..Axis::linear(unit) }
    }
}

/// Ratio of the largest change to the median beyond which a linear axis would flatten most changes.
#[cfg(feature = "fit")]
const FLATTENED: f64 = 20.0;

/// The form in which points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Line,
    Dashed,
    Dotted,
    Dots,
    Rings,
    Diamonds,
    /// An area from one value to another.
    Band,
}

impl Form {
    fn name(self) -> &'static str {
        match self {
            Form::Line => "line",
            Form::Dashed => "dashed",
            Form::Dotted => "dotted",
            Form::Dots => "dots",
            Form::Rings => "rings",
            Form::Diamonds => "diamonds",
            Form::Band => "band",
        }
    }
}

/// Points of a series in one form.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    form: Form,
    /// Name beside the value, if it is not that of the series: `published`.
    name: String,
    xs: Vec<f64>,
    ys: Vec<f64>,
    /// Upper ends of a [`Form::Band`].
    highs: Vec<f64>,
}

impl Part {
    pub(crate) fn new(
        form: Form,
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Part {
        let finite = points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        let (xs, ys) = finite.unzip();
        Part { form, name: name.into(), xs, ys, highs: vec![] }
    }

    /// Returns the area between the second and the third value of each point over the first.
    pub(crate) fn band(points: impl IntoIterator<Item = (f64, f64, f64)>) -> Part {
        let mut part = Part::new(Form::Band, "", []);
        for (x, low, high) in points.into_iter().filter(|(x, a, b)| (x + a + b).is_finite()) {
            part.xs.push(x);
            part.ys.push(low);
            part.highs.push(high);
        }
        part
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.xs.is_empty()
    }

    fn json(&self) -> Value {
        json!({
            "form": self.form.name(),
            "name": self.name,
            "xs": rounded(&self.xs),
            "ys": rounded(&self.ys),
            "highs": rounded(&self.highs),
        })
    }
}

/// A series that the reader can switch on and off.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// CSS variable of the colour: `--s0`.
    pub(crate) colour: String,
    /// True if the series is off at first.
    pub(crate) hidden: bool,
    pub(crate) parts: Vec<Part>,
}

impl Line {
    /// Returns a series in one of the series colours.
    pub(crate) fn new(name: impl Into<String>, colour: usize, parts: Vec<Part>) -> Line {
        Line { name: name.into(), colour: format!("--s{}", colour % super::LINES), hidden: false, parts }
    }
}

/// An interactive chart.
#[derive(Clone, Debug)]
pub(crate) struct Chart(Value);

impl Chart {
    /// Returns a chart of lines.
    pub(crate) fn lines(label: &str, link: &str, x: &Axis, y: &Axis, lines: &[Line]) -> Chart {
        let series = lines.iter().map(|line| {
            json!({
                "name": line.name,
                "colour": line.colour,
                "hidden": line.hidden,
                "parts": line.parts.iter().map(Part::json).collect::<Vec<_>>(),
            })
        });
        Chart(json!({
            "kind": "lines",
            "label": label,
            "link": link,
            "x": axis(x),
            "y": axis(y),
            "series": series.collect::<Vec<_>>(),
        }))
    }

    /// Returns the chart with a title and the quantities of its axes above it, for a chart that is not the first of its
    /// figure.
    pub(crate) fn with_caption(self, title: &str, subtitle: &str) -> Chart {
        let Chart(mut chart) = self;
        chart["title"] = json!(title);
        chart["subtitle"] = json!(subtitle);
        Chart(chart)
    }

    /// Returns a chart whose places on the horizontal axis have names instead of values.
    #[cfg(feature = "fit")]
    pub(crate) fn over_names(label: &str, link: &str, names: &[&str], y: &Axis, lines: &[Line]) -> Chart {
        let Chart(mut chart) = Chart::lines(label, link, &Axis::linear(""), y, lines);
        chart["names"] = json!(names);
        Chart(chart)
    }

    /// Returns a heat map: columns of equal width from zero on, rows between `edges`, and the count of each cell that
    /// is not empty as (column, row, count).
    pub(crate) fn heat(
        label: &str,
        link: &str,
        (x, width, columns): (&Axis, f64, usize),
        (y, edges): (&Axis, &[f64]),
        cells: &[(usize, usize, u64)],
    ) -> Chart {
        let cells: Vec<u64> =
            cells.iter().flat_map(|&(column, row, count)| [column as u64, row as u64, count]).collect();
        Chart(json!({
            "kind": "heat",
            "label": label,
            "link": link,
            "x": axis(x),
            "y": axis(y),
            "width": width,
            "columns": columns,
            "edges": rounded(edges),
            "cells": cells,
        }))
    }
}

fn axis(axis: &Axis) -> Value {
    json!({ "unit": axis.unit, "log": axis.logarithmic, "symmetric": axis.symmetric })
}

fn rounded(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| format!("{value:.4e}").parse().unwrap_or(*value)).collect()
}

/// Returns an element with a static drawing and its legend, which the script of the page replaces with `charts`.
pub(crate) fn holder(charts: &[Chart], drawing: impl IntoIterator<Item = Element>) -> Element {
    let charts: Vec<&Value> = charts.iter().map(|Chart(chart)| chart).collect();
    element("div").class("interactive").attr(HOLDER, json!(charts)).children(drawing)
}

/// Attribute of the elements that contain interactive charts.
pub(crate) const HOLDER: &str = "data-charts";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_values_that_are_not_finite_are_left_out() {
        let part = Part::new(Form::Line, "", [(1.0, 1.0 / 3.0), (2.0, f64::NAN), (3.0, 123_456_789.0)]);
        assert_eq!(
            part.json().to_string(),
            r#"{"form":"line","name":"","xs":[1.0,3.0],"ys":[0.33333,123460000.0],"highs":[]}"#
        );
        let band = Part::band([(1.0, 2.0, 3.0), (2.0, 3.0, f64::INFINITY)]);
        assert_eq!((band.xs, band.ys, band.highs), (vec![1.0], vec![2.0], vec![3.0]));
    }

    #[cfg(feature = "fit")]
    #[test]
    fn a_few_large_changes_make_the_axis_symmetric() {
        let axis = |values: &[f64]| Axis::for_changes("%", values.iter().copied()).symmetric;
        assert!(axis(&[0.1, -0.2, 0.3, 1700.0]) && axis(&[-3.0, 2.0, -100.0]));
        assert!(!axis(&[0.1, -0.2, 0.3]) && !axis(&[50.0, -60.0, 300.0]) && !axis(&[]));
    }
}
