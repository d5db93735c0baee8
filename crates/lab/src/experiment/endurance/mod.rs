//! Experiments of kind `endurance`: the time until the first erase block wears out under a workload that repeats
//! without end.
//!
//! ```toml
//! kind = "endurance"
//! [columns]
//! kthn-16gb = "sd/kthn-16gb"
//! [endurance]
//! job = "--rw=randwrite --bs=4k ..."   # the workload; it repeats without end
//! seeds = 16                           # number of media; each seed draws one
//! steady_percent = 1.0                 # maximum difference between estimates when wear is steady
//! [[preparation]]                      # jobs that run once, before the workload
//! ```
//!
//! [`Experiment::set_endurance`] replaces the file's job, devices and number of seeds with the user's, and sets a budget.
//!
//! The simulation does not cover a whole life of years. The workload runs until its wear is steady ([`history`]). The
//! erase counts are then extrapolated to the limits that the seed assigns to the blocks ([`extrapolation`]), and the
//! first block to exceed its limit ends the life. A device that fails earlier is simulated to its failure. Failures
//! without wear (`wear.program_fail`, `wear.erase_fail`) count if they happen during the simulation, and are not
//! extrapolated.

mod estimates;
mod extrapolation;
mod history;
mod report;

use super::error::ExperimentError;
use super::map_parallel::map_parallel;
use super::{Experiment, Outcome, Place, definition};
use crate::bench::Trace;
use crate::progress::Progress;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::Job;
use history::{EnduranceSetup, Life, Used};
use std::borrow::Cow;
use std::sync::Mutex;

/// Divisor of a device's budget that gives the budget of the first estimate.
const FIRST_FIGURE: u64 = 8;

/// The user's replacements for parts of the experiment.
#[derive(Clone, Debug, Default)]
pub struct EnduranceSettings {
    /// The workload; `None` for the experiment's.
    pub workload: Option<EnduranceWorkload>,
    /// The devices, by the name of their column; `None` for the experiment's.
    pub devices: Option<Vec<(String, Device)>>,
    /// Number of media; `None` for the experiment's.
    pub seeds: Option<u32>,
    /// Number of requests to simulate on all devices together, after which the lives are estimated; a single
    /// device gets half of them. Media that need a history of their own get as many again. `None` simulates
    /// each history until its wear is steady, for at most 2^20 runs of the workload.
    pub budget: Option<u64>,
}

impl EnduranceSettings {
    /// Returns true if the user set the workload, the devices or the budget.
    fn is_users(&self) -> bool {
        self.workload.is_some() || self.devices.is_some() || self.budget.is_some()
    }
}

/// A workload that repeats without end.
#[derive(Clone, Debug)]
pub struct EnduranceWorkload {
    /// Name of the workload's file, or a description.
    pub name: String,
    /// Content of the file, for the hash of the inputs.
    pub bytes: Vec<u8>,
    /// The jobs. They run together, and start again when they end.
    pub jobs: Vec<Job>,
    /// The traces that the jobs name.
    pub traces: Vec<(String, Trace)>,
}

/// Returns the workload of the command line, or else the experiment's own job.
fn workload<'a>(
    experiment: &'a Experiment,
    definition: &definition::Endurance,
) -> Result<Cow<'a, EnduranceWorkload>, ExperimentError> {
    if let Some(workload) = &experiment.endurance.workload {
        return Ok(Cow::Borrowed(workload));
    }
    Ok(Cow::Owned(EnduranceWorkload {
        name: "the experiment's job".into(),
        bytes: Vec::new(),
        jobs: experiment.read_job("endurance", &definition.job)?,
        traces: Vec::new(),
    }))
}

/// The simulation of all columns, which reports its estimates while it runs.
struct Simulation<'a> {
    columns: &'a [(String, Device)],
    workload: &'a EnduranceWorkload,
    preparation: &'a [Vec<Job>],
    steady_percent: f64,
    progress: &'a Progress,
    reports_estimates: bool,
    /// Simulated time at which each column reports its next estimate: once in each doubling of its history.
    next_report_ns: Vec<Mutex<u64>>,
}

impl Simulation<'_> {
    /// Simulates the lives of the column `at`, one for each seed. The first pass reports no estimates while
    /// it runs, because the caller reports its last and best estimate.
    fn lives(
        &self,
        at: usize,
        seeds: &[u64],
        budget: Option<u64>,
        is_first_pass: bool,
    ) -> Result<(Vec<Life>, Used), ExperimentError> {
        let (column, device) = &self.columns[at];
        self.progress.enter(column.as_str());
        if self.progress.is_stopped() {
            return Err(ExperimentError::Stopped);
        }
        let report_life = |life: &Life| self.report(at, life, is_first_pass);
        let setup = EnduranceSetup {
            device,
            workload: self.workload,
            preparation: self.preparation,
            steady_percent: self.steady_percent,
            budget,
            progress: self.progress,
            report_life: &report_life,
        };
        let lives = setup.lives(seeds).map_err(|error| ExperimentError::of_bench(column.clone(), error))?;
        if self.progress.is_stopped() { Err(ExperimentError::Stopped) } else { Ok(lives) }
    }

    /// Reports the estimate of the column `at` if its next report is due.
    fn report(&self, at: usize, life: &Life, is_first_pass: bool) {
        let mut next_ns = self.next_report_ns[at].lock().expect("no thread panics while it holds the lock");
        if life.simulated_ns < *next_ns || !self.reports_estimates {
            return;
        }
        *next_ns = life.simulated_ns * if is_first_pass { 1 } else { 2 };
        if !is_first_pass {
            self.progress.report(report::estimate(&self.columns[at].0, life));
        }
    }
}

/// Runs the workload on all columns and seeds.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let definition = experiment.definition.endurance.as_ref().expect("checked when the experiment was read");
    let workload = workload(experiment, definition)?;
    let columns = match &experiment.endurance.devices {
        Some(devices) => devices.clone(),
        None => experiment.columns(library)?,
    };
    let preparation = &experiment.definition.preparation;
    let preparation = preparation.iter().map(|p| experiment.read_job("preparation", &p.job));
    let preparation = preparation.collect::<Result<Vec<_>, _>>()?;
    let count = u64::from(experiment.endurance.seeds.unwrap_or(definition.seeds));
    let seeds: Vec<u64> = (0..count).map(|n| seed.wrapping_add(n)).collect();
    // A single device runs on one thread, so it gets only half of the budget.
    let budget = experiment.endurance.budget.map(|budget| budget / columns.len().max(2) as u64);
    let has_first_figures = budget.is_some() && columns.len() > 2;
    progress.plan(match budget {
        Some(budget) => {
            let first = if has_first_figures { budget / FIRST_FIGURE } else { 0 };
            (budget + first) * columns.len() as u64
        }
        None => columns.len() as u64 * count,
    });
    let simulation = Simulation {
        columns: &columns,
        workload: &workload,
        preparation: &preparation,
        steady_percent: definition.steady_percent,
        progress,
        reports_estimates: experiment.endurance.is_users(),
        next_report_ns: columns.iter().map(|_| Mutex::new(0)).collect(),
    };
    let places: Vec<usize> = (0..columns.len()).collect();
    if let Some(budget) = budget.filter(|_| has_first_figures) {
        // Estimate the lives of all devices roughly, before any device takes a long time.
        let figures = map_parallel(&places, |at| {
            let (lives, _) = simulation.lives(*at, &seeds[..1], Some(budget / FIRST_FIGURE), true)?;
            progress.report(report::estimate(&columns[*at].0, &lives[0]));
            Ok(())
        });
        figures.into_iter().collect::<Result<(), ExperimentError>>()?;
    }
    let lives = map_parallel(&places, |at| {
        // A saved state has one medium.
        let seeds = if columns[*at].1.state.is_some() { &seeds[..1] } else { &seeds };
        let lives = simulation.lives(*at, seeds, budget, false);
        if budget.is_none() {
            progress.advance(count);
        }
        lives
    });
    let mut outcome = Outcome::default();
    for ((column, device), lives) in columns.iter().zip(lives) {
        let (lives, used) = lives?;
        let reason = report::report(&mut outcome, column, device, &lives, used);
        if experiment.endurance.is_users() {
            // The table alone would not say why the life of a device is missing.
            reason.into_iter().for_each(|reason| progress.report(reason));
        }
        if experiment.endurance.is_users() || lives.iter().any(Life::is_unknown) {
            report::interval(&mut outcome, column, &lives, definition.steady_percent);
        }
    }
    outcome.devices = columns.into_iter().map(Place::of_column).collect();
    Ok(outcome)
}
