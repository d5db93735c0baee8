//! The figures of both runs side by side, and their table.

use super::pairs::Pairs;
use super::{Figures, RealJob, RealRun, SYNC};
use crate::job::Direction;
use crate::output::{Base, count, rate};
use crate::stats::Report;
use flashlab_sim::Histogram;
use std::fmt::{self, Display, Formatter};

/// The kind of a figure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Measure {
    /// Bytes a second.
    Bandwidth,
    /// Requests a second.
    Iops,
    /// Mean clat in nanoseconds. For the direction [`SYNC`], this measure and the next ones are latencies of
    /// flushes.
    ClatMean,
    /// Median of clat.
    ClatP50,
    /// 99th percentile of clat.
    ClatP99,
    /// 99.9th percentile of clat.
    ClatP999,
}

impl Measure {
    /// Returns the name as printed.
    pub const fn name(self) -> &'static str {
        match self {
            Measure::Bandwidth => "bw",
            Measure::Iops => "iops",
            Measure::ClatMean => "clat mean",
            Measure::ClatP50 => "clat p50",
            Measure::ClatP99 => "clat p99",
            Measure::ClatP999 => "clat p99.9",
        }
    }

    fn print(self, value: f64) -> String {
        match self {
            Measure::Bandwidth => rate(value as u64, Base::Binary),
            Measure::Iops if value < 100.0 => format!("{value:.2}"),
            Measure::Iops if value < 1_000.0 => format!("{value:.1}"),
            Measure::Iops => count(value.round() as u64),
            _ => latency(value),
        }
    }
}

/// Formats a latency with three significant digits, in the unit that fits. The unit and the number of decimals are
/// those of the rounded value.
fn latency(ns: f64) -> String {
    let units = [(ns, "ns"), (ns / 1e3, "us"), (ns / 1e6, "ms")];
    let (value, unit) = units.into_iter().find(|(value, _)| value.round() < 1e3).unwrap_or((ns / 1e9, "s"));
    let with_decimals = [format!("{value:.2}"), format!("{value:.1}")];
    let digits = with_decimals.into_iter().find(|digits| digits.len() <= "9.99".len());
    format!("{} {unit}", digits.unwrap_or_else(|| format!("{value:.0}")))
}

/// One figure of a real and of a simulated run.
#[derive(Clone, PartialEq, Debug)]
pub struct ComparedFigure {
    /// Name of the job.
    pub job: String,
    /// `read`, `write`, `trim`, `mixed` or [`SYNC`].
    pub direction: String,
    /// Kind of the figure.
    pub measure: Measure,
    /// Value of the real run.
    pub real: f64,
    /// Value of the simulated run.
    pub simulated: f64,
}

impl ComparedFigure {
    /// Returns the name of the figure as printed. fio has no clat of flushes.
    fn name(&self) -> &'static str {
        let name = self.measure.name();
        if self.direction == SYNC { name.trim_start_matches('c') } else { name }
    }

    /// Returns 100 (simulated - real) / real, or `None` if the real value is zero.
    pub fn error_percent(&self) -> Option<f64> {
        (self.real != 0.0).then(|| 100.0 * (self.simulated - self.real) / self.real)
    }
}

/// The comparison of a simulated run with a real one.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// Figures that exist in both runs, job by job.
    pub figures: Vec<ComparedFigure>,
    /// Notes on jobs and directions that only one run has, and on jobs that failed, with the reason.
    pub notes: Vec<String>,
}

impl Comparison {
    /// Compares the runs. Jobs are paired by name; jobs of the same name are paired in their order. If each
    /// run has a single job, the two are paired regardless of their names. If one run reports a group of jobs
    /// as one (`group_reporting`), the jobs of the other run are combined. Then the directions of each pair
    /// are compared.
    pub fn new(real: &RealRun, simulated: &[Report]) -> Comparison {
        let mut out = Comparison { figures: Vec::new(), notes: Vec::new() };
        if real.simulated {
            out.notes.push(
                "flashlab wrote the file to compare with, so its figures are simulated, too".to_owned(),
            );
        }
        let pairs = Pairs::of(real, simulated);
        if let [(real, simulated)] = &pairs.both[..]
            && real.name != simulated.job.name
        {
            out.notes.push(format!(
                "job {} is compared with {}, the only job of the real run",
                simulated.job.name, real.name
            ));
        }
        for (real, simulated) in &pairs.both {
            out.compare_job(real, simulated);
        }
        out.notes.extend(pairs.only_simulated.iter().map(|name| format!("job {name}: not in the real run")));
        out.notes.extend(pairs.only_real.iter().map(|name| format!("job {name}: not in the simulated run")));
        out
    }

    fn compare_job(&mut self, real: &RealJob, report: &Report) {
        let name = &report.job.name;
        if real.error != 0 {
            self.notes.push(format!("job {name}: the real run failed with error {}", real.error));
        }
        if let Some(failure) = &report.stats.failure {
            self.notes.push(format!("job {name}: the simulated run failed with error {}", failure.errno()));
        }
        let mut ours: Vec<(&str, Figures)> = Vec::new();
        for &(direction, direction_name) in report.shown() {
            if report.stats.direction(direction).runtime_ms > 0 {
                ours.push((direction_name, simulated_figures(report, direction)));
            }
        }
        if report.stats.sync.count() > 0 {
            ours.push((SYNC, simulated_latencies(&report.stats.sync)));
        }
        for (direction, real) in &real.directions {
            match ours.iter().position(|(name, _)| name == direction) {
                Some(i) => self.compare_direction(name, direction, real, &ours.remove(i).1),
                None => self.notes.push(format!("job {name}: {direction} is not in the simulated run")),
            }
        }
        for (direction, _) in ours {
            self.notes.push(format!("job {name}: {direction} is not in the real run"));
        }
    }

    fn compare_direction(&mut self, job: &str, direction: &str, real: &Figures, simulated: &Figures) {
        let pairs = [
            (Measure::Bandwidth, real.bytes_per_second, simulated.bytes_per_second),
            (Measure::Iops, real.iops, simulated.iops),
            (Measure::ClatMean, real.mean_ns, simulated.mean_ns),
            (Measure::ClatP50, real.p50_ns, simulated.p50_ns),
            (Measure::ClatP99, real.p99_ns, simulated.p99_ns),
            (Measure::ClatP999, real.p99_9_ns, simulated.p99_9_ns),
        ];
        for (measure, real, simulated) in pairs {
            if let (Some(real), Some(simulated)) = (real, simulated) {
                let (job, direction) = (job.to_owned(), direction.to_owned());
                self.figures.push(ComparedFigure { job, direction, measure, real, simulated });
            }
        }
    }
}

fn simulated_figures(report: &Report, direction: Direction) -> Figures {
    let stats = report.stats.direction(direction);
    Figures {
        bytes_per_second: Some(stats.bytes_per_second() as f64),
        iops: Some(stats.requests_per_second()),
        ..simulated_latencies(&stats.clat)
    }
}

fn simulated_latencies(histogram: &Histogram) -> Figures {
    let percentile = |percent: f64| Some(histogram.percentile(percent).min(histogram.max()).as_ns() as f64);
    Figures {
        requests: histogram.count() as f64,
        bytes_per_second: None,
        iops: None,
        mean_ns: Some(histogram.mean_ns()),
        p50_ns: percentile(50.0),
        p99_ns: percentile(99.0),
        p99_9_ns: percentile(99.9),
    }
}

impl Display for Comparison {
    /// Writes a table that names each job and direction once, followed by the notes.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut rows = vec![["job", "direction", "figure", "real", "simulated", "error"].map(str::to_owned)];
        let mut last = ("", "");
        for figure in &self.figures {
            let here = (figure.job.as_str(), figure.direction.as_str());
            let shown = if here == last && figure.measure != Measure::Bandwidth { ("", "") } else { here };
            last = here;
            rows.push([
                shown.0.to_owned(),
                shown.1.to_owned(),
                figure.name().to_owned(),
                figure.measure.print(figure.real),
                figure.measure.print(figure.simulated),
                figure.error_percent().map_or_else(|| "-".to_owned(), |e| format!("{e:+.1} %")),
            ]);
        }
        let widths: Vec<usize> =
            (0..6).map(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0)).collect();
        for row in &rows {
            let mut line = String::new();
            for (i, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                line += if i == 0 { "" } else { "  " };
                line += &if i < 3 { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "note: {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_has_three_digits_in_the_unit_of_its_rounded_value() {
        for (ns, expected) in [
            (0.0, "0.00 ns"),
            (9_994.0, "9.99 us"),
            (9_996.0, "10.0 us"),
            (99_940.0, "99.9 us"),
            (99_960.0, "100 us"),
            (999_400.0, "999 us"),
            (999_600.0, "1.00 ms"),
            (999_600_000.0, "1.00 s"),
            (12_345e9, "12345 s"),
        ] {
            assert_eq!(latency(ns), expected, "{ns}");
        }
    }
}
