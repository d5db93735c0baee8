//! Replies that a server sends to options during the handshake (proto.md, "Option reply types").

use super::number::numbers;
use super::option::{OptionError, OptionType, emit_string, read_string, text};
use super::{BadMagic, OPTION_REPLY_MAGIC, Reader, TransmissionFlags};
use alloc::vec::Vec;

numbers! {
    /// Type of an option reply. Types with bit 31 set are errors.
    OptionReplyType: u32 {
        /// The option is accepted and complete.
        Ack = 1, "NBD_REP_ACK";
        /// One export of a list.
        Server = 2, "NBD_REP_SERVER";
        /// One piece of information about an export.
        Info = 3, "NBD_REP_INFO";
        /// One metadata context.
        MetaContext = 4, "NBD_REP_META_CONTEXT";
        /// The server does not support the option.
        ErrUnsup = 0x8000_0001, "NBD_REP_ERR_UNSUP";
        /// The server's policy forbids the option.
        ErrPolicy = 0x8000_0002, "NBD_REP_ERR_POLICY";
        /// The option is invalid.
        ErrInvalid = 0x8000_0003, "NBD_REP_ERR_INVALID";
        /// The server's platform does not support the option.
        ErrPlatform = 0x8000_0004, "NBD_REP_ERR_PLATFORM";
        /// The option requires TLS.
        ErrTlsReqd = 0x8000_0005, "NBD_REP_ERR_TLS_REQD";
        /// The export does not exist.
        ErrUnknown = 0x8000_0006, "NBD_REP_ERR_UNKNOWN";
        /// The server is shutting down.
        ErrShutdown = 0x8000_0007, "NBD_REP_ERR_SHUTDOWN";
        /// The client has to request the block sizes first.
        ErrBlockSizeReqd = 0x8000_0008, "NBD_REP_ERR_BLOCK_SIZE_REQD";
        /// The option is too large to process.
        ErrTooBig = 0x8000_0009, "NBD_REP_ERR_TOO_BIG";
        /// The option requires extended headers.
        ErrExtHeaderReqd = 0x8000_000a, "NBD_REP_ERR_EXT_HEADER_REQD";
    }
}

impl OptionReplyType {
    /// Returns true if the reply is an error.
    pub fn is_error(self) -> bool {
        self.to_wire() & 0x8000_0000 != 0
    }
}

/// Header of an option reply. 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionReplyHeader {
    /// The option to which the server replies.
    pub option: OptionType,
    /// Type of the reply.
    pub reply: OptionReplyType,
    /// Length of the data after the header, in bytes.
    pub length: u32,
}

impl OptionReplyHeader {
    /// Length in bytes.
    pub const LEN: usize = 20;

    /// Parses the header at the beginning of `bytes`; `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<Result<OptionReplyHeader, BadMagic>> {
        let mut reader = Reader::new(bytes);
        let (magic, option, reply, length) = (reader.u64()?, reader.u32()?, reader.u32()?, reader.u32()?);
        if magic != OPTION_REPLY_MAGIC {
            return Some(Err(BadMagic { expected: OPTION_REPLY_MAGIC, found: magic }));
        }
        let (option, reply) = (OptionType::from_wire(option), OptionReplyType::from_wire(reply));
        Some(Ok(OptionReplyHeader { option, reply, length }))
    }

    /// Appends the header.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        to.extend_from_slice(&self.option.to_wire().to_be_bytes());
        to.extend_from_slice(&self.reply.to_wire().to_be_bytes());
        to.extend_from_slice(&self.length.to_be_bytes());
    }

    /// Appends a reply with its data.
    ///
    /// # Panics
    /// Panics if the length of the data needs more than 32 bits.
    pub fn emit_with(option: OptionType, reply: OptionReplyType, data: &[u8], to: &mut Vec<u8>) {
        let length = u32::try_from(data.len()).expect("an answer's data is short");
        OptionReplyHeader { option, reply, length }.emit(to);
        to.extend_from_slice(data);
    }
}

/// The data of `NBD_REP_SERVER`: one export of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportEntry<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// Human-readable description; may be empty.
    pub description: &'a str,
}

impl<'a> ExportEntry<'a> {
    /// Parses the whole data of the reply.
    pub fn parse(data: &'a [u8]) -> Result<ExportEntry<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let name = read_string(&mut reader)?;
        Ok(ExportEntry { name, description: text(reader.rest())? })
    }

    /// Appends the data.
    ///
    /// # Panics
    /// Panics if the length of the name needs more than 32 bits.
    pub fn emit(&self, to: &mut Vec<u8>) {
        emit_string(self.name, to);
        to.extend_from_slice(self.description.as_bytes());
    }
}

/// The data of `NBD_REP_META_CONTEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextEntry<'a> {
    /// ID of the context in replies; reserved in a list.
    pub id: u32,
    /// Name of the context.
    pub name: &'a str,
}

impl<'a> ContextEntry<'a> {
    /// Parses the whole data of the reply.
    pub fn parse(data: &'a [u8]) -> Result<ContextEntry<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let id = reader.u32().ok_or(OptionError::Short)?;
        Ok(ContextEntry { id, name: text(reader.rest())? })
    }

    /// Appends the data.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.id.to_be_bytes());
        to.extend_from_slice(self.name.as_bytes());
    }
}

numbers! {
    /// Type of information about an export.
    InfoType: u16 {
        /// Size and transmission flags.
        Export = 0, "NBD_INFO_EXPORT";
        /// Canonical name of the export.
        Name = 1, "NBD_INFO_NAME";
        /// Human-readable description.
        Description = 2, "NBD_INFO_DESCRIPTION";
        /// Minimum and preferred block size, and maximum payload size.
        BlockSize = 3, "NBD_INFO_BLOCK_SIZE";
    }
}

/// The data of `NBD_REP_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Info<'a> {
    /// Size and transmission flags, which a server always sends.
    Export {
        /// Size in bytes.
        size: u64,
        /// The transmission flags.
        flags: TransmissionFlags,
    },
    /// Canonical name of the export.
    Name(&'a str),
    /// Human-readable description.
    Description(&'a str),
    /// "Size constraints".
    BlockSize {
        /// Minimum block size in bytes.
        minimum: u32,
        /// Preferred block size in bytes.
        preferred: u32,
        /// Maximum payload size in bytes.
        payload_max: u32,
    },
    /// An unknown type of information, which a client ignores.
    Other(u16),
}

impl<'a> Info<'a> {
    /// Parses the whole data of the reply.
    pub fn parse(data: &'a [u8]) -> Result<Info<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let kind = InfoType::from_wire(reader.u16().ok_or(OptionError::Short)?);
        let rest = reader.rest();
        let exactly = |length| match rest.len() {
            n if n < length => Err(OptionError::Short),
            n if n > length => Err(OptionError::Long { extra: n - length }),
            _ => Ok(()),
        };
        let short = OptionError::Short;
        Ok(match kind {
            InfoType::Export => {
                exactly(10)?;
                let (size, flags) = (reader.u64().ok_or(short)?, reader.u16().ok_or(short)?);
                Info::Export { size, flags: TransmissionFlags(flags) }
            }
            InfoType::Name => Info::Name(text(rest)?),
            InfoType::Description => Info::Description(text(rest)?),
            InfoType::BlockSize => {
                exactly(12)?;
                Info::BlockSize {
                    minimum: reader.u32().ok_or(short)?,
                    preferred: reader.u32().ok_or(short)?,
                    payload_max: reader.u32().ok_or(short)?,
                }
            }
            InfoType::Other(number) => Info::Other(number),
        })
    }

    /// Appends the data.
    pub fn emit(&self, to: &mut Vec<u8>) {
        let mut kind = |kind: InfoType| to.extend_from_slice(&kind.to_wire().to_be_bytes());
        match *self {
            Info::Export { size, flags } => {
                kind(InfoType::Export);
                to.extend_from_slice(&size.to_be_bytes());
                to.extend_from_slice(&flags.0.to_be_bytes());
            }
            Info::Name(name) => {
                kind(InfoType::Name);
                to.extend_from_slice(name.as_bytes());
            }
            Info::Description(words) => {
                kind(InfoType::Description);
                to.extend_from_slice(words.as_bytes());
            }
            Info::BlockSize { minimum, preferred, payload_max } => {
                kind(InfoType::BlockSize);
                for size in [minimum, preferred, payload_max] {
                    to.extend_from_slice(&size.to_be_bytes());
                }
            }
            Info::Other(number) => kind(InfoType::Other(number)),
        }
    }
}
