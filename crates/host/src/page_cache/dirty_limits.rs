//! Dirty limits: when write-back begins, and how long a writer pauses (Linux 6.1, mm/page-writeback.c).
//!
//! `dirty` counts dirty pages and pages in write-back. Below the midpoint of the two thresholds (the
//! *freerun* ceiling), no writer pauses. Above the ceiling, the rate at which all writers together dirty
//! pages is the write rate of the device times a ratio. The ratio falls with the cube of the distance from
//! the set point: it is 2 far below the set point, 1 at the set point, and 0 at the limit.
//!
//! Not modelled: limits per device and per control group, and the estimate that Linux makes of each task's share. Here,
//! all writers share one rate.

use super::parameters::Settings;
use flashlab_sim::Duration;

/// Thresholds in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DirtyLimits {
    background: u64,
    limit: u64,
}

/// Longest pause (`MAX_PAUSE`, HZ/5).
pub(super) const PAUSE_MAX: Duration = Duration::from_ms(200);
/// Pause that Linux aims for. Above the freerun ceiling, the limits are checked after writers have dirtied as
/// many pages as the device writes back in this time.
const PAUSE_TARGET: Duration = Duration::from_ms(10);
/// Minimum number of pages between two checks (`DIRTY_POLL_THRESH`, 128 KiB).
const POLL_MIN: u64 = 32;
/// Fractional bits of the fixed-point ratio: `RATELIMIT_CALC_SHIFT`.
const SHIFT: u32 = 10;

impl DirtyLimits {
    /// Returns the limits of a cache.
    pub(super) fn new(settings: &Settings) -> DirtyLimits {
        let share = |percent: u32| settings.pages() * u64::from(percent) / 100;
        let limit = share(settings.dirty);
        let background = share(settings.dirty_background);
        DirtyLimits { background: if background >= limit { limit / 2 } else { background }, limit }
    }

    /// Returns the number of dirty pages and pages in write-back that the limit allows.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns true if the flusher writes pages back regardless of their age. `dirty` excludes pages in write-back.
    pub(super) fn is_above_background(&self, dirty: u64) -> bool {
        dirty > self.background
    }

    /// Returns the number of pages below which writers run freely.
    fn freerun(&self) -> u64 {
        (self.background + self.limit) / 2
    }

    /// Returns the ratio of the writers' rate to that of the device, times 1024: `pos_ratio_polynom`.
    fn position_ratio(&self, dirty: u64) -> u64 {
        if dirty >= self.limit {
            return 0;
        }
        let set_point = (self.freerun() + self.limit) / 2;
        let distance = set_point as i64 - dirty as i64;
        let x = (distance << SHIFT) / ((self.limit - set_point) as i64 | 1);
        let cube = (((x * x) >> SHIFT) * x) >> SHIFT;
        (cube + (1 << SHIFT)).clamp(0, 2 << SHIFT) as u64
    }

    /// Returns the rate of all writers in pages a second while `bandwidth` pages a second are written back; `None` if
    /// they run freely.
    pub(super) fn rate(&self, dirty: u64, bandwidth: u64) -> Option<u64> {
        (dirty > self.freerun()).then(|| (bandwidth * self.position_ratio(dirty)) >> SHIFT)
    }

    /// Returns the number of pages that a writer dirties before the limits are checked again. Up to the freerun
    /// ceiling, it is roughly the square root of the distance to the limit (`dirty_poll_interval`).
    pub(super) fn poll_interval(&self, dirty: u64, bandwidth: u64) -> u64 {
        if dirty > self.freerun() {
            return (bandwidth * PAUSE_TARGET.as_ns() / 1_000_000_000).max(POLL_MIN);
        }
        let left = self.limit.saturating_sub(dirty);
        if left == 0 { 1 } else { 1 << (left.ilog2() / 2) }
    }

    /// Returns the pause of a writer that has dirtied `pages` since its last check, at `rate` pages a second.
    pub(super) fn pause(pages: u64, rate: u64, poll_interval: u64) -> Duration {
        // The limits are checked several times during a long write, and each check adds a pause.
        let pauses = (pages / poll_interval.max(1)).max(1);
        let longest = PAUSE_MAX.as_ns() * pauses;
        let ns = (pages * 1_000_000_000).checked_div(rate).map(|ns| ns.min(longest));
        ns.map_or(PAUSE_MAX, Duration::from_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100,000 pages: background at 10,000, freerun up to 15,000, set point 17,500, limit 20,000.
    fn limits() -> DirtyLimits {
        DirtyLimits::new(&Settings::linux(100_000 * 4096))
    }

    #[test]
    fn thresholds_are_shares_of_the_memory() {
        let limits = limits();
        assert_eq!((limits.background, limits.freerun(), limits.limit()), (10_000, 15_000, 20_000));
        assert!(!limits.is_above_background(10_000) && limits.is_above_background(10_001));
        let ill = DirtyLimits::new(&Settings { dirty_background: 50, ..Settings::linux(100_000 * 4096) });
        assert_eq!(ill.background, 10_000, "half of the limit, as in domain_dirty_limits");
    }

    #[test]
    fn writers_run_freely_below_the_midpoint_of_the_thresholds_and_stop_at_the_limit() {
        let limits = limits();
        assert_eq!(limits.rate(15_000, 5_000), None);
        assert!(limits.rate(15_001, 5_000).is_some_and(|rate| rate > 9_900), "twice the bandwidth");
        assert_eq!(limits.rate(17_500, 5_000), Some(5_000), "at the set point");
        assert_eq!(limits.rate(20_000, 5_000), Some(0));
        // Halfway between the freerun ceiling and the set point: 1 + (1/2)^3.
        assert!((5_600..=5_650).contains(&limits.rate(16_250, 5_000).expect("it is above freerun")));
    }

    #[test]
    fn pauses_enforce_the_rate_and_have_a_limit() {
        assert_eq!(DirtyLimits::pause(50, 5_000, 50), Duration::from_ms(10));
        assert_eq!(DirtyLimits::pause(50, 10, 50), PAUSE_MAX);
        assert_eq!(DirtyLimits::pause(500, 1_000, 50), Duration::from_ms(500), "ten pauses of 50 ms");
        assert_eq!(DirtyLimits::pause(500, 0, 50), PAUSE_MAX);
    }

    #[test]
    fn checks_come_more_often_near_the_limit() {
        let limits = limits();
        assert_eq!(limits.poll_interval(3_616, 5_000), 128, "the root of 16,384");
        assert_eq!(limits.poll_interval(16_000, 5_000), 50, "10 ms at the bandwidth");
        assert_eq!(limits.poll_interval(16_000, 100), 32, "128 KiB at least");
    }
}
