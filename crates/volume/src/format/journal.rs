//! Journal entries: batches of records, in one total order. The records of an encrypted volume are encrypted.

use super::Fault;
use super::sealed::{self, SEAL_LEN, SealWith};
use super::wire::{self, CHECKSUM_END, Get, Put};
use crate::keys::{Keyring, Purpose};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"FLVjrnl1";

/// Offset of the sequence number in an entry.
const SEQUENCE: usize = 32;
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

    /// Decodes the entry at the start of `bytes`, which may be longer. An encrypted volume needs its
    /// `keyring`.
    ///
    /// # Errors
    /// Returns the fault if there is no valid entry of this volume.
    pub fn decode(bytes: &[u8], volume: &[u8; 16], keyring: Option<&Keyring>) -> Result<Entry, Fault> {
        let whole = Entry::whole(bytes, volume)?;
        Entry::open(whole, wire::verify(whole)?, keyring)
    }

    /// Returns the bytes of the entry at the start of `bytes`, according to its header.
    fn whole<'a>(bytes: &'a [u8], volume: &[u8; 16]) -> Result<&'a [u8], Fault> {
        let (_, length) = Entry::peek(bytes, volume)?;
        bytes.get(..length as usize).ok_or(Fault::Short)
    }

    /// Decodes an entry whose checksum was verified.
    fn open(whole: &[u8], sum: u32, keyring: Option<&Keyring>) -> Result<Entry, Fault> {
        let mut get = Get(whole);
        get.bytes(SEQUENCE)?;
        let (sequence, mount, previous) = (get.u64()?, get.u32()?, get.u32()?);
        let records = sealed::open(whole, ENTRY_HEADER, Purpose::Journal, keyring)?;
        Ok(Entry { sequence, mount, previous, sum, records })
    }

    /// Returns the number of an entry and its length in bytes without padding, as its header states them.
    /// Nothing is verified except for the magic number and the identifier of the volume.
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

/// Iterator over the blocks of a ring at which an entry may begin. An item is the offset of the block, and
/// the entry or its fault. The iterator skips the blocks within a valid entry. After a pass's worth of wrong
/// checksums and tags, it also skips the blocks within an entry whose checksum is correct and whose tag is
/// not.
///
/// The iteration takes time proportional to the length of the ring, whatever its bytes are, even if each
/// header of a hostile ring states a length up to the end of the ring.
pub(crate) struct Entries<'a> {
    bytes: &'a [u8],
    block: usize,
    volume: &'a [u8; 16],
    keyring: Option<&'a Keyring>,
    at: usize,
    /// Number of bytes whose computed checksum or tag did not agree with the stored one. The number is almost
    /// zero in a ring without damage.
    in_vain: usize,
    /// Checksums of the ring. They are computed once `in_vain` exceeds the length of the ring.
    sums: Option<Sums<'a>>,
}

impl<'a> Entries<'a> {
    /// Prepares to decode a ring with blocks of `block` bytes.
    pub(crate) fn new(
        bytes: &'a [u8],
        block: u32,
        volume: &'a [u8; 16],
        keyring: Option<&'a Keyring>,
    ) -> Entries<'a> {
        Entries { bytes, block: block as usize, volume, keyring, at: 0, in_vain: 0, sums: None }
    }

    /// Decodes the entry at the present place. Also returns the number of bytes up to the next place.
    fn decode(&mut self) -> (Result<Entry, Fault>, usize) {
        let whole = match Entry::whole(&self.bytes[self.at..], self.volume) {
            Ok(whole) => whole,
            Err(fault) => return (Err(fault), self.block),
        };
        let is_costly = self.in_vain > self.bytes.len();
        let verified = if is_costly {
            let sums = self.sums.get_or_insert_with(|| Sums::new(self.bytes, self.block));
            wire::verify_by(whole, |_| sums.of(self.at + CHECKSUM_END..self.at + whole.len()))
        } else {
            wire::verify(whole)
        };
        let decoded = verified.and_then(|sum| Entry::open(whole, sum, self.keyring));
        let is_hidden = match &decoded {
            Ok(_) => true,
            // Somebody without the key wrote an entry with a correct checksum.
            Err(fault) => is_costly && *fault == Fault::NotAuthentic,
        };
        self.in_vain += if decoded.is_ok() { 0 } else { whole.len() };
        (decoded, if is_hidden { whole.len().next_multiple_of(self.block) } else { self.block })
    }
}

impl Iterator for Entries<'_> {
    type Item = (usize, Result<Entry, Fault>);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        if at >= self.bytes.len() {
            return None;
        }
        let (decoded, length) = self.decode();
        self.at += length;
        Some((at, decoded))
    }
}

/// Checksums from which the checksum of any range follows without a pass over the range.
struct Sums<'a> {
    bytes: &'a [u8],
    block: usize,
    /// Checksum of all bytes before each block.
    before: Vec<u32>,
}

impl Sums<'_> {
    fn new(bytes: &[u8], block: usize) -> Sums<'_> {
        let mut sum = 0;
        let mut before = vec![sum];
        for block in bytes.chunks(block) {
            sum = crc32c::crc32c_append(sum, block);
            before.push(sum);
        }
        Sums { bytes, block, before }
    }

    /// Returns the checksum of the bytes before `at`.
    fn up_to(&self, at: usize) -> u32 {
        let block = at / self.block;
        crc32c::crc32c_append(self.before[block], &self.bytes[block * self.block..at])
    }

    /// Returns the checksum of a range. A CRC is linear, so the checksum of the range follows from the
    /// checksums of the bytes before the range and up to its end.
    fn of(&self, range: Range<usize>) -> u32 {
        crc32c::crc32c_combine(self.up_to(range.start), 0, range.len()) ^ self.up_to(range.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 512;

    #[test]
    fn sums_of_ranges_agree_with_passes_over_them() {
        let bytes: Vec<u8> = (0..5 * BLOCK).map(|n| flashlab_sim::mix(n as u64) as u8).collect();
        let sums = Sums::new(&bytes, BLOCK);
        for range in
            [0..0, 0..1, 12..88, 12..BLOCK, BLOCK..BLOCK, 700..1900, 3 * BLOCK..5 * BLOCK, 1..5 * BLOCK]
        {
            assert_eq!(sums.of(range.clone()), crc32c::crc32c(&bytes[range.clone()]), "{range:?}");
        }
    }

    /// Each block begins with a header that states a length up to the end of the ring.
    #[test]
    fn an_entry_is_found_behind_headers_with_wrong_checksums() {
        let (volume, blocks) = ([7; 16], 64);
        let mut ring = vec![0; blocks * BLOCK];
        for at in (0..ring.len()).step_by(BLOCK) {
            let records = vec![0; ring.len() - at - ENTRY_HEADER];
            let (bytes, _) = Entry::encode(&volume, (1, 1, 1), &records, BLOCK, None);
            ring[at..at + ENTRY_HEADER].copy_from_slice(&bytes[..ENTRY_HEADER]);
            ring[at + 8] ^= 1;
        }
        let at = ring.len() - 4 * BLOCK;
        let (bytes, sum) = Entry::encode(&volume, (5, 6, 7), &[8; BLOCK], BLOCK, None);
        ring[at..at + bytes.len()].copy_from_slice(&bytes);
        let mut entries = Entries::new(&ring, BLOCK as u32, &volume, None);
        let found: Vec<_> = entries.by_ref().filter_map(|(at, entry)| Some((at, entry.ok()?.sum))).collect();
        assert_eq!(found, [(at, sum)]);
        assert!(entries.sums.is_some() && entries.in_vain > ring.len());
    }
}
