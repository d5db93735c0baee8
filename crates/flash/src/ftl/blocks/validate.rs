//! Validation of the erase blocks, both of a running device and of a state file.

use super::{Blocks, State};
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use crate::ftl::wear_leveling::{Leveler, LevelingPolicy};
use crate::nand::EraseBlock;
use alloc::vec;

/// Limit of a block's erase count. No medium comes near it, so that further counting cannot overflow.
const ERASES_MAX: u32 = 1 << 31;

impl Blocks {
    /// Validates the complete state.
    ///
    /// # Errors
    /// Returns the first inconsistency. A state that passes makes no call panic that keeps to the contract.
    pub fn validate(&self) -> Result<(), Inconsistent> {
        let count = self.states.len();
        ensure!(
            self.erase_counts.len() == count && count < 1 << 31,
            "{count} blocks, but not as many counts"
        );
        let pools = self.pools.len();
        ensure!(pools > 0 && (self.taken_last as usize) < pools, "a pool that is not among {pools}");
        let of = |state| self.states.iter().filter(|s| **s == state).count();
        ensure!(of(State::Bad) == self.bad.len(), "bad blocks and the list of them");
        ensure!(
            self.bad.is_sorted_by(|a, b| a < b)
                && self.bad.iter().all(|block| self.states.get(*block as usize) == Some(&State::Bad)),
            "the list of bad blocks: {:?}",
            self.bad
        );
        ensure!(self.factory_bad as usize <= self.bad.len(), "more blocks were bad when new than are");
        let sum: u64 = self.erase_counts.iter().map(|erases| u64::from(*erases)).sum();
        ensure!(sum == self.erases, "erases of each block and in all: {sum} and {}", self.erases);
        for (block, erases) in (0..).zip(&self.erase_counts) {
            let limit = self.endurance.map_or(ERASES_MAX, |e| e.limit(self.seed, EraseBlock::new(block)));
            ensure!(
                *erases <= limit.min(ERASES_MAX),
                "block {block} was erased {erases} times and stands {limit}"
            );
        }
        self.check_pools(of(State::Free))
    }

    /// Checks that the policy of each pool holds the pool's free blocks, and that its data on used blocks is right.
    fn check_pools(&self, free: usize) -> Result<(), Inconsistent> {
        let mut seen = vec![false; self.states.len()];
        for (pool, leveler) in self.pools.iter().enumerate() {
            let state = |block: EraseBlock| {
                let mine = block.index() as usize % self.pools.len() == pool;
                self.states.get(block.index() as usize).copied().filter(|_| mine)
            };
            let erases = |block: EraseBlock, wanted| {
                (state(block) == Some(wanted)).then(|| self.erase_counts[block.index() as usize])
            };
            let is_free = |block: EraseBlock| erases(block, State::Free);
            let is_used = |block: EraseBlock| erases(block, State::Used);
            let sound = match (leveler, self.policy) {
                (Leveler::None(_), LevelingPolicy::None) => true,
                (Leveler::Dynamic(dynamic), LevelingPolicy::Dynamic) => dynamic.is_sound(&is_free),
                (Leveler::Static(leveling), LevelingPolicy::Static { threshold, relief }) => {
                    let used = (0..self.states.len() as u32)
                        .filter(|b| is_used(EraseBlock::new(*b)).is_some())
                        .count();
                    leveling.is_sound((threshold, relief), &is_free, &is_used, used)
                }
                _ => false,
            };
            ensure!(sound, "the leveling of pool {pool} knows other blocks, or other counts");
            let mut left = leveler.clone();
            while let Some(block) = left.policy_mut().take() {
                ensure!(
                    is_free(block).is_some() && !core::mem::replace(&mut seen[block.index() as usize], true),
                    "{block:?} is not free in pool {pool}"
                );
            }
        }
        let held = seen.iter().filter(|seen| **seen).count();
        ensure!(held == free, "free blocks and those that the policies hold: {free} and {held}");
        Ok(())
    }
}
