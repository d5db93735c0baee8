//! One run of jobs on a bench: statistics, counters of the device, and facts that belong beside the figures.

use crate::bench::{Bench, BenchError};
use crate::results::DeviceStatistics;
use crate::statistics::statistics;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::stats::{Report, Settings, Statistics};
use flashlab_sim::Duration;
use std::collections::BTreeMap;

/// Results of a run of jobs.
#[derive(Clone, Debug)]
pub struct JobRun {
    /// One entry for each job, or for each group of jobs that is reported as one.
    pub reports: Vec<Report>,
    /// Samples for the jobs' log files.
    pub statistics: Statistics,
    /// Recorded iologs by job number.
    pub iologs: BTreeMap<usize, String>,
    /// Counters of the device during the run. The caller fills in the name and the remarks.
    pub counted: DeviceStatistics,
    /// Facts that are printed beside the figures.
    pub notes: Notes,
}

/// Facts about a run, printed beside its figures.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Notes {
    /// Note on the placement of the jobs' files on a bare device.
    pub files: Option<String>,
    /// Bytes that were written before the jobs began because the jobs read them.
    pub written_first: u64,
    /// Simulated time after which the user ended the run.
    pub stopped_after: Option<Duration>,
}

impl JobRun {
    /// Runs the jobs of `invocation` on `bench`. With `write_first`, the data that they read is written before they
    /// begin.
    pub fn new(
        bench: &mut Bench,
        invocation: &Invocation,
        settings: &Settings,
        write_first: bool,
    ) -> Result<JobRun, BenchError> {
        let jobs = &invocation.jobs;
        let written_first = if write_first { bench.write_before_read(jobs)? } else { 0 };
        let (before, begin) = (bench.counters(), bench.now());
        let (recorded, iologs) = bench.run_recorded(jobs, settings)?;
        let counted = statistics(&before, &bench.counters(), bench.wear().as_ref());
        let notes = Notes {
            files: if bench.has_filesystem() { None } else { files_on_bare_device(invocation) },
            written_first,
            stopped_after: bench.is_stopped().then(|| bench.now().since(begin)),
        };
        Ok(JobRun { reports: recorded.reports(jobs), statistics: recorded, iologs, counted, notes })
    }
}

/// Returns a note that files lie on the bare device, if a job has `directory=`. It is meant for devices without a
/// filesystem.
pub fn files_on_bare_device(invocation: &Invocation) -> Option<String> {
    let directory = invocation.jobs.iter().find_map(|job| job.directory.as_ref())?;
    Some(format!(
        "directory={directory}: without a filesystem, its files lie one after the other on the bare device (--fs vfat \
         adds a filesystem)"
    ))
}
