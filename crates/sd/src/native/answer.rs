//! What a host waits for, and what can go wrong with it.

use crate::command::{Response, Status};

/// What response a host waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expects {
    /// None.
    None,
    /// The card status.
    R1,
    /// The card status, and a busy signal that [`Native::wait_ready`](super::Native::wait_ready) waits for.
    R1b,
    /// CID or CSD.
    R2,
    /// The OCR, without CRC7.
    R3,
    /// The relative address.
    R6,
    /// The voltage accepted.
    R7,
}

/// What went wrong on the wires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// No response, no data or no end of busy in time.
    Timeout,
    /// A checksum was wrong, here or by what the card says.
    Crc,
    /// The card says that it could not write.
    WriteError,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Fault::Timeout => "the card did not answer in time",
            Fault::Crc => "a checksum was wrong",
            Fault::WriteError => "the card could not write",
        })
    }
}

impl core::error::Error for Fault {}

/// A short response as what the host takes it for.
pub(super) fn typed(expects: Expects, word: u32) -> Response {
    match expects {
        Expects::R3 => Response::R3(word),
        Expects::R6 => Response::R6(word),
        Expects::R7 => Response::R7(word),
        _ => Response::R1(Status(word)),
    }
}
