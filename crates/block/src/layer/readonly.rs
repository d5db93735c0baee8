//! `readonly`: rejects requests that would change the device (EPERM). A server's `--read-only` does so for all exports.

use super::pass_on;
use crate::{Abilities, BlockDevice, Context, Io, IoError, Started};
use std::sync::Arc;

/// A device that rejects writes.
pub struct ReadOnly {
    inner: Arc<dyn BlockDevice>,
}

impl ReadOnly {
    /// Creates the layer over `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>) -> ReadOnly {
        ReadOnly { inner }
    }
}

impl BlockDevice for ReadOnly {
    pass_on!();
    fn abilities(&self) -> Abilities {
        Abilities { read_only: true, ..self.inner.abilities() }
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        match io.changes() {
            true => Started::Done(io.check(&self.geometry()).and(Err(IoError::ReadOnly))),
            false => self.inner.start(cx, io),
        }
    }
}
