//! State of each erase block and each die, and the operations that can be issued.

use super::programs::{ProgramLink, ProgramQueue};
use crate::nand::{Cause, EraseBlock, Operation};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Stream of data of one kind. Each stream has an open block on each die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum Stream {
    /// Data that the host writes.
    Host,
    /// Data that survived one garbage collection.
    GarbageCollection,
    /// Data that survived several garbage collections, if the layer separates it.
    Cold,
    /// Data that wear leveling moved.
    WearLeveling,
    /// Map pages and trim records.
    Map,
}

/// Number of streams.
pub(super) const STREAMS: usize = 5;
/// Phase of a block. A block passes through the phases in this order and starts again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Phase {
    Free,
    /// The block is being written, or its last programs are in flight.
    Open,
    /// The block is full and a candidate for garbage collection.
    Closed,
    /// A program in the block failed: its data has to move, and then the block is retired.
    Failed,
    /// The pages of the block are being read.
    Victim,
    /// All valid units of the block have been read, and some may not be programmed elsewhere yet.
    Drained,
    /// The block is empty. It waits for the record of the trims in it, or its erase is in flight.
    Erasing,
    Bad,
}

/// State of an erase block.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct BlockState {
    /// Number of units that have been read to be moved and are not programmed yet.
    pub(super) moves_in_flight: u32,
    /// Page that is programmed next.
    pub(super) next_page: u32,
    /// Number of programs in flight.
    pub(super) programs: u16,
    pub(super) phase: Phase,
    pub(super) stream: Stream,
    /// True if the block is used with one bit per cell.
    pub(super) slc: bool,
    /// True if the block is to be retired instead of erased.
    pub(super) must_retire: bool,
    /// Reason why the data of the block moves.
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

/// Rarely accessed state of an erase block.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct BlockHistory {
    /// Number of the last trim of a unit in the block.
    pub(super) trimmed: u64,
    /// Number of the last accepted write or trim when the last page of the block was programmed.
    pub(super) closed_at: u64,
}

/// State of a die.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DieState {
    /// Block that each stream writes.
    pub(super) open: [Option<EraseBlock>; STREAMS],
    /// Number of free blocks.
    pub(super) free: u32,
    /// Block whose valid units are being read, and its first page that is not processed yet.
    pub(super) victim: Option<EraseBlock>,
    pub(super) victim_page: u32,
    /// Page up to which the map entries of the victim have been loaded into the processor's cache.
    pub(super) victim_loaded: u32,
    /// Number of reads of the victim in flight.
    pub(super) reads: u32,
    /// Number of programs of accepted units, and of moved units, in flight.
    pub(super) programs: u32,
    pub(super) move_programs: u32,
    /// Units of space that garbage collection still has to free for pages that the host has programmed.
    pub(super) gc_backlog: i64,
    /// Millionths of units that folding still has to fold for pages that the host has programmed.
    pub(super) fold_backlog_ppm: i64,
    /// Stream that the victim's valid units go to.
    pub(super) destination: Stream,
    /// True if the die may do one step of background work because the device is idle.
    pub(super) idle_step: bool,
    /// Blocks in which a program failed.
    pub(super) failed_blocks: VecDeque<u32>,
    /// Block whose data wear leveling wants moved.
    pub(super) leveling_victim: Option<EraseBlock>,
    /// Blocks with one bit per cell: the number of all, and the closed blocks in the order of closing.
    pub(super) slc: u32,
    pub(super) slc_closed: VecDeque<u32>,
    /// For each stream, the program that gathers the units read from victims.
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
    /// Returns the list of [`Ready::take_room`].
    #[inline]
    pub(super) fn give_room(&mut self, room: Vec<Operation>) {
        self.room = room;
    }
    /// Takes all operations that can be issued by swapping the lists. A copy would first need the operations just
    /// written in the processor's cache.
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
