//! Encryption of the units of an extent.
//!
//! The associated data of a unit, numbers in little-endian order:
//!
//! ```text
//! offset length
//!      0     16  identifier of the volume
//!     16      8  logical address of the extent
//!     24      4  logical length of the extent
//!     28      4  stored length of the extent
//!     32      4  bytes per unit
//!     36      4  index of the unit
//!     40      1  compression
//! ```
//!
//! The nonce has the index of the unit and the number of the write; the key belongs to the epoch.

use super::{Check, Compression, DecodeError, Encoding, Identity};
use crate::keys::{EpochKey, Nonce, Purpose, Tag};

const ASSOCIATED_LEN: usize = 41;

/// An extent in its stored form: everything that a tag covers, besides the bytes.
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
        units.map(|(bytes, unit)| key.seal(self.nonce(unit), &self.associated(unit), bytes)).collect()
    }

    /// Verifies units, the first of which has the index `first`, and decrypts them if the volume is encrypted.
    pub(super) fn verify(
        &self,
        mut bytes: Vec<u8>,
        first: u32,
        check: &Check,
        how: &Encoding,
    ) -> Result<Vec<u8>, DecodeError> {
        self.check_range(bytes.len(), first, check)?;
        let Some(keyring) = &how.keyring else {
            check.verify(&bytes, first as usize, self.unit)?;
            return Ok(bytes);
        };
        // Checksums do not authenticate, so an encrypted volume accepts tags only.
        let Check::Tags(tags) = check else { return Err(DecodeError::Mismatch) };
        let key = keyring.get(self.identity.epoch).ok_or(DecodeError::KeyNotAvailable)?;
        let tags = (first..).zip(&tags[first as usize..]);
        for (bytes, (unit, tag)) in bytes.chunks_mut(self.unit as usize).zip(tags) {
            if !key.open(self.nonce(unit), &self.associated(unit), bytes, tag) {
                return Err(DecodeError::Mismatch);
            }
        }
        Ok(bytes)
    }

    /// Checks that bytes from the unit `first` on are whole units of the extent, and that `check` has all units.
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
        Nonce { purpose: Purpose::Extent, part: unit, number: self.identity.write }
    }

    fn associated(&self, unit: u32) -> [u8; ASSOCIATED_LEN] {
        let Identity { volume, address, length, epoch: _, write: _ } = self.identity;
        let mut bytes = [0; ASSOCIATED_LEN];
        bytes[..16].copy_from_slice(volume);
        bytes[16..24].copy_from_slice(&address.to_le_bytes());
        let numbers = [*length, self.stored as u32, self.unit, unit];
        for (field, number) in bytes[24..40].chunks_exact_mut(4).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        bytes[40] = self.compression as u8;
        bytes
    }
}
