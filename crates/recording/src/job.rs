//! A replay as a job. Like a job of fio, it reports its requests to a [`Record`], so that the statistics,
//! outputs and logs of fio also work for recordings.
//!
//! The latency of a request counts from its submission. As in fio, a request that the device rejects ends the
//! job. Trims and flushes that the device does not support are exceptions, because a kernel would not send
//! them to such a device.

use crate::replay::Flight;
use crate::{ReadStep, Replay, ReplayError};
use flashlab_fio::job::Direction;
use flashlab_fio::workload::{Cause, Io, Record};
use flashlab_sim::{Arrival, Completion, FileId, Instant, Op, Request, Status, Workload};
use std::collections::BTreeMap;

/// A [`Replay`] that reports to a recorder as job 0.
#[derive(Debug)]
pub struct ReplayJob<S, R> {
    replay: Replay<S>,
    record: R,
    /// Offsets of the flushes in flight, by their ids.
    flushes: BTreeMap<u64, u64>,
    start: Instant,
    last: Instant,
    /// Offset of the last request with a range. The logs of fio show a flush at this offset.
    last_offset: u64,
    submitted: u64,
    requests: u64,
    started: bool,
    stopped: bool,
    /// Instant from which no more requests are submitted.
    until: Instant,
}

impl<S: ReadStep, R: Record> ReplayJob<S, R> {
    /// Wraps a replay of `requests` requests that starts at `start`.
    pub fn new(replay: Replay<S>, requests: u64, start: Instant, record: R) -> ReplayJob<S, R> {
        ReplayJob {
            replay,
            record,
            flushes: BTreeMap::new(),
            start,
            last: start,
            last_offset: 0,
            submitted: 0,
            requests,
            started: false,
            stopped: false,
            until: Instant::MAX,
        }
    }

    /// Submits no more requests from `until` on, if there is such a limit.
    #[must_use]
    pub fn until(self, until: Option<Instant>) -> ReplayJob<S, R> {
        ReplayJob { until: until.unwrap_or(Instant::MAX), ..self }
    }

    /// Submits no more requests. The requests in flight complete.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Returns the submitted part of the requests, between 0 and 1.
    pub fn share_done(&self) -> f64 {
        self.submitted as f64 / self.requests.max(1) as f64
    }

    /// Returns the steps after the last one that was read, and the recorder.
    ///
    /// # Errors
    /// Returns the first step that cannot be replayed.
    pub fn finish(mut self) -> Result<(S, R), ReplayError> {
        self.begin();
        self.record.finished(0, self.last);
        Ok((self.replay.into_steps()?, self.record))
    }

    fn begin(&mut self) {
        if !self.started {
            self.started = true;
            self.record.started(0, self.start);
        }
    }
}

impl<S: ReadStep, R: Record> Workload for ReplayJob<S, R> {
    fn next(&mut self, now: Instant) -> Arrival {
        match self.replay.next(now) {
            _ if self.stopped => Arrival::Done,
            Arrival::At(at) if at >= self.until => Arrival::Done,
            next => next,
        }
    }

    fn submit(&mut self, at: Instant) -> Request {
        self.begin();
        let request = self.replay.submit(at);
        let Request { id, op, offset, length, .. } = request;
        self.submitted += 1;
        if op.is_flush() {
            self.flushes.insert(id.0, self.last_offset);
            self.record.flushing(0, FileId::DEVICE, self.last_offset, op == Op::FlushData, at);
        } else {
            self.last_offset = offset;
            self.record.submitted(0, &io(op, offset, length, at), self.replay.in_flight() as u32);
        }
        request
    }

    fn completed(&mut self, completion: &Completion) {
        let depth = self.replay.in_flight() as u32;
        let Some(Flight { op, mut offset, length, submitted, .. }) = self.replay.end(completion) else {
            return;
        };
        if op.is_flush() {
            offset = self.flushes.remove(&completion.id.0).expect("the flush is in flight");
        }
        let io = io(op, offset, length, submitted);
        let at = completion.at;
        self.last = self.last.max(at);
        match completion.status {
            Status::Ok if op.is_flush() => self.record.synced(0, io.issued, at, &completion.spent, depth),
            Status::Ok => self.record.completed(0, &io, at, &completion.spent),
            Status::Unsupported if op.is_flush() || op == Op::Trim => {}
            _ if self.stopped => {}
            status => {
                let cause = if op.is_flush() { Cause::Flush(status) } else { Cause::Device(status) };
                self.record.failed(0, &io, at, cause);
                self.stopped = true;
            }
        }
    }
}

/// Returns a request as the recorder knows it; a flush is a write of no bytes.
fn io(op: Op, offset: u64, length: u64, submitted: Instant) -> Io {
    let direction = match op {
        Op::Read => Direction::Read,
        Op::Trim => Direction::Trim,
        Op::Write | Op::WriteFua | Op::Flush | Op::FlushData => Direction::Write,
    };
    Io { direction, file: FileId::DEVICE, offset, length, ready: submitted, issued: submitted }
}
