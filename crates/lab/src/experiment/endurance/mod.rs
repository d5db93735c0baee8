//! Experiments of kind `endurance`: how long until the first erase block wears out under a workload that never ends.
//!
//! ```toml
//! kind = "endurance"
//! [columns]
//! kthn-16gb = "sd/kthn-16gb"
//! [endurance]
//! job = "--rw=randwrite --bs=4k ..."   # repeats without end
//! seeds = 16                           # media that are drawn
//! steady_percent = 1.0                 # see below
//! [[preparation]]                      # jobs that are run once, first
//! ```
//! [`Experiment::set_endurance`] puts a user's job, devices and number of seeds in place of the file's.
//!
//! A life of years is not simulated whole. The workload runs until its wear is steady ([`history`]); from there the erase
//! counts are carried on to the limits that the seed gave to the blocks ([`extrapolation`]), and the first block to pass its
//! own ends the life. A device that fails before is simulated to its failure. What fails without being worn
//! (`wear.program_fail`, `wear.erase_fail`) counts if it happens in what is simulated, and is not carried on.

mod extrapolation;
mod history;
mod report;

use super::error::ExperimentError;
use super::side_by_side::side_by_side;
use super::{Experiment, Outcome};
use crate::device::Device;
use crate::library::Library;
use crate::progress::Progress;
use flashlab_fio::iolog::Iolog;
use flashlab_fio::job::Job;
use history::Scene;

/// What a user puts in place of the experiment's own.
#[derive(Clone, Debug, Default)]
pub struct EnduranceSettings {
    /// The workload.
    pub workload: Option<EnduranceWorkload>,
    /// The devices, by the name of their column.
    pub devices: Option<Vec<(String, Device)>>,
    /// How many media are drawn.
    pub seeds: Option<u32>,
}

/// A workload that repeats without end.
#[derive(Clone, Debug)]
pub struct EnduranceWorkload {
    /// What it is called: the name of its file.
    pub name: String,
    /// Its bytes, for the hash of the inputs.
    pub bytes: Vec<u8>,
    /// Its jobs; they run together and again as they end.
    pub jobs: Vec<Job>,
    /// The traces that they name.
    pub iologs: Vec<(String, Iolog)>,
}

/// Runs the workload on all columns and seeds.
pub(super) fn run(
    experiment: &Experiment,
    library: &Library,
    seed: u64,
    progress: &Progress,
) -> Result<Outcome, ExperimentError> {
    let definition = experiment.definition.endurance.as_ref().expect("checked when the experiment was read");
    let own;
    let workload = match &experiment.endurance.workload {
        Some(workload) => workload,
        None => {
            own = EnduranceWorkload {
                name: "the experiment's job".into(),
                bytes: Vec::new(),
                jobs: experiment.read_job("endurance", &definition.job)?,
                iologs: Vec::new(),
            };
            &own
        }
    };
    let columns = match &experiment.endurance.devices {
        Some(devices) => devices.clone(),
        None => experiment.columns(library)?,
    };
    let preparation = &experiment.definition.preparation;
    let preparation = preparation.iter().map(|p| experiment.read_job("preparation", &p.job));
    let preparation = preparation.collect::<Result<Vec<_>, _>>()?;
    let count = u64::from(experiment.endurance.seeds.unwrap_or(definition.seeds));
    let seeds: Vec<u64> = (0..count).map(|n| seed.wrapping_add(n)).collect();
    progress.plan(columns.len() as u64 * count);
    let lives = side_by_side(&columns, |(column, device)| {
        progress.enter(column.as_str());
        if progress.is_stopped() {
            return Err(ExperimentError::Stopped);
        }
        let scene =
            Scene { device, workload, preparation: &preparation, steady_percent: definition.steady_percent };
        // A state is that of one medium.
        let seeds = if device.state.is_some() { &seeds[..1] } else { &seeds };
        let lives = scene.lives(seeds);
        progress.advance(count);
        lives.map_err(|error| ExperimentError::of_bench(column.clone(), error))
    });
    let mut outcome = Outcome::default();
    for ((column, device), lives) in columns.iter().zip(lives) {
        let (lives, used) = lives?;
        report::report(&mut outcome, column, device, &lives, used);
    }
    outcome.devices = columns.into_iter().map(|(_, device)| device).collect();
    Ok(outcome)
}
