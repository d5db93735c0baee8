//! The seam below which bytes lie.

use core::fmt;
use core::ops::Range;

/// Bytes without a sense of time: what a model is joined with, to be a device that carries data.
///
/// - What lies beyond the capacity is never asked for: whoever owns a store checks before.
/// - What was never written, or was discarded since, reads as zeroes.
/// - Several threads may ask at the same time; who needs an order keeps it.
pub trait Store: Send + Sync {
    /// Fills `buffer` with what lies at `offset`.
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError>;
    /// Takes over `bytes`; on an error a part of them may have been.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError>;
    /// The range reads as zeroes from now on, and takes no room where that can be had.
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError>;
    /// The first part of the range that may hold something else than zeroes; `None`: there is none.
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError>;
    /// Returns when all that was written survives whatever the store's own medium survives.
    fn sync(&self) -> Result<(), StoreError>;
}

/// Why a store could not do what it was asked to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// There is no room left.
    NoSpace,
    /// What is below it failed.
    Failed,
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StoreError::NoSpace => "there is no room left",
            StoreError::Failed => "what keeps the bytes failed",
        })
    }
}

impl core::error::Error for StoreError {}
