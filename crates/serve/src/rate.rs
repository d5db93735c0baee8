//! The minimum rate at which a client has to send a request that it has begun, and to receive its replies.

use crate::Clock;
use flashlab_sim::{Duration, Instant};
use std::fmt;
use std::io;

/// A minimum rate, checked for each window of waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeastRate {
    /// Rate in bytes per second.
    pub bytes_per_second: u64,
    /// Time in which a stalled transfer has to reach the rate again.
    pub window: Duration,
}

impl Default for LeastRate {
    /// 16 KiB/s over 30 s. No link that carries a block device is slower; nginx gives a stalled client 60 s.
    fn default() -> Self {
        LeastRate { bytes_per_second: 16 << 10, window: Duration::from_secs(30) }
    }
}

/// Direction of a transfer, as the server sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Receiving,
    Sending,
}

/// A transfer that waits for its peer.
#[derive(Debug)]
pub(crate) struct Progress {
    least: LeastRate,
    direction: Direction,
    clock: Clock,
    since: Instant,
    waited: Duration,
    bytes: u64,
}

impl Progress {
    /// Starts the measurement.
    pub(crate) fn new(least: LeastRate, direction: Direction) -> Progress {
        let clock = Clock::start();
        Progress { least, direction, since: clock.now(), clock, waited: Duration::ZERO, bytes: 0 }
    }

    /// Excludes the time since the last call, for which the peer is not responsible.
    pub(crate) fn resume(&mut self) {
        self.since = self.clock.now();
    }

    /// Counts `bytes` and the time since the last call. Returns an error at the end of a window in which the peer
    /// fell below the rate.
    pub(crate) fn moved(&mut self, bytes: u64) -> io::Result<()> {
        let now = self.clock.now();
        self.waited += now.since(self.since);
        self.since = now;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < self.least.window {
            return Ok(());
        }
        // A wait may have lasted several windows.
        let due = u128::from(self.least.bytes_per_second) * u128::from(self.waited.as_ns()) / 1_000_000_000;
        if u128::from(self.bytes) < due.max(1) {
            let Progress { least, direction, waited, bytes, .. } = *self;
            return Err(TooSlow { least, direction, waited, bytes }.into());
        }
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        Ok(())
    }
}

/// The error for a client below the minimum rate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooSlow {
    least: LeastRate,
    direction: Direction,
    waited: Duration,
    bytes: u64,
}

impl fmt::Display for TooSlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooSlow { least, direction, waited, bytes } = self;
        let did = match direction {
            Direction::Receiving => "sent",
            Direction::Sending => "received",
        };
        let of = match direction {
            Direction::Receiving => "a request that it had begun",
            Direction::Sending => "its replies",
        };
        let seconds = waited.as_ns() as f64 / 1e9;
        let rate = least.bytes_per_second;
        write!(f, "the client {did} {bytes} bytes of {of} in {seconds:.1} s; the minimum is {rate} B/s")
    }
}

impl std::error::Error for TooSlow {}

impl From<TooSlow> for io::Error {
    fn from(slow: TooSlow) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, slow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_too_slow_only_after_a_whole_window() {
        let least = LeastRate { bytes_per_second: 1 << 40, window: Duration::from_ms(1) };
        let mut progress = Progress::new(least, Direction::Sending);
        progress.moved(0).or_else(|_| progress.moved(1 << 50)).expect("the second call moves enough bytes");
        let mut progress = Progress::new(least, Direction::Sending);
        let error = loop {
            if let Err(error) = progress.moved(1) {
                break error;
            }
        };
        assert!(error.get_ref().is_some_and(|inner| inner.is::<TooSlow>()));
        assert!(error.to_string().starts_with("the client received "), "{error}");
    }
}
