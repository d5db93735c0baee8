//! The wall clock. The other modules of this crate read it only through [`Clock`].

use flashlab_sim::Instant;
use std::time;

/// A clock that counts nanoseconds from its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock(time::Instant);

impl Clock {
    /// Starts a clock at zero.
    #[allow(clippy::disallowed_methods, reason = "the edge: live devices and load run in real time")]
    pub fn start() -> Clock {
        Clock(time::Instant::now())
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Instant {
        let ns = self.0.elapsed().as_nanos();
        Instant::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}
