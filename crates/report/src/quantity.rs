//! Quantities in words for people: times and numbers of bytes.

use crate::number;
use flashlab_sim::Duration;

/// Formats a time for people, with three significant digits: `3.24 days`.
pub fn span(time: Duration) -> String {
    number::plain(&number::span_s(time.as_ns() as f64 / 1e9))
}

/// Formats a number of bytes for people, with three significant digits: `12.4 KiB`.
pub fn size(bytes: u64) -> String {
    number::plain(&number::bytes(bytes))
}
