//! An export of an NBD server as a target of `measure` and `probe`.

use crate::failure::Failure;
use flashlab_measure::{Access, Channel, Target};
use flashlab_serve::Remote;
use flashlab_serve::uri::Uri;
use std::io;
use std::sync::Arc;

/// Smallest block of a plan in bytes. Most exports would accept requests of a single byte.
const BLOCK_MIN: u32 = 512;

/// An open export.
pub(super) struct ExportTarget {
    remote: Arc<Remote>,
    access: Access,
}

impl ExportTarget {
    /// Connects to an export.
    pub(super) fn open(target: &str, access: Access) -> Result<ExportTarget, Failure> {
        let uri = Uri::parse(target).map_err(|error| Failure::usage(format!("{target}: {error}")))?;
        let remote = Remote::open(&uri).map_err(|error| Failure::failed(format!("{target}: {error}")))?;
        if access == Access::ReadWrite && remote.is_read_only() {
            return Err(Failure::usage(format!(
                "{target}: the server offers it for reading only; leave --destroy out to measure reads"
            )));
        }
        Ok(ExportTarget { remote: Arc::new(remote), access })
    }

    /// Returns the server's description of the export.
    pub(super) fn description(&self) -> Option<String> {
        self.remote.export().description.clone()
    }
}

impl Target for ExportTarget {
    fn capacity(&self) -> u64 {
        self.remote.export().size
    }
    fn block(&self) -> u32 {
        self.remote.export().block_minimum().max(BLOCK_MIN)
    }
    fn discards(&self) -> bool {
        self.access == Access::ReadWrite && self.remote.discards()
    }
    fn channel(&self) -> io::Result<Box<dyn Channel>> {
        Ok(Box::new(ExportChannel { remote: self.remote.clone(), access: self.access }))
    }
}

struct ExportChannel {
    remote: Arc<Remote>,
    access: Access,
}

impl ExportChannel {
    fn writable(&self) -> io::Result<&Remote> {
        match self.access {
            Access::ReadWrite => Ok(&self.remote),
            Access::ReadOnly => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }
}

impl Channel for ExportChannel {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.remote.read(offset, buffer)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.writable()?.write(offset, data)
    }
    fn discard(&mut self, offset: u64, length: u64) -> io::Result<()> {
        self.writable()?.discard(offset, length)
    }
    fn flush(&mut self, _data_only: bool) -> io::Result<()> {
        self.remote.flush()
    }
}
