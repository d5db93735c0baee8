//! What a client asks for during the handshake (proto.md, "Option types").

use super::number::numbers;
use super::{BadMagic, InfoType, OPTION_MAGIC, Reader, STRING_MAX};
use alloc::vec::Vec;
use core::fmt;

numbers! {
    /// Which option.
    OptionType: u32 {
        /// Choose an export; the answer cannot say no.
        ExportName = 1, "NBD_OPT_EXPORT_NAME";
        /// End the session.
        Abort = 2, "NBD_OPT_ABORT";
        /// Name the exports.
        List = 3, "NBD_OPT_LIST";
        /// Withdrawn.
        PeekExport = 4, "NBD_OPT_PEEK_EXPORT";
        /// Go on under TLS.
        StartTls = 5, "NBD_OPT_STARTTLS";
        /// Tell of an export.
        Info = 6, "NBD_OPT_INFO";
        /// Choose an export.
        Go = 7, "NBD_OPT_GO";
        /// Replies in chunks.
        StructuredReply = 8, "NBD_OPT_STRUCTURED_REPLY";
        /// Name the metadata contexts.
        ListMetaContext = 9, "NBD_OPT_LIST_META_CONTEXT";
        /// Choose metadata contexts.
        SetMetaContext = 10, "NBD_OPT_SET_META_CONTEXT";
        /// Requests and replies with 64-bit lengths.
        ExtendedHeaders = 11, "NBD_OPT_EXTENDED_HEADERS";
    }
}

/// What stands before the data of an option. 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// Which.
    pub option: OptionType,
    /// Bytes of data after the header.
    pub length: u32,
}

impl OptionHeader {
    /// Bytes.
    pub const LEN: usize = 16;

    /// The header at the beginning of `bytes`; `None` if that is not whole.
    pub fn parse(bytes: &[u8]) -> Option<Result<OptionHeader, BadMagic>> {
        let mut reader = Reader::new(bytes);
        let (magic, option, length) = (reader.u64()?, reader.u32()?, reader.u32()?);
        if magic != OPTION_MAGIC {
            return Some(Err(BadMagic { expected: OPTION_MAGIC, found: magic }));
        }
        Some(Ok(OptionHeader { option: OptionType::from_wire(option), length }))
    }

    /// Appends it.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        to.extend_from_slice(&self.option.to_wire().to_be_bytes());
        to.extend_from_slice(&self.length.to_be_bytes());
    }

    /// Appends an option with its data.
    ///
    /// # Panics
    /// If the data is longer than 32 bits can say.
    pub fn emit_with(option: OptionType, data: &[u8], to: &mut Vec<u8>) {
        let length = u32::try_from(data.len()).expect("an option's data is short");
        OptionHeader { option, length }.emit(to);
        to.extend_from_slice(data);
    }
}

/// Why the data of an option makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionError {
    /// It ends before what its lengths announce.
    Short,
    /// Something is left over after the end.
    Long {
        /// Bytes left over.
        extra: usize,
    },
    /// A string is longer than [`STRING_MAX`].
    StringTooLong {
        /// Its length.
        length: usize,
    },
    /// A string is not UTF-8, or has a NUL in it.
    NotText,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::Short => f.write_str("the data ends before what its lengths announce"),
            OptionError::Long { extra } => write!(f, "{extra} bytes are left over after the data"),
            OptionError::StringTooLong { length } => {
                write!(f, "a string of {length} bytes; at most {STRING_MAX} are allowed")
            }
            OptionError::NotText => f.write_str("a string is not UTF-8 text without NUL"),
        }
    }
}

impl core::error::Error for OptionError {}

/// The text of a string of the protocol ("Conventions": UTF-8, no NUL, at most 4096 bytes).
pub(crate) fn text(bytes: &[u8]) -> Result<&str, OptionError> {
    if bytes.len() > STRING_MAX {
        return Err(OptionError::StringTooLong { length: bytes.len() });
    }
    match core::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(OptionError::NotText),
    }
}

/// A string that its length precedes in 32 bits.
fn counted<'a>(reader: &mut Reader<'a>) -> Result<&'a str, OptionError> {
    let length = reader.u32().ok_or(OptionError::Short)?;
    text(reader.bytes(length as usize).ok_or(OptionError::Short)?)
}

fn emit_counted(string: &str, to: &mut Vec<u8>) {
    let length = u32::try_from(string.len()).expect("a string is short");
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(string.as_bytes());
}

fn end(reader: &Reader<'_>) -> Result<(), OptionError> {
    if reader.rest().is_empty() { Ok(()) } else { Err(OptionError::Long { extra: reader.rest().len() }) }
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportQuery<'a> {
    /// The export; empty for the default one.
    pub name: &'a str,
    requests: &'a [u8],
}

impl<'a> ExportQuery<'a> {
    /// The whole data of the option.
    pub fn parse(data: &'a [u8]) -> Result<ExportQuery<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let name = counted(&mut reader)?;
        let count = reader.u16().ok_or(OptionError::Short)?;
        let requests = reader.bytes(2 * usize::from(count)).ok_or(OptionError::Short)?;
        end(&reader)?;
        Ok(ExportQuery { name, requests })
    }

    /// What is asked for besides `NBD_INFO_EXPORT`.
    pub fn requests(&self) -> impl Iterator<Item = InfoType> + 'a {
        self.requests.as_chunks::<2>().0.iter().map(|pair| InfoType::from_wire(u16::from_be_bytes(*pair)))
    }

    /// Whether this is asked for.
    pub fn asks(&self, info: InfoType) -> bool {
        self.requests().any(|asked| asked == info)
    }

    /// Appends the data of such an option.
    ///
    /// # Panics
    /// If the name or the list is longer than its length field can say.
    pub fn emit(name: &str, requests: &[InfoType], to: &mut Vec<u8>) {
        emit_counted(name, to);
        to.extend_from_slice(&u16::try_from(requests.len()).expect("few kinds exist").to_be_bytes());
        for request in requests {
            to.extend_from_slice(&request.to_wire().to_be_bytes());
        }
    }
}

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextQuery<'a> {
    /// The export.
    pub name: &'a str,
    count: u32,
    queries: &'a [u8],
}

impl<'a> ContextQuery<'a> {
    /// The whole data of the option; every query is looked at.
    pub fn parse(data: &'a [u8]) -> Result<ContextQuery<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let name = counted(&mut reader)?;
        let count = reader.u32().ok_or(OptionError::Short)?;
        let queries = reader.rest();
        for _ in 0..count {
            counted(&mut reader)?;
        }
        end(&reader)?;
        Ok(ContextQuery { name, count, queries })
    }

    /// How many queries there are.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The queries in order.
    pub fn queries(&self) -> Queries<'a> {
        Queries { reader: Reader::new(self.queries) }
    }

    /// Appends the data of such an option.
    ///
    /// # Panics
    /// If a string or the list is longer than its length field can say.
    pub fn emit(name: &str, queries: &[&str], to: &mut Vec<u8>) {
        emit_counted(name, to);
        to.extend_from_slice(&u32::try_from(queries.len()).expect("few queries").to_be_bytes());
        for query in queries {
            emit_counted(query, to);
        }
    }
}

/// The queries of a [`ContextQuery`].
#[derive(Clone, Debug)]
pub struct Queries<'a> {
    reader: Reader<'a>,
}

impl<'a> Iterator for Queries<'a> {
    type Item = &'a str;
    fn next(&mut self) -> Option<&'a str> {
        counted(&mut self.reader).ok()
    }
}
