//! Cells as CSV (RFC 4180): one header and one record per cell, separated by CRLF.
//!
//! Each mechanism has two columns, nanoseconds per request (`bus_ns`) and total nanoseconds (`bus_ns_total`), in the
//! order in which the cells list mechanisms. A field that a cell lacks is empty. Numbers have all their digits.
//!
//! Curves, series and erase blocks have separate files with one record per point or block. [`files`] returns all files
//! of a run.

use crate::figure::wear_map;
use flashlab_lab::results::{Cell, Mechanisms, Published, Results};
use std::fmt::Display;

/// The columns before the mechanisms.
const LEADING: [&str; 16] = [
    "experiment",
    "table",
    "row",
    "column",
    "unit",
    "published_mean",
    "published_sd",
    "published_below",
    "published_text",
    "simulated_mean",
    "simulated_sd",
    "role",
    "has_measurement",
    "error_percent",
    "requests",
    "latency_ns_mean",
];

/// The columns after the mechanisms.
const TRAILING: [&str; 4] = ["tail_p99_ns", "tail_p99_9_ns", "tail_max_ns", "tail_logger_buffer_bytes"];

/// The last columns of runs that compare cells with closed forms or published simulations.
const REFERENCE: [&str; 4] =
    ["reference_kind", "reference_name", "reference_mean", "reference_error_percent"];

/// Returns the files of `results`, by name. Omits the files for which a run has no data.
pub fn files(results: &Results) -> Vec<(&'static str, String)> {
    let mut files = vec![("cells.csv", cells(results))];
    if !results.curves.is_empty() {
        files.push(("curves.csv", curves(results)));
    }
    if !results.series.is_empty() {
        files.push(("series.csv", series(results)));
    }
    if !results.wear.is_empty() {
        files.push(("wear.csv", wear(results)));
    }
    files
}

/// Returns all cells of `results`.
pub fn cells(results: &Results) -> String {
    let mechanisms = mechanism_names(results);
    let mut header: Vec<String> = LEADING.iter().map(ToString::to_string).collect();
    header.extend(mechanisms.iter().map(|name| format!("{name}_ns")));
    header.extend(mechanisms.iter().map(|name| format!("{name}_ns_total")));
    header.extend(TRAILING.iter().map(ToString::to_string));
    let has_references = results.cells.iter().any(|cell| cell.reference.is_some());
    if has_references {
        header.extend(REFERENCE.iter().map(ToString::to_string));
    }
    let record = |cell| {
        let mut fields = record(results, cell, &mechanisms);
        fields.extend(has_references.then(|| reference(cell)).into_iter().flatten());
        fields
    };
    file(&header, results.cells.iter().map(record))
}

/// Returns the points of all curves. A record has the simulated and the published figure at one `x`, and the shares of
/// map look-ups there if they are known.
pub fn curves(results: &Results) -> String {
    let header = [
        "experiment",
        "chart",
        "series",
        "is_variant",
        "x",
        "x_unit",
        "y_unit",
        "published_mean",
        "published_sd",
        "published_below",
        "published_text",
        "simulated",
        "role",
        "map_hit_sram",
        "map_hit_hmb",
        "map_miss",
    ];
    let mut records = vec![];
    for curve in &results.curves {
        for series in &curve.series {
            let published_only =
                series.published.iter().map(|p| p.x).filter(|x| !series.points.iter().any(|p| p.x == *x));
            let mut places: Vec<f64> = series.points.iter().map(|p| p.x).chain(published_only).collect();
            places.sort_by(f64::total_cmp);
            places.dedup();
            records.extend(places.into_iter().map(|x| {
                let point = series.points.iter().find(|point| point.x == x);
                let there = series.published.iter().find(|point| point.x == x);
                let hits = series.map_hits.iter().find(|hits| hits.x == x);
                let mut record = vec![
                    results.experiment.clone(),
                    curve.chart.clone(),
                    series.name.clone(),
                    series.variant.to_string(),
                    x.to_string(),
                    curve.x_unit.clone(),
                    curve.y_unit.clone(),
                ];
                record.extend(published(there.map(|point| &point.figure)));
                record.push(optional(point.map(|point| point.y)));
                record.push(optional(point.map(|point| point.role.name())));
                record
                    .extend([hits.map(|h| h.sram), hits.map(|h| h.hmb), hits.map(|h| h.miss)].map(optional));
                record
            }));
        }
    }
    file(&header, records)
}

/// Returns the points of all series.
pub fn series(results: &Results) -> String {
    let header = ["experiment", "name", "step", "column", "x", "x_unit", "y", "unit"];
    let records = results.series.iter().flat_map(|series| {
        series.points.iter().map(|(x, y)| {
            [&results.experiment, &series.name, &series.step, &series.column, &x.to_string(), &series.x_unit]
                .map(String::clone)
                .into_iter()
                .chain([y.to_string(), series.unit.clone()])
                .collect()
        })
    });
    file(&header, records)
}

/// Returns the erase count of every block of every map.
pub fn wear(results: &Results) -> String {
    let header = ["experiment", "name", "block", "erase_count", "is_bad"];
    let records = results.wear.iter().flat_map(|map| {
        map.erase_counts.iter().zip(wear_map::bad_flags(map)).enumerate().map(|(block, (count, is_bad))| {
            vec![
                results.experiment.clone(),
                map.name.clone(),
                block.to_string(),
                count.to_string(),
                is_bad.to_string(),
            ]
        })
    });
    file(&header, records)
}

/// Returns a file with a header and records of the same length.
///
/// # Panics
/// Panics if the length of a record differs from that of the header.
pub fn file(header: &[impl AsRef<[u8]>], records: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    writer.write_record(header).expect("a record of strings fits into memory");
    for record in records {
        writer.write_record(record).expect("each record has the header's length");
    }
    let bytes = writer.into_inner().expect("memory is written without errors");
    String::from_utf8(bytes).expect("every field was a string")
}

/// Returns the fields of a published figure: mean, standard deviation, bound and text.
fn published(figure: Option<&Published>) -> [String; 4] {
    let mut fields: [String; 4] = Default::default();
    match figure {
        Some(Published::Figure { mean, sd }) => {
            fields[0] = mean.to_string();
            fields[1] = optional(*sd);
        }
        Some(Published::Below { below }) => fields[2] = below.to_string(),
        Some(Published::Text { text }) => fields[3].clone_from(text),
        None => {}
    }
    fields
}

/// Returns the mechanisms of all cells, in order of first appearance.
fn mechanism_names(results: &Results) -> Vec<&'static str> {
    let mut names = Vec::new();
    for cell in &results.cells {
        let shares = cell.mechanisms.0.iter().map(|(name, _)| *name);
        for name in shares.chain(cell.mechanism_ns_totals.0.iter().map(|(name, _)| *name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

fn record(results: &Results, cell: &Cell, mechanisms: &[&str]) -> Vec<String> {
    let mut fields = vec![
        results.experiment.clone(),
        cell.table.clone(),
        cell.row.clone(),
        cell.column.clone(),
        cell.unit.clone(),
    ];
    fields.extend(published(cell.published.as_ref()));
    fields.extend([
        cell.simulated.mean.to_string(),
        cell.simulated.sd.to_string(),
        cell.role.name().to_string(),
        cell.is_measured().to_string(),
        optional(cell.error_percent),
        cell.requests.to_string(),
        cell.latency_ns_mean.to_string(),
    ]);
    fields.extend(mechanisms.iter().map(|name| of(&cell.mechanisms, name)));
    fields.extend(mechanisms.iter().map(|name| of(&cell.mechanism_ns_totals, name)));
    fields.extend([
        optional(cell.tail.map(|tail| tail.p99_ns)),
        optional(cell.tail.map(|tail| tail.p99_9_ns)),
        optional(cell.tail.map(|tail| tail.max_ns)),
        optional(cell.tail.and_then(|tail| tail.logger_buffer_bytes)),
    ]);
    fields
}

fn reference(cell: &Cell) -> [String; REFERENCE.len()] {
    let found = cell.reference.as_ref();
    [
        optional(found.map(|found| found.kind.name())),
        optional(found.map(|found| &found.name)),
        optional(found.map(|found| found.mean)),
        optional(found.map(|found| found.error_percent)),
    ]
}

fn of<T: Display>(mechanisms: &Mechanisms<T>, name: &str) -> String {
    optional(mechanisms.0.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string()))
}

fn optional(value: Option<impl Display>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}
