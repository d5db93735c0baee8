//! Bounds on the load that clients may cause.

use std::time::Duration;

/// Bounds on the load that clients may cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of open connections. A further connection is closed at once.
    pub connections: usize,
    /// Maximum number of event streams. A further stream is answered with status 503, and its connection is closed. A
    /// maximum below `connections` therefore prevents streams from locking out commands.
    pub streams: usize,
    /// Maximum length in bytes of the body of a command.
    pub body: usize,
    /// Maximum time to receive the head of a request, including the time since the previous request, and to receive the
    /// body of a command.
    pub request: Duration,
    /// Maximum time for which a client may read nothing of a response that is being sent.
    pub stall: Duration,
    /// Interval at which a changed state is sent to event streams. The state after a command is sent at once.
    pub tick: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 256,
            streams: 64,
            body: 64 << 10,
            request: Duration::from_secs(10),
            stall: Duration::from_secs(20),
            tick: Duration::from_millis(100),
        }
    }
}
