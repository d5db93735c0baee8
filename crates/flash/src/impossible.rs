//! The error for impossible parameters.

use alloc::string::String;
use core::fmt;

/// A parameter, or a combination of parameters, that no device can have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Impossible {
    /// Path in a profile, for example `flash.t_prog`.
    pub path: &'static str,
    /// The fault and the expectation, for example "is 0; programming a page takes time".
    pub why: String,
}

impl Impossible {
    /// Returns the error for the parameter at `path`.
    pub fn new(path: &'static str, why: impl Into<String>) -> Self {
        Impossible { path, why: why.into() }
    }
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.path, self.why)
    }
}

impl core::error::Error for Impossible {}
