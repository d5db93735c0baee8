//! Cost-benefit victim selection: the block with the greatest (1 - u) age / 2u, where u is its share of valid units
//! (Rosenblum and Ousterhout, "The design and implementation of a log-structured file system", 1992). Data that is old
//! and still valid is cold, so its block is worth collecting at a higher share of valid units.
//!
//! Age is the number of writes and trims that the layer accepted since the last page of the block was programmed, so
//! that age does not depend on speed. A write is one unit.
//! Each victim selection compares all closed blocks of the pool.

use super::Policy;
use super::closed_blocks::ClosedBlocks;
use super::valid_counts::ValidCounts;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CostBenefit {
    closed: ClosedBlocks,
    /// Number of writes and trims that the layer had accepted when the last page of each block was programmed.
    closed_at: Vec<u64>,
}

impl CostBenefit {
    pub(super) fn new(counts: &ValidCounts, _seed: u64) -> Self {
        CostBenefit { closed: ClosedBlocks::new(counts), closed_at: vec![0; counts.block_count() as usize] }
    }

    /// Returns benefit and cost, (1 - u) age and u, both in units. The caller compares them as fractions, without
    /// rounding.
    fn score(&self, counts: &ValidCounts, block: u32, now: u64) -> (u128, u128) {
        let valid = counts.valid(block);
        // The added 1 gives a block that was just closed a benefit, too.
        let age = u128::from(now - self.closed_at[block as usize]) + 1;
        (u128::from(counts.units() - valid) * age, u128::from(valid))
    }
}

impl Policy for CostBenefit {
    fn insert(&mut self, _counts: &ValidCounts, pool: u32, block: u32, now: u64) {
        self.closed.insert(pool, block);
        self.closed_at[block as usize] = now;
    }
    fn remove(&mut self, _counts: &ValidCounts, pool: u32, block: u32) {
        self.closed.remove(pool, block);
    }
    fn choose(&mut self, counts: &ValidCounts, pool: u32, now: u64) -> Option<u32> {
        let (&first, others) = self.closed.members(pool).split_first()?;
        let mut best = (first, self.score(counts, first, now));
        for &other in others {
            let (benefit, cost) = self.score(counts, other, now);
            let (best_benefit, best_cost) = best.1;
            if benefit * best_cost > best_benefit * cost {
                best = (other, (benefit, cost));
            }
        }
        Some(best.0)
    }
    fn is_sound(&self, counts: &ValidCounts, now: u64) -> bool {
        self.closed_at.len() == counts.block_count() as usize
            && self.closed_at.iter().all(|closed_at| *closed_at <= now)
            && self.closed.is_sound(counts)
    }
}
