//! What is wrong with a structure that was not made here: a state that was kept and read back, or a mistake of ours.
//!
//! A walk through a structure that says so serves both: one that is read back is refused, and `check` panics.

use alloc::string::String;
use core::fmt;

/// Counts that no device comes near, so that counting on overflows nothing: 2^60 bytes are an EiB.
pub(super) const COUNT_MAX: u64 = 1 << 60;

/// A structure contradicts itself, or its parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inconsistent {
    /// What does not fit.
    pub what: String,
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl core::error::Error for Inconsistent {}

/// Returns an [`Inconsistent`] with the text behind the condition where it does not hold.
macro_rules! ensure {
    ($holds:expr, $($what:tt)+) => {
        if !$holds {
            return Err($crate::ftl::Inconsistent { what: alloc::format!($($what)+) });
        }
    };
}

pub(crate) use ensure;
