//! `log`: one line a request, when it is answered: when it arrived (ns), what, first byte, bytes, `fua` or `-`, and how it
//! ended. For a log that fio can repeat, see `flashlab serve --record`.

use super::{Kind, pass_on, when_done};
use crate::{Abilities, BlockDevice, Context, Io, Started};
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// A device whose requests are written down.
pub struct Log {
    inner: Arc<dyn BlockDevice>,
    to: Arc<Mutex<Box<dyn Write + Send>>>,
}

impl Log {
    /// Over `inner`. What cannot be written is left out: a full disk must not stop the device.
    pub fn new(inner: Arc<dyn BlockDevice>, to: Box<dyn Write + Send>) -> Log {
        Log { inner, to: Arc::new(Mutex::new(to)) }
    }
}

impl BlockDevice for Log {
    pass_on!();
    fn abilities(&self) -> Abilities {
        self.inner.abilities()
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
            // In one piece, so that lines of processes that share a file stay whole.
            let line = format!("{arrived} {name} {offset} {length} {fua} {end}\n");
            let _ = to.write_all(line.as_bytes());
        })
    }
}
