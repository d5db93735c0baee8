//! What goes wrong between the host and a card, with the numbers that Linux gives it.

use crate::Fault;
use core::fmt;

/// Why something did not work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// No answer in time, or busy for too long.
    Timeout,
    /// A checksum was wrong.
    Checksum,
    /// The card said that it failed.
    Failed,
    /// The card does not know application commands, or a mode.
    Unsupported,
    /// A register makes no sense, or no voltage is common.
    Invalid,
    /// Another card than the one that was there.
    Replaced,
    /// To be tried again after a power cycle.
    Again,
    /// There is no card.
    NoCard,
}

impl Error {
    /// Linux' number: `-110`.
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
            Error::Timeout => "no answer in time",
            Error::Checksum => "a checksum was wrong",
            Error::Failed => "the card reports a failure",
            Error::Unsupported => "the card does not know it",
            Error::Invalid => "it cannot be used",
            Error::Replaced => "it is another card",
            Error::Again => "to be tried again",
            Error::NoCard => "there is no card",
        })
    }
}

impl core::error::Error for Error {}
