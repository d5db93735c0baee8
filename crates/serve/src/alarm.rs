//! Being awake at an instant.
//!
//! The system wakes a thread late: by the time that its timer, its scheduler and its power management take. How late is
//! learnt, the alarm is set so much earlier, and what is left is spent spinning. On a machine with one processor the spinning
//! would be taken from whoever is waited for, so there it is left out.

use flashlab_sim::Duration;
use std::thread;

/// The longest stretch that is spun.
const SPIN_MAX: Duration = Duration::from_us(60);

/// An alarm that knows how late it goes off.
#[derive(Debug)]
pub(crate) struct Alarm {
    /// How much earlier it is set.
    early: Duration,
    spins: bool,
}

impl Alarm {
    pub(crate) fn new() -> Alarm {
        Alarm { early: Duration::ZERO, spins: thread::available_parallelism().is_ok_and(|n| n.get() > 1) }
    }

    /// How long to sleep, where `left` is left.
    pub(crate) fn patience(&self, left: Duration) -> Duration {
        left.saturating_sub(self.early)
    }

    /// The sleep is over: spins until nothing is left, and learns. `late` is how much later than it was set for it is;
    /// `None`: nobody waits for a clock.
    pub(crate) fn went_off(&mut self, left: impl Fn() -> Duration, late: Option<Duration>) {
        let before = left();
        if let Some(late) = late.filter(|_| self.spins) {
            let overslept = (self.early + late).saturating_sub(before).min(SPIN_MAX);
            // Quickly to a longer sleep, slowly back: an answer too late cannot be mended, a few spins can.
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
    fn it_is_set_as_much_earlier_as_it_goes_off_late() {
        let mut alarm = Alarm { early: Duration::ZERO, spins: true };
        let us = Duration::from_us;
        // Always 20 us late.
        for _ in 0..100 {
            let slept = alarm.patience(us(1000)) + us(20);
            let left = us(1000).saturating_sub(slept);
            let spun = std::cell::Cell::new(false);
            let late = slept.saturating_sub(us(1000));
            alarm.went_off(|| if spun.replace(true) { Duration::ZERO } else { left }, Some(late));
        }
        assert!(alarm.early > us(18) && alarm.early < us(21), "{}", alarm.early);
        assert_eq!(alarm.patience(us(5)), Duration::ZERO);
    }
}
