//! The server's greeting, and the reply to `NBD_OPT_EXPORT_NAME`, the oldest option that ends the handshake
//! (proto.md, "Newstyle negotiation").

use super::{BadMagic, HandshakeFlags, INIT_MAGIC, OPTION_MAGIC, Reader, TransmissionFlags};
use alloc::vec::Vec;

/// The greeting of a newstyle server. 18 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Greeting {
    /// The handshake flags that the server offers.
    pub flags: HandshakeFlags,
}

impl Greeting {
    /// Length in bytes.
    pub const LEN: usize = 18;

    /// Parses the greeting at the beginning of `bytes`; `None` if there are fewer than [`Greeting::LEN`] bytes.
    pub fn parse(bytes: &[u8]) -> Option<Result<Greeting, BadMagic>> {
        let mut reader = Reader::new(bytes);
        let (init, option, flags) = (reader.u64()?, reader.u64()?, reader.u16()?);
        let found =
            |expected, found| if expected == found { Ok(()) } else { Err(BadMagic { expected, found }) };
        let magic = found(INIT_MAGIC, init).and_then(|()| found(OPTION_MAGIC, option));
        Some(magic.map(|()| Greeting { flags: HandshakeFlags(flags) }))
    }

    /// Appends the greeting.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&INIT_MAGIC.to_be_bytes());
        to.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        to.extend_from_slice(&self.flags.0.to_be_bytes());
    }
}

/// The reply to `NBD_OPT_EXPORT_NAME`. 10 bytes, or 134 with the reserved zeroes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportNameReply {
    /// Size of the export in bytes.
    pub size: u64,
    /// The transmission flags.
    pub flags: TransmissionFlags,
}

impl ExportNameReply {
    /// Returns the length of the reply in bytes, with or without the reserved zeroes.
    pub const fn len(zeroes: bool) -> usize {
        if zeroes { 134 } else { 10 }
    }

    /// Parses the reply at the beginning of `bytes`; `None` if it is incomplete. Ignores the contents of the reserved
    /// bytes.
    pub fn parse(bytes: &[u8], zeroes: bool) -> Option<ExportNameReply> {
        let mut reader = Reader::new(bytes.get(..ExportNameReply::len(zeroes))?);
        Some(ExportNameReply { size: reader.u64()?, flags: TransmissionFlags(reader.u16()?) })
    }

    /// Appends the reply.
    pub fn emit(&self, zeroes: bool, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.size.to_be_bytes());
        to.extend_from_slice(&self.flags.0.to_be_bytes());
        to.resize(to.len() + ExportNameReply::len(zeroes) - ExportNameReply::len(false), 0);
    }
}
