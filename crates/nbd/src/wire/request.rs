//! Requests (proto.md, "Request message" and "Request types"; the extended layout from the branch
//! extension-ext-header).

use super::number::numbers;
use super::{BadMagic, CommandFlags, EXTENDED_REQUEST_MAGIC, REQUEST_MAGIC, Reader};
use alloc::vec::Vec;

numbers! {
    /// Type of a request.
    CommandType: u16 {
        /// Reads data.
        Read = 0, "NBD_CMD_READ";
        /// Writes data.
        Write = 1, "NBD_CMD_WRITE";
        /// Ends the session.
        Disconnect = 2, "NBD_CMD_DISC";
        /// Makes all completed writes durable.
        Flush = 3, "NBD_CMD_FLUSH";
        /// Discards a range that the client no longer needs.
        Trim = 4, "NBD_CMD_TRIM";
        /// Announces that the client will read a range soon.
        Cache = 5, "NBD_CMD_CACHE";
        /// Fills a range with zeroes.
        WriteZeroes = 6, "NBD_CMD_WRITE_ZEROES";
        /// Queries the metadata contexts of a range.
        BlockStatus = 7, "NBD_CMD_BLOCK_STATUS";
        /// Changes the size of the export, an extension that this crate does not implement.
        Resize = 8, "NBD_CMD_RESIZE";
    }
}

/// Layout of request headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestLayout {
    /// 28 bytes with a 32-bit length.
    Compact,
    /// 32 bytes with a 64-bit length.
    Extended,
}

impl RequestLayout {
    /// Returns the length of the header in bytes.
    #[inline]
    pub const fn header_len(self) -> usize {
        match self {
            RequestLayout::Compact => 28,
            RequestLayout::Extended => 32,
        }
    }
}

/// Header of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestHeader {
    /// The command flags.
    pub flags: CommandFlags,
    /// The command.
    pub command: CommandType,
    /// Cookie with which the client identifies the request.
    pub cookie: u64,
    /// Offset of the first byte in the export.
    pub offset: u64,
    /// Length in bytes of the range, or of the payload if [`CommandFlags::PAYLOAD_LEN`] is set.
    pub length: u64,
}

impl RequestHeader {
    /// Parses the header at the beginning of `bytes`; `None` if it is incomplete.
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

    /// Appends the header.
    ///
    /// # Panics
    /// Panics if the length of a compact request needs more than 32 bits.
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

    /// Returns the length of the payload in bytes. With compact headers only writes have a payload. With extended
    /// headers a request has a payload if [`CommandFlags::PAYLOAD_LEN`] is set.
    #[inline]
    pub fn payload(&self, layout: RequestLayout) -> u64 {
        let has = match layout {
            RequestLayout::Compact => self.command == CommandType::Write,
            RequestLayout::Extended => self.flags.contains(CommandFlags::PAYLOAD_LEN),
        };
        if has { self.length } else { 0 }
    }
}

impl CommandType {
    /// Returns true if the command changes the export.
    #[inline]
    pub const fn is_write(self) -> bool {
        matches!(self, CommandType::Write | CommandType::Trim | CommandType::WriteZeroes)
    }
}
