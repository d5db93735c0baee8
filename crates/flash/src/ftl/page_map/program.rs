//! Formation of programs: the units of a page, and the place that the page goes to.

use super::PageMap;
use super::block_states::Stream;
use super::programs::{Part, Program, Source};
use crate::nand::{Cause, EraseBlock, Kind, Operation};

/// Content of a unit in a page that is being programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// Padding: the page is programmed before it is full.
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
    /// Programs pages of accepted units as long as pages wait and a die accepts one.
    #[inline(always)]
    pub(super) fn program_data(&mut self) {
        while self.buffers.data.page_waits(self.layout.units_per_page) {
            let Some(die) = self.dies.next_for_host() else { return };
            self.program_accepted(die, Stream::Host, self.parameters.floor());
        }
    }

    /// Programs pages of the map and of trim records as long as pages wait and a die accepts one.
    #[inline]
    pub(super) fn program_map(&mut self) {
        while self.buffers.map.page_waits(self.layout.units_per_page) && self.program_map_page() {}
    }

    /// Programs a page of the map, if a die accepts it.
    #[cold]
    fn program_map_page(&mut self) -> bool {
        // Map pages may take one free block more than host data. While blocks wait for a trim record before
        // they are erased, pages of the map and of trim records may take the last free blocks, too.
        let floor = if self.trim_log.holds_blocks() { 0 } else { self.parameters.floor() - 1 };
        let Some(die) = self.dies.next_for_map(floor, &self.parameters) else { return false };
        self.program_accepted(die, Stream::Map, floor);
        true
    }

    /// Returns true if a die accepts a page of host data.
    #[inline(always)]
    pub(super) fn can_program_host_data(&self, die: u32) -> bool {
        let state = self.dies.get(die);
        self.collector.get(die).lets_host_program(self.layout.units_per_page)
            && state.can_program(Stream::Host, self.parameters.floor(), &self.parameters)
    }

    /// Updates the set of dies that accept a page of host data, after a change of the state of `die`.
    #[inline(always)]
    pub(super) fn update_writable(&mut self, die: u32) {
        let is_writable = self.can_program_host_data(die);
        self.dies.set_writable(die, is_writable);
    }

    /// Programs a page of accepted units of `stream` on `die`, which must accept one. Then adds the space of the page
    /// to the die's backlog of garbage collection or folding.
    #[inline(always)]
    fn program_accepted(&mut self, die: u32, stream: Stream, floor: u32) {
        let source = if stream == Stream::Host { Source::Data } else { Source::Map };
        let block = self.dies.open_block(die, stream, floor, &mut self.blocks, &self.parameters);
        let block = block.expect("the die accepts a page");
        let id = self.programs.gather_accepted(die, source, self.buffers.source_mut(source));
        self.prefetch_commit(id, source);
        self.dies.get_mut(die).programs += 1;
        let cause = if source == Source::Data { Cause::Host } else { Cause::Map };
        self.assign_page(id, die, block, cause);
        let slc = self.parameters.slc.as_ref().filter(|_| self.blocks.get(block).slc);
        let state = self.dies.get(die);
        let (is_full, foreground) = (
            slc.is_some_and(|slc| state.slc() >= slc.blocks),
            state.gc_keeps_pace_with_host(&self.parameters),
        );
        self.collector.get_mut(die).charge(self.layout.units_per_page, slc, is_full, foreground);
        self.collect_garbage(die);
    }

    /// Programs the full pages of moved units of a die, as far as blocks and the limit of programs in flight allow.
    #[inline(always)]
    pub(super) fn program_moved_pages(&mut self, die: u32) {
        while self.dies.get(die).admits_move_program()
            && let Some(id) = self.collector.get(die).full_pages.front()
        {
            let &Program { source, .. } = self.programs.get(id);
            let Source::Moved(stream) = source else { unreachable!("moved units are gathered") };
            let Some((on, block)) = self.block_for_moves(die, stream) else { return };
            self.programs.pop_front(&mut self.collector.get_mut(die).full_pages);
            self.dies.get_mut(die).move_programs += 1;
            let first = self.programs.parts(id)[0].from;
            let cause = self.blocks.get(self.layout.block_of(first)).cause;
            if cause == Cause::Fold && self.dies.get(die).gc_keeps_pace_with_host(&self.parameters) {
                self.collector.get_mut(die).gc_backlog += i64::from(self.layout.units_per_page);
            }
            self.assign_page(id, on, block, cause);
            if on != die {
                self.update_writable(on);
            }
        }
    }

    /// Returns a block for a page of moved units, and the die of the block. If this die is at rest and has no
    /// free block, another die with more free blocks than it needs provides one.
    #[inline]
    fn block_for_moves(&mut self, die: u32, stream: Stream) -> Option<(u32, u32)> {
        if let Some(block) = self.dies.open_block(die, stream, 0, &mut self.blocks, &self.parameters) {
            return Some((die, block));
        }
        self.other_die_for_moves(die, stream)
    }

    #[cold]
    fn other_die_for_moves(&mut self, die: u32, stream: Stream) -> Option<(u32, u32)> {
        let own = self.dies.get(die);
        if own.free() > 0 || self.collector.get(die).reads > 0 || !own.rests() {
            return None;
        }
        let floor = self.parameters.floor();
        let other = self.dies.other_than(die, floor)?;
        let block = self.dies.open_block(other, stream, floor, &mut self.blocks, &self.parameters)?;
        Some((other, block))
    }

    /// Assigns the next page of `block` to a program, and makes the program ready to be issued. The block is
    /// open on the die `on`.
    #[inline(always)]
    fn assign_page(&mut self, id: u32, on: u32, block: u32, cause: Cause) {
        let page = self.dies.take_page(on, block, &mut self.blocks, &self.layout);
        let count = self.programs.issue(id, self.layout.place(block, page), block);
        self.map.reverse_mut().write(block, page, self.programs.parts(id), count);
        if self.map.versions().is_some() {
            self.record_versions(id);
        }
        // A page is transferred as a whole, including its padding.
        let kind = Kind::Program { bytes: self.layout.units_per_page * self.parameters.unit as u32 };
        let slc = self.blocks.get(block).slc;
        self.operations.push(Operation { kind, block: EraseBlock::new(block), page, slc, cause, tag: id });
    }

    /// Returns the content that a program in flight writes as unit `index` of its page.
    ///
    /// # Panics
    /// Panics if the operation is not a program of this layer in flight.
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
            Source::Data | Source::Map => {
                Content::New { unit, version: self.buffers.source(program.source).slot(from).version }
            }
            Source::Moved(_) => {
                let (block, page, index) = self.layout.parts(from);
                Content::Copy { unit, block: EraseBlock::new(block), page, index }
            }
        }
    }
}
