//! Journal entries: batches of records, in one total order. Those of an encrypted volume are encrypted.

use super::Fault;
use super::sealed::{self, SEAL_LEN, SealWith};
use super::wire::{self, Put};
use crate::keys::{Keyring, Purpose};

const MAGIC: &[u8; 8] = b"FLVjrnl1";

/// Length of the header of an entry in bytes.
pub const ENTRY_HEADER: usize = 48 + SEAL_LEN;

/// An entry of the journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Number of the entry. Entries have consecutive numbers.
    pub sequence: u64,
    /// Number of the mount that wrote the entry.
    pub mount: u32,
    /// Checksum of the previous entry.
    pub previous: u32,
    /// Checksum of this entry.
    pub sum: u32,
    /// Encoded records.
    pub records: Vec<u8>,
}

impl Entry {
    /// Encodes an entry with these records, padded with zeroes to blocks of `block` bytes. Returns the bytes and the
    /// checksum. `seal` encrypts the records.
    pub fn encode(
        volume: &[u8; 16],
        (sequence, mount, previous): (u64, u32, u32),
        records: &[u8],
        block: usize,
        seal: Option<SealWith<'_>>,
    ) -> (Vec<u8>, u32) {
        let mut bytes = wire::begin(MAGIC);
        bytes.reserve_exact((ENTRY_HEADER + records.len()).next_multiple_of(block) - bytes.len());
        bytes.u32(records.len() as u32);
        bytes.extend_from_slice(volume);
        bytes.u64(sequence);
        bytes.u32(mount);
        bytes.u32(previous);
        bytes.resize(ENTRY_HEADER, 0);
        bytes.extend_from_slice(records);
        sealed::seal(&mut bytes, ENTRY_HEADER, Purpose::Journal, seal);
        let sum = wire::seal(&mut bytes);
        bytes.resize(bytes.len().next_multiple_of(block), 0);
        (bytes, sum)
    }

    /// Decodes the entry at the start of `bytes`, which may be longer. `keyring` is that of an encrypted volume.
    ///
    /// # Errors
    /// Returns the fault if there is no valid entry of this volume.
    pub fn decode(bytes: &[u8], volume: &[u8; 16], keyring: Option<&Keyring>) -> Result<Entry, Fault> {
        let mut get = wire::open(bytes, MAGIC)?;
        get.u32()?;
        let length = get.u32()? as usize;
        if get.array()? != *volume {
            return Err(Fault::Volume);
        }
        let whole = ENTRY_HEADER.checked_add(length).and_then(|end| bytes.get(..end)).ok_or(Fault::Short)?;
        let sum = wire::verify(whole)?;
        let (sequence, mount, previous) = (get.u64()?, get.u32()?, get.u32()?);
        let records = sealed::open(whole, ENTRY_HEADER, Purpose::Journal, keyring)?;
        Ok(Entry { sequence, mount, previous, sum, records })
    }

    /// Returns the number of an entry and its length in bytes, as its header states them. The rest is not verified.
    ///
    /// # Errors
    /// Returns the fault if the bytes do not begin with the header of an entry of this volume.
    pub fn peek(bytes: &[u8], volume: &[u8; 16]) -> Result<(u64, u64), Fault> {
        let mut get = wire::open(bytes, MAGIC)?;
        get.u32()?;
        let length = get.u32()?;
        if get.array()? != *volume {
            return Err(Fault::Volume);
        }
        Ok((get.u64()?, ENTRY_HEADER as u64 + u64::from(length)))
    }

    /// Returns the length of the encoded entry in bytes, with its padding.
    pub fn padded_len(&self, block: usize) -> usize {
        (ENTRY_HEADER + self.records.len()).next_multiple_of(block)
    }
}
