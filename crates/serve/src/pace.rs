//! Conversion of wall-clock time into the devices' time: one to one, faster or slower, or as fast as the machine can.
//!
//! A connection that has no more work lets unpaced time jump to the next event of its device. All connections
//! and devices of a server share this time. Unpaced time does not advance while there are no requests, so a
//! device does no idle-time work. The only exception is a timer on which the background work of a volume
//! waits.

use crate::Clock;
use flashlab_sim::{Duration, Instant};
use std::sync::atomic::{AtomicU64, Ordering};

/// Speed of a device's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// Speed in millionths of the speed of the wall clock.
    Millionths(u64),
    /// The server never waits for a device's time.
    Unpaced,
}

impl Speed {
    /// Real time: the speed of the wall clock.
    pub const REAL: Speed = Speed::Millionths(MILLION);
}

const MILLION: u64 = 1_000_000;

/// Time of a server's devices.
#[derive(Debug)]
pub(crate) struct Pace {
    clock: Clock,
    speed: Speed,
    /// Current time if unpaced, in nanoseconds.
    reached: AtomicU64,
}

impl flashlab_block::Clock for Pace {
    fn now(&self) -> Instant {
        Pace::now(self)
    }
}

impl Pace {
    pub(crate) fn new(clock: Clock, speed: Speed) -> Pace {
        Pace { clock, speed, reached: AtomicU64::new(0) }
    }

    /// Returns the devices' current time.
    pub(crate) fn now(&self) -> Instant {
        match self.speed {
            Speed::Millionths(MILLION) => self.clock.now(),
            Speed::Millionths(speed) => {
                Instant::ZERO + self.clock.now().since(Instant::ZERO).scale(speed, MILLION)
            }
            Speed::Unpaced => Instant::from_ns(self.reached.load(Ordering::SeqCst)),
        }
    }

    pub(crate) fn is_paced(&self) -> bool {
        self.speed != Speed::Unpaced
    }

    /// Returns the wall-clock time until the devices' time reaches `due`.
    pub(crate) fn left(&self, due: Instant) -> Duration {
        match self.speed {
            Speed::Millionths(MILLION) => due.saturating_since(self.clock.now()),
            Speed::Millionths(speed) => {
                // Rounding up guarantees that the devices' time has reached `due` after this wait.
                let ns = u128::from(due.as_ns()) * u128::from(MILLION);
                let at = ns.div_ceil(u128::from(speed)).min(u128::from(u64::MAX)) as u64;
                Instant::from_ns(at).saturating_since(self.clock.now())
            }
            Speed::Unpaced => Duration::ZERO,
        }
    }

    /// Advances unpaced time to `due`. The caller must have no work left before `due`, but other connections
    /// may have some.
    pub(crate) fn reach(&self, due: Instant) {
        if self.speed == Speed::Unpaced {
            self.reached.fetch_max(due.as_ns(), Ordering::SeqCst);
        }
    }

    /// Returns the wall-clock time that has passed since `due`; `None` if unpaced.
    pub(crate) fn late(&self, due: Instant) -> Option<Duration> {
        let late = self.now().saturating_since(due);
        match self.speed {
            Speed::Millionths(speed) => Some(late.scale(MILLION, speed)),
            Speed::Unpaced => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_time_left_reaches_the_instant() {
        for speed in [1, 333_333, MILLION, 10 * MILLION, 7_777_777] {
            let pace = Pace::new(Clock::start(), Speed::Millionths(speed));
            let due = pace.now() + Duration::from_ns(3);
            let left = pace.left(due);
            let until = pace.clock.now() + left;
            while pace.clock.now() < until {}
            assert!(pace.now() >= due, "speed {speed}");
            assert_eq!(pace.left(due), Duration::ZERO);
        }
    }

    #[test]
    fn unpaced_time_advances_only_on_request() {
        let pace = Pace::new(Clock::start(), Speed::Unpaced);
        let due = Instant::from_ns(5_000_000_000);
        assert_eq!((pace.now(), pace.left(due)), (Instant::ZERO, Duration::ZERO));
        pace.reach(due);
        pace.reach(Instant::from_ns(7));
        assert_eq!((pace.now(), pace.late(Instant::ZERO)), (due, None));
    }
}
