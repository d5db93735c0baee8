//! What a server answers during the handshake (proto.md, "Option reply types").

use super::number::numbers;
use super::option::{OptionError, OptionType, text};
use super::{BadMagic, OPTION_REPLY_MAGIC, Reader, TransmissionFlags};
use alloc::vec::Vec;

numbers! {
    /// Which answer. Those with bit 31 set are errors.
    OptionReplyType: u32 {
        /// Done.
        Ack = 1, "NBD_REP_ACK";
        /// One export of a list.
        Server = 2, "NBD_REP_SERVER";
        /// One thing about an export.
        Info = 3, "NBD_REP_INFO";
        /// One metadata context.
        MetaContext = 4, "NBD_REP_META_CONTEXT";
        /// The option is not known.
        ErrUnsup = 0x8000_0001, "NBD_REP_ERR_UNSUP";
        /// The server does not want to.
        ErrPolicy = 0x8000_0002, "NBD_REP_ERR_POLICY";
        /// The option makes no sense.
        ErrInvalid = 0x8000_0003, "NBD_REP_ERR_INVALID";
        /// Not on this platform.
        ErrPlatform = 0x8000_0004, "NBD_REP_ERR_PLATFORM";
        /// Only under TLS.
        ErrTlsReqd = 0x8000_0005, "NBD_REP_ERR_TLS_REQD";
        /// No such export.
        ErrUnknown = 0x8000_0006, "NBD_REP_ERR_UNKNOWN";
        /// The server is going away.
        ErrShutdown = 0x8000_0007, "NBD_REP_ERR_SHUTDOWN";
        /// Only for who asks for the block sizes.
        ErrBlockSizeReqd = 0x8000_0008, "NBD_REP_ERR_BLOCK_SIZE_REQD";
        /// Too large to process.
        ErrTooBig = 0x8000_0009, "NBD_REP_ERR_TOO_BIG";
        /// Only with extended headers.
        ErrExtHeaderReqd = 0x8000_000a, "NBD_REP_ERR_EXT_HEADER_REQD";
    }
}

impl OptionReplyType {
    /// Whether it is an error.
    pub fn is_error(self) -> bool {
        self.to_wire() & 0x8000_0000 != 0
    }
}

/// What stands before the data of an answer. 20 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionReplyHeader {
    /// The option that is answered.
    pub option: OptionType,
    /// Which answer.
    pub reply: OptionReplyType,
    /// Bytes of data after the header.
    pub length: u32,
}

impl OptionReplyHeader {
    /// Bytes.
    pub const LEN: usize = 20;

    /// The header at the beginning of `bytes`; `None` if that is not whole.
    pub fn parse(bytes: &[u8]) -> Option<Result<OptionReplyHeader, BadMagic>> {
        let mut reader = Reader::new(bytes);
        let (magic, option, reply, length) = (reader.u64()?, reader.u32()?, reader.u32()?, reader.u32()?);
        if magic != OPTION_REPLY_MAGIC {
            return Some(Err(BadMagic { expected: OPTION_REPLY_MAGIC, found: magic }));
        }
        let (option, reply) = (OptionType::from_wire(option), OptionReplyType::from_wire(reply));
        Some(Ok(OptionReplyHeader { option, reply, length }))
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
        to.extend_from_slice(&self.option.to_wire().to_be_bytes());
        to.extend_from_slice(&self.reply.to_wire().to_be_bytes());
        to.extend_from_slice(&self.length.to_be_bytes());
    }

    /// Appends an answer with its data.
    ///
    /// # Panics
    /// If the data is longer than 32 bits can say.
    pub fn emit_with(option: OptionType, reply: OptionReplyType, data: &[u8], to: &mut Vec<u8>) {
        let length = u32::try_from(data.len()).expect("an answer's data is short");
        OptionReplyHeader { option, reply, length }.emit(to);
        to.extend_from_slice(data);
    }
}

/// The data of `NBD_REP_SERVER`: one export of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportEntry<'a> {
    /// Its name.
    pub name: &'a str,
    /// Words for a person; may be empty.
    pub description: &'a str,
}

impl<'a> ExportEntry<'a> {
    /// The whole data of the answer.
    pub fn parse(data: &'a [u8]) -> Result<ExportEntry<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let length = reader.u32().ok_or(OptionError::Short)?;
        let name = text(reader.bytes(length as usize).ok_or(OptionError::Short)?)?;
        Ok(ExportEntry { name, description: text(reader.rest())? })
    }

    /// Appends the data.
    ///
    /// # Panics
    /// If the name is longer than 32 bits can say.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&u32::try_from(self.name.len()).expect("a name is short").to_be_bytes());
        to.extend_from_slice(self.name.as_bytes());
        to.extend_from_slice(self.description.as_bytes());
    }
}

/// The data of `NBD_REP_META_CONTEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextEntry<'a> {
    /// The number that stands for the context in replies; means nothing in a list.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
}

impl<'a> ContextEntry<'a> {
    /// The whole data of the answer.
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
    /// What can be told of an export.
    InfoType: u16 {
        /// Size and flags.
        Export = 0, "NBD_INFO_EXPORT";
        /// The name that the server gives it.
        Name = 1, "NBD_INFO_NAME";
        /// Words for a person.
        Description = 2, "NBD_INFO_DESCRIPTION";
        /// Smallest and best block, largest payload.
        BlockSize = 3, "NBD_INFO_BLOCK_SIZE";
    }
}

/// The data of `NBD_REP_INFO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Info<'a> {
    /// Always told.
    Export {
        /// Bytes.
        size: u64,
        /// What it can do.
        flags: TransmissionFlags,
    },
    /// The name that the server gives it.
    Name(&'a str),
    /// Words for a person.
    Description(&'a str),
    /// "Size constraints".
    BlockSize {
        /// Smallest block, in bytes.
        minimum: u32,
        /// Best block, in bytes.
        preferred: u32,
        /// Largest payload, in bytes.
        payload_max: u32,
    },
    /// What this version of the protocol does not have; to be ignored.
    Other(u16),
}

impl<'a> Info<'a> {
    /// The whole data of the answer.
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
