//! Encryption of the units of an extent.
//!
//! A compressed extent is one message. Each unit of an uncompressed extent is a separate message, whose tag
//! depends on no other unit, so the other units still open after an overwrite has replaced the first ones.
//! The associated data of a message, numbers in little-endian order:
//!
//! ```text
//! offset length
//!      0     16  identifier of the volume
//!     16      8  logical address of the message
//!     24      4  logical length of the message
//!     28      4  stored length of the message
//!     32      1  compression
//! ```
//!
//! The nonce contains the number of the write, and the low 24 bits of the address in sectors of 512 bytes. Two units of
//! a write differ in these bits, because a write is far shorter than 8 GiB and units consist of sectors. The key
//! belongs to the epoch.

use super::{Check, Compression, DecodeError, Encoding, Identity};
use crate::keys::{EpochKey, Nonce, Purpose, Tag};
use flashlab_sim::fault;

const ASSOCIATED_LEN: usize = 33;

/// The properties of a stored extent that a tag covers besides the bytes.
pub(super) struct Sealed<'a> {
    identity: &'a Identity,
    compression: Compression,
    stored: usize,
    unit: u32,
}

impl<'a> Sealed<'a> {
    pub(super) fn new(
        identity: &'a Identity,
        compression: Compression,
        stored: usize,
        unit: u32,
    ) -> Sealed<'a> {
        Sealed { identity, compression, stored, unit }
    }

    /// Encrypts all units in place and returns their tags.
    pub(super) fn seal(&self, key: &EpochKey, bytes: &mut [u8]) -> Vec<Tag> {
        let units = bytes.chunks_mut(self.unit as usize).zip(0..);
        units
            .map(|(bytes, unit)| key.seal(self.nonce(unit), &self.associated(unit, bytes.len()), bytes))
            .collect()
    }

    /// Verifies units, the first of which has the index `first`, and decrypts them if the volume is encrypted.
    pub(super) fn verify(
        &self,
        mut bytes: Vec<u8>,
        first: u32,
        check: &Check,
        how: &Encoding,
    ) -> Result<Vec<u8>, DecodeError> {
        self.open(&mut bytes, first, check, how).map(|()| bytes)
    }

    /// Does the same as [`verify`](Self::verify), in place.
    pub(super) fn open(
        &self,
        bytes: &mut [u8],
        first: u32,
        check: &Check,
        how: &Encoding,
    ) -> Result<(), DecodeError> {
        let Some(keyring) = &how.keyring else { return self.verify_sums(bytes, first, check) };
        self.check_range(bytes.len(), first, check)?;
        // Checksums do not authenticate, so an encrypted volume accepts tags only.
        let Check::Tags(tags) = check else { return Err(DecodeError::Mismatch) };
        let key = keyring.get(self.identity.epoch).ok_or(DecodeError::KeyNotAvailable)?;
        let tags = (first..).zip(&tags[first as usize..]);
        if fault("volume-ignores-tags") {
            // The ciphers are stream ciphers: a second encryption decrypts.
            for (bytes, unit) in bytes.chunks_mut(self.unit as usize).zip(first..) {
                key.seal(self.nonce(unit), &[], bytes);
            }
            return Ok(());
        }
        for (bytes, (unit, tag)) in bytes.chunks_mut(self.unit as usize).zip(tags) {
            if !key.open(self.nonce(unit), &self.associated(unit, bytes.len()), bytes, tag) {
                return Err(DecodeError::Mismatch);
            }
        }
        Ok(())
    }

    /// Verifies units of a volume without encryption, the first of which has the index `first`.
    pub(super) fn verify_sums(&self, bytes: &[u8], first: u32, check: &Check) -> Result<(), DecodeError> {
        self.check_range(bytes.len(), first, check)?;
        check.verify(bytes, first as usize, self.unit)
    }

    /// Checks that `len` bytes from the unit `first` on are whole units of the extent, and that `check` covers all of
    /// its units.
    fn check_range(&self, len: usize, first: u32, check: &Check) -> Result<(), DecodeError> {
        let unit = self.unit as usize;
        let start = first as usize * unit;
        let end = start + len;
        let whole = end == self.stored || end < self.stored && len.is_multiple_of(unit);
        let units = if unit == 0 { 0 } else { self.stored.div_ceil(unit) };
        if whole && units > 0 && start < end && check.units() == units {
            return Ok(());
        }
        Err(DecodeError::Mismatch)
    }

    fn nonce(&self, unit: u32) -> Nonce {
        let part = (self.address(unit) / 512) as u32 & 0xff_ffff;
        Nonce { purpose: Purpose::Extent, part, number: self.identity.write }
    }

    /// Returns the logical address of a unit.
    fn address(&self, unit: u32) -> u64 {
        self.identity.address.wrapping_add(u64::from(unit) * u64::from(self.unit))
    }

    /// Returns the associated data of a unit with `stored` bytes.
    fn associated(&self, unit: u32, stored: usize) -> [u8; ASSOCIATED_LEN] {
        let length = match self.compression {
            Compression::None => stored as u32,
            Compression::Lz4 | Compression::Zstd => self.identity.length,
        };
        let mut bytes = [0; ASSOCIATED_LEN];
        bytes[..16].copy_from_slice(&self.identity.volume);
        bytes[16..24].copy_from_slice(&self.address(unit).to_le_bytes());
        bytes[24..28].copy_from_slice(&length.to_le_bytes());
        bytes[28..32].copy_from_slice(&(stored as u32).to_le_bytes());
        bytes[32] = self.compression as u8;
        bytes
    }
}
