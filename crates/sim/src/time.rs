//! Instants and durations in integer nanoseconds.
//!
//! 64 bits hold 584 years, so arithmetic panics on overflow rather than wrap: an overflow is a mistake in a model.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use serde::{Deserialize, Serialize};

/// A point in simulated time: nanoseconds since the run began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Instant(u64);

/// A span of simulated time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Duration(u64);

impl Instant {
    /// Where a run begins.
    pub const ZERO: Instant = Instant(0);
    /// Later than everything.
    pub const MAX: Instant = Instant(u64::MAX);

    /// The instant `ns` nanoseconds after the beginning.
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }
    /// Nanoseconds since the beginning.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// The time from `earlier` to `self`; panics if `earlier` is later.
    #[track_caller]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.checked_sub(earlier.0).expect("`earlier` is not later than `self`"))
    }
    /// The time from `earlier` to `self`, zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// `self + d`, or [`Instant::MAX`] where that would overflow.
    pub const fn saturating_add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(d.0))
    }
}

impl Duration {
    /// No time at all.
    pub const ZERO: Duration = Duration(0);

    /// `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Duration(ns)
    }
    /// `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Duration(us * 1_000)
    }
    /// `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Duration(ms * 1_000_000)
    }
    /// `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Duration(s * 1_000_000_000)
    }
    /// Whole nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Seconds, for printing and rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// `numerator / denominator` seconds, rounded to the nearest nanosecond (a half rounds up).
    pub fn from_ratio_secs(numerator: u64, denominator: u64) -> Duration {
        let ns =
            (u128::from(numerator) * 1_000_000_000 + u128::from(denominator) / 2) / u128::from(denominator);
        Duration(u64::try_from(ns).expect("a duration of under 584 years"))
    }
    /// This duration times `numerator / denominator`, rounded to the nearest nanosecond.
    pub fn scale(self, numerator: u64, denominator: u64) -> Duration {
        let ns = (u128::from(self.0) * u128::from(numerator) + u128::from(denominator) / 2)
            / u128::from(denominator);
        Duration(u64::try_from(ns).expect("a duration of under 584 years"))
    }
    /// `self - other`, zero where that would be negative.
    pub const fn saturating_sub(self, other: Duration) -> Duration {
        Duration(self.0.saturating_sub(other.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;
    fn add(self, d: Duration) -> Instant {
        Instant(self.0.checked_add(d.0).expect("simulated time stays under 584 years"))
    }
}
impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}
impl Add for Duration {
    type Output = Duration;
    fn add(self, d: Duration) -> Duration {
        Duration(self.0.checked_add(d.0).expect("a duration of under 584 years"))
    }
}
impl AddAssign for Duration {
    fn add_assign(&mut self, d: Duration) {
        *self = *self + d;
    }
}
impl Sub for Duration {
    type Output = Duration;
    #[track_caller]
    fn sub(self, d: Duration) -> Duration {
        Duration(self.0.checked_sub(d.0).expect("a duration is not negative"))
    }
}
impl SubAssign for Duration {
    #[track_caller]
    fn sub_assign(&mut self, d: Duration) {
        *self = *self - d;
    }
}
impl Mul<u64> for Duration {
    type Output = Duration;
    fn mul(self, n: u64) -> Duration {
        Duration(self.0.checked_mul(n).expect("a duration of under 584 years"))
    }
}
impl Div<u64> for Duration {
    type Output = Duration;
    fn div(self, n: u64) -> Duration {
        Duration(self.0 / n)
    }
}
impl core::iter::Sum for Duration {
    fn sum<I: Iterator<Item = Duration>>(iter: I) -> Duration {
        iter.fold(Duration::ZERO, Add::add)
    }
}

impl fmt::Display for Duration {
    /// The shortest of ns, us, ms and s that keeps the number at one or more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, divisor) = match self.0 {
            0..1_000 => ("ns", 1.0),
            1_000..1_000_000 => ("us", 1e3),
            1_000_000..1_000_000_000 => ("ms", 1e6),
            _ => ("s", 1e9),
        };
        write!(f, "{}{unit}", self.0 as f64 / divisor)
    }
}
impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", Duration(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_ratio_of_seconds_rounds_to_the_nearest_nanosecond() {
        assert_eq!(Duration::from_ratio_secs(4114, 30_000_000), Duration::from_ns(137_133));
        assert_eq!(Duration::from_ratio_secs(1, 3), Duration::from_ns(333_333_333));
    }

    #[test]
    fn durations_print_in_the_unit_that_reads_best() {
        assert_eq!(format!("{}", Duration::from_ns(225_000)), "225us");
        assert_eq!(format!("{}", Duration::from_ns(9_230_000)), "9.23ms");
    }
}
