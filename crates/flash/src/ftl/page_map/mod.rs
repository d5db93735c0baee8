//! Page-mapped translation layer, as in SSDs: every unit can lie anywhere, and garbage collection reclaims the space of
//! overwritten units.
//!
//! The layer performs no I/O itself. The caller asks [`PageMap::poll`] for the next operation of the array
//! and reports the end of each operation to [`PageMap::finished`]. With a scheduler in between, the layer
//! runs in simulated time. [`PageMap::settle`] finishes all operations at once and so counts programs, moves
//! and erases without time.
//!
//! # Parts
//! [`PageMap::write_and_settle`] shows the path of a host write. Each part owns the fields of one invariant,
//! and its module states the invariant. The parts are the map (`map.rs`), the write buffers (`buffers.rs`),
//! the states of the blocks (`block_states.rs`), the dies with their open blocks (`dies.rs`), garbage
//! collection (`garbage_collector.rs`), the programs (`programs.rs`), the records of trims (`trim_log.rs`)
//! and the operations (`operations.rs`). `program.rs`, `commit.rs`, `collection.rs` and `recovery.rs` hold
//! the steps that connect the parts.
//!
//! # How it works
//! - The map holds a place for each unit (`place.rs`). The spare area of the array holds a unit number for each place.
//!   Accepted units wait in a write buffer. A page is programmed when it is full, or at a flush.
//! - Each stream of data has at most one open block on each die, and pages rotate over the dies that have
//!   room.
//! - When the free blocks of a die fall to the reserve, garbage collection frees as much space as the host
//!   consumes. For each page that the host programs on the die, garbage collection moves the valid units of
//!   as many pages of the victim as free the space of one page. The host never waits for a whole victim.
//!   Valid units stay on their die while the die has room.
//!
//! # Guarantees
//! - State changes at commit. The copy of a unit stays valid until the program of the next copy has finished. A block
//!   is erased only after all its valid units are programmed elsewhere.
//! - All data that [`PageMap::durable`] reports as durable survives a power cut at any instant. After the
//!   cut, a unit that was written or trimmed later has its durable content or that of a later write or trim.
//!   The module `recovery.rs` lists the properties of the medium on which [`PageMap::recover`] depends.
//! - A failed program is repeated elsewhere, and the failed block is retired. A unit that cannot be read while it is
//!   moved becomes unreadable; it never reads as other data.
//! - When so many blocks are bad that the data has no room, the layer refuses writes and continues to serve reads.
//! - The layer is deterministic: the same calls give the same results. [`PageMap::check`] walks the whole structure.
//!   The same walk rejects a restored structure that contradicts itself ([`PageMap::validate_restored`]).
//!
//! # Not modelled
//! The layer holds no data bytes. The layer writes and collects map pages (see [`PageMap::write_map_page`]),
//! but does not load them. The map cache decides when map pages are read or written. A torn program damages
//! no page but its own.

mod bits;
mod block_states;
mod buffers;
mod check;
mod collection;
mod commit;
mod counters;
mod dies;
mod garbage_collector;
mod map;
mod operations;
mod parameters;
mod place;
mod program;
mod programs;
mod recovery;
mod reverse_map;
mod slc;
mod trim_log;
mod uses;
mod versions;
mod write_buffer;

pub mod map_cache;

pub use counters::Written;
pub use parameters::{PageMapParameters, Streams};
pub use program::Content;
pub use recovery::Recovery;
pub use slc::Slc;

use super::{Blocks, ReadOnly};
use crate::nand::{EraseBlock, Kind, Operation};
use block_states::BlockStates;
use buffers::Buffers;
use counters::Counters;
use dies::Dies;
use flashlab_sim::fault;
use garbage_collector::GarbageCollector;
use map::Map;
use operations::Operations;
use place::{Layout, Mapped};
use programs::{Programs, Source};
use serde::{Deserialize, Serialize};
use trim_log::TrimLog;

/// A page-mapped translation layer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PageMap {
    parameters: PageMapParameters,
    seed: u64,
    layout: Layout,
    map: Map,
    buffers: Buffers,
    blocks: BlockStates,
    dies: Dies,
    collector: GarbageCollector,
    programs: Programs,
    trim_log: TrimLog,
    operations: Operations,
    read_only: bool,
    recoveries: u64,
    counters: Counters,
}

/// Number of a write or a trim, for [`PageMap::durable`]. A flush has the number of the last write or trim
/// before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// Result of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accepted {
    /// The unit is in the write buffer.
    Buffered(Ticket),
    /// The write buffer is full. The caller repeats the write when an operation has finished.
    Full,
    /// So many blocks are bad that the device accepts no more writes.
    ReadOnly,
}

/// Location of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nowhere: the unit was never written, or was trimmed.
    Unmapped,
    /// The write buffer.
    Buffered,
    /// The unit was lost when it was moved: reading it is an error.
    Unreadable,
    /// The array.
    At {
        /// Block of the unit.
        block: EraseBlock,
        /// Page in the block.
        page: u32,
        /// Index of the unit in the page, counted over all planes.
        unit: u32,
        /// True if the block is used with one bit per cell.
        slc: bool,
    },
}

/// Outcome of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The operation succeeded.
    Ok,
    /// A program or an erase failed: the layer retires the block.
    Failed,
    /// The data that was read cannot be corrected.
    Uncorrectable,
}

impl PageMap {
    /// Creates an empty device.
    ///
    /// # Panics
    /// Panics if the parameters are impossible; see [`PageMapParameters::check`].
    pub fn new(parameters: &PageMapParameters, seed: u64) -> Self {
        if let Err(impossible) = parameters.check() {
            panic!("{impossible}");
        }
        let layout = Layout::new(parameters);
        let blocks =
            Blocks::new(layout.blocks, layout.dies, parameters.leveling, parameters.endurance.as_ref(), seed);
        let blocks = BlockStates::new(blocks);
        let mut map = PageMap {
            parameters: *parameters,
            seed,
            map: Map::new(&layout),
            buffers: Buffers::new(parameters.data_slots(), &layout),
            dies: Dies::new(&blocks),
            collector: GarbageCollector::new(parameters, &layout, seed),
            programs: Programs::new(layout.units_per_page),
            trim_log: TrimLog::new(parameters.unit),
            operations: Operations::default(),
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

    /// Returns the number of units that the host can address.
    pub fn units(&self) -> u32 {
        self.layout.units
    }
    /// Returns the number of units that one program writes.
    pub fn units_per_page(&self) -> u32 {
        self.layout.units_per_page
    }
    /// Returns the parameters of the layer.
    pub fn parameters(&self) -> &PageMapParameters {
        &self.parameters
    }
    /// Returns the erase blocks and their wear.
    pub fn blocks(&self) -> &Blocks {
        self.blocks.pool()
    }
    /// Returns true if the layer refuses writes because too few good blocks are left.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
    /// Returns the number of operations that were polled and are not finished.
    pub fn outstanding(&self) -> u32 {
        self.operations.outstanding()
    }
    /// Returns the number of the last accepted write or trim.
    pub fn accepted(&self) -> Ticket {
        Ticket(self.buffers.accepted())
    }
    /// Returns the number of the write that a read of a buffered unit finds, or `None` if the unit is not buffered.
    pub fn buffered_version(&self, unit: u32) -> Option<Ticket> {
        match self.map.entry(unit).decode() {
            Mapped::Slot(slot) => Some(Ticket(self.buffers.of(unit).slot(slot).version)),
            _ => None,
        }
    }
    /// Returns true if the SLC buffer of every die is full, so that the host waits for folding.
    pub fn slc_is_full(&self) -> bool {
        let full = |slc: &Slc| self.dies.iter().all(|die| die.slc() >= slc.blocks);
        self.parameters.slc.as_ref().is_some_and(full)
    }
    /// Returns true if the write buffer is full and accepts only units that it already holds.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.buffers.data.is_full()
    }
    /// Returns the number of units in the write buffer that are not programmed yet.
    pub fn buffered(&self) -> u32 {
        self.buffers.data.used()
    }

    /// Returns the location of a unit.
    ///
    /// # Panics
    /// Panics if the unit is not within the capacity.
    #[inline(always)]
    pub fn read(&self, unit: u32) -> Found {
        assert!(unit < self.layout.units, "unit {unit} of {}", self.layout.units);
        match self.map.entry(unit).decode() {
            Mapped::At(place) => {
                let (block, page, unit) = self.layout.parts(place);
                // The block's state lies in another cache line, so it is read only if the layer has an SLC buffer.
                let slc = self.parameters.slc.is_some() && self.blocks.get(block).slc;
                Found::At { block: EraseBlock::new(block), page, unit, slc }
            }
            Mapped::Nowhere | Mapped::Trimmed(_) => Found::Unmapped,
            Mapped::Unreadable => Found::Unreadable,
            Mapped::Slot(slot) if self.buffers.of(unit).slot(slot).trimmed > 0 => Found::Unmapped,
            Mapped::Slot(_) => Found::Buffered,
        }
    }

    /// Loads the map's cache line for a unit into the processor's cache. The call changes no state.
    #[inline]
    pub fn prefetch(&self, unit: u32) {
        self.map.prefetch(unit);
    }

    /// Accepts a unit into the write buffer.
    ///
    /// # Panics
    /// Panics if the unit is not within the capacity.
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
        if self.buffers.data.waiting() >= self.layout.units_per_page {
            self.operations.request_dispatch();
        }
        Accepted::Buffered(Ticket(self.buffers.accepted()))
    }

    /// Accepts a map page into the buffer of map pages. Map pages fill pages and blocks of their own, and garbage
    /// collection treats them like data. A map page is programmed when enough map pages wait to fill a page of the
    /// array, or after [`PageMap::flush_map`].
    pub fn write_map_page(&mut self, page: u32) -> Accepted {
        assert!(page < self.layout.map_pages, "map page {page} of {}", self.layout.map_pages);
        if self.read_only {
            return Accepted::ReadOnly;
        }
        // One slot is reserved for trim records.
        if self.buffers.map.used() + 1 >= self.buffers.map.capacity() {
            return Accepted::Full;
        }
        self.accept_map(self.layout.units + page);
        Accepted::Buffered(Ticket(self.buffers.accepted()))
    }

    fn accept_map(&mut self, unit: u32) {
        assert!(self.accept(unit), "no slot for map pages is vacant");
        if self.buffers.map.waiting() >= self.layout.units_per_page {
            self.operations.request_dispatch();
        }
    }

    /// Puts a unit into its buffer. Returns false if the buffer is full.
    #[inline]
    fn accept(&mut self, unit: u32) -> bool {
        let entry = self.map.entry(unit);
        let Some(newest) = self.buffers.accept(unit, entry) else { return false };
        self.map.set(unit, newest);
        // The unit is programmed soon. A unit that waits longer is prefetched when its program is formed.
        if let Some(place) = entry.place()
            && self.buffers.of(unit).waiting() <= self.layout.units_per_page
        {
            self.prefetch_place(place);
        }
        true
    }

    /// Prefetches the state that changes when the copy at `place` becomes invalid.
    #[inline]
    fn prefetch_place(&self, place: u32) {
        self.map.prefetch_place(place);
        self.collector.prefetch(self.layout.block_of(place));
    }

    /// Marks the copy at `place` as no longer committed.
    #[inline(always)]
    fn invalidate(&mut self, place: u32) {
        self.map.invalidate(place);
        self.collector.invalidate(self.layout.block_of(place));
    }

    /// Flushes all units and trims accepted so far. These units and trims are durable once
    /// [`PageMap::durable`] returns true for the returned ticket.
    pub fn flush(&mut self) -> Ticket {
        self.buffers.data.flush_to = self.buffers.accepted();
        self.operations.request_dispatch();
        self.log_trims_up_to(self.buffers.accepted());
        Ticket(self.buffers.accepted())
    }

    /// Forces the last write to become durable (FUA): its page is programmed even if it does not become full, together
    /// with the units accepted earlier. The caller passes the ticket to [`PageMap::is_unit_durable`] for each unit of
    /// the write, and therefore waits neither for other units nor for records of trims.
    pub fn force(&mut self) -> Ticket {
        self.buffers.data.flush_to = self.buffers.accepted();
        self.operations.request_dispatch();
        Ticket(self.buffers.accepted())
    }
    /// Returns true if the content of `unit` as written up to `ticket`, or newer content, survives a power cut.
    pub fn is_unit_durable(&self, unit: u32, ticket: Ticket) -> bool {
        match self.map.entry(unit).decode() {
            Mapped::Slot(newest) => {
                !self.buffers.of(unit).holds(newest, ticket.0) || fault("fua-ends-before-the-program")
            }
            _ => true,
        }
    }

    /// Returns true if the last write to `unit` is in the array and survives a power cut.
    pub fn is_programmed(&self, unit: u32) -> bool {
        matches!(self.map.entry(unit).decode(), Mapped::At(_))
    }

    /// Flushes the map pages accepted so far.
    pub fn flush_map(&mut self) {
        self.buffers.map.flush_to = self.buffers.accepted();
        self.operations.request_dispatch();
    }

    /// Returns true if all writes and trims up to `ticket` are durable.
    pub fn durable(&self, ticket: Ticket) -> bool {
        self.watermark() >= ticket
    }
    /// Returns the ticket up to which all writes and trims are durable.
    pub fn watermark(&self) -> Ticket {
        let oldest = [self.oldest(), self.trim_log.oldest()].into_iter().flatten().min();
        if fault("watermark-off-by-one") {
            return Ticket(oldest.unwrap_or(self.buffers.accepted()));
        }
        Ticket(oldest.map_or(self.buffers.accepted(), |number| number - 1))
    }
    /// Returns the number of the oldest write of the host that waits for a program or is in a program in flight.
    fn oldest(&self) -> Option<u64> {
        let buffer = &self.buffers.data;
        let programming = self.programs.issued().filter(|id| self.programs.get(*id).source == Source::Data);
        let parts =
            programming.flat_map(|id| &self.programs.parts(id)[..self.programs.get(id).count as usize]);
        parts.map(|part| buffer.slot(part.from).accepted).chain(buffer.oldest_waiting()).min()
    }

    /// Returns the next operation for the array. Returns `None` if no operation can be issued until another operation
    /// finishes or the host sends a request.
    #[inline]
    pub fn poll(&mut self) -> Option<Operation> {
        self.form_programs();
        self.operations.issue()
    }

    /// Passes all operations that can be issued to `array`, in order, as repeated calls of [`PageMap::poll`] would.
    #[inline]
    pub fn issue(&mut self, mut array: impl FnMut(&Operation)) {
        self.form_programs();
        while !self.operations.none_is_ready() {
            self.operations.issue_all(&mut array);
            self.form_programs();
        }
    }

    /// Forms programs if no operation is ready and the state has changed.
    #[inline(always)]
    fn form_programs(&mut self) {
        if self.operations.takes_dispatch() && self.may_form_program() {
            self.dispatch();
        }
    }

    /// Returns true if a program may be formed, or if no operation is in flight.
    #[inline]
    fn may_form_program(&self) -> bool {
        self.dies.any_is_writable() || self.buffers.map.waiting() > 0 || self.operations.outstanding() == 0
    }

    /// Forms all programs that can be formed.
    fn dispatch(&mut self) {
        self.program_map();
        self.program_data();
        if self.operations.none_is_ready() && self.operations.outstanding() == 0 && self.has_waiting_page() {
            self.dispatch_when_stalled();
        }
    }

    /// Forms programs when no operation is in flight and no die accepts the waiting units: garbage collection may have
    /// work.
    #[cold]
    fn dispatch_when_stalled(&mut self) {
        self.collect_garbage_on_all_dies();
        self.program_map();
        self.program_data();
        if self.operations.none_is_ready() {
            (0..self.layout.dies).for_each(|die| self.program_all_gathered(die));
        }
        // Garbage collection cannot free a block, and no page is free for the accepted units.
        self.read_only |= self.operations.none_is_ready();
    }

    /// Returns true if a page of accepted units waits to be programmed.
    fn has_waiting_page(&self) -> bool {
        let units = self.layout.units_per_page;
        self.buffers.data.page_waits(units) || self.buffers.map.page_waits(units)
    }

    /// Writes a unit and finishes all operations that follow, without time and without failures: the path of a host write
    /// from acceptance to commit. In simulated time the caller takes the same steps, with [`PageMap::write`],
    /// [`PageMap::poll`] and [`PageMap::finished`], and the array works in between.
    pub fn write_and_settle(&mut self, unit: u32) -> Result<Ticket, ReadOnly> {
        // Acceptance: the unit takes a slot of the write buffer, and its map entry names the slot. The copy in the
        // array stays the committed one.
        let ticket = loop {
            match self.write(unit) {
                Accepted::Buffered(ticket) => break ticket,
                Accepted::ReadOnly => return Err(ReadOnly),
                Accepted::Full => self.settle(),
            }
        };
        // Program: once the buffered units fill a page, the next die in turn takes the page into the open block of host
        // data. If few blocks are free, the die also reads enough of a victim to free the same amount of space.
        self.form_programs();
        while let Some(operation) = self.operations.issue() {
            // Commit: after a program, the new copies are valid and the old copies are not, and a full block
            // is a candidate for garbage collection. After a read, the valid units of a victim are gathered
            // for a program. After an erase, the victim is free.
            self.finished(&operation, Outcome::Ok);
            self.form_programs();
        }
        Ok(ticket)
    }

    /// Finishes all operations that can be issued, at once and without failures, so that the layer runs without time.
    #[inline]
    pub fn settle(&mut self) {
        let mut operations = self.operations.take_room();
        loop {
            self.form_programs();
            if self.operations.none_is_ready() {
                break;
            }
            self.operations.take_all(&mut operations);
            for operation in &operations {
                self.operations.issued_directly();
                self.finished(operation, Outcome::Ok);
            }
        }
        self.operations.give_room(operations);
    }

    /// Records the end of an operation.
    #[inline]
    pub fn finished(&mut self, operation: &Operation, outcome: Outcome) {
        self.operations.finished();
        let failed = outcome == Outcome::Failed;
        match operation.kind {
            Kind::Program { .. } => self.program_finished(operation.tag, failed),
            Kind::Read { .. } => self.read_finished(operation, outcome == Outcome::Uncorrectable),
            Kind::Erase => self.erase_finished(operation.block.index(), failed),
        }
    }
}
