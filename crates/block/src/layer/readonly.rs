//! `readonly`: rejects requests that would change the device (EPERM). The option `--read-only` of a server
//! does the same for all exports.

use super::{LayerKind, Opened, forward};
use crate::{BlockDevice, Context, Features, Io, IoError, Started};
use std::sync::Arc;

/// Registry entry of `readonly`.
pub(super) const KIND: LayerKind = LayerKind {
    name: "readonly",
    keys: &[],
    example: "",
    open: |inner, _| {
        let device: Arc<dyn BlockDevice> = Arc::new(ReadOnly::new(inner));
        Ok(Opened::from(device))
    },
};

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
    forward!();
    fn features(&self) -> Features {
        Features { read_only: true, ..self.inner.features() }
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        match io.is_write() {
            true => Started::Done(io.check(&self.geometry()).and(Err(IoError::ReadOnly))),
            false => self.inner.start(cx, io),
        }
    }
}
