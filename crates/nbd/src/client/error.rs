//! Errors that end a client's session ([`ClientError`]) and errors that reject a request before it is sent
//! ([`RequestError`]).

use crate::wire::{
    BadMagic, ChunkError, ChunkType, CommandFlags, CommandType, OptionError, OptionReplyType, OptionType,
};
use alloc::string::String;
use core::fmt;

/// Reason why a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientError {
    /// The handshake ended without an error: the server replied to `NBD_OPT_ABORT`, which the client sends
    /// once it has the requested information, or to disconnect.
    Closed,
    /// The bytes do not belong to the NBD protocol.
    Magic(BadMagic),
    /// The server does not reply to options (no fixed newstyle), so the client cannot request
    /// [`ClientConfig::goal`](super::ClientConfig::goal) or TLS.
    NotFixedNewstyle,
    /// The server rejected an option with an error reply.
    Rejected {
        /// The rejected option.
        option: OptionType,
        /// Type of the error reply.
        reply: OptionReplyType,
        /// The server's message.
        message: String,
    },
    /// The server replied to an option that was not in flight, or with a reply type that the option does not have.
    UnexpectedReply {
        /// The option that the client sent.
        option: OptionType,
        /// The option that the reply names.
        reply_to: OptionType,
        /// Type of the reply.
        reply: OptionReplyType,
    },
    /// The data of an option reply is malformed.
    MalformedReply {
        /// The option that the client sent.
        option: OptionType,
        /// Type of the reply.
        reply: OptionReplyType,
        /// The error in the data.
        error: OptionError,
    },
    /// The replies to an option exceed [`OPTION_REPLY_DATA_MAX`](super::OPTION_REPLY_DATA_MAX),
    /// [`OPTION_REPLIES_MAX`](super::OPTION_REPLIES_MAX) or the client's maximum number of metadata contexts.
    ReplyTooLong {
        /// The option that the client sent.
        option: OptionType,
    },
    /// The server acknowledged `NBD_OPT_GO` or `NBD_OPT_INFO` without an `NBD_INFO_EXPORT` reply.
    NoExportInfo,
    /// The server advertises a minimum block size that is not a power of two up to 65536.
    InvalidBlockSize(u32),
    /// The cookie of a reply matches no request in flight.
    UnknownCookie(u64),
    /// A simple reply to a read, although structured replies were negotiated.
    SimpleReply(CommandType),
    /// The offset of an extended reply differs from the offset of its request.
    OffsetMismatch {
        /// Offset of the request.
        expected: u64,
        /// Offset of the reply.
        found: u64,
    },
    /// A chunk type that cannot be part of the reply to this command.
    UnexpectedChunk {
        /// Type of the chunk.
        kind: ChunkType,
        /// Command of the request.
        command: CommandType,
    },
    /// A malformed chunk.
    MalformedChunk(ChunkError),
    /// A piece of a read reply that is empty, lies outside the request, or overlaps an earlier piece; or an
    /// error at an offset outside the request, with length 0.
    InvalidRange {
        /// Offset of the piece in the export, in bytes.
        offset: u64,
        /// Length of the piece in bytes.
        length: u64,
    },
    /// Too many pieces in a read reply: a second content chunk although the request had `NBD_CMD_FLAG_DF`, or more
    /// disjoint pieces than the client tracks.
    TooManyFragments,
    /// A reply that ended before it covered the whole request.
    Incomplete(CommandType),
    /// A metadata context that was not negotiated, that the server assigned twice, or that the server
    /// reported twice in one reply.
    InvalidContext(u32),
    /// An extent is empty or begins beyond the end of the request, or the extents exceed the number or the length that
    /// the request allows.
    InvalidExtents,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Closed => f.write_str("the session is over"),
            ClientError::Magic(magic) => write!(f, "not an NBD server: {magic}"),
            ClientError::NotFixedNewstyle => {
                f.write_str("the server is too old: it does not support the fixed newstyle handshake")
            }
            ClientError::Rejected { option, reply, message } if message.is_empty() => {
                write!(f, "the server rejected {option} with {reply}")
            }
            ClientError::Rejected { option, reply, message } => {
                write!(f, "the server rejected {option} with {reply}: {message}")
            }
            ClientError::UnexpectedReply { option, reply_to, reply } => {
                write!(f, "the server replied {reply} to {reply_to}, but the option in flight is {option}")
            }
            ClientError::MalformedReply { option, reply, error } => {
                write!(f, "the server's reply {reply} to {option} is malformed: {error}")
            }
            ClientError::ReplyTooLong { option } => {
                write!(f, "the server's replies to {option} are too long")
            }
            ClientError::NoExportInfo => f.write_str("the server did not send the size of the export"),
            ClientError::InvalidBlockSize(size) => {
                write!(f, "the minimum block size of {size} bytes is invalid")
            }
            ClientError::UnknownCookie(cookie) => write!(f, "a reply to {cookie:#x}, which is not in flight"),
            ClientError::SimpleReply(command) => {
                write!(f, "a simple reply to {command}, although structured replies were negotiated")
            }
            ClientError::OffsetMismatch { expected, found } => {
                write!(f, "a reply with offset {found} to a request with offset {expected}")
            }
            ClientError::UnexpectedChunk { kind, command } => {
                write!(f, "an unexpected chunk {kind} in a reply to {command}")
            }
            ClientError::MalformedChunk(error) => error.fmt(f),
            ClientError::InvalidRange { offset, length } => {
                write!(f, "{length} bytes at {offset} are outside the request, or were sent already")
            }
            ClientError::TooManyFragments => f.write_str("a reply in too many pieces"),
            ClientError::Incomplete(command) => {
                write!(f, "the reply to {command} is incomplete")
            }
            ClientError::InvalidContext(id) => {
                write!(f, "metadata context {id} was not negotiated, or was sent twice")
            }
            ClientError::InvalidExtents => f.write_str("the extents do not fit the request"),
        }
    }
}

impl core::error::Error for ClientError {}

/// Reason why a request was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// The handshake is not complete, the client has disconnected, or the session has ended.
    NotReady,
    /// The export does not support this command, or the selected metadata contexts were not negotiated.
    NotOffered(CommandType),
    /// The export does not support these flags for this command.
    Flags(CommandFlags),
    /// The request extends beyond the end of the export.
    Range,
    /// The request is a flush with an offset or a length.
    FlushWithRange,
    /// The request is not aligned to whole blocks.
    Blocks,
    /// The request has length zero. The specification leaves the server's behaviour open.
    Empty,
    /// A read or write is longer than the maximum payload size, or a request is longer than its header can
    /// express.
    TooLong,
    /// Too many requests are in flight.
    TooMany,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::NotReady => f.write_str("the session accepts no requests now"),
            RequestError::NotOffered(command) => write!(f, "the server does not offer {command}"),
            RequestError::Flags(flags) => {
                write!(f, "the server does not offer the flags {:#x} here", flags.0)
            }
            RequestError::Range => f.write_str("the request extends beyond the end of the export"),
            RequestError::FlushWithRange => f.write_str("the offset and the length of a flush must be zero"),
            RequestError::Blocks => f.write_str("the request is not aligned to whole blocks"),
            RequestError::Empty => f.write_str("the request has length zero"),
            RequestError::TooLong => f.write_str("the request is too long"),
            RequestError::TooMany => f.write_str("too many requests are in flight"),
        }
    }
}

impl core::error::Error for RequestError {}
