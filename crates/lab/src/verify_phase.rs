//! The second phase of a job with `verify=`: like fio, the job reads back each range that it wrote, once.
//!
//! The reads follow the order of the writes. If some writes overlapped, the reads are sorted by address and
//! skip every write that a later write or trim overlapped. This module only decides which ranges to read. The
//! device that stores the bytes verifies them.

use flashlab_fio::iolog::{Action, Entry, Iolog, Version};
use flashlab_fio::job::{Direction, Job, Mix, Pattern};
use flashlab_fio::workload::{Cause, Io, Record};
use flashlab_sim::{Duration, FileId, Instant, Spent};
use std::collections::BTreeMap;

/// Returns true if a job has a second phase.
pub(crate) fn has_verify_phase(job: &Job) -> bool {
    // As in fio, the phase never starts if the writes use up the runtime.
    let time_is_up = job.time_based && job.runtime.is_some();
    job.verify.method().is_some() && job.verify.reads_back && writes(job) && !time_is_up
}

fn writes(job: &Job) -> bool {
    !matches!(job.pattern.mix, Mix::Read | Mix::Trim) && job.read_iolog.is_none()
}

/// A recorder that forwards all events to another recorder and records the ranges that each job writes.
pub(crate) struct WriteRecorder<R> {
    inner: R,
    jobs: Vec<WrittenRanges>,
}

/// The ranges that one job wrote.
#[derive(Default)]
pub(crate) struct WrittenRanges {
    /// Ranges in the order of the writes; `None` if a later request overwrote or trimmed the range.
    ranges: Vec<Option<Io>>,
    /// Index into `ranges` by file and first byte.
    places: BTreeMap<(FileId, u64), usize>,
    overlapped: bool,
    failed: bool,
}

impl WrittenRanges {
    fn note(&mut self, io: &Io) {
        let end = io.offset + io.length;
        let before = self.places.range(..(io.file, end)).rev();
        let met: Vec<_> = before
            .take_while(|((file, _), place)| {
                *file == io.file
                    && self.ranges[**place].is_some_and(|old| old.offset + old.length > io.offset)
            })
            .map(|(key, place)| (*key, *place))
            .collect();
        for (key, place) in met {
            self.places.remove(&key);
            self.ranges[place] = None;
            self.overlapped = true;
        }
        if io.direction == Direction::Write {
            self.places.insert((io.file, io.offset), self.ranges.len());
            self.ranges.push(Some(*io));
        }
    }

    /// Returns the reads of the second phase; none if a request of the job failed. `files` are the files of
    /// the job, in order.
    pub(crate) fn to_read(&self, files: &[FileId]) -> Iolog {
        let mut ranges: Vec<Io> = self.ranges.iter().copied().flatten().collect();
        if self.overlapped {
            ranges.sort_by_key(|io| (io.file, io.offset));
        }
        let entry = |io: Io| {
            let file = files.iter().position(|file| *file == io.file)? as u32;
            Some(Entry {
                at: Duration::ZERO,
                action: Action::Read,
                file,
                offset: io.offset,
                length: io.length,
            })
        };
        Iolog {
            version: Version::Three,
            files: (0..files.len()).map(|n| n.to_string()).collect(),
            entries: if self.failed { Vec::new() } else { ranges.into_iter().filter_map(entry).collect() },
        }
    }
}

/// Returns the job of the second phase, whose runtime is the time that remains after `ran`.
pub(crate) fn job(of: &Job, ran: Duration) -> Job {
    Job {
        pattern: Pattern { mix: Mix::Read, ..of.pattern },
        runtime: of.runtime.map(|runtime| runtime.saturating_sub(ran)),
        read_iolog: Some(of.name.clone()),
        replay_no_stall: true,
        time_based: false,
        ramp_time: Duration::ZERO,
        start_delay: Duration::ZERO,
        think_time: Duration::ZERO,
        fsync: 0,
        fdatasync: 0,
        fsync_on_close: false,
        end_fsync: false,
        sync: None,
        write_bw_log: None,
        write_lat_log: None,
        write_iops_log: None,
        write_iolog: None,
        ..of.clone()
    }
}

impl<R> WriteRecorder<R> {
    /// Creates a recorder that forwards to `inner`, for a wave of `jobs` jobs.
    pub(crate) fn new(jobs: usize, inner: R) -> WriteRecorder<R> {
        WriteRecorder { inner, jobs: (0..jobs).map(|_| WrittenRanges::default()).collect() }
    }

    /// Returns the inner recorder and the ranges that each job wrote.
    pub(crate) fn finish(self) -> (R, Vec<WrittenRanges>) {
        (self.inner, self.jobs)
    }
}

impl<R: Record> Record for WriteRecorder<R> {
    fn started(&mut self, job: usize, at: Instant) {
        self.inner.started(job, at);
    }
    fn submitted(&mut self, job: usize, io: &Io, depth: u32) {
        if io.direction != Direction::Read {
            self.jobs[job].note(io);
        }
        self.inner.submitted(job, io, depth);
    }
    fn completed(&mut self, job: usize, io: &Io, done: Instant, spent: &Spent) {
        self.inner.completed(job, io, done, spent);
    }
    fn flushing(&mut self, job: usize, file: FileId, offset: u64, data_only: bool, at: Instant) {
        self.inner.flushing(job, file, offset, data_only, at);
    }
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, spent: &Spent, depth: u32) {
        self.inner.synced(job, issued, done, spent, depth);
    }
    fn ramp_over(&mut self, job: usize, at: Instant) {
        self.inner.ramp_over(job, at);
    }
    fn failed(&mut self, job: usize, io: &Io, at: Instant, cause: Cause) {
        self.jobs[job].failed = true;
        self.inner.failed(job, io, at, cause);
    }
    fn finished(&mut self, job: usize, at: Instant) {
        self.inner.finished(job, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left_of(ios: &[(Direction, u64, u64)]) -> Vec<(u64, u64)> {
        let mut written = WrittenRanges::default();
        for (direction, offset, length) in ios {
            let (file, direction) = (FileId::DEVICE, *direction);
            let (ready, issued) = (Instant::ZERO, Instant::ZERO);
            written.note(&Io { direction, file, offset: *offset, length: *length, ready, issued });
        }
        let log = written.to_read(&[FileId::DEVICE]);
        log.entries.iter().map(|entry| (entry.offset, entry.length)).collect()
    }

    #[test]
    fn ranges_written_once_are_read_in_the_order_of_the_writes() {
        use Direction::Write;
        assert_eq!(left_of(&[(Write, 8, 4), (Write, 0, 4), (Write, 4, 4)]), [(8, 4), (0, 4), (4, 4)]);
    }

    #[test]
    fn overwritten_ranges_are_left_out_and_the_rest_is_read_by_address() {
        use Direction::{Trim, Write};
        assert_eq!(left_of(&[(Write, 8, 4), (Write, 0, 4), (Write, 8, 4)]), [(0, 4), (8, 4)]);
        assert_eq!(left_of(&[(Write, 0, 4), (Write, 4, 4), (Write, 8, 4), (Write, 2, 8)]), [(2, 8)]);
        assert_eq!(left_of(&[(Write, 0, 4), (Write, 4, 4), (Trim, 0, 4)]), [(4, 4)]);
    }
}
