//! `read_iolog=`: a recorded iolog as the source of requests.

use crate::iolog::{Action, Entry, Iolog, Version};
use crate::job::{Direction, Job};
use crate::workload::WorkloadError;
use crate::workload::region::File;
use crate::workload::stream::{Ask, Flush};
use flashlab_sim::{Duration, FileId, Instant};

/// The rest of an iolog.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    entries: std::vec::IntoIter<Entry>,
    /// Number of entries of the whole iolog.
    entry_count: usize,
    /// The job's file for each of the log's.
    files: Vec<FileId>,
    stall: bool,
    version: Version,
    /// The entry before.
    last_at: Duration,
    last_offset: u64,
}

/// What an entry asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Replayed {
    Ask(Ask),
    Flush(Flush),
}

impl Replay {
    /// The log's files are the job's in order; where the job has one, all go to it.
    pub(crate) fn new(job: &Job, iolog: Iolog, files: &[File]) -> Result<Replay, WorkloadError> {
        let name = || job.name.clone();
        let named = iolog.files.len();
        let files = match files {
            [] => return Err(WorkloadError::NoFile { job: name() }),
            [only] => vec![only.id; named],
            several if several.len() >= named => several.iter().map(|file| file.id).collect(),
            several => return Err(WorkloadError::TooFewFiles { job: name(), named, files: several.len() }),
        };
        let stall = !job.replay_no_stall;
        Ok(Replay {
            entry_count: iolog.entries.len(),
            entries: iolog.entries.into_iter(),
            files,
            stall,
            version: iolog.version,
            last_at: Duration::ZERO,
            last_offset: 0,
        })
    }

    /// Returns the share of the entries that were asked for.
    pub(crate) fn share_asked(&self) -> f64 {
        1.0 - self.entries.len() as f64 / self.entry_count.max(1) as f64
    }

    /// The next request and when it comes at the earliest, in a replay since `start` of which the last request was handed
    /// over at `last`. As in fio, the lines of version 3 keep their distance to the one before, however late that was.
    pub(crate) fn next(&mut self, start: Instant, last: Instant) -> Option<(Instant, Replayed)> {
        let entry = self.entries.next()?;
        let at = match self.version {
            _ if !self.stall => start,
            Version::Two => start.saturating_add(entry.at),
            Version::Three => last.saturating_add(entry.at.saturating_sub(self.last_at)),
        };
        self.last_at = entry.at;
        let file = self.files[entry.file as usize];
        let direction = match entry.action {
            Action::Read => Direction::Read,
            Action::Write => Direction::Write,
            Action::Trim => Direction::Trim,
            Action::Sync | Action::DataSync => {
                let data_only = entry.action == Action::DataSync;
                let flush = Flush { file, offset: self.last_offset, data_only };
                return Some((at, Replayed::Flush(flush)));
            }
        };
        self.last_offset = entry.offset;
        let Entry { offset, length, .. } = entry;
        Some((at, Replayed::Ask(Ask { direction, file, offset, length })))
    }
}
