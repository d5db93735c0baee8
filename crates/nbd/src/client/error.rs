//! Why a session came to nothing, or a request was not sent.

use crate::wire::{
    BadMagic, ChunkError, ChunkType, CommandFlags, CommandType, OptionError, OptionReplyType, OptionType,
};
use alloc::string::String;
use core::fmt;

/// Why a session ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ClientError {
    /// Nothing is wrong: what was wanted has been told, or the client disconnected.
    Ended,
    /// The bytes are not of this protocol.
    Magic(BadMagic),
    /// The server does not answer options, so what was wanted cannot be asked for.
    NotFixedNewstyle,
    /// The server said no.
    Refused {
        /// To what.
        option: OptionType,
        /// Which error.
        reply: OptionReplyType,
        /// Its words.
        message: String,
    },
    /// The server answered something else than what was asked, or in another way than one can.
    Answer {
        /// What was asked.
        asked: OptionType,
        /// What was answered.
        answered: OptionType,
        /// How.
        reply: OptionReplyType,
    },
    /// The data of an answer makes no sense.
    Data {
        /// What was asked.
        option: OptionType,
        /// How it was answered.
        reply: OptionReplyType,
        /// What is wrong with it.
        error: OptionError,
    },
    /// The server tells more than is listened to.
    TooMuch {
        /// What was asked.
        option: OptionType,
    },
    /// `NBD_OPT_GO` was granted without a word on the export.
    NoExportInfo,
    /// A smallest block that is not a power of two up to 65536.
    BlockSize(u32),
    /// An answer to a request that was not sent, or was answered already.
    Cookie(u64),
    /// A simple reply where structured ones were agreed on and the answer has data.
    SimpleReply(CommandType),
    /// The offset of an extended reply is not that of its request.
    Offset {
        /// The request's.
        expected: u64,
        /// The reply's.
        found: u64,
    },
    /// A chunk that cannot be part of the answer.
    Unexpected {
        /// Which.
        kind: ChunkType,
        /// To what.
        command: CommandType,
    },
    /// A chunk that makes no sense.
    Chunk(ChunkError),
    /// A piece of a read that is not within the request, or was sent already.
    Piece {
        /// Its first byte.
        offset: u64,
        /// Its length in bytes.
        length: u64,
    },
    /// An answer in more pieces than it was to have: two of a read that was not to be fragmented, or so many that they
    /// cannot be followed.
    Fragments,
    /// An answer that ended before all of it was told.
    Incomplete(CommandType),
    /// A metadata context that was not agreed on, or was told twice.
    Context(u32),
    /// Extents that go on when all was told, or are empty, or are more or longer than was asked for.
    Extents,
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Ended => f.write_str("the session is over"),
            ClientError::Magic(magic) => write!(f, "not an NBD server: {magic}"),
            ClientError::NotFixedNewstyle => f.write_str("the server is too old: it does not answer options"),
            ClientError::Refused { option, reply, message } if message.is_empty() => {
                write!(f, "the server refused {option} with {reply}")
            }
            ClientError::Refused { option, reply, message } => {
                write!(f, "the server refused {option} with {reply}: {message}")
            }
            ClientError::Answer { asked, answered, reply } => {
                write!(f, "the server answered {answered} with {reply} when {asked} was asked")
            }
            ClientError::Data { option, reply, error } => {
                write!(f, "the server's answer {reply} to {option} makes no sense: {error}")
            }
            ClientError::TooMuch { option } => write!(f, "the server's answer to {option} is too long"),
            ClientError::NoExportInfo => f.write_str("the server did not tell the size of the export"),
            ClientError::BlockSize(size) => write!(f, "the server wants blocks of {size} bytes"),
            ClientError::Cookie(cookie) => write!(f, "an answer to {cookie:#x}, which is not in flight"),
            ClientError::SimpleReply(command) => {
                write!(f, "a simple reply to {command} where chunks were agreed on")
            }
            ClientError::Offset { expected, found } => {
                write!(f, "an answer for offset {found} to a request for offset {expected}")
            }
            ClientError::Unexpected { kind, command } => {
                write!(f, "a chunk {kind} in an answer to {command}")
            }
            ClientError::Chunk(error) => error.fmt(f),
            ClientError::Piece { offset, length } => {
                write!(f, "{length} bytes at {offset} that were not asked for, or were sent already")
            }
            ClientError::Fragments => f.write_str("an answer in too many pieces"),
            ClientError::Incomplete(command) => {
                write!(f, "the answer to {command} ended before all was told")
            }
            ClientError::Context(id) => {
                write!(f, "metadata context {id} was not agreed on, or was told twice")
            }
            ClientError::Extents => f.write_str("extents that do not fit what was asked"),
        }
    }
}

impl core::error::Error for ClientError {}

/// Why a request was not sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestError {
    /// The handshake is not done, or the session is over.
    NotReady,
    /// The server did not offer this command.
    NotOffered(CommandType),
    /// The server did not offer these flags for this command.
    Flags(CommandFlags),
    /// It lies beyond the end of the export.
    Range,
    /// It is not of whole blocks.
    Blocks,
    /// It is empty; what a server does with that is not specified.
    Empty,
    /// It is longer than what can be asked for at once.
    TooLong,
    /// Too many are in flight.
    TooMany,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::NotReady => f.write_str("the session takes no requests now"),
            RequestError::NotOffered(command) => write!(f, "the server does not offer {command}"),
            RequestError::Flags(flags) => {
                write!(f, "the server does not offer the flags {:#x} here", flags.0)
            }
            RequestError::Range => f.write_str("the request lies beyond the end of the export"),
            RequestError::Blocks => f.write_str("the request is not of whole blocks"),
            RequestError::Empty => f.write_str("the request is for no bytes"),
            RequestError::TooLong => f.write_str("the request is too long"),
            RequestError::TooMany => f.write_str("too many requests are in flight"),
        }
    }
}

impl core::error::Error for RequestError {}
