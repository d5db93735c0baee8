//! The comparison of published and simulated figures: bar charts, tables, and errors.

use super::{Section, tables};
use crate::{
    figure::{
        self, Figure, bars, chart, errors,
        interactive::{Chart, holder},
    },
    grid,
    markup::{Element, element},
};
use flashlab_lab::results::{Published, ReferenceKind, Results};

pub(super) fn figures(results: &Results) -> Option<Section> {
    let all = grid::tables(results);
    let figures: Vec<Element> = chart::charts(results)
        .iter()
        .map(|chart| {
            let shown = all.iter().filter(|table| chart.tables.contains(&table.name));
            let tables = shown.map(|table| tables::comparison(table, chart.row));
            let details =
                element("details").child(element("summary").text("The figures as a table")).children(tables);
            framed(&bars::figure(chart)).child(details)
        })
        .collect();
    let (title, intro) = if results.has_published() {
        (
            "Measured and simulated",
            "Solid bars were measured on hardware. A hatched bar beside a solid one is a prediction; without one, it has \
             no measurement. Hollow bars were fitted, so their agreement proves nothing. The number after a simulated bar \
             is its error.",
        )
    } else if has(results, ReferenceKind::Measurement) {
        (
            "Measured and simulated, as bars",
            "Solid bars are measurements. Hollow bars were fitted on them, so their agreement proves nothing; the column \
             \"left out\" above is the error of a prediction. The number after a simulated bar is its error.",
        )
    } else if has(results, ReferenceKind::ClosedForm) || has(results, ReferenceKind::Simulation) {
        (
            "Closed form and simulated",
            "Solid bars are closed forms or published simulations, which are theory and not measurements on hardware. \
             Hatched bars were simulated here without any adjusted number; the percentage after a bar is its error. A \
             figure without a solid bar has no closed form.",
        )
    } else {
        ("Simulated", "Every bar was simulated; no measurement of these figures has been published.")
    };
    let intro = format!("{intro}{}", whiskers(results));
    (!figures.is_empty()).then(|| Section {
        id: "figures",
        title,
        short: "Figures",
        intro: Some(intro),
        body: vec![element("div").class("grid2").children(figures)],
    })
}

/// Returns the sentence on the whiskers; an empty text if no bar has any.
fn whiskers(results: &Results) -> &'static str {
    let is_above_zero = |sd: Option<f64>| sd.is_some_and(|sd| sd > 0.0);
    let of_runs = results.cells.iter().any(|cell| cell.simulated.sd > 0.0);
    let of_source = results.cells.iter().any(|cell| {
        let published = match cell.published {
            Some(Published::Figure { sd, .. }) => sd,
            _ => None,
        };
        is_above_zero(published) || is_above_zero(cell.reference.as_ref().and_then(|found| found.sd))
    });
    match (of_runs, of_source) {
        (true, _) => " Whiskers are one standard deviation over the runs.",
        (false, true) => " Whiskers are one standard deviation, where the source states it.",
        (false, false) => "",
    }
}

/// Returns true if a cell has a reference of this kind.
fn has(results: &Results, kind: ReferenceKind) -> bool {
    results.cells.iter().filter_map(|cell| cell.reference.as_ref()).any(|found| found.kind == kind)
}

pub(super) fn errors(results: &Results) -> Option<Section> {
    let figures: Vec<Element> = errors::figures(results).iter().map(framed).collect();
    (!figures.is_empty()).then(|| Section {
        id: "errors",
        title: "Errors",
        short: "Errors",
        intro: Some(
            "The error of each cell in percent of the figure beside it, all on one axis. A filled dot is a prediction, a \
             ring a fit. The band behind a row is the published standard deviation; upright marks are the bound on the \
             cell."
                .into(),
        ),
        body: vec![element("div").class("grid2").children(figures)],
    })
}

/// Returns the figure with its caption and legend.
pub(super) fn framed(figure: &Figure) -> Element {
    element("figure").child(caption(figure)).children(drawing(figure))
}

/// Returns the figure with its caption. The script of the page replaces its legend and drawing with `charts`.
pub(super) fn interactive(figure: &Figure, charts: &[Chart]) -> Element {
    element("figure").child(caption(figure)).child(holder(charts, drawing(figure)))
}

fn caption(figure: &Figure) -> Element {
    element("figcaption")
        .child(element("h3").text(&figure.title))
        .child(element("span").class("unit").text(&figure.subtitle))
}

/// Returns the legend, if the figure has one, and the drawing.
fn drawing(figure: &Figure) -> impl Iterator<Item = Element> {
    let keys = figure.legend.iter().map(figure::Key::html);
    let legend = (!figure.legend.is_empty()).then(|| element("ul").class("legend").children(keys));
    legend.into_iter().chain([figure.svg.clone()])
}
