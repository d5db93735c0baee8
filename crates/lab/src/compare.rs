//! Runs one set of jobs on several devices and compares the results.

use crate::bench::{Bench, BenchError, Hint, hints, refusal, work};
use crate::dependence::{dependence, figures as compared_figures};
use crate::experiment::map_parallel::map_parallel;
use crate::figures::{DeviceFigures, JobFigures, figures};
use crate::progress::Progress;
use crate::run_inputs::DeviceInputs;
use crate::statistics::statistics;
use crate::write_first::{Prepared, WriteFirst};
use flashlab_catalogue::device::Device;
use flashlab_catalogue::library::Library;
use flashlab_fio::job::Job;
use flashlab_fio::stats::{Report, Settings};

/// The row of one device.
#[derive(Clone, Debug)]
pub struct Compared {
    /// The device as the argument names it: `sd/kingston`.
    pub device: String,
    /// The full name of the device.
    pub title: String,
    /// The figures of each direction of each job or group that moved data, or the error that ended the jobs.
    pub jobs: Result<Vec<JobFigures>, BenchError>,
    /// Hints for the reader of the figures.
    pub hints: Vec<Hint>,
    /// Data that was written before the jobs.
    pub prepared: Prepared,
    /// Notes on numbers of the device that have no source or that no measurement determines.
    pub remarks: Vec<String>,
    /// Inputs of the run that belong to the device.
    pub inputs: DeviceInputs,
}

impl Compared {
    /// Returns the row in the form that JSON, CSV and pages use.
    pub fn device_figures(&self) -> DeviceFigures {
        DeviceFigures {
            device: self.device.clone(),
            title: self.title.clone(),
            written_first_bytes: self.prepared.bytes,
            jobs: self.jobs.as_ref().map_or_else(|_| Vec::new(), Clone::clone),
            notes: self.hints.iter().map(Hint::to_string).chain(self.remarks.iter().cloned()).collect(),
            error: self.jobs.as_ref().err().map(BenchError::to_string),
            inputs: self.inputs.clone(),
        }
    }
}

/// A run of the jobs on one device.
struct DeviceRun {
    reports: Vec<Report>,
    prepared: Prepared,
    amplification: Option<f64>,
}

/// Runs `jobs` on each of `devices`. `prepare` creates the bench of a device. The devices are independent of each
/// other. Before the jobs begin, the ranges that `write_first` chooses are written to each new device.
/// `settings` configures the statistics.
pub fn compare(
    devices: &[Device],
    library: &Library,
    prepare: &(dyn Fn(&Device) -> Result<Bench, BenchError> + Sync),
    jobs: &[Job],
    write_first: WriteFirst,
    settings: &Settings,
    progress: &Progress,
) -> Vec<Compared> {
    progress.plan(devices.iter().map(|device| work(jobs, device.capacity())).sum());
    map_parallel(devices, |device| {
        progress.enter(device.name.as_str());
        let run = |device: &Device, progress: Option<&Progress>| {
            let mut bench = prepare(device)?;
            if let Some(progress) = progress {
                bench.report_to(progress);
            }
            let write_first = if device.state.is_none() { write_first } else { WriteFirst::Nothing };
            let prepared = bench.prepare(jobs, write_first)?;
            let before = bench.counters();
            let reports = bench.run(jobs, settings)?.reports(jobs);
            let amplification = statistics(&before, &bench.counters(), None).write_amplification;
            refusal(&reports).map_or(Ok(DeviceRun { reports, prepared, amplification }), Err)
        };
        let outcome = run(device, Some(progress));
        let prepared = outcome.as_ref().map_or_else(|_| Prepared::default(), |run| run.prepared.clone());
        let amplification = outcome.as_ref().ok().and_then(|run| run.amplification);
        let reports = outcome.map(|run| run.reports);
        let mut remarks = device.remarks();
        if let Ok(reports) = &reports {
            let again = |other: &Device| Ok(compared_figures(&run(other, None)?.reports));
            let depends = dependence(device, library, reports, &again);
            remarks.extend(depends.iter().map(|what| format!("{} {what}", device.argument)));
        }
        let t_read = device.t_read();
        let hints = hints(reports.as_deref().unwrap_or_default(), t_read);
        let jobs = reports.map(|reports| {
            let mut jobs: Vec<JobFigures> = reports.iter().flat_map(|r| figures(r, t_read)).collect();
            jobs.iter_mut().for_each(|job| job.set_write_amplification(amplification));
            jobs
        });
        Compared {
            device: device.label(),
            title: device.title.clone(),
            jobs,
            hints,
            prepared,
            remarks,
            inputs: DeviceInputs::of(device),
        }
    })
}
