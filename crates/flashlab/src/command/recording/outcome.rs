//! Outputs of `flashlab recording replay`.

use flashlab_lab::results::DeviceStatistics;
use flashlab_recording::{Latencies, Mode, Outcome, Source};
use flashlab_report::quantity::duration;
use flashlab_report::terminal::{columns, fitted};
use flashlab_served::Verification;
use flashlab_sim::{Duration, Histogram, Mechanism};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Percentiles of latencies in the outputs.
const PERCENTILES: [(f64, &str); 3] = [(50.0, "p50"), (99.0, "p99"), (99.9, "p99.9")];

/// Results of a replay, and the inputs that they depend on.
pub(super) struct Replayed<'a> {
    pub(super) recording: &'a Source,
    pub(super) mode: Mode,
    pub(super) seed: u64,
    /// Bytes at the start of the device that were written before the replay.
    pub(super) prepared: u64,
    pub(super) outcome: &'a Outcome,
    pub(super) counted: &'a DeviceStatistics,
    pub(super) verification: Option<Verification>,
}

impl Replayed<'_> {
    fn kinds(&self) -> [(&'static str, &Latencies); 4] {
        let Outcome { reads, writes, trims, flushes, .. } = self.outcome;
        [("reads", reads), ("writes", writes), ("trims", trims), ("flushes", flushes)]
    }

    fn mode_name(&self) -> &'static str {
        match self.mode {
            Mode::Dependencies => "dependencies",
            Mode::Timestamps { .. } => "timestamps",
            Mode::Fast { .. } => "fast",
        }
    }

    /// Returns the results for people, in lines of at most `width` characters.
    pub(super) fn text(&self, width: usize) -> String {
        let mode = match self.mode {
            Mode::Dependencies => "by dependencies".to_owned(),
            Mode::Timestamps { numerator: 100, .. } => "by timestamps".to_owned(),
            Mode::Timestamps { numerator, .. } => {
                format!("by timestamps, at {numerator} % of the recorded intervals")
            }
            Mode::Fast { depth } => format!("as fast as possible, {depth} requests in flight"),
        };
        let mut rows = vec![["", "count", "mean", "p50", "p99", "p99.9", "max"].map(str::to_owned)];
        let operations = ("operations", &self.outcome.operations);
        let kinds = self.kinds().map(|(name, kind)| (name, &kind.histogram));
        for (name, latencies) in kinds.into_iter().chain([operations]).filter(|(_, l)| l.count() > 0) {
            let mean = duration(Duration::from_ns(latencies.mean_ns() as u64));
            let [p50, p99, p999] = PERCENTILES.map(|(percent, _)| duration(percentile(latencies, percent)));
            let (count, max) = (latencies.count().to_string(), duration(latencies.max()));
            rows.push([name.into(), count, mean, p50, p99, p999, max]);
        }
        let rows: Vec<Vec<&str>> = rows.iter().map(|row| row.iter().map(String::as_str).collect()).collect();
        let right = [false, true, true, true, true, true, true];
        let mut text = format!("replayed {mode} in {}\n\n", duration(self.outcome.elapsed));
        text += &columns(&rows, &right, width);
        for (name, kind) in self.kinds() {
            let shares = shares(kind);
            if !shares.is_empty() {
                write!(text, "\n{:<12} {}", format!("{name}:"), shares.join(", ")).expect("a string grows");
            }
        }
        fitted(&format!("{}\n\n{}", text.trim_end(), flashlab_report::of_device(self.counted)), width)
    }

    /// Returns the results for programs. All times are in nanoseconds.
    pub(super) fn json(&self) -> Value {
        let requests = self.kinds().map(|(name, kind)| {
            let mut value = latencies(&kind.histogram);
            let mechanisms = kind.mechanisms_ns().filter(|(_, ns)| *ns > 0);
            value["mechanisms_ns"] =
                mechanisms.map(|(mechanism, ns)| (mechanism.name().to_owned(), number(ns))).collect();
            value["waiting_ns"] = number(waiting_ns(kind));
            (name.to_owned(), value)
        });
        let mut value = json!({
            "recording": self.recording.digest(),
            "mode": self.mode_name(),
            "seed": self.seed,
            "written_first_bytes": self.prepared,
            "elapsed_ns": self.outcome.elapsed.as_ns(),
            "failed": self.outcome.failed,
            "requests": requests.into_iter().collect::<serde_json::Map<_, _>>(),
            "operations": latencies(&self.outcome.operations),
            "flashlab": self.counted,
        });
        match self.mode {
            Mode::Timestamps { numerator, .. } => value["scale_percent"] = numerator.into(),
            Mode::Fast { depth } => value["depth"] = depth.into(),
            Mode::Dependencies => {}
        }
        if let Some(checked) = self.verification {
            value["verified"] = json!({ "blocks": checked.blocks, "wrong": checked.wrong });
        }
        value
    }
}

/// Returns a percentile, limited to the maximum. The histogram returns the end of a bin, which may lie above
/// the maximum.
fn percentile(of: &Histogram, percent: f64) -> Duration {
    of.percentile(percent).min(of.max())
}

fn latencies(of: &Histogram) -> Value {
    let at = |(percent, name): (f64, &str)| (name.to_owned(), percentile(of, percent).as_ns().into());
    json!({
        "count": of.count(),
        "mean_ns": of.mean_ns(),
        "max_ns": of.max().as_ns(),
        "percentiles_ns": PERCENTILES.into_iter().map(at).collect::<serde_json::Map<_, Value>>(),
    })
}

/// Returns the sum of the time that requests waited for their turn before the device received them.
fn waiting_ns(kind: &Latencies) -> u128 {
    kind.histogram.sum_ns().saturating_sub(kind.mechanisms_ns().map(|(_, ns)| ns).sum())
}

/// Returns the mechanisms and the waiting time with their shares of the latency, the largest first.
fn shares(kind: &Latencies) -> Vec<String> {
    let sum = kind.histogram.sum_ns();
    let named = |(mechanism, ns): (Mechanism, u128)| (mechanism.name(), ns);
    let mut parts: Vec<(&str, u128)> = kind.mechanisms_ns().map(named).collect();
    parts.push(("waiting", waiting_ns(kind)));
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    // A share below 0.05 % would print as zero.
    let shown = parts.into_iter().filter(|(_, ns)| *ns * 2_000 >= sum && *ns > 0);
    shown.map(|(name, ns)| format!("{name} {:.1} %", 100.0 * ns as f64 / sum as f64)).collect()
}

/// Returns a sum of nanoseconds as a JSON number, limited to 64 bits.
fn number(ns: u128) -> Value {
    u64::try_from(ns).unwrap_or(u64::MAX).into()
}
