//! Experiments of kind `sweep`: steps over a range of values, with one curve per column.
//!
//! ```toml
//! kind = "sweep"
//! [range]                       # values that replace {range} in the jobs, and their unit
//! unit = "GiB"
//! values = [1, 2, 4]
//! [columns]                     # one device per column
//! "HMB 64 MiB" = "nvme/p32a80:hmb=64M"
//! variants = ["..."]            # at the top of the file: columns without published figures
//! [[preparation]]               # jobs that run once per column, not measured
//! job = "--rw=write --bs=1M ..."
//! [[step]]                      # one chart per step
//! table = "randread"
//! unit = "kIOPS"
//! job = "--rw=randread --size={range}g ..."
//! before = ["--rw=trim ..."]    # jobs before each point, not measured
//! pause = "10s"                 # idle time after these jobs
//! columns = ["..."]             # the default is all columns
//! ```
//!
//! The names of cells are `table value unit/column`: `randread 1 GiB/HMB 64 MiB`. Each step starts from a prepared
//! device and runs the values of the range in order; each point starts from the state after the previous point. The
//! steps of all columns run in parallel, as many as fit in memory. Each step prepares a device of its own: a
//! copy of a prepared device would give the same result and save no memory. Published figures are in
//! `published.toml` under the same table and row. Verbal descriptions of curves are in `[[shape]]`, with `table` and
//! `text`.

use super::definition::{Range, Step};
use super::error::ExperimentError;
use super::map_parallel::map_parallel_limited;
use super::measured::{MeasuredCell, figure_of, measure, run_whole};
use super::pattern::cell_name;
use super::{Experiment, Outcome, Place};
use crate::bench::{Bench, work};
use crate::progress::Progress;
use crate::results::{Cell, Curve, CurvePoint, CurveSeries, DeviceStatistics, MapHits, PublishedPoint};
use crate::statistics::statistics;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_catalogue::units::Dimension;
use flashlab_fio::job::Job;
use flashlab_fio::stats::Settings;
use flashlab_sim::Duration;

/// Limit for the memory of the devices that run in parallel.
const MEMORY_BYTES: u64 = 4 << 30;
/// Bytes of memory that a simulated device takes per 4 KiB of capacity.
const BYTES_A_UNIT: u64 = 10;

/// A step whose jobs have been parsed, one set for each value of the range.
struct ReadyStep<'a> {
    step: &'a Step,
    points: Vec<Point>,
    pause: Duration,
}

struct Point {
    row: String,
    before: Vec<Vec<Job>>,
    jobs: Vec<Job>,
}

struct Sweep<'a> {
    preparation: Vec<Vec<Job>>,
    steps: Vec<ReadyStep<'a>>,
    seed: u64,
    progress: &'a Progress,
}

/// Returns the name of the row for a value of the range: `1 GiB`.
pub(super) fn row(value: u64, range: &Range) -> String {
    format!("{value} {}", range.unit).trim_end().to_owned()
}

/// Runs all steps over the range on every column.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let definition = &experiment.definition;
    let range = definition.range.as_ref().expect("checked when the experiment was read");
    let preparation = definition.preparation.iter().map(|p| experiment.read_job("preparation", &p.job));
    let preparation = preparation.collect::<Result<Vec<_>, _>>()?;
    let steps = definition.steps.iter().map(|step| ready(experiment, step, range));
    let steps = steps.collect::<Result<Vec<_>, _>>()?;
    let columns = experiment.columns(library)?;
    let sweep = Sweep { preparation, steps, seed, progress };
    progress.plan(columns.iter().map(|(column, device)| sweep.work(column, device.capacity())).sum());

    let mut outcome = Outcome::default();
    let most = columns.iter().map(|(_, device)| device.capacity() / 4096 * BYTES_A_UNIT).max().unwrap_or(1);
    let at_a_time = usize::try_from(MEMORY_BYTES / most.max(1)).unwrap_or(usize::MAX).max(1);
    let runs: Vec<(&str, &Device, &ReadyStep<'_>)> = columns
        .iter()
        .flat_map(|(name, device)| {
            let steps = sweep.steps.iter().filter(|ready| ready.step.is_on(name));
            steps.map(move |ready| (name.as_str(), device, ready))
        })
        .collect();
    let run = |(name, device, ready): &(&str, &Device, &ReadyStep<'_>)| sweep.run_step(name, device, ready);
    for result in map_parallel_limited(at_a_time, &runs, run) {
        let (cells, statistics) = result?;
        outcome.cells.extend(cells);
        outcome.statistics.extend(statistics);
    }
    outcome.devices = columns.into_iter().map(Place::of_column).collect();
    Ok(outcome)
}

fn ready<'a>(
    experiment: &Experiment,
    step: &'a Step,
    range: &Range,
) -> Result<ReadyStep<'a>, ExperimentError> {
    let read = |line: &str, value: u64| {
        experiment.read_job(&step.table, &line.replace("{range}", &value.to_string()))
    };
    let point = |value: &u64| {
        Ok(Point {
            row: row(*value, range),
            before: step.before.iter().map(|line| read(line, *value)).collect::<Result<_, _>>()?,
            jobs: read(&step.job, *value)?,
        })
    };
    let points = range.values.iter().map(point).collect::<Result<_, _>>()?;
    Ok(ReadyStep { step, points, pause: experiment.pause(step)? })
}

impl Sweep<'_> {
    /// Returns the amount of work for a column, in the unit of [`Progress`].
    fn work(&self, column: &str, capacity: u64) -> u64 {
        let all = |phases: &[Vec<Job>]| phases.iter().map(|jobs| work(jobs, capacity)).sum::<u64>();
        let points = self.steps.iter().filter(|ready| ready.step.is_on(column)).flat_map(|r| &r.points);
        let points = points.map(|point| all(&point.before) + work(&point.jobs, capacity));
        let steps = self.steps.iter().filter(|ready| ready.step.is_on(column)).count() as u64;
        steps * all(&self.preparation) + points.sum::<u64>()
    }

    /// Prepares a device of a column and runs a step on it.
    fn run_step(
        &self,
        column: &str,
        device: &Device,
        ready: &ReadyStep<'_>,
    ) -> Result<(Vec<MeasuredCell>, Vec<DeviceStatistics>), ExperimentError> {
        let failed = |table: &str, row: &str| {
            let cell = cell_name(table, row, column);
            move |error| ExperimentError::of_bench(cell, error)
        };
        let mut bench = Bench::with(device, self.seed);
        bench.report_to(self.progress);
        self.progress.enter(cell_name("preparation", "", column));
        for jobs in &self.preparation {
            run_whole(&mut bench, jobs, &Settings::default()).map_err(failed("preparation", ""))?;
        }
        let (mut cells, mut counted) = (Vec::new(), Vec::new());
        for point in &ready.points {
            if self.progress.is_stopped() {
                return Err(ExperimentError::Stopped);
            }
            self.progress.enter(cell_name(&ready.step.table, &point.row, column));
            let (cell, found) = self
                .run_point(&mut bench, ready, point, (column, device))
                .map_err(failed(&ready.step.table, &point.row))?;
            cells.push(cell);
            counted.push(found);
        }
        Ok((cells, counted))
    }

    fn run_point(
        &self,
        bench: &mut Bench,
        ready: &ReadyStep<'_>,
        point: &Point,
        (column, device): (&str, &Device),
    ) -> Result<(MeasuredCell, DeviceStatistics), crate::bench::BenchError> {
        let step = ready.step;
        for jobs in &point.before {
            run_whole(bench, jobs, &Settings::default())?;
        }
        bench.pause(ready.pause);
        let before = bench.counters();
        let run = measure(bench, step, &point.jobs, device.t_read())?;
        let found = statistics(&before, &bench.counters(), bench.wear().as_ref());
        let cell = MeasuredCell {
            table: step.table.clone(),
            row: point.row.clone(),
            column: column.to_owned(),
            unit: step.unit.clone(),
            role: step.role,
            simulated: figure_of(&[run.figure(step.metric, &step.unit)]),
            runs: vec![run],
            logger_bytes: None,
        };
        let (table, row) = (step.table.clone(), point.row.clone());
        Ok((cell, DeviceStatistics { table, row, column: column.to_owned(), ..found }))
    }
}

/// Returns the charts of a sweep, from its cells and the statistics of its devices.
pub(super) fn curves(experiment: &Experiment, cells: &[Cell], counted: &[DeviceStatistics]) -> Vec<Curve> {
    let definition = &experiment.definition;
    let Some(range) = &definition.range else { return Vec::new() };
    let curve = |step: &Step| {
        let series = definition.columns.keys().filter(|column| step.is_on(column)).map(|column| {
            let mut series = CurveSeries {
                name: column.clone(),
                variant: definition.variants.contains(column),
                points: Vec::new(),
                published: Vec::new(),
                map_hits: Vec::new(),
            };
            for value in &range.values {
                let (x, row) = (*value as f64, row(*value, range));
                let here = |table: &str, of: &str, c: &str| table == step.table && of == row && c == column;
                if let Some(cell) = cells.iter().find(|c| here(&c.table, &c.row, &c.column)) {
                    series.points.push(CurvePoint { x, y: cell.simulated.mean, role: cell.role });
                    let figure = cell.published.clone();
                    series.published.extend(figure.map(|figure| PublishedPoint { x, figure }));
                }
                let found = counted.iter().find(|s| here(&s.table, &s.row, &s.column));
                series.map_hits.extend(found.and_then(|found| hits(x, &found.map_look_ups)));
            }
            series
        });
        let shapes = experiment.published.shapes.iter().filter(|shape| shape.table == step.table);
        Curve {
            chart: step.table.clone(),
            title: step.title.clone().unwrap_or_else(|| step.table.clone()),
            x_unit: range.unit.clone(),
            y_unit: step.unit.clone(),
            series: series.collect(),
            notes: shapes.map(|shape| shape.text.clone()).collect(),
        }
    };
    definition.steps.iter().map(curve).collect()
}

fn hits(x: f64, look_ups: &[(&'static str, u64)]) -> Option<MapHits> {
    let all: u64 = look_ups.iter().map(|(_, count)| count).sum();
    let share = |place: &str| {
        let count = look_ups.iter().find(|(known, _)| *known == place).map_or(0, |(_, count)| *count);
        count as f64 / all as f64
    };
    // The table of the whole map is in host memory, because the map may not fit into the drive's memory. The directory
    // of map pages is in the drive's memory.
    let (sram, hmb) = (share("sram") + share("directory"), share("hmb") + share("table"));
    (all > 0).then(|| MapHits { x, sram, hmb, miss: share("miss") })
}

impl Experiment {
    /// Returns the pause of a step.
    pub(super) fn pause(&self, step: &Step) -> Result<Duration, ExperimentError> {
        let Some(text) = &step.pause else { return Ok(Duration::ZERO) };
        let ns = Dimension::Time.parse(text);
        ns.map(Duration::from_ns).map_err(|error| ExperimentError::Wrong {
            path: self.folder.path_of("experiment.toml"),
            what: format!("step \"{}\": pause: {error}", step.table),
        })
    }
}
