//! The dies and their open blocks: where the next page of each stream goes.
//!
//! # Invariant
//! Each stream has at most one open block on a die, and that block has a page left. `free` is the number of free blocks
//! in the die's pool, and `slc` the number of the die's blocks with one bit per cell. The last free blocks of a die
//! (the *floor*) are kept for moved units, map pages and trim records, whatever the host writes.
//! [`Dies::validate`] checks the counts and the open blocks.

use super::PageMapParameters;
use super::Streams;
use super::bits::DieSet;
use super::block_states::{BlockStates, Phase, STREAMS, Stream};
use super::place::Layout;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use crate::nand::EraseBlock;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Maximum number of programs in flight on a die, for accepted units and for moved units separately: one in the array
/// and one in transfer.
const PROGRAMS_PER_DIE_MAX: u32 = 2;

/// State of a die.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Die {
    /// Block that each stream writes.
    open: [Option<EraseBlock>; STREAMS],
    /// Number of free blocks.
    free: u32,
    /// Number of blocks with one bit per cell.
    slc: u32,
    /// Number of programs of accepted units in flight.
    pub(super) programs: u32,
    /// Number of programs in flight whose units were read from this die.
    pub(super) move_programs: u32,
}

impl Die {
    fn new(free: u32) -> Self {
        Die { open: [None; STREAMS], free, slc: 0, programs: 0, move_programs: 0 }
    }
    /// Returns the open blocks, with the numbers of their streams.
    pub(super) fn open_blocks(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.open.iter().enumerate().filter_map(|(stream, block)| Some((stream, (*block)?.index())))
    }
    /// Returns the block that a stream writes.
    #[inline(always)]
    pub(super) fn open_block(&self, stream: Stream) -> Option<u32> {
        self.open[stream as usize].map(EraseBlock::index)
    }
    #[inline(always)]
    pub(super) fn free(&self) -> u32 {
        self.free
    }
    /// Returns the number of blocks with one bit per cell.
    #[inline(always)]
    pub(super) fn slc(&self) -> u32 {
        self.slc
    }
    /// Returns true if no program is in flight.
    pub(super) fn rests(&self) -> bool {
        self.programs == 0 && self.move_programs == 0
    }
    /// Returns true if another program of moved units may start.
    #[inline(always)]
    pub(super) fn admits_move_program(&self) -> bool {
        self.move_programs < PROGRAMS_PER_DIE_MAX
    }

    /// Returns the number of free blocks, without those reserved for the SLC buffer.
    #[inline(always)]
    pub(super) fn free_beyond_slc(&self, parameters: &PageMapParameters) -> u32 {
        match &parameters.slc {
            None => self.free,
            Some(slc) => self.free.saturating_sub(slc.blocks.saturating_sub(self.slc)),
        }
    }
    /// Returns true if garbage collection must keep pace with the host.
    pub(super) fn gc_keeps_pace_with_host(&self, parameters: &PageMapParameters) -> bool {
        self.free_beyond_slc(parameters) <= parameters.reserve
    }
    /// Returns true if the only free blocks left are those that the host may not take.
    #[inline(always)]
    pub(super) fn is_short_of_free_blocks(&self, parameters: &PageMapParameters) -> bool {
        self.free_beyond_slc(parameters) <= parameters.floor()
    }
    /// Returns true if host data has no open block and the SLC buffer is full, so that the host waits for folding.
    #[inline(always)]
    pub(super) fn host_waits_for_folding(&self, parameters: &PageMapParameters) -> bool {
        let full = |slc: super::slc::Slc| self.slc >= slc.blocks;
        self.open_block(Stream::Host).is_none() && parameters.slc.is_some_and(full)
    }

    /// Returns true if a stream may open a block; more than `floor` blocks must be free beforehand.
    #[inline]
    fn may_open(&self, stream: Stream, floor: u32, parameters: &PageMapParameters) -> bool {
        match &parameters.slc {
            Some(slc) if stream == Stream::Host => self.slc < slc.blocks && self.free > floor,
            Some(_) if floor > 0 => self.free_beyond_slc(parameters) > floor,
            _ => self.free > floor,
        }
    }
    /// Returns true if a page of accepted units may be programmed now.
    #[inline]
    pub(super) fn can_program(&self, stream: Stream, floor: u32, parameters: &PageMapParameters) -> bool {
        let is_open =
            self.open_block(stream).is_some() && !self.is_reserved_for_moves(stream, floor, parameters);
        self.programs < PROGRAMS_PER_DIE_MAX && (is_open || self.may_open(stream, floor, parameters))
    }
    /// Returns true if the rest of the open block is reserved for moved units, which share the block if there is one
    /// stream for all data. Without this reservation, the host would take the room that was counted for a victim, and
    /// no block would become free again.
    #[inline]
    fn is_reserved_for_moves(&self, stream: Stream, floor: u32, parameters: &PageMapParameters) -> bool {
        let is_shared = stream == Stream::Host && parameters.streams == Streams::One;
        is_shared && parameters.slc.is_none() && self.free < floor
    }
}

/// All dies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Dies {
    dies: Vec<Die>,
    /// Dies that can accept a page of host data now.
    writable: DieSet,
    /// Die that receives the next page of host data, if it accepts one.
    next_host: u32,
    /// Die that receives the next page of the map, if it accepts one.
    next_map: u32,
}

impl Dies {
    /// Creates dies without an open block; their free blocks are those of `blocks`.
    pub(super) fn new(blocks: &BlockStates) -> Self {
        let dies = blocks.pool().pool_count();
        Dies {
            dies: (0..dies).map(|die| Die::new(blocks.pool().free_count(die))).collect(),
            writable: DieSet::new(dies),
            next_host: 0,
            next_map: 0,
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, die: u32) -> &Die {
        &self.dies[die as usize]
    }
    #[inline(always)]
    pub(super) fn get_mut(&mut self, die: u32) -> &mut Die {
        &mut self.dies[die as usize]
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = &Die> {
        self.dies.iter()
    }
    #[inline(always)]
    pub(super) fn count(&self) -> u32 {
        self.dies.len() as u32
    }
    /// Returns true if a die accepts a page of host data.
    #[inline]
    pub(super) fn any_is_writable(&self) -> bool {
        !self.writable.is_empty()
    }
    /// Records whether a die accepts a page of host data, after a change of its state.
    #[inline(always)]
    pub(super) fn set_writable(&mut self, die: u32, is_writable: bool) {
        self.writable.set(die, is_writable);
    }

    /// Returns the die that programs the next page of host data, if one accepts it. Pages rotate over the dies.
    #[inline(always)]
    pub(super) fn next_for_host(&mut self) -> Option<u32> {
        let die = self.writable.next(self.next_host)?;
        self.next_host = wrap(die + 1, self.count());
        Some(die)
    }
    /// Returns the die that programs the next page of the map, if a die accepts it and keeps `floor` free
    /// blocks.
    pub(super) fn next_for_map(&mut self, floor: u32, parameters: &PageMapParameters) -> Option<u32> {
        let dies = self.count();
        let mut all = (0..dies).map(|n| wrap(self.next_map + n, dies));
        let die = all.find(|die| self.get(*die).can_program(Stream::Map, floor, parameters))?;
        self.next_map = wrap(die + 1, dies);
        Some(die)
    }
    /// Returns another die with more than `floor` free blocks, to which units of `die` can move.
    pub(super) fn other_than(&self, die: u32, floor: u32) -> Option<u32> {
        let dies = self.count();
        (1..dies).map(|n| wrap(die + n, dies)).find(|other| self.get(*other).free > floor)
    }

    /// Returns the block of a die that a stream writes. A new block is opened only if more than `floor` blocks are
    /// free.
    #[inline]
    pub(super) fn open_block(
        &mut self,
        die: u32,
        stream: Stream,
        floor: u32,
        blocks: &mut BlockStates,
        parameters: &PageMapParameters,
    ) -> Option<u32> {
        match self.get(die).open_block(stream) {
            None => self.open_new_block(die, stream, floor, blocks, parameters),
            open => open,
        }
    }

    #[cold]
    fn open_new_block(
        &mut self,
        die: u32,
        stream: Stream,
        floor: u32,
        blocks: &mut BlockStates,
        parameters: &PageMapParameters,
    ) -> Option<u32> {
        let state = self.get_mut(die);
        if !state.may_open(stream, floor, parameters) {
            return None;
        }
        let slc = stream == Stream::Host && parameters.slc.is_some();
        let block = blocks.open(die, stream, slc);
        state.free -= 1;
        state.slc += u32::from(slc);
        state.open[stream as usize] = Some(EraseBlock::new(block));
        Some(block)
    }

    /// Assigns the next page of a block that is open on `die` to a program. Returns the page. After the last page, the
    /// block is not open any more.
    #[inline(always)]
    pub(super) fn take_page(
        &mut self,
        die: u32,
        block: u32,
        blocks: &mut BlockStates,
        layout: &Layout,
    ) -> u32 {
        let page = blocks.begin_program(block);
        let state = blocks.get(block);
        if page + 1 == layout.pages_of(state.slc) {
            self.get_mut(die).open[state.stream as usize] = None;
        }
        page
    }

    /// Records that a program in `block` failed: no further page of the block is programmed.
    #[cold]
    pub(super) fn abandon(&mut self, die: u32, block: u32) {
        for open in &mut self.get_mut(die).open {
            if *open == Some(EraseBlock::new(block)) {
                *open = None;
            }
        }
    }
    /// Records that a block is free or bad now; `slc` is true if it was in SLC mode.
    pub(super) fn returned(&mut self, die: u32, slc: bool, is_free: bool) {
        let state = self.get_mut(die);
        state.slc -= u32::from(slc);
        state.free += u32::from(is_free);
    }
    /// Forgets open blocks and programs after a power cut.
    pub(super) fn restart(&mut self, blocks: &BlockStates) {
        for (index, die) in (0..).zip(&mut self.dies) {
            *die = Die::new(blocks.pool().free_count(index));
        }
    }
    /// Records a block that was found after a power cut. A partly written block is `open` for its stream.
    pub(super) fn found(&mut self, die: u32, block: u32, slc: bool, open: Option<Stream>) {
        let state = self.get_mut(die);
        state.slc += u32::from(slc);
        if let Some(stream) = open {
            state.open[stream as usize] = Some(EraseBlock::new(block));
        }
    }

    /// Checks the dies against the blocks. `can_program` returns true if a die accepts a page of host data.
    pub(super) fn validate(
        &self,
        blocks: &BlockStates,
        layout: &Layout,
        can_program: &dyn Fn(u32) -> bool,
    ) -> Result<(), Inconsistent> {
        ensure!(
            self.count() == layout.dies && self.writable.holds(layout.dies),
            "there are {} dies, expected {}",
            self.count(),
            layout.dies
        );
        ensure!(self.next_host.max(self.next_map) < layout.dies, "the next die to write to does not exist");
        for (index, die) in (0..).zip(&self.dies) {
            let free = blocks.pool().free_count(index);
            ensure!(die.free == free, "die {index} counts {} free blocks; its pool has {free}", die.free);
            let slc = blocks.of_die(index, layout.dies).filter(|(_, state)| state.slc).count() as u32;
            ensure!(slc == die.slc, "{slc} blocks of die {index} are in SLC mode, but it counts {}", die.slc);
            for (stream, block) in die.open_blocks() {
                ensure!(
                    block < layout.blocks && layout.die_of(block) == index,
                    "block {block}, which is open on die {index}, is not one of its blocks"
                );
                let state = blocks.get(block);
                let right = state.phase == Phase::Open
                    && state.stream as usize == stream
                    && state.next_page < layout.pages_of(state.slc)
                    && (stream == Stream::Host as usize || !state.slc);
                ensure!(right, "block {block} cannot be open for stream {stream} of {STREAMS}: {state:?}");
            }
            let can_program = can_program(index);
            ensure!(
                self.writable.contains(index) == can_program,
                "the list of dies that accept a page is wrong for die {index}, expected {can_program}"
            );
        }
        Ok(())
    }
}

/// Returns `n` modulo `of`, for `n` below `2 * of`.
#[inline]
fn wrap(n: u32, of: u32) -> u32 {
    if n >= of { n - of } else { n }
}

#[cfg(test)]
mod tests {
    use super::super::slc::Slc;
    use super::*;
    use crate::ftl::Blocks;

    fn new(parameters: &PageMapParameters) -> (Dies, BlockStates, Layout) {
        let layout = Layout::new(parameters);
        let pool = Blocks::new(layout.blocks, layout.dies, parameters.leveling, None, 1);
        let blocks = BlockStates::new(pool);
        (Dies::new(&blocks), blocks, layout)
    }

    #[test]
    fn a_stream_fills_its_block_page_by_page_and_stops_at_the_floor() {
        let parameters = PageMapParameters::tiny();
        let (mut dies, mut blocks, layout) = new(&parameters);
        let floor = parameters.floor();
        let mut pages = 0;
        while let Some(block) = dies.open_block(0, Stream::Host, floor, &mut blocks, &parameters) {
            assert_eq!(dies.take_page(0, block, &mut blocks, &layout), pages % layout.pages);
            pages += 1;
            dies.validate(&blocks, &layout, &|_| false).expect("the dies are consistent");
        }
        assert_eq!(pages, (parameters.geometry.blocks - floor) * layout.pages);
        assert!(!dies.get(0).can_program(Stream::Host, floor, &parameters));
        assert_eq!(dies.other_than(0, floor), Some(1));
        let moved = dies.open_block(0, Stream::GarbageCollection, 0, &mut blocks, &parameters);
        assert!(moved.is_some(), "moved units may take the last blocks");
    }

    #[test]
    fn host_pages_rotate_over_the_dies_that_accept_one() {
        let parameters = PageMapParameters::tiny();
        let (mut dies, ..) = new(&parameters);
        assert_eq!(dies.next_for_host(), None);
        (0..2).for_each(|die| dies.set_writable(die, true));
        let turns: Vec<Option<u32>> = (0..3).map(|_| dies.next_for_host()).collect();
        assert_eq!(turns, [Some(0), Some(1), Some(0)]);
        dies.set_writable(1, false);
        assert_eq!(dies.next_for_host(), Some(0));
    }

    #[test]
    fn the_slc_buffer_opens_no_more_blocks_than_it_has() {
        let slc = Some(Slc { blocks: 2, fold_ppm: 0 });
        let parameters = PageMapParameters { slc, ..PageMapParameters::tiny() };
        let (mut dies, mut blocks, layout) = new(&parameters);
        let mut pages = 0;
        while let Some(block) = dies.open_block(0, Stream::Host, 2, &mut blocks, &parameters) {
            dies.take_page(0, block, &mut blocks, &layout);
            pages += 1;
        }
        assert_eq!((pages, dies.get(0).slc()), (2 * layout.slc_pages, 2));
        assert!(dies.get(0).host_waits_for_folding(&parameters));
        dies.returned(0, true, false);
        assert!(!dies.get(0).host_waits_for_folding(&parameters));
    }

    #[test]
    fn a_block_with_a_failed_program_gets_no_further_page() {
        let parameters = PageMapParameters::tiny();
        let (mut dies, mut blocks, layout) = new(&parameters);
        let block = dies.open_block(0, Stream::Host, 2, &mut blocks, &parameters).expect("it has room");
        dies.take_page(0, block, &mut blocks, &layout);
        blocks.program_ended(block, true, &layout);
        assert!(dies.validate(&blocks, &layout, &|_| false).is_err(), "the failed block is still open");
        dies.abandon(0, block);
        dies.validate(&blocks, &layout, &|_| false).expect("it is not open any more");
        assert_ne!(dies.open_block(0, Stream::Host, 2, &mut blocks, &parameters), Some(block));
    }
}
