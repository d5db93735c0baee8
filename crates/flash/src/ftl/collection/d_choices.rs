//! The block with the fewest valid units of `d` that are drawn at random, with repetition (Van Houdt 2013).

use super::set::Set;
use super::{Policy, Shape};
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DChoices {
    d: u32,
    closed: Set,
    /// Valid units of each closed block.
    valid: Vec<u32>,
    rng: Rng,
}

impl DChoices {
    /// How many are drawn.
    pub(super) fn draws(&self) -> u32 {
        self.d
    }
    pub(super) fn new(d: u32, pools: u32, blocks: u32, seed: u64) -> Self {
        DChoices { d, closed: Set::new(pools, blocks), valid: vec![0; blocks as usize], rng: Rng::new(seed) }
    }
}

impl Policy for DChoices {
    fn insert(&mut self, pool: u32, block: u32, valid: u32, _now: u64) {
        self.closed.insert(pool, block);
        self.valid[block as usize] = valid;
    }
    fn remove(&mut self, pool: u32, block: u32, _valid: u32) {
        self.closed.remove(pool, block);
    }
    #[inline]
    fn invalidated(&mut self, _pool: u32, block: u32, valid: u32) {
        self.valid[block as usize] = valid;
    }
    fn choose(&mut self, pool: u32, _now: u64) -> Option<u32> {
        let mut best = self.closed.draw(pool, &mut self.rng)?;
        for _ in 1..self.d {
            let other = self.closed.draw(pool, &mut self.rng).expect("it has members");
            if self.valid[other as usize] < self.valid[best as usize] {
                best = other;
            }
        }
        Some(best)
    }
    fn is_sound(&self, shape: &Shape) -> bool {
        self.valid.len() == shape.blocks as usize && self.closed.is_sound(shape.pools, shape.blocks)
    }
    fn each(&self, to: &mut dyn FnMut(u32, Option<u32>)) {
        self.closed.all().for_each(|block| to(block, Some(self.valid[block as usize])));
    }
}
