//! Experiments of kind `wear`: steps of many iterations on new devices, and the resulting wear of the erase blocks.
//!
//! ```toml
//! kind = "wear"
//! [columns]                        # one device per column, for example variants of wear leveling
//! static = "sd/kthn-16gb:leveling=static"
//! [[step]]
//! table = "sequential"             # the names of its cells are "sequential row/column"
//! iterations = 10000
//! job = "--rw=write --bs=1M --time_based --runtime=60 ..."
//! preparation = [{ job = "..." }]  # runs once, before the iterations; not measured
//! before = ["--rw=trim ..."]       # runs in each iteration before the job; not measured
//! pause = "10s"                    # idle time after these jobs
//! points = 400                     # maximum number of points in a series; this is the default
//! columns = ["..."]                # the default is all columns
//! [[step.measure]]                 # one row per measure
//! row = "bandwidth"
//! unit = "MiB/s"
//! metric = "throughput"
//! ```
//! | metric | value after the last iteration | unit | required keys |
//! |---|---|---|---|
//! | `throughput` | bytes per second of the jobs; the deviation is over the iterations | `B/s`, `KiB/s`, `MiB/s` | |
//! | `iterations-near` | share of the iterations whose throughput in MiB/s is near one of the `figures` | `%` | `figures`, `within_percent` |
//! | `written` | bytes that the host wrote in the iterations | `TB`, `GiB`, `MiB`, `KiB` | |
//! | `write-amplification` | programmed bytes divided by written bytes, in the iterations | `ratio` | |
//! | `erases-mean`, `-min`, `-max`, `-sd`, `-range` | erases of the blocks in use; `-range` is maximum minus minimum | `erases` | |
//! | `erases-cv` | standard deviation of the erases divided by the mean | `%` | |
//! | `blocks-erased-at-least` | number of blocks with this many erases or more | `blocks` | `erases` |
//! | `most-erases-of-others` | maximum erases among the blocks with fewer than `erases` erases | `erases` | `erases` |
//! | `identity-error` | relative difference between the erases in the iterations and the programmed bytes divided by the block size | `%` | |
//! | `failures` | blocks that failed in the iterations | `blocks` | |
//! | `first-failure` | time up to the end of the first iteration with a failure; no cell if no block failed | `min`, `h`, `days`, `iterations` | |
//!
//! Each pair of step and column is a new device with one history; the pairs run in parallel. A device that becomes
//! read-only ends its iterations. The results also contain, for each step and column, the erase counts of all blocks,
//! and the throughput, the write amplification and the free blocks over time.

use super::definition::{RoleDefinition, Step};
use super::error::ExperimentError;
use super::map_parallel::map_parallel;
use super::measured::{Measured, MeasuredCell, bytes_of, figure_of, run_whole};
use super::pattern::cell_name;
use super::published::PublishedTables;
use super::{Experiment, Outcome};
use crate::bench::{Bench, BenchError, work};
use crate::progress::Progress;
use crate::results::{DeviceStatistics, Figure, Series, WearMap};
use crate::statistics::{Counters, Wear, statistics};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::Job;
use flashlab_fio::stats::Settings;
use flashlab_sim::{Duration, Instant};
use serde::Deserialize;

/// Default of the maximum number of points in a series.
const POINTS: u32 = 400;

/// A row in the table of a wear step.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Name of the row.
    pub row: String,
    /// Unit of the figures.
    pub unit: String,
    /// The measured quantity.
    pub metric: Metric,
    /// `assumed` if the figure depends on an assumption that the publication does not state.
    pub role: Option<RoleDefinition>,
    /// Figures in MiB/s, for `iterations-near`.
    #[serde(default)]
    pub figures: Vec<f64>,
    /// Maximum distance from a figure in percent, for `iterations-near`.
    pub within_percent: Option<f64>,
    /// Number of erases, for the metrics that need one.
    pub erases: Option<u32>,
}

/// A quantity that a wear step measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    Throughput,
    IterationsNear,
    Written,
    WriteAmplification,
    ErasesMean,
    ErasesMin,
    ErasesMax,
    ErasesSd,
    ErasesRange,
    ErasesCv,
    BlocksErasedAtLeast,
    MostErasesOfOthers,
    IdentityError,
    Failures,
    FirstFailure,
}

impl Metric {
    const fn units(self) -> &'static [&'static str] {
        match self {
            Metric::Throughput => &["B/s", "KiB/s", "MiB/s"],
            Metric::Written => &["TB", "GiB", "MiB", "KiB"],
            Metric::WriteAmplification => &["ratio"],
            Metric::IterationsNear | Metric::ErasesCv | Metric::IdentityError => &["%"],
            Metric::BlocksErasedAtLeast | Metric::Failures => &["blocks"],
            Metric::FirstFailure => &["min", "h", "days", "iterations"],
            _ => &["erases"],
        }
    }
}

impl Step {
    /// Checks the measures of a wear step. The error text continues a sentence that begins with the step's name.
    pub(super) fn check_measures(&self, published: &PublishedTables) -> Result<(), String> {
        if self.iterations.is_none_or(|iterations| iterations == 0) || self.measures.is_empty() {
            return Err(": expected iterations and at least one [[step.measure]]".into());
        }
        if !self.unit.is_empty() || self.role.is_some() || self.points == Some(0) {
            return Err(
                ": a step of kind \"wear\" must not have a unit or a role (each measure has a unit and may have a \
                 role), and points must be at least 1"
                    .into(),
            );
        }
        for measure in &self.measures {
            let units = measure.metric.units();
            let wrong = |what: &str| Err(format!(", {}: {what}", measure.row));
            if !units.contains(&measure.unit.as_str()) {
                return wrong(&format!(
                    "the unit is {}; expected {}",
                    measure.unit,
                    flashlab_catalogue::units::or_list(units)
                ));
            }
            let near = measure.metric == Metric::IterationsNear;
            if near == measure.figures.is_empty() || near != measure.within_percent.is_some() {
                return wrong("figures and within_percent belong to iterations-near, which needs both");
            }
            let counts = matches!(measure.metric, Metric::BlocksErasedAtLeast | Metric::MostErasesOfOthers);
            if counts != measure.erases.is_some() {
                return wrong(
                    "erases belongs to blocks-erased-at-least and most-erases-of-others, which need it",
                );
            }
            let table = published.tables.iter().find(|t| t.name == self.table && t.row == measure.row);
            if let Some(table) = table.filter(|table| table.unit != measure.unit) {
                return wrong(&format!(
                    "the unit is {}, but that of the published table is {}",
                    measure.unit, table.unit
                ));
            }
        }
        Ok(())
    }
}

/// A step whose jobs have been parsed.
struct ReadyStep<'a> {
    step: &'a Step,
    preparation: Vec<Vec<Job>>,
    before: Vec<Vec<Job>>,
    jobs: Vec<Job>,
    pause: Duration,
}

/// A step on the device of a column.
struct StepRun<'a> {
    ready: &'a ReadyStep<'a>,
    column: &'a str,
    device: &'a Device,
}

/// Runs all steps on all columns.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let definition = &experiment.definition;
    let columns = experiment.columns(library)?;
    let ready = |step| ready(experiment, step);
    let steps = definition.steps.iter().map(ready).collect::<Result<Vec<_>, _>>()?;
    let on = |ready| {
        let there = columns.iter().filter(move |(column, _)| ReadyStep::step(ready).is_on(column));
        there.map(move |(column, device)| StepRun { ready, column, device })
    };
    let step_runs: Vec<StepRun<'_>> = steps.iter().flat_map(on).collect();
    let mut outcome = Outcome::default();
    progress.plan(step_runs.iter().map(StepRun::work).sum());
    for result in map_parallel(&step_runs, |step_run| step_run.run(seed, progress)) {
        let (cells, map, series, statistics) = result?;
        outcome.cells.extend(cells);
        outcome.wear.extend(map);
        outcome.series.extend(series);
        outcome.statistics.push(statistics);
    }
    outcome.devices = columns.into_iter().map(super::Place::of_column).collect();
    Ok(outcome)
}

fn ready<'a>(experiment: &Experiment, step: &'a Step) -> Result<ReadyStep<'a>, ExperimentError> {
    let read = |line: &String| experiment.read_job(&step.table, line);
    Ok(ReadyStep {
        step,
        // Preparation jobs of the experiment run on each of its devices.
        preparation: experiment
            .definition
            .preparation
            .iter()
            .chain(&step.preparation)
            .map(|preparation| read(&preparation.job))
            .collect::<Result<_, _>>()?,
        before: step.before.iter().map(read).collect::<Result<_, _>>()?,
        jobs: read(&step.job)?,
        pause: experiment.pause(step)?,
    })
}

impl<'a> ReadyStep<'a> {
    fn step(&self) -> &'a Step {
        self.step
    }
}

/// The results of a step on one device.
type Found = (Vec<MeasuredCell>, Option<WearMap>, Vec<Series>, DeviceStatistics);

impl StepRun<'_> {
    /// Returns the amount of work, in the unit of [`Progress`].
    fn work(&self) -> u64 {
        let ReadyStep { step, preparation, before, jobs, .. } = self.ready;
        let capacity = self.device.capacity();
        let all = |phases: &[Vec<Job>]| phases.iter().map(|jobs| work(jobs, capacity)).sum::<u64>();
        let iterations = u64::from(step.iterations.unwrap_or(0));
        all(preparation) + iterations * (all(before) + work(jobs, capacity))
    }

    fn run(&self, seed: u64, progress: &Progress) -> Result<Found, ExperimentError> {
        let step = self.ready.step;
        let failed = |what: &str| {
            let cell = cell_name(&step.table, what, self.column);
            move |error| ExperimentError::of_bench(cell, error)
        };
        let mut bench = Bench::with(self.device, seed);
        bench.report_to(progress);
        progress.enter(cell_name(&step.table, "", self.column));
        for jobs in &self.ready.preparation {
            run_whole(&mut bench, jobs, &Settings::default()).map_err(failed("preparation"))?;
        }
        let mut history = History::begin(&bench, step);
        for _ in 0..step.iterations.unwrap_or(0) {
            if progress.is_stopped() {
                return Err(ExperimentError::Stopped);
            }
            match self.iterate(&mut bench) {
                Ok(run) => history.add(&bench, &run),
                Err(BenchError::ReadOnly { .. }) => {
                    history.note_failure(&bench, history.throughputs.len() as u64 + 1);
                    history.read_only = Some(bench.now().saturating_since(history.begin));
                    break;
                }
                Err(error) => return Err(failed("")(error)),
            }
        }
        Ok(history.end(self, &bench))
    }

    fn iterate(&self, bench: &mut Bench) -> Result<Measured, BenchError> {
        for jobs in &self.ready.before {
            run_whole(bench, jobs, &Settings::default())?;
        }
        bench.pause(self.ready.pause);
        let statistics = run_whole(bench, &self.ready.jobs, &Settings::default())?;
        Ok(Measured::of(&statistics, &self.ready.jobs))
    }
}

/// The measurements of a step's iterations so far.
struct History {
    begin: Instant,
    at_begin: Counters,
    erases_at_begin: Option<Wear>,
    /// Throughput of each iteration in MiB/s.
    throughputs: Vec<f64>,
    whole: Measured,
    first_failure: Option<(u64, Duration)>,
    /// Time from `begin` until the device became read-only.
    read_only: Option<Duration>,
    /// Number of iterations per point of a series.
    stride: u32,
    /// Measurements since the last point of the series.
    lately: Measured,
    at_last_point: Counters,
    throughput: Vec<(f64, f64)>,
    amplification: Vec<(f64, f64)>,
    free: Vec<(f64, f64)>,
}

impl History {
    fn begin(bench: &Bench, step: &Step) -> Self {
        let at_begin = bench.counters();
        let iterations = step.iterations.unwrap_or(1);
        History {
            begin: bench.now(),
            at_last_point: at_begin.clone(),
            at_begin,
            erases_at_begin: bench.wear(),
            throughputs: Vec::new(),
            whole: Measured::default(),
            first_failure: None,
            read_only: None,
            stride: iterations.div_ceil(step.points.unwrap_or(POINTS)).max(1),
            lately: Measured::default(),
            throughput: Vec::new(),
            amplification: Vec::new(),
            free: Vec::new(),
        }
    }

    fn add(&mut self, bench: &Bench, run: &Measured) {
        self.throughputs.push(mib_per_second(run));
        self.whole.add(run);
        self.lately.add(run);
        self.note_failure(bench, self.throughputs.len() as u64);
        if (self.throughputs.len() as u64).is_multiple_of(u64::from(self.stride)) {
            self.point(bench);
        }
    }

    /// Notes the first failure of a block, if there was one by the end of the iteration with this number.
    fn note_failure(&mut self, bench: &Bench, iteration: u64) {
        let fresh = bench.counters().since(&self.at_begin, "bad_block_count");
        if fresh > 0 && self.first_failure.is_none() {
            self.first_failure = Some((iteration, bench.now().saturating_since(self.begin)));
        }
    }

    /// Adds a point to each series, for the iterations since the previous point.
    fn point(&mut self, bench: &Bench) {
        let now = bench.counters();
        let iteration = self.throughputs.len() as f64;
        let hours = bench.now().saturating_since(self.begin).as_ns() as f64 / 3.6e12;
        self.throughput.push((iteration, mib_per_second(&self.lately)));
        let written = now.since(&self.at_last_point, "host_written_bytes");
        if written > 0 {
            let programmed = now.since(&self.at_last_point, "programmed_bytes");
            self.amplification.push((hours, programmed as f64 / written as f64));
        }
        self.free.extend(now.find("free_block_count").map(|free| (hours, free as f64)));
        self.lately = Measured::default();
        self.at_last_point = now;
    }

    fn end(mut self, step_run: &StepRun<'_>, bench: &Bench) -> Found {
        if self.lately.requests > 0 {
            self.point(bench);
        }
        let (step, column) = (step_run.ready.step, step_run.column);
        let now = bench.counters();
        let wear = bench.wear();
        let cells =
            step.measures.iter().filter_map(|measure| self.cell(step_run, measure, &now, wear.as_ref()));
        let cells = cells.collect();
        let series = |name: &str, unit: &str, x_unit: &str, points: &[(f64, f64)]| Series {
            name: name.to_owned(),
            step: step.table.clone(),
            column: column.to_owned(),
            unit: unit.to_owned(),
            x_unit: x_unit.to_owned(),
            points: points.to_vec(),
        };
        let series = [
            series("throughput", "MiB/s", "iteration", &self.throughput),
            series("write amplification", "", "h", &self.amplification),
            series("free blocks", "blocks", "h", &self.free),
        ];
        let mut found = statistics(&self.at_begin, &now, wear.as_ref());
        found.table.clone_from(&step.table);
        column.clone_into(&mut found.column);
        found.first_failure_seconds = self.first_failure.map(|(_, after)| after.as_ns() as f64 / 1e9);
        found.read_only_seconds = self.read_only.map(|after| after.as_ns() as f64 / 1e9);
        let map = wear.map(|wear| wear.map(format!("{}, {column}", step.table)));
        (cells, map, series.into_iter().filter(|series| !series.points.is_empty()).collect(), found)
    }

    fn cell(
        &self,
        step_run: &StepRun<'_>,
        measure: &Measure,
        now: &Counters,
        wear: Option<&Wear>,
    ) -> Option<MeasuredCell> {
        let figure = self.figure(measure, now, wear)?;
        let is_throughput = measure.metric == Metric::Throughput;
        let simulated = match is_throughput {
            true => {
                let scale = 1_048_576.0 / bytes_of(&measure.unit);
                Figure { mean: figure, sd: scale * figure_of(&self.throughputs).sd }
            }
            false => Figure { mean: figure, sd: 0.0 },
        };
        let run = match is_throughput {
            true => self.whole.clone(),
            // Digests contain only integers, so the figure is stored in millionths.
            false => Measured { counted: (figure.abs() * 1e6).round() as u64, ..Measured::default() },
        };
        Some(MeasuredCell {
            table: step_run.ready.step.table.clone(),
            row: measure.row.clone(),
            column: step_run.column.to_owned(),
            unit: measure.unit.clone(),
            role: measure.role,
            simulated,
            runs: vec![run],
            logger_bytes: None,
        })
    }

    /// Returns the figure of a measure; `None` if the measure needs erase blocks and the device reports none, or if the
    /// measure is the first failure and no block failed.
    fn figure(&self, measure: &Measure, now: &Counters, wear: Option<&Wear>) -> Option<f64> {
        let since = |name| now.since(&self.at_begin, name) as f64;
        let erases = wear.map(Wear::erases);
        Some(match measure.metric {
            Metric::Throughput => mib_per_second(&self.whole) * 1_048_576.0 / bytes_of(&measure.unit),
            Metric::IterationsNear => {
                let within = measure.within_percent? / 100.0;
                let near =
                    |x: &&f64| measure.figures.iter().any(|figure| (**x - figure).abs() <= within * figure);
                let count = self.throughputs.iter().filter(near).count();
                100.0 * count as f64 / self.throughputs.len().max(1) as f64
            }
            Metric::Written => since("host_written_bytes") / bytes_of(&measure.unit),
            Metric::WriteAmplification => since("programmed_bytes") / since("host_written_bytes").max(1.0),
            Metric::ErasesMean => erases?.mean,
            Metric::ErasesMin => f64::from(erases?.min),
            Metric::ErasesMax => f64::from(erases?.max),
            Metric::ErasesSd => erases?.sd,
            Metric::ErasesRange => f64::from(erases?.max - erases?.min),
            Metric::ErasesCv => 100.0 * erases?.sd / erases?.mean.max(f64::MIN_POSITIVE),
            Metric::BlocksErasedAtLeast => {
                let most = measure.erases?;
                wear?.in_use().filter(|count| *count >= most).count() as f64
            }
            Metric::MostErasesOfOthers => {
                let most = measure.erases?;
                f64::from(wear?.in_use().filter(|count| *count < most).max().unwrap_or(0))
            }
            Metric::IdentityError => {
                let sum = |wear: &Wear| wear.erase_counts.iter().map(|c| u64::from(*c)).sum::<u64>();
                let erased = (sum(wear?) - sum(self.erases_at_begin.as_ref()?)) * wear?.bytes;
                (100.0 * (erased as f64 / since("programmed_bytes").max(1.0) - 1.0)).abs()
            }
            Metric::Failures => since("bad_block_count"),
            Metric::FirstFailure => {
                let (iteration, after) = self.first_failure?;
                let seconds = after.as_ns() as f64 / 1e9;
                match measure.unit.as_str() {
                    "min" => seconds / 60.0,
                    "h" => seconds / 3_600.0,
                    "days" => seconds / 86_400.0,
                    _ => iteration as f64,
                }
            }
        })
    }
}

fn mib_per_second(run: &Measured) -> f64 {
    run.bytes as f64 / 1_048_576.0 / (run.runtime_ms.max(1) as f64 / 1e3)
}
