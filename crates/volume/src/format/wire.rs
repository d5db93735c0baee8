//! Little-endian fields, the magic number and the checksum of a structure, and the faults of bytes that are
//! no valid structure.

use crate::keys::KeyError;
use std::fmt;

/// The reason why bytes are not the expected structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The bytes begin with another magic number.
    Magic,
    /// The format has this version, which this program does not know.
    Version(u32),
    /// The checksum does not agree with the bytes.
    Checksum,
    /// The authentication tag does not agree with the bytes, or the bytes are not encrypted.
    NotAuthentic,
    /// The wrapped key cannot be used.
    Key(KeyError),
    /// The structure belongs to another volume.
    Volume,
    /// The bytes end within a field or before the end of the structure.
    Short,
    /// The field has a value that no volume has.
    Field(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Magic => f.write_str("no magic number"),
            Fault::Version(version) => {
                write!(
                    f,
                    "format version {version}, which this program cannot read: it knows version {}; ",
                    super::VERSION
                )?;
                f.write_str("the program that wrote the volume can still copy its contents elsewhere")
            }
            Fault::Checksum => f.write_str("checksum mismatch"),
            Fault::NotAuthentic => f.write_str("authentication tag mismatch"),
            Fault::Key(error) => error.fmt(f),
            Fault::Volume => f.write_str("belongs to another volume"),
            Fault::Short => f.write_str("ends within a field"),
            Fault::Field(name) => write!(f, "impossible value of {name}"),
        }
    }
}

impl std::error::Error for Fault {}

/// Appends fields to a buffer.
pub(super) trait Put {
    fn u8(&mut self, value: u8);
    fn u16(&mut self, value: u16);
    fn u32(&mut self, value: u32);
    fn u64(&mut self, value: u64);
}

impl Put for Vec<u8> {
    fn u8(&mut self, value: u8) {
        self.push(value);
    }
    fn u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }
    fn u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_le_bytes());
    }
}

/// Takes fields from the front of a slice.
#[derive(Clone, Copy)]
pub(super) struct Get<'a>(pub(super) &'a [u8]);

impl<'a> Get<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        self.0.split_off(..count).ok_or(Fault::Short)
    }
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (first, rest) = self.0.split_first_chunk().ok_or(Fault::Short)?;
        self.0 = rest;
        Ok(*first)
    }
    pub(super) fn u8(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }
    /// Takes a byte that is 0 or 1.
    pub(super) fn flag(&mut self, name: &'static str) -> Result<bool, Fault> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Fault::Field(name)),
        }
    }
    pub(super) fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_le_bytes)
    }
    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_le_bytes)
    }
    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_le_bytes)
    }
}

/// Offset of the checksum in every structure, after the magic number.
const CHECKSUM: usize = 8;
/// End of the magic number and the checksum.
pub(super) const CHECKSUM_END: usize = CHECKSUM + 4;

/// Begins a structure: the magic number and room for its checksum.
pub(super) fn begin(magic: &[u8; 8]) -> Vec<u8> {
    let mut bytes = magic.to_vec();
    bytes.u32(0);
    bytes
}

/// Stores the checksum of a complete structure. Returns the checksum.
pub(super) fn seal(bytes: &mut [u8]) -> u32 {
    let sum = crc32c::crc32c(&bytes[CHECKSUM + 4..]);
    bytes[CHECKSUM..CHECKSUM + 4].copy_from_slice(&sum.to_le_bytes());
    sum
}

/// Checks the magic number of a structure. Returns the fields after it.
pub(super) fn open<'a>(bytes: &'a [u8], magic: &[u8; 8]) -> Result<Get<'a>, Fault> {
    let mut get = Get(bytes);
    if get.array()? == *magic { Ok(get) } else { Err(Fault::Magic) }
}

/// Verifies the checksum of a structure that consists of exactly these bytes. Returns the checksum.
pub(super) fn verify(bytes: &[u8]) -> Result<u32, Fault> {
    verify_by(bytes, crc32c::crc32c)
}

/// Verifies the checksum of a structure as [`verify`] does. `sum` computes the checksum of the bytes after
/// the stored checksum.
pub(super) fn verify_by(bytes: &[u8], sum: impl FnOnce(&[u8]) -> u32) -> Result<u32, Fault> {
    let mut get = Get(bytes.get(CHECKSUM..).ok_or(Fault::Short)?);
    let stored = get.u32()?;
    if sum(get.0) == stored { Ok(stored) } else { Err(Fault::Checksum) }
}
