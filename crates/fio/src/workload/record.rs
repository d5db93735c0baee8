//! The interface between workloads and statistics: jobs report events to a [`Record`], which statistics and logs
//! implement.
//!
//! Jobs are identified by their index in the slice that the wave was made from. The calls for one job come in the order
//! of simulated time. A *depth* is the number of in-flight requests of a job, which are submitted and not yet reaped.

use crate::job::Direction;
use flashlab_sim::{Duration, FileId, Instant, Spent, Status};

/// One read, write or trim of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// Direction of the request.
    pub direction: Direction,
    /// File of the request.
    pub file: FileId,
    /// First byte of the request.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Time at which the job made the request. fio's lat and slat begin here.
    pub ready: Instant,
    /// Time of the submission. fio's slat ends and its clat begins here.
    pub issued: Instant,
}

/// The reason why a request ended its job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The device completed the request with this status.
    Device(Status),
    /// The device completed a flush (of `fsync=`, `fdatasync=`, `end_fsync=` or `sync=1`) with this status.
    Flush(Status),
    /// The request took longer than `max_latency=` allows.
    MaxLatency {
        /// Time from the making of the request to the moment at which the job reaped it.
        took: Duration,
        /// Limit that the option sets.
        limit: Duration,
    },
}

/// Receives the events of the jobs of a wave.
///
/// A recorder need not remember which requests were submitted during a ramp, since fio counts every request
/// that *completes* after the ramp. A recorder therefore counts every [`Record::completed`], and discards all
/// counts of a job (but not its outstanding requests) at [`Record::ramp_over`].
pub trait Record {
    /// Records the start of a job. Its runtime counts from here, or from its [`Record::ramp_over`].
    fn started(&mut self, job: usize, at: Instant);
    /// Records the submission of a request to the device (at `io.issued`). `depth` includes the request.
    fn submitted(&mut self, job: usize, io: &Io, depth: u32);
    /// Records a completion. The sum of `spent` is the time since the submission, including the time of a flush that
    /// the request had to wait for (`sync=1`).
    fn completed(&mut self, job: usize, io: &Io, done: Instant, spent: &Spent);
    /// Records the submission of a flush to the device. `offset` is that of the previous request, as in fio's logs.
    fn flushing(&mut self, _job: usize, _file: FileId, _offset: u64, _data_only: bool, _at: Instant) {}
    /// Records the completion of a flush (`fsync`, `fdatasync`, `fsync_on_close`, `end_fsync`, or from an iolog).
    /// `depth` includes the flush. The sum of `spent` is the time since the submission.
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, spent: &Spent, depth: u32);
    /// Ends the job's ramp. All counts of the job so far are dropped, and its runtime counts from `at`.
    fn ramp_over(&mut self, job: usize, at: Instant);
    /// Records that a request or flush failed, or that a request took too long. The job ends as in fio, and
    /// [`Record::finished`] follows.
    fn failed(&mut self, job: usize, io: &Io, at: Instant, cause: Cause);
    /// Records the end of a job, after the flushes at its end.
    fn finished(&mut self, job: usize, at: Instant);
}

/// A recorder that counts nothing.
impl Record for () {
    fn started(&mut self, _: usize, _: Instant) {}
    fn submitted(&mut self, _: usize, _: &Io, _: u32) {}
    fn completed(&mut self, _: usize, _: &Io, _: Instant, _: &Spent) {}
    fn synced(&mut self, _: usize, _: Instant, _: Instant, _: &Spent, _: u32) {}
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
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, spent: &Spent, depth: u32) {
        (**self).synced(job, issued, done, spent, depth);
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
