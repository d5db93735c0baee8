//! Headers of replies (proto.md, "Simple reply message", "Structured reply chunk message"; "Extended reply chunk
//! message" from the branch extension-ext-header).

use super::{
    BadMagic, ChunkType, EXTENDED_REPLY_MAGIC, Reader, ReplyFlags, SIMPLE_REPLY_MAGIC, STRUCTURED_REPLY_MAGIC,
};
use alloc::vec::Vec;

/// A simple reply. The header has 16 bytes, and the data of a successful read follows the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SimpleReply {
    /// Zero, or an error number.
    pub error: u32,
    /// Cookie of the request.
    pub cookie: u64,
}

impl SimpleReply {
    /// Length of the header in bytes.
    pub const LEN: usize = 16;

    /// Parses the header at the beginning of `bytes`; `None` if it is incomplete.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Result<SimpleReply, BadMagic>> {
        let mut reader = Reader::new(bytes);
        let (magic, error, cookie) = (reader.u32()?, reader.u32()?, reader.u64()?);
        if magic != SIMPLE_REPLY_MAGIC {
            return Some(Err(BadMagic { expected: SIMPLE_REPLY_MAGIC.into(), found: magic.into() }));
        }
        Some(Ok(SimpleReply { error, cookie }))
    }

    /// Appends the header.
    #[inline]
    pub fn emit(&self, to: &mut Vec<u8>) {
        let mut bytes = [0; SimpleReply::LEN];
        bytes[..4].copy_from_slice(&SIMPLE_REPLY_MAGIC.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.error.to_be_bytes());
        bytes[8..].copy_from_slice(&self.cookie.to_be_bytes());
        to.extend_from_slice(&bytes);
    }
}

/// Layout of chunk headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChunkLayout {
    /// 20 bytes with a 32-bit length.
    Structured,
    /// 32 bytes with the request's offset and a 64-bit length.
    Extended,
}

impl ChunkLayout {
    /// Returns the length of the header in bytes.
    #[inline]
    pub const fn header_len(self) -> usize {
        match self {
            ChunkLayout::Structured => 20,
            ChunkLayout::Extended => 32,
        }
    }
}

/// Header of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    /// The reply flags, which mark the last chunk.
    pub flags: ReplyFlags,
    /// Type of the chunk.
    pub kind: ChunkType,
    /// Cookie of the request.
    pub cookie: u64,
    /// Offset of the request; 0 for a structured reply, whose header does not contain the offset.
    pub offset: u64,
    /// Length of the payload in bytes.
    pub length: u64,
}

impl ChunkHeader {
    /// Parses the header at the beginning of `bytes`; `None` if it is incomplete.
    #[inline]
    pub fn parse(layout: ChunkLayout, bytes: &[u8]) -> Option<Result<ChunkHeader, BadMagic>> {
        let mut reader = Reader::new(bytes.get(..layout.header_len())?);
        let (found, flags, kind, cookie) = (reader.u32()?, reader.u16()?, reader.u16()?, reader.u64()?);
        let (expected, offset, length) = match layout {
            ChunkLayout::Structured => (STRUCTURED_REPLY_MAGIC, 0, reader.u32()?.into()),
            ChunkLayout::Extended => (EXTENDED_REPLY_MAGIC, reader.u64()?, reader.u64()?),
        };
        if found != expected {
            return Some(Err(BadMagic { expected: expected.into(), found: found.into() }));
        }
        let (flags, kind) = (ReplyFlags(flags), ChunkType::from_wire(kind));
        Some(Ok(ChunkHeader { flags, kind, cookie, offset, length }))
    }

    /// Appends the header.
    ///
    /// # Panics
    /// Panics if the length of a structured chunk needs more than 32 bits.
    #[inline]
    pub fn emit(&self, layout: ChunkLayout, to: &mut Vec<u8>) {
        let mut bytes = [0; 32];
        bytes[4..6].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.kind.to_wire().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        match layout {
            ChunkLayout::Structured => {
                let length = u32::try_from(self.length).expect("a structured chunk's length has 32 bits");
                bytes[..4].copy_from_slice(&STRUCTURED_REPLY_MAGIC.to_be_bytes());
                bytes[16..20].copy_from_slice(&length.to_be_bytes());
            }
            ChunkLayout::Extended => {
                bytes[..4].copy_from_slice(&EXTENDED_REPLY_MAGIC.to_be_bytes());
                bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
                bytes[24..].copy_from_slice(&self.length.to_be_bytes());
            }
        }
        to.extend_from_slice(&bytes[..layout.header_len()]);
    }
}
