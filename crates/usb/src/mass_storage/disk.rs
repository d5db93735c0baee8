//! The interface of the disk behind the stick: bytes and their timing.

use alloc::vec::Vec;
use flashlab_sim::{Geometry, Instant};

/// An operation on the disk. Ranges lie within the capacity and consist of whole blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Reads a range.
    Read {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u32,
    },
    /// Writes bytes.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// Bytes to write.
        bytes: Vec<u8>,
        /// True if the operation ends only when the bytes are durable (FUA).
        durable: bool,
    },
    /// Makes all completed writes durable.
    Flush,
    /// Discards a range.
    Discard {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

/// The reason why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskError {
    /// The disk accepts no writes.
    ReadOnly,
    /// A part of the range cannot be read or written.
    Medium,
    /// The disk failed in another way.
    Failed,
}

/// Result of an operation: the bytes of a read, or no bytes after any other operation.
pub type Done = Result<Vec<u8>, DiskError>;

/// A disk that executes one operation at a time. Time comes as an argument and never decreases.
pub trait Disk {
    /// Returns the capacity, the block size and the largest read or write.
    fn geometry(&self) -> Geometry;
    /// Returns true if the disk accepts no writes.
    fn is_read_only(&self) -> bool;
    /// Starts an operation. The caller starts it only while no other operation is in progress.
    fn start(&mut self, now: Instant, operation: Operation);
    /// Returns the earliest instant at which the operation in progress may end.
    fn next_due(&self) -> Option<Instant>;
    /// Returns the end and the result of the operation in progress, if the operation ends at or before
    /// `limit`.
    fn complete(&mut self, limit: Instant) -> Option<(Instant, Done)>;
    /// Cuts the power, or restores it. An operation in progress ends with an error or not at all.
    fn set_power(&mut self, now: Instant, on: bool);
}
