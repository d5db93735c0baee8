//! The interface between the engine and the devices.

use std::io;

/// Permission to change the data of a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Only reads. The target is opened without the right to write.
    ReadOnly,
    /// Reads and writes.
    ReadWrite,
}

/// A device that stores bytes.
pub trait Target {
    /// Returns the capacity in bytes.
    fn capacity(&self) -> u64;
    /// Returns the size of the logical block in bytes.
    fn block(&self) -> u32;
    /// Returns true if discards may succeed.
    fn discards(&self) -> bool;
    /// Returns a channel for one request at a time. The engine opens as many channels as its jobs can have
    /// requests in flight.
    fn channel(&self) -> io::Result<Box<dyn Channel>>;
}

/// Access to a target for one request at a time. Each call returns when the request is complete.
pub trait Channel: Send {
    /// Reads `buffer.len()` bytes at `offset`.
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Writes `data` at `offset`.
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Discards a range.
    fn discard(&mut self, offset: u64, length: u64) -> io::Result<()>;
    /// Makes all completed writes durable. With `data_only`, this excludes unneeded metadata, as with
    /// fdatasync(2).
    fn flush(&mut self, data_only: bool) -> io::Result<()>;
}
