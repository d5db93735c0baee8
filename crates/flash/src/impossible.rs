//! Parameters that no device can have.

use alloc::string::String;
use core::fmt;

/// A parameter, or a pair of them, that no device can have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Impossible {
    /// Its path in a profile: `flash.t_prog`.
    pub path: &'static str,
    /// What is wrong and what is expected: "is 0; programming a page takes time".
    pub why: String,
}

impl Impossible {
    /// `path` is impossible because of `why`.
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
