//! One run of jobs on a bench: statistics, counters of the device, and facts that belong beside the figures.

use crate::bench::{Bench, BenchError};
use crate::results::DeviceStatistics;
use crate::statistics::statistics;
use flashlab_fio::cmdline::Invocation;
use flashlab_fio::job::{Extent, Job};
use flashlab_fio::stats::{Report, Settings, Statistics};
use flashlab_sim::{Duration, Histogram, Mechanism};
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
    /// Note on the page cache of buffered jobs.
    pub page_cache: Option<String>,
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
            page_cache: bench.page_cache_note(jobs),
            written_first,
            stopped_after: bench.is_stopped().then(|| bench.now().since(begin)),
        };
        Ok(JobRun { reports: recorded.reports(jobs), statistics: recorded, iologs, counted, notes })
    }

    /// Returns the number of completed requests of all jobs.
    pub fn requests(&self) -> u64 {
        self.reports.iter().map(|report| report.stats.total_ios()).sum()
    }

    /// Returns the bytes that these requests moved.
    pub fn bytes(&self) -> u64 {
        self.reports.iter().flat_map(|report| &report.stats.directions).map(|way| way.io_bytes).sum()
    }

    /// Returns the milliseconds in which jobs ran: the longest runtime of each wave, summed over the waves.
    pub fn runtime_ms(&self) -> u64 {
        let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
        for report in &self.reports {
            let runtime = report.stats.directions.iter().map(|way| way.runtime_ms).max().unwrap_or(0);
            let wave = longest.entry(report.job.wave).or_default();
            *wave = runtime.max(*wave);
        }
        longest.values().sum()
    }

    /// Returns requests per second over all jobs and directions; 0 if no time passed.
    pub fn requests_per_second(&self) -> f64 {
        per_second(self.requests(), self.runtime_ms())
    }

    /// Returns bytes per second over all jobs and directions; 0 if no time passed.
    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes(), self.runtime_ms())
    }

    /// Returns the histogram of all completion latencies.
    pub fn latencies(&self) -> Histogram {
        let mut all = Histogram::new();
        for way in self.reports.iter().flat_map(|report| &report.stats.directions) {
            all.merge(&way.clat);
        }
        all
    }

    /// Returns the nanoseconds that the mean request of all jobs spent in each mechanism.
    pub fn mechanisms_ns(&self) -> Vec<(&'static str, f64)> {
        let requests = self.requests().max(1) as f64;
        let directions = || self.reports.iter().flat_map(|report| &report.stats.directions);
        let sum = |mechanism| directions().map(|way| way.mechanism_ns(mechanism)).sum::<u64>();
        let spent = Mechanism::ALL.into_iter().map(|mechanism| (mechanism.name(), sum(mechanism)));
        spent.filter(|(_, ns)| *ns > 0).map(|(name, ns)| (name, ns as f64 / requests)).collect()
    }
}

fn per_second(count: u64, milliseconds: u64) -> f64 {
    if milliseconds == 0 { 0.0 } else { 1_000.0 * count as f64 / milliseconds as f64 }
}

/// Returns a note that files lie on the bare device, if a job has `directory=`, or that buffered clones share a region
/// of the device. The note is meant for devices without a filesystem.
pub fn files_on_bare_device(invocation: &Invocation) -> Option<String> {
    let Some(directory) = invocation.jobs.iter().find_map(|job| job.directory.as_ref()) else {
        return clones_on_one_region(&invocation.jobs);
    };
    Some(format!(
        "directory={directory}: without a filesystem, its files lie one after the other on the bare device (--fs vfat \
         adds a filesystem)"
    ))
}

/// Returns a note on buffered clones that use the same region of the device. In fio, each clone would have files of its
/// own, and pages of its own in the cache.
fn clones_on_one_region(jobs: &[Job]) -> Option<String> {
    let has_twin = |job: &&Job| {
        let twins = jobs.iter().filter(|other| other.name == job.name && other.wave == job.wave);
        job.buffered
            && job.read_iolog.is_none()
            && job.directory.is_none()
            && job.offset_increment == Extent::Bytes(0)
            // Clones with `filename=` have the same names.
            && twins.clone().any(|other| other.files != job.files)
    };
    let job = jobs.iter().find(has_twin)?;
    let clones = jobs.iter().filter(|other| other.name == job.name && other.wave == job.wave).count();
    Some(format!(
        "{}: without directory= and filename=, fio gives each of the {clones} clones a file of its own; here they share the \
         same bytes of the device and their pages in the cache. directory=/d lays out a file for each.",
        job.name
    ))
}
