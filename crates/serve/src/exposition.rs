//! Metrics in the text format of Prometheus, version 0.0.4.

use std::fmt::{Display, Write};

/// Type of a metric family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetricType {
    /// A value that only increases.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// Counts in buckets.
    Histogram,
    /// A value without a declared type.
    Untyped,
    /// A sum and a count.
    Summary,
}

/// A page of metrics, one family after another.
#[derive(Clone, Debug, Default)]
pub struct Exposition(String);

impl Exposition {
    /// Begins a metric family. Its samples follow.
    pub fn family(&mut self, name: &str, metric_type: MetricType, help: &str) {
        let kind = match metric_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
            MetricType::Untyped => "untyped",
            MetricType::Summary => "summary",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// Appends one sample of the current family.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        if labels.is_empty() {
            return self.line(format_args!("{name} {value}"));
        }
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<String> =
            labels.iter().map(|(label, text)| format!("{label}=\"{}\"", quoted(text))).collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// Appends a family with a single sample.
    pub fn single(&mut self, name: &str, metric_type: MetricType, help: &str, value: impl Display) {
        self.family(name, metric_type, help);
        self.sample(name, &[], value);
    }

    fn line(&mut self, line: impl Display) {
        writeln!(self.0, "{line}").expect("a string takes all");
    }
}

impl From<Exposition> for String {
    fn from(page: Exposition) -> String {
        page.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut page = Exposition::default();
        page.family("a_total", MetricType::Counter, "first\nsecond");
        page.sample("a_total", &[("export", "x\"} 1\n\\"), ("op", "read")], 7);
        let expected = "# HELP a_total first\\nsecond\n# TYPE a_total counter\na_total{export=\"x\\\"} 1\\n\\\\\",op=\"read\"} 7\n";
        assert_eq!(String::from(page), expected);
    }
}
