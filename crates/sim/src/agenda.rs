//! An event queue in simulated time.

use crate::Instant;
use alloc::collections::BinaryHeap;
use core::cmp::Ordering;
use serde::{Deserialize, Serialize};

/// Events ordered by due time. Events that are due at the same instant keep their order of insertion.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agenda<E> {
    entries: BinaryHeap<Entry<E>>,
    inserted: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Entry<E> {
    at: Instant,
    number: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Instant, u64) {
        (self.at, self.number)
    }
}
impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl<E> Eq for Entry<E> {}
impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Entry<E> {
    /// Reverses the order of the keys: `BinaryHeap` pops its greatest entry, and the earliest event has to come first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> Default for Agenda<E> {
    fn default() -> Self {
        Agenda { entries: BinaryHeap::new(), inserted: 0 }
    }
}

impl<E> Agenda<E> {
    /// Returns an empty agenda.
    pub fn new() -> Self {
        Self::default()
    }
    /// Schedules `event` at `at`.
    pub fn insert(&mut self, at: Instant, event: E) {
        self.entries.push(Entry { at, number: self.inserted, event });
        self.inserted += 1;
    }
    /// Returns the instant of the earliest event.
    pub fn next_due(&self) -> Option<Instant> {
        self.entries.peek().map(|entry| entry.at)
    }
    /// Removes and returns the earliest event if it is due at or before `limit`.
    pub fn pop(&mut self, limit: Instant) -> Option<(Instant, E)> {
        if self.next_due()? > limit {
            return None;
        }
        self.entries.pop().map(|entry| (entry.at, entry.event))
    }
    /// Removes all events.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
    /// Returns true if no event is scheduled.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// Returns the number of scheduled events.
    pub fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_in_order_of_time_then_of_insertion(times in prop::collection::vec(0u64..8, 0..60), limit in 0u64..8) {
            let mut agenda = Agenda::new();
            for (number, at) in times.iter().enumerate() {
                agenda.insert(Instant::from_ns(*at), number);
            }
            let mut expected: Vec<(u64, usize)> = times.iter().copied().zip(0..).filter(|(at, _)| *at <= limit).collect();
            expected.sort_unstable();
            let popped: Vec<(u64, usize)> =
                core::iter::from_fn(|| agenda.pop(Instant::from_ns(limit))).map(|(at, n)| (at.as_ns(), n)).collect();
            prop_assert_eq!(popped, expected);
            prop_assert!(agenda.next_due().is_none_or(|at| at > Instant::from_ns(limit)));
        }
    }
}
