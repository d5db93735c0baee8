//! Power cuts and the recovery of the map.
//!
//! # Requirements on the medium
//! - The spare area of a page holds the number and the version of each unit in the page. It is either readable as a
//!   whole or, if the program of the page was torn or failed, detectably unreadable. The spare area of a programmed
//!   page stays readable even if the data of the page cannot be corrected. The layer then knows that the unit is there,
//!   and a read of it fails.
//! - A torn program damages no other page, and the following pages of the block can still be programmed.
//! - The last page of a full block lists the spare areas of all other pages, so one read returns all of them.
//! - A block whose erase was torn is detected, and is erased again. The list of bad blocks and all programmed trim
//!   records are preserved.
//!
//! After a power cut, a scan of the spare areas rebuilds the map. The content of a unit is its newest version
//! among all pages with a readable spare area, unless a record of a later trim exists. A moved copy has the
//! version of its original. The simulation needs no scan: [`PageMap::power_cut`] restores the committed map
//! and undoes each trim that has no record, which gives the same state.

use super::PageMap;
use super::block_states::{BlockState, Phase};
use crate::nand::{Cut, EraseBlock, Kind, Operation};
use alloc::vec::Vec;
use flashlab_sim::{fault, mix};
use serde::{Deserialize, Serialize};

/// Cost of the recovery of the map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// Number of pages whose spare areas were read.
    pub pages: u64,
    /// Highest number of these pages on one die: dies are read in parallel.
    pub die_pages: u64,
}

impl PageMap {
    /// Cuts the power. `interrupted` contains the unfinished operations that the array had received, each with the
    /// effect of the cut on it. All other unfinished operations have no effect, whether or not [`PageMap::poll`] has
    /// returned them. Returns the units whose last writes or trims are lost, in ascending order: these units have the
    /// content that the durable operations gave them.
    ///
    /// After this call, only [`PageMap::recover`] may be called.
    pub fn power_cut(&mut self, interrupted: &[(Operation, Cut)]) -> Vec<u32> {
        self.operations.clear();
        self.undo_programs(interrupted);
        let mut lost = self.lose_buffers();
        self.undo_trims(&mut lost);
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    /// Undoes the programs that have not finished. A torn program has used its page up; any other program
    /// leaves its page erased.
    fn undo_programs(&mut self, interrupted: &[(Operation, Cut)]) {
        let torn: Vec<u32> = interrupted
            .iter()
            .filter(|(operation, cut)| matches!(operation.kind, Kind::Program { .. }) && *cut == Cut::Torn)
            .map(|(operation, _)| operation.tag)
            .collect();
        let issued: Vec<u32> = self.programs.issued().collect();
        for id in issued {
            self.clear_versions(id);
            let program = self.programs.get(id);
            if torn.contains(&id) {
                self.counters.pages += 1;
                self.counters.torn_units += u64::from(self.layout.units_per_page);
                if fault("torn-page-is-taken-as-whole") {
                    self.program_finished(id, false);
                }
            } else {
                let (_, page, _) = self.layout.parts(program.place);
                self.blocks.undo_program(program.block, page);
            }
        }
        self.programs.clear();
    }

    /// Drops the units that were only in the buffers and returns the host's units among them.
    fn lose_buffers(&mut self) -> Vec<u32> {
        let mut lost = Vec::new();
        let PageMap { map, buffers, layout, .. } = self;
        buffers.lose(|unit, committed| {
            map.set(unit, committed);
            if unit < layout.units {
                lost.push(unit);
            }
        });
        lost
    }

    /// Undoes the trims that have no record.
    fn undo_trims(&mut self, lost: &mut Vec<u32>) {
        for (first, count) in self.pending_trims() {
            for unit in first..first + count {
                if self.map.undo_trim(unit) {
                    lost.push(unit);
                }
            }
        }
        self.trim_log.cut();
    }

    /// Rebuilds everything except the map, which [`PageMap::power_cut`] has restored: the states of the blocks, the
    /// lists of the dies, and the collector. Writing to the open blocks then continues at their first unwritten page.
    /// Returns the cost of the scan that a real layer needs for the map.
    pub fn recover(&mut self) -> Recovery {
        self.recoveries += 1;
        let seed = self.seed ^ mix(self.recoveries);
        self.collector.restart(&self.parameters, &self.layout, seed);
        // Blocks are processed in the order in which they were closed, because victim policies may depend on this
        // order.
        let mut order: Vec<u32> = (0..self.layout.blocks).collect();
        order.sort_by_key(|block| self.blocks.history(*block).closed_at);
        let scanned: Vec<u64> = order.iter().map(|block| self.pages_to_scan(*block)).collect();
        order.iter().for_each(|block| self.blocks.recover(*block));
        self.dies.restart(&self.blocks);
        let mut die_pages = alloc::vec![0u64; self.layout.dies as usize];
        for (block, pages) in order.into_iter().zip(scanned) {
            die_pages[self.layout.die_of(block) as usize] += pages;
            self.recover_block(block);
        }
        self.operations.request_dispatch();
        self.update_read_only();
        self.collect_garbage_on_all_dies();
        Recovery { pages: die_pages.iter().sum(), die_pages: die_pages.into_iter().max().unwrap_or(0) }
    }

    /// Returns the number of pages in `block` whose spare areas a scan reads. In an open block, these are the
    /// programmed pages and the next page. In any other good block, this is only the last page, which lists
    /// the others. A failed block counts as one page, too.
    fn pages_to_scan(&self, block: u32) -> u64 {
        let BlockState { phase, next_page, slc, must_retire, .. } = *self.blocks.get(block);
        let is_open = phase == Phase::Open && !must_retire && next_page < self.layout.pages_of(slc);
        match phase {
            Phase::Bad => 0,
            _ if is_open => u64::from(next_page) + 1,
            _ => 1,
        }
    }

    /// Makes a recovered block known to its die, and then closes it, erases it, retires it or moves its data, as its
    /// phase requires.
    fn recover_block(&mut self, block: u32) {
        let BlockState { phase, next_page, slc, stream, .. } = *self.blocks.get(block);
        let valid = self.valid_in(block);
        let die = self.layout.die_of(block);
        let is_open = phase == Phase::Open && next_page < self.layout.pages_of(slc);
        self.dies.found(die, block, slc, is_open.then_some(stream));
        match phase {
            Phase::Bad => debug_assert_eq!(valid, 0),
            Phase::Free => {
                debug_assert_eq!(valid, 0);
                self.map.reverse_mut().erase(block);
            }
            Phase::Open if is_open => {}
            Phase::Open | Phase::Failed => {
                let next = self.blocks.after_program(block, &self.layout);
                self.after_program(block, next);
            }
            Phase::Closed | Phase::Victim | Phase::Drained => self.close_block(block),
            // Undone trims may have made units of the block valid again.
            Phase::Erasing if valid > 0 => self.close_block(block),
            Phase::Erasing => self.erase_or_retire(block),
        }
    }

    /// Returns true if a block is erased and no page of it was programmed.
    pub fn is_erased(&self, block: EraseBlock) -> bool {
        self.blocks.get(block.index()).phase == Phase::Free
    }
}
