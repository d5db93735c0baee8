//! Replies to requests (proto.md, "Transmission" and "Structured reply types").

use super::Token;
use crate::wire::{
    BlockDescriptor, ChunkHeader, ChunkLayout, ChunkType, Descriptors, ErrorChunk, ErrorNumber, OffsetHole,
    ReplyFlags, STRING_MAX, SimpleReply,
};
use alloc::vec::Vec;

/// Negotiated layout of requests and replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Compact requests and simple replies.
    Simple,
    /// Compact requests. The replies to reads and block status requests, and the error replies, are chunks.
    Structured,
    /// Extended requests and extended chunks.
    Extended,
}

/// Appends replies to a buffer. Each request gets one of the following:
/// - [`Replies::done`],
/// - [`Replies::error`],
/// - [`Replies::read`], directly followed by the data,
/// - if [`Replies::can_fragment`] returns true: any number of pieces, which are [`Replies::data`] (each
///   directly followed by its data) or [`Replies::hole`]. The pieces cover the range of the request without
///   overlap, and the final piece has `last` set. A [`Replies::error`] may replace the final piece.
/// - one [`Replies::block_status`] per context. The final [`Replies::block_status`] has `last` set.
///
/// Pieces of the replies to several requests may be interleaved, as long as data directly follows its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replies {
    style: Style,
}

/// Maximum length of an extent with a 32-bit length field. The value is a multiple of every possible block size.
const NARROW_MAX: u64 = 0xffff_0000;
/// Maximum number of extents of one context in a reply. With 32-bit fields, these extents take half a
/// megabyte. A client sends another request for the rest of its range. The specification permits 2^20.
const EXTENTS_MAX: usize = 1 << 16;

impl Replies {
    /// Creates replies of this style.
    pub fn new(style: Style) -> Replies {
        Replies { style }
    }

    /// Returns the negotiated style.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Returns true if a read may be answered in pieces, with holes instead of zeroes.
    #[inline]
    pub fn can_fragment(&self) -> bool {
        self.style != Style::Simple
    }

    /// Appends a successful reply without data. Must not be called for a read.
    #[inline]
    pub fn done(&self, token: Token, to: &mut Vec<u8>) {
        match self.style {
            // With structured replies the specification allows simple replies and chunks here; the simple reply is
            // shorter ("Structured reply chunk message").
            Style::Simple | Style::Structured => SimpleReply { error: 0, cookie: token.cookie }.emit(to),
            Style::Extended => self.chunk(token, ChunkType::None, true, 0, to),
        }
    }

    /// Appends an empty final piece. Requires [`Replies::can_fragment`].
    pub fn end(&self, token: Token, to: &mut Vec<u8>) {
        self.chunk(token, ChunkType::None, true, 0, to);
    }

    /// Appends an error reply. The message is human-readable, and is sent only if the style has a field for it.
    pub fn error(&self, token: Token, error: ErrorNumber, message: &str, to: &mut Vec<u8>) {
        if self.style == Style::Simple {
            return SimpleReply { error: error.to_wire(), cookie: token.cookie }.emit(to);
        }
        let message = &message.as_bytes()[..message.floor_char_boundary(STRING_MAX)];
        let chunk = ErrorChunk { error, message, offset: None };
        self.chunk(token, ChunkType::Error, true, chunk.len() as u64, to);
        chunk.emit(to);
    }

    /// Appends the header of a read reply. The `length` bytes of data, at least one, must follow directly.
    #[inline]
    pub fn read(&self, token: Token, length: u32, to: &mut Vec<u8>) {
        match self.style {
            Style::Simple => SimpleReply { error: 0, cookie: token.cookie }.emit(to),
            _ => self.data(token, token.offset, length, true, to),
        }
    }

    /// Appends the header of a piece of a read reply that begins at byte `offset` of the export. The `length` bytes
    /// of data, at least one, must follow directly. Requires [`Replies::can_fragment`].
    #[inline]
    pub fn data(&self, token: Token, offset: u64, length: u32, last: bool, to: &mut Vec<u8>) {
        self.chunk(token, ChunkType::OffsetData, last, u64::from(length) + 8, to);
        to.extend_from_slice(&offset.to_be_bytes());
    }

    /// Appends a piece of a read reply of `length` bytes, at least one, that contains only zeroes. Requires
    /// [`Replies::can_fragment`].
    pub fn hole(&self, token: Token, offset: u64, length: u32, last: bool, to: &mut Vec<u8>) {
        self.chunk(token, ChunkType::OffsetHole, last, OffsetHole::LEN as u64, to);
        OffsetHole { offset, length }.emit(to);
    }

    /// Appends the extents of one context, in order, for the range of `length` bytes that begins at the
    /// request's offset. If `one` is set, appends only the first extent. Adjacent extents of equal status are
    /// merged. Extents beyond the range, and beyond the maximum number of extents, are dropped. If `extents`
    /// is empty, the reply reports status 0 for the whole range, which is always a valid answer
    /// ("`NBD_CMD_BLOCK_STATUS`"). Returns the number of bytes that the appended extents cover.
    ///
    /// # Panics
    /// Panics if a status needs more than 32 bits and the style is not [`Style::Extended`]. A context with such a
    /// status is [`MetaContext::wide`](super::MetaContext::wide) and cannot be selected in the other styles.
    #[allow(clippy::too_many_arguments, reason = "the fields of a reply")]
    pub fn block_status(
        &self,
        token: Token,
        length: u64,
        one: bool,
        context: usize,
        extents: impl IntoIterator<Item = BlockDescriptor>,
        last: bool,
        to: &mut Vec<u8>,
    ) -> u64 {
        let wide = self.style == Style::Extended;
        let max_count = if one { 1 } else { EXTENTS_MAX };
        // A narrow extent has a 32-bit length. The rest of a longer extent becomes the next extent, or is
        // left for the next request.
        let max_length = if wide { u64::MAX } else { NARROW_MAX };
        let start = to.len();
        let context = u32::try_from(context).unwrap_or(u32::MAX);
        let (mut count, mut reported) = (0, 0);
        let mut open: Option<BlockDescriptor> = None;
        let kind = if wide { ChunkType::BlockStatusExt } else { ChunkType::BlockStatus };
        // The length and the count are written afterwards, when they are known.
        self.chunk(token, kind, last, 0, to);
        Descriptors { context, count: 0 }.emit(wide, to);
        let rest = BlockDescriptor { length, status: 0 };
        let mut extents = extents.into_iter().filter(|extent| extent.length > 0);
        let mut next = extents.next().or(Some(rest));
        while let Some(extent) = next {
            let left = length - reported - open.map_or(0, |open| open.length);
            if left == 0 {
                break;
            }
            let mut piece = BlockDescriptor { length: extent.length.min(left), ..extent };
            while piece.length > 0 {
                match &mut open {
                    Some(last) if last.status == piece.status && last.length < max_length => {
                        let more = piece.length.min(max_length - last.length);
                        last.length += more;
                        piece.length -= more;
                    }
                    Some(last) => {
                        if count + 1 == max_count {
                            break;
                        }
                        last.emit(wide, to);
                        (reported, count, open) = (reported + last.length, count + 1, None);
                    }
                    None => {
                        let first = piece.length.min(max_length);
                        open = Some(BlockDescriptor { length: first, ..piece });
                        piece.length -= first;
                    }
                }
            }
            next = if piece.length > 0 { None } else { extents.next() };
        }
        if let Some(open) = open {
            open.emit(wide, to);
            (reported, count) = (reported + open.length, count + 1);
        }
        let payload = Descriptors { context, count: count as u32 }.payload(wide);
        match self.layout() {
            ChunkLayout::Structured => {
                to[start + 16..start + 20].copy_from_slice(&(payload as u32).to_be_bytes());
            }
            ChunkLayout::Extended => {
                to[start + 24..start + 32].copy_from_slice(&payload.to_be_bytes());
                to[start + 36..start + 40].copy_from_slice(&(count as u32).to_be_bytes());
            }
        }
        reported
    }

    fn layout(&self) -> ChunkLayout {
        if self.style == Style::Extended { ChunkLayout::Extended } else { ChunkLayout::Structured }
    }

    #[inline]
    fn chunk(&self, token: Token, kind: ChunkType, last: bool, length: u64, to: &mut Vec<u8>) {
        let flags = ReplyFlags::NONE.with_if(last, ReplyFlags::DONE);
        ChunkHeader { flags, kind, cookie: token.cookie, offset: token.offset, length }
            .emit(self.layout(), to);
    }
}
