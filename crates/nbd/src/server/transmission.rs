//! Requests, as a server takes them (proto.md, "Transmission", "Request types", "Error values").
//!
//! What is wrong with a request is answered here, in place; what is sound comes out. A refused request's payload is
//! drained before the refusal is sent, because clients do not expect an answer to what they are still sending.

use super::{
    Closed, Command, ContextSet, Event, Export, PAYLOAD_MAX, Policy, Received, Replies, Request, Style, Token,
};
use crate::wire::{
    CommandFlags, CommandType, ErrorNumber, Reader, RequestHeader, RequestLayout, TransmissionFlags,
};
use alloc::vec::Vec;

/// The second phase of a session.
pub(super) struct Transmission {
    export: Export,
    /// As the client was told.
    flags: TransmissionFlags,
    contexts: ContextSet,
    layout: RequestLayout,
    replies: Replies,
    direct_min: u64,
    payload_max: u64,
    drain: Option<Drain>,
    /// Requests refused since somebody asked.
    refused: u64,
}

/// A refused request whose payload is still coming.
struct Drain {
    remaining: u64,
    token: Token,
    refusal: Refusal,
}

/// Why a request is not done.
#[derive(Clone, Copy)]
struct Refusal {
    error: ErrorNumber,
    message: &'static str,
}

const fn refuse(error: ErrorNumber, message: &'static str) -> Refusal {
    Refusal { error, message }
}

/// A payload of a block status request is at most this long: an effect length and a number for each context.
const STATUS_PAYLOAD_MAX: u64 = 8 + 4 * 64;

impl Transmission {
    pub(super) fn new(
        export: Export,
        flags: TransmissionFlags,
        contexts: ContextSet,
        style: Style,
        policy: &Policy,
    ) -> Transmission {
        let layout = if style == Style::Extended { RequestLayout::Extended } else { RequestLayout::Compact };
        let payload_max = PAYLOAD_MAX.max(export.payload_max.into());
        let direct_min = policy.direct_min as u64;
        let replies = Replies::new(style);
        let (drain, refused) = (None, 0);
        Transmission { export, flags, contexts, layout, replies, direct_min, payload_max, drain, refused }
    }

    pub(super) fn export(&self) -> &Export {
        &self.export
    }
    pub(super) fn contexts(&self) -> ContextSet {
        self.contexts
    }
    pub(super) fn replies(&self) -> Replies {
        self.replies
    }
    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }
    pub(super) fn take_refused(&mut self) -> u64 {
        core::mem::take(&mut self.refused)
    }

    /// Goes on to the next sound request, or to the end of what can be dealt with.
    #[inline]
    pub(super) fn receive(&mut self, bytes: &[u8], shutting_down: bool, replies: &mut Vec<u8>) -> Received {
        let mut consumed = 0;
        loop {
            if self.drain.is_some() {
                consumed += self.drain(&bytes[consumed..], replies);
                if let Some(drain) = &self.drain {
                    let need = drain.remaining.min(32) as usize;
                    return Received { consumed, event: Event::Need(need) };
                }
            }
            let rest = &bytes[consumed..];
            let header = match RequestHeader::parse(self.layout, rest) {
                Some(Ok(header)) => header,
                Some(Err(magic)) => return Received { consumed, event: Event::Closed(Closed::Magic(magic)) },
                None => return Received { consumed, event: Event::Need(self.layout.header_len()) },
            };
            if header.command == CommandType::Disconnect {
                consumed += self.layout.header_len();
                return Received { consumed, event: Event::Closed(Closed::Disconnect) };
            }
            match self.request(&header, rest, consumed, shutting_down) {
                Step::Request { request, taken } => {
                    return Received { consumed: consumed + taken, event: Event::Request(request) };
                }
                Step::Done { taken } => {
                    consumed += taken;
                    // "MUST NOT use a simple reply for NBD_CMD_READ" with structured replies.
                    if header.command == CommandType::Read && self.replies.fragments() {
                        self.replies.end(token(&header), replies);
                    } else {
                        self.replies.done(token(&header), replies);
                    }
                }
                Step::Refused { refusal, payload } => {
                    consumed += self.layout.header_len();
                    self.drain = Some(Drain { remaining: payload, token: token(&header), refusal });
                }
                Step::Need(need) => return Received { consumed, event: Event::Need(need) },
                Step::Closed(why) => return Received { consumed, event: Event::Closed(why) },
            }
        }
    }

    /// Swallows what is there of a refused request's payload; at its end, refuses it.
    fn drain(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> usize {
        let Some(drain) = &mut self.drain else { return 0 };
        let taken = drain.remaining.min(bytes.len() as u64);
        drain.remaining -= taken;
        if drain.remaining == 0 {
            let Refusal { error, message } = drain.refusal;
            self.replies.error(drain.token, error, message, replies);
            self.drain = None;
            self.refused += 1;
        }
        taken as usize
    }

    /// One request, at the beginning of `rest`, which is `consumed` bytes after the beginning of what was given.
    #[inline]
    fn request(&self, header: &RequestHeader, rest: &[u8], consumed: usize, shutting_down: bool) -> Step {
        let payload = header.payload(self.layout);
        if payload > self.payload_max {
            // "A server SHOULD initiate hard disconnect if a client sets the NBD_CMD_FLAG_PAYLOAD_LEN flag and uses a
            // length larger than a server's advertised or default maximum payload length." A compact length is bounded.
            return if self.layout == RequestLayout::Extended {
                Step::Closed(Closed::Payload(payload))
            } else {
                Step::Refused { refusal: refuse(ErrorNumber::Invalid, "the payload is too long"), payload }
            };
        }
        if shutting_down {
            return Step::Refused {
                refusal: refuse(ErrorNumber::Shutdown, "the server is shutting down"),
                payload,
            };
        }
        let head = self.layout.header_len();
        let (command, length) = match self.command(header) {
            Ok(Some(command)) => (command, header.length),
            // A block status with a payload, which has to be there to be judged.
            Ok(None) if payload > STATUS_PAYLOAD_MAX => {
                return Step::Refused {
                    refusal: refuse(ErrorNumber::Invalid, "too many metadata contexts"),
                    payload,
                };
            }
            Ok(None) => {
                let Some(body) = rest.get(head..head + payload as usize) else {
                    return Step::Need(head + payload as usize);
                };
                match self.block_status(header, body) {
                    Ok(asked) => asked,
                    Err(refusal) => return Step::Refused { refusal, payload },
                }
            }
            Err(refusal) => return Step::Refused { refusal, payload },
        };
        if length == 0 && !matches!(command, Command::Flush) {
            // Asking for nothing is not an error that ends a session; there is just nothing to do.
            return Step::Done { taken: head };
        }
        let request = Request { token: token(header), offset: header.offset, length, command };
        if payload == 0 || !matches!(request.command, Command::Write { .. }) {
            return Step::Request { request, taken: head + payload as usize };
        }
        let there = (rest.len() - head) as u64;
        if there < payload && payload < self.direct_min {
            return Step::Need(head + payload as usize);
        }
        let here = there.min(payload) as usize;
        let start = consumed + head;
        let fua = header.flags.has(CommandFlags::FUA);
        let command = Command::Write { here: start..start + here, fua };
        Step::Request { request: Request { command, ..request }, taken: head + here }
    }

    /// What a request asks for, if it is sound; `None` for a block status whose payload has the rest.
    #[inline]
    fn command(&self, header: &RequestHeader) -> Result<Option<Command>, Refusal> {
        use CommandFlags as F;
        use TransmissionFlags as T;
        let chunks = self.replies.fragments();
        let extended = self.layout == RequestLayout::Extended;
        // "Command flags": what each command may have. FUA is valid for all if it was offered.
        let (offered, flags) = match header.command {
            CommandType::Read => (true, F::NONE.with_if(chunks, F::DF)),
            CommandType::Write => (true, F::NONE.with_if(extended, F::PAYLOAD_LEN)),
            CommandType::Flush => (self.flags.has(T::SEND_FLUSH), F::NONE),
            CommandType::Trim => (self.flags.has(T::SEND_TRIM), F::NONE),
            CommandType::Cache => (self.flags.has(T::SEND_CACHE), F::NONE),
            CommandType::WriteZeroes => (
                self.flags.has(T::SEND_WRITE_ZEROES),
                F::NO_HOLE.with_if(self.flags.has(T::SEND_FAST_ZERO), F::FAST_ZERO),
            ),
            CommandType::BlockStatus => (
                !self.contexts.is_empty(),
                F::REQ_ONE.with_if(self.flags.has(T::BLOCK_STATUS_PAYLOAD), F::PAYLOAD_LEN),
            ),
            _ => return Err(refuse(ErrorNumber::Invalid, "an unknown command")),
        };
        let flags = flags.with_if(self.flags.has(T::SEND_FUA), F::FUA);
        if header.command == CommandType::Write && extended && !header.flags.has(F::PAYLOAD_LEN) {
            return Err(refuse(
                ErrorNumber::Invalid,
                "a write needs NBD_CMD_FLAG_PAYLOAD_LEN with extended headers",
            ));
        }
        if header.command.writes() && self.flags.has(T::READ_ONLY) {
            return Err(refuse(ErrorNumber::Permission, "the export is read-only"));
        }
        if !offered {
            return Err(refuse(ErrorNumber::Invalid, "a command that was not agreed on"));
        }
        if !header.flags.without(flags).is_empty() {
            return Err(refuse(ErrorNumber::Invalid, "a flag that this command does not have here"));
        }
        if header.command == CommandType::BlockStatus && header.flags.has(F::PAYLOAD_LEN) {
            return Ok(None);
        }
        if header.command == CommandType::Flush {
            // "For a flush request, length and offset are reserved, and MUST be set to all-zero."
            let zero = header.length == 0 && header.offset == 0;
            let refusal = refuse(ErrorNumber::Invalid, "a flush has neither offset nor length");
            return if zero { Ok(Some(Command::Flush)) } else { Err(refusal) };
        }
        self.range(header, header.length)?;
        let fua = header.flags.has(F::FUA);
        Ok(Some(match header.command {
            CommandType::Read => {
                if header.length > self.payload_max {
                    let error = if chunks { ErrorNumber::Overflow } else { ErrorNumber::Invalid };
                    return Err(refuse(error, "the read is too long"));
                }
                Command::Read { unfragmented: header.flags.has(F::DF) || !chunks }
            }
            CommandType::Write => Command::Write { here: 0..0, fua },
            CommandType::Trim => Command::Trim { fua },
            CommandType::Cache => Command::Cache,
            CommandType::WriteZeroes => Command::WriteZeroes {
                fua,
                no_hole: header.flags.has(F::NO_HOLE),
                fast: header.flags.has(F::FAST_ZERO),
            },
            _ => self.status(header, header.length, self.contexts)?,
        }))
    }

    /// A block status with a payload: an effect length, and the contexts that are wanted ("`NBD_CMD_BLOCK_STATUS`" with
    /// extended headers). Duplicate or unknown ones are an error.
    fn block_status(&self, header: &RequestHeader, body: &[u8]) -> Result<(Command, u64), Refusal> {
        let wrong = refuse(
            ErrorNumber::Invalid,
            "the payload is not a length and numbers of agreed contexts, each once",
        );
        let mut reader = Reader::new(body);
        let length = reader.u64().ok_or(wrong)?;
        let mut contexts = ContextSet::NONE;
        while let Some(id) = reader.u32() {
            let place = id as usize;
            if !self.contexts.has(place) || contexts.has(place) {
                return Err(wrong);
            }
            contexts.insert(place);
        }
        if !reader.rest().is_empty() || contexts.is_empty() {
            return Err(wrong);
        }
        self.range(header, length)?;
        Ok((self.status(header, length, contexts)?, length))
    }

    fn status(&self, header: &RequestHeader, length: u64, contexts: ContextSet) -> Result<Command, Refusal> {
        // Each extent has at least one byte, and one that was asked for alone is not longer than the request.
        if length == 0 {
            return Err(refuse(ErrorNumber::Invalid, "a block status of no bytes"));
        }
        Ok(Command::BlockStatus { one: header.flags.has(CommandFlags::REQ_ONE), contexts })
    }

    /// "Error values": beyond the end a write gets `NBD_ENOSPC`, anything else `NBD_EINVAL`; what is not of whole
    /// blocks gets `NBD_EINVAL`.
    #[inline]
    fn range(&self, header: &RequestHeader, length: u64) -> Result<(), Refusal> {
        if header.offset.checked_add(length).is_none_or(|end| end > self.export.size) {
            let space = matches!(header.command, CommandType::Write | CommandType::WriteZeroes);
            let error = if space { ErrorNumber::NoSpace } else { ErrorNumber::Invalid };
            return Err(refuse(error, "beyond the end of the export"));
        }
        if self.export.block_minimum > 1
            && (header.offset | length) & u64::from(self.export.block_minimum - 1) != 0
        {
            return Err(refuse(ErrorNumber::Invalid, "not of whole blocks"));
        }
        Ok(())
    }
}

#[inline]
fn token(header: &RequestHeader) -> Token {
    Token { cookie: header.cookie, offset: header.offset }
}

/// What to do with a request.
enum Step {
    /// It goes out; so many bytes are taken.
    Request { request: Request, taken: usize },
    /// It is done; so many bytes are taken.
    Done { taken: usize },
    /// It is refused after so many bytes of payload.
    Refused { refusal: Refusal, payload: u64 },
    /// It is not whole yet.
    Need(usize),
    /// The session ends.
    Closed(Closed),
}
