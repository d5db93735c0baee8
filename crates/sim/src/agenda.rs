//! Events in the order in which they are due.

use crate::Instant;
use alloc::collections::BinaryHeap;
use core::cmp::Ordering;
use serde::{Deserialize, Serialize};

/// Events ordered by time, those of one instant by insertion.
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
    /// The heap gives its greatest first, so what is due first is the greatest.
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
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }
    /// Puts `event` down for `at`.
    pub fn insert(&mut self, at: Instant, event: E) {
        self.entries.push(Entry { at, number: self.inserted, event });
        self.inserted += 1;
    }
    /// When the next event is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.entries.peek().map(|entry| entry.at)
    }
    /// Takes the next event, if it is due at `limit` or before.
    pub fn pop(&mut self, limit: Instant) -> Option<(Instant, E)> {
        if self.next_due()? > limit {
            return None;
        }
        self.entries.pop().map(|entry| (entry.at, entry.event))
    }
    /// Forgets all events.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
    /// Whether nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
    /// How many events are to come.
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
