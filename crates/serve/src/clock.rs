//! The wall clock: the only place of this room that reads one.

use flashlab_sim::Instant;
use std::time;

/// Counts nanoseconds since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Clock(time::Instant);

impl Clock {
    /// Starts at zero.
    #[allow(clippy::disallowed_methods, reason = "the edge: live devices and load run in real time")]
    pub fn start() -> Clock {
        Clock(time::Instant::now())
    }

    /// The time since the start.
    pub fn now(&self) -> Instant {
        let ns = self.0.elapsed().as_nanos();
        Instant::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}
