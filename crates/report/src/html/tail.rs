//! The tail of the write latency, which a data logger must expect. No parameter was fitted on it.

use super::{Section, tables};
use crate::{
    grid,
    markup::element,
    number::{self, duration_ns},
};
use flashlab_lab::results::Results;

pub(super) fn section(results: &Results) -> Option<Section> {
    let rows: Vec<_> = results
        .cells
        .iter()
        .filter_map(|cell| {
            let tail = cell.tail?;
            let buffer = tail.logger_buffer_bytes.map_or(number::NONE.into(), number::bytes);
            Some(
                element("tr")
                    .child(tables::row_head(&cell.table))
                    .child(tables::text(&grid::place(cell)))
                    .child(tables::number(duration_ns(tail.mean_ns)))
                    .child(tables::number(duration_ns(tail.p99_ns as f64)))
                    .child(tables::number(duration_ns(tail.p99_9_ns as f64)))
                    .child(tables::number(duration_ns(tail.max_ns as f64)))
                    .child(tables::number(buffer)),
            )
        })
        .collect();
    let count = rows.len();
    if count == 0 {
        return None;
    }
    let columns = [
        ("table", false),
        ("cell", false),
        ("mean", true),
        ("p99", true),
        ("p99.9", true),
        ("maximum", true),
        ("logger's buffer", true),
    ];
    let table = element("table").child(tables::head(&columns)).child(element("tbody").children(rows));
    Some(Section {
        id: "tail",
        title: "Tail of the write latency",
        short: "Tail",
        intro: Some(
            "Completion latencies of writes, beyond the mean. No parameter was fitted on them, since no such figures are \
             published. The last column is the buffer that a data logger needs so that it never waits when it writes at \
             half the cell's mean rate, if the experiment measures it."
                .into(),
        ),
        body: vec![tables::folded_if_long(
            &format!("The tails of {count} cells"),
            count,
            tables::scrolling("Write-latency tail", table),
        )],
    })
}
