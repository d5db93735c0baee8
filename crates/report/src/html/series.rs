//! Figures over time or over iterations.

use super::{Section, comparison::interactive};
use crate::{figure::series, markup::element};
use flashlab_lab::results::Results;

pub(super) fn section(results: &Results) -> Option<Section> {
    let figures: Vec<_> = series::groups(results)
        .iter()
        .map(|group| interactive(&series::figure(group), &[series::interactive(group, &series::link(group))]))
        .collect();
    (!figures.is_empty()).then(|| Section {
        id: "series",
        title: "Over time",
        short: "Time",
        intro: None,
        body: vec![element("div").class("grid2").children(figures)],
    })
}
