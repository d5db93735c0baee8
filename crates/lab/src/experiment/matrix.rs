//! Experiments of kind `matrix`: each step runs on the device of each column, in each row.
//!
//! A place is a pair of column and row. Each place is one device with one history, so its steps run in
//! sequence. Different places are independent and run in parallel. The results do not depend on the number of
//! threads.

use super::definition::Step;
use super::error::ExperimentError;
use super::map_parallel::map_parallel;
use super::measured::{Measured, MeasuredCell, figure_of, measure, run_whole};
use super::pattern::cell_name;
use super::{Experiment, Outcome, Place};
use crate::bench::{Bench, BenchError, work};
use crate::progress::Progress;
use crate::results::DeviceStatistics;
use crate::statistics::statistics;
use flashlab_catalogue::device::Filesystem;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::{Job, Mix};
use flashlab_fio::stats::{LoggerBuffer, Settings};

/// A step whose job has been parsed.
struct ReadyStep<'a> {
    step: &'a Step,
    jobs: Vec<Job>,
    filesystem: Option<Filesystem>,
}

/// The steps of a place that a run executes.
#[derive(Clone, Copy)]
pub(super) enum Extent {
    /// All steps, and the measurement of logger buffers.
    Whole,
    /// The first steps, without the measurement of logger buffers.
    #[cfg(feature = "fit")]
    Steps(usize),
}

/// Data that the runs of all devices share.
pub(super) struct Matrix<'a> {
    runs: u32,
    preparation: Vec<Vec<Job>>,
    steps: Vec<ReadyStep<'a>>,
    seed: u64,
    progress: &'a Progress,
}

/// Runs all steps in all rows and columns.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let matrix = Matrix::of(experiment, "", library, seed, progress)?;
    let places = places(experiment, library)?;
    progress.plan(places.iter().map(|place| matrix.work(place)).sum());

    let mut outcome = Outcome::default();
    for result in map_parallel(&places, |place| matrix.run_place(place, Extent::Whole)) {
        let (cells, statistics) = result?;
        outcome.cells.extend(cells);
        outcome.statistics.push(statistics);
    }
    outcome.devices = places;
    outcome.filesystems = matrix.steps.into_iter().filter_map(|step| step.filesystem).collect();
    Ok(outcome)
}

pub(super) fn places(experiment: &Experiment, library: &Library) -> Result<Vec<Place>, ExperimentError> {
    let definition = &experiment.definition;
    let nameless = [super::definition::Row { name: String::new(), keys: String::new() }];
    let rows = if definition.rows.is_empty() { &nameless[..] } else { &definition.rows };
    let mut places = Vec::new();
    for row in rows {
        for column in definition.columns.keys() {
            let device = experiment.device(column, &row.keys, library);
            let device = device.map_err(|error| error.in_row(&row.name))?;
            places.push(Place { column: column.clone(), row: Some(row.name.clone()), device });
        }
    }
    Ok(places)
}

impl<'a> Matrix<'a> {
    /// Parses the jobs of an experiment. Filesystems get the additional `keys`.
    pub(super) fn of(
        experiment: &'a Experiment,
        keys: &str,
        library: &Library,
        seed: u64,
        progress: &'a Progress,
    ) -> Result<Matrix<'a>, ExperimentError> {
        let definition = &experiment.definition;
        let preparation = definition.preparation.iter().map(|p| experiment.read_job("preparation", &p.job));
        let preparation = preparation.collect::<Result<Vec<_>, _>>()?;
        let mut steps = Vec::new();
        for step in &definition.steps {
            let filesystem = experiment.filesystem(step, keys, library)?;
            steps.push(ReadyStep { step, jobs: experiment.read_job(&step.table, &step.job)?, filesystem });
        }
        Ok(Matrix { runs: definition.runs, preparation, steps, seed, progress })
    }
}

impl Matrix<'_> {
    /// Returns the steps of a place, in order.
    fn steps_of(&self, place: &Place) -> impl Iterator<Item = &ReadyStep<'_>> {
        self.steps.iter().filter(|ready| ready.step.is_on(&place.column) && ready.step.is_in(place.row()))
    }

    /// Returns the amount of work for a place, in the unit of [`Progress`].
    fn work(&self, place: &Place) -> u64 {
        let capacity = place.device.capacity();
        let prepared: u64 = self.preparation.iter().map(|jobs| work(jobs, capacity)).sum();
        let measured = self.steps_of(place).map(|ready| {
            let runs = self.runs + u32::from(writes(&ready.jobs));
            u64::from(runs) * work(&ready.jobs, capacity)
        });
        prepared + measured.sum::<u64>()
    }

    /// Runs the steps of a place on a new device.
    pub(super) fn run_place(
        &self,
        place: &Place,
        extent: Extent,
    ) -> Result<(Vec<MeasuredCell>, DeviceStatistics), ExperimentError> {
        let mut bench = Bench::with(&place.device, self.seed);
        bench.report_to(self.progress);
        let row = place.row();
        let failed = |what: &str| {
            let cell = cell_name(what, row, &place.column);
            move |error| ExperimentError::of_bench(cell, error)
        };
        self.progress.enter(cell_name("preparation", row, &place.column));
        for jobs in &self.preparation {
            run_whole(&mut bench, jobs, &Settings::default()).map_err(failed("preparation"))?;
        }
        let begin = bench.counters();
        let mut cells = Vec::new();
        let (steps, with_loggers) = match extent {
            Extent::Whole => (usize::MAX, true),
            #[cfg(feature = "fit")]
            Extent::Steps(steps) => (steps, false),
        };
        for ready in self.steps_of(place).take(steps) {
            let step = ready.step;
            self.progress.enter(cell_name(&step.table, row, &place.column));
            if let Some(filesystem) = &ready.filesystem {
                bench.format_once(&filesystem.parameters).map_err(failed(&step.table))?;
            }
            let mut runs: Vec<Measured> = Vec::new();
            let before = (with_loggers && writes(&ready.jobs)).then(|| bench.clone());
            for _ in 0..self.runs {
                if self.progress.is_stopped() {
                    return Err(ExperimentError::Stopped);
                }
                // Without the files, every run lays them out again.
                bench.remove_files();
                let run = measure(&mut bench, step, &ready.jobs, place.device.t_read());
                runs.push(run.map_err(failed(&step.table))?);
            }
            let logger_bytes = before
                .map(|bench| logger_bytes(bench, &ready.jobs, &runs[0]))
                .transpose()
                .map_err(failed(&step.table))?;
            let figures: Vec<f64> = runs.iter().map(|run| run.figure(step.metric, &step.unit)).collect();
            cells.push(MeasuredCell {
                table: step.table.clone(),
                row: row.to_owned(),
                column: place.column.clone(),
                unit: step.unit.clone(),
                role: step.role,
                simulated: figure_of(&figures),
                runs,
                logger_bytes: logger_bytes.flatten(),
            });
        }
        let found = statistics(&begin, &bench.counters(), bench.wear().as_ref());
        Ok((cells, DeviceStatistics { row: row.to_owned(), column: place.column.clone(), ..found }))
    }
}

fn writes(jobs: &[Job]) -> bool {
    jobs.iter().any(|job| job.pattern.mix != Mix::Read)
}

/// Repeats the first run with loggers that write at half the rate of that run, and returns the largest logger buffer in
/// bytes.
fn logger_bytes(mut bench: Bench, jobs: &[Job], first: &Measured) -> Result<Option<u64>, BenchError> {
    if first.writes.count() == 0 || first.runtime_ms == 0 {
        return Ok(None);
    }
    bench.remove_files();
    let rate = first.bytes * 1_000 / first.runtime_ms / 2;
    let statistics =
        run_whole(&mut bench, jobs, &Settings { logger_rates: vec![rate], ..Settings::default() })?;
    let loggers = (0..jobs.len()).flat_map(|job| &statistics.job(job).loggers);
    Ok(loggers.map(LoggerBuffer::bytes).max())
}
