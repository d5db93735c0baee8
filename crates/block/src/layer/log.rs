//! `log`: writes one line per request when the request is answered. The columns are arrival time (ns), kind,
//! first byte, length in bytes, `fua` or `-`, and `ok` or the name of the errno value. When the layer is
//! opened, it first writes a line with the names of the columns. For a log that fio can replay, see
//! `flashlab serve --record`.

use super::{Kind, LayerError, LayerKind, Opened, forward, when_done};
use crate::{BlockDevice, Context, Features, Io, Started};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Registry entry of `log`.
pub(super) const KIND: LayerKind = LayerKind {
    name: "log",
    keys: &["to"],
    example: "to=requests.log",
    open: |inner, settings| {
        let missing = LayerError::Missing { key: "to", example: "log:to=requests.log" };
        let path = Path::new(settings.value("to").ok_or(missing)?);
        let to = OpenOptions::new().create(true).append(true).open(path);
        let failed = |why: String| LayerError::File { path: path.to_owned(), line: None, why };
        let to = to.map_err(|error| failed(error.to_string()))?;
        let log = Log::new(inner, Box::new(to)).map_err(|error| failed(error.to_string()))?;
        let device: Arc<dyn BlockDevice> = Arc::new(log);
        Ok(Opened::from(device))
    },
};

/// Line with the names of the columns.
const COLUMNS: &str = "# time_ns request offset bytes fua result\n";

/// A device that logs its requests.
pub struct Log {
    inner: Arc<dyn BlockDevice>,
    lines: Arc<Mutex<Lines>>,
}

/// The lines of a log. A line that cannot be written is lost, because a full disk must not stop the device; the next
/// line that can be written reports how many were lost.
struct Lines {
    to: Box<dyn Write + Send>,
    lost: u64,
}

impl Lines {
    /// Writes a line with one call, so that the lines of processes that share a file stay whole.
    fn write(&mut self, line: &str) {
        let written = if self.lost == 0 {
            self.to.write_all(line.as_bytes())
        } else {
            self.to.write_all(
                format!("# {} lines lost: the log could not be written\n{line}", self.lost).as_bytes(),
            )
        };
        self.lost = if written.is_ok() { 0 } else { self.lost + 1 };
    }
}

impl Log {
    /// Creates the layer over `inner`, and writes the line with the names of the columns.
    ///
    /// # Errors
    /// Returns an error if that line cannot be written.
    pub fn new(inner: Arc<dyn BlockDevice>, mut to: Box<dyn Write + Send>) -> std::io::Result<Log> {
        to.write_all(COLUMNS.as_bytes())?;
        Ok(Log { inner, lines: Arc::new(Mutex::new(Lines { to, lost: 0 })) })
    }
}

impl BlockDevice for Log {
    forward!();
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let (arrived, name) = (cx.arrival().as_ns(), Kind::of(&io).name());
        let (offset, length) = io.range().unwrap_or_default();
        let fua = matches!(
            io,
            Io::Write { durable: true, .. }
                | Io::Discard { durable: true, .. }
                | Io::WriteZeroes { durable: true, .. }
        );
        let fua = if fua { "fua" } else { "-" };
        let lines = self.lines.clone();
        when_done(self.inner.start(cx, io), move |outcome| {
            let result = outcome.as_ref().err().map_or("ok", |error| error.errno_name());
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.write(&format!("{arrived} {name} {offset} {length} {fua} {result}\n"));
        })
    }
}
