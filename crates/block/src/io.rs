//! One request with its own buffer, and how it ended.

use crate::{Geometry, IoError, Payload};

/// What is asked of a device. A request owns its buffer, so that a device may keep it as long as it takes; once started
/// it is not cancelled.
#[derive(Debug)]
pub enum Io {
    /// Fill the buffer with what the device holds from `offset` on. What the buffer held before means nothing.
    Read {
        /// First byte.
        offset: u64,
        /// As long as what is wanted; comes back in [`Answer::Read`].
        buffer: Vec<u8>,
    },
    /// Take over the bytes.
    Write {
        /// First byte.
        offset: u64,
        /// The bytes.
        data: Payload,
        /// Done only when they are durable (FUA).
        durable: bool,
    },
    /// Make durable what was answered before, to whomever.
    Flush,
    /// The bytes are not needed any more. They read as zeroes or as before.
    Discard {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Done only when that is durable (FUA).
        durable: bool,
    },
    /// The range reads as zeroes from now on.
    WriteZeroes {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Done only when that is durable (FUA).
        durable: bool,
        /// The range must stay allocated.
        allocate: bool,
        /// Fail with [`IoError::Unsupported`] where this is no faster than writing the zeroes.
        fast: bool,
    },
    /// The range will be read soon.
    Cache {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
    /// Which parts of the range are holes or zeroes.
    Extents {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
    },
}

impl Io {
    /// Its first byte and its length in bytes; a flush has no range.
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

    /// Whether it changes what the device holds.
    pub fn changes(&self) -> bool {
        matches!(self, Io::Write { .. } | Io::Discard { .. } | Io::WriteZeroes { .. })
    }

    /// Refuses what lies beyond the end or is not of whole blocks.
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

/// How a request ended.
pub type Outcome = Result<Answer, IoError>;

/// What a request that went well gives back.
#[derive(Debug)]
pub enum Answer {
    /// Nothing but that it is done.
    Done,
    /// The buffer of a read, filled.
    Read(Vec<u8>),
    /// The parts of a range in order, from its first byte on. Neighbours differ; the last one may end before the range
    /// does, or beyond it.
    Extents(Vec<Extent>),
}

/// A part of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Bytes.
    pub length: u64,
    /// Nothing is allocated there.
    pub hole: bool,
    /// It reads as zeroes.
    pub zero: bool,
}

impl Extent {
    /// Appends to `extents`, or extends the last one where it is alike.
    pub fn append(self, extents: &mut Vec<Extent>) {
        match extents.last_mut() {
            Some(last) if (last.hole, last.zero) == (self.hole, self.zero) => last.length += self.length,
            _ => extents.push(self),
        }
    }
}
