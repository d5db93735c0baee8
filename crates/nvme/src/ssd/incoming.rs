//! Writes whose data travels to the drive or waits for the write buffer.
//!
//! # Invariant
//! The link serves in order, so the instants of arrival never decrease and only the oldest write can be the
//! next to arrive. `has_arrived` and `is_rejected` describe the oldest write. A rejected oldest write waits
//! until the array frees space, so arrivals cause no event meanwhile.

use alloc::collections::VecDeque;
use flashlab_sim::Instant;

/// The incoming writes, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Incoming {
    /// Instant of arrival and slot of each write.
    writes: VecDeque<(Instant, u32)>,
    /// True once the data of the oldest write has arrived.
    has_arrived: bool,
    /// True if the full write buffer rejected the oldest write.
    is_rejected: bool,
}

impl Incoming {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
    /// Adds a write whose data arrives at `at`.
    #[inline]
    pub(super) fn push(&mut self, at: Instant, slot: u32) {
        debug_assert!(self.writes.back().is_none_or(|(last, _)| *last <= at), "the link serves in order");
        self.writes.push_back((at, slot));
    }
    /// Records that the data of the oldest write has arrived.
    #[inline]
    pub(super) fn arrive(&mut self) {
        self.has_arrived = true;
    }
    /// Returns true if the write buffer rejected the oldest write.
    #[inline]
    pub(super) fn is_rejected(&self) -> bool {
        self.is_rejected
    }
    /// Returns the oldest write if its data has arrived by `now`. Data that arrives exactly at `now` counts
    /// only after [`Incoming::arrive`], because events of the same instant are handled one after the other.
    #[inline]
    pub(super) fn arrived(&self, now: Instant) -> Option<u32> {
        let (at, slot) = *self.writes.front()?;
        (self.has_arrived || at < now).then_some(slot)
    }
    /// Records that the write buffer rejected the oldest write.
    #[inline]
    pub(super) fn reject(&mut self) {
        self.is_rejected = true;
    }
    /// Removes the oldest write, which is in the write buffer or has failed.
    #[inline]
    pub(super) fn accept(&mut self) {
        self.writes.pop_front();
        (self.has_arrived, self.is_rejected) = (false, false);
    }
    /// Returns the instant of the next arrival that is an event, or [`Instant::MAX`].
    #[inline]
    pub(super) fn next_arrival(&self) -> Instant {
        let first = self.writes.front().filter(|_| !self.is_rejected);
        first.map_or(Instant::MAX, |(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_write_blocks_the_others_until_it_is_accepted() {
        let at = Instant::from_ns;
        let mut incoming = Incoming::default();
        assert_eq!((incoming.arrived(at(9)), incoming.next_arrival()), (None, Instant::MAX));
        incoming.push(at(5), 1);
        incoming.push(at(7), 2);
        assert_eq!((incoming.arrived(at(5)), incoming.next_arrival()), (None, at(5)));
        incoming.arrive();
        assert_eq!(incoming.arrived(at(5)), Some(1));
        incoming.reject();
        assert_eq!((incoming.is_rejected(), incoming.next_arrival()), (true, Instant::MAX));
        incoming.accept();
        assert_eq!((incoming.is_rejected(), incoming.next_arrival()), (false, at(7)));
        assert_eq!((incoming.arrived(at(7)), incoming.arrived(at(8))), (None, Some(2)));
    }
}
