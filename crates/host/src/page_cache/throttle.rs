//! Limits on the number of writes in flight, which follow the latency of reads (Linux 6.1, block/blk-wbt.c
//! and blk-rq-qos.c).
//!
//! A window begins with a write. If even the fastest read of the window took more than 2 ms, the limits
//! halve. Otherwise, or if the device only wrote, they double, up to three quarters of the device's queue.
//! After five windows without writes, they move one step towards their initial value. A window is 100 ms
//! long unless the limits are lowered; the lower the limits, the shorter the window.
//!
//! Not modelled: the target of 75 ms for devices that Linux considers rotational.

use flashlab_sim::{Duration, Instant, Op};

/// Limit of a new device (`RWB_DEF_DEPTH`).
const DEPTH: u64 = 16;
/// Requests in the queue of the device: 64 in the drivers of SD cards and of the recorded device.
const QUEUE_DEPTH: u64 = 64;
/// Length of a window while the limits are not lowered (`RWB_WINDOW_NSEC`).
const WINDOW: Duration = Duration::from_ms(100);
/// Longest acceptable latency of the fastest read (`wbt_default_latency_nsec`).
const READ_LATENCY: Duration = Duration::from_ms(2);
/// Minimum number of writes in a window for a judgement of their effect on reads (`RWB_MIN_WRITE_SAMPLES`).
const WRITES_MIN: u64 = 3;
/// Number of consecutive windows without a result after which the limits move one step towards their initial
/// value (`RWB_UNKNOWN_BUMP`).
const UNKNOWN_MAX: u32 = 5;

/// Result of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Latency {
    Acceptable,
    Exceeded,
    /// Writes, but no reads, or too few writes to judge their effect on reads.
    WritesOnly,
    /// No writes.
    Unknown,
}

/// Requests that completed in the current window.
#[derive(Clone, Copy, Debug, Default)]
struct Samples {
    fastest_read: Option<Duration>,
    writes: u64,
}

/// Limits on the number of writes in flight.
#[derive(Clone, Debug, Default)]
pub(super) struct Throttle {
    /// Number of halvings of the limits; negative for doublings.
    step: i32,
    /// True if another doubling would have no effect.
    is_highest: bool,
    /// Length of the current window.
    window: Option<Duration>,
    samples: Samples,
    unknown: u32,
    /// A read in the device, and the instant at which the driver took it.
    read_in_device: Option<(u64, Instant)>,
}

impl Throttle {
    /// Returns the limit for writes that a call waits for, and for all writes after a writer has paused.
    pub(super) fn limit(&self) -> usize {
        self.depth().0 as usize
    }

    /// Returns the limit while the last close writes everything. In the recorded runs, doublings have no effect on this
    /// limit, perhaps because the close and the flusher wait in turn.
    pub(super) fn close_limit(&self) -> usize {
        self.limit().min(DEPTH as usize)
    }

    /// Returns the limit for writes of the flusher in all other cases.
    pub(super) fn background_limit(&self) -> usize {
        if self.limit() <= 2 { 1 } else { self.limit().div_ceil(4) }
    }

    /// Returns true if submitters that wait for room wake when `in_flight` writes are left. They always wake
    /// at zero. Within a second after a pause of a writer, they wake already when somewhat fewer writes than
    /// half of the limit are left.
    ///
    /// This is the rule for a device with a volatile cache. For a device without a volatile cache, Linux
    /// wakes submitters earlier. This makes no difference if the driver takes only a few requests at a time.
    pub(super) fn wakes(&self, in_flight: usize, has_paused: bool) -> bool {
        let normal = if self.limit() <= 2 { self.limit() } else { self.limit().div_ceil(2) };
        in_flight == 0
            || has_paused && in_flight < normal && normal - in_flight >= self.background_limit() / 2
    }

    /// Notes a write. Returns the length of the window that begins with it, if one does.
    pub(super) fn begin_window(&mut self) -> Option<Duration> {
        if self.window.is_some() { None } else { self.set_window() }
    }

    /// Notes a request that the driver takes at `now`.
    pub(super) fn take(&mut self, id: u64, op: Op, now: Instant) {
        if op == Op::Read {
            self.read_in_device.get_or_insert((id, now));
        }
    }

    /// Notes the completion of a request.
    pub(super) fn complete(&mut self, id: u64, op: Op, latency: Duration) {
        if self.read_in_device.is_some_and(|(read, _)| read == id) {
            self.read_in_device = None;
        }
        if op == Op::Read {
            let fastest = self.samples.fastest_read.map_or(latency, |fastest| fastest.min(latency));
            self.samples.fastest_read = Some(fastest);
        } else if op.is_write() {
            self.samples.writes += 1;
        }
    }

    /// Ends the window at `now` and adjusts the limits. `in_flight` is the number of writes in flight, and `has_paused`
    /// is true if a writer has paused recently. Returns the length of the next window, if one begins.
    pub(super) fn end_window(
        &mut self,
        now: Instant,
        in_flight: usize,
        has_paused: bool,
    ) -> Option<Duration> {
        match self.judge(now, in_flight > 0 || has_paused) {
            Latency::Exceeded => self.lower(true),
            Latency::Acceptable | Latency::WritesOnly => self.raise(),
            Latency::Unknown => {
                self.unknown += 1;
                if self.unknown >= UNKNOWN_MAX && self.step > 0 {
                    self.raise();
                } else if self.unknown >= UNKNOWN_MAX && self.step < 0 {
                    self.lower(false);
                }
            }
        }
        self.samples = Samples::default();
        self.window = None;
        if self.step != 0 || in_flight > 0 { self.set_window() } else { None }
    }

    fn judge(&self, now: Instant, is_writing: bool) -> Latency {
        let Samples { fastest_read, writes } = self.samples;
        if let Some((_, since)) = self.read_in_device {
            let age = now.since(since);
            if self.window.is_some_and(|window| age > window)
                || (age > READ_LATENCY && fastest_read.is_none())
            {
                return Latency::Exceeded;
            }
        }
        match fastest_read {
            Some(fastest) if writes >= WRITES_MIN && fastest > READ_LATENCY => Latency::Exceeded,
            Some(_) if writes >= WRITES_MIN => Latency::Acceptable,
            _ if writes > 0 || is_writing => Latency::WritesOnly,
            _ => Latency::Unknown,
        }
    }

    /// Returns the limit, and true if it is the highest one.
    fn depth(&self) -> (u64, bool) {
        let most = 3 * QUEUE_DEPTH / 4;
        let depth = match self.step {
            0.. => 1 + ((DEPTH - 1) >> self.step.min(31)),
            _ => 1 + ((DEPTH - 1) << (-self.step).min(31)),
        };
        (depth.min(most), depth > most)
    }

    fn raise(&mut self) {
        if !self.is_highest {
            self.step -= 1;
            self.is_highest = self.depth().1;
            self.unknown = 0;
        }
    }

    /// Lowers the limits by a step; with `at_once`, raised limits fall to their initial value.
    fn lower(&mut self, at_once: bool) {
        if self.limit() > 1 {
            self.step = if self.step < 0 && at_once { 0 } else { self.step + 1 };
            self.is_highest = false;
            self.unknown = 0;
        }
    }

    fn set_window(&mut self) -> Option<Duration> {
        let root = u64::from((u32::try_from(self.step.max(0)).unwrap_or(0) + 1) << 8).isqrt();
        self.window = Some(Duration::from_ns((WINDOW.as_ns() << 4) / root));
        self.window
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Ends `count` windows, each after a read of `latency` and some writes. Returns the limit after each window.
    fn windows(throttle: &mut Throttle, count: usize, latency: Option<Duration>, writes: u64) -> Vec<usize> {
        (0..count)
            .map(|_| {
                if let Some(latency) = latency {
                    throttle.complete(0, Op::Read, latency);
                }
                (0..writes).for_each(|n| throttle.complete(n, Op::Write, Duration::from_ms(9)));
                throttle.end_window(Instant::ZERO, 0, false);
                throttle.limit()
            })
            .collect()
    }

    #[test]
    fn slow_reads_beside_writes_halve_the_limits_down_to_one() {
        let mut throttle = Throttle::default();
        assert_eq!((throttle.limit(), throttle.background_limit()), (16, 4));
        let slow = Some(READ_LATENCY + Duration::from_ns(1));
        assert_eq!(windows(&mut throttle, 6, slow, WRITES_MIN), [8, 4, 2, 1, 1, 1]);
        assert_eq!(throttle.background_limit(), 1);
    }

    #[test]
    fn writes_alone_and_quick_reads_double_the_limits_up_to_three_quarters_of_the_queue() {
        assert_eq!(windows(&mut Throttle::default(), 4, None, 1), [31, 48, 48, 48]);
        let mut throttle = Throttle::default();
        assert_eq!(windows(&mut throttle, 3, Some(READ_LATENCY), WRITES_MIN), [31, 48, 48]);
        assert_eq!((throttle.background_limit(), throttle.close_limit()), (12, 16));
    }

    #[test]
    fn slow_reads_undo_all_doublings_at_once() {
        let mut throttle = Throttle::default();
        windows(&mut throttle, 3, None, 9);
        assert_eq!(windows(&mut throttle, 2, Some(Duration::from_ms(5)), 9), [16, 8]);
    }

    #[test]
    fn slow_reads_beside_few_writes_do_not_lower_the_limits() {
        assert_eq!(windows(&mut Throttle::default(), 1, Some(Duration::from_ms(5)), WRITES_MIN - 1), [31]);
        assert_eq!(windows(&mut Throttle::default(), 1, Some(Duration::from_ms(5)), 0), [16]);
    }

    #[test]
    fn idle_windows_return_to_the_first_limits_and_then_end() {
        let mut throttle = Throttle::default();
        windows(&mut throttle, 1, Some(Duration::from_ms(5)), 9);
        assert_eq!(windows(&mut throttle, 5, None, 0), [8, 8, 8, 8, 16]);
        assert_eq!(throttle.window, None, "no timer runs on an idle device");
        windows(&mut throttle, 1, None, 9);
        assert_eq!(windows(&mut throttle, 5, None, 0), [31, 31, 31, 31, 16]);
    }

    #[test]
    fn a_read_that_never_ends_lowers_the_limits() {
        let mut throttle = Throttle::default();
        throttle.take(7, Op::Read, Instant::ZERO);
        throttle.end_window(Instant::ZERO + READ_LATENCY + Duration::from_ns(1), 0, false);
        assert_eq!(throttle.limit(), 8);
        throttle.complete(7, Op::Read, Duration::from_ms(1));
        assert_eq!(throttle.judge(Instant::ZERO + WINDOW, false), Latency::Unknown);
    }

    #[test]
    fn windows_become_shorter_with_the_limits() {
        let mut throttle = Throttle::default();
        assert_eq!(throttle.begin_window(), Some(WINDOW));
        assert_eq!(throttle.begin_window(), None, "the window goes on");
        throttle.lower(true);
        // 16 / isqrt(2 * 256) of a window.
        assert_eq!(throttle.set_window(), Some(Duration::from_ns(WINDOW.as_ns() * 16 / 22)));
    }

    #[test]
    fn waiting_writers_wake_when_all_writes_are_complete_and_earlier_after_a_pause() {
        let mut throttle = Throttle::default();
        let wakes = |throttle: &Throttle, paused| (0..=48).filter(|n| throttle.wakes(*n, paused)).max();
        assert_eq!((wakes(&throttle, false), wakes(&throttle, true)), (Some(0), Some(6)));
        throttle.step = -2;
        assert_eq!((wakes(&throttle, false), wakes(&throttle, true)), (Some(0), Some(18)));
        throttle.step = 4;
        assert_eq!((throttle.limit(), wakes(&throttle, true)), (1, Some(0)));
    }
}
