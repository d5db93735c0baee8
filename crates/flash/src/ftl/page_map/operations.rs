//! The operations of the array that can be issued, and the number of operations in flight.
//!
//! # Invariant
//! Every operation is first ready, then in flight, then finished, and is counted once. `outstanding` is the
//! number of operations in flight. While no operation is ready and the layer has not changed since programs
//! were last formed, `dispatch_needed` is false and forming programs would yield nothing.

use crate::nand::Operation;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The operations that are ready, and the number of operations in flight.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Operations {
    ready: Ready,
    /// Number of operations issued and not finished.
    outstanding: u32,
    /// True if a change may allow pages to be programmed.
    dispatch_needed: bool,
}

impl Operations {
    /// Makes an operation ready to be issued.
    #[inline(always)]
    pub(super) fn push(&mut self, operation: Operation) {
        self.ready.push(operation);
    }
    /// Issues the next operation.
    #[inline]
    pub(super) fn issue(&mut self) -> Option<Operation> {
        let operation = self.ready.pop()?;
        self.outstanding += 1;
        Some(operation)
    }
    /// Issues all operations that are ready, in order.
    #[inline]
    pub(super) fn issue_all(&mut self, array: &mut impl FnMut(&Operation)) {
        let operations = self.ready.operations();
        self.outstanding += operations.len() as u32;
        operations.iter().for_each(array);
        self.ready.clear();
    }
    /// Moves all operations that are ready to `into`. The caller issues each of them with
    /// [`Operations::issued_directly`].
    #[inline]
    pub(super) fn take_all(&mut self, into: &mut Vec<Operation>) {
        self.ready.take_all(into);
    }
    /// Counts an operation of [`Operations::take_all`] as issued.
    #[inline]
    pub(super) fn issued_directly(&mut self) {
        self.outstanding += 1;
    }
    /// Records the end of an operation.
    #[inline]
    pub(super) fn finished(&mut self) {
        self.outstanding -= 1;
        self.dispatch_needed = true;
    }
    /// Takes a list with allocated room for [`Operations::take_all`].
    #[inline]
    pub(super) fn take_room(&mut self) -> Vec<Operation> {
        self.ready.take_room()
    }
    /// Gives back the list from [`Operations::take_room`], so that its allocation is used again.
    #[inline]
    pub(super) fn give_room(&mut self, room: Vec<Operation>) {
        self.ready.give_room(room);
    }

    /// Returns true if no operation is ready.
    #[inline(always)]
    pub(super) fn none_is_ready(&self) -> bool {
        self.ready.is_empty()
    }
    #[inline]
    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }
    /// Requests that programs be formed before the next operation is issued.
    #[inline(always)]
    pub(super) fn request_dispatch(&mut self) {
        self.dispatch_needed = true;
    }
    /// Returns true if no operation is ready and the layer has changed since the last call that returned
    /// true.
    #[inline(always)]
    pub(super) fn takes_dispatch(&mut self) -> bool {
        let is_due = self.ready.is_empty() && self.dispatch_needed;
        self.dispatch_needed &= !is_due;
        is_due
    }
    /// Drops all operations.
    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.outstanding = 0;
    }
}

/// Number of operations issued one by one after which their space in the list is reclaimed.
const DONE_MAX: usize = 1 << 10;

/// Operations that can be issued, in order. The layer mostly issues all of them together, so a plain list serves better
/// than a ring, whose ends would be computed at each access.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ready {
    operations: Vec<Operation>,
    /// Index of the first operation that has not been issued.
    #[serde(skip)]
    next: usize,
    /// Allocation for the list of [`Ready::take_all`].
    #[serde(skip)]
    room: Vec<Operation>,
}

impl Ready {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }
    #[inline]
    pub(super) fn operations(&self) -> &[Operation] {
        &self.operations[self.next..]
    }
    #[inline]
    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
    }
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Operation> {
        let operation = *self.operations.get(self.next)?;
        self.next += 1;
        if self.next == self.operations.len() {
            self.clear();
        } else if self.next == DONE_MAX {
            self.operations.drain(..self.next);
            self.next = 0;
        }
        Some(operation)
    }
    pub(super) fn clear(&mut self) {
        self.operations.clear();
        self.next = 0;
    }
    /// Takes a list with allocated room for [`Ready::take_all`].
    #[inline]
    pub(super) fn take_room(&mut self) -> Vec<Operation> {
        core::mem::take(&mut self.room)
    }
    /// Gives back the list from [`Ready::take_room`], so that its allocation is used again.
    #[inline]
    pub(super) fn give_room(&mut self, room: Vec<Operation>) {
        self.room = room;
    }
    /// Takes all operations that can be issued by swapping the lists. A copy would have to wait until the
    /// operations just written are in the processor's cache.
    #[inline]
    pub(super) fn take_all(&mut self, into: &mut Vec<Operation>) {
        into.clear();
        core::mem::swap(&mut self.operations, into);
        if self.next > 0 {
            into.drain(..self.next);
            self.next = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nand::{Cause, EraseBlock, Kind};

    fn erase(block: u32) -> Operation {
        Operation {
            kind: Kind::Erase,
            block: EraseBlock::new(block),
            page: 0,
            slc: false,
            cause: Cause::GarbageCollection,
            tag: 0,
        }
    }

    #[test]
    fn operations_are_issued_in_order_and_counted_until_they_finish() {
        let mut operations = Operations::default();
        (0..4).for_each(|block| operations.push(erase(block)));
        assert_eq!(operations.issue().map(|operation| operation.block.index()), Some(0));
        let mut issued = Vec::new();
        operations.issue_all(&mut |operation| issued.push(operation.block.index()));
        assert_eq!((issued, operations.outstanding()), (alloc::vec![1, 2, 3], 4));
        assert!(operations.none_is_ready() && operations.issue().is_none());
        (0..4).for_each(|_| operations.finished());
        assert_eq!(operations.outstanding(), 0);
    }

    #[test]
    fn programs_are_formed_once_after_a_change_and_only_if_no_operation_is_ready() {
        let mut operations = Operations::default();
        assert!(!operations.takes_dispatch(), "nothing has changed");
        operations.request_dispatch();
        operations.push(erase(0));
        assert!(!operations.takes_dispatch(), "an operation is ready");
        operations.issue();
        assert!(operations.takes_dispatch() && !operations.takes_dispatch());
    }
}
