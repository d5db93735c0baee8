//! Validation of the erase blocks, both of a running device and of a state file.

use super::{Blocks, State};
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use crate::ftl::wear_leveling::PoolBlocks;
use crate::nand::EraseBlock;
use alloc::vec;

/// Limit of a block's erase count. No medium comes near this limit, so counting cannot overflow.
const ERASES_MAX: u32 = 1 << 31;

impl Blocks {
    /// Validates the complete state.
    ///
    /// # Errors
    /// Returns the first inconsistency. If the state passes, calls that keep to the contract do not panic.
    pub fn validate(&self) -> Result<(), Inconsistent> {
        let count = self.states.len();
        ensure!(count < 1 << 31, "there are {count} blocks; the limit is 2^31 - 1");
        ensure!(
            self.erase_counts.len() == count,
            "there are {count} block states and {} erase counts",
            self.erase_counts.len()
        );
        let pools = self.pools.len();
        ensure!(
            (self.taken_last as usize) < pools,
            "the last pool used, {}, does not exist; there are {pools} pools",
            self.taken_last
        );
        let of = |state| self.states.iter().filter(|s| **s == state).count();
        ensure!(
            of(State::Bad) == self.bad.len(),
            "the list of bad blocks has {} blocks, but {} are bad",
            self.bad.len(),
            of(State::Bad)
        );
        ensure!(
            self.bad.is_sorted_by(|a, b| a < b)
                && self.bad.iter().all(|block| self.states.get(*block as usize) == Some(&State::Bad)),
            "the list of bad blocks is not in order, or lists a block that is not bad: {:?}",
            self.bad
        );
        ensure!(
            self.factory_bad as usize <= self.bad.len(),
            "{} blocks were bad from the factory, but only {} are bad",
            self.factory_bad,
            self.bad.len()
        );
        let sum: u64 = self.erase_counts.iter().map(|erases| u64::from(*erases)).sum();
        ensure!(sum == self.erases, "the erase counts sum to {sum}; the total is {}", self.erases);
        for (block, erases) in (0..).zip(&self.erase_counts) {
            let limit = self.endurance.map_or(ERASES_MAX, |e| e.limit(self.seed, EraseBlock::new(block)));
            ensure!(
                *erases <= limit.min(ERASES_MAX),
                "block {block} was erased {erases} times; its limit is {limit}"
            );
        }
        self.check_pools(of(State::Free))
    }

    /// Checks that the policy of each pool holds the pool's free blocks, and that it knows the erase counts of the used
    /// blocks.
    fn check_pools(&self, free: usize) -> Result<(), Inconsistent> {
        let mut seen = vec![false; self.states.len()];
        for (pool, leveler) in self.pools.iter().enumerate() {
            let blocks = OfPool { blocks: self, pool };
            ensure!(
                leveler.is_sound(self.policy, &blocks),
                "the wear-leveling policy of pool {pool} disagrees with the block table"
            );
            let mut left = leveler.clone();
            while let Some(block) = left.policy_mut().take() {
                ensure!(
                    blocks.free(block).is_some()
                        && !core::mem::replace(&mut seen[block.index() as usize], true),
                    "the policy of pool {pool} holds {block:?}, which is not free in this pool or is held \
                     twice"
                );
            }
        }
        let held = seen.iter().filter(|seen| **seen).count();
        ensure!(held == free, "{free} blocks are free, but the policies hold {held}");
        Ok(())
    }
}

/// The blocks of one pool.
struct OfPool<'a> {
    blocks: &'a Blocks,
    pool: usize,
}

impl OfPool<'_> {
    /// Returns the erase count of a block of the pool if its state is `wanted`.
    fn erases(&self, block: EraseBlock, wanted: State) -> Option<u32> {
        let at = block.index() as usize;
        let is_own = at % self.blocks.pools.len() == self.pool;
        (is_own && self.blocks.states.get(at) == Some(&wanted)).then(|| self.blocks.erase_counts[at])
    }
}

impl PoolBlocks for OfPool<'_> {
    fn free(&self, block: EraseBlock) -> Option<u32> {
        self.erases(block, State::Free)
    }
    fn used(&self, block: EraseBlock) -> Option<u32> {
        self.erases(block, State::Used)
    }
    fn used_count(&self) -> usize {
        let own = self.blocks.states.iter().skip(self.pool).step_by(self.blocks.pools.len());
        own.filter(|state| **state == State::Used).count()
    }
}
