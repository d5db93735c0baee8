//! The wall clock of this crate.

use std::time::Instant;

/// Returns the current instant of the wall clock.
#[allow(clippy::disallowed_methods, reason = "a live page runs by the wall clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
