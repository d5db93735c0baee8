//! The erase blocks of an array as a translation layer handles them: the state of each (free, used or bad), its erase
//! count, and the choice of the next block.
//!
//! Blocks are grouped into pools (of an SSD, one per die); a policy ([`super::wear_leveling`]) selects blocks
//! within each pool. A layer uses one of two modes. *Erase first*: the layer erases a block that it no longer
//! needs ([`Blocks::erased`]) and allocates it later ([`Blocks::take`]). *Erase last*: the layer releases the
//! block as it is ([`Blocks::release`]) and erases a block only when it allocates that block
//! ([`Blocks::take_erased`]). The card uses this mode, in which no block stays erased for long.
//!
//! # Guarantees
//! - free + used + bad = all, at every step ([`Blocks::check`]).
//! - No block is erased more often than [`Endurance::limit`] allows. The next erase fails, and the block is bad from
//!   then on.
//! - The state is deterministic: the same calls give the same results.

mod validate;

use super::wear_leveling::{Leveler, Leveling, LevelingPolicy};
use crate::nand::{Endurance, EraseBlock};
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{EraseBlocks, Observer};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum State {
    Free,
    Used,
    Bad,
}

/// Result of an erase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Erased {
    /// The block is free.
    Free,
    /// The erase failed and the block is bad.
    WornOut,
}

/// The erase blocks of an array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Blocks {
    erase_counts: Vec<u32>,
    states: Vec<State>,
    pools: Vec<Leveler>,
    policy: LevelingPolicy,
    endurance: Option<Endurance>,
    seed: u64,
    erases: u64,
    /// Bad blocks in ascending order.
    bad: Vec<u32>,
    factory_bad: u32,
    first_failure: Option<u64>,
    /// The pool of the last allocation by [`Blocks::take_erased_of_any`].
    taken_last: u32,
}

/// Summary of wear over all blocks except the factory-bad ones.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct WearSummary {
    /// Number of blocks in the summary.
    pub blocks: u32,
    /// Mean erase count.
    pub mean: f64,
    /// Smallest erase count.
    pub min: u32,
    /// Greatest erase count.
    pub max: u32,
    /// Standard deviation of the erase counts.
    pub deviation: f64,
    /// Total number of erases.
    pub erases: u64,
    /// Number of blocks that failed in use.
    pub failures: u32,
    /// Total number of erases when the first block failed in use.
    pub first_failure: Option<u64>,
}

impl Blocks {
    /// Creates `count` blocks, all of them free except the factory-bad ones. Block b is in pool b % `pools`. Without
    /// `endurance`, no block is bad and none wears out.
    pub fn new(
        count: u32,
        pools: u32,
        policy: LevelingPolicy,
        endurance: Option<&Endurance>,
        seed: u64,
    ) -> Self {
        assert!(pools > 0, "the number of pools is 0");
        let is_bad = |block| endurance.is_some_and(|e| e.factory_bad(seed, EraseBlock::new(block)));
        let bad: Vec<u32> = (0..count).filter(|block| is_bad(*block)).collect();
        let mut blocks = Blocks {
            erase_counts: vec![0; count as usize],
            states: vec![State::Free; count as usize],
            pools: (0..pools).map(|_| policy.start()).collect(),
            policy,
            endurance: endurance.copied(),
            seed,
            erases: 0,
            factory_bad: bad.len() as u32,
            bad,
            first_failure: None,
            taken_last: pools - 1,
        };
        for block in &blocks.bad {
            blocks.states[*block as usize] = State::Bad;
        }
        // For a last-in-first-out policy, blocks are freed in descending order, so that use begins at block 0
        // as under any other policy.
        let last_in_first_out = !policy.kind().compares_wear();
        for n in 0..count {
            let block = EraseBlock::new(if last_in_first_out { count - 1 - n } else { n });
            if blocks.state(block) == State::Free {
                blocks.pool_of(block).freed(block, 0);
            }
        }
        blocks
    }

    /// Allocates the free block that the policy selects for new data. Returns `None` if no block of the pool is free.
    pub fn take(&mut self, pool: u32) -> Option<EraseBlock> {
        let block = self.pools[pool as usize].policy_mut().take()?;
        self.use_block(block);
        Some(block)
    }

    /// Allocates a free block for data that [`Blocks::relocate`] selected.
    pub fn take_worn(&mut self, pool: u32) -> Option<EraseBlock> {
        let block = self.pools[pool as usize].policy_mut().take_worn()?;
        self.use_block(block);
        Some(block)
    }

    /// Like [`Blocks::take`], but erases the block first. Retires blocks whose erase fails.
    pub fn take_erased(&mut self, pool: u32) -> Option<EraseBlock> {
        self.erase_and_use(pool, |policy| policy.take())
    }

    /// Like [`Blocks::take_worn`], but erases the block first.
    pub fn take_worn_erased(&mut self, pool: u32) -> Option<EraseBlock> {
        self.erase_and_use(pool, |policy| policy.take_worn())
    }

    /// Like [`Blocks::take_erased`], but allocates from the pools in turn.
    pub(crate) fn take_erased_of_any(&mut self) -> Option<EraseBlock> {
        let pools = self.pool_count();
        let first = (self.taken_last + 1) % pools;
        (first..first + pools).find_map(|pool| {
            let block = self.take_erased(pool % pools)?;
            self.taken_last = pool % pools;
            Some(block)
        })
    }

    /// Erases a used block, which becomes free, or is retired if the erase fails.
    pub fn erased(&mut self, block: EraseBlock) -> Erased {
        self.leave(block);
        if self.erase(block) {
            self.free_block(block);
            Erased::Free
        } else {
            self.fail(block);
            Erased::WornOut
        }
    }

    /// Releases a used block without valid data. The block becomes free and is erased when it is allocated.
    pub fn release(&mut self, block: EraseBlock) {
        self.leave(block);
        self.free_block(block);
    }

    /// Retires a free or used block in which a program or an erase failed. The caller has moved its data.
    pub fn retire(&mut self, block: EraseBlock) {
        let erases = self.erase_count(block);
        match self.state(block) {
            State::Used => self.leave(block),
            State::Free => self.pool_of(block).withdrawn(block, erases),
            State::Bad => panic!("{block:?} is bad already"),
        }
        self.fail(block);
    }

    /// Returns the used block of `pool` whose data wear leveling should move now. The data moves to a block from
    /// [`Blocks::take_worn`].
    pub fn relocate(&self, pool: u32) -> Option<EraseBlock> {
        self.relocate_among(pool, &|_| true)
    }

    /// Like [`Blocks::relocate`], but only among the blocks that are `movable`: full and not being written.
    pub(crate) fn relocate_among(
        &self,
        pool: u32,
        movable: &dyn Fn(EraseBlock) -> bool,
    ) -> Option<EraseBlock> {
        self.pools[pool as usize].policy().relocate(movable)
    }

    /// Returns true if the move that [`Blocks::relocate`] selects must happen at once to keep the policy's guarantee;
    /// otherwise the move may be delayed.
    pub(crate) fn must_relocate(&self, pool: u32) -> bool {
        self.pools[pool as usize].policy().must_relocate()
    }

    /// Returns the number of blocks.
    pub fn count(&self) -> u32 {
        self.states.len() as u32
    }
    /// Returns the number of pools.
    pub(crate) fn pool_count(&self) -> u32 {
        self.pools.len() as u32
    }
    /// Returns the wear leveling policy.
    pub fn policy(&self) -> LevelingPolicy {
        self.policy
    }
    /// Returns the number of free blocks of a pool.
    pub fn free_count(&self, pool: u32) -> u32 {
        self.pools[pool as usize].policy().free_count()
    }
    /// Returns the number of free blocks of all pools.
    pub(crate) fn free_count_total(&self) -> u32 {
        self.pools.iter().map(|pool| pool.policy().free_count()).sum()
    }
    /// Returns the number of bad blocks: the factory-bad ones and those that failed in use.
    pub fn bad_count(&self) -> u32 {
        self.bad.len() as u32
    }
    /// Returns the number of factory-bad blocks.
    pub fn factory_bad_count(&self) -> u32 {
        self.factory_bad
    }
    /// Returns the number of blocks that are not bad.
    pub fn usable_count(&self) -> u32 {
        self.count() - self.bad_count()
    }
    /// Returns the erase count of a block.
    #[inline]
    pub fn erase_count(&self, block: EraseBlock) -> u32 {
        self.erase_counts[block.index() as usize]
    }
    /// Returns the erase count of each block.
    pub fn erase_counts(&self) -> &[u32] {
        &self.erase_counts
    }
    /// Returns the total number of erases.
    pub fn erases(&self) -> u64 {
        self.erases
    }
    /// Returns true if a block is bad.
    pub fn is_bad(&self, block: EraseBlock) -> bool {
        self.state(block) == State::Bad
    }
    /// Returns true if a block is used.
    pub fn is_used(&self, block: EraseBlock) -> bool {
        self.state(block) == State::Used
    }
    /// Returns the total number of erases when the first block failed in use.
    pub fn first_failure(&self) -> Option<u64> {
        self.first_failure
    }
    /// Returns the endurance of the blocks; `None` if they never wear out.
    pub fn endurance(&self) -> Option<&Endurance> {
        self.endurance.as_ref()
    }
    /// Returns the seed of the medium.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns a summary of wear.
    pub fn summary(&self) -> WearSummary {
        let factory_bad = |block: u32| {
            self.erase_counts[block as usize] == 0
                && self.endurance.is_some_and(|e| e.factory_bad(self.seed, EraseBlock::new(block)))
        };
        let good = |(block, erases)| (!factory_bad(block)).then_some(erases);
        let counts = || (0..).zip(self.erase_counts.iter().copied()).filter_map(good);
        let (mut blocks, mut sum, mut min, mut max) = (0u32, 0u64, u32::MAX, 0);
        for erases in counts() {
            blocks += 1;
            sum += u64::from(erases);
            min = min.min(erases);
            max = max.max(erases);
        }
        if blocks == 0 {
            return WearSummary::default();
        }
        let mean = sum as f64 / f64::from(blocks);
        let square = |erases: u32| (f64::from(erases) - mean) * (f64::from(erases) - mean);
        let variance = counts().map(square).sum::<f64>() / f64::from(blocks);
        WearSummary {
            blocks,
            mean,
            min,
            max,
            deviation: libm::sqrt(variance),
            erases: self.erases,
            failures: self.bad_count() - self.factory_bad,
            first_failure: self.first_failure,
        }
    }

    /// Reports erases, free and bad blocks, and the wear of each block; `bytes` is the size of a block.
    pub fn observe(&self, bytes: u64, to: &mut dyn Observer) {
        to.count("erase_count", self.erases);
        to.count("free_block_count", u64::from(self.free_count_total()));
        to.count("bad_block_count", u64::from(self.bad_count()));
        let worn = self.endurance.filter(|e| e.rated_cycles().is_some());
        let limit = |block| worn.map(|e| e.limit(self.seed, EraseBlock::new(block)));
        to.erase_blocks(&EraseBlocks {
            bytes,
            erase_counts: &self.erase_counts,
            bad: &self.bad,
            rated_cycles: self.endurance.and_then(|e| e.rated_cycles()),
            limit: &limit,
        });
    }

    /// Validates the complete state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        if let Err(inconsistent) = self.validate() {
            panic!("{inconsistent}");
        }
    }

    fn state(&self, block: EraseBlock) -> State {
        self.states[block.index() as usize]
    }

    fn pool_of(&mut self, block: EraseBlock) -> &mut dyn Leveling {
        let pool = block.index() as usize % self.pools.len();
        self.pools[pool].policy_mut()
    }

    fn use_block(&mut self, block: EraseBlock) {
        assert_eq!(self.state(block), State::Free, "the policy handed out {block:?}, which is not free");
        self.states[block.index() as usize] = State::Used;
        let erases = self.erase_count(block);
        self.pool_of(block).used(block, erases);
    }

    fn erase_and_use(
        &mut self,
        pool: u32,
        take: impl Fn(&mut dyn Leveling) -> Option<EraseBlock>,
    ) -> Option<EraseBlock> {
        loop {
            let block = take(self.pools[pool as usize].policy_mut())?;
            if self.erase(block) {
                self.use_block(block);
                return Some(block);
            }
            self.fail(block);
        }
    }

    fn leave(&mut self, block: EraseBlock) {
        assert_eq!(self.state(block), State::Used, "{block:?} is released, but it is not in use");
        let erases = self.erase_count(block);
        self.pool_of(block).unused(block, erases);
    }

    fn free_block(&mut self, block: EraseBlock) {
        self.states[block.index() as usize] = State::Free;
        let erases = self.erase_count(block);
        self.pool_of(block).freed(block, erases);
    }

    /// Erases a block. Returns false if the erase fails.
    fn erase(&mut self, block: EraseBlock) -> bool {
        let erases = &mut self.erase_counts[block.index() as usize];
        let fails =
            |e: &Endurance| e.worn_out(self.seed, block, *erases) || e.erase_fails(self.seed, block, *erases);
        if self.endurance.as_ref().is_some_and(fails) {
            return false;
        }
        *erases += 1;
        self.erases += 1;
        true
    }

    fn fail(&mut self, block: EraseBlock) {
        self.states[block.index() as usize] = State::Bad;
        let place = self.bad.partition_point(|bad| *bad < block.index());
        self.bad.insert(place, block.index());
        self.first_failure.get_or_insert(self.erases);
    }
}
