//! Why a request failed: errno in the device's words.

use flashlab_sim::StoreError;
use std::fmt;

/// Why a request failed. Nothing of it was done, unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoError {
    /// The device, or this range of it, is not written to (EPERM).
    ReadOnly,
    /// The medium failed; what the range holds now is not known (EIO).
    Medium,
    /// There was no memory to work with (ENOMEM).
    NoMemory,
    /// The request makes no sense here: beyond the end, or not of whole blocks (EINVAL).
    Invalid,
    /// No room for what was to be written; a part may have been (ENOSPC).
    NoSpace,
    /// The request is larger than the device takes (EOVERFLOW).
    TooLarge,
    /// The device cannot do this, or not as fast as was asked (ENOTSUP).
    Unsupported,
    /// The device is going away (ESHUTDOWN).
    ShuttingDown,
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoError::ReadOnly => "the device is not written to",
            IoError::Medium => "the medium failed",
            IoError::NoMemory => "there is no memory left",
            IoError::Invalid => "the request lies beyond the end, or is not of whole blocks",
            IoError::NoSpace => "there is no room left on the device",
            IoError::TooLarge => "the request is larger than the device takes",
            IoError::Unsupported => "the device cannot do this",
            IoError::ShuttingDown => "the device is going away",
        })
    }
}

impl std::error::Error for IoError {}

impl From<StoreError> for IoError {
    fn from(error: StoreError) -> IoError {
        match error {
            StoreError::NoSpace => IoError::NoSpace,
            StoreError::Failed => IoError::Medium,
        }
    }
}
