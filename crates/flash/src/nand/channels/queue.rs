//! Waiting and active operations in one pool, with intrusive lists that need no allocation.

use crate::nand::{Finished, Operation};
use alloc::vec::Vec;
use core::hint::select_unpredictable;
use flashlab_sim::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Index that stands for no operation.
pub(super) const NONE: u32 = u32::MAX;

/// An operation in flight. An entry fills one cache line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) operation: Operation,
    pub(super) submitted: Instant,
    pub(super) array: Duration,
    pub(super) transfer: Duration,
    /// Number of operations submitted earlier, which decides among equals.
    pub(super) number: u64,
    /// Next entry in the list.
    pub(super) next: u32,
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
    vacant: u32,
}

impl Pool {
    pub(super) fn new() -> Self {
        Pool { entries: Vec::new(), vacant: NONE }
    }

    #[inline]
    pub(super) fn insert(&mut self, entry: Entry) -> u32 {
        let slot = self.vacant;
        if slot == NONE {
            self.entries.push(entry);
            return u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 operations outstanding");
        }
        let vacant = &mut self.entries[slot as usize];
        self.vacant = vacant.next;
        *vacant = entry;
        slot
    }

    /// Frees a slot and returns its content.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> &Entry {
        let entry = &mut self.entries[slot as usize];
        entry.next = self.vacant;
        self.vacant = slot;
        entry
    }

    #[inline]
    pub(super) fn get(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }
}

/// A queue of entries in the order of arrival.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Queue {
    head: u32,
    tail: u32,
}

impl Queue {
    pub(super) const EMPTY: Queue = Queue { head: NONE, tail: NONE };

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    /// Appends `slot`, whose entry is in no list (its `next` is [`NONE`]).
    #[inline]
    pub(super) fn push(&mut self, pool: &mut Pool, slot: u32) {
        // A branch here would be unpredictable. For an empty queue, the assignment leaves the `next` of the new entry
        // at [`NONE`].
        let empty = self.head == NONE;
        self.head = select_unpredictable(empty, slot, self.head);
        let before = select_unpredictable(empty, slot, self.tail);
        pool.entries[before as usize].next = select_unpredictable(empty, NONE, slot);
        self.tail = slot;
    }

    /// Removes and returns the oldest entry, or returns [`NONE`].
    #[inline]
    pub(super) fn pop(&mut self, pool: &Pool) -> u32 {
        let slot = self.head;
        if slot != NONE {
            self.head = pool.entries[slot as usize].next;
        }
        slot
    }
}
