//! Payloads of reply chunks (proto.md, "Structured reply types"; block status with 64 bits from the branch
//! extension-ext-header).

use super::number::numbers;
use super::{ErrorNumber, Reader, STRING_MAX};
use alloc::vec::Vec;
use core::fmt;

numbers! {
    /// What the payload of a chunk is. Those with bit 15 set are errors.
    ChunkType: u16 {
        /// Nothing.
        None = 0, "NBD_REPLY_TYPE_NONE";
        /// An offset and bytes of the export.
        OffsetData = 1, "NBD_REPLY_TYPE_OFFSET_DATA";
        /// An offset and a number of zeroes.
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
    /// Whether it is an error.
    #[inline]
    pub fn is_error(self) -> bool {
        self.to_wire() & 0x8000 != 0
    }
}

/// Why the payload of a chunk makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkError {
    /// Its length is not one that this kind of chunk can have.
    Length {
        /// The kind.
        kind: ChunkType,
        /// Its length in bytes.
        length: u64,
    },
    /// The message of an error is longer than its chunk, or than a string may be.
    Message {
        /// Its length in bytes.
        length: usize,
    },
    /// An error chunk with error number zero.
    NoError,
    /// A hole of no bytes.
    EmptyHole,
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkError::Length { kind, length } => write!(f, "a chunk {kind} cannot have {length} bytes"),
            ChunkError::Message { length } => write!(f, "an error's message of {length} bytes does not fit"),
            ChunkError::NoError => f.write_str("an error chunk without an error"),
            ChunkError::EmptyHole => f.write_str("a hole of no bytes"),
        }
    }
}

impl core::error::Error for ChunkError {}

/// The payload of `NBD_REPLY_TYPE_OFFSET_HOLE`. 12 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffsetHole {
    /// First byte, from the beginning of the export.
    pub offset: u64,
    /// Bytes, at least one.
    pub length: u32,
}

impl OffsetHole {
    /// Bytes.
    pub const LEN: usize = 12;

    /// The whole payload.
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

/// The payload of an error chunk, of any kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorChunk<'a> {
    /// Why.
    pub error: ErrorNumber,
    /// Words for a person; may be empty, and need not be UTF-8 where a client reads them.
    pub message: &'a [u8],
    /// Where, if the chunk is an `NBD_REPLY_TYPE_ERROR_OFFSET`.
    pub offset: Option<u64>,
}

impl<'a> ErrorChunk<'a> {
    /// Bytes without the message, of an error at an offset.
    pub const LEN_MAX: usize = 14 + STRING_MAX;

    /// The whole payload. An error chunk of an unknown kind has the same beginning, and what follows is ignored.
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

    /// Bytes of the payload.
    pub fn len(&self) -> usize {
        6 + self.message.len() + if self.offset.is_some() { 8 } else { 0 }
    }

    /// Never: it has an error number at least.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The kind of chunk that it is.
    pub fn kind(&self) -> ChunkType {
        if self.offset.is_some() { ChunkType::ErrorOffset } else { ChunkType::Error }
    }

    /// Appends the payload.
    ///
    /// # Panics
    /// If the message is longer than 16 bits can say.
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
    /// Bytes.
    pub length: u64,
    /// What the context says of them.
    pub status: u64,
}

impl BlockDescriptor {
    /// Bytes of one in `NBD_REPLY_TYPE_BLOCK_STATUS` or, if `wide`, in `NBD_REPLY_TYPE_BLOCK_STATUS_EXT`.
    #[inline]
    pub const fn len(wide: bool) -> usize {
        if wide { 16 } else { 8 }
    }

    /// The descriptor at the beginning of `bytes`; `None` if that is not whole.
    #[inline]
    pub fn parse(wide: bool, bytes: &[u8]) -> Option<BlockDescriptor> {
        let mut reader = Reader::new(bytes);
        Some(if wide {
            BlockDescriptor { length: reader.u64()?, status: reader.u64()? }
        } else {
            BlockDescriptor { length: reader.u32()?.into(), status: reader.u32()?.into() }
        })
    }

    /// Appends it.
    ///
    /// # Panics
    /// If a field of a narrow one needs more than 32 bits.
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

/// What stands before the descriptors of a block status: the context, and their number as the payload's length has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Descriptors {
    /// The number that stands for the context.
    pub context: u32,
    /// How many descriptors follow, at least one.
    pub count: u32,
}

impl Descriptors {
    /// Bytes before the first descriptor.
    pub const fn len(wide: bool) -> usize {
        if wide { 8 } else { 4 }
    }

    /// The beginning of a payload that has `length` bytes in all, `NBD_REPLY_TYPE_BLOCK_STATUS_EXT` if `wide`; `None`
    /// if `bytes` are fewer than [`Descriptors::len`].
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
        let said = if wide { reader.u32()? } else { count };
        if count == 0 || said != count {
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

    /// Bytes of the payload in all.
    pub fn payload(&self, wide: bool) -> u64 {
        Descriptors::len(wide) as u64 + u64::from(self.count) * BlockDescriptor::len(wide) as u64
    }
}
