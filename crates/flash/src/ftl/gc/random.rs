//! Random victim selection: all closed blocks are equally likely.

use super::Policy;
use super::closed_blocks::ClosedBlocks;
use super::valid_counts::ValidCounts;
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Random {
    closed: ClosedBlocks,
    rng: Rng,
}

impl Random {
    pub(super) fn new(counts: &ValidCounts, seed: u64) -> Self {
        Random { closed: ClosedBlocks::new(counts), rng: Rng::new(seed) }
    }
}

impl Policy for Random {
    fn insert(&mut self, _counts: &ValidCounts, pool: u32, block: u32, _now: u64) {
        self.closed.insert(pool, block);
    }
    fn remove(&mut self, _counts: &ValidCounts, pool: u32, block: u32) {
        self.closed.remove(pool, block);
    }
    fn choose(&mut self, _counts: &ValidCounts, pool: u32, _now: u64) -> Option<u32> {
        self.closed.draw(pool, &mut self.rng)
    }
    fn is_sound(&self, counts: &ValidCounts, _now: u64) -> bool {
        self.closed.is_sound(counts)
    }
}
