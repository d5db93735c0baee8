//! Experiments of kind `matrix`: steps on every column's device, in every row.
//!
//! A column and row is one device with one history, so it runs in one go; different ones know nothing of each other and
//! run side by side. The results do not depend on how many do.

use super::Watch;
use super::definition::{Definition, Metric, Step};
use super::error::ExperimentError;
use super::pattern::cell_name;
use super::side_by_side::side_by_side;
use crate::bench::{Bench, BenchError, refusal};
use crate::device::{Device, Filesystem};
use flashlab_fio::job::{Direction, Job, Mix};
use flashlab_fio::stats::{JobStats, LoggerBuffer, Settings, Statistics};
use flashlab_sim::{Histogram, Mechanism};

/// A step with its job read.
pub(super) struct ReadyStep<'a> {
    pub(super) step: &'a Step,
    pub(super) jobs: Vec<Job>,
    pub(super) filesystem: Option<Filesystem>,
}

/// One device with its place in the matrix.
pub(super) struct Place {
    pub(super) column: String,
    pub(super) row: String,
    pub(super) device: Device,
}

/// One run of one cell, as integers.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) bytes: u64,
    pub(super) requests: u64,
    pub(super) runtime_ms: u64,
    /// What a metric other than throughput counted.
    pub(super) counted: u64,
    /// The sum of all latencies.
    pub(super) latency_ns: u64,
    pub(super) mechanisms_ns: [u64; Mechanism::ALL.len()],
    /// Latencies of the writes.
    pub(super) writes: Histogram,
}

/// The runs of one cell.
pub(super) struct MeasuredCell {
    pub(super) table: String,
    pub(super) row: String,
    pub(super) column: String,
    pub(super) runs: Vec<Measured>,
    /// Bytes that a logger at half the rate of the first run must buffer; `None` where nothing is written.
    pub(super) logger_bytes: Option<u64>,
}

/// Runs all steps on all places.
pub(super) fn run(
    definition: &Definition,
    preparation: &[Vec<Job>],
    steps: &[ReadyStep<'_>],
    places: &[Place],
    seed: u64,
    watch: &dyn Watch,
) -> Result<Vec<MeasuredCell>, ExperimentError> {
    let work = |place: &Place| run_place(definition, preparation, steps, place, seed, watch);
    let mut cells = Vec::new();
    for result in side_by_side(places, work) {
        cells.extend(result?);
    }
    Ok(cells)
}

fn run_place(
    definition: &Definition,
    preparation: &[Vec<Job>],
    steps: &[ReadyStep<'_>],
    place: &Place,
    seed: u64,
    watch: &dyn Watch,
) -> Result<Vec<MeasuredCell>, ExperimentError> {
    let mut bench = Bench::with(&place.device, seed);
    let failed = |what: &str| {
        let cell = cell_name(what, &place.row, &place.column);
        move |error| ExperimentError::Bench { cell, error }
    };
    for jobs in preparation {
        run_whole(&mut bench, jobs, &Settings::default()).map_err(failed("preparation"))?;
    }
    let mut cells = Vec::new();
    for ready in steps {
        let step = ready.step;
        let elsewhere =
            |names: &Option<Vec<String>>, here: &String| names.as_ref().is_some_and(|n| !n.contains(here));
        if elsewhere(&step.columns, &place.column) || elsewhere(&step.rows, &place.row) {
            continue;
        }
        if let Some(filesystem) = &ready.filesystem {
            bench.format_once(&filesystem.vfat).map_err(failed(&step.table))?;
        }
        let mut runs: Vec<Measured> = Vec::new();
        let before = writes(&ready.jobs).then(|| bench.clone());
        for _ in 0..definition.runs {
            if watch.stopped() {
                return Err(ExperimentError::Stopped);
            }
            // Every run finds its file laid out anew.
            bench.remove_files();
            runs.push(measure(&mut bench, ready).map_err(failed(&step.table))?);
            watch.ran();
        }
        let logger_bytes = before
            .map(|bench| logger_bytes(bench, ready, &runs[0]))
            .transpose()
            .map_err(failed(&step.table))?;
        cells.push(MeasuredCell {
            table: step.table.clone(),
            row: place.row.clone(),
            column: place.column.clone(),
            runs,
            logger_bytes: logger_bytes.flatten(),
        });
    }
    Ok(cells)
}

fn writes(jobs: &[Job]) -> bool {
    jobs.iter().any(|job| job.pattern.mix != Mix::Read)
}

/// Repeats the first run, of which the rate is known by now, with a logger beside it.
fn logger_bytes(
    mut bench: Bench,
    ready: &ReadyStep<'_>,
    first: &Measured,
) -> Result<Option<u64>, BenchError> {
    if first.writes.count() == 0 || first.runtime_ms == 0 {
        return Ok(None);
    }
    bench.remove_files();
    let rate = first.bytes * 1_000 / first.runtime_ms / 2;
    let statistics = run_whole(&mut bench, &ready.jobs, &Settings { logger_rates: vec![rate] })?;
    let loggers = (0..ready.jobs.len()).flat_map(|job| &statistics.job(job).loggers);
    Ok(loggers.map(LoggerBuffer::bytes).max())
}

/// Runs jobs that must not end early: a figure of half a job would be no figure.
fn run_whole(bench: &mut Bench, jobs: &[Job], settings: &Settings) -> Result<Statistics, BenchError> {
    let statistics = bench.run(jobs, settings)?;
    refusal(&statistics.reports(jobs)).map_or(Ok(statistics), Err)
}

fn measure(bench: &mut Bench, ready: &ReadyStep<'_>) -> Result<Measured, BenchError> {
    let counts_commands = ready.step.metric != Metric::Throughput;
    let command_count =
        |bench: &Bench| if counts_commands { bench.counters().get("command_count") } else { 0 };
    let commands_before = command_count(bench);
    let statistics = run_whole(bench, &ready.jobs, &Settings::default())?;
    let mut all = JobStats::default();
    for job in 0..ready.jobs.len() {
        all.merge(statistics.job(job));
    }
    let commands = command_count(bench) - commands_before;
    let mut measured = Measured {
        counted: match ready.step.metric {
            Metric::Throughput => 0,
            Metric::Commands => commands,
            Metric::BytesACommand => all.directions.iter().map(|d| d.io_bytes).sum::<u64>() / commands.max(1),
        },
        writes: all.direction(Direction::Write).clat.clone(),
        ..Measured::default()
    };
    for direction in &all.directions {
        measured.bytes += direction.io_bytes;
        measured.requests += direction.total_ios();
        measured.runtime_ms = measured.runtime_ms.max(direction.runtime_ms);
        measured.latency_ns += u64::try_from(direction.clat.sum_ns()).expect("a run of under 584 years");
        for (sum, (_, ns)) in measured.mechanisms_ns.iter_mut().zip(direction.mechanisms_ns()) {
            *sum += ns;
        }
    }
    Ok(measured)
}
