//! Recording what arrives as a fio iolog of version 3, so that a live run can be repeated in simulated time.
//!
//! The file of a request is the export's name. Zeroes that may become a hole are logged as a trim, others as a write:
//! that is what a flash device makes of them. What only asks (block status) or only warms (cache) is not logged. fio
//! knows no FUA; a flush is a `sync`.

use crate::Clock;
use flashlab_block::Io;
use flashlab_fio::iolog::{Action, IologWriter, Version};
use flashlab_sim::{Duration, Instant};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A log that grows on disk while requests arrive. What went wrong is said by [`Recorder::finish`].
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
    /// Begins a log; `names` are those of the exports, in their order.
    pub fn create(path: &Path, names: impl IntoIterator<Item = String>) -> io::Result<Recorder> {
        let mut writer = IologWriter::new(Version::Three);
        let names: Vec<String> = names.into_iter().map(|name| file_name(&name)).collect();
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

    /// Requests of one batch for export number `export`, which have just arrived.
    pub(crate) fn arrived(&self, export: usize, asked: &[(Action, u64, u64)]) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Log { clock, writer, names, .. } = &mut *log;
        // Read under the lock, so that times never go backwards.
        let at = clock.now().since(Instant::ZERO);
        for &(action, offset, length) in asked {
            writer.ask(at, &names[export], action, offset, length);
        }
        log.flush();
    }

    /// Ends the log; says whether all of it is written.
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
    /// A full disk must not stop the device: the first failure is kept, and nothing is written after it.
    fn flush(&mut self) {
        let text = self.writer.take();
        if self.failed.is_none() {
            self.failed = self.to.write_all(text.as_bytes()).err();
        }
    }
}

/// What a request is in an iolog.
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

/// A word, since lines of an iolog are made of words.
fn file_name(export: &str) -> String {
    let name: String =
        export.chars().map(|c| if c.is_whitespace() || c.is_control() { '_' } else { c }).collect();
    if name.is_empty() { "device".to_owned() } else { name }
}
