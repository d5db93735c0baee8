//! Writes in flight that have taken space, for which a write without space may wait: a write that ends frees the space of
//! the data that it replaces.

use super::Counted;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// The writes in flight that have taken space.
#[derive(Default)]
pub(super) struct Writes {
    /// Number of writes that have taken a part of their space, and wait for the rest.
    holding: AtomicU32,
    /// Number of writes that have taken their space, and have not mapped their data yet.
    storing: AtomicU32,
    /// Wakes the requests that wait for the end of such a write.
    stored: Notify,
}

/// A write that has taken its space, and has not mapped its data yet.
pub(super) struct Storing<'a>(&'a Writes);

impl Writes {
    /// Counts a write that waits for the rest of its space while the result lives.
    pub(super) fn hold(&self) -> Counted<'_> {
        Counted::new(&self.holding)
    }

    /// Returns true if a write waits for the rest of its space.
    pub(super) fn are_holding(&self) -> bool {
        self.holding.load(Ordering::SeqCst) > 0
    }

    /// Counts a write that stores its data while the result lives.
    pub(super) fn store(&self) -> Storing<'_> {
        self.storing.fetch_add(1, Ordering::SeqCst);
        Storing(self)
    }

    /// Returns true if a write stores its data.
    pub(super) fn are_storing(&self) -> bool {
        self.storing.load(Ordering::SeqCst) > 0
    }

    /// Returns a future that waits until a write has stored its data.
    pub(super) fn stored(&self) -> Notified<'_> {
        self.stored.notified()
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        self.0.storing.fetch_sub(1, Ordering::SeqCst);
        self.0.stored.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    #[test]
    fn the_end_of_a_write_wakes_those_that_wait_and_the_end_of_a_wait_for_space_does_not() {
        let writes = Writes::default();
        let (holding, storing) = (writes.hold(), writes.store());
        assert!(writes.are_holding() && writes.are_storing());
        let mut waiting = pin!(writes.stored());
        waiting.as_mut().enable();
        let mut poll = || waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(holding);
        assert!(!writes.are_holding() && poll() == Poll::Pending);
        drop(storing);
        assert!(!writes.are_storing() && poll() == Poll::Ready(()));
    }
}
