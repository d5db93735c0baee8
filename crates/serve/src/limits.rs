//! What clients may take of a server, together and each.

use flashlab_sim::Duration;
use std::sync::{Condvar, Mutex, PoisonError};

/// What clients may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections at a time; more of them wait until one ends.
    pub connections: usize,
    /// Bytes of large requests (those above [`SMALL`]) at a time, over all connections; more of them wait.
    pub bytes_in_flight: u64,
    /// How long a client may take to agree on an export.
    pub handshake: Duration,
    /// How long connections have to finish once the server is to end.
    pub grace: Duration,
    /// Whether replies in chunks are offered: without them there are no holes and no block status, and clients of libnbd
    /// need two calls fewer a read.
    pub structured_replies: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 4096,
            bytes_in_flight: 1 << 30,
            handshake: Duration::from_secs(10),
            grace: Duration::from_secs(10),
            structured_replies: true,
        }
    }
}

/// Bytes of a request that never waits for others: a connection's own buffers hold it.
pub const SMALL: usize = 1 << 20;

/// The bytes that large requests may still take.
#[derive(Debug)]
pub(crate) struct Budget {
    whole: u64,
    left: Mutex<u64>,
    freed: Condvar,
}

/// Bytes taken from a [`Budget`]; they go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Taken<'a>(&'a Budget, u64);

impl Budget {
    pub(crate) fn new(bytes: u64) -> Budget {
        Budget { whole: bytes, left: Mutex::new(bytes), freed: Condvar::new() }
    }

    /// Takes `bytes` if they are there.
    pub(crate) fn try_take(&self, bytes: u64) -> Option<Taken<'_>> {
        let bytes = bytes.min(self.whole);
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.checked_sub(bytes)?;
        Some(Taken(self, bytes))
    }

    /// Takes `bytes`, and waits until they are there; the whole budget where it is smaller.
    pub(crate) fn take(&self, bytes: u64) -> Taken<'_> {
        let bytes = bytes.min(self.whole);
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left =
            self.freed.wait_while(left, |left| *left < bytes).unwrap_or_else(PoisonError::into_inner);
        *left -= bytes;
        Taken(self, bytes)
    }
}

impl Taken<'_> {
    /// So many of its bytes on their own, or all that there are.
    pub(crate) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.1);
        self.1 -= bytes;
        Taken(self.0, bytes)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += self.1;
        self.0.freed.notify_all();
    }
}
