//! The messages of the protocol as bytes and as meanings (proto.md, "Values" and the message layouts before it).
//!
//! Each file is one noun: a type with `parse` (never panics; says what is missing or wrong) and `emit` (appends exactly
//! the message). All numbers are in network byte order. Nothing here remembers anything: what may follow what is the
//! sessions' business.

mod chunk;
mod error;
mod flags;
mod greeting;
mod number;
mod option;
mod option_reply;
mod read;
mod reply;
mod request;

pub use chunk::{BlockDescriptor, ChunkError, ChunkType, Descriptors, ErrorChunk, OffsetHole};
pub use error::ErrorNumber;
pub use flags::{ClientFlags, CommandFlags, HandshakeFlags, ReplyFlags, TransmissionFlags};
pub use greeting::{ExportNameReply, Greeting};
pub use option::{ContextQuery, ExportQuery, OptionError, OptionHeader, OptionType, Queries};
pub use option_reply::{ContextEntry, ExportEntry, Info, InfoType, OptionReplyHeader, OptionReplyType};
pub use read::Reader;
pub use reply::{ChunkHeader, ChunkLayout, SimpleReply};
pub use request::{CommandType, RequestHeader, RequestLayout};

/// A string is at most this long (proto.md, "Conventions").
pub const STRING_MAX: usize = 4096;

/// `NBDMAGIC`, the first bytes of every server (`INIT_PASSWD`).
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`: a newstyle server, and before every option of a client.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Before every reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Before a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Before an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Before a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Before a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Before an extended reply chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// What was at a place where a magic number should have been.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMagic {
    /// The number that should be there.
    pub expected: u64,
    /// The number that is.
    pub found: u64,
}

impl core::fmt::Display for BadMagic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x} where the magic number {:#x} should be", self.found, self.expected)
    }
}

impl core::error::Error for BadMagic {}
