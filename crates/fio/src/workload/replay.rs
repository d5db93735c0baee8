//! `read_iolog=`: a recorded iolog as the source of requests.

use crate::iolog::{Action, Entry, Iolog, Version};
use crate::job::{Direction, Job};
use crate::workload::WorkloadError;
use crate::workload::flushes::Flush;
use crate::workload::region::File;
use crate::workload::stream::UntimedRequest;
use flashlab_sim::{Duration, FileId, Instant};

/// The remaining entries of an iolog.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    entries: std::vec::IntoIter<Entry>,
    /// Number of entries of the whole iolog.
    entry_count: usize,
    /// File of the job for each file of the log.
    files: Vec<FileId>,
    stall: bool,
    version: Version,
    /// Time of the previous entry.
    last_at: Duration,
    /// Offset of the previous read, write or trim, which a flush repeats.
    last_offset: u64,
}

/// The request or flush of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Replayed {
    Request(UntimedRequest),
    Flush(Flush),
}

impl Replay {
    /// Returns the replay of `iolog`. The files of the log are those of the job, in order. If the job has one file, all
    /// requests go to it.
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

    /// Returns the fraction of the entries that were replayed.
    pub(crate) fn share_requested(&self) -> f64 {
        1.0 - self.entries.len() as f64 / self.entry_count.max(1) as f64
    }

    /// Returns the next request and its earliest time, for a replay that began at `start` and submitted its last
    /// request at `last`. As in fio, an entry of version 3 keeps its recorded interval from the previous entry, however
    /// late that entry was.
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
        Some((at, Replayed::Request(UntimedRequest { direction, file, offset, length })))
    }
}
