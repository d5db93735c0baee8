//! Garbage collection: the layer reads a die's victim page by page and programs its valid units elsewhere.
//!
//! A die has one victim at a time. The layer reads a page of the victim when the host has consumed more space than
//! garbage collection has freed, when free blocks run out, when folding is due, when the device is idle, or
//! when the data must move for another reason (a failed program, wear leveling). Pages without valid units
//! cost no read. The layer starts a victim only if there is room for all its valid units, so it can always
//! finish the victim. A block in which a program failed is the exception: such a block is the next victim,
//! whatever the room.
//!
//! # Invariant
//! The candidates are the closed blocks with all bits per cell, each with its number of valid units. All
//! other blocks whose data may move are in two lists: the closed blocks of the SLC buffer, and the blocks in
//! which a program failed. The layer has issued the reads of all pages of a die's victim before `victim_page`
//! that had valid units, and no other reads of the victim. [`GarbageCollector::validate`] checks the lists
//! and the victims.

use super::block_states::{BlockState, BlockStates, Phase, STREAMS, Stream};
use super::place::Layout;
use super::programs::{ProgramLink, ProgramQueue, Programs};
use super::{PageMapParameters, Slc};
use crate::ftl::Inconsistent;
use crate::ftl::gc::Candidates;
use crate::ftl::inconsistent::ensure;
use crate::nand::EraseBlock;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Maximum number of reads of a victim in flight.
pub(super) const VICTIM_READS_MAX: u32 = 2;
/// Upper bound for the backlogs in a state file, in units: 2^40 units of 4 KiB are 4 PiB. A backlog that
/// grows from this bound does not overflow.
const BACKLOG_MAX: u64 = 1 << 40;

/// Garbage collection of one die.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DieCollection {
    /// Block whose valid units are being read.
    victim: Option<EraseBlock>,
    /// First page of the victim that is not processed yet.
    pub(super) victim_page: u32,
    /// Page up to which the map entries of the victim have been loaded into the processor's cache.
    pub(super) victim_loaded: u32,
    /// Number of reads of the victim in flight.
    pub(super) reads: u32,
    /// Units of space that garbage collection still has to free for programmed pages of accepted or folded
    /// units.
    pub(super) gc_backlog: i64,
    /// Work of folding that is due for pages that the host has programmed, in millionths of a unit.
    pub(super) fold_backlog_ppm: i64,
    /// Stream that the victim's valid units go to.
    pub(super) destination: Stream,
    /// True if the die may do one step of background work because the device is idle.
    pub(super) idle_step: bool,
    /// Blocks in which a program failed and whose data waits to be moved.
    failed_blocks: VecDeque<u32>,
    /// Block whose data wear leveling wants moved.
    leveling_victim: Option<EraseBlock>,
    /// Closed blocks with one bit per cell, in the order of closing.
    slc_closed: VecDeque<u32>,
    /// For each stream, the program that gathers the units read from victims.
    pub(super) gathering: [Option<ProgramLink>; STREAMS],
    /// Programs that wait for a page: full ones, and those that [`DieCollection::pad_gathered_page`] queued.
    pub(super) full_pages: ProgramQueue,
}

impl DieCollection {
    fn new() -> Self {
        DieCollection {
            victim: None,
            victim_page: 0,
            victim_loaded: 0,
            reads: 0,
            gc_backlog: 0,
            fold_backlog_ppm: 0,
            destination: Stream::GarbageCollection,
            idle_step: false,
            failed_blocks: VecDeque::new(),
            leveling_victim: None,
            slc_closed: VecDeque::new(),
            gathering: [None; STREAMS],
            full_pages: ProgramQueue::EMPTY,
        }
    }

    #[inline(always)]
    pub(super) fn victim(&self) -> Option<u32> {
        self.victim.map(EraseBlock::index)
    }
    /// Returns true if the host may program a page of `units` units, because garbage collection and folding
    /// keep pace.
    #[inline(always)]
    pub(super) fn lets_host_program(&self, units: u32) -> bool {
        let slack = i64::from(units);
        self.gc_backlog <= slack && self.fold_backlog_ppm <= slack * 1_000_000
    }
    /// Returns true if a closed block of the SLC buffer waits to be folded.
    pub(super) fn has_closed_slc(&self) -> bool {
        !self.slc_closed.is_empty()
    }
    pub(super) fn oldest_slc(&self) -> Option<u32> {
        self.slc_closed.front().copied()
    }
    /// Returns true if data has to move because a program failed or because wear leveling asks for it.
    #[inline(always)]
    pub(super) fn has_forced_victim(&self) -> bool {
        !self.failed_blocks.is_empty() || self.leveling_victim.is_some()
    }
    /// Returns true if no read of a victim is in flight and no program of moved units waits for a page.
    pub(super) fn rests(&self) -> bool {
        self.reads == 0 && self.full_pages.front().is_none()
    }

    /// Adds the space of a page of `units` accepted units to a backlog. If the page is in the SLC buffer
    /// (`slc`), this is the backlog of folding. The backlog grows by the whole page if the buffer `is_full`,
    /// and otherwise by the share [`Slc::fold_ppm`] if a closed block waits to be folded. For any other page,
    /// this is the backlog of garbage collection, which is cleared unless garbage collection runs in the
    /// `foreground`.
    pub(super) fn charge(&mut self, units: u32, slc: Option<&Slc>, is_full: bool, foreground: bool) {
        let units = i64::from(units);
        match slc {
            Some(_) if is_full => self.fold_backlog_ppm += units * 1_000_000,
            Some(slc) if self.has_closed_slc() => self.fold_backlog_ppm += units * i64::from(slc.fold_ppm),
            Some(_) => {}
            None if foreground => self.gc_backlog += units,
            None => self.gc_backlog = 0,
        }
    }

    /// Records that the pages of the victim before `page` were processed, and lowers the backlog of folding
    /// (`slc`) or of garbage collection. The pages processed since the last call have `units` places, of
    /// which `valid` are valid.
    #[inline(always)]
    pub(super) fn advance(&mut self, page: u32, units: u32, valid: u32, slc: bool) {
        self.victim_page = page;
        if slc {
            self.fold_backlog_ppm -= i64::from(units) * 1_000_000;
        } else {
            self.gc_backlog -= i64::from(units) - i64::from(valid);
        }
    }

    /// Gives up the backlogs and the step of idle time, because no victim can be started.
    pub(super) fn forgive(&mut self) {
        self.gc_backlog = self.gc_backlog.min(0);
        self.fold_backlog_ppm = self.fold_backlog_ppm.min(0);
        self.idle_step = false;
    }

    /// Takes a program that gathers units and queues it, although its page is not full. Returns false if no
    /// program gathers units.
    pub(super) fn pad_gathered_page(&mut self, programs: &mut Programs) -> bool {
        let Some(id) = self.gathering.iter_mut().find_map(Option::take) else { return false };
        programs.push_back(&mut self.full_pages, id.index());
        true
    }
    /// Returns the number of units that are being gathered or wait for a page.
    pub(super) fn waiting_units(&self, programs: &Programs) -> u32 {
        let gathering = self.gathering.iter().flatten().map(|link| link.index());
        programs.queue(&self.full_pages).chain(gathering).map(|id| programs.get(id).count).sum()
    }
}

/// Garbage collection of all dies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GarbageCollector {
    candidates: Candidates,
    dies: Vec<DieCollection>,
    next_idle: u32,
}

fn no_candidates(parameters: &PageMapParameters, layout: &Layout, seed: u64) -> Candidates {
    Candidates::new(parameters.victim, layout.dies, layout.blocks, layout.units_per_block, seed)
}

impl GarbageCollector {
    /// Returns the garbage collection of a layer without closed blocks.
    pub(super) fn new(parameters: &PageMapParameters, layout: &Layout, seed: u64) -> Self {
        GarbageCollector {
            candidates: no_candidates(parameters, layout, seed),
            dies: vec![DieCollection::new(); layout.dies as usize],
            next_idle: 0,
        }
    }
    /// Forgets all blocks and victims after a power cut.
    pub(super) fn restart(&mut self, parameters: &PageMapParameters, layout: &Layout, seed: u64) {
        self.candidates = no_candidates(parameters, layout, seed);
        self.dies.fill(DieCollection::new());
    }

    #[inline(always)]
    pub(super) fn get(&self, die: u32) -> &DieCollection {
        &self.dies[die as usize]
    }
    #[inline(always)]
    pub(super) fn get_mut(&mut self, die: u32) -> &mut DieCollection {
        &mut self.dies[die as usize]
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = &DieCollection> {
        self.dies.iter()
    }
    /// Returns the dies in the order of their turns in idle time.
    pub(super) fn idle_turns(&mut self) -> impl Iterator<Item = u32> + use<> {
        let dies = self.dies.len() as u32;
        let first = self.next_idle;
        self.next_idle = (first + 1) % dies;
        (0..dies).map(move |n| (first + n) % dies)
    }

    /// Counts a unit of `block` as invalid, if the block is a candidate.
    #[inline(always)]
    pub(super) fn invalidate(&mut self, block: u32) {
        self.candidates.invalidate(block);
    }
    /// Prefetches the state that changes when a unit of `block` becomes invalid.
    #[inline(always)]
    pub(super) fn prefetch(&self, block: u32) {
        self.candidates.prefetch(block);
    }
    /// Returns true if garbage collection of a die can eventually free a block of `units` units.
    pub(super) fn can_free_a_block(&self, die: u32, units: u32) -> bool {
        self.candidates.invalid_units(die) >= u64::from(units)
    }
    /// Returns the candidate that the policy prefers.
    pub(super) fn choose(&mut self, die: u32, accepted: u64) -> Option<u32> {
        self.candidates.choose(die, accepted)
    }

    /// Adds a block that was closed with `valid` valid units, when `closed_at` writes had been accepted.
    pub(super) fn add(&mut self, die: u32, block: u32, slc: bool, valid: u32, closed_at: u64) {
        if slc {
            self.get_mut(die).slc_closed.push_back(block);
        } else {
            self.candidates.insert(die, block, valid, closed_at);
        }
    }
    /// Adds a block in which a program failed and no program is in flight any more.
    pub(super) fn add_failed(&mut self, die: u32, block: u32) {
        self.get_mut(die).failed_blocks.push_back(block);
    }
    pub(super) fn take_failed(&mut self, die: u32) -> Option<u32> {
        self.get_mut(die).failed_blocks.pop_front()
    }
    /// Records the block whose data wear leveling wants moved.
    pub(super) fn request_leveling(&mut self, die: u32, block: Option<u32>) {
        self.get_mut(die).leveling_victim = block.map(EraseBlock::new);
    }
    pub(super) fn leveling_is_requested(&self, die: u32) -> bool {
        self.get(die).leveling_victim.is_some()
    }
    pub(super) fn take_leveling_victim(&mut self, die: u32) -> Option<u32> {
        self.get_mut(die).leveling_victim.take().map(EraseBlock::index)
    }

    /// Makes `block` the victim of a die. `was` is its state before, and `to` is the stream that its valid units go to.
    pub(super) fn begin(&mut self, die: u32, block: u32, was: &BlockState, to: Stream) {
        match was.phase {
            Phase::Closed if was.slc => self.get_mut(die).slc_closed.retain(|closed| *closed != block),
            Phase::Closed => self.candidates.remove(die, block),
            Phase::Failed => {}
            phase => unreachable!("block {block} is {phase:?}"),
        }
        let die = self.get_mut(die);
        die.victim = Some(EraseBlock::new(block));
        (die.victim_page, die.victim_loaded, die.destination) = (0, 0, to);
    }
    /// Ends the victim of a die, all of whose pages were processed. Returns false while reads of the victim
    /// are in flight.
    pub(super) fn end(&mut self, die: u32) -> bool {
        let die = self.get_mut(die);
        if die.reads == 0 {
            die.victim = None;
        }
        die.reads == 0
    }

    /// Checks the lists and the victims against the blocks. `valid` returns the number of valid units of a block.
    pub(super) fn validate(
        &self,
        parameters: &PageMapParameters,
        layout: &Layout,
        blocks: &BlockStates,
        accepted: u64,
        valid: &dyn Fn(u32) -> u32,
    ) -> Result<(), Inconsistent> {
        ensure!(
            self.dies.len() == layout.dies as usize && self.next_idle < layout.dies,
            "the garbage collector has another number of dies, or its next die does not exist"
        );
        let shape = (layout.dies, layout.blocks, layout.units_per_block);
        self.candidates.validate(parameters.victim, shape, accepted, &|block| {
            let state = blocks.get(block);
            (state.phase == Phase::Closed && !state.slc).then(|| valid(block))
        })?;
        let mut listed = vec![false; layout.blocks as usize];
        let mut list = |block: u32| !core::mem::replace(&mut listed[block as usize], true);
        for (index, die) in (0..).zip(&self.dies) {
            let mine = |block: &u32| *block < layout.blocks && layout.die_of(*block) == index;
            let single = die.victim().into_iter().chain(die.leveling_victim.map(EraseBlock::index));
            ensure!(
                single
                    .chain(die.failed_blocks.iter().chain(&die.slc_closed).copied())
                    .all(|block| mine(&block)),
                "the garbage collector of die {index} lists a block of another die"
            );
            ensure!(
                die.victim_page <= layout.pages
                    && die.gc_backlog.unsigned_abs() < BACKLOG_MAX
                    && die.fold_backlog_ppm.unsigned_abs() < BACKLOG_MAX * 1_000_000,
                "the garbage collector of die {index} has a value out of range: page {} of the victim, backlogs \
                 of {} units and {} millionths of a unit",
                die.victim_page,
                die.gc_backlog,
                die.fold_backlog_ppm
            );
            let is_slc_closed = |state: &BlockState| state.phase == Phase::Closed && state.slc;
            let closed = blocks.of_die(index, layout.dies).filter(|(_, state)| is_slc_closed(state)).count();
            for block in &die.slc_closed {
                ensure!(
                    is_slc_closed(blocks.get(*block)) && list(*block),
                    "block {block} is listed as closed in SLC mode, but is not, or is listed twice"
                );
            }
            ensure!(
                closed == die.slc_closed.len(),
                "{closed} blocks of die {index} are closed in SLC mode, but {} are listed",
                die.slc_closed.len()
            );
            for block in &die.failed_blocks {
                let failing = blocks.get(*block).phase == Phase::Failed;
                ensure!(
                    failing && list(*block),
                    "block {block} is listed as failing, but is not, or is listed twice"
                );
            }
            let victims = blocks.of_die(index, layout.dies).filter(|(_, state)| state.phase == Phase::Victim);
            ensure!(
                victims.map(|(block, _)| block).eq(die.victim()),
                "the victim of die {index} is {:?}, which differs from the phases of its blocks",
                die.victim
            );
        }
        Ok(())
    }

    /// Returns the number of listed blocks in which a program failed.
    pub(super) fn failed_count(&self) -> u32 {
        self.dies.iter().map(|die| die.failed_blocks.len() as u32).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::Blocks;
    use crate::nand::Cause;

    /// Returns a collector and block states with one closed block of die 0, in which `valid` units are valid.
    fn with_closed_block(valid: u32) -> (GarbageCollector, BlockStates, PageMapParameters, Layout, u32) {
        let parameters = PageMapParameters::tiny();
        let layout = Layout::new(&parameters);
        let pool = Blocks::new(layout.blocks, layout.dies, parameters.leveling, None, 1);
        let mut blocks = BlockStates::new(pool);
        let mut collector = GarbageCollector::new(&parameters, &layout, 1);
        let block = blocks.open(0, Stream::Host, false);
        for _ in 0..layout.pages {
            blocks.begin_program(block);
            blocks.program_ended(block, false, &layout);
        }
        blocks.close(block);
        collector.add(0, block, false, valid, 5);
        (collector, blocks, parameters, layout, block)
    }

    #[test]
    fn a_closed_block_is_a_candidate_until_it_is_the_victim() {
        let (mut collector, mut blocks, parameters, layout, block) = with_closed_block(7);
        let check = |collector: &GarbageCollector, blocks: &BlockStates, valid: u32| {
            collector.validate(&parameters, &layout, blocks, 9, &|_| valid)
        };
        check(&collector, &blocks, 7).expect("the block is a candidate");
        assert!(check(&collector, &blocks, 6).is_err(), "the number of valid units differs");
        collector.invalidate(block);
        check(&collector, &blocks, 6).expect("one unit became invalid");
        assert!(collector.can_free_a_block(0, 18) && !collector.can_free_a_block(0, 19));
        assert_eq!(collector.choose(0, 9), Some(block));
        let was = *blocks.get(block);
        collector.begin(0, block, &was, Stream::GarbageCollection);
        assert!(check(&collector, &blocks, 6).is_err(), "the block is no candidate and still closed");
        blocks.begin_victim(block, Cause::GarbageCollection);
        check(&collector, &blocks, 6).expect("the block is the victim");
        assert_eq!((collector.get(0).victim(), collector.choose(0, 9)), (Some(block), None));
        collector.get_mut(0).reads = 1;
        assert!(!collector.end(0), "a read is in flight");
        collector.get_mut(0).reads = 0;
        assert!(collector.end(0) && collector.get(0).victim().is_none());
    }

    #[test]
    fn the_backlog_holds_the_host_back_until_collection_has_freed_space() {
        let mut die = DieCollection::new();
        die.charge(4, None, false, false);
        assert_eq!(die.gc_backlog, 0, "enough blocks are free");
        (0..2).for_each(|_| die.charge(4, None, false, true));
        assert!(!die.lets_host_program(4));
        die.advance(1, 4, 1, false);
        assert_eq!((die.gc_backlog, die.victim_page), (5, 1), "three invalid units are space for the host");
        die.advance(2, 4, 3, false);
        assert!(die.lets_host_program(4));
    }

    #[test]
    fn a_full_slc_buffer_charges_whole_pages_and_a_partly_full_one_a_share() {
        let slc = Slc { blocks: 2, fold_ppm: 250_000 };
        let mut die = DieCollection::new();
        die.charge(4, Some(&slc), false, true);
        assert_eq!(die.fold_backlog_ppm, 0, "there is nothing to fold");
        die.slc_closed.push_back(3);
        die.charge(4, Some(&slc), false, true);
        assert_eq!(die.fold_backlog_ppm, 1_000_000);
        die.charge(4, Some(&slc), true, true);
        assert_eq!((die.fold_backlog_ppm, die.gc_backlog), (5_000_000, 0));
        die.forgive();
        assert_eq!(die.fold_backlog_ppm, 0);
    }
}
