//! The version of the library, and the meanings of codes.

use crate::code::Code;
use crate::export::exports;
use crate::pointer::Constant;
use std::ffi::{CStr, c_char};

/// The version with a null byte at its end.
const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no null byte"),
};

exports! {
    fallible {}
    plain {
        /// Returns the version of the library.
        fn flashlab_version() -> Constant<c_char> {
            Constant::text(VERSION)
        }
        /// Returns the meaning of a code.
        fn flashlab_code_text(code: Code) -> Constant<c_char> {
            Constant::text(code.text())
        }
    }
}
