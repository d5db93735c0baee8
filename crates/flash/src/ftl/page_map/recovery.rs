//! Power cuts, and how the map comes back.
//!
//! # What the medium has to do
//! - A page's spare area holds the number and the version of each unit in it, and is either readable as a whole or, if
//!   its program was torn or failed, seen to be so. A page that was programmed stays readable as far as its spare area
//!   goes even where its data cannot be corrected: then the unit is known to be there, and reading it is an error.
//! - A torn program damages no other page, and the block can be written on after it.
//! - The last page of a full block lists the spare areas of all others, so that one read tells them.
//! - A block whose erase was torn is seen to be so, and is erased again. The list of bad blocks, and records of trims
//!   that were programmed, are kept.
//!
//! The newest version of each unit among all readable pages is then its content, unless a record of a later trim is
//! there. A copy that was moved has the version of its original. So what [`PageMap::power_cut`] leaves is what such a
//! scan finds, without the scan: the committed map, and each trim that is not on record undone.

use super::place::{Entry, Mapped};
use super::state::{BlockState, DieState, Phase};
use super::write_buffer::Slot;
use super::{PageMap, no_candidates};
use crate::nand::{Cut, EraseBlock, Kind, Operation};
use alloc::vec::Vec;
use flashlab_sim::{fault, mix};
use serde::{Deserialize, Serialize};

/// What it took to bring the map back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// Pages whose spare areas were read.
    pub pages: u64,
    /// The most of them on one die: dies are read at the same time.
    pub die_pages: u64,
}

impl PageMap {
    /// Cuts the power. `torn` names the operations during which the array was working; all others that were polled and
    /// have not finished, or not been polled at all, never were. Returns the units whose last writes or trims are lost,
    /// in ascending order: they are as they were when what is durable had been done.
    ///
    /// Nothing may be asked of the layer but [`PageMap::recover`] after this.
    pub fn power_cut(&mut self, torn: &[(Operation, Cut)]) -> Vec<u32> {
        self.ready.clear();
        self.outstanding = 0;
        self.undo_programs(torn);
        let mut lost = self.lose_buffers();
        self.undo_trims(&mut lost);
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    fn undo_programs(&mut self, torn: &[(Operation, Cut)]) {
        let torn: Vec<u32> = torn
            .iter()
            .filter(|(operation, cut)| matches!(operation.kind, Kind::Program { .. }) && *cut == Cut::Torn)
            .map(|(operation, _)| operation.tag)
            .collect();
        let issued: Vec<u32> = self.programs.issued().collect();
        for id in issued {
            self.clear_versions(id);
            let program = self.programs.get(id);
            let state = &mut self.states[program.block as usize];
            if torn.contains(&id) {
                self.counters.pages += 1;
                self.counters.torn_units += u64::from(self.layout.units_per_page);
                if fault("torn-page-is-taken-as-whole") {
                    self.program_finished(id, false);
                }
            } else {
                let (_, page, _) = self.layout.parts(program.place);
                state.next_page = state.next_page.min(page);
            }
        }
        self.programs.clear();
    }

    /// What was only in the buffers is lost.
    fn lose_buffers(&mut self) -> Vec<u32> {
        let mut lost = Vec::new();
        for buffer in [&self.data, &self.map] {
            let newest = |slot: &&Slot| slot.newer.is_none() && !slot.overtaken;
            for slot in buffer.iter().map(|slot| buffer.slot(slot)).filter(newest) {
                self.l2p[slot.unit as usize] = slot.committed;
                if slot.unit < self.layout.units {
                    lost.push(slot.unit);
                }
            }
        }
        self.data.clear();
        self.map.clear();
        lost
    }

    /// What was trimmed without a record is found again.
    fn undo_trims(&mut self, lost: &mut Vec<u32>) {
        for (first, count) in self.pending_trims() {
            for unit in first..first + count {
                if let Mapped::Trimmed(place) = self.l2p[unit as usize].decode()
                    && !fault("trim-survives-without-a-record")
                {
                    self.l2p[unit as usize] = Entry::at(place);
                    self.validity.set(place);
                    self.valid += 1;
                    lost.push(unit);
                }
            }
        }
        self.trim_log.cut();
    }

    /// Brings the map back after a power cut, and goes on where the open blocks end.
    pub fn recover(&mut self) -> Recovery {
        self.recoveries += 1;
        let seed = self.seed ^ mix(self.recoveries);
        self.candidates = no_candidates(&self.parameters, &self.layout, seed);
        for (index, die) in (0..).zip(&mut self.dies) {
            *die = DieState::new(self.blocks.free_count(index));
        }
        let mut scanned = alloc::vec![0u64; self.dies.len()];
        // In the order of closing, which policies may depend on.
        let mut order: Vec<u32> = (0..self.layout.blocks).collect();
        order.sort_by_key(|block| self.histories[*block as usize].closed_at);
        for block in order {
            scanned[self.layout.die_of(block) as usize] += self.recover_block(block);
        }
        self.dispatch_needed = true;
        self.update_read_only();
        self.collect_garbage_on_all_dies();
        Recovery { pages: scanned.iter().sum(), die_pages: scanned.into_iter().max().unwrap_or(0) }
    }

    /// Puts a block back where it belongs; returns how many of its pages were read.
    fn recover_block(&mut self, block: u32) -> u64 {
        let BlockState { phase, next_page, slc, stream, must_retire, .. } = self.states[block as usize];
        let valid = self.valid_in(block);
        let die = self.layout.die_of(block) as usize;
        let state = &mut self.states[block as usize];
        state.programs = 0;
        state.moves_in_flight = 0;
        self.dies[die].slc += u32::from(slc);
        match phase {
            Phase::Bad | Phase::Free => {
                debug_assert_eq!(valid, 0);
                return u64::from(phase == Phase::Free);
            }
            _ if must_retire => {
                state.phase = Phase::Failed;
                self.dies[die].failed_blocks.push_back(block);
            }
            // Nothing was programmed into it, and another may be open for its stream: the one before it, whose last page was
            // not programmed either.
            Phase::Open if next_page == 0 => {
                self.blocks.release(EraseBlock::new(block));
                self.reset_block(block, Phase::Free);
                self.dies[die].free += 1;
            }
            Phase::Open if next_page < self.layout.pages_of(slc) => {
                self.dies[die].open[stream as usize] = Some(EraseBlock::new(block));
                return u64::from(next_page) + 1;
            }
            Phase::Open => self.settle_block(block),
            Phase::Closed | Phase::Victim | Phase::Drained => self.close_block(block),
            // Trims that were not on record may have come back.
            Phase::Erasing if valid > 0 => self.close_block(block),
            Phase::Erasing => self.erase_or_retire(block),
            Phase::Failed => unreachable!("block {block} failed"),
        }
        1
    }

    /// Whether a block is erased and nothing was programmed into it.
    pub fn is_erased(&self, block: EraseBlock) -> bool {
        self.states[block.index() as usize].phase == Phase::Free
    }
}
