//! Quantities in words for people: times and numbers of bytes.

use crate::number;
use flashlab_sim::Duration;

/// Formats a time for people, with three significant digits: `3.24 days`.
pub fn span(time: Duration) -> String {
    number::plain(&number::span_s(time.as_ns() as f64 / 1e9))
}

/// Formats a duration for people, with three significant digits, from nanoseconds to seconds: `945 ns`, `5.70 s`.
pub fn duration(time: Duration) -> String {
    number::plain(&number::duration_ns(time.as_ns() as f64))
}

/// Formats requests per second for people: `2,564`, or with three significant digits below 100.
pub fn iops(iops: f64) -> String {
    number::plain(&crate::compare::iops(iops))
}

/// Formats a number of bytes for people, with three significant digits: `12.4 KiB`.
pub fn size(bytes: u64) -> String {
    number::plain(&number::bytes(bytes))
}
