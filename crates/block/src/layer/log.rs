//! `log`: writes one line per request when the request is answered: arrival time (ns), kind, first byte, length in
//! bytes, `fua` or `-`, and the outcome. For a log that fio can replay, see `flashlab serve --record`.

use super::{Kind, LayerError, LayerKind, Opened, forward, when_done};
use crate::{BlockDevice, Context, Features, Io, Started};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// `log` in the registry.
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
        let device: Arc<dyn BlockDevice> = Arc::new(Log::new(inner, Box::new(to)));
        Ok(Opened::from(device))
    },
};

/// A device that logs its requests.
pub struct Log {
    inner: Arc<dyn BlockDevice>,
    to: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl Log {
    /// Creates the layer over `inner`. A line that cannot be written is dropped, because a full disk must not stop the
    /// device.
    pub fn new(inner: Arc<dyn BlockDevice>, to: Box<dyn Write + Send>) -> Log {
        Log { inner, to: Arc::new(Mutex::new(to)) }
    }
}

impl BlockDevice for Log {
    forward!();
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let (arrived, name) = (cx.now().as_ns(), Kind::of(&io).name());
        let (offset, length) = io.range().unwrap_or_default();
        let fua = matches!(
            io,
            Io::Write { durable: true, .. }
                | Io::Discard { durable: true, .. }
                | Io::WriteZeroes { durable: true, .. }
        );
        let fua = if fua { "fua" } else { "-" };
        let to = self.to.clone();
        when_done(self.inner.start(cx, io), move |outcome| {
            let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
            let end = outcome.as_ref().err().map_or("ok".to_owned(), |error| format!("{error:?}"));
            // One write per line, so that the lines of processes that share a file stay whole.
            let line = format!("{arrived} {name} {offset} {length} {fua} {end}\n");
            let _ = to.write_all(line.as_bytes());
        })
    }
}
