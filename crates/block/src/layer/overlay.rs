//! `overlay`: copy on write. The base is only read. Changes go to a second store, which the user may keep or delete.
//!
//! | bytes of the second store | contents |
//! |---|---|
//! | 0 to the size, rounded up to 4 KiB | each changed granule of 4 KiB, at its own offset |
//! | after that | one bit per granule, starting at the lowest bit of each byte: set if the granule was changed |
//!
//! The bit of a granule is written after its bytes, and both are written before the change is answered. A store that
//! survives the end of the process therefore holds every answered change. A discarded range is stored as zeroes, so
//! that the base does not show through.

use flashlab_sim::{Store, StoreError};
use std::fmt;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

const GRANULE: u64 = 4096;
/// Zeroes written at once.
static ZEROES: [u8; GRANULE as usize] = [0; GRANULE as usize];

/// A base and the changes to it.
pub struct Overlay {
    base: Box<dyn Store>,
    changes: Box<dyn Store>,
    size: u64,
    changed: RwLock<Vec<u8>>,
}

/// The store of the changes cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OverlayError(pub StoreError);

impl fmt::Display for OverlayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the changes cannot be read: {}", self.0)
    }
}

impl std::error::Error for OverlayError {}

impl Overlay {
    /// Returns the bytes that the store of the changes needs for a base of `size` bytes.
    pub fn changes_size(size: u64) -> u64 {
        size.next_multiple_of(GRANULE) + size.div_ceil(GRANULE).div_ceil(8)
    }

    /// Creates the overlay over `base`, which has `size` bytes. `changes` holds [`Overlay::changes_size`] bytes:
    /// zeroes, or the contents that an earlier overlay of this base left there.
    pub fn new(base: Box<dyn Store>, size: u64, changes: Box<dyn Store>) -> Result<Overlay, OverlayError> {
        let bits = size.next_multiple_of(GRANULE);
        let mut changed = vec![0; (Overlay::changes_size(size) - bits) as usize];
        changes.read(bits, &mut changed).map_err(OverlayError)?;
        Ok(Overlay { base, changes, size, changed: RwLock::new(changed) })
    }

    /// Splits a range into parts that are all changed (true) or all unchanged (false).
    fn parts<'a>(
        &self,
        changed: &'a [u8],
        range: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, bool)> + 'a {
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let (from, is) = (at, bit(changed, at / GRANULE));
            while at < range.end && bit(changed, at / GRANULE) == is {
                at = ((at / GRANULE + 1) * GRANULE).min(range.end);
            }
            Some((from..at, is))
        })
    }

    /// Stores the bytes that `bytes` returns for each part, granule by granule.
    fn change<'a>(
        &self,
        range: Range<u64>,
        bytes: impl Fn(Range<u64>) -> &'a [u8],
    ) -> Result<(), StoreError> {
        let mut changed = self.changed.write().unwrap_or_else(PoisonError::into_inner);
        let mut at = range.start;
        while at < range.end {
            let granule = at / GRANULE;
            let (first, last) = (granule * GRANULE, ((granule + 1) * GRANULE).min(self.size));
            let part = at..last.min(range.end);
            if bit(&changed, granule) || part == (first..last) {
                self.changes.write(part.start, bytes(part.clone()))?;
            } else {
                let mut granule_bytes = vec![0; (last - first) as usize];
                self.base.read(first, &mut granule_bytes)?;
                granule_bytes[(part.start - first) as usize..(part.end - first) as usize]
                    .copy_from_slice(bytes(part.clone()));
                self.changes.write(first, &granule_bytes)?;
            }
            if !bit(&changed, granule) {
                let byte = &mut changed[(granule / 8) as usize];
                let set = *byte | 1 << (granule % 8);
                self.changes.write(self.size.next_multiple_of(GRANULE) + granule / 8, &[set])?;
                *byte = set;
            }
            at = part.end;
        }
        Ok(())
    }
}

fn bit(bits: &[u8], n: u64) -> bool {
    bits[(n / 8) as usize] >> (n % 8) & 1 == 1
}

impl Store for Overlay {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        let changed = self.changed.read().unwrap_or_else(PoisonError::into_inner);
        for (part, is) in self.parts(&changed, offset..offset + buffer.len() as u64) {
            let to = &mut buffer[(part.start - offset) as usize..(part.end - offset) as usize];
            if is { self.changes.read(part.start, to)? } else { self.base.read(part.start, to)? }
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let of = |part: Range<u64>| &bytes[(part.start - offset) as usize..(part.end - offset) as usize];
        self.change(offset..offset + bytes.len() as u64, of)
    }

    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        self.change(offset..offset + length, |part| &ZEROES[..(part.end - part.start) as usize])
    }

    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        let changed = self.changed.read().unwrap_or_else(PoisonError::into_inner);
        for (part, is) in self.parts(&changed, range) {
            let data = if is { self.changes.data_in(part)? } else { self.base.data_in(part)? };
            if data.is_some() {
                return Ok(data);
            }
        }
        Ok(None)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.changes.sync()
    }
}
