//! Open blocks and the programs of their pages.

use super::programs::{Part, Program, Source};
use super::state::{Phase, Stream};
use super::{PageMap, Streams};
use crate::nand::{Cause, EraseBlock, Kind, Operation};

/// Maximum number of programs in flight on a die, for accepted units and for moved units separately: one in the array
/// and one in transfer.
pub(super) const PROGRAMS_PER_DIE_MAX: u32 = 2;

/// Content of a unit in a page that is being programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Padding: the page was flushed before it was full.
    Padding,
    /// A unit that was written.
    New {
        /// Logical number: the map pages follow the host's units, and the unit of the trim records follows the map
        /// pages.
        unit: u32,
        /// Number of the write.
        version: u64,
    },
    /// A unit that is moved.
    Copy {
        /// Logical number.
        unit: u32,
        /// Block from which the unit was read.
        block: EraseBlock,
        /// Page in that block.
        page: u32,
        /// Index of the unit in the page.
        index: u32,
    },
}

impl PageMap {
    /// Returns the number of free blocks of a die, without those reserved for the SLC buffer.
    pub(super) fn free_beyond_slc(&self, die: u32) -> u32 {
        let die = &self.dies[die as usize];
        match &self.parameters.slc {
            None => die.free,
            Some(slc) => die.free.saturating_sub(slc.blocks.saturating_sub(die.slc)),
        }
    }

    /// Returns true if the die's garbage collection must keep pace with the host.
    pub(super) fn gc_keeps_pace_with_host(&self, die: u32) -> bool {
        self.free_beyond_slc(die) <= self.parameters.reserve
    }

    /// Returns the block of a die that a stream writes. A new block is opened only if more than `floor` blocks are
    /// free.
    #[inline]
    fn open_block(&mut self, die: u32, stream: Stream, floor: u32) -> Option<u32> {
        match self.dies[die as usize].open[stream as usize] {
            None => self.open_new_block(die, stream, floor),
            Some(block) => Some(block.index()),
        }
    }

    fn may_open(&self, die: u32, stream: Stream, floor: u32) -> bool {
        let state = &self.dies[die as usize];
        match &self.parameters.slc {
            Some(slc) if stream == Stream::Host => state.slc < slc.blocks && state.free > floor,
            Some(_) if floor > 0 => self.free_beyond_slc(die) > floor,
            _ => state.free > floor,
        }
    }

    #[cold]
    fn open_new_block(&mut self, die: u32, stream: Stream, floor: u32) -> Option<u32> {
        if !self.may_open(die, stream, floor) {
            return None;
        }
        let block = match stream {
            Stream::WearLeveling => self.blocks.take_worn(die),
            _ => self.blocks.take(die),
        };
        let block = block.expect("a die's free blocks are those of its pool");
        let slc = stream == Stream::Host && self.parameters.slc.is_some();
        let state = &mut self.states[block.index() as usize];
        debug_assert_eq!(state.phase, Phase::Free);
        state.phase = Phase::Open;
        state.stream = stream;
        state.slc = slc;
        let die = &mut self.dies[die as usize];
        die.free -= 1;
        die.slc += u32::from(slc);
        die.open[stream as usize] = Some(block);
        Some(block.index())
    }

    /// Programs pages of accepted units as long as pages wait and a die accepts one.
    #[inline(always)]
    pub(super) fn program_data(&mut self) {
        while self.buffers.data.page_waits(self.layout.units_per_page) {
            let Some(die) = self.writable_dies.next(self.next_die) else { return };
            self.next_die = wrap(die + 1, self.layout.dies);
            let block =
                self.open_block(die, Stream::Host, self.parameters.floor()).expect("the die takes one");
            self.program_accepted(die, block, Source::Data);
            self.charge_gc(die, block);
            self.collect_garbage(die);
        }
    }

    /// Updates the flag of a die that accepts a page of host data, after a change of the die's state.
    #[inline(always)]
    pub(super) fn update_writable(&mut self, die: u32) {
        let can_program = self.can_program(die, Stream::Host, self.parameters.floor());
        self.writable_dies.set(die, can_program);
    }

    /// Programs pages of the map and of trim records as long as pages wait and a die accepts one.
    #[inline]
    pub(super) fn program_map(&mut self) {
        while self.buffers.map.page_waits(self.layout.units_per_page) && self.program_map_page() {}
    }

    /// Programs a page of the map, if a die accepts it.
    #[cold]
    fn program_map_page(&mut self) -> bool {
        let dies = self.layout.dies;
        // The last free block but one is reserved for map pages. The last one serves trim records if blocks wait for a
        // record before they are erased.
        let floor = if self.trim_log.holds_blocks() { 0 } else { self.parameters.floor() - 1 };
        let Some(die) = (0..dies)
            .map(|n| wrap(self.next_map_die + n, dies))
            .find(|die| self.can_program(*die, Stream::Map, floor))
        else {
            return false;
        };
        self.next_map_die = wrap(die + 1, dies);
        let block = self.open_block(die, Stream::Map, floor).expect("the die takes one");
        self.program_accepted(die, block, Source::Map);
        self.charge_gc(die, block);
        self.collect_garbage(die);
        true
    }

    /// Returns true if a die may program a page of accepted units now.
    #[inline]
    pub(super) fn can_program(&self, die: u32, stream: Stream, floor: u32) -> bool {
        let state = &self.dies[die as usize];
        let slack = i64::from(self.layout.units_per_page);
        if stream == Stream::Host && (state.gc_backlog > slack || state.fold_backlog_ppm > slack * 1_000_000)
        {
            return false;
        }
        let is_open =
            state.open[stream as usize].is_some() && !self.is_reserved_for_moves(die, stream, floor);
        state.programs < PROGRAMS_PER_DIE_MAX && (is_open || self.may_open(die, stream, floor))
    }

    /// Returns true if the rest of the open block is reserved for moved units, which share the block if there is one
    /// stream for all data. Without this reservation, the host would take the room that was counted for a victim, and
    /// no block would become free again.
    #[inline]
    fn is_reserved_for_moves(&self, die: u32, stream: Stream, floor: u32) -> bool {
        let is_shared = stream == Stream::Host && self.parameters.streams == Streams::One;
        is_shared && self.parameters.slc.is_none() && self.dies[die as usize].free < floor
    }

    /// Adds the space of a page of accepted units to the backlog of garbage collection or of folding.
    fn charge_gc(&mut self, die: u32, block: u32) {
        let units = i64::from(self.layout.units_per_page);
        let foreground = self.gc_keeps_pace_with_host(die);
        let state = &mut self.dies[die as usize];
        match self.parameters.slc {
            Some(slc) if self.states[block as usize].slc => {
                if state.slc >= slc.blocks {
                    state.fold_backlog_ppm += units * 1_000_000;
                } else if !state.slc_closed.is_empty() {
                    state.fold_backlog_ppm += units * i64::from(slc.fold_ppm);
                }
            }
            _ if foreground => state.gc_backlog += units,
            _ => state.gc_backlog = 0,
        }
    }

    /// Forms a program of a page of accepted units and assigns the next page of `block` to it.
    fn program_accepted(&mut self, die: u32, block: u32, source: Source) {
        let buffer = self.buffers.source_mut(source);
        let count = self.layout.units_per_page.min(buffer.waiting());
        let id = self.programs.begin(die, source);
        for part in &mut self.programs.parts_mut(id)[..count as usize] {
            let (from, unit) = buffer.take().expect("as many as counted");
            *part = Part { from, unit };
        }
        self.programs.get_mut(id).count = count;
        self.prefetch_commit(id, source);
        self.dies[die as usize].programs += 1;
        let cause = if source == Source::Data { Cause::Host } else { Cause::Map };
        self.assign_page(id, die, block, cause);
    }

    /// Programs the full pages of moved units of a die, as far as blocks and the limit of programs in flight allow.
    #[inline(always)]
    pub(super) fn program_moved_pages(&mut self, die: u32) {
        while self.dies[die as usize].move_programs < PROGRAMS_PER_DIE_MAX
            && let Some(id) = self.dies[die as usize].full_pages.front()
        {
            let &Program { source, .. } = self.programs.get(id);
            let Source::Moved(stream) = source else { unreachable!("moved units are gathered") };
            let Some((on, block)) = self.block_for_moves(die, stream) else { return };
            let state = &mut self.dies[die as usize];
            self.programs.pop_front(&mut state.full_pages);
            state.move_programs += 1;
            let first = self.programs.parts(id)[0].from;
            let cause = self.states[self.layout.block_of(first) as usize].cause;
            if cause == Cause::Fold && self.gc_keeps_pace_with_host(die) {
                self.dies[die as usize].gc_backlog += i64::from(self.layout.units_per_page);
            }
            self.assign_page(id, on, block, cause);
            if on != die {
                self.update_writable(on);
            }
        }
    }

    /// Returns a block for a page of moved units, and the die of the block. If this die has no block, another die with
    /// more free blocks than it needs provides one.
    #[inline]
    fn block_for_moves(&mut self, die: u32, stream: Stream) -> Option<(u32, u32)> {
        if let Some(block) = self.open_block(die, stream, 0) {
            return Some((die, block));
        }
        self.other_die_for_moves(die, stream)
    }

    #[cold]
    fn other_die_for_moves(&mut self, die: u32, stream: Stream) -> Option<(u32, u32)> {
        let own = &self.dies[die as usize];
        if own.free > 0 || own.reads > 0 || own.move_programs > 0 || own.programs > 0 {
            return None;
        }
        let floor = self.parameters.floor();
        let dies = self.layout.dies;
        let other = (1..dies).map(|n| wrap(die + n, dies)).find(|other| {
            let other = &self.dies[*other as usize];
            other.free > floor
        })?;
        Some((other, self.open_block(other, stream, floor)?))
    }

    /// Assigns the next page of `block`, which is open on the die `on`, to a program and makes the program ready to be
    /// issued.
    #[inline(always)]
    fn assign_page(&mut self, id: u32, on: u32, block: u32, cause: Cause) {
        let state = &mut self.states[block as usize];
        let (page, slc) = (state.next_page, state.slc);
        state.next_page += 1;
        state.programs += 1;
        if state.next_page == self.layout.pages_of(slc) {
            self.dies[on as usize].open[state.stream as usize] = None;
        }
        let per_page = self.layout.units_per_page;
        let place = self.layout.place(block, page);
        let program = self.programs.get_mut(id);
        (program.place, program.block, program.is_issued) = (place, block, true);
        let count = program.count;
        self.map.reverse_mut().write(block, page, self.programs.parts(id), count);
        if self.map.versions().is_some() {
            self.record_versions(id);
        }
        // A page is transferred as a whole, including its padding.
        let kind = Kind::Program { bytes: per_page * self.parameters.unit as u32 };
        self.ready.push(Operation { kind, block: EraseBlock::new(block), page, slc, cause, tag: id });
    }

    /// Returns the content that a program in flight writes as unit `index` of its page.
    ///
    /// # Panics
    /// If the operation is not a program of this layer in flight.
    pub fn content(&self, operation: &Operation, index: u32) -> Content {
        let id = operation.tag;
        let program = self.programs.get(id);
        assert!(
            program.is_issued && program.place == self.layout.place(operation.block.index(), operation.page),
            "{operation:?} is not under way"
        );
        if index >= program.count {
            return Content::Padding;
        }
        let Part { from, unit } = self.programs.parts(id)[index as usize];
        match program.source {
            Source::Data => Content::New { unit, version: self.buffers.data.slot(from).version },
            Source::Map => Content::New { unit, version: self.buffers.map.slot(from).version },
            Source::Moved(_) => {
                let (block, page, index) = self.layout.parts(from);
                Content::Copy { unit, block: EraseBlock::new(block), page, index }
            }
        }
    }
}

/// Returns `n` modulo `of`, for `n` below `2 * of`.
#[inline]
fn wrap(n: u32, of: u32) -> u32 {
    if n >= of { n - of } else { n }
}
