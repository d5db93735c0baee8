//! Measurements of virtual devices, in simulated time.

use super::Options;
use super::session::{Engine, Outcome, Session};
use crate::failure::Failure;
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::loader::NoFiles;
use flashlab_fio::stats::Settings;
use flashlab_fit::observation::Target;
use flashlab_fit::plan::{Area, Plan, PlannedStep};
use flashlab_lab::bench::{Bench, work};
use flashlab_lab::progress::Progress;
use std::path::Path;
use std::process::ExitCode;

/// The simulator. Its device does not outlive the process.
const ENGINE: Engine = Engine { name: "simulated", can_resume: false };

/// Measures a virtual device. Its data is not real, so the plan may always write.
pub(super) fn run(
    options: &Options,
    target: &str,
    to: &Path,
    library: &Library,
    progress: &Progress,
) -> Result<ExitCode, Failure> {
    let device = Device::open(target, library)?;
    let host = host_of(&device, options)?;
    let mut bench = Bench::with(&device, options.seed);
    let geometry = bench.device().geometry();
    let (capacity, block) = (geometry.capacity, u32::try_from(geometry.block).unwrap_or(u32::MAX));
    let area = Area { capacity, block, is_writable: true, discards: true };
    let plan =
        Plan::new(options.plan, &area).map_err(|error| Failure::usage(format!("{target}: {error}")))?;
    for step in &plan.steps {
        progress.plan(work(&jobs(step)?, capacity));
    }
    let measured = Target {
        name: target.to_owned(),
        capacity_bytes: Some(capacity),
        block_bytes: Some(block),
        model: Some(device.title.clone()).filter(|title| !title.is_empty()),
        ..Target::default()
    };
    let session = Session::open(Some(host), &plan, to, measured, ENGINE, progress)?;
    session.announce(capacity);
    bench.report_to(progress);
    let finish = session.run(|planned| {
        let jobs = jobs(planned)?;
        bench.pause(planned.rest);
        let statistics = bench.run(&jobs, &Settings::default())?;
        Ok(Outcome { step: planned.result(&statistics.reports(&jobs)), fatal: None })
    })?;
    finish.code()
}

/// Returns the name of the machine that drives a virtual device.
fn host_of(device: &Device, options: &Options) -> Result<String, Failure> {
    match &options.host {
        Some(host) if *host != device.host_name => Err(Failure::usage(format!(
            "--host {host}: {} is driven by {}; for another host, set it as in {}:host={host}",
            device.argument, device.host_name, device.name
        ))),
        _ => Ok(device.host_name.clone()),
    }
}

/// Returns the jobs of a planned step.
pub(super) fn jobs(step: &PlannedStep) -> Result<Vec<flashlab_fio::job::Job>, Failure> {
    Ok(Invocation::parse(&step.job, &NoFiles).map_err(Failure::usage)?.jobs)
}
