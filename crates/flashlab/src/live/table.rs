//! Results of a live experiment as a table, as JSON and as CSV.

use super::Outcome;
use serde_json::{Value, json};
use std::fmt::Write;

/// Note on live figures, part of every output.
pub(super) const LIVE: &str = "live: measured on a real machine, so figures differ from run to run and have no digest; compare ratios within one run";

impl Outcome {
    /// Returns the results as a table for people.
    pub(crate) fn table(&self, title: &str, reference: &str) -> String {
        let mut text = format!("{title}\n{LIVE}.\n\n");
        for (name, value) in &self.setup {
            writeln!(text, "{name:<20} {value}").expect("a string takes all");
        }
        let base = format!("/ {reference}");
        let head = ["", "attached", "read MiB/s", "write MiB/s", &base, "published", "", &base];
        let number = |value: Option<f64>, decimals: usize| {
            value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
        };
        let mut lines = vec![head.map(str::to_owned)];
        for (row, (measured, published)) in self.rows.iter().zip(self.ratios(reference)) {
            let (median, published_rates) = (row.median(), row.published);
            lines.push([
                row.name.clone(),
                row.attached.clone(),
                number(median.map(|median| median.0), 1),
                number(median.map(|median| median.1), 1),
                number(measured, 3),
                number(published_rates.map(|published_rates| published_rates.0), 0),
                number(published_rates.map(|published_rates| published_rates.1), 0),
                number(published, 3),
            ]);
        }
        let width = |n: usize| lines.iter().map(|line| line[n].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        text.push('\n');
        for line in &lines {
            let mut printed = String::new();
            for (n, (word, width)) in line.iter().zip(&widths).enumerate() {
                match n {
                    0 | 1 => write!(printed, "{word:<width$}  "),
                    _ => write!(printed, "{word:>width$}  "),
                }
                .expect("a string takes all");
            }
            writeln!(text, "{}", printed.trim_end()).expect("a string takes all");
        }
        let missing: Vec<String> = self
            .rows
            .iter()
            .filter_map(|row| Some(format!("  {}: {}\n", row.name, row.missing.as_ref()?)))
            .collect();
        if !missing.is_empty() {
            write!(text, "\nnot measured:\n{}", missing.concat()).expect("a string takes all");
        }
        text
    }

    /// Returns the results as JSON.
    pub(crate) fn json(&self, experiment: &str, title: &str, reference: &str) -> String {
        let pair = |pair: Option<(f64, f64)>| {
            pair.map_or(Value::Null, |(read, write)| json!({ "read": read, "write": write }))
        };
        let rows: Vec<Value> = self
            .rows
            .iter()
            .zip(self.ratios(reference))
            .map(|(row, (measured, published))| {
                json!({
                    "row": row.name,
                    "attached": row.attached,
                    "unit": "MiB/s",
                    "measured": pair(row.median()),
                    "runs": row.runs.iter().map(|run| pair(Some(*run))).collect::<Vec<_>>(),
                    "ratio": measured,
                    "published": pair(row.published),
                    "published_ratio": published,
                    "missing": row.missing,
                })
            })
            .collect();
        let setup: serde_json::Map<String, Value> =
            self.setup.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str()))).collect();
        let all = json!({
            "experiment": experiment,
            "title": title,
            "version": env!("CARGO_PKG_VERSION"),
            "live": LIVE,
            "reference": reference,
            "about": setup,
            "rows": rows,
        });
        format!("{all:#}\n")
    }

    /// Returns the results as CSV, one line per row.
    pub(crate) fn csv(&self, reference: &str) -> String {
        let mut text = "row,attached,read MiB/s,write MiB/s,ratio,published read MiB/s,published write MiB/s,published ratio,missing\n"
            .to_owned();
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let quoted = |words: &str| format!("\"{}\"", words.replace('"', "\"\""));
        for (row, (measured, published)) in self.rows.iter().zip(self.ratios(reference)) {
            let (median, published_rates) = (row.median(), row.published);
            let words = [
                quoted(&row.name),
                row.attached.clone(),
                number(median.map(|median| median.0)),
                number(median.map(|median| median.1)),
                number(measured),
                number(published_rates.map(|published_rates| published_rates.0)),
                number(published_rates.map(|published_rates| published_rates.1)),
                number(published),
                quoted(row.missing.as_deref().unwrap_or_default()),
            ];
            writeln!(text, "{}", words.join(",")).expect("a string takes all");
        }
        text
    }
}
