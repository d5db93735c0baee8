//! A request with its own buffer, and its outcome.

use crate::{Geometry, IoError, Payload};

/// A request to a device, with its own buffer. A device may keep the buffer for as long as it needs to. A
/// started request cannot be cancelled.
#[derive(Debug)]
pub enum Io {
    /// Fills the buffer with the bytes from `offset` on. The previous contents of the buffer are ignored.
    Read {
        /// Offset of the first byte.
        offset: u64,
        /// Buffer whose length is the length of the read; [`Answer::Read`] returns it.
        buffer: Vec<u8>,
    },
    /// Writes the bytes.
    Write {
        /// Offset of the first byte.
        offset: u64,
        /// Bytes to write.
        data: Payload,
        /// The request completes only when the bytes are durable (FUA).
        durable: bool,
    },
    /// Makes every previously answered request durable, regardless of the client that sent it.
    Flush,
    /// Discards a range, which then reads as zeroes or as before.
    Discard {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// The request completes only when the discard is durable (FUA).
        durable: bool,
    },
    /// Makes the range read as zeroes.
    WriteZeroes {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// The request completes only when the zeroes are durable (FUA).
        durable: bool,
        /// The range must stay allocated.
        allocate: bool,
        /// The request fails with [`IoError::Unsupported`] if it would be no faster than writing the zeroes.
        fast: bool,
    },
    /// Announces that the range will be read soon.
    Cache {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Asks which parts of the range are holes or zeroes.
    Extents {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
}

impl Io {
    /// Returns the offset of the first byte and the length in bytes; `None` for a flush, which has no range.
    pub fn range(&self) -> Option<(u64, u64)> {
        match self {
            Io::Read { offset, buffer } => Some((*offset, buffer.len() as u64)),
            Io::Write { offset, data, .. } => Some((*offset, data.len() as u64)),
            Io::Flush => None,
            Io::Discard { offset, length, .. }
            | Io::WriteZeroes { offset, length, .. }
            | Io::Cache { offset, length }
            | Io::Extents { offset, length } => Some((*offset, *length)),
        }
    }

    /// Returns true if the request changes the contents of the device.
    pub fn is_write(&self) -> bool {
        matches!(self, Io::Write { .. } | Io::Discard { .. } | Io::WriteZeroes { .. })
    }

    /// Checks that the request stays within the capacity and consists of whole blocks, and that a read or a
    /// write is not too large.
    pub fn check(&self, geometry: &Geometry) -> Result<(), IoError> {
        let Some((offset, length)) = self.range() else { return Ok(()) };
        if offset.checked_add(length).is_none_or(|end| end > geometry.capacity) {
            let write = matches!(self, Io::Write { .. } | Io::WriteZeroes { .. });
            return Err(if write { IoError::NoSpace } else { IoError::Invalid });
        }
        if !offset.is_multiple_of(geometry.block) || !length.is_multiple_of(geometry.block) {
            return Err(IoError::Invalid);
        }
        let buffered = matches!(self, Io::Read { .. } | Io::Write { .. });
        if buffered && length > geometry.request_max { Err(IoError::TooLarge) } else { Ok(()) }
    }
}

/// Outcome of a request.
pub type Outcome = Result<Answer, IoError>;

/// Result of a successful request.
#[derive(Debug)]
pub enum Answer {
    /// The request is complete and returns no data.
    Done,
    /// The filled buffer of a read.
    Read(Vec<u8>),
    /// Parts of the range, in order from its first byte on. Adjacent parts are of different kinds. The last part may
    /// end before the range does, or beyond it.
    Extents(Vec<Extent>),
}

/// A part of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Length in bytes.
    pub length: u64,
    /// The part is not allocated.
    pub hole: bool,
    /// The part reads as zeroes.
    pub zero: bool,
}

impl Extent {
    /// Appends this extent to `extents`, or extends the last one if both are of the same kind.
    pub fn append(self, extents: &mut Vec<Extent>) {
        match extents.last_mut() {
            Some(last) if (last.hole, last.zero) == (self.hole, self.zero) => last.length += self.length,
            _ => extents.push(self),
        }
    }
}
