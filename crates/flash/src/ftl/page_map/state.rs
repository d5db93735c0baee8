//! What the layer knows of each erase block and each die, and the operations that can be issued.

use super::programs::{ProgramLink, ProgramQueue};
use crate::nand::{Cause, EraseBlock, Operation};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Data of one kind; each has an open block on each die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum Stream {
    /// What the host writes.
    Host,
    /// What survived a collection.
    GarbageCollection,
    /// What survived several, if that is kept apart.
    Cold,
    /// What wear leveling moved.
    WearLeveling,
    /// Map pages and records.
    Map,
}

/// How many streams there are.
pub(super) const STREAMS: usize = 5;
/// What becomes of a block, in this order and round again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Phase {
    Free,
    /// Being written, or its last programs are under way.
    Open,
    /// Written, and a candidate for collection.
    Closed,
    /// A program in it failed: its data has to move, then it is retired.
    Failed,
    /// Its pages are being read.
    Victim,
    /// All that was valid has been read and is on its way elsewhere.
    Drained,
    /// Empty; it waits for the record of what was trimmed in it, or the erase is under way.
    Erasing,
    Bad,
}

/// An erase block.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct BlockState {
    /// Units that have been read to be moved and are not programmed yet.
    pub(super) moves_in_flight: u32,
    /// The page that is programmed next.
    pub(super) next_page: u32,
    /// Programs under way.
    pub(super) programs: u16,
    pub(super) phase: Phase,
    pub(super) stream: Stream,
    /// Used with one bit a cell.
    pub(super) slc: bool,
    /// To be retired instead of erased.
    pub(super) must_retire: bool,
    /// Why its data moves.
    pub(super) cause: Cause,
}

impl BlockState {
    pub(super) const FREE: BlockState = BlockState {
        moves_in_flight: 0,
        next_page: 0,
        programs: 0,
        phase: Phase::Free,
        stream: Stream::Host,
        slc: false,
        must_retire: false,
        cause: Cause::GarbageCollection,
    };
}

/// What is seldom asked of an erase block.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct BlockHistory {
    /// The number of the last trim of a unit in it.
    pub(super) trimmed: u64,
    /// How much the host had written when it was closed.
    pub(super) closed_at: u64,
}

/// A die.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DieState {
    /// The block that each stream writes.
    pub(super) open: [Option<EraseBlock>; STREAMS],
    /// Free blocks.
    pub(super) free: u32,
    /// The block being read for its valid units, and the page from which on that is still to be done.
    pub(super) victim: Option<EraseBlock>,
    pub(super) victim_page: u32,
    /// The page up to which what belongs to it has been loaded into the processor's cache.
    pub(super) victim_loaded: u32,
    /// Reads of it under way.
    pub(super) reads: u32,
    /// Programs of accepted units and of moved ones under way.
    pub(super) programs: u32,
    pub(super) move_programs: u32,
    /// Units of space that collection owes to the host.
    pub(super) gc_backlog: i64,
    /// Millionths of units that folding owes to the host.
    pub(super) fold_backlog_ppm: i64,
    /// Where the victim's valid units go.
    pub(super) destination: Stream,
    /// One step may be done because the device is idle.
    pub(super) idle_step: bool,
    /// Blocks in which a program failed.
    pub(super) failed_blocks: VecDeque<u32>,
    /// The block whose data wear leveling wants moved.
    pub(super) leveling_victim: Option<EraseBlock>,
    /// Blocks with one bit a cell: all, and those closed in the order of closing.
    pub(super) slc: u32,
    pub(super) slc_closed: VecDeque<u32>,
    /// For each stream the program that gathers what was read.
    pub(super) gathering: [Option<ProgramLink>; STREAMS],
    /// Programs that are full and wait for a page.
    pub(super) full_pages: ProgramQueue,
}

impl DieState {
    pub(super) fn new(free: u32) -> Self {
        DieState {
            open: [None; STREAMS],
            free,
            victim: None,
            victim_page: 0,
            victim_loaded: 0,
            reads: 0,
            programs: 0,
            move_programs: 0,
            gc_backlog: 0,
            fold_backlog_ppm: 0,
            destination: Stream::GarbageCollection,
            idle_step: false,
            failed_blocks: VecDeque::new(),
            leveling_victim: None,
            slc: 0,
            slc_closed: VecDeque::new(),
            gathering: [None; STREAMS],
            full_pages: ProgramQueue::EMPTY,
        }
    }
}

/// Operations that were issued one by one, after which their room is given back.
const DONE_MAX: usize = 1 << 10;

/// Operations that can be issued, in order. Mostly all are issued together, so they need no ring, whose ends would be
/// reckoned at each.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Ready {
    operations: Vec<Operation>,
    /// The first that has not been issued.
    #[serde(skip)]
    next: usize,
    /// Room for those that [`Ready::take_all`] takes.
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
    /// A list for [`Ready::take_all`], with room.
    #[inline]
    pub(super) fn take_room(&mut self) -> Vec<Operation> {
        core::mem::take(&mut self.room)
    }
    /// Gives that list back.
    #[inline]
    pub(super) fn give_room(&mut self, room: Vec<Operation>) {
        self.room = room;
    }
    /// Takes all that can be issued, without copying them: what was just written would have to be in the cache first.
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
