//! Writer for iologs that equal those of fio line for line.

use super::{Action, Version};
use crate::job::Direction;
use crate::workload::{Cause, Io, Record};
use flashlab_sim::{Duration, FileId, Instant, Spent};
use std::fmt::Write;

/// An iolog under construction.
#[derive(Clone, Debug)]
pub struct IologWriter {
    version: Version,
    text: String,
}

impl IologWriter {
    /// Returns an iolog that contains only the header.
    pub fn new(version: Version) -> IologWriter {
        IologWriter { version, text: format!("{}\n", version.header()) }
    }

    fn begin(&mut self, at: Duration) {
        if self.version == Version::Three {
            write!(self.text, "{} ", at.as_ns() / 1_000).expect("a string takes all");
        }
    }

    fn file_line(&mut self, at: Duration, file: &str, action: &str) {
        self.begin(at);
        writeln!(self.text, "{file} {action}").expect("a string takes all");
    }

    /// Adds the `add` line of a file, which must come before its `open` line.
    pub fn add(&mut self, at: Duration, file: &str) {
        self.file_line(at, file, "add");
    }
    /// Adds the `open` line of a file, which must come before its requests.
    pub fn open(&mut self, at: Duration, file: &str) {
        self.file_line(at, file, "open");
    }
    /// Adds the `close` line of a file.
    pub fn close(&mut self, at: Duration, file: &str) {
        self.file_line(at, file, "close");
    }
    /// Adds a request. For a flush, fio logs the offset of the previous request.
    pub fn request(&mut self, at: Duration, file: &str, action: Action, offset: u64, length: u64) {
        self.begin(at);
        writeln!(self.text, "{file} {} {offset} {length}", action.name()).expect("a string takes all");
    }
    /// Adds a `wait` line of version 2: a replay waits until `at` after the start, rounded down to milliseconds.
    pub fn wait(&mut self, at: Duration, file: &str) {
        writeln!(self.text, "{file} wait {} 0", at.as_ns() / 1_000_000).expect("a string takes all");
    }
    /// Returns the text written since the last call, for a log that grows in a file.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
    /// Returns the log, or the part that [`IologWriter::take`] has not returned.
    pub fn finish(self) -> String {
        self.text
    }
}

/// Records the requests of a wave as iologs, one per job, and forwards all events to another recorder.
#[derive(Clone, Debug)]
pub struct IologRecorder<R> {
    inner: R,
    jobs: Vec<JobLog>,
}

#[derive(Clone, Debug)]
struct JobLog {
    writer: IologWriter,
    /// Files with their names; the flag is true if the file is open.
    files: Vec<(FileId, String, bool)>,
    start: Instant,
}

impl<R: Record> IologRecorder<R> {
    /// Returns a recorder that forwards all events to `inner`. `files` lists, for each job, its files and their names
    /// in the logs.
    pub fn new(version: Version, files: Vec<Vec<(FileId, String)>>, inner: R) -> IologRecorder<R> {
        let new_log = |files: Vec<(FileId, String)>| JobLog {
            writer: IologWriter::new(version),
            files: files.into_iter().map(|(id, name)| (id, name, false)).collect(),
            start: Instant::ZERO,
        };
        IologRecorder { inner, jobs: files.into_iter().map(new_log).collect() }
    }

    /// Returns the inner recorder, and the log of each job.
    pub fn finish(self) -> (R, Vec<String>) {
        (self.inner, self.jobs.into_iter().map(|job| job.writer.finish()).collect())
    }
}

impl JobLog {
    fn request(&mut self, at: Instant, id: FileId, action: Action, offset: u64, length: u64) {
        let at = at.saturating_since(self.start);
        let Some((_, name, open)) = self.files.iter_mut().find(|(file, _, _)| *file == id) else {
            return;
        };
        if !*open {
            *open = true;
            self.writer.open(at, name);
        }
        self.writer.request(at, name, action, offset, length);
    }
}

impl<R: Record> Record for IologRecorder<R> {
    fn started(&mut self, job: usize, at: Instant) {
        if let Some(log) = self.jobs.get_mut(job) {
            log.start = at;
            for (_, name, _) in &log.files {
                log.writer.add(Duration::ZERO, name);
            }
        }
        self.inner.started(job, at);
    }
    fn submitted(&mut self, job: usize, io: &Io, depth: u32) {
        if let Some(log) = self.jobs.get_mut(job) {
            let action = match io.direction {
                Direction::Read => Action::Read,
                Direction::Write => Action::Write,
                Direction::Trim => Action::Trim,
            };
            log.request(io.issued, io.file, action, io.offset, io.length);
        }
        self.inner.submitted(job, io, depth);
    }
    fn completed(&mut self, job: usize, io: &Io, done: Instant, spent: &Spent) {
        self.inner.completed(job, io, done, spent);
    }
    fn flushing(&mut self, job: usize, file: FileId, offset: u64, data_only: bool, at: Instant) {
        if let Some(log) = self.jobs.get_mut(job) {
            let action = if data_only { Action::DataSync } else { Action::Sync };
            log.request(at, file, action, offset, 0);
        }
        self.inner.flushing(job, file, offset, data_only, at);
    }
    fn synced(&mut self, job: usize, issued: Instant, done: Instant, spent: &Spent, depth: u32) {
        self.inner.synced(job, issued, done, spent, depth);
    }
    fn ramp_over(&mut self, job: usize, at: Instant) {
        self.inner.ramp_over(job, at);
    }
    fn failed(&mut self, job: usize, io: &Io, at: Instant, cause: Cause) {
        self.inner.failed(job, io, at, cause);
    }
    fn finished(&mut self, job: usize, at: Instant) {
        if let Some(log) = self.jobs.get_mut(job) {
            let since = at.saturating_since(log.start);
            for (_, name, open) in &mut log.files {
                if std::mem::take(open) {
                    log.writer.close(since, name);
                }
            }
        }
        self.inner.finished(job, at);
    }
}
