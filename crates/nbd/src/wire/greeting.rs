//! The first bytes of a session, and the oldest way to end the handshake (proto.md, "Newstyle negotiation").

use super::{BadMagic, HandshakeFlags, INIT_MAGIC, OPTION_MAGIC, Reader, TransmissionFlags};
use alloc::vec::Vec;

/// What a newstyle server says first. 18 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// What it offers.
    pub flags: HandshakeFlags,
}

impl Greeting {
    /// Bytes.
    pub const LEN: usize = 18;

    /// The greeting at the beginning of `bytes`, of which there are at least [`Greeting::LEN`]; `None` if not.
    pub fn parse(bytes: &[u8]) -> Option<Result<Greeting, BadMagic>> {
        let mut reader = Reader::new(bytes);
        let (init, option, flags) = (reader.u64()?, reader.u64()?, reader.u16()?);
        let found =
            |expected, found| if expected == found { Ok(()) } else { Err(BadMagic { expected, found }) };
        let magic = found(INIT_MAGIC, init).and_then(|()| found(OPTION_MAGIC, option));
        Some(magic.map(|()| Greeting { flags: HandshakeFlags(flags) }))
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&INIT_MAGIC.to_be_bytes());
        to.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        to.extend_from_slice(&self.flags.0.to_be_bytes());
    }
}

/// What a server answers to `NBD_OPT_EXPORT_NAME`. 10 bytes, or 134 with the reserved zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportNameReply {
    /// Of the export, in bytes.
    pub size: u64,
    /// What it can do.
    pub flags: TransmissionFlags,
}

impl ExportNameReply {
    /// Bytes of it, with the reserved zeroes or without.
    pub const fn len(zeroes: bool) -> usize {
        if zeroes { 134 } else { 10 }
    }

    /// The reply at the beginning of `bytes`; `None` if that is not whole. What the reserved bytes hold is ignored.
    pub fn parse(bytes: &[u8], zeroes: bool) -> Option<ExportNameReply> {
        let mut reader = Reader::new(bytes.get(..ExportNameReply::len(zeroes))?);
        Some(ExportNameReply { size: reader.u64()?, flags: TransmissionFlags(reader.u16()?) })
    }

    /// Appends it.
    pub fn emit(&self, zeroes: bool, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.size.to_be_bytes());
        to.extend_from_slice(&self.flags.0.to_be_bytes());
        to.resize(to.len() + ExportNameReply::len(zeroes) - ExportNameReply::len(false), 0);
    }
}
