//! An alarm that wakes a thread at an exact instant.
//!
//! The system wakes a thread late, by the latency of its timer, its scheduler and its power management.
//! [`Alarm`] learns this latency, sleeps for a correspondingly shorter time, and spins for the remainder. On
//! a machine with one processor, spinning would stop all other threads, so the alarm does not wake early
//! there.

use flashlab_sim::Duration;
use std::thread;

/// Maximum time to spin.
const SPIN_MAX: Duration = Duration::from_us(60);

/// An alarm that compensates for its own lateness.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// Time by which the sleep is shortened.
    early: Duration,
    spins: bool,
}

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm { early: Duration::ZERO, spins: thread::available_parallelism().is_ok_and(|n| n.get() > 1) }
    }

    /// Returns the time to sleep if the alarm is due in `left`.
    pub(crate) fn sleep_time(&self, left: Duration) -> Duration {
        left.saturating_sub(self.early)
    }

    /// Ends a sleep: spins until no time is left, and learns the lateness. `late` is the time that has passed since
    /// the alarm was due; `None` if the device is not paced by a clock.
    pub(crate) fn finish_sleep(&mut self, left: impl Fn() -> Duration, late: Option<Duration>) {
        let before = left();
        if let Some(late) = late.filter(|_| self.spins) {
            let overslept = (self.early + late).saturating_sub(before).min(SPIN_MAX);
            // The estimate adapts quickly to a later wake-up and slowly to an earlier one: a late reply cannot be
            // corrected, while spinning costs little.
            self.early = match overslept > self.early {
                true => (self.early + overslept) / 2,
                false => (self.early * 15 + overslept) / 16,
            };
        }
        while left() > Duration::ZERO {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alarm_learns_its_lateness() {
        let mut alarm = Alarm { early: Duration::ZERO, spins: true };
        let us = Duration::from_us;
        // The system is always 20 us late.
        for _ in 0..100 {
            let slept = alarm.sleep_time(us(1000)) + us(20);
            let left = us(1000).saturating_sub(slept);
            let spun = std::cell::Cell::new(false);
            let late = slept.saturating_sub(us(1000));
            alarm.finish_sleep(|| if spun.replace(true) { Duration::ZERO } else { left }, Some(late));
        }
        assert!(alarm.early > us(18) && alarm.early < us(21), "{}", alarm.early);
        assert_eq!(alarm.sleep_time(us(5)), Duration::ZERO);
    }
}
