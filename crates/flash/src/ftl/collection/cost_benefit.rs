//! The block with the greatest (1 - u) age / 2u (Rosenblum and Ousterhout, "The design and implementation of a
//! log-structured file system", 1992): what is old and still valid is cold, and worth collecting at a higher share.
//!
//! Age is counted in units that the host wrote since the block was closed, so that it does not depend on speed. All
//! closed blocks of the pool are compared, once for each victim.

use super::set::Set;
use super::{Policy, Shape};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Closed {
    valid: u32,
    at: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CostBenefit {
    units: u32,
    closed: Set,
    blocks: Vec<Closed>,
}

impl CostBenefit {
    pub(super) fn new(pools: u32, blocks: u32, units: u32) -> Self {
        CostBenefit {
            units,
            closed: Set::new(pools, blocks),
            blocks: vec![Closed { valid: 0, at: 0 }; blocks as usize],
        }
    }

    /// Benefit and cost: (1 - u) age and u, both in units; compared as fractions, without rounding.
    fn score(&self, block: u32, now: u64) -> (u128, u128) {
        let Closed { valid, at } = self.blocks[block as usize];
        // A block that was closed just now is not worthless.
        let age = u128::from(now - at) + 1;
        (u128::from(self.units.saturating_sub(valid)) * age, u128::from(valid))
    }
}

impl Policy for CostBenefit {
    fn insert(&mut self, pool: u32, block: u32, valid: u32, now: u64) {
        self.closed.insert(pool, block);
        self.blocks[block as usize] = Closed { valid, at: now };
    }
    fn remove(&mut self, pool: u32, block: u32, _valid: u32) {
        self.closed.remove(pool, block);
    }
    #[inline]
    fn invalidated(&mut self, _pool: u32, block: u32, valid: u32) {
        self.blocks[block as usize].valid = valid;
    }
    fn choose(&mut self, pool: u32, now: u64) -> Option<u32> {
        let (&first, others) = self.closed.members(pool).split_first()?;
        let mut best = (first, self.score(first, now));
        for &other in others {
            let (benefit, cost) = self.score(other, now);
            let (best_benefit, best_cost) = best.1;
            if benefit * best_cost > best_benefit * cost {
                best = (other, (benefit, cost));
            }
        }
        Some(best.0)
    }
    fn is_sound(&self, shape: &Shape) -> bool {
        self.units == shape.units
            && self.blocks.len() == shape.blocks as usize
            && self.blocks.iter().all(|closed| closed.at <= shape.now)
            && self.closed.is_sound(shape.pools, shape.blocks)
    }
    fn each(&self, to: &mut dyn FnMut(u32, Option<u32>)) {
        self.closed.all().for_each(|block| to(block, Some(self.blocks[block as usize].valid)));
    }
}
