//! Expected responses, and the errors of a transfer.

use crate::command::{Response, Status};

/// Response that a host expects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseType {
    /// No response.
    None,
    /// The card status.
    R1,
    /// The card status, followed by a busy signal. [`Native::wait_ready`](super::Native::wait_ready) waits for its end.
    R1b,
    /// CID or CSD.
    R2,
    /// The OCR, which has no CRC7.
    R3,
    /// The relative address.
    R6,
    /// The accepted voltage.
    R7,
}

/// Error on the wires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The response, the data or the end of the busy signal did not arrive in time.
    Timeout,
    /// A checksum was wrong, either at the host or, according to the CRC status, at the card.
    Crc,
    /// The card reported a write error.
    WriteError,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Fault::Timeout => "the card did not respond in time",
            Fault::Crc => "a checksum was wrong",
            Fault::WriteError => "the card reported a write error",
        })
    }
}

impl core::error::Error for Fault {}

/// Converts the word of a short response into the type that the host expects.
pub(super) fn typed(expects: ResponseType, word: u32) -> Response {
    match expects {
        ResponseType::R3 => Response::R3(word),
        ResponseType::R6 => Response::R6(word),
        ResponseType::R7 => Response::R7(word),
        _ => Response::R1(Status(word)),
    }
}
