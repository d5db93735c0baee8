//! Pauses of writers: the number of dirtied pages after which the dirty limits are checked, and the last pause.

use flashlab_sim::{Duration, Instant};

/// Time for which a pause counts as recent (`wb_recent_wait`).
const RECENT: Duration = Duration::from_secs(1);
/// Number of pages before the first check.
const FIRST_CHECK: u64 = 32;

/// Pages since the last check of the dirty limits, and the last pause.
#[derive(Clone, Debug)]
pub(super) struct WriterPauses {
    /// Pages dirtied since the last check.
    dirtied: u64,
    /// Number of dirtied pages at which the next check comes.
    check_at: u64,
    /// End of the last pause of a writer.
    last: Option<Instant>,
}

impl WriterPauses {
    pub(super) fn new() -> WriterPauses {
        WriterPauses { dirtied: 0, check_at: FIRST_CHECK, last: None }
    }

    /// Notes that `pages` pages became dirty. Returns true if the limits are to be checked.
    pub(super) fn add_dirtied(&mut self, pages: u64) -> bool {
        self.dirtied += pages;
        self.dirtied >= self.check_at
    }

    /// Begins a check. The next one comes after `interval` pages. Returns the number of pages since the last check.
    pub(super) fn begin_check(&mut self, interval: u64) -> u64 {
        self.check_at = interval;
        core::mem::take(&mut self.dirtied)
    }

    /// Notes a pause of a writer that ends at `end`.
    pub(super) fn pause_until(&mut self, end: Instant) {
        self.last = Some(end);
    }

    /// Returns true if a writer has paused within the last second.
    pub(super) fn is_recent(&self, now: Instant) -> bool {
        self.last.is_some_and(|pause| now < pause.saturating_add(RECENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_due_after_the_interval_of_the_last_check() {
        let mut pauses = WriterPauses::new();
        assert!(!pauses.add_dirtied(31) && pauses.add_dirtied(2));
        assert_eq!(pauses.begin_check(4), 33);
        assert!(!pauses.add_dirtied(3) && pauses.add_dirtied(1));
        assert_eq!(pauses.begin_check(1), 4);
    }

    #[test]
    fn a_pause_is_recent_until_a_second_after_its_end() {
        let mut pauses = WriterPauses::new();
        let ms = |ms| Instant::ZERO + Duration::from_ms(ms);
        assert!(!pauses.is_recent(ms(0)));
        pauses.pause_until(ms(200));
        assert!(pauses.is_recent(ms(100)) && pauses.is_recent(ms(1_199)) && !pauses.is_recent(ms(1_200)));
    }
}
