//! The cells as CSV (RFC 4180): one header, one record a cell, CRLF between them, every field of a cell.
//!
//! Mechanisms become two columns each, nanoseconds a request (`bus_ns`) and in all (`bus_ns_total`), in the order in
//! which the cells name them. A field that a cell lacks is empty. Numbers carry all their digits.

use flashlab_lab::results::{Cell, Mechanisms, Published, Results};

/// The columns before the mechanisms.
const LEADING: [&str; 15] = [
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
    "error_percent",
    "requests",
    "latency_ns_mean",
];

/// The columns after the mechanisms.
const TRAILING: [&str; 4] = ["tail_p99_ns", "tail_p99_9_ns", "tail_max_ns", "tail_logger_buffer_bytes"];

/// All cells of `results`.
pub fn cells(results: &Results) -> String {
    let mechanisms = mechanism_names(results);
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let mut header: Vec<String> = LEADING.iter().map(ToString::to_string).collect();
    header.extend(mechanisms.iter().map(|name| format!("{name}_ns")));
    header.extend(mechanisms.iter().map(|name| format!("{name}_ns_total")));
    header.extend(TRAILING.iter().map(ToString::to_string));
    writer.write_record(&header).expect("a record of strings fits into memory");
    for cell in &results.cells {
        writer.write_record(record(results, cell, &mechanisms)).expect("each record has the header's length");
    }
    let bytes = writer.into_inner().expect("memory is written without errors");
    String::from_utf8(bytes).expect("every field was a string")
}

/// The mechanisms of any cell, in order of first appearance.
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
    let mut published: [String; 4] = Default::default();
    match &cell.published {
        Some(Published::Figure { mean, sd }) => {
            published[0] = mean.to_string();
            published[1] = optional(*sd);
        }
        Some(Published::Below { below }) => published[2] = below.to_string(),
        Some(Published::Text { text }) => published[3].clone_from(text),
        None => {}
    }
    let mut fields = vec![
        results.experiment.clone(),
        cell.table.clone(),
        cell.row.clone(),
        cell.column.clone(),
        cell.unit.clone(),
    ];
    fields.extend(published);
    fields.extend([
        cell.simulated.mean.to_string(),
        cell.simulated.sd.to_string(),
        cell.role.name().to_string(),
        optional(cell.error_percent),
        cell.requests.to_string(),
        cell.latency_ns_mean.to_string(),
    ]);
    fields.extend(mechanisms.iter().map(|name| of(&cell.mechanisms, name)));
    fields.extend(mechanisms.iter().map(|name| of(&cell.mechanism_ns_totals, name)));
    let tail = cell.tail.map(|t| [t.p99_ns, t.p99_9_ns, t.max_ns, t.logger_buffer_bytes]);
    fields.extend((0..TRAILING.len()).map(|i| optional(tail.map(|t| t[i]))));
    fields
}

fn of<T: ToString>(mechanisms: &Mechanisms<T>, name: &str) -> String {
    optional(mechanisms.0.iter().find(|(n, _)| *n == name).map(|(_, value)| value.to_string()))
}

fn optional(value: Option<impl ToString>) -> String {
    value.map(|v| v.to_string()).unwrap_or_default()
}
