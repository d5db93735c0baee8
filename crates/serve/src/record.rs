//! Records requests in fio's iolog format, version 3, so that a live run can be repeated in simulated time.
//!
//! The file name in the log is the export's name, with a number if another export has the same file name. A
//! request to write zeroes is logged as a trim if its range may become a hole, and otherwise as a write,
//! because a flash device treats the request like a trim or a write. Block status and cache requests are not
//! logged. A flush is logged as a `sync`. fio has no FUA, so a write with FUA is logged as a plain write.

use crate::Clock;
use flashlab_block::Io;
use flashlab_fio::iolog::{Action, IologWriter, Version};
use flashlab_sim::{Duration, Instant};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A log that grows on disk as requests arrive. [`Recorder::finish`] reports errors.
#[derive(Debug)]
pub struct Recorder(Mutex<Log>);

#[derive(Debug)]
struct Log {
    clock: Clock,
    writer: IologWriter,
    to: BufWriter<File>,
    names: Vec<String>,
    failed: Option<io::Error>,
}

impl Recorder {
    /// Creates a log; `names` are the names of the exports, in their order.
    pub fn create(path: &Path, names: impl IntoIterator<Item = String>) -> io::Result<Recorder> {
        let mut writer = IologWriter::new(Version::Three);
        let names = distinct(names.into_iter().map(|name| file_name(&name)));
        for name in &names {
            writer.add(Duration::ZERO, name);
        }
        for name in &names {
            writer.open(Duration::ZERO, name);
        }
        let to = BufWriter::new(File::create(path)?);
        let mut log = Log { clock: Clock::start(), writer, to, names, failed: None };
        log.flush();
        match log.failed.take() {
            Some(error) => Err(error),
            None => Ok(Recorder(Mutex::new(log))),
        }
    }

    /// Records a batch of requests for the export with index `export`, at the current time.
    pub(crate) fn record(&self, export: usize, requests: &[(Action, u64, u64)]) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Log { clock, writer, names, .. } = &mut *log;
        // The clock is read under the lock, so that times never decrease.
        let at = clock.now().since(Instant::ZERO);
        for &(action, offset, length) in requests {
            writer.request(at, &names[export], action, offset, length);
        }
        log.flush();
    }

    /// Ends the log. Returns an error if any part of the log could not be written.
    pub fn finish(&self) -> io::Result<()> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Log { clock, writer, names, .. } = &mut *log;
        let at = clock.now().since(Instant::ZERO);
        for name in names {
            writer.close(at, name);
        }
        log.flush();
        match log.failed.take() {
            Some(error) => Err(error),
            None => log.to.flush(),
        }
    }
}

impl Log {
    /// Writes the pending lines. A full disk must not stop the device, so the first error is stored, and no further
    /// line is written.
    fn flush(&mut self) {
        let text = self.writer.take();
        if self.failed.is_none() {
            self.failed = self.to.write_all(text.as_bytes()).err();
        }
    }
}

/// Returns the action, offset and length with which an iolog records a request; `None` if it is not recorded.
pub(crate) fn action(io: &Io) -> Option<(Action, u64, u64)> {
    let (offset, length) = io.range().unwrap_or_default();
    let action = match io {
        Io::Read { .. } => Action::Read,
        Io::Write { .. } | Io::WriteZeroes { allocate: true, .. } => Action::Write,
        Io::Discard { .. } | Io::WriteZeroes { .. } => Action::Trim,
        Io::Flush => Action::Sync,
        Io::Cache { .. } | Io::Extents { .. } => return None,
    };
    (length > 0 || action.is_flush()).then_some((action, offset, length))
}

/// Returns the names, with `-2`, `-3` and so on appended to those that appeared before.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for name in names {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        taken.push(free.expect("one of these many names is free"));
    }
    taken
}

/// Returns the export's name as a single word, since spaces separate the fields of an iolog.
fn file_name(export: &str) -> String {
    let name: String =
        export.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_with_similar_names_have_distinct_files() {
        let names = ["a b", "a_b", "a_b-2", "", "device"].map(file_name);
        assert_eq!(distinct(names.into_iter()), ["a_b", "a_b-2", "a_b-2-2", "device", "device-2"]);
    }
}
