//! Statistics of jobs, collected while the jobs run: fio's statistics, the time per mechanism, and the tail of the
//! write latencies.
//!
//! [`Statistics`] receives the events of a wave of jobs through [`crate::workload::Record`]. Without logs,
//! logger rates, a timeline and requests that wait in the job, a completion costs one update of one histogram
//! and a few additions, and allocates nothing. A [`Report`] describes one entry of the output: a job, or a
//! group of jobs.
//!
//! A simulated submission takes no time. slat is therefore the time that a request waits in the job before its
//! submission, and lat is the sum of slat and clat.

mod job;
mod log;
mod recorder;
mod report;
mod samples;
mod table;
mod tail;
mod timeline;

pub use job::{DirectionStats, Failure, JobStats};
pub use log::{Entry, LatencyLogs, Log, Logs};
pub use report::{GroupLine, Report, groups};
pub(crate) use report::{block_sizes, share_of_group};
pub use samples::Samples;
pub(crate) use table::share;
pub use table::{BatchTable, DepthTable, LatencyTable};
pub use tail::{LoggerBuffer, Tail};
pub use timeline::{COLUMNS_MAX, Column, Timeline, row_begin_ns};

use crate::job::Job;
use crate::workload::{Cause, Io, Record};
use flashlab_sim::{Instant, Spent};
use recorder::Recorder;
use std::ops::Range;

/// Settings of statistics that fio does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Data rates of producers, in bytes a second; a buffer size is computed for each. Empty by default,
    /// since each rate costs CPU time at every write and every flush.
    pub logger_rates: Vec<u64>,
    /// True if the latencies over time are collected, for a heat map. False by default, since this costs CPU
    /// time at every request.
    pub timeline: bool,
}

/// The statistics of a run of jobs.
#[derive(Clone, Debug)]
pub struct Statistics {
    recorders: Vec<Recorder>,
}

impl Statistics {
    /// Returns empty statistics for `jobs`, all waves included.
    pub fn new(jobs: &[Job], settings: &Settings) -> Self {
        Statistics { recorders: jobs.iter().map(|job| Recorder::new(job, settings)).collect() }
    }

    /// Returns the recorder of the wave that consists of these jobs. Job 0 of the wave is the first job of the range.
    ///
    /// # Panics
    /// Panics if the range is not within the jobs.
    pub fn wave(&mut self, jobs: Range<usize>) -> WaveRecorder<'_> {
        WaveRecorder(&mut self.recorders[jobs])
    }

    /// Adds the statistics of a later, separate phase of `job`. `later` contains the statistics of that phase alone,
    /// in which the job has the number `job_of_later`.
    ///
    /// # Panics
    /// Panics if one of the statistics has no such job.
    pub fn append(&mut self, job: usize, later: &Statistics, job_of_later: usize) {
        self.recorders[job].append(later.job(job_of_later));
    }

    /// Returns the statistics of one job.
    ///
    /// # Panics
    /// Panics if there is no such job.
    pub fn job(&self, job: usize) -> &JobStats {
        self.recorders[job].stats()
    }

    /// Returns the entries of the output. `jobs` are the jobs passed to [`Statistics::new`].
    ///
    /// # Panics
    /// Panics if the number of jobs differs.
    pub fn reports(&self, jobs: &[Job]) -> Vec<Report> {
        assert_eq!(
            jobs.len(),
            self.recorders.len(),
            "statistics are reported with the jobs they were made for"
        );
        report::reports(jobs, self.recorders.iter().map(Recorder::stats))
    }
}

/// Records the events of one wave.
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
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, spent: &Spent, depth: u32) {
        self.0[job].synced(issued, done, spent, depth);
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
