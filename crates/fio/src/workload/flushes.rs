//! The flushes of a job: after every so many writes, and at the end.

use crate::job::{Direction, Job, Mix};
use crate::workload::Io;
use crate::workload::stream::UntimedRequest;
use flashlab_sim::{FileId, Instant};

/// A flush that a job has to submit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flush {
    pub(crate) file: FileId,
    /// Offset of the previous request, which fio logs.
    pub(crate) offset: u64,
    /// True for `fdatasync`, false for `fsync`.
    pub(crate) data_only: bool,
}

impl Flush {
    /// Returns the flush as a write of zero bytes that was submitted at `at`.
    pub(crate) fn io(&self, at: Instant) -> Io {
        let Flush { file, offset, .. } = *self;
        Io { direction: Direction::Write, file, offset, length: 0, ready: at, issued: at }
    }
}

/// Counts the writes of a job up to its next flush.
#[derive(Clone, Debug)]
pub(super) struct Flushes {
    /// True if the job flushes at all. Only then are its writes counted.
    any: bool,
    /// Number of writes from one flush to the next; 0 if there is none.
    fsync: u64,
    fdatasync: u64,
    /// True if no request followed the last flush.
    flushed_last: bool,
    writes: u64,
    /// File and offset of the last request.
    last: (FileId, u64),
}

impl Flushes {
    pub(super) fn new(job: &Job) -> Flushes {
        // As in fio, a job that trims before it writes flushes only at its end.
        let every = |writes: u32| if job.pattern.mix == Mix::TrimWrite { 0 } else { u64::from(writes) };
        Flushes {
            any: job.fsync > 0 || job.fdatasync > 0 || job.fsync_on_close || job.end_fsync,
            fsync: every(job.fsync),
            fdatasync: every(job.fdatasync),
            flushed_last: false,
            writes: 0,
            last: (FileId::DEVICE, 0),
        }
    }

    /// Returns true if the job flushes at all.
    pub(super) fn any(&self) -> bool {
        self.any
    }

    /// Returns the flush that is due before the next request. fio counts writes, and checks after every request.
    #[inline]
    pub(super) fn due(&mut self) -> Option<Flush> {
        if self.any { self.after_writes() } else { None }
    }

    fn after_writes(&mut self) -> Option<Flush> {
        if self.flushed_last || self.writes == 0 {
            return None;
        }
        let due = |every: u64| every > 0 && self.writes.is_multiple_of(every);
        let data_only = match (due(self.fsync), due(self.fdatasync)) {
            (true, _) => false,
            (false, true) => true,
            (false, false) => return None,
        };
        self.flushed_last = true;
        let (file, offset) = self.last;
        Some(Flush { file, offset, data_only })
    }

    /// Returns the flushes at the end of a loop that writes, one for each of `files`; none directly after
    /// another flush.
    pub(super) fn at_end(&mut self, files: impl Iterator<Item = FileId>) -> Vec<Flush> {
        if std::mem::replace(&mut self.flushed_last, true) {
            return Vec::new();
        }
        let (_, offset) = self.last;
        files.map(|file| Flush { file, offset, data_only: false }).collect()
    }

    /// Counts a request.
    #[inline]
    pub(super) fn count(&mut self, request: &UntimedRequest) {
        if self.any {
            self.writes += u64::from(request.direction == Direction::Write);
            self.flushed_last = false;
            self.last = (request.file, request.offset);
        }
    }

    /// Begins another loop. As in fio, a flush that was due at the end of the previous loop is due again.
    pub(super) fn begin_another_loop(&mut self) {
        self.flushed_last = false;
    }

    /// Resets the count at the end of a ramp.
    pub(super) fn ramp_over(&mut self) {
        self.writes = 0;
    }
}
