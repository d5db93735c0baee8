//! Waiting and active operations in one pool, with intrusive lists that need no allocation.

use crate::nand::{Finished, Operation};
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use flashlab_sim::{Duration, Instant};
use serde::{Deserialize, Serialize};

crate::index::index! {
    /// Index of an entry of the pool.
    pub(super) struct Slot;
}

/// An operation in flight. An entry fills one cache line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) submitted: Instant,
    pub(super) array: Duration,
    pub(super) transfer: Duration,
    /// Number of operations submitted earlier, which breaks ties.
    pub(super) number: u64,
    /// Next entry in the list.
    pub(super) next: Option<Slot>,
}

impl Entry {
    #[inline]
    pub(super) fn finished(&self, at: Instant) -> Finished {
        Finished {
            operation: self.operation,
            submitted: self.submitted,
            at,
            array: self.array,
            transfer: self.transfer,
        }
    }
}

/// Pool of all entries. The pool grows to the maximum number of operations in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pool {
    entries: Vec<Entry>,
    /// Head of the list of free slots.
    vacant: Option<Slot>,
}

impl Pool {
    pub(super) fn new() -> Self {
        Pool { entries: Vec::new(), vacant: None }
    }

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) -> Slot {
        let Some(slot) = self.vacant else {
            let slot = u32::try_from(self.entries.len()).ok().and_then(|number| Slot::try_from(number).ok());
            self.entries.push(entry);
            return slot.expect("fewer than 2^31 operations outstanding");
        };
        let vacant = &mut self.entries[slot.index() as usize];
        self.vacant = vacant.next;
        *vacant = entry;
        slot
    }

    /// Frees a slot and returns its content.
    #[inline]
    pub(super) fn remove(&mut self, slot: Slot) -> &Entry {
        let entry = &mut self.entries[slot.index() as usize];
        entry.next = self.vacant;
        self.vacant = Some(slot);
        entry
    }

    #[inline]
    pub(super) fn get(&self, slot: Slot) -> &Entry {
        &self.entries[slot.index() as usize]
    }
}

/// A queue of entries in the order of arrival.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Queue {
    head: Option<Slot>,
    tail: Option<Slot>,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: None, tail: None };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// Appends `slot`, whose entry is in no list (its `next` is `None`).
    #[inline]
    pub(super) fn push(&mut self, pool: &mut Pool, slot: Slot) {
        // A branch here would be unpredictable. For an empty queue, the assignment leaves the `next` of the new entry
        // at `None`.
        let (slot, empty) = (Some(slot), self.is_empty());
        self.head = select_unpredictable(empty, slot, self.head);
        let before = select_unpredictable(empty, slot, self.tail);
        // The index of `None` is never used: `before` is `slot` if the queue is empty.
        let before = before.map_or(0, Slot::index);
        pool.entries[before as usize].next = select_unpredictable(empty, None, slot);
        self.tail = slot;
    }

    /// Removes and returns the oldest entry.
    #[inline]
    pub(super) fn pop(&mut self, pool: &Pool) -> Option<Slot> {
        let slot = self.head?;
        self.head = pool.get(slot).next;
        Some(slot)
    }
}
