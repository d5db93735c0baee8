//! Requests (proto.md, "Request message" and "Request types"; the extended layout from the branch
//! extension-ext-header).

use super::number::numbers;
use super::{BadMagic, CommandFlags, EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, Reader};
use alloc::vec::Vec;

numbers! {
    /// What is asked for.
    CommandType: u16 {
        /// Bytes of the export.
        Read = 0, "NBD_CMD_READ";
        /// New bytes for the export.
        Write = 1, "NBD_CMD_WRITE";
        /// The end.
        Disconnect = 2, "NBD_CMD_DISC";
        /// Make durable what was answered.
        Flush = 3, "NBD_CMD_FLUSH";
        /// Not needed any more.
        Trim = 4, "NBD_CMD_TRIM";
        /// Will be needed soon.
        Cache = 5, "NBD_CMD_CACHE";
        /// Zeroes for the export.
        WriteZeroes = 6, "NBD_CMD_WRITE_ZEROES";
        /// What the metadata contexts say.
        BlockStatus = 7, "NBD_CMD_BLOCK_STATUS";
        /// Another size; an extension that is not spoken here.
        Resize = 8, "NBD_CMD_RESIZE";
    }
}

/// Which of the two headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestLayout {
    /// 28 bytes with a 32-bit length.
    Compact,
    /// 32 bytes with a 64-bit length.
    Extended,
}

impl RequestLayout {
    /// Bytes of the header.
    #[inline]
    pub const fn header_len(self) -> usize {
        match self {
            RequestLayout::Compact => 28,
            RequestLayout::Extended => 32,
        }
    }
}

/// What stands before the payload of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// How it is to be done.
    pub flags: CommandFlags,
    /// What is asked for.
    pub command: CommandType,
    /// The client's name for the request.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes, of the payload or of the range.
    pub length: u64,
}

impl RequestHeader {
    /// The header at the beginning of `bytes`; `None` if that is not whole.
    #[inline]
    pub fn parse(layout: RequestLayout, bytes: &[u8]) -> Option<Result<RequestHeader, BadMagic>> {
        let mut reader = Reader::new(bytes.get(..layout.header_len())?);
        let (found, flags, command) = (reader.u32()?, reader.u16()?, reader.u16()?);
        let (cookie, offset) = (reader.u64()?, reader.u64()?);
        let (expected, length) = match layout {
            RequestLayout::Compact => (REQUEST_MAGIC, u64::from(reader.u32()?)),
            RequestLayout::Extended => (EXTENDED_REQUEST_MAGIC, reader.u64()?),
        };
        if found != expected {
            return Some(Err(BadMagic { expected: expected.into(), found: found.into() }));
        }
        let (flags, command) = (CommandFlags(flags), CommandType::from_wire(command));
        Some(Ok(RequestHeader { flags, command, cookie, offset, length }))
    }

    /// Appends it.
    ///
    /// # Panics
    /// If a compact length needs more than 32 bits.
    #[inline]
    pub fn emit(&self, layout: RequestLayout, to: &mut Vec<u8>) {
        let mut bytes = [0; 32];
        let magic = match layout {
            RequestLayout::Compact => REQUEST_MAGIC,
            RequestLayout::Extended => EXTENDED_REQUEST_MAGIC,
        };
        bytes[..4].copy_from_slice(&magic.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.0.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_wire().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        match layout {
            RequestLayout::Compact => {
                let length = u32::try_from(self.length).expect("a compact request's length has 32 bits");
                bytes[24..28].copy_from_slice(&length.to_be_bytes());
            }
            RequestLayout::Extended => bytes[24..32].copy_from_slice(&self.length.to_be_bytes()),
        }
        to.extend_from_slice(&bytes[..layout.header_len()]);
    }

    /// Bytes that follow the header. Compact: a write's; extended: those of whatever says so.
    #[inline]
    pub fn payload(&self, layout: RequestLayout) -> u64 {
        let has = match layout {
            RequestLayout::Compact => self.command == CommandType::Write,
            RequestLayout::Extended => self.flags.has(CommandFlags::PAYLOAD_LEN),
        };
        if has { self.length } else { 0 }
    }
}

impl CommandType {
    /// Whether it changes the export.
    #[inline]
    pub const fn writes(self) -> bool {
        matches!(self, CommandType::Write | CommandType::Trim | CommandType::WriteZeroes)
    }
}
