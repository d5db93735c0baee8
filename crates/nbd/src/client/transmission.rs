//! Requests and replies on the client's side (proto.md, "Transmission", "Structured reply types").
//!
//! The machine processes replies as they arrive. It returns the data of a read and the extents of a block
//! status before the reply is complete, so it buffers nothing. A reply that breaks a checked rule of the
//! specification ends the session.

use super::pending::{InFlight, Pending};
use super::{ClientError, Event, ExportInfo, Extent, Received, Request, RequestError, Slot};
use crate::wire::{
    BlockDescriptor, ChunkError, ChunkHeader, ChunkLayout, ChunkType, CommandFlags, CommandType, Descriptors,
    ErrorChunk, ErrorNumber, OffsetHole, Reader, ReplyFlags, RequestHeader, RequestLayout,
    SIMPLE_REPLY_MAGIC, SimpleReply, TransmissionFlags,
};
use alloc::string::String;
use alloc::vec::Vec;

/// The transmission phase of a session.
pub(super) struct Transmission {
    export: ExportInfo,
    validate_requests: bool,
    layout: RequestLayout,
    /// Layout of reply chunks; `None` if the server sends simple replies.
    chunks: Option<ChunkLayout>,
    /// IDs and names of the negotiated metadata contexts.
    contexts: Vec<(u32, String)>,
    in_flight: InFlight,
    reading: Reading,
    disconnected: bool,
}

/// The next part of the byte stream.
enum Reading {
    /// The header of a reply.
    Header,
    /// Data of a read, from `offset` of the export.
    Data { slot: Slot, offset: u64, remaining: u64, last: bool },
    /// Extents of a metadata context.
    Extents { slot: Slot, context: usize, remaining: u32, reported: u64, last: bool },
    /// No further bytes: the reply is complete.
    End { slot: Slot },
}

impl Transmission {
    pub(super) fn new(
        export: ExportInfo,
        validate_requests: bool,
        layout: RequestLayout,
        chunks: Option<ChunkLayout>,
        contexts: Vec<(u32, String)>,
    ) -> Transmission {
        let (in_flight, reading) = (InFlight::default(), Reading::Header);
        Transmission {
            export,
            validate_requests,
            layout,
            chunks,
            contexts,
            in_flight,
            reading,
            disconnected: false,
        }
    }

    pub(super) fn export(&self) -> &ExportInfo {
        &self.export
    }
    pub(super) fn contexts(&self) -> impl Iterator<Item = &str> {
        self.contexts.iter().map(|(_, name)| &name[..])
    }
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
    pub(super) fn layout(&self) -> RequestLayout {
        self.layout
    }
    pub(super) fn chunks(&self) -> Option<ChunkLayout> {
        self.chunks
    }

    /// Appends a request.
    #[inline]
    pub(super) fn request(&mut self, request: Request, to: &mut Vec<u8>) -> Result<Slot, RequestError> {
        if self.disconnected || request.command == CommandType::Disconnect {
            return Err(RequestError::NotReady);
        }
        if self.layout == RequestLayout::Compact && request.length > u64::from(u32::MAX) {
            return Err(RequestError::TooLong);
        }
        if self.validate_requests {
            request.check(&self.export, !self.contexts.is_empty())?;
        }
        let Request { command, flags, offset, length } = request;
        let payload = command == CommandType::Write && self.layout == RequestLayout::Extended;
        let flags = flags.with_if(payload, CommandFlags::PAYLOAD_LEN);
        let all = self.contexts.iter().enumerate().fold(0, |all, (position, _)| all | 1u64 << position);
        let added = self.in_flight.insert(command, flags, (offset, length), all);
        let (slot, cookie) = added.ok_or(RequestError::TooMany)?;
        RequestHeader { flags, command, cookie, offset, length }.emit(self.layout, to);
        Ok(slot)
    }

    /// Appends a block status request that lists its metadata contexts ("`NBD_FLAG_BLOCK_STATUS_PAYLOAD`").
    pub(super) fn block_status_of(
        &mut self,
        request: Request,
        contexts: &[usize],
        to: &mut Vec<u8>,
    ) -> Result<Slot, RequestError> {
        if self.disconnected {
            return Err(RequestError::NotReady);
        }
        let Request { command, flags, offset, length } = request;
        let offered = self.export.flags.contains(TransmissionFlags::BLOCK_STATUS_PAYLOAD);
        if command != CommandType::BlockStatus || !offered || self.layout != RequestLayout::Extended {
            return Err(RequestError::NotOffered(command));
        }
        if self.validate_requests {
            request.check(&self.export, !self.contexts.is_empty())?;
        }
        let (mut selected, mut ids) = (0u64, Vec::new());
        for position in contexts {
            let (id, _) = self.contexts.get(*position).ok_or(RequestError::NotOffered(command))?;
            selected |= 1 << position;
            ids.extend_from_slice(&id.to_be_bytes());
        }
        if selected.count_ones() as usize != contexts.len() || contexts.is_empty() {
            return Err(RequestError::NotOffered(command));
        }
        let flags = flags.with(CommandFlags::PAYLOAD_LEN);
        let added = self.in_flight.insert(command, flags, (offset, length), selected);
        let (slot, cookie) = added.ok_or(RequestError::TooMany)?;
        let payload = 8 + ids.len() as u64;
        RequestHeader { flags, command, cookie, offset, length: payload }.emit(self.layout, to);
        to.extend_from_slice(&length.to_be_bytes());
        to.extend_from_slice(&ids);
        Ok(slot)
    }

    /// Appends the disconnect request.
    pub(super) fn disconnect(&mut self, to: &mut Vec<u8>) {
        if !self.disconnected {
            self.disconnected = true;
            let (flags, command) = (CommandFlags::NONE, CommandType::Disconnect);
            RequestHeader { flags, command, cookie: 0, offset: 0, length: 0 }.emit(self.layout, to);
        }
    }

    /// Parses received bytes up to the next event.
    #[inline]
    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<Received, ClientError> {
        match self.reading {
            Reading::Header => self.header(bytes),
            Reading::Data { slot, offset, remaining, last } => {
                if bytes.is_empty() {
                    return Ok(Received { consumed: 0, event: Event::Need(1) });
                }
                Ok(self.data(slot, offset, remaining, last, bytes, 0))
            }
            Reading::Extents { slot, context, remaining, reported, last } => {
                self.extent(slot, context, remaining, reported, last, bytes, 0)
            }
            Reading::End { slot } => {
                self.reading = Reading::Header;
                self.end_reply(slot, 0)
            }
        }
    }

    #[inline]
    fn header(&mut self, bytes: &[u8]) -> Result<Received, ClientError> {
        let need = |count| Ok(Received { consumed: 0, event: Event::Need(count) });
        let simple = match self.chunks {
            None => true,
            Some(ChunkLayout::Extended) => false,
            // With structured replies, the magic number distinguishes simple replies from chunks.
            Some(ChunkLayout::Structured) => match Reader::new(bytes).u32() {
                Some(magic) => magic == SIMPLE_REPLY_MAGIC,
                None => return need(SimpleReply::LEN),
            },
        };
        if simple {
            return match SimpleReply::parse(bytes) {
                Some(reply) => self.simple(reply.map_err(ClientError::Magic)?, bytes),
                None => need(SimpleReply::LEN),
            };
        }
        let layout = self.chunks.expect("replies that are not simple are chunks");
        match ChunkHeader::parse(layout, bytes) {
            Some(header) => self.chunk(layout, header.map_err(ClientError::Magic)?, bytes),
            None => need(layout.header_len()),
        }
    }

    #[inline]
    fn simple(&mut self, reply: SimpleReply, bytes: &[u8]) -> Result<Received, ClientError> {
        let (slot, pending) = self.in_flight.find(reply.cookie)?;
        let consumed = SimpleReply::LEN;
        // "MUST NOT use a simple reply for NBD_CMD_READ".
        if pending.command == CommandType::Read && self.chunks.is_some() {
            return Err(ClientError::SimpleReply(pending.command));
        }
        if reply.error != 0 {
            pending.error = Some(ErrorNumber::from_wire(reply.error));
            return self.end_reply(slot, consumed);
        }
        if pending.command == CommandType::Read && pending.length > 0 {
            let (offset, length) = (pending.offset, pending.length);
            pending.cover(offset, length)?;
            return Ok(self.data(slot, offset, length, true, bytes, consumed));
        }
        self.end_reply(slot, consumed)
    }

    #[inline]
    fn chunk(
        &mut self,
        layout: ChunkLayout,
        header: ChunkHeader,
        bytes: &[u8],
    ) -> Result<Received, ClientError> {
        let (slot, pending) = self.in_flight.find(header.cookie)?;
        if layout == ChunkLayout::Extended && header.offset != pending.offset {
            return Err(ClientError::OffsetMismatch { expected: pending.offset, found: header.offset });
        }
        let head = layout.header_len();
        let body = &bytes[head..];
        let last = header.flags.contains(ReplyFlags::DONE);
        let (kind, command) = (header.kind, pending.command);
        let unexpected = ClientError::UnexpectedChunk { kind, command };
        let wrong = ClientError::MalformedChunk(ChunkError::Length { kind, length: header.length });
        let need = |count: usize| Ok(Received { consumed: 0, event: Event::Need(head + count) });
        match kind {
            // "This bit MUST always be set for the NBD_REPLY_TYPE_NONE chunk".
            ChunkType::None if !last => Err(unexpected),
            ChunkType::None if header.length != 0 => Err(wrong),
            ChunkType::None => self.end_reply(slot, head),
            ChunkType::OffsetData if command == CommandType::Read => {
                let length = header.length.checked_sub(8).filter(|length| *length > 0).ok_or(wrong)?;
                let Some(offset) = Reader::new(body).u64() else { return need(8) };
                pending.cover(offset, length)?;
                Ok(self.data(slot, offset, length, last, bytes, head + 8))
            }
            ChunkType::OffsetHole if command == CommandType::Read => {
                if header.length != OffsetHole::LEN as u64 {
                    return Err(wrong);
                }
                let Some(body) = body.get(..OffsetHole::LEN) else { return need(OffsetHole::LEN) };
                let hole = OffsetHole::parse(body).map_err(ClientError::MalformedChunk)?;
                pending.cover(hole.offset, hole.length.into())?;
                self.end_chunk(slot, last);
                let event = Event::Hole { slot, offset: hole.offset, length: hole.length };
                Ok(Received { consumed: head + OffsetHole::LEN, event })
            }
            ChunkType::BlockStatus | ChunkType::BlockStatusExt if command == CommandType::BlockStatus => {
                let wide = kind == ChunkType::BlockStatusExt;
                if wide != (layout == ChunkLayout::Extended) {
                    return Err(unexpected);
                }
                let Some(descriptors) = Descriptors::parse(wide, header.length, body) else {
                    return need(Descriptors::len(wide));
                };
                let Descriptors { context: id, count } = descriptors.map_err(ClientError::MalformedChunk)?;
                let position = self.contexts.iter().position(|(known, _)| *known == id);
                let context = position.filter(|position| pending.contexts >> position & 1 == 1);
                let context = context.ok_or(ClientError::InvalidContext(id))?;
                if count > 1 && pending.flags.contains(CommandFlags::REQ_ONE) {
                    return Err(ClientError::InvalidExtents);
                }
                pending.contexts &= !(1 << context);
                let consumed = head + Descriptors::len(wide);
                self.extent(slot, context, count, 0, last, bytes, consumed)
            }
            kind if kind.is_error() => {
                if header.length > ErrorChunk::LEN_MAX as u64 {
                    return Err(wrong);
                }
                let length = header.length as usize;
                let Some(body) = body.get(..length) else { return need(length) };
                let chunk = ErrorChunk::parse(kind, body).map_err(ClientError::MalformedChunk)?;
                pending.record_error(chunk.error, chunk.offset)?;
                let message = head + 6..head + 6 + chunk.message.len();
                let event = Event::Error { slot, error: chunk.error, offset: chunk.offset, message };
                self.end_chunk(slot, last);
                Ok(Received { consumed: head + length, event })
            }
            // "If the client receives an unknown or unexpected type, other than an error chunk, it MUST initiate a hard
            // disconnect."
            _ => Err(unexpected),
        }
    }

    /// Returns the data of a read: up to `remaining` bytes from position `at` of `bytes`, limited to the available
    /// bytes.
    #[inline]
    fn data(
        &mut self,
        slot: Slot,
        offset: u64,
        remaining: u64,
        last: bool,
        bytes: &[u8],
        at: usize,
    ) -> Received {
        let count = remaining.min((bytes.len() - at) as u64);
        let end = at + count as usize;
        if count == remaining {
            self.end_chunk(slot, last);
        } else {
            self.reading = Reading::Data { slot, offset: offset + count, remaining: remaining - count, last };
        }
        if count == 0 {
            return Received { consumed: at, event: Event::Need(1) };
        }
        Received { consumed: end, event: Event::Data { slot, offset, range: at..end } }
    }

    /// Parses the next extent of a metadata context, at position `at` of `bytes`.
    #[allow(clippy::too_many_arguments, reason = "the state of a block status")]
    fn extent(
        &mut self,
        slot: Slot,
        context: usize,
        remaining: u32,
        reported: u64,
        last: bool,
        bytes: &[u8],
        at: usize,
    ) -> Result<Received, ClientError> {
        let wide = self.layout == RequestLayout::Extended;
        let Some(descriptor) = BlockDescriptor::parse(wide, &bytes[at..]) else {
            self.reading = Reading::Extents { slot, context, remaining, reported, last };
            let event = Event::Need(BlockDescriptor::len(wide));
            return Ok(Received { consumed: at, event });
        };
        let pending: &Pending = self.in_flight.get(slot);
        let one = pending.flags.contains(CommandFlags::REQ_ONE);
        // "The sum of the length fields of the first N-1 extents (if any) MUST be less than the requested length".
        if descriptor.length == 0 || reported >= pending.length || one && descriptor.length > pending.length {
            return Err(ClientError::InvalidExtents);
        }
        let offset = pending.offset.saturating_add(reported);
        let reported = reported.saturating_add(descriptor.length);
        if remaining > 1 {
            self.reading = Reading::Extents { slot, context, remaining: remaining - 1, reported, last };
        } else {
            self.end_chunk(slot, last);
        }
        let BlockDescriptor { length, status } = descriptor;
        let event = Event::Extent(Extent { slot, context, offset, length, status });
        Ok(Received { consumed: at + BlockDescriptor::len(wide), event })
    }

    /// Ends a chunk.
    #[inline]
    fn end_chunk(&mut self, slot: Slot, last: bool) {
        self.reading = if last { Reading::End { slot } } else { Reading::Header };
    }

    /// Ends a reply, and checks that it is complete.
    #[inline]
    fn end_reply(&mut self, slot: Slot, consumed: usize) -> Result<Received, ClientError> {
        let pending = self.in_flight.get(slot);
        let is_complete = match pending.command {
            CommandType::Read => pending.is_covered(),
            CommandType::BlockStatus => pending.contexts == 0,
            _ => true,
        };
        let result = match pending.error {
            None if !is_complete => return Err(ClientError::Incomplete(pending.command)),
            None => Ok(()),
            // "The client SHOULD treat an unexpected error value as if it had been NBD_EINVAL".
            Some(error) => Err(error.known()),
        };
        self.in_flight.remove(slot);
        Ok(Received { consumed, event: Event::Done { slot, result } })
    }
}
