//! Sweeps: small charts of all curves for comparison, then each curve with a description of its shape, its figures as a
//! table, and the latency of its points by mechanism.

use super::{
    Section,
    comparison::{framed, interactive},
    notes, tables,
};
use crate::{
    figure::{curves, latency},
    markup::{Element, element},
    number, shape,
};
use flashlab_lab::results::{Curve, CurveSeries, Published, Results};

pub(super) fn section(results: &Results) -> Option<Section> {
    let mut body = vec![];
    let multiples = curves::multiples(results);
    if !multiples.is_empty() {
        body.push(element("div").class("multiples").children(multiples.iter().map(framed)));
    }
    body.extend(results.curves.iter().enumerate().map(|(i, curve)| whole(results, i, curve)));
    (!results.curves.is_empty()).then(|| Section {
        id: "curves",
        title: "Over the range",
        short: "Curves",
        intro: Some(
            "Lines are simulated. A filled point is a prediction if a diamond belongs to it, and otherwise has no \
             measurement; an open point was fitted, so its agreement proves nothing. A diamond is a measurement on \
             hardware; where the simulation agrees, the point lies in its middle. Dashed lines are variants of the \
             model, not of the device."
                .into(),
        ),
        body,
    })
}

fn whole(results: &Results, i: usize, curve: &Curve) -> Element {
    let sentences = curve.series.iter().filter_map(|series| {
        let sentence = shape::sentence(curve, series)?;
        Some(element("li").child(element("b").text(&series.name)).text(format!(": {sentence}")))
    });
    let words = element("div")
        .class("words-of-curve")
        .child(element("ul").class("note").children(sentences))
        .child(element("p").class("soft").text(shape::roles(curve)))
        .children(curve.notes.iter().map(|note| notes::paragraph(note)));
    let figures =
        element("details").child(element("summary").text("The figures as a table")).child(table(curve));
    let mut html = interactive(&curves::figure(curve), &curves::interactive(curve))
        .attr("id", format!("curve-{i}"))
        .child(words)
        .child(figures);
    let latencies = latency::of_chart(results, &curve.chart);
    if !latencies.is_empty() {
        let bars = latencies.iter().map(|(_, figure)| element("div").children(framed_flat(figure)));
        html.push(
            element("details")
                .child(element("summary").text("Where a request's time goes at each point"))
                .child(element("p").class("soft").text(
                    "A bar is the processing time of a request. The number after it also gives the mean latency; the \
                     difference is the time spent waiting behind other requests.",
                ))
                .child(element("div").class("grid2").children(bars)),
        );
    }
    html
}

/// Returns the heading, legend and drawing of a figure, without a frame, for use inside another figure.
fn framed_flat(figure: &crate::figure::Figure) -> Vec<Element> {
    let heading = element("p").class("flat").child(element("b").text(&figure.title));
    let keys = figure.legend.iter().map(crate::figure::Key::html);
    vec![heading, element("ul").class("legend").children(keys), figure.svg.clone()]
}

/// Returns a table with one row per x value and one column per series. Published figures follow the simulated ones in
/// brackets.
fn table(curve: &Curve) -> Element {
    let mut columns: Vec<(&str, bool)> = vec![(curve.x_unit.as_str(), true)];
    columns.extend(curve.series.iter().map(|series| (series.name.as_str(), true)));
    let rows = places(curve).into_iter().map(|x| {
        let head = element("th").attr("scope", "row").class("n").text(number::written(x));
        element("tr")
            .child(head)
            .children(curve.series.iter().map(|series| tables::number(figures_at(series, x))))
    });
    let caption = format!("{}: {}; in brackets: published", curve.chart, curve.y_unit);
    let html = element("table")
        .child(element("caption").text(&caption))
        .child(tables::head(&columns))
        .child(element("tbody").children(rows));
    tables::scrolling(&caption, html)
}

/// Returns all x values at which a curve has a figure, in ascending order.
pub(crate) fn places(curve: &Curve) -> Vec<f64> {
    let of = |series: &CurveSeries| -> Vec<f64> {
        series.points.iter().map(|p| p.x).chain(series.published.iter().map(|p| p.x)).collect()
    };
    let mut places: Vec<f64> = curve.series.iter().flat_map(of).filter(|x| x.is_finite()).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    places
}

/// Returns the figures of a series at `x`: `50.3 (50)`, `9.84 (< 10)`, `33.1`.
pub(crate) fn figures_at(series: &CurveSeries, x: f64) -> String {
    let simulated = series.points.iter().find(|point| point.x == x);
    let mut text = simulated.map_or(String::new(), |point| number::compact(point.y));
    let published = series.published.iter().find(|point| point.x == x);
    let published = published.and_then(|point| match point.figure {
        Published::Figure { mean, .. } => Some(number::written(mean)),
        Published::Below { below } => Some(number::below(number::written(below))),
        Published::Text { .. } => None,
    });
    if let Some(published) = published {
        let space = if text.is_empty() { "" } else { " " };
        text += &format!("{space}({published})");
    }
    text
}

/// Returns the link to the curve that shows the cells of `table`.
pub(super) fn link(results: &Results, table: &str) -> Option<String> {
    results.curves.iter().position(|curve| curve.chart == table).map(|i| format!("#curve-{i}"))
}
