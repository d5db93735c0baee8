//! Measurements of cells, as integers.

use super::definition::{Metric, RoleDefinition, Step};
use crate::bench::{Bench, BenchError, reads_unwritten, refusal, waves};
use crate::results::Figure;
use flashlab_fio::job::{Direction, Job};
use flashlab_fio::stats::{JobStats, Settings, Statistics};
use flashlab_sim::{Duration, Histogram, Mechanism};
use std::ops::Range;

/// One run of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Measured {
    pub(super) bytes: u64,
    pub(super) requests: u64,
    pub(super) runtime_ms: u64,
    /// Result of a metric other than throughput.
    pub(super) counted: u64,
    /// Sum of all latencies.
    pub(super) latency_ns: u64,
    pub(super) mechanisms_ns: [u64; Mechanism::ALL.len()],
    /// Latencies of the write requests.
    pub(super) writes: Histogram,
    /// True if most reads of a job addressed data that was never written.
    pub(super) reads_unwritten: bool,
}

/// The runs of one cell and the resulting figure.
pub(super) struct MeasuredCell {
    pub(super) table: String,
    pub(super) row: String,
    pub(super) column: String,
    pub(super) unit: String,
    pub(super) role: Option<RoleDefinition>,
    pub(super) simulated: Figure,
    pub(super) runs: Vec<Measured>,
    /// Buffer in bytes for a logger that writes at half the rate of the first run; `None` for cells without
    /// writes, and in experiments of other kinds than a matrix.
    pub(super) logger_bytes: Option<u64>,
}

impl MeasuredCell {
    /// Creates the cell of a figure that comes from a single run.
    pub(super) fn of_one_run(
        (table, row, column): (&str, &str, &str),
        unit: &str,
        figure: f64,
    ) -> MeasuredCell {
        // Digests contain only integers, so the figure is stored in millionths.
        let counted = (figure * 1e6).round() as u64;
        MeasuredCell {
            table: table.to_owned(),
            row: row.to_owned(),
            column: column.to_owned(),
            unit: unit.to_owned(),
            role: None,
            simulated: Figure { mean: figure, sd: 0.0 },
            runs: vec![Measured { counted, ..Measured::default() }],
            logger_bytes: None,
        }
    }
}

/// Runs jobs to their end. A figure from an incomplete job would be wrong, so an early end is an error.
pub(super) fn run_whole(
    bench: &mut Bench,
    jobs: &[Job],
    settings: &Settings,
) -> Result<Statistics, BenchError> {
    let statistics = bench.run(jobs, settings)?;
    if bench.is_stopped() {
        return Err(BenchError::Stopped);
    }
    refusal(&statistics.reports(jobs)).map_or(Ok(statistics), Err)
}

/// Runs a step's jobs once. `t_read` is that of the device.
pub(super) fn measure(
    bench: &mut Bench,
    step: &Step,
    jobs: &[Job],
    t_read: Option<Duration>,
) -> Result<Measured, BenchError> {
    // A slot that is simulated by commands counts the commands on the bus. Otherwise the host counts the commands that
    // its requests would become.
    let command_count = |bench: &Bench| {
        let counters = bench.counters();
        counters.find("transfer_count").unwrap_or_else(|| counters.get("command_count"))
    };
    let commands_before = command_count(bench);
    let statistics = run_whole(bench, jobs, &Settings::default())?;
    let mut measured = Measured::of(&statistics, jobs);
    let reports = statistics.reports(jobs);
    measured.reads_unwritten =
        t_read.is_some_and(|t_read| reports.iter().any(|report| reads_unwritten(report, t_read)));
    let commands = command_count(bench) - commands_before;
    measured.counted = match step.metric {
        Metric::Throughput => 0,
        Metric::Commands => commands,
        Metric::BytesACommand => measured.bytes / commands.max(1),
    };
    Ok(measured)
}

impl Measured {
    /// Sums the statistics of `jobs`. The jobs of a wave overlap; the waves follow one another.
    pub(super) fn of(statistics: &Statistics, jobs: &[Job]) -> Self {
        let mut measured = Measured::default();
        for wave in waves(jobs) {
            measured.add(&Measured::together(statistics, wave));
        }
        measured
    }

    fn together(statistics: &Statistics, jobs: Range<usize>) -> Self {
        let mut all = JobStats::default();
        for job in jobs {
            all.merge(statistics.job(job));
        }
        let mut measured =
            Measured { writes: all.direction(Direction::Write).clat.clone(), ..Measured::default() };
        for direction in &all.directions {
            measured.bytes += direction.io_bytes;
            measured.requests += direction.total_ios();
            measured.runtime_ms = measured.runtime_ms.max(direction.runtime_ms);
            measured.latency_ns += u64::try_from(direction.clat.sum_ns()).expect("a run of under 584 years");
            for (sum, (_, ns)) in measured.mechanisms_ns.iter_mut().zip(direction.mechanisms_ns()) {
                *sum += ns;
            }
        }
        measured
    }

    /// Adds the measurement of another run, except `counted` and `reads_unwritten`.
    pub(super) fn add(&mut self, other: &Measured) {
        self.bytes += other.bytes;
        self.requests += other.requests;
        self.runtime_ms += other.runtime_ms;
        self.latency_ns += other.latency_ns;
        for (sum, ns) in self.mechanisms_ns.iter_mut().zip(other.mechanisms_ns) {
            *sum += ns;
        }
        self.writes.merge(&other.writes);
    }

    /// Returns the name and the total nanoseconds of each mechanism, in printing order.
    pub(super) fn mechanisms_ns(&self) -> impl Iterator<Item = (&'static str, u64)> + Clone {
        Mechanism::ALL.map(Mechanism::name).into_iter().zip(self.mechanisms_ns)
    }

    /// Returns the figure of a metric in `unit`.
    pub(super) fn figure(&self, metric: Metric, unit: &str) -> f64 {
        let seconds = self.runtime_ms.max(1) as f64 / 1e3;
        match (metric, unit) {
            (Metric::Throughput, "IOPS") => self.requests as f64 / seconds,
            (Metric::Throughput, "kIOPS") => self.requests as f64 / seconds / 1e3,
            (Metric::Throughput, unit) => self.bytes as f64 / seconds / bytes_of(unit),
            (Metric::Commands, _) => self.counted as f64,
            (Metric::BytesACommand, unit) => self.counted as f64 / bytes_of(unit),
        }
    }
}

/// Returns the number of bytes in the first part of a unit such as `MiB/s`.
///
/// # Panics
/// Panics if the unit is not a unit of bytes. Definitions of experiments are refused if they have another unit.
pub(super) fn bytes_of(unit: &str) -> f64 {
    match unit.split('/').next() {
        Some("B") => 1.0,
        Some("KiB") => 1_024.0,
        Some("MiB") => 1_048_576.0,
        Some("GiB") => 1_073_741_824.0,
        Some("TB") => 1e12,
        _ => panic!("{unit} is not a unit of bytes"),
    }
}

/// Returns the mean and the sample standard deviation. The deviation is 0 for a single figure and for equal
/// figures.
pub(super) fn figure_of(figures: &[f64]) -> Figure {
    let mean = figures.iter().sum::<f64>() / figures.len() as f64;
    // The mean of equal figures is rounded, so their differences from it would not all be 0.
    if figures.iter().all(|figure| *figure == figures[0]) {
        return Figure { mean, sd: 0.0 };
    }
    let squares: f64 = figures.iter().map(|x| (x - mean) * (x - mean)).sum();
    Figure { mean, sd: (squares / (figures.len() - 1) as f64).sqrt() }
}

#[cfg(test)]
mod tests {
    use super::figure_of;

    #[test]
    fn equal_figures_have_no_deviation() {
        assert_eq!(figure_of(&[2564.1; 3]).sd, 0.0);
        assert_eq!(figure_of(&[0.1; 10]).sd, 0.0);
        assert_eq!(figure_of(&[1.0, 3.0]).sd, 2f64.sqrt());
    }
}
