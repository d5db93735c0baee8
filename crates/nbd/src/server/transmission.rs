//! Requests on the server's side (proto.md, "Transmission", "Request types", "Error values").
//!
//! The session replies to invalid requests itself, and returns valid requests to the owner. It drains the payload of
//! a rejected request before it sends the error, because clients do not expect a reply to a request that they are
//! still sending.

use super::{
    Closed, Command, ContextSet, Event, Export, PAYLOAD_MAX, Policy, Received, Replies, Request, Style, Token,
};
use crate::wire::{
    CommandFlags, CommandType, ErrorNumber, Reader, RequestHeader, RequestLayout, TransmissionFlags,
};
use alloc::vec::Vec;

/// The transmission phase of a session.
pub(super) struct Transmission {
    export: Export,
    /// The transmission flags that the client received.
    flags: TransmissionFlags,
    contexts: ContextSet,
    layout: RequestLayout,
    replies: Replies,
    direct_payload_min_bytes: u64,
    payload_max: u64,
    drain: Option<Drain>,
    /// Number of rejected requests since the last call of `take_rejected_count`.
    rejected: u64,
}

/// A rejected request whose payload is still arriving.
struct Drain {
    remaining: u64,
    token: Token,
    rejection: Rejection,
}

/// Error reply to a rejected request.
#[derive(Clone, Copy)]
struct Rejection {
    error: ErrorNumber,
    message: &'static str,
}

const fn reject(error: ErrorNumber, message: &'static str) -> Rejection {
    Rejection { error, message }
}

/// Maximum length of the payload of a block status request in bytes: an effect length, and an ID per context.
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
        let direct_payload_min_bytes = policy.direct_payload_min_bytes as u64;
        let replies = Replies::new(style);
        let (drain, rejected) = (None, 0);
        Transmission {
            export,
            flags,
            contexts,
            layout,
            replies,
            direct_payload_min_bytes,
            payload_max,
            drain,
            rejected,
        }
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
    pub(super) fn take_rejected_count(&mut self) -> u64 {
        core::mem::take(&mut self.rejected)
    }

    /// Parses received bytes up to the next valid request, the end of the session, or the end of the
    /// available bytes.
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
                Step::Request { request, count } => {
                    return Received { consumed: consumed + count, event: Event::Request(request) };
                }
                Step::Done { count } => {
                    consumed += count;
                    // "MUST NOT use a simple reply for NBD_CMD_READ" with structured replies.
                    if header.command == CommandType::Read && self.replies.can_fragment() {
                        self.replies.end(token(&header), replies);
                    } else {
                        self.replies.done(token(&header), replies);
                    }
                }
                Step::Rejected { rejection, payload } => {
                    consumed += self.layout.header_len();
                    self.drain = Some(Drain { remaining: payload, token: token(&header), rejection });
                }
                Step::Need(need) => return Received { consumed, event: Event::Need(need) },
                Step::Closed(why) => return Received { consumed, event: Event::Closed(why) },
            }
        }
    }

    /// Drains the available payload of a rejected request, and appends the error reply at its end. Returns the number
    /// of bytes consumed.
    fn drain(&mut self, bytes: &[u8], replies: &mut Vec<u8>) -> usize {
        let Some(drain) = &mut self.drain else { return 0 };
        let count = drain.remaining.min(bytes.len() as u64);
        drain.remaining -= count;
        if drain.remaining == 0 {
            let Rejection { error, message } = drain.rejection;
            self.replies.error(drain.token, error, message, replies);
            self.drain = None;
            self.rejected += 1;
        }
        count as usize
    }

    /// Processes the request at the beginning of `rest`, which starts `consumed` bytes into the received bytes.
    #[inline]
    fn request(&self, header: &RequestHeader, rest: &[u8], consumed: usize, shutting_down: bool) -> Step {
        let payload = header.payload(self.layout);
        if payload > self.payload_max {
            // "A server SHOULD initiate hard disconnect if a client sets the NBD_CMD_FLAG_PAYLOAD_LEN flag and uses a
            // length larger than a server's advertised or default maximum payload length." The length of a compact
            // request is limited to 32 bits, so the session drains it.
            return if self.layout == RequestLayout::Extended {
                Step::Closed(Closed::Payload(payload))
            } else {
                Step::Rejected { rejection: reject(ErrorNumber::Invalid, "the payload is too long"), payload }
            };
        }
        if shutting_down {
            return Step::Rejected {
                rejection: reject(ErrorNumber::Shutdown, "the server is shutting down"),
                payload,
            };
        }
        let head = self.layout.header_len();
        let (command, length) = match self.command(header) {
            Ok(Some(command)) => (command, header.length),
            // A block status request with a payload. The payload has to arrive completely before it can be checked.
            Ok(None) if payload > STATUS_PAYLOAD_MAX => {
                return Step::Rejected {
                    rejection: reject(ErrorNumber::Invalid, "too many metadata contexts"),
                    payload,
                };
            }
            Ok(None) => {
                let Some(body) = rest.get(head..head + payload as usize) else {
                    return Step::Need(head + payload as usize);
                };
                match self.block_status(header, body) {
                    Ok(effect) => effect,
                    Err(rejection) => return Step::Rejected { rejection, payload },
                }
            }
            Err(rejection) => return Step::Rejected { rejection, payload },
        };
        if length == 0 && !matches!(command, Command::Flush) {
            // A request of length zero does not end the session. Unless it is a flush, it completes at once.
            return Step::Done { count: head };
        }
        let request = Request { token: token(header), offset: header.offset, length, command };
        if payload == 0 || !matches!(request.command, Command::Write { .. }) {
            return Step::Request { request, count: head + payload as usize };
        }
        let available = (rest.len() - head) as u64;
        if available < payload && payload < self.direct_payload_min_bytes {
            return Step::Need(head + payload as usize);
        }
        let received = available.min(payload) as usize;
        let start = consumed + head;
        let fua = header.flags.contains(CommandFlags::FUA);
        let command = Command::Write { range: start..start + received, fua };
        Step::Request { request: Request { command, ..request }, count: head + received }
    }

    /// Returns the command of a valid request; `None` for a block status request with a payload, because the
    /// payload is part of the command.
    #[inline]
    fn command(&self, header: &RequestHeader) -> Result<Option<Command>, Rejection> {
        use CommandFlags as F;
        use TransmissionFlags as T;
        let chunks = self.replies.can_fragment();
        let extended = self.layout == RequestLayout::Extended;
        // "Command flags": flags that each command may have. FUA is valid for all commands if it was offered.
        let (offered, flags) = match header.command {
            CommandType::Read => (true, F::NONE.with_if(chunks, F::DF)),
            CommandType::Write => (true, F::NONE.with_if(extended, F::PAYLOAD_LEN)),
            CommandType::Flush => (self.flags.contains(T::SEND_FLUSH), F::NONE),
            CommandType::Trim => (self.flags.contains(T::SEND_TRIM), F::NONE),
            CommandType::Cache => (self.flags.contains(T::SEND_CACHE), F::NONE),
            CommandType::WriteZeroes => (
                self.flags.contains(T::SEND_WRITE_ZEROES),
                F::NO_HOLE.with_if(self.flags.contains(T::SEND_FAST_ZERO), F::FAST_ZERO),
            ),
            CommandType::BlockStatus => (
                !self.contexts.is_empty(),
                F::REQ_ONE.with_if(self.flags.contains(T::BLOCK_STATUS_PAYLOAD), F::PAYLOAD_LEN),
            ),
            _ => return Err(reject(ErrorNumber::Invalid, "an unknown command")),
        };
        let flags = flags.with_if(self.flags.contains(T::SEND_FUA), F::FUA);
        if header.command == CommandType::Write && extended && !header.flags.contains(F::PAYLOAD_LEN) {
            return Err(reject(
                ErrorNumber::Invalid,
                "a write needs NBD_CMD_FLAG_PAYLOAD_LEN with extended headers",
            ));
        }
        if header.command.is_write() && self.flags.contains(T::READ_ONLY) {
            return Err(reject(ErrorNumber::Permission, "the export is read-only"));
        }
        if !offered {
            return Err(reject(ErrorNumber::Invalid, "a command that this export does not support"));
        }
        if !header.flags.without(flags).is_empty() {
            return Err(reject(ErrorNumber::Invalid, "a flag that is not valid for this command"));
        }
        if header.command == CommandType::BlockStatus && header.flags.contains(F::PAYLOAD_LEN) {
            return Ok(None);
        }
        if header.command == CommandType::Flush {
            // "For a flush request, length and offset are reserved, and MUST be set to all-zero."
            let zero = header.length == 0 && header.offset == 0;
            let rejection = reject(ErrorNumber::Invalid, "offset and length of a flush must be zero");
            return if zero { Ok(Some(Command::Flush)) } else { Err(rejection) };
        }
        self.range(header, header.length)?;
        let fua = header.flags.contains(F::FUA);
        Ok(Some(match header.command {
            CommandType::Read => {
                if header.length > self.payload_max {
                    let error = if chunks { ErrorNumber::Overflow } else { ErrorNumber::Invalid };
                    return Err(reject(error, "the read is too long"));
                }
                Command::Read { unfragmented: header.flags.contains(F::DF) || !chunks }
            }
            CommandType::Write => Command::Write { range: 0..0, fua },
            CommandType::Trim => Command::Trim { fua },
            CommandType::Cache => Command::Cache,
            CommandType::WriteZeroes => Command::WriteZeroes {
                fua,
                no_hole: header.flags.contains(F::NO_HOLE),
                fast: header.flags.contains(F::FAST_ZERO),
            },
            _ => self.status(header, header.length, self.contexts)?,
        }))
    }

    /// Returns the command and the effect length of a block status request with a payload. The payload
    /// consists of the effect length and the selected contexts ("`NBD_CMD_BLOCK_STATUS`" with extended
    /// headers). Duplicate and unknown contexts are errors.
    fn block_status(&self, header: &RequestHeader, body: &[u8]) -> Result<(Command, u64), Rejection> {
        let wrong = reject(
            ErrorNumber::Invalid,
            "the payload must be an effect length and distinct IDs of negotiated contexts",
        );
        let mut reader = Reader::new(body);
        let length = reader.u64().ok_or(wrong)?;
        let mut contexts = ContextSet::NONE;
        while let Some(id) = reader.u32() {
            let position = id as usize;
            if !self.contexts.contains(position) || contexts.contains(position) {
                return Err(wrong);
            }
            contexts.insert(position);
        }
        if !reader.rest().is_empty() || contexts.is_empty() {
            return Err(wrong);
        }
        self.range(header, length)?;
        Ok((self.status(header, length, contexts)?, length))
    }

    fn status(
        &self,
        header: &RequestHeader,
        length: u64,
        contexts: ContextSet,
    ) -> Result<Command, Rejection> {
        // Each extent has at least one byte, and with `NBD_CMD_FLAG_REQ_ONE` an extent is not longer than the
        // request. A length of zero contradicts these rules.
        if length == 0 {
            return Err(reject(ErrorNumber::Invalid, "a block status of length zero"));
        }
        Ok(Command::BlockStatus { one: header.flags.contains(CommandFlags::REQ_ONE), contexts })
    }

    /// Checks range and alignment ("Error values"). Beyond the end of the export, writes of data or zeroes
    /// get `NBD_ENOSPC` and other commands get `NBD_EINVAL`. Unaligned requests get `NBD_EINVAL`.
    #[inline]
    fn range(&self, header: &RequestHeader, length: u64) -> Result<(), Rejection> {
        if header.offset.checked_add(length).is_none_or(|end| end > self.export.size) {
            let space = matches!(header.command, CommandType::Write | CommandType::WriteZeroes);
            let error = if space { ErrorNumber::NoSpace } else { ErrorNumber::Invalid };
            return Err(reject(error, "beyond the end of the export"));
        }
        if self.export.block_minimum > 1
            && (header.offset | length) & u64::from(self.export.block_minimum - 1) != 0
        {
            return Err(reject(ErrorNumber::Invalid, "not aligned to whole blocks"));
        }
        Ok(())
    }
}

#[inline]
fn token(header: &RequestHeader) -> Token {
    Token { cookie: header.cookie, offset: header.offset }
}

/// Result of processing one request.
enum Step {
    /// A valid request for the owner, and the number of bytes consumed.
    Request { request: Request, count: usize },
    /// The request is complete: the number of bytes consumed.
    Done { count: usize },
    /// The request is rejected: the error, and the number of bytes of payload to drain.
    Rejected { rejection: Rejection, payload: u64 },
    /// The request has not arrived completely: the number of bytes needed.
    Need(usize),
    /// The session ends.
    Closed(Closed),
}
