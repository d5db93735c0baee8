//! Reasons why a request fails: errno values, in terms of the device.

use flashlab_sim::StoreError;
use std::fmt;

/// The reason why a request failed. A failed request has no effect unless its variant says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoError {
    /// The device, or this range of it, is read-only (EPERM).
    ReadOnly,
    /// The medium failed. The contents of the range are unknown (EIO).
    Medium,
    /// Not enough memory for the request (ENOMEM).
    NoMemory,
    /// The request reaches beyond the end or does not consist of whole blocks (EINVAL).
    Invalid,
    /// No room for the data. A part of it may have been written (ENOSPC).
    NoSpace,
    /// The request is larger than the device supports (EOVERFLOW).
    TooLarge,
    /// The device does not support the request, or not at the requested speed (ENOTSUP).
    Unsupported,
    /// The device has no power, or is shutting down (ESHUTDOWN). After a power cut during the request, any part of it may
    /// be in effect.
    ShuttingDown,
}

impl IoError {
    /// All reasons.
    pub const ALL: [IoError; 8] = [
        IoError::ReadOnly,
        IoError::Medium,
        IoError::NoMemory,
        IoError::Invalid,
        IoError::NoSpace,
        IoError::TooLarge,
        IoError::Unsupported,
        IoError::ShuttingDown,
    ];

    /// Returns the name of the errno value, as rules and logs write it.
    pub const fn errno_name(self) -> &'static str {
        match self {
            IoError::ReadOnly => "EPERM",
            IoError::Medium => "EIO",
            IoError::NoMemory => "ENOMEM",
            IoError::Invalid => "EINVAL",
            IoError::NoSpace => "ENOSPC",
            IoError::TooLarge => "EOVERFLOW",
            IoError::Unsupported => "ENOTSUP",
            IoError::ShuttingDown => "ESHUTDOWN",
        }
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoError::ReadOnly => "the device is read-only",
            IoError::Medium => "the medium failed",
            IoError::NoMemory => "not enough memory",
            IoError::Invalid => "the request reaches beyond the end, or does not consist of whole blocks",
            IoError::NoSpace => "no space left on the device",
            IoError::TooLarge => "the request is larger than the device supports",
            IoError::Unsupported => "the device does not support this request",
            IoError::ShuttingDown => "the device has no power, or is shutting down",
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
