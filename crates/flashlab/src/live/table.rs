//! Results of a live experiment as a table, as JSON and as CSV.

use super::{Outcome, Row};
use flashlab_report::csv;
use flashlab_report::terminal::{columns, fitted};
use serde_json::{Value, json};

/// Note on live figures, part of every output.
pub(super) const LIVE: &str = "live: measured on a real machine, so figures differ from run to run and have no digest; compare ratios within one run";

impl Outcome {
    /// Returns the results as a table for people, in lines of at most `width` characters.
    pub(crate) fn table(&self, title: &str, reference: &str, width: usize) -> String {
        let setup: Vec<Vec<&str>> =
            self.setup.iter().map(|(name, value)| vec![name.as_str(), value.as_str()]).collect();
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
        let lines: Vec<Vec<&str>> =
            lines.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        let right: Vec<bool> = (0..head.len()).map(|n| n > 1).collect();
        let missing = self.rows.iter().filter_map(|row| Some((&row.name, row.missing.as_ref()?)));
        let missing: String = missing.map(|(name, why)| format!("  {name}: {why}\n")).collect();
        let missing = if missing.is_empty() {
            missing
        } else {
            format!("\nnot measured:\n{}", fitted(&missing, width))
        };
        format!(
            "{}\n{}\n{}{missing}",
            fitted(&format!("{title}\n{LIVE}."), width),
            columns(&setup, &[false, false], width),
            columns(&lines, &right, width),
        )
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
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let record = |(row, (measured, published)): (&Row, (Option<f64>, Option<f64>))| {
            let (median, published_rates) = (row.median(), row.published);
            vec![
                row.name.clone(),
                row.attached.clone(),
                number(median.map(|median| median.0)),
                number(median.map(|median| median.1)),
                number(measured),
                number(published_rates.map(|published_rates| published_rates.0)),
                number(published_rates.map(|published_rates| published_rates.1)),
                number(published),
                row.missing.clone().unwrap_or_default(),
            ]
        };
        csv::file(&CSV_HEADS, self.rows.iter().zip(self.ratios(reference)).map(record))
    }
}

/// Column headings of the CSV.
const CSV_HEADS: [&str; 9] = [
    "row",
    "attached",
    "read MiB/s",
    "write MiB/s",
    "ratio",
    "published read MiB/s",
    "published write MiB/s",
    "published ratio",
    "missing",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        let row = |name: &str, missing: Option<&str>| Row {
            name: name.to_owned(),
            attached: "loop-over-tmpfs".to_owned(),
            runs: vec![(1234.5, 987.6)],
            missing: missing.map(str::to_owned),
            published: Some((478.0, 478.0)),
        };
        let why =
            "neither the kernel's nbd module nor /dev/fuse is there, \"so\" nothing attaches the device";
        Outcome {
            setup: vec![("machine".to_owned(), format!("Linux 6.1, {why}"))],
            rows: vec![row("loop", None), row("qemu-storage-daemon, 8 sockets, depth 16", Some(why))],
        }
    }

    #[test]
    fn the_table_fits_its_width() {
        for width in [60, 80, 100, 120] {
            let table = outcome().table("Paths to a block device, one after the other", "loop", width);
            for line in table.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
            }
            let joined = table.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(
                joined.contains("1234.5 987.6") && joined.contains("nothing attaches the device"),
                "{table}"
            );
        }
    }

    #[test]
    fn csv_has_the_line_ends_and_quotes_of_other_results() {
        let csv = outcome().csv("loop");
        let lines: Vec<&str> = csv.split("\r\n").collect();
        assert_eq!(lines.len(), 4, "{csv}");
        assert_eq!(lines[1], "loop,loop-over-tmpfs,1234.5,987.6,1,478,478,1,");
        assert!(
            lines[2].starts_with("\"qemu-storage-daemon, 8 sockets, depth 16\",loop-over-tmpfs,"),
            "{csv}"
        );
        assert!(lines[2].contains("\"\"so\"\""), "{csv}");
    }
}
