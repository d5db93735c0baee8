//! `read_iolog=`: a recorded iolog as the source of requests.

use crate::iolog::{Action, Entry, Iolog};
use crate::job::{Direction, Job};
use crate::workload::WorkloadError;
use crate::workload::region::File;
use crate::workload::stream::{Ask, Flush};
use flashlab_sim::{Duration, FileId};

/// The rest of an iolog.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    entries: std::vec::IntoIter<Entry>,
    /// The job's file for each of the log's.
    files: Vec<FileId>,
    stall: bool,
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
        Ok(Replay { entries: iolog.entries.into_iter(), files, stall, last_offset: 0 })
    }

    /// The next request and how long after the start it comes at the earliest.
    pub(crate) fn next(&mut self) -> Option<(Duration, Replayed)> {
        let entry = self.entries.next()?;
        let at = if self.stall { entry.at } else { Duration::ZERO };
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
