//! Instants and durations in integer nanoseconds.
//!
//! 64 bits cover 584 years. Arithmetic panics on overflow, because an overflow is a bug in a model.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};
use serde::{Deserialize, Serialize};

/// A point in simulated time, in nanoseconds since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Instant(u64);

/// A span of simulated time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Duration(u64);

impl Instant {
    /// Start of a run.
    pub const ZERO: Instant = Instant(0);
    /// The latest instant.
    pub const MAX: Instant = Instant(u64::MAX);

    /// Returns the instant `ns` nanoseconds after the start.
    pub const fn from_ns(ns: u64) -> Self {
        Instant(ns)
    }
    /// Returns the nanoseconds since the start.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Returns the time from `earlier` to `self`. Panics if `earlier` is later than `self`.
    #[track_caller]
    pub fn since(self, earlier: Instant) -> Duration {
        Duration(self.0.checked_sub(earlier.0).expect("`earlier` is not later than `self`"))
    }
    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later than `self`.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }
    /// Returns `self - d`, or the start on underflow.
    pub const fn saturating_sub(self, d: Duration) -> Instant {
        Instant(self.0.saturating_sub(d.0))
    }
    /// Returns `self + d`, or [`Instant::MAX`] on overflow.
    pub const fn saturating_add(self, d: Duration) -> Instant {
        Instant(self.0.saturating_add(d.0))
    }
}

impl Duration {
    /// Zero.
    pub const ZERO: Duration = Duration(0);

    /// Returns `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Duration(ns)
    }
    /// Returns `us` microseconds.
    pub const fn from_us(us: u64) -> Self {
        Duration(us.checked_mul(1_000).expect("a duration of under 584 years"))
    }
    /// Returns `ms` milliseconds.
    pub const fn from_ms(ms: u64) -> Self {
        Duration(ms.checked_mul(1_000_000).expect("a duration of under 584 years"))
    }
    /// Returns `s` seconds.
    pub const fn from_secs(s: u64) -> Self {
        Duration(s.checked_mul(1_000_000_000).expect("a duration of under 584 years"))
    }
    /// Returns the duration in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }
    /// Returns the duration in seconds, for printing and for rates.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// Returns `numerator / denominator` seconds, rounded to the nearest nanosecond; halves round up.
    pub fn from_ratio_secs(numerator: u64, denominator: u64) -> Duration {
        let ns =
            (u128::from(numerator) * 1_000_000_000 + u128::from(denominator) / 2) / u128::from(denominator);
        Duration(u64::try_from(ns).expect("a duration of under 584 years"))
    }
    /// Returns this duration times `numerator / denominator`, rounded to the nearest nanosecond.
    pub fn scale(self, numerator: u64, denominator: u64) -> Duration {
        let ns = (u128::from(self.0) * u128::from(numerator) + u128::from(denominator) / 2)
            / u128::from(denominator);
        Duration(u64::try_from(ns).expect("a duration of under 584 years"))
    }
    /// Returns `self - other`, or zero if `other` is longer.
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
    /// Prints the duration in the largest of the units ns, us, ms and s in which the number is at least one.
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
    fn durations_print_in_the_largest_unit_with_a_number_of_at_least_one() {
        assert_eq!(format!("{}", Duration::from_ns(225_000)), "225us");
        assert_eq!(format!("{}", Duration::from_ns(9_230_000)), "9.23ms");
    }
}
