//! Options that a client sends during the handshake (proto.md, "Option types").

use super::number::numbers;
use super::{BadMagic, InfoType, OPTION_MAGIC, Reader, STRING_MAX};
use alloc::vec::Vec;
use core::fmt;

numbers! {
    /// Type of an option.
    OptionType: u32 {
        /// Selects an export. The reply cannot report an error.
        ExportName = 1, "NBD_OPT_EXPORT_NAME";
        /// Ends the session.
        Abort = 2, "NBD_OPT_ABORT";
        /// Lists the exports.
        List = 3, "NBD_OPT_LIST";
        /// Withdrawn from the specification.
        PeekExport = 4, "NBD_OPT_PEEK_EXPORT";
        /// Starts TLS.
        StartTls = 5, "NBD_OPT_STARTTLS";
        /// Queries the description of an export.
        Info = 6, "NBD_OPT_INFO";
        /// Selects an export.
        Go = 7, "NBD_OPT_GO";
        /// Enables structured replies.
        StructuredReply = 8, "NBD_OPT_STRUCTURED_REPLY";
        /// Lists the metadata contexts.
        ListMetaContext = 9, "NBD_OPT_LIST_META_CONTEXT";
        /// Selects metadata contexts.
        SetMetaContext = 10, "NBD_OPT_SET_META_CONTEXT";
        /// Enables extended headers: requests and replies with 64-bit lengths.
        ExtendedHeaders = 11, "NBD_OPT_EXTENDED_HEADERS";
    }
}

/// Header of an option. 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionHeader {
    /// Type of the option.
    pub option: OptionType,
    /// Length of the data after the header, in bytes.
    pub length: u32,
}

impl OptionHeader {
    /// Length in bytes.
    pub const LEN: usize = 16;

    /// Parses the header at the beginning of `bytes`; `None` if it is incomplete.
    pub fn parse(bytes: &[u8]) -> Option<Result<OptionHeader, BadMagic>> {
        let mut reader = Reader::new(bytes);
        let (magic, option, length) = (reader.u64()?, reader.u32()?, reader.u32()?);
        if magic != OPTION_MAGIC {
            return Some(Err(BadMagic { expected: OPTION_MAGIC, found: magic }));
        }
        Some(Ok(OptionHeader { option: OptionType::from_wire(option), length }))
    }

    /// Appends the header.
    pub fn emit(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        to.extend_from_slice(&self.option.to_wire().to_be_bytes());
        to.extend_from_slice(&self.length.to_be_bytes());
    }

    /// Appends an option with its data.
    ///
    /// # Panics
    /// Panics if the length of the data needs more than 32 bits.
    pub fn emit_with(option: OptionType, data: &[u8], to: &mut Vec<u8>) {
        let length = u32::try_from(data.len()).expect("an option's data is short");
        OptionHeader { option, length }.emit(to);
        to.extend_from_slice(data);
    }
}

/// Error in the data of an option or of an option reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionError {
    /// The data is shorter than its length fields require.
    Short,
    /// The data is longer than its length fields require.
    Long {
        /// Number of excess bytes.
        extra: usize,
    },
    /// A string is longer than [`STRING_MAX`].
    StringTooLong {
        /// Length of the string in bytes.
        length: usize,
    },
    /// A string that is not UTF-8, or that contains a NUL.
    NotText,
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionError::Short => f.write_str("the data is shorter than its length fields require"),
            OptionError::Long { extra } => write!(f, "the data is {extra} bytes too long"),
            OptionError::StringTooLong { length } => {
                write!(f, "a string of {length} bytes; at most {STRING_MAX} are allowed")
            }
            OptionError::NotText => f.write_str("a string is not UTF-8, or contains a NUL"),
        }
    }
}

impl core::error::Error for OptionError {}

/// Decodes a string of the protocol ("Conventions": UTF-8, no NUL, at most 4096 bytes).
pub(crate) fn text(bytes: &[u8]) -> Result<&str, OptionError> {
    if bytes.len() > STRING_MAX {
        return Err(OptionError::StringTooLong { length: bytes.len() });
    }
    match core::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(OptionError::NotText),
    }
}

/// Reads a string with a 32-bit length prefix.
pub(super) fn read_string<'a>(reader: &mut Reader<'a>) -> Result<&'a str, OptionError> {
    let length = reader.u32().ok_or(OptionError::Short)?;
    text(reader.bytes(length as usize).ok_or(OptionError::Short)?)
}

/// Appends a string with a 32-bit length prefix.
///
/// # Panics
/// Panics if the length needs more than 32 bits.
pub(super) fn emit_string(string: &str, to: &mut Vec<u8>) {
    let length = u32::try_from(string.len()).expect("a string is short");
    to.extend_from_slice(&length.to_be_bytes());
    to.extend_from_slice(string.as_bytes());
}

fn expect_end(reader: &Reader<'_>) -> Result<(), OptionError> {
    if reader.rest().is_empty() { Ok(()) } else { Err(OptionError::Long { extra: reader.rest().len() }) }
}

/// The data of `NBD_OPT_INFO` and `NBD_OPT_GO`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExportQuery<'a> {
    /// Name of the export; empty for the default export.
    pub name: &'a str,
    requests: &'a [u8],
}

impl<'a> ExportQuery<'a> {
    /// Parses the whole data of the option.
    pub fn parse(data: &'a [u8]) -> Result<ExportQuery<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let name = read_string(&mut reader)?;
        let count = reader.u16().ok_or(OptionError::Short)?;
        let requests = reader.bytes(2 * usize::from(count)).ok_or(OptionError::Short)?;
        expect_end(&reader)?;
        Ok(ExportQuery { name, requests })
    }

    /// Returns the requested information types. A server sends `NBD_INFO_EXPORT` even without a request.
    pub fn requests(&self) -> impl Iterator<Item = InfoType> + 'a {
        self.requests.as_chunks::<2>().0.iter().map(|pair| InfoType::from_wire(u16::from_be_bytes(*pair)))
    }

    /// Returns true if the client requests `info`.
    pub fn is_requested(&self, info: InfoType) -> bool {
        self.requests().any(|requested| requested == info)
    }

    /// Appends the data of an `NBD_OPT_INFO` or `NBD_OPT_GO`.
    ///
    /// # Panics
    /// Panics if the length of the name or the number of requests exceeds its length field.
    pub fn emit(name: &str, requests: &[InfoType], to: &mut Vec<u8>) {
        emit_string(name, to);
        to.extend_from_slice(
            &u16::try_from(requests.len()).expect("the kinds of information fit 16 bits").to_be_bytes(),
        );
        for request in requests {
            to.extend_from_slice(&request.to_wire().to_be_bytes());
        }
    }
}

/// The data of `NBD_OPT_LIST_META_CONTEXT` and `NBD_OPT_SET_META_CONTEXT`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ContextQuery<'a> {
    /// Name of the export.
    pub name: &'a str,
    count: u32,
    queries: &'a [u8],
}

impl<'a> ContextQuery<'a> {
    /// Parses the whole data of the option, including every query.
    pub fn parse(data: &'a [u8]) -> Result<ContextQuery<'a>, OptionError> {
        let mut reader = Reader::new(data);
        let name = read_string(&mut reader)?;
        let count = reader.u32().ok_or(OptionError::Short)?;
        let queries = reader.rest();
        for _ in 0..count {
            read_string(&mut reader)?;
        }
        expect_end(&reader)?;
        Ok(ContextQuery { name, count, queries })
    }

    /// Returns the number of queries.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if there are no queries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the queries in order.
    pub fn queries(&self) -> Queries<'a> {
        Queries { reader: Reader::new(self.queries) }
    }

    /// Appends the data of an `NBD_OPT_LIST_META_CONTEXT` or `NBD_OPT_SET_META_CONTEXT`.
    ///
    /// # Panics
    /// Panics if the length of a string or the number of queries exceeds its length field.
    pub fn emit(name: &str, queries: &[&str], to: &mut Vec<u8>) {
        emit_string(name, to);
        to.extend_from_slice(
            &u32::try_from(queries.len()).expect("the number of queries fits 32 bits").to_be_bytes(),
        );
        for query in queries {
            emit_string(query, to);
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
        read_string(&mut self.reader).ok()
    }
}
