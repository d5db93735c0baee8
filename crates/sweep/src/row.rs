//! Rows of results.

use crate::point::{Point, Value};
use flashlab_lab::bench::refusal;
use flashlab_lab::job_run::JobRun;
use std::collections::BTreeMap;

/// Percentiles of the completion latency in a row.
const PERCENTILES: [(f64, &str); 5] = [
    (50.0, "latency_ns_p50"),
    (90.0, "latency_ns_p90"),
    (99.0, "latency_ns_p99"),
    (99.9, "latency_ns_p99_9"),
    (100.0, "latency_ns_max"),
];

/// A value in a row.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// A number.
    Number(f64),
    /// A count.
    Count(i64),
    /// A text.
    Text(String),
}

/// The result of one point. The columns are the key, the names of the point, and the figures.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
    /// Hash of all inputs.
    pub key: String,
    /// Names and values of the point.
    pub point: Vec<(String, Cell)>,
    /// Figures by name. A figure without a value is absent.
    pub figures: BTreeMap<String, Cell>,
}

impl Row {
    /// Returns the row of a run.
    pub(crate) fn of(key: String, point: &Point, run: &JobRun) -> Row {
        let mut row = Row { key, point: cells(point), figures: BTreeMap::new() };
        let latencies = run.latencies();
        row.count("requests", run.requests());
        row.count("bytes", run.bytes());
        row.count("runtime_ms", run.runtime_ms());
        row.number("iops", run.requests_per_second());
        row.number("bytes_per_second", run.bytes_per_second());
        if latencies.count() > 0 {
            row.number("latency_ns_mean", latencies.mean_ns());
            for (percent, name) in PERCENTILES {
                row.count(name, latencies.percentile(percent).min(latencies.max()).as_ns());
            }
            for (name, ns) in run.mechanisms_ns() {
                row.number(&format!("{name}_ns"), ns);
            }
        }
        let counted = &run.counted;
        row.count("host_written_bytes", counted.host_written_bytes);
        row.count("programmed_bytes", counted.programmed_bytes);
        row.count("erases", counted.erase_count);
        row.count("collections", counted.collection_count);
        for (name, figure) in [
            ("write_amplification", counted.write_amplification),
            ("effective_spare", counted.effective_spare),
            ("lifetime_left_percent", counted.lifetime_left_percent),
        ] {
            if let Some(figure) = figure {
                row.number(name, figure);
            }
        }
        if let Some(refusal) = refusal(&run.reports) {
            row.figures.insert("error".into(), Cell::Text(refusal.to_string()));
        }
        row
    }

    /// Returns the row of a run that failed before it had figures.
    pub(crate) fn of_error(key: String, point: &Point, error: String) -> Row {
        Row { key, point: cells(point), figures: [("error".to_owned(), Cell::Text(error))].into() }
    }

    /// Returns the reason why the run of this point failed or ended early.
    pub fn error(&self) -> Option<&str> {
        match self.figures.get("error") {
            Some(Cell::Text(text)) => Some(text),
            _ => None,
        }
    }

    fn number(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), Cell::Number(value));
    }
    fn count(&mut self, name: &str, value: u64) {
        self.figures.insert(name.to_owned(), Cell::Count(i64::try_from(value).unwrap_or(i64::MAX)));
    }
}

fn cells(point: &Point) -> Vec<(String, Cell)> {
    let cell = |value: &Value| match value {
        Value::Number(number) => Cell::Number(*number),
        flag @ Value::Flag(_) => Cell::Text(flag.to_string()),
        Value::Text(text) => Cell::Text(text.clone()),
    };
    point.0.iter().map(|(name, value)| (name.clone(), cell(value))).collect()
}
