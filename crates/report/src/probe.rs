//! The findings of a probe as a table and as JSON.

use crate::number;
use crate::terminal::{columns, wrapped};
use flashlab_fit::probe::{Finding, Findings, Value};

/// Returns a table with one line for each finding: value, confidence, bytes written, reason. Long reasons wrap at
/// `width` characters.
pub fn table(findings: &Findings, width: usize) -> String {
    let rows: Vec<[String; 5]> = findings.findings.iter().map(row).collect();
    let mut lines: Vec<Vec<&str>> = vec![vec!["finding", "value", "confidence", "written", "reason"]];
    lines.extend(rows.iter().map(|row| row.iter().map(String::as_str).collect()));
    let mut text = columns(&lines, &[false, false, false, true, false], width);
    text.push('\n');
    text.push_str(&wrapped(&summary(findings), width));
    number::plain(&text)
}

/// Returns the complete findings with their evidence.
pub fn json(findings: &Findings) -> String {
    let value = serde_json::to_value(findings).expect("findings have no keys that JSON lacks");
    format!("{value:#}\n")
}

/// Returns the costs of the probe in a sentence.
pub(crate) fn summary(findings: &Findings) -> String {
    if findings.destroy {
        let share = findings.written_bytes as f64 / findings.capacity.max(1) as f64;
        format!(
            "The probe wrote {}, {} times the capacity.",
            number::bytes(findings.written_bytes),
            number::significant(share, 2)
        )
    } else {
        "The probe only read. With --destroy it also writes, which destroys all data on the device."
            .to_owned()
    }
}

fn row(finding: &Finding) -> [String; 5] {
    [
        finding.name.title().to_owned(),
        value(finding),
        finding.confidence.name().to_owned(),
        number::bytes(finding.written_bytes),
        finding.reason.clone(),
    ]
}

/// Returns the value in words.
pub(crate) fn value(finding: &Finding) -> String {
    match &finding.value {
        Value::Bytes(bytes) => number::exact_bytes(*bytes),
        Value::Levels(levels) => {
            levels.iter().map(|level| number::bytes(*level)).collect::<Vec<_>>().join(", ")
        }
        Value::Count(count) => count.to_string(),
        Value::TimeNs(ns) => number::duration_ns(*ns as f64),
        Value::Ratio(ratio) => format!("{} times", number::significant(*ratio, 3)),
        Value::Share(share) => number::percent(100.0 * share, 2),
        Value::NoneUpToBytes(bytes) => format!("none seen up to {}", number::exact_bytes(*bytes)),
        Value::HiddenOrNoneUpToBytes(bytes) => {
            format!("hidden or none up to {}", number::exact_bytes(*bytes))
        }
        Value::NoneUpToCount(count) => format!("none seen up to {count}"),
        Value::NoEffect => "no effect seen".to_owned(),
        Value::NotMeasured => "not measured".to_owned(),
    }
}
