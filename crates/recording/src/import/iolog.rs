//! Iologs of fio, versions 2 and 3, read line by line by [`flashlab_fio::iolog`].

use super::{ImportError, Place, Row, Rows};
use crate::{Flags, TaskId};
use flashlab_fio::iolog::{Action, Entry, IologReader};
use flashlab_sim::Op;
use std::fmt;
use std::io::BufRead;

/// The requests of one file of an iolog.
#[derive(Debug)]
pub(super) struct Entries<R> {
    reader: IologReader<R>,
    /// Name of the file to import. If `None`, a log that uses several files is refused.
    wanted: Option<String>,
    /// Number of the file whose requests are imported, once it is known.
    file: Option<u32>,
    task: [String; 1],
}

impl<R: BufRead> Entries<R> {
    /// Creates the import of an iolog. `file` chooses one file of a log that uses several files.
    pub(super) fn new(from: R, file: Option<&str>) -> Entries<R> {
        let wanted = file.map(str::to_owned);
        Entries { reader: IologReader::new(from), wanted, file: None, task: [String::new()] }
    }

    fn fault(&self, problem: String) -> ImportError {
        ImportError { file: 0, place: Place::Line(self.reader.line() as u64), problem }
    }

    /// Returns true if `entry` belongs to the imported file.
    fn is_imported(&mut self, entry: &Entry) -> Result<bool, ImportError> {
        if let Some(file) = self.file {
            if file != entry.file && self.wanted.is_none() {
                let name = |number: u32| &self.reader.files()[number as usize];
                return Err(self.fault(super::several_devices(name(file), name(entry.file))));
            }
            return Ok(file == entry.file);
        }
        let name = &self.reader.files()[entry.file as usize];
        let is_wanted = self.wanted.as_ref().is_none_or(|wanted| wanted == name);
        self.file = is_wanted.then_some(entry.file);
        Ok(is_wanted)
    }
}

impl<R: BufRead + fmt::Debug> Rows for Entries<R> {
    fn next_row(&mut self) -> Result<Option<Row>, ImportError> {
        let entry = loop {
            let Some(entry) = self.reader.next() else { return Ok(None) };
            let entry = entry.map_err(|error| ImportError {
                file: 0,
                place: Place::Line(error.line as u64),
                problem: format!("column {}: {}", error.column, error.problem),
            })?;
            if self.is_imported(&entry)? {
                break entry;
            }
        };
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
            place: Place::Line(self.reader.line() as u64),
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
