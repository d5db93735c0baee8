//! The seam between what is asked and what is counted: jobs tell a [`Record`], statistics and logs implement it.
//!
//! Jobs are named by their place in the slice that the wave was made from. Calls for one job come in
//! the order of simulated time. A *depth* is how many requests a job has out:
//! handed over, and not yet looked at when done.

use crate::job::Direction;
use flashlab_sim::{Duration, FileId, Instant, Spent, Status};

/// One read, write or trim of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// What is done.
    pub direction: Direction,
    /// On which file.
    pub file: FileId,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// When the job had made it; fio's lat counts from here.
    pub ready: Instant,
    /// When it was handed over; fio's slat ends and its clat begins here.
    pub issued: Instant,
}

/// Why a request ended its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The device completed the request with this status.
    Device(Status),
    /// The request took longer than `max_latency=` allows.
    MaxLatency {
        /// Time from the request's making to its completion.
        took: Duration,
        /// The limit.
        limit: Duration,
    },
}

/// Takes what happens to the jobs of a wave.
///
/// A ramp needs no memory of what was issued in it: fio counts what *completes* after the ramp. So a recorder counts
/// every [`Record::completed`], and forgets all of a job (not what is outstanding) at [`Record::ramp_over`].
pub trait Record {
    /// A job begins; its runtime counts from here (or from its [`Record::ramp_over`]).
    fn started(&mut self, job: usize, at: Instant);
    /// A request is handed to the device (`io.issued` is now); `depth` counts it too.
    fn submitted(&mut self, job: usize, io: &Io, depth: u32);
    /// A request is done. `spent` sums to the time since its submission; it includes that of a flush which the request
    /// had to wait for (`sync=1`).
    fn completed(&mut self, job: usize, io: &Io, done: Instant, spent: &Spent);
    /// A flush is handed to the device; `offset` is where the request before it was, as fio logs it.
    fn flushing(&mut self, _job: usize, _file: FileId, _offset: u64, _data_only: bool, _at: Instant) {}
    /// A flush (`fsync`, `fdatasync`, `fsync_on_close`, `end_fsync`, or one of an iolog) is done; `depth` still counts it.
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, depth: u32);
    /// The job's ramp is over: all that was counted for it so far is dropped, and its runtime counts from `at`.
    fn ramp_over(&mut self, job: usize, at: Instant);
    /// A request failed or took too long; the job ends as fio's does, and `finished` follows.
    fn failed(&mut self, job: usize, io: &Io, at: Instant, cause: Cause);
    /// The job has ended, flushes at its end included.
    fn finished(&mut self, job: usize, at: Instant);
}

/// Counts nothing.
impl Record for () {
    fn started(&mut self, _: usize, _: Instant) {}
    fn submitted(&mut self, _: usize, _: &Io, _: u32) {}
    fn completed(&mut self, _: usize, _: &Io, _: Instant, _: &Spent) {}
    fn synced(&mut self, _: usize, _: Instant, _: Instant, _: u32) {}
    fn ramp_over(&mut self, _: usize, _: Instant) {}
    fn failed(&mut self, _: usize, _: &Io, _: Instant, _: Cause) {}
    fn finished(&mut self, _: usize, _: Instant) {}
}

impl<R: Record> Record for &mut R {
    fn started(&mut self, job: usize, at: Instant) {
        (**self).started(job, at);
    }
    fn submitted(&mut self, job: usize, io: &Io, depth: u32) {
        (**self).submitted(job, io, depth);
    }
    fn completed(&mut self, job: usize, io: &Io, done: Instant, spent: &Spent) {
        (**self).completed(job, io, done, spent);
    }
    fn flushing(&mut self, job: usize, file: FileId, offset: u64, data_only: bool, at: Instant) {
        (**self).flushing(job, file, offset, data_only, at);
    }
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, depth: u32) {
        (**self).synced(job, issued, done, depth);
    }
    fn ramp_over(&mut self, job: usize, at: Instant) {
        (**self).ramp_over(job, at);
    }
    fn failed(&mut self, job: usize, io: &Io, at: Instant, cause: Cause) {
        (**self).failed(job, io, at, cause);
    }
    fn finished(&mut self, job: usize, at: Instant) {
        (**self).finished(job, at);
    }
}
