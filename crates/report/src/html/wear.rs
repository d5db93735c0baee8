//! The wear of each device: a map of erase counts and a histogram of them.

use super::{Section, comparison::framed};
use crate::{
    figure::{wear_histogram, wear_map},
    markup::element,
    number,
};
use flashlab_fio::explain::capitalised;
use flashlab_lab::results::Results;

/// Number of maps that are shown unfolded.
const OPEN: usize = 2;

pub(super) fn section(results: &Results) -> Option<Section> {
    let body = results.wear.iter().enumerate().map(|(i, map)| {
        let mut text = format!("{}.", capitalised(&wear_map::spread(map)));
        if let Some(rated) = map.rated_cycles {
            text += &format!(" A block is rated for {} erases.", number::fixed(f64::from(rated), 0));
        }
        text += &match map.bad.len() {
            0 => " No block is out of use.".to_string(),
            n => format!(" {} {} out of use.", number::plural(n, "block"), if n == 1 { "is" } else { "are" }),
        };
        let mut pair = element("div").class("grid2").child(framed(&wear_map::figure(map)));
        if !map.erase_counts.is_empty() {
            pair.push(framed(&wear_histogram::figure(map)));
        }
        let summary = element("summary").child(element("b").text(&map.name)).text(format!(". {text}"));
        let part = element("details").class("fold worn");
        let part = if i < OPEN { part.attr("open", "open") } else { part };
        part.child(summary).child(pair)
    });
    (!results.wear.is_empty()).then(|| Section {
        id: "wear",
        title: "Wear, block by block",
        short: "Wear",
        intro: Some(
            "Each cell is an erase block or, on a device with many blocks, the most worn of several neighbours, in the \
             order of block numbers. The colours of a map begin at zero and end at its greatest count, so an evenly \
             worn device has an even colour. The histogram beside the map shows the same blocks by their erase counts."
                .into(),
        ),
        body: body.collect(),
    })
}
