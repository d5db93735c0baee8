//! What jobs did, counted while they run: fio's statistics, where the time went, and the tail of the writes.
//!
//! [`Statistics`] takes the events of a wave of jobs through [`crate::workload::Record`]; a completion costs one step in
//! one histogram and a few additions, and allocates nothing unless a log was asked for. [`Report`]s are what output
//! describes: a job, or a group of jobs.
//!
//! Simulated submission takes no time: slat is what a request waited in the job itself before it was handed over, lat
//! is slat and clat together.

mod job;
mod log;
mod recorder;
mod report;
mod samples;
mod table;
mod tail;

pub use job::{DirectionStats, Failure, JobStats};
pub use log::{Entry, LatencyLogs, Log, Logs};
pub use report::{GroupLine, Report, groups};
pub(crate) use report::{block_sizes, share_of_group};
pub use samples::Samples;
pub(crate) use table::share;
pub use table::{BatchTable, DepthTable, LatencyTable};
pub use tail::{LoggerBuffer, Tail};

use crate::job::Job;
use crate::workload::{Cause, Io, Record};
use flashlab_sim::{Instant, Spent};
use recorder::Recorder;
use std::ops::Range;

/// What is counted beyond fio's own statistics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Bytes a second of producers for which the buffer is computed. None by default: each costs time at every write.
    pub logger_rates: Vec<u64>,
}

/// Counts a run of jobs.
#[derive(Clone, Debug)]
pub struct Statistics {
    recorders: Vec<Recorder>,
}

impl Statistics {
    /// For `jobs`, all waves of them.
    pub fn new(jobs: &[Job], settings: &Settings) -> Self {
        Statistics { recorders: jobs.iter().map(|job| Recorder::new(job, &settings.logger_rates)).collect() }
    }

    /// The recorder of the wave that consists of these jobs: job 0 of the wave is the first of the range.
    ///
    /// # Panics
    /// If the range is not within the jobs.
    pub fn wave(&mut self, jobs: Range<usize>) -> WaveRecorder<'_> {
        WaveRecorder(&mut self.recorders[jobs])
    }

    /// Adds what `job` did later, in a phase of its own, from statistics of that phase alone.
    ///
    /// # Panics
    /// If there is no such job in one of them.
    pub fn append(&mut self, job: usize, later: &Statistics, job_of_later: usize) {
        self.recorders[job].append(later.job(job_of_later));
    }

    /// What is known of one job.
    ///
    /// # Panics
    /// If there is no such job.
    pub fn job(&self, job: usize) -> &JobStats {
        self.recorders[job].stats()
    }

    /// The entries of the output; `jobs` are those that this was made for.
    ///
    /// # Panics
    /// If the number of jobs is another.
    pub fn reports(&self, jobs: &[Job]) -> Vec<Report> {
        assert_eq!(
            jobs.len(),
            self.recorders.len(),
            "statistics are reported with the jobs they were made for"
        );
        report::reports(jobs, self.recorders.iter().map(Recorder::stats))
    }
}

/// Takes the events of one wave.
#[derive(Debug)]
pub struct WaveRecorder<'a>(&'a mut [Recorder]);

impl Record for WaveRecorder<'_> {
    fn started(&mut self, job: usize, at: Instant) {
        self.0[job].started(at);
    }
    #[inline]
    fn submitted(&mut self, job: usize, io: &Io, depth: u32) {
        self.0[job].submitted(io, depth);
    }
    #[inline]
    fn completed(&mut self, job: usize, io: &Io, done: Instant, spent: &Spent) {
        self.0[job].completed(io, done, spent);
    }
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, depth: u32) {
        self.0[job].synced(issued, done, depth);
    }
    fn ramp_over(&mut self, job: usize, at: Instant) {
        self.0[job].ramp_over(at);
    }
    fn failed(&mut self, job: usize, io: &Io, at: Instant, cause: Cause) {
        self.0[job].failed(io, at, cause);
    }
    fn finished(&mut self, job: usize, at: Instant) {
        self.0[job].finished(at);
    }
}
