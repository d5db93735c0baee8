//! State transitions of an erase block: closing, invalidation of its units, erase, failure and retirement.

use super::PageMap;
use super::state::{BlockHistory, BlockState, Phase};
use crate::ftl::Erased;
use crate::nand::{EraseBlock, Kind, Operation};

impl PageMap {
    /// Marks places from `place` on as committed copies, for each of the `units` bits that are set in `mask`.
    #[inline]
    pub(super) fn validate(&mut self, place: u32, mask: u64, units: u32) {
        self.map.validate_places(place, mask, units);
    }

    /// Returns the number of valid units of a block.
    pub(super) fn valid_in(&self, block: u32) -> u32 {
        self.map.valid_count(self.layout.place(block, 0), self.layout.units_per_block)
    }

    /// Marks the copy at `place` as no longer committed.
    #[inline(always)]
    pub(super) fn invalidate(&mut self, place: u32) {
        self.map.invalidate(place);
        self.candidates.invalidate(self.layout.block_of(place));
    }

    /// Records the end of a program in `block`.
    #[inline]
    pub(super) fn program_ended(&mut self, block: u32, failed: bool) {
        let state = &mut self.states[block as usize];
        state.programs -= 1;
        if failed {
            self.mark_failed(block);
        }
        self.settle_block(block);
    }

    /// Marks `block` as failed after a program failed: the layer programs no further page of the block.
    #[cold]
    fn mark_failed(&mut self, block: u32) {
        let state = &mut self.states[block as usize];
        if state.must_retire {
            return;
        }
        state.must_retire = true;
        state.phase = Phase::Failed;
        let die = self.layout.die_of(block);
        for open in &mut self.dies[die as usize].open {
            if *open == Some(EraseBlock::new(block)) {
                *open = None;
            }
        }
    }

    /// Closes a full block, or queues a failed block for the move of its data, once no program of the block is in
    /// flight.
    #[inline(always)]
    pub(super) fn settle_block(&mut self, block: u32) {
        let state = &self.states[block as usize];
        if state.programs > 0 {
            return;
        }
        match state.phase {
            Phase::Failed => {
                let die = self.layout.die_of(block);
                self.dies[die as usize].failed_blocks.push_back(block);
            }
            Phase::Open if state.next_page == self.layout.pages_of(state.slc) => {
                self.histories[block as usize].closed_at = self.buffers.accepted();
                self.close_block(block);
            }
            _ => {}
        }
    }

    /// Closes `block` and makes it a candidate for garbage collection or for folding.
    #[inline(never)]
    pub(super) fn close_block(&mut self, block: u32) {
        let die = self.layout.die_of(block);
        let state = &mut self.states[block as usize];
        state.phase = Phase::Closed;
        if state.slc {
            self.dies[die as usize].slc_closed.push_back(block);
        } else {
            let (valid, closed_at) = (self.valid_in(block), self.histories[block as usize].closed_at);
            self.candidates.insert(die, block, valid, closed_at);
        }
    }

    /// Issues the erase of an empty block.
    pub(super) fn issue_erase(&mut self, block: u32) {
        let slc = self.states[block as usize].slc;
        let cause = self.states[block as usize].cause;
        let kind = Kind::Erase;
        self.ready.push(Operation { kind, block: EraseBlock::new(block), page: 0, slc, cause, tag: 0 });
    }

    /// Records the end of the erase of `block`.
    pub(super) fn erase_finished(&mut self, block: u32, failed: bool) {
        let die = self.layout.die_of(block);
        if failed || self.blocks.is_bad(EraseBlock::new(block)) {
            self.retire(block);
        } else if self.blocks.erased(EraseBlock::new(block)) == Erased::WornOut {
            self.mark_bad(block);
        } else {
            self.reset_block(block, Phase::Free);
            self.dies[die as usize].free += 1;
            self.pick_leveling_victim(die);
        }
        self.collect_garbage(die);
    }

    /// Asks wear leveling for a block whose data should move.
    fn pick_leveling_victim(&mut self, die: u32) {
        if self.dies[die as usize].leveling_victim.is_some() {
            return;
        }
        let movable = |block: EraseBlock| {
            let state = &self.states[block.index() as usize];
            state.phase == Phase::Closed && !state.slc
        };
        self.dies[die as usize].leveling_victim = self.blocks.relocate_among(die, &movable);
    }

    /// Retires `block` after a failed program or erase. Its data has been moved already.
    pub(super) fn retire(&mut self, block: u32) {
        self.blocks.retire(EraseBlock::new(block));
        self.mark_bad(block);
    }

    fn mark_bad(&mut self, block: u32) {
        self.reset_block(block, Phase::Bad);
        // When a block with one bit per cell is retired, the die may open another one.
        self.update_writable(self.layout.die_of(block));
        self.update_read_only();
    }

    pub(super) fn reset_block(&mut self, block: u32, phase: Phase) {
        if self.states[block as usize].slc {
            let die = self.layout.die_of(block);
            self.dies[die as usize].slc -= 1;
        }
        self.map.reverse_mut().erase(block);
        self.states[block as usize] = BlockState { phase, ..BlockState::FREE };
        self.histories[block as usize] = BlockHistory::default();
    }

    /// Makes the device read-only if the good blocks, without the reserve and the open blocks, cannot hold all units.
    pub(super) fn update_read_only(&mut self) {
        let units = u64::from(self.layout.units) + u64::from(self.layout.map_pages);
        if units > self.parameters.room(self.blocks.usable_count()) {
            self.read_only = true;
        }
    }
}
