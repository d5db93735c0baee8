//! The answers of requests (proto.md, "Transmission" and "Structured reply types").

use super::Token;
use crate::wire::{
    BlockDescriptor, ChunkHeader, ChunkLayout, ChunkType, Descriptors, ErrorChunk, ErrorNumber, OffsetHole,
    ReplyFlags, STRING_MAX, SimpleReply,
};
use alloc::vec::Vec;

/// What the two sides agreed on for requests and replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// Compact requests, simple replies.
    Simple,
    /// Compact requests; reads and errors are answered in chunks.
    Structured,
    /// Extended requests and chunks.
    Extended,
}

/// Appends answers to a buffer. One request gets one of
/// - [`Replies::done`],
/// - [`Replies::error`],
/// - [`Replies::read`], with its bytes right behind,
/// - where [`Replies::fragments`]: any number of [`Replies::data`] (each with its bytes right behind) and
///   [`Replies::hole`] that cover the range without overlap, the last one said to be `last`; or
///   [`Replies::error`] as the last,
/// - one [`Replies::block_status`] for each context, the last one said to be `last`.
///
/// Pieces of answers to several requests may be mixed, as long as a header's bytes follow it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replies {
    style: Style,
}

/// The largest length of a narrow extent that is still of whole blocks, whatever their size.
const NARROW_MAX: u64 = 0xffff_0000;
/// "Servers SHOULD NOT send more than 2^20 extents in a single reply chunk."
const EXTENTS_MAX: usize = 1 << 20;

impl Replies {
    /// In this style.
    pub fn new(style: Style) -> Replies {
        Replies { style }
    }

    /// What was agreed on.
    pub fn style(&self) -> Style {
        self.style
    }

    /// Whether a read may be answered in pieces, and zeroes without being sent.
    #[inline]
    pub fn fragments(&self) -> bool {
        self.style != Style::Simple
    }

    /// It is done, and there is nothing to tell. Not for reads.
    #[inline]
    pub fn done(&self, token: Token, to: &mut Vec<u8>) {
        match self.style {
            // With structured replies both kinds are allowed; this one is shorter ("Structured reply chunk message").
            Style::Simple | Style::Structured => SimpleReply { error: 0, cookie: token.cookie }.emit(to),
            Style::Extended => self.chunk(token, ChunkType::None, true, 0, to),
        }
    }

    /// The empty last piece of an answer in pieces. Only where [`Replies::fragments`].
    pub fn end(&self, token: Token, to: &mut Vec<u8>) {
        self.chunk(token, ChunkType::None, true, 0, to);
    }

    /// It failed. The message is for a person, and is sent where the style has a place for it.
    pub fn error(&self, token: Token, error: ErrorNumber, message: &str, to: &mut Vec<u8>) {
        if self.style == Style::Simple {
            return SimpleReply { error: error.to_wire(), cookie: token.cookie }.emit(to);
        }
        let message = &message.as_bytes()[..message.floor_char_boundary(STRING_MAX)];
        let chunk = ErrorChunk { error, message, offset: None };
        self.chunk(token, ChunkType::Error, true, chunk.len() as u64, to);
        chunk.emit(to);
    }

    /// A read's header; its `length` bytes must follow at once. At least one.
    #[inline]
    pub fn read(&self, token: Token, length: u32, to: &mut Vec<u8>) {
        match self.style {
            Style::Simple => SimpleReply { error: 0, cookie: token.cookie }.emit(to),
            _ => self.data(token, token.offset, length, true, to),
        }
    }

    /// The header of a piece of what was read, from byte `offset` of the export on; its `length` bytes must follow at
    /// once. At least one. Only where [`Replies::fragments`].
    #[inline]
    pub fn data(&self, token: Token, offset: u64, length: u32, last: bool, to: &mut Vec<u8>) {
        self.chunk(token, ChunkType::OffsetData, last, u64::from(length) + 8, to);
        to.extend_from_slice(&offset.to_be_bytes());
    }

    /// A piece that reads as zeroes, at least one. Only where [`Replies::fragments`].
    pub fn hole(&self, token: Token, offset: u64, length: u32, last: bool, to: &mut Vec<u8>) {
        self.chunk(token, ChunkType::OffsetHole, last, OffsetHole::LEN as u64, to);
        OffsetHole { offset, length }.emit(to);
    }

    /// What one context says of a range of `length` bytes from the request's offset on: extents in order, `one` if no
    /// more was asked for. Extents that are alike are joined; what lies beyond the range is cut off, and so is what
    /// goes beyond the number of extents that may be told. No extent counts as status 0 for all of it, which is always
    /// safe to say ("`NBD_CMD_BLOCK_STATUS`"). Returns how many bytes were told of.
    ///
    /// # Panics
    /// If a status needs more than 32 bits and the style is not [`Style::Extended`]: a context with such ones is
    /// [`MetaContext::wide`](super::MetaContext::wide), and then cannot be asked for.
    #[allow(clippy::too_many_arguments, reason = "what a reply consists of")]
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
        let most = if one { 1 } else { EXTENTS_MAX };
        // A narrow extent has 32 bits; what does not fit becomes the next extent, or is left for the next request.
        let longest = if wide { u64::MAX } else { NARROW_MAX };
        let start = to.len();
        let context = u32::try_from(context).unwrap_or(u32::MAX);
        let (mut count, mut told) = (0, 0);
        let mut open: Option<BlockDescriptor> = None;
        let kind = if wide { ChunkType::BlockStatusExt } else { ChunkType::BlockStatus };
        // The lengths are written when they are known.
        self.chunk(token, kind, last, 0, to);
        Descriptors { context, count: 0 }.emit(wide, to);
        let rest = BlockDescriptor { length, status: 0 };
        let mut extents = extents.into_iter().filter(|extent| extent.length > 0);
        let mut next = extents.next().or(Some(rest));
        while let Some(extent) = next {
            let left = length - told - open.map_or(0, |open| open.length);
            if left == 0 {
                break;
            }
            let mut piece = BlockDescriptor { length: extent.length.min(left), ..extent };
            while piece.length > 0 {
                match &mut open {
                    Some(last) if last.status == piece.status && last.length < longest => {
                        let more = piece.length.min(longest - last.length);
                        last.length += more;
                        piece.length -= more;
                    }
                    Some(last) => {
                        if count + 1 == most {
                            break;
                        }
                        last.emit(wide, to);
                        (told, count, open) = (told + last.length, count + 1, None);
                    }
                    None => {
                        let first = piece.length.min(longest);
                        open = Some(BlockDescriptor { length: first, ..piece });
                        piece.length -= first;
                    }
                }
            }
            next = if piece.length > 0 { None } else { extents.next() };
        }
        if let Some(open) = open {
            open.emit(wide, to);
            (told, count) = (told + open.length, count + 1);
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
        told
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
