//! Layout and meaning of the protocol's messages (proto.md, "Values" and the preceding sections with message
//! layouts).
//!
//! Most files contain one kind of message. The function `parse` of a message never panics, and reports
//! missing or invalid bytes. The function `emit` appends exactly the message. All numbers are in network byte
//! order. This module is stateless: the session machines define the order of the messages.

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

/// Maximum length of a string in bytes (proto.md, "Conventions").
pub const STRING_MAX: usize = 4096;

/// `NBDMAGIC`, the first bytes that every server sends (`INIT_PASSWD`).
pub const INIT_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// `IHAVEOPT`, which marks a newstyle server and precedes every option of a client.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Magic number of an option reply.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic number of a compact request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic number of an extended request.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// Magic number of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic number of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;
/// Magic number of an extended reply chunk.
pub const EXTENDED_REPLY_MAGIC: u32 = 0x6e8a_278c;

/// A wrong magic number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMagic {
    /// The expected number.
    pub expected: u64,
    /// The received number.
    pub found: u64,
}

impl core::fmt::Display for BadMagic {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:#x} instead of the magic number {:#x}", self.found, self.expected)
    }
}

impl core::error::Error for BadMagic {}
