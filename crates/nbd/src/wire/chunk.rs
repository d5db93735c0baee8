//! Payloads of reply chunks (proto.md, "Structured reply types"; 64-bit block status from the branch
//! extension-ext-header).

use super::number::numbers;
use super::{ErrorNumber, Reader, STRING_MAX};
use alloc::vec::Vec;
use core::fmt;

numbers! {
    /// Type of a chunk, which determines its payload. Types with bit 15 set are errors.
    ChunkType: u16 {
        /// No payload.
        None = 0, "NBD_REPLY_TYPE_NONE";
        /// An offset, and data of the export.
        OffsetData = 1, "NBD_REPLY_TYPE_OFFSET_DATA";
        /// An offset, and the length of a range of zeroes.
        OffsetHole = 2, "NBD_REPLY_TYPE_OFFSET_HOLE";
        /// Extents of one metadata context.
        BlockStatus = 5, "NBD_REPLY_TYPE_BLOCK_STATUS";
        /// Extents of one metadata context with 64-bit fields.
        BlockStatusExt = 6, "NBD_REPLY_TYPE_BLOCK_STATUS_EXT";
        /// An error.
        Error = 0x8001, "NBD_REPLY_TYPE_ERROR";
        /// An error at an offset.
        ErrorOffset = 0x8002, "NBD_REPLY_TYPE_ERROR_OFFSET";
    }
}

impl ChunkType {
    /// Returns true if the chunk is an error.
    #[inline]
    pub fn is_error(self) -> bool {
        self.to_wire() & 0x8000 != 0
    }
}

/// Error in the payload of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkError {
    /// The payload has a length that this type of chunk cannot have.
    Length {
        /// Type of the chunk.
        kind: ChunkType,
        /// Length of the payload in bytes.
        length: u64,
    },
    /// The message of an error chunk is longer than the chunk, or than the maximum length of a string.
    Message {
        /// Length of the message in bytes.
        length: usize,
    },
    /// An error chunk with error number zero.
    NoError,
    /// A hole of length zero.
    EmptyHole,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkError::Length { kind, length } => {
                write!(f, "a chunk of type {kind} cannot have a payload of {length} bytes")
            }
            ChunkError::Message { length } => write!(f, "an error message of {length} bytes is too long"),
            ChunkError::NoError => f.write_str("an error chunk with error number zero"),
            ChunkError::EmptyHole => f.write_str("a hole of length zero"),
        }
    }
}

impl core::error::Error for ChunkError {}

/// The payload of `NBD_REPLY_TYPE_OFFSET_HOLE`. 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetHole {
    /// Offset of the first byte in the export.
    pub offset: u64,
    /// Length in bytes, at least one.
    pub length: u32,
}

impl OffsetHole {
    /// Length of the payload in bytes.
    pub const LEN: usize = 12;

    /// Parses the whole payload.
    pub fn parse(payload: &[u8]) -> Result<OffsetHole, ChunkError> {
        let wrong = ChunkError::Length { kind: ChunkType::OffsetHole, length: payload.len() as u64 };
        let mut reader = Reader::new(payload);
        let (offset, length) = (reader.u64().ok_or(wrong)?, reader.u32().ok_or(wrong)?);
        if !reader.rest().is_empty() {
            return Err(wrong);
        }
        if length == 0 { Err(ChunkError::EmptyHole) } else { Ok(OffsetHole { offset, length }) }
    }

    /// Appends the payload.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.offset.to_be_bytes());
        to.extend_from_slice(&self.length.to_be_bytes());
    }
}

/// The payload of an error chunk of any type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorChunk<'a> {
    /// The error number.
    pub error: ErrorNumber,
    /// Human-readable message. It may be empty, and a client must not expect valid UTF-8.
    pub message: &'a [u8],
    /// Position of the error in the export, if the chunk is an `NBD_REPLY_TYPE_ERROR_OFFSET`.
    pub offset: Option<u64>,
}

impl<'a> ErrorChunk<'a> {
    /// Maximum length of the payload in bytes: that of an error with an offset and the longest message.
    pub const LEN_MAX: usize = 14 + STRING_MAX;

    /// Parses the whole payload. An unknown type of error chunk has the same first fields; the bytes after them are
    /// ignored.
    pub fn parse(kind: ChunkType, payload: &'a [u8]) -> Result<ErrorChunk<'a>, ChunkError> {
        let wrong = ChunkError::Length { kind, length: payload.len() as u64 };
        let mut reader = Reader::new(payload);
        let (error, length) = (reader.u32().ok_or(wrong)?, reader.u16().ok_or(wrong)?);
        let length = usize::from(length);
        if error == 0 {
            return Err(ChunkError::NoError);
        }
        let message = match reader.bytes(length) {
            Some(message) if length <= STRING_MAX => message,
            _ => return Err(ChunkError::Message { length }),
        };
        let offset = match kind {
            ChunkType::ErrorOffset => Some(reader.u64().ok_or(wrong)?),
            _ => None,
        };
        Ok(ErrorChunk { error: ErrorNumber::from_wire(error), message, offset })
    }

    /// Returns the length of the payload in bytes.
    pub fn len(&self) -> usize {
        6 + self.message.len() + if self.offset.is_some() { 8 } else { 0 }
    }

    /// Returns false: the payload contains at least an error number.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Returns the type of the chunk.
    pub fn kind(&self) -> ChunkType {
        if self.offset.is_some() { ChunkType::ErrorOffset } else { ChunkType::Error }
    }

    /// Appends the payload.
    ///
    /// # Panics
    /// Panics if the length of the message needs more than 16 bits.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.error.to_wire().to_be_bytes());
        to.extend_from_slice(&u16::try_from(self.message.len()).expect("a message is short").to_be_bytes());
        to.extend_from_slice(self.message);
        if let Some(offset) = self.offset {
            to.extend_from_slice(&offset.to_be_bytes());
        }
    }
}

/// One extent of a block status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockDescriptor {
    /// Length in bytes.
    pub length: u64,
    /// Status of the extent, as the metadata context defines it.
    pub status: u64,
}

impl BlockDescriptor {
    /// Returns the length of a descriptor in bytes, in `NBD_REPLY_TYPE_BLOCK_STATUS` or, if `wide`, in
    /// `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`.
    #[inline]
    pub const fn len(wide: bool) -> usize {
        if wide { 16 } else { 8 }
    }

    /// Parses the descriptor at the beginning of `bytes`; `None` if it is incomplete.
    #[inline]
    pub fn parse(wide: bool, bytes: &[u8]) -> Option<BlockDescriptor> {
        let mut reader = Reader::new(bytes);
        Some(if wide {
            BlockDescriptor { length: reader.u64()?, status: reader.u64()? }
        } else {
            BlockDescriptor { length: reader.u32()?.into(), status: reader.u32()?.into() }
        })
    }

    /// Appends the descriptor.
    ///
    /// # Panics
    /// Panics if a field of a narrow descriptor needs more than 32 bits.
    pub fn emit(&self, wide: bool, to: &mut Vec<u8>) {
        if wide {
            to.extend_from_slice(&self.length.to_be_bytes());
            to.extend_from_slice(&self.status.to_be_bytes());
        } else {
            let narrow = |field: u64| u32::try_from(field).expect("a narrow field has 32 bits");
            to.extend_from_slice(&narrow(self.length).to_be_bytes());
            to.extend_from_slice(&narrow(self.status).to_be_bytes());
        }
    }
}

/// The fields before the descriptors of a block status: the context and, in
/// `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`, the number of descriptors, which has to agree with the length of the
/// payload. In `NBD_REPLY_TYPE_BLOCK_STATUS`, the number follows from that length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptors {
    /// ID of the metadata context.
    pub context: u32,
    /// Number of descriptors, at least one.
    pub count: u32,
}

impl Descriptors {
    /// Returns the length of the fields before the first descriptor, in bytes.
    pub const fn len(wide: bool) -> usize {
        if wide { 8 } else { 4 }
    }

    /// Parses the beginning of a payload of `length` bytes. If `wide` is set, the type of the chunk is
    /// `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`. Returns `None` if `bytes` is shorter than [`Descriptors::len`].
    pub fn parse(wide: bool, length: u64, bytes: &[u8]) -> Option<Result<Descriptors, ChunkError>> {
        let kind = if wide { ChunkType::BlockStatusExt } else { ChunkType::BlockStatus };
        let wrong = ChunkError::Length { kind, length };
        let (head, each) = (Descriptors::len(wide) as u64, BlockDescriptor::len(wide) as u64);
        let Some(descriptors) = length.checked_sub(head) else { return Some(Err(wrong)) };
        let (true, Ok(count)) = (descriptors % each == 0, u32::try_from(descriptors / each)) else {
            return Some(Err(wrong));
        };
        let mut reader = Reader::new(bytes);
        let context = reader.u32()?;
        let announced = if wide { reader.u32()? } else { count };
        if count == 0 || announced != count {
            return Some(Err(wrong));
        }
        Some(Ok(Descriptors { context, count }))
    }

    /// Appends the beginning of a payload.
    pub fn emit(&self, wide: bool, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.context.to_be_bytes());
        if wide {
            to.extend_from_slice(&self.count.to_be_bytes());
        }
    }

    /// Returns the length of the whole payload in bytes.
    pub fn payload(&self, wide: bool) -> u64 {
        Descriptors::len(wide) as u64 + u64::from(self.count) * BlockDescriptor::len(wide) as u64
    }
}
