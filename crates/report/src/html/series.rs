//! Figures over time or over iterations.

use super::{Section, comparison::framed};
use crate::{figure::series, markup::element};
use flashlab_lab::results::Results;

pub(super) fn section(results: &Results) -> Option<Section> {
    let figures = series::figures(results);
    (!figures.is_empty()).then(|| Section {
        id: "series",
        title: "Over time",
        short: "Time",
        intro: None,
        body: vec![element("div").class("grid2").children(figures.iter().map(framed))],
    })
}
