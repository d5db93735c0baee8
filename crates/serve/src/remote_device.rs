//! An export of any NBD server as a [`BlockDevice`], for example as a member of a volume or as a device that
//! is served again with layers.
//!
//! - Requests wait on separate threads, so that a slow server delays nothing else.
//! - A write with FUA is followed by a flush if the server does not offer FUA. Zeroes are sent as data if the server
//!   does not offer to write zeroes itself.
//! - Once the connection has ended, all requests fail. The device does not connect again, because the server
//!   may have lost writes that it had answered but not flushed.

use crate::answer::error_number;
use crate::load::LoadError;
use crate::remote::Remote;
use flashlab_block::{
    Answer, BlockDevice, Context, Extent, Features, Geometry, Io, IoError, Outcome, Started, Workers,
};
use flashlab_nbd::client::Request;
use flashlab_nbd::uri::Uri;
use flashlab_nbd::wire::{CommandFlags, TransmissionFlags};
use std::sync::Arc;
use std::{fmt, io};

/// Number of threads that execute requests, and thus the maximum number of requests in flight.
const THREADS: usize = 32;
/// Smallest block of the device in bytes. Most exports accept single bytes.
const BLOCK_MIN: u32 = 512;
/// Largest payload of a request in bytes.
const PAYLOAD_MAX: u32 = 32 << 20;
/// Maximum length in bytes of a discard or a write of zeroes in one request. Compact request headers have a 32-bit
/// length.
const RANGE_MAX: u64 = 1 << 30;

/// An export as a device.
pub struct RemoteDevice {
    remote: Remote,
    geometry: Geometry,
    read_only: bool,
}

impl RemoteDevice {
    /// Connects to an export. With `read_only`, the device rejects writes.
    ///
    /// # Errors
    /// Returns the reason why the server or the export cannot be used.
    pub fn open(uri: &Uri, read_only: bool) -> Result<Arc<dyn BlockDevice>, LoadError> {
        let remote = Remote::open(uri)?;
        let export = remote.export();
        let block = export.block_minimum().max(BLOCK_MIN);
        let payload = export.payload_max().min(PAYLOAD_MAX) / block * block;
        let geometry = Geometry {
            capacity: export.size / u64::from(block) * u64::from(block),
            block: block.into(),
            request_max: payload.max(block).into(),
        };
        let read_only = read_only || remote.is_read_only();
        let device = RemoteDevice { remote, geometry, read_only };
        Ok(Arc::new(Workers::new(Arc::new(device), THREADS).map_err(LoadError::Io)?))
    }

    fn offers(&self, flag: TransmissionFlags) -> bool {
        self.remote.export().flags.contains(flag)
    }

    fn execute(&self, io: Io) -> Outcome {
        match io {
            Io::Read { offset, buffer } => {
                let request = Request::read(offset, buffer.len() as u64);
                return self.remote.execute(request, buffer, false).map(Answer::Read).map_err(io_error);
            }
            Io::Write { data, .. } if data.is_empty() => {}
            Io::Write { offset, data, durable } => {
                let request = self.with_fua(Request::write(offset, data.len() as u64), durable);
                self.remote.execute(request, data.to_vec(), true).map_err(io_error)?;
                self.end_durable(durable)?;
            }
            Io::Flush => self.remote.flush().map_err(io_error)?,
            Io::Discard { .. } if !self.offers(TransmissionFlags::SEND_TRIM) => {}
            Io::Discard { offset, length, durable } => {
                for (offset, length) in pieces(offset, length, RANGE_MAX) {
                    let request = self.with_fua(Request::trim(offset, length), durable);
                    self.remote.command(request).map_err(io_error)?;
                }
                self.end_durable(durable)?;
            }
            Io::WriteZeroes { offset, length, durable, allocate, fast } => {
                self.write_zeroes((offset, length), allocate, fast, durable)?;
                self.end_durable(durable)?;
            }
            Io::Cache { offset, length } if self.offers(TransmissionFlags::SEND_CACHE) => {
                for (offset, length) in pieces(offset, length, self.geometry.request_max) {
                    self.remote.command(Request::cache(offset, length)).map_err(io_error)?;
                }
            }
            Io::Cache { .. } => {}
            // The device does not query the holes of the export.
            Io::Extents { length, .. } => {
                return Ok(Answer::Extents(vec![Extent { length, hole: false, zero: false }]));
            }
        }
        Ok(Answer::Done)
    }

    fn write_zeroes(
        &self,
        (offset, length): (u64, u64),
        allocate: bool,
        fast: bool,
        durable: bool,
    ) -> Result<(), IoError> {
        if self.offers(TransmissionFlags::SEND_WRITE_ZEROES) {
            if fast && !self.offers(TransmissionFlags::SEND_FAST_ZERO) {
                return Err(IoError::Unsupported);
            }
            for (offset, length) in pieces(offset, length, RANGE_MAX) {
                let flags = CommandFlags::NONE
                    .with_if(allocate, CommandFlags::NO_HOLE)
                    .with_if(fast, CommandFlags::FAST_ZERO);
                let request = self.with_fua(Request::write_zeroes(offset, length).with(flags), durable);
                self.remote.command(request).map_err(io_error)?;
            }
            return Ok(());
        }
        if fast {
            return Err(IoError::Unsupported);
        }
        for (offset, length) in pieces(offset, length, self.geometry.request_max) {
            let request = self.with_fua(Request::write(offset, length), durable);
            self.remote.execute(request, vec![0; length as usize], true).map_err(io_error)?;
        }
        Ok(())
    }

    /// Adds FUA to a durable request if the server offers it.
    fn with_fua(&self, request: Request, durable: bool) -> Request {
        match durable && self.offers(TransmissionFlags::SEND_FUA) {
            true => request.with(CommandFlags::FUA),
            false => request,
        }
    }

    /// Makes a durable request durable on a server without FUA.
    fn end_durable(&self, durable: bool) -> Result<(), IoError> {
        match durable && !self.offers(TransmissionFlags::SEND_FUA) {
            true => self.remote.flush().map_err(io_error),
            false => Ok(()),
        }
    }
}

impl BlockDevice for RemoteDevice {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn features(&self) -> Features {
        Features {
            read_only: self.read_only,
            discard: self.offers(TransmissionFlags::SEND_TRIM) && !self.read_only,
            write_zeroes: self.offers(TransmissionFlags::SEND_WRITE_ZEROES),
            extents: false,
            cache: self.offers(TransmissionFlags::SEND_CACHE),
            rotational: self.offers(TransmissionFlags::ROTATIONAL),
            timed: false,
        }
    }
    fn start(&self, _: &Context, io: Io) -> Started {
        if self.read_only && io.is_write() {
            return Started::Done(Err(IoError::ReadOnly));
        }
        Started::Done(io.check(&self.geometry).and_then(|()| self.execute(io)))
    }
}

/// Divides a range into pieces of at most `max` bytes.
fn pieces(offset: u64, length: u64, max: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + length;
    (offset..end).step_by(max as usize).map(move |start| (start, max.min(end - start)))
}

/// Returns the error that the server sent, or [`IoError::Medium`] if the connection failed.
fn io_error(error: io::Error) -> IoError {
    let number = error.raw_os_error().map(i32::cast_unsigned);
    let is_sent = |sent: &IoError| number == Some(error_number(*sent).to_wire());
    IoError::ALL.into_iter().find(is_sent).unwrap_or(IoError::Medium)
}

impl fmt::Debug for RemoteDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteDevice").field("export", self.remote.export()).finish_non_exhaustive()
    }
}
