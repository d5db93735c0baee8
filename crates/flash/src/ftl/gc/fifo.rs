//! FIFO victim selection: the block that was closed first. Each pool has a list.

use super::Policy;
use super::valid_counts::ValidCounts;
use flashlab_sim::IndexLists;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Fifo {
    /// The closed blocks of each pool in the order of closing.
    closed: IndexLists,
}

impl Fifo {
    pub(super) fn new(counts: &ValidCounts, _seed: u64) -> Self {
        Fifo { closed: IndexLists::new(counts.block_count(), counts.pool_count()) }
    }
}

impl Policy for Fifo {
    fn insert(&mut self, _counts: &ValidCounts, pool: u32, block: u32, _now: u64) {
        self.closed.push_back(pool, block);
    }
    fn remove(&mut self, _counts: &ValidCounts, _pool: u32, block: u32) {
        self.closed.remove(block);
    }
    fn choose(&mut self, _counts: &ValidCounts, pool: u32, _now: u64) -> Option<u32> {
        self.closed.front(pool)
    }
    fn is_sound(&self, counts: &ValidCounts, _now: u64) -> bool {
        let pools = counts.pool_count();
        let is_own = |pool| self.closed.iter(pool).all(|block| block % pools == pool);
        let candidates = (0..pools).flat_map(|pool| self.closed.iter(pool));
        self.closed.is_sound(counts.block_count(), pools)
            && (0..pools).all(is_own)
            && counts.are_all_candidates(candidates)
    }
}
