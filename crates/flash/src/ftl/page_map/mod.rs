//! A page-mapped translation layer, as SSDs have: every unit lies anywhere, and what is overwritten is collected.
//!
//! Sans-IO: whoever drives it asks [`PageMap::poll`] for the next operation of the array and reports each as
//! [`PageMap::finished`]. With a scheduler in between it runs in simulated time; [`PageMap::settle`] finishes everything
//! at once and so counts programs, moves and erases without time.
//!
//! # How it works
//! - The map holds a place for each unit (`place.rs`); the array's spare area holds a unit's number for each place.
//!   Accepted units wait in a write buffer; a page is programmed when its units are full, or at a flush.
//! - Each stream of data has an open block on each die, and pages go round the dies that have room.
//! - When a die's free blocks fall to the reserve, collection owes the host as much space as the host takes: for every
//!   page that the host programs on the die, so many pages of the victim are read and its valid units moved on. The
//!   host never waits for a whole victim. Valid units stay on their die while it has room.
//!
//! # Guarantees
//! - State changes at commit: the copy of a unit stays valid until the program of the next one has finished; a block is
//!   erased only after all that was valid in it is programmed elsewhere.
//! - What [`PageMap::durable`] says is durable is there after a power cut at any instant. What was accepted after that
//!   reads as old or new; see [`PageMap::recover`] for what the medium has to do for it.
//! - A program that fails is repeated elsewhere and its block retired; a unit that cannot be read while it is moved
//!   becomes unreadable, not something else.
//! - When so many blocks are bad that the data has no room, writes are refused and reads go on.
//! - The same calls give the same answers; [`PageMap::check`] walks the whole structure, and the same walk refuses a
//!   structure that was read back and contradicts itself ([`PageMap::validate_restored`]).
//!
//! # Left out
//! Data bytes; the loading of map pages (they are written and collected here, see [`PageMap::write_map_page`], but when
//! and why they are read or written is the map cache's business); pages that a torn program damages besides its own.

mod bits;
mod block;
mod check;
mod commit;
mod counters;
mod garbage_collector;
mod parameters;
mod place;
mod program;
mod programs;
mod recovery;
mod slc;
mod state;
mod trim_log;
mod versions;
mod write_buffer;

pub mod map_cache;

pub use counters::Written;
pub use parameters::{PageMapParameters, Streams};
pub use program::Content;
pub use recovery::Recovery;
pub use slc::Slc;

use super::Blocks;
use super::gc::Candidates;
use crate::nand::{EraseBlock, Operation};
use alloc::vec;
use alloc::vec::Vec;
use bits::{DieSet, Validity};
use counters::Counters;
use flashlab_sim::{fault, prefetch};
use place::{Entry, Layout, Mapped, NO_UNIT};
use programs::{Programs, Source};
use serde::{Deserialize, Serialize};
use state::{BlockHistory, BlockState, DieState, Phase, Ready};
use trim_log::TrimLog;
use write_buffer::WriteBuffer;

/// A page-mapped translation layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageMap {
    parameters: PageMapParameters,
    seed: u64,
    layout: Layout,
    /// Logical to physical: the host's units, map pages, the record.
    l2p: Vec<Entry>,
    /// Physical to logical, as the spare areas hold it.
    p2l: Vec<u32>,
    /// Versions of the units at all places, where a test has them kept.
    #[serde(skip)]
    versions: Option<Vec<u64>>,
    validity: Validity,
    states: Vec<BlockState>,
    histories: Vec<BlockHistory>,
    blocks: Blocks,
    candidates: Candidates,
    dies: Vec<DieState>,
    data: WriteBuffer,
    map: WriteBuffer,
    programs: Programs,
    trim_log: TrimLog,
    /// Operations that can be issued now.
    ready: Ready,
    /// Operations issued and not finished.
    outstanding: u32,
    /// Something changed that may let pages be programmed.
    dispatch_needed: bool,
    /// Dies that take a page of the host's data now.
    writable_dies: DieSet,
    /// The dies that the next pages of data and of the map go to.
    next_die: u32,
    next_map_die: u32,
    next_idle_die: u32,
    /// Numbers of writes and trims so far.
    accepted: u64,
    /// Valid units in the array.
    valid: u64,
    read_only: bool,
    recoveries: u64,
    counters: Counters,
}

/// The number of a write, a trim or a flush, for [`PageMap::durable`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// What became of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// It is in the write buffer.
    Buffered(Ticket),
    /// The write buffer is full: ask again when an operation has finished.
    Full,
    /// So many blocks are bad that the device takes no more writes.
    ReadOnly,
}

/// Where a unit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nowhere: it was never written, or was trimmed.
    Unmapped,
    /// In the write buffer.
    Buffered,
    /// It was lost when it was moved: reading it is an error.
    Unreadable,
    /// In the array.
    At {
        /// Its block.
        block: EraseBlock,
        /// Its page in the block.
        page: u32,
        /// Which unit of the page it is, counted over all planes.
        unit: u32,
        /// Whether the block is used with one bit a cell.
        slc: bool,
    },
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// As it should.
    Ok,
    /// A program or an erase failed: its block is not used any more.
    Failed,
    /// What was read cannot be corrected.
    Uncorrectable,
}

/// The candidates of a layer of which no block is closed.
fn no_candidates(parameters: &PageMapParameters, layout: &Layout, seed: u64) -> Candidates {
    Candidates::new(parameters.victim, layout.dies, layout.blocks, layout.units_per_block, seed)
}

impl PageMap {
    /// An empty device.
    ///
    /// # Panics
    /// Where the parameters are impossible; see [`PageMapParameters::check`].
    pub fn new(parameters: &PageMapParameters, seed: u64) -> Self {
        if let Err(impossible) = parameters.check() {
            panic!("{impossible}");
        }
        let layout = Layout::new(parameters);
        let blocks =
            Blocks::new(layout.blocks, layout.dies, parameters.leveling, parameters.endurance.as_ref(), seed);
        let state = |block| BlockState {
            phase: if blocks.is_bad(EraseBlock::new(block)) { Phase::Bad } else { Phase::Free },
            ..BlockState::FREE
        };
        let mut map = PageMap {
            parameters: *parameters,
            seed,
            l2p: vec![Entry::NOWHERE; layout.logical() as usize],
            p2l: vec![NO_UNIT; layout.places() as usize],
            versions: None,
            validity: Validity::new(layout.places()),
            states: (0..layout.blocks).map(state).collect(),
            histories: vec![BlockHistory::default(); layout.blocks as usize],
            candidates: no_candidates(parameters, &layout, seed),
            dies: (0..layout.dies).map(|die| DieState::new(blocks.free_count(die))).collect(),
            data: WriteBuffer::new(parameters.data_slots()),
            map: WriteBuffer::new(layout.map_slots()),
            programs: Programs::new(layout.units_per_page),
            trim_log: TrimLog::new(parameters.unit),
            ready: Ready::default(),
            outstanding: 0,
            dispatch_needed: false,
            writable_dies: DieSet::new(layout.dies),
            next_die: 0,
            next_map_die: 0,
            next_idle_die: 0,
            accepted: 0,
            valid: 0,
            read_only: false,
            recoveries: 0,
            counters: Counters::default(),
            blocks,
            layout,
        };
        map.update_read_only();
        (0..layout.dies).for_each(|die| map.update_writable(die));
        map
    }

    /// Units that the host can address.
    pub fn units(&self) -> u32 {
        self.layout.units
    }
    /// Units that one program writes.
    pub fn units_per_page(&self) -> u32 {
        self.layout.units_per_page
    }
    /// Its parameters.
    pub fn parameters(&self) -> &PageMapParameters {
        &self.parameters
    }
    /// The erase blocks and their wear.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }
    /// Whether writes are refused, for want of good blocks.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
    /// Operations that were polled and are not finished.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }
    /// The number of the last write or trim that was accepted.
    pub fn accepted(&self) -> Ticket {
        Ticket(self.accepted)
    }
    /// The number of the write that a read of a buffered unit finds; `None`: it is not buffered.
    pub fn buffered_version(&self, unit: u32) -> Option<Ticket> {
        match self.l2p[unit as usize].decode() {
            Mapped::Slot(slot) => Some(Ticket(self.buffer(unit).slot(slot).version)),
            _ => None,
        }
    }
    /// Whether the SLC buffer of every die is full: from now on the host waits for folding.
    pub fn slc_is_full(&self) -> bool {
        let full = |slc: &Slc| self.dies.iter().all(|die| die.slc >= slc.blocks);
        self.parameters.slc.as_ref().is_some_and(full)
    }
    /// Whether the write buffer takes only what is in it already.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.data.is_full()
    }
    /// Units in the write buffer that are not programmed.
    pub fn buffered(&self) -> u32 {
        self.data.used()
    }

    /// Where a unit is.
    ///
    /// # Panics
    /// Where the unit is not within the capacity.
    #[inline(always)]
    pub fn read(&self, unit: u32) -> Found {
        assert!(unit < self.layout.units, "unit {unit} of {}", self.layout.units);
        self.found(unit)
    }

    /// Where a map page is, which [`PageMap::write_map_page`] wrote.
    pub fn read_map_page(&self, page: u32) -> Found {
        assert!(page < self.layout.map_pages, "map page {page} of {}", self.layout.map_pages);
        self.found(self.layout.units + page)
    }

    #[inline(always)]
    fn found(&self, unit: u32) -> Found {
        match self.l2p[unit as usize].decode() {
            Mapped::At(place) => {
                let (block, page, unit) = self.layout.parts(place);
                // The block's state is another line of memory: looked at only where it says something.
                let slc = self.parameters.slc.is_some() && self.states[block as usize].slc;
                Found::At { block: EraseBlock::new(block), page, unit, slc }
            }
            Mapped::Nowhere | Mapped::Trimmed(_) => Found::Unmapped,
            Mapped::Unreadable => Found::Unreadable,
            Mapped::Slot(slot) if self.buffer(unit).slot(slot).trimmed > 0 => Found::Unmapped,
            Mapped::Slot(_) => Found::Buffered,
        }
    }

    /// Loads the map's line for a unit into the processor's cache; changes nothing.
    #[inline]
    pub fn prefetch(&self, unit: u32) {
        prefetch(&self.l2p, unit as usize);
    }

    /// Accepts a unit into the write buffer.
    ///
    /// # Panics
    /// Where the unit is not within the capacity.
    #[inline]
    pub fn write(&mut self, unit: u32) -> Accepted {
        assert!(unit < self.layout.units, "unit {unit} of {}", self.layout.units);
        if self.read_only {
            return Accepted::ReadOnly;
        }
        if !self.accept(unit) {
            return Accepted::Full;
        }
        self.counters.accepted += 1;
        if self.data.waiting() >= self.layout.units_per_page {
            self.dispatch_needed = true;
        }
        Accepted::Buffered(Ticket(self.accepted))
    }

    /// Accepts a map page for the array: map pages fill pages and blocks of their own, and are collected like data.
    /// It is programmed when there are enough for a page, or after [`PageMap::flush_map`].
    pub fn write_map_page(&mut self, page: u32) -> Accepted {
        assert!(page < self.layout.map_pages, "map page {page} of {}", self.layout.map_pages);
        if self.read_only {
            return Accepted::ReadOnly;
        }
        // One slot is kept for records.
        if self.map.used() + 1 >= self.map.capacity() {
            return Accepted::Full;
        }
        self.accept_map(self.layout.units + page);
        Accepted::Buffered(Ticket(self.accepted))
    }

    fn accept_map(&mut self, unit: u32) {
        assert!(self.accept(unit), "a slot for map pages is vacant");
        if self.map.waiting() >= self.layout.units_per_page {
            self.dispatch_needed = true;
        }
    }

    /// Puts a unit into its buffer, unless that is full.
    #[inline]
    fn accept(&mut self, unit: u32) -> bool {
        let entry = self.l2p[unit as usize];
        let number = self.accepted + 1;
        let buffer = if unit < self.layout.units { &mut self.data } else { &mut self.map };
        if let Mapped::Slot(newest) = entry.decode() {
            let slot = buffer.slot_mut(newest);
            if !slot.is_programming() && slot.trimmed == 0 {
                slot.version = number;
                self.accepted = number;
                return true;
            }
            let committed = slot.committed;
            if buffer.is_full() {
                return false;
            }
            let slot = buffer.accept(unit, committed, number);
            buffer.supersede(newest, slot);
            self.l2p[unit as usize] = Entry::slot(slot);
        } else {
            if buffer.is_full() {
                return false;
            }
            let slot = buffer.accept(unit, entry, number);
            let is_soon = buffer.waiting() <= self.layout.units_per_page;
            self.l2p[unit as usize] = Entry::slot(slot);
            // Programmed soon: else it is loaded when it is.
            if let Some(place) = entry.place()
                && is_soon
            {
                self.prefetch_place(place);
            }
        }
        self.accepted = number;
        true
    }

    /// Loads what changes when the copy at `place` becomes void.
    #[inline]
    fn prefetch_place(&self, place: u32) {
        self.validity.prefetch(place);
        self.candidates.prefetch(self.layout.block_of(place));
    }

    #[inline]
    fn buffer(&self, unit: u32) -> &WriteBuffer {
        if unit < self.layout.units { &self.data } else { &self.map }
    }
    #[inline]
    fn buffer_mut(&mut self, unit: u32) -> &mut WriteBuffer {
        if unit < self.layout.units { &mut self.data } else { &mut self.map }
    }

    /// Everything that was accepted so far is to become durable; the ticket is durable when it is.
    pub fn flush(&mut self) -> Ticket {
        self.data.flush_to = self.accepted;
        self.dispatch_needed = true;
        self.log_trims_up_to(self.accepted);
        Ticket(self.accepted)
    }

    /// What was written last is to become durable (FUA): it is programmed even if its page does not become full, with what
    /// was accepted before it. The ticket is for [`PageMap::is_unit_durable`], of each unit: nobody has to wait for others,
    /// nor for records of trims.
    pub fn force(&mut self) -> Ticket {
        self.data.flush_to = self.accepted;
        self.dispatch_needed = true;
        Ticket(self.accepted)
    }
    /// Whether `unit` as it was written up to `ticket`, or something newer, survives a power cut.
    pub fn is_unit_durable(&self, unit: u32, ticket: Ticket) -> bool {
        match self.l2p[unit as usize].decode() {
            Mapped::Slot(newest) => {
                !self.buffer(unit).holds(newest, ticket.0) || fault("fua-ends-before-the-program")
            }
            _ => true,
        }
    }

    /// Whether what was written to `unit` last is in the array, and survives a power cut.
    pub fn is_programmed(&self, unit: u32) -> bool {
        matches!(self.l2p[unit as usize].decode(), Mapped::At(_))
    }

    /// Map pages that were accepted so far are to be programmed; the ticket is for [`PageMap::map_durable`].
    pub fn flush_map(&mut self) -> Ticket {
        self.map.flush_to = self.accepted;
        self.dispatch_needed = true;
        Ticket(self.accepted)
    }

    /// Whether all that was written or trimmed up to `ticket` is durable.
    pub fn durable(&self, ticket: Ticket) -> bool {
        self.watermark() >= ticket
    }
    /// All that was written or trimmed up to this ticket is durable.
    pub fn watermark(&self) -> Ticket {
        let oldest = [self.oldest(Source::Data), self.trim_log.oldest()].into_iter().flatten().min();
        if fault("watermark-off-by-one") {
            return Ticket(oldest.unwrap_or(self.accepted));
        }
        Ticket(oldest.map_or(self.accepted, |number| number - 1))
    }
    /// Whether all map pages that were written up to `ticket` are in the array.
    pub fn map_durable(&self, ticket: Ticket) -> bool {
        self.oldest(Source::Map).is_none_or(|oldest| oldest > ticket.0)
    }
    /// The number of the oldest write in a buffer: it waits, or is being programmed.
    fn oldest(&self, source: Source) -> Option<u64> {
        let buffer = if source == Source::Data { &self.data } else { &self.map };
        let programming = self.programs.issued().filter(|id| self.programs.get(*id).source == source);
        let parts =
            programming.flat_map(|id| &self.programs.parts(id)[..self.programs.get(id).count as usize]);
        parts.map(|part| buffer.slot(part.from).accepted).chain(buffer.oldest_waiting()).min()
    }

    /// What the array has to do next; `None`: nothing can be issued until something finishes or is asked for.
    #[inline]
    pub fn poll(&mut self) -> Option<Operation> {
        self.dispatch_if_needed();
        let operation = self.ready.pop()?;
        self.outstanding += 1;
        Some(operation)
    }

    /// As [`PageMap::poll`] until there is none: hands all to the array, in order.
    #[inline]
    pub fn issue(&mut self, mut array: impl FnMut(&Operation)) {
        self.dispatch_if_needed();
        while !self.ready.is_empty() {
            let operations = self.ready.operations();
            self.outstanding += operations.len() as u32;
            operations.iter().for_each(&mut array);
            self.ready.clear();
            self.dispatch_if_needed();
        }
    }

    /// Forms programs if nothing is ready and something has changed.
    #[inline(always)]
    fn dispatch_if_needed(&mut self) {
        if self.ready.is_empty() && self.dispatch_needed {
            self.dispatch_needed = false;
            if self.may_form_program() {
                self.dispatch();
            }
        }
    }

    /// Whether there may be a program to form, or everything stands still.
    #[inline]
    fn may_form_program(&self) -> bool {
        !self.writable_dies.is_empty() || self.map.waiting() > 0 || self.outstanding == 0
    }

    /// Forms the programs that can be formed.
    fn dispatch(&mut self) {
        self.program_map();
        self.program_data();
        if self.ready.is_empty() && self.outstanding == 0 && self.has_waiting_page() {
            self.dispatch_when_stalled();
        }
    }

    /// The same where nothing is under way and no die takes what was accepted: collection may have what to do.
    #[cold]
    fn dispatch_when_stalled(&mut self) {
        self.collect_garbage_on_all_dies();
        self.program_map();
        self.program_data();
        if self.ready.is_empty() {
            (0..self.layout.dies).for_each(|die| self.program_all_gathered(die));
        }
        // Nothing can be collected, and there is no page for what was accepted.
        self.read_only |= self.ready.is_empty();
    }

    /// Whether something accepted waits to be programmed.
    fn has_waiting_page(&self) -> bool {
        let units = self.layout.units_per_page;
        self.data.page_waits(units) || self.map.page_waits(units)
    }

    /// Finishes everything that can be issued, at once and without failures: the layer at count level.
    #[inline]
    pub fn settle(&mut self) {
        let mut operations = self.ready.take_room();
        loop {
            self.dispatch_if_needed();
            if self.ready.is_empty() {
                break;
            }
            self.ready.take_all(&mut operations);
            for operation in &operations {
                self.outstanding += 1;
                self.finished(operation, Outcome::Ok);
            }
        }
        self.ready.give_room(operations);
    }

    /// An operation has ended.
    #[inline]
    pub fn finished(&mut self, operation: &Operation, outcome: Outcome) {
        self.outstanding -= 1;
        self.dispatch_needed = true;
        self.commit(operation, outcome);
    }
}
