//! Iologs of fio, versions 2 and 3, read by [`flashlab_fio::iolog`]. The whole log is held in memory.

use super::{ImportError, Place, Row, Rows};
use crate::{Flags, TaskId};
use flashlab_fio::iolog::{Action, Entry, Iolog};
use flashlab_sim::Op;

/// The requests of one file of an iolog.
#[derive(Debug)]
pub(super) struct Entries {
    entries: std::vec::IntoIter<Entry>,
    file: u32,
    read: u64,
    task: [String; 1],
}

impl Entries {
    /// Reads an iolog. `file` chooses one file of a log that uses several.
    pub(super) fn new(bytes: &[u8], file: Option<&str>) -> Result<Entries, ImportError> {
        let whole = |line, problem| ImportError { file: 0, place: Place::Line(line), problem };
        let Iolog { files, entries, .. } = Iolog::read(bytes).map_err(|error| {
            let problem = format!("column {}: {}", error.column, error.problem);
            whole(error.line as u64, problem)
        })?;
        let mut used: Vec<u32> = entries.iter().map(|entry| entry.file).collect();
        used.sort_unstable();
        used.dedup();
        let name = |number: &u32| files[*number as usize].as_str();
        let number = match (file, &used[..]) {
            (Some(wanted), _) => used.iter().copied().find(|number| name(number) == wanted),
            (None, [one, other, ..]) => {
                return Err(whole(1, super::several_devices(name(one), name(other))));
            }
            (None, only) => only.first().copied(),
        };
        let entries = if number.is_some() { entries } else { Vec::new() };
        Ok(Entries {
            entries: entries.into_iter(),
            file: number.unwrap_or_default(),
            read: 0,
            task: [String::new()],
        })
    }
}

impl Rows for Entries {
    fn next_row(&mut self) -> Result<Option<Row>, ImportError> {
        let file = self.file;
        let Some(entry) = self.entries.by_ref().find(|entry| entry.file == file) else { return Ok(None) };
        self.read += 1;
        let op = match entry.action {
            Action::Read => Op::Read,
            Action::Write => Op::Write,
            Action::Trim => Op::Trim,
            Action::Sync => Op::Flush,
            Action::DataSync => Op::FlushData,
        };
        let (offset, length) = if op.is_flush() { (0, 0) } else { (entry.offset, entry.length) };
        Ok(Some(Row {
            file: 0,
            place: Place::Request(self.read),
            at: entry.at.as_ns(),
            task: TaskId(0),
            flush_before: false,
            range: Some((op, offset, length)),
            flags: Flags::default(),
        }))
    }

    fn tasks(&self) -> &[String] {
        &self.task
    }
}
