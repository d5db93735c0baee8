//! Codes and texts of errors: `flashlab_code` and `flashlab_error`.

use flashlab_device::sd::Fault;
use flashlab_device::{Error, FaultError, IoError, StoreError};
use std::ffi::{CStr, c_char};
use std::fmt;

/// Result of a function, as C receives it.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) i32);

/// Declares the codes with the texts of `flashlab_code_text`.
macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Code {
            $(pub(crate) const $name: Code = Code($value);)*

            /// Returns the meaning of a code.
            pub(crate) fn text(self) -> &'static CStr {
                match self.0 {
                    $($value => $text,)*
                    _ => c"unknown code",
                }
            }
        }

        /// The codes and their names in the header, without the prefix.
        #[cfg(test)]
        pub(crate) const CODES: &[(&str, i32)] = &[$((stringify!($name), $value)),*];
    };
}

codes! {
    OK = 0, c"success";
    NONE = 1, c"nothing to return";
    ERROR_NULL = 2, c"a pointer is NULL";
    ERROR_ARGUMENT = 3, c"an argument is out of range";
    ERROR_IN_USE = 4, c"the handle is in use by another call";
    ERROR_PANIC = 5, c"a bug in the library";
    ERROR_OPEN = 6, c"the device cannot be opened";
    ERROR_NOT_A_CARD = 7, c"the device does not accept SD commands";
    ERROR_QUIRK = 8, c"the quirk is unknown or malformed";
    ERROR_FAULT_RULE = 9, c"the fault rule is malformed";
    ERROR_NO_POWER = 10, c"the device has no timing, so its power cannot be cut";
    ERROR_STORE = 11, c"a callback of the store failed";
    ERROR_READ_ONLY = 20, c"the device is read-only";
    ERROR_MEDIUM = 21, c"the medium failed";
    ERROR_NO_MEMORY = 22, c"not enough memory";
    ERROR_INVALID = 23, c"the request reaches beyond the end, or does not consist of whole blocks";
    ERROR_NO_SPACE = 24, c"no space left on the device";
    ERROR_TOO_LARGE = 25, c"the request is larger than the device supports";
    ERROR_UNSUPPORTED = 26, c"the device does not support the request";
    ERROR_POWER_OFF = 27, c"the power is off, or was cut during the request";
    ERROR_TIMEOUT = 40, c"the card did not respond in time";
    ERROR_CRC = 41, c"a checksum was wrong";
    ERROR_WRITE = 42, c"the card reported a write error";
}

/// Size in bytes of the text of an error, including the terminating null byte.
pub(crate) const TEXT_SIZE: usize = 508;

/// Error of the last call, owned by the caller.
#[repr(C)]
pub(crate) struct FlashlabError {
    code: Code,
    text: [c_char; TEXT_SIZE],
}

impl FlashlabError {
    /// The state after a call without an error.
    pub(crate) const NONE: FlashlabError = FlashlabError { code: Code::OK, text: [0; TEXT_SIZE] };

    /// Creates an error. A text that is too long is truncated after a whole character.
    pub(crate) fn new(code: Code, text: &str) -> FlashlabError {
        let mut error = FlashlabError { code, ..FlashlabError::NONE };
        let end = text.floor_char_boundary(TEXT_SIZE - 1);
        // A null byte would end the text; no message of the library has one.
        for (to, byte) in error.text.iter_mut().zip(text[..end].bytes()) {
            *to = byte as c_char;
        }
        error
    }
}

#[cfg(test)]
impl fmt::Display for FlashlabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<u8> = self.text.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0).collect();
        f.write_str(&String::from_utf8_lossy(&bytes))
    }
}

crate::export::layout! { FlashlabError as flashlab_error { code: Code, text: [c_char; TEXT_SIZE] } }

/// Code and text of a failed call, which are written to the caller's `flashlab_error`.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl fmt::Display) -> Failure {
        Failure { code, text: text.to_string() }
    }
    pub(crate) fn null(argument: &str) -> Failure {
        Failure::new(Code::ERROR_NULL, format_args!("{argument} is NULL"))
    }
    pub(crate) fn argument(text: impl fmt::Display) -> Failure {
        Failure::new(Code::ERROR_ARGUMENT, text)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match &error {
            Error::NotACard(_) => Code::ERROR_NOT_A_CARD,
            Error::Quirk(_) => Code::ERROR_QUIRK,
            Error::NoPower => Code::ERROR_NO_POWER,
            Error::Store(_) => Code::ERROR_STORE,
            _ => Code::ERROR_OPEN,
        };
        Failure::new(code, error)
    }
}

impl From<IoError> for Failure {
    fn from(error: IoError) -> Failure {
        let code = match error {
            IoError::ReadOnly => Code::ERROR_READ_ONLY,
            IoError::Medium => Code::ERROR_MEDIUM,
            IoError::NoMemory => Code::ERROR_NO_MEMORY,
            IoError::Invalid => Code::ERROR_INVALID,
            IoError::NoSpace => Code::ERROR_NO_SPACE,
            IoError::TooLarge => Code::ERROR_TOO_LARGE,
            IoError::Unsupported => Code::ERROR_UNSUPPORTED,
            IoError::ShuttingDown => Code::ERROR_POWER_OFF,
        };
        let text = code.text().to_string_lossy();
        Failure::new(code, text)
    }
}

impl From<FaultError> for Failure {
    fn from(error: FaultError) -> Failure {
        Failure::new(Code::ERROR_FAULT_RULE, error)
    }
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Failure {
        let code = match fault {
            Fault::Timeout => Code::ERROR_TIMEOUT,
            Fault::Crc => Code::ERROR_CRC,
            Fault::WriteError => Code::ERROR_WRITE,
        };
        Failure::new(code, fault)
    }
}

/// Converts the code that a callback of a store returned.
pub(crate) fn of_callback(code: Code) -> Result<(), StoreError> {
    match code {
        Code::OK => Ok(()),
        Code::ERROR_NO_SPACE => Err(StoreError::NoSpace),
        _ => Err(StoreError::Failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_with_a_whole_character_and_a_null_byte() {
        let error = FlashlabError::new(Code::ERROR_OPEN, &"é".repeat(400));
        assert_eq!(error.to_string().len(), 506, "507 is in the middle of a character");
        let error = FlashlabError::new(Code::ERROR_OPEN, &"x".repeat(600));
        assert_eq!(error.to_string().len(), TEXT_SIZE - 1);
    }

    #[test]
    fn codes_are_distinct_and_have_texts() {
        for (n, (name, value)) in CODES.iter().enumerate() {
            assert!(!CODES[..n].iter().any(|(_, other)| other == value), "{name}");
            assert_ne!(Code(*value).text(), c"unknown code", "{name}");
        }
        assert_eq!(Code(-1).text(), c"unknown code");
    }
}
