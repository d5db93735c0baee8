//! The error of a structure that fails validation, because a state file is corrupt or because this crate has a bug.
//!
//! One validation serves both purposes: a state file that fails it is rejected, and `check` panics.

use alloc::string::String;
use core::fmt;

/// Limit of counters: 2^60 bytes are 1 EiB. No device comes near it, so counting cannot overflow.
pub(super) const COUNT_MAX: u64 = 1 << 60;

/// A structure contradicts itself, or its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inconsistent {
    /// Description of the inconsistency.
    pub what: String,
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl core::error::Error for Inconsistent {}

/// Returns an [`Inconsistent`] with the given message if the condition is false.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::ftl::Inconsistent { what: alloc::format!($($what)+) });
        }
    };
}

pub(crate) use ensure;
