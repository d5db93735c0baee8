//! State of each erase block of the layer, in addition to its state in the pool of free blocks.
//!
//! # Invariant
//! A block is free, open, closed, a victim, drained and being erased in turn, and then free again. A block in which a
//! program failed is [`Phase::Failed`] instead of closed, and [`Phase::Bad`] instead of free; a block whose
//! erase failed is bad too. A power cut may return a block to an earlier phase. A block is free in the pool
//! if its phase is [`Phase::Free`], bad if its phase is [`Phase::Bad`], and used in all others. Pages are
//! programmed in order, and only while the block is open. A block leaves the phase [`Phase::Drained`] only
//! when no unit read from it is on its way to another block, or at a power cut. [`BlockStates::validate`]
//! checks the phases against the pool and the units.

use super::place::Layout;
use crate::ftl::inconsistent::ensure;
use crate::ftl::{Blocks, Erased, Inconsistent};
use crate::nand::{Cause, EraseBlock};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Stream of data of one kind. Each stream has at most one open block on each die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub(super) enum Stream {
    /// Data that the host writes. With one stream for all data and without an SLC buffer, also data that
    /// garbage collection moves.
    Host,
    /// Data that garbage collection or folding moved, except cold data.
    GarbageCollection,
    /// Data that garbage collection moved out of blocks of moved data, if the layer separates it.
    Cold,
    /// Data that wear leveling moved.
    WearLeveling,
    /// Map pages and trim records.
    Map,
}

/// Number of streams.
pub(super) const STREAMS: usize = 5;

/// Phase of a block. The documentation of the module states the order of the phases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Phase {
    Free,
    /// The block is being written, or its last programs are in flight.
    Open,
    /// The block is full and a candidate for garbage collection or folding.
    Closed,
    /// A program in the block failed: the block's data has to move, and then the block is retired.
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
    /// Number of units that were read in order to be moved and are not programmed yet.
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
    const FREE: BlockState = BlockState {
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
    /// Number of the last trim or loss of a unit in the block.
    pub(super) trimmed: u64,
    /// Number of the last accepted write or trim when the last page of the block was programmed.
    pub(super) closed_at: u64,
}

/// Step that follows when a program of a block has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AfterProgram {
    /// The block stays open, or other programs of it are in flight.
    Nothing,
    /// The last page is programmed: the block is to be closed.
    Close,
    /// A program failed and no program is in flight: the data of the block has to move.
    MoveData,
}

/// The states of all blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BlockStates {
    states: Vec<BlockState>,
    histories: Vec<BlockHistory>,
    pool: Blocks,
}

impl BlockStates {
    /// Creates the states of the blocks of a new device.
    pub(super) fn new(pool: Blocks) -> Self {
        let phase = |block| if pool.is_bad(EraseBlock::new(block)) { Phase::Bad } else { Phase::Free };
        let state = |block| BlockState { phase: phase(block), ..BlockState::FREE };
        BlockStates {
            states: (0..pool.count()).map(state).collect(),
            histories: vec![BlockHistory::default(); pool.count() as usize],
            pool,
        }
    }

    /// Returns the pool of free blocks and the wear of all blocks.
    pub(super) fn pool(&self) -> &Blocks {
        &self.pool
    }
    #[inline(always)]
    pub(super) fn get(&self, block: u32) -> &BlockState {
        &self.states[block as usize]
    }
    #[inline(always)]
    fn get_mut(&mut self, block: u32) -> &mut BlockState {
        &mut self.states[block as usize]
    }
    pub(super) fn history(&self, block: u32) -> &BlockHistory {
        &self.histories[block as usize]
    }
    /// Returns the number of blocks in a phase.
    pub(super) fn count(&self, phase: Phase) -> u32 {
        self.states.iter().filter(|state| state.phase == phase).count() as u32
    }
    /// Returns the blocks of a die, with their states.
    pub(super) fn of_die(&self, die: u32, dies: u32) -> impl Iterator<Item = (u32, &BlockState)> {
        (0..).zip(&self.states).skip(die as usize).step_by(dies as usize)
    }
    /// Returns all blocks, with their states.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &BlockState)> {
        (0..).zip(&self.states)
    }

    /// Takes a free block of a die for a stream and opens it.
    pub(super) fn open(&mut self, die: u32, stream: Stream, slc: bool) -> u32 {
        let block = match stream {
            Stream::WearLeveling => self.pool.take_worn(die),
            _ => self.pool.take(die),
        };
        let block = block.expect("a die's free blocks are those of its pool").index();
        let state = self.get_mut(block);
        debug_assert_eq!(state.phase, Phase::Free);
        *state = BlockState { phase: Phase::Open, stream, slc, ..BlockState::FREE };
        block
    }

    /// Assigns the next page of an open block to a program. Returns the page.
    #[inline]
    pub(super) fn begin_program(&mut self, block: u32) -> u32 {
        let state = self.get_mut(block);
        let page = state.next_page;
        state.next_page += 1;
        state.programs += 1;
        page
    }

    /// Records the end of a program in `block`. After a failure, no further page of the block is programmed.
    #[inline]
    pub(super) fn program_ended(&mut self, block: u32, failed: bool, layout: &Layout) -> AfterProgram {
        let state = self.get_mut(block);
        state.programs -= 1;
        if failed {
            state.must_retire = true;
            state.phase = Phase::Failed;
        }
        self.after_program(block, layout)
    }

    /// Returns the step that is due in a block in which a program has ended.
    #[inline(always)]
    pub(super) fn after_program(&self, block: u32, layout: &Layout) -> AfterProgram {
        let state = self.get(block);
        match state.phase {
            _ if state.programs > 0 => AfterProgram::Nothing,
            Phase::Failed => AfterProgram::MoveData,
            Phase::Open if state.next_page == layout.pages_of(state.slc) => AfterProgram::Close,
            _ => AfterProgram::Nothing,
        }
    }

    /// Records that the last page of a block was programmed when `accepted` writes and trims had been accepted.
    pub(super) fn fill(&mut self, block: u32, accepted: u64) {
        self.histories[block as usize].closed_at = accepted;
    }
    /// Closes a full block.
    pub(super) fn close(&mut self, block: u32) {
        self.get_mut(block).phase = Phase::Closed;
    }
    /// Sets the reason why the data of a block is to move.
    pub(super) fn set_cause(&mut self, block: u32, cause: Cause) {
        self.get_mut(block).cause = cause;
    }
    /// Makes a closed or failed block a victim.
    pub(super) fn begin_victim(&mut self, block: u32, cause: Cause) {
        let state = self.get_mut(block);
        debug_assert!(matches!(state.phase, Phase::Closed | Phase::Failed), "block {block}: {state:?}");
        (state.phase, state.cause) = (Phase::Victim, cause);
    }
    /// Records that `units` units of a victim were read and are to be programmed elsewhere.
    #[inline(always)]
    pub(super) fn moves_begun(&mut self, block: u32, units: u32) {
        self.get_mut(block).moves_in_flight += units;
    }
    /// Records that `units` units of a victim are programmed elsewhere. Returns true if the block is empty now.
    #[inline(always)]
    pub(super) fn moves_finished(&mut self, block: u32, units: u32) -> bool {
        let state = self.get_mut(block);
        state.moves_in_flight -= units;
        state.moves_in_flight == 0 && state.phase == Phase::Drained
    }
    /// Records that all pages of a victim were read. Returns true if the block is empty now.
    pub(super) fn drain(&mut self, block: u32) -> bool {
        let state = self.get_mut(block);
        state.phase = Phase::Drained;
        state.moves_in_flight == 0
    }
    /// Records that an empty block is to be erased or retired.
    pub(super) fn begin_erase(&mut self, block: u32) {
        self.get_mut(block).phase = Phase::Erasing;
    }
    /// Records that a unit in a block was trimmed by the trim with this number.
    pub(super) fn trimmed(&mut self, block: u32, number: u64) {
        let trimmed = &mut self.histories[block as usize].trimmed;
        *trimmed = number.max(*trimmed);
    }

    /// Records the end of an erase. Returns true if the block is free now, false if it is bad.
    pub(super) fn erased(&mut self, block: u32, failed: bool) -> bool {
        let number = EraseBlock::new(block);
        if failed {
            self.pool.retire(number);
        } else if self.pool.erased(number) == Erased::Free {
            self.reset(block, Phase::Free);
            return true;
        }
        self.reset(block, Phase::Bad);
        false
    }
    /// Retires a block whose data has been moved.
    pub(super) fn retire(&mut self, block: u32) {
        self.pool.retire(EraseBlock::new(block));
        self.reset(block, Phase::Bad);
    }
    fn reset(&mut self, block: u32, phase: Phase) {
        self.states[block as usize] = BlockState { phase, ..BlockState::FREE };
        self.histories[block as usize] = BlockHistory::default();
    }

    /// Returns the closed block of a die whose data wear leveling should move next, if any.
    pub(super) fn to_level(&self, die: u32) -> Option<u32> {
        let movable = |block: EraseBlock| {
            let state = self.get(block.index());
            state.phase == Phase::Closed && !state.slc
        };
        self.pool.relocate_among(die, &movable).map(EraseBlock::index)
    }

    /// Withdraws the assignment of a page whose program had not begun when the power was cut, and of all pages after
    /// it.
    pub(super) fn undo_program(&mut self, block: u32, page: u32) {
        let state = self.get_mut(block);
        state.next_page = state.next_page.min(page);
    }
    /// Forgets all programs and moves in flight, which a power cut ended. A block that was about to be
    /// retired returns to the phase [`Phase::Failed`]. An open block without a programmed page becomes free
    /// again. Otherwise, its stream might have two open blocks, because the last page of the previous block
    /// may not be programmed either.
    pub(super) fn recover(&mut self, block: u32) {
        let state = self.get_mut(block);
        (state.programs, state.moves_in_flight) = (0, 0);
        if state.must_retire && !matches!(state.phase, Phase::Bad | Phase::Free) {
            state.phase = Phase::Failed;
        } else if state.phase == Phase::Open && state.next_page == 0 {
            self.pool.release(EraseBlock::new(block));
            self.reset(block, Phase::Free);
        }
    }

    /// Checks the states against the pool. `valid` returns the number of valid units of a block, or `None` if
    /// a page that was never programmed has valid units.
    pub(super) fn validate(
        &self,
        layout: &Layout,
        has_slc: bool,
        accepted: u64,
        valid: &dyn Fn(u32, &BlockState) -> Option<u32>,
    ) -> Result<(), Inconsistent> {
        self.pool.validate()?;
        for (block, state) in self.iter() {
            let history = self.history(block);
            ensure!(
                state.next_page <= layout.pages_of(state.slc)
                    && (!state.slc || has_slc)
                    && history.trimmed.max(history.closed_at) <= accepted,
                "block {block} has a state or a history that is out of range: {state:?}, {history:?}"
            );
            let Some(valid) = valid(block, state) else {
                let what =
                    alloc::format!("block {block} has valid units in pages that were never programmed");
                return Err(Inconsistent { what });
            };
            let number = EraseBlock::new(block);
            let (used, bad) = (self.pool.is_used(number), self.pool.is_bad(number));
            let right = match state.phase {
                Phase::Free | Phase::Bad => {
                    (valid, state.moves_in_flight, used) == (0, 0, false)
                        && bad == (state.phase == Phase::Bad)
                }
                Phase::Closed => used && state.programs == 0 && state.moves_in_flight == 0,
                Phase::Erasing => used && valid == 0 && state.moves_in_flight == 0,
                Phase::Victim | Phase::Drained => used,
                Phase::Open | Phase::Failed => used && state.moves_in_flight == 0,
            };
            ensure!(
                right,
                "the phase of block {block} contradicts the pool (used: {used}, bad: {bad}) or its units: \
                 {state:?}"
            );
        }
        // Each block is in one phase, and the pool's counts of free and bad blocks agree.
        let (free, bad) = (self.count(Phase::Free), self.count(Phase::Bad));
        let (pool_free, pool_bad) = (self.pool.free_count_total(), self.pool.bad_count());
        ensure!(free == pool_free, "{free} blocks are free, but the pool counts {pool_free}");
        ensure!(bad == pool_bad, "{bad} blocks are bad, but the pool counts {pool_bad}");
        Ok(())
    }

    /// Returns true if there is a state for each of `blocks` blocks.
    pub(super) fn holds(&self, blocks: u32) -> bool {
        [self.states.len(), self.histories.len(), self.pool.count() as usize] == [blocks as usize; 3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::page_map::PageMapParameters;

    fn new() -> (BlockStates, Layout) {
        let parameters = PageMapParameters::tiny();
        let layout = Layout::new(&parameters);
        (BlockStates::new(Blocks::new(layout.blocks, layout.dies, parameters.leveling, None, 1)), layout)
    }

    fn check(blocks: &BlockStates, layout: &Layout) -> Result<(), Inconsistent> {
        blocks.validate(layout, false, 100, &|_, _| Some(0))
    }

    #[test]
    fn a_block_passes_through_its_phases_and_is_free_again() {
        let (mut blocks, layout) = new();
        let block = blocks.open(1, Stream::Host, false);
        assert_eq!((layout.die_of(block), blocks.get(block).phase), (1, Phase::Open));
        let pages: Vec<u32> = (0..layout.pages).map(|_| blocks.begin_program(block)).collect();
        assert!(pages.into_iter().eq(0..layout.pages), "pages are not programmed in order");
        for _ in 1..layout.pages {
            assert_eq!(blocks.program_ended(block, false, &layout), AfterProgram::Nothing);
        }
        assert_eq!(blocks.program_ended(block, false, &layout), AfterProgram::Close);
        blocks.fill(block, 9);
        blocks.close(block);
        check(&blocks, &layout).expect("it is closed");
        blocks.begin_victim(block, Cause::GarbageCollection);
        blocks.moves_begun(block, 3);
        assert!(!blocks.drain(block), "three units are on their way");
        assert!(!blocks.moves_finished(block, 2) && blocks.moves_finished(block, 1));
        blocks.begin_erase(block);
        check(&blocks, &layout).expect("it is being erased");
        assert!(blocks.erased(block, false));
        assert_eq!((blocks.get(block).phase, blocks.history(block).closed_at), (Phase::Free, 0));
        check(&blocks, &layout).expect("it is free");
    }

    #[test]
    fn a_block_moves_its_data_only_when_its_last_program_after_a_failure_has_ended() {
        let (mut blocks, layout) = new();
        let block = blocks.open(0, Stream::Host, false);
        (0..3).for_each(|_| {
            blocks.begin_program(block);
        });
        assert_eq!(blocks.program_ended(block, true, &layout), AfterProgram::Nothing);
        assert_eq!(blocks.program_ended(block, false, &layout), AfterProgram::Nothing);
        assert_eq!(blocks.program_ended(block, false, &layout), AfterProgram::MoveData);
        blocks.retire(block);
        assert_eq!((blocks.get(block).phase, blocks.count(Phase::Bad)), (Phase::Bad, 1));
        check(&blocks, &layout).expect("it is bad");
    }

    #[test]
    fn after_a_power_cut_an_open_block_without_a_page_is_free() {
        let (mut blocks, layout) = new();
        let (empty, begun) = (blocks.open(0, Stream::Host, false), blocks.open(0, Stream::Cold, false));
        let page = blocks.begin_program(empty);
        blocks.undo_program(empty, page);
        (0..2).for_each(|_| {
            blocks.begin_program(begun);
        });
        blocks.undo_program(begun, 1);
        [empty, begun].into_iter().for_each(|block| blocks.recover(block));
        assert_eq!(blocks.get(empty).phase, Phase::Free);
        let BlockState { phase, next_page, programs, .. } = *blocks.get(begun);
        assert_eq!((phase, next_page, programs), (Phase::Open, 1, 0));
        check(&blocks, &layout).expect("the pool agrees with the blocks");
    }

    #[test]
    fn a_free_block_with_valid_units_is_detected() {
        let (blocks, layout) = new();
        assert!(blocks.validate(&layout, false, 0, &|block, _| Some(u32::from(block == 3))).is_err());
        assert!(blocks.validate(&layout, false, 0, &|block, _| (block != 3).then_some(0)).is_err());
    }
}
