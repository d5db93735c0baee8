//! Errors between the host and a card, with their Linux error numbers.

use core::fmt;
use flashlab_sd::Fault;

/// Reason for a failed operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// The card did not respond in time, or was busy for too long.
    Timeout,
    /// A checksum was wrong.
    Checksum,
    /// The card reported an error.
    Failed,
    /// The card does not support application commands or discards.
    Unsupported,
    /// A register is invalid, host and card have no common voltage, or an address is beyond the capacity.
    Invalid,
    /// The card is not the one that was in the slot before.
    Replaced,
    /// The operation should be repeated after a power cycle.
    Again,
    /// The slot is empty.
    NoCard,
}

impl Error {
    /// Returns the error number of Linux, for example `-110`.
    pub const fn number(self) -> i32 {
        match self {
            Error::Timeout => -110,
            Error::Checksum => -84,
            Error::Failed => -5,
            Error::Unsupported => -95,
            Error::Invalid => -22,
            Error::Replaced => -2,
            Error::Again => -11,
            Error::NoCard => -123,
        }
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Timeout => Error::Timeout,
            Fault::Crc => Error::Checksum,
            Fault::WriteError => Error::Failed,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Error::Timeout => "the card did not respond in time",
            Error::Checksum => "a checksum was wrong",
            Error::Failed => "the card reported an error",
            Error::Unsupported => "the card does not support the operation",
            Error::Invalid => "invalid register, voltage or address",
            Error::Replaced => "another card is in the slot",
            Error::Again => "the card needs a power cycle and another try",
            Error::NoCard => "there is no card in the slot",
        })
    }
}

impl core::error::Error for Error {}
