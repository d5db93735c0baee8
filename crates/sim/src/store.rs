//! The [`Store`] trait: bytes without time.

use alloc::sync::Arc;
use core::fmt;
use core::ops::Range;

/// The bytes of a device. A live device combines a model, which decides when requests complete, with a store, which
/// holds the data.
///
/// - The owner checks ranges; a store never receives a range beyond its capacity.
/// - Ranges that were never written, or were discarded, read as zeroes.
/// - Several threads may call a store concurrently. Callers that need an order enforce it themselves.
pub trait Store: Send + Sync {
    /// Reads `buffer.len()` bytes at `offset` into `buffer`.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError>;
    /// Writes `bytes` at `offset`. After an error, part of them may have been written.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError>;
    /// Makes the range read as zeroes and frees its space where possible.
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError>;
    /// Returns the first part of `range` that may contain data other than zeroes, or `None` if all of it reads as
    /// zeroes.
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError>;
    /// Makes all completed writes as durable as the store's medium allows, before it returns.
    fn sync(&self) -> Result<(), StoreError>;
}

/// A store that several owners share.
impl<S: Store + ?Sized> Store for Arc<S> {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        (**self).read(offset, buffer)
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        (**self).write(offset, bytes)
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        (**self).discard(offset, length)
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        (**self).data_in(range)
    }
    fn sync(&self) -> Result<(), StoreError> {
        (**self).sync()
    }
}

/// Error of a store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// The medium is full.
    NoSpace,
    /// The medium failed.
    Failed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreError::NoSpace => "no space is left",
            StoreError::Failed => "the underlying storage failed",
        })
    }
}

impl core::error::Error for StoreError {}
