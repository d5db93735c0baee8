//! Any block, each as likely as any other.

use super::set::Set;
use super::{Policy, Shape};
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Random {
    closed: Set,
    rng: Rng,
}

impl Random {
    pub(super) fn new(pools: u32, blocks: u32, seed: u64) -> Self {
        Random { closed: Set::new(pools, blocks), rng: Rng::new(seed) }
    }
}

impl Policy for Random {
    fn insert(&mut self, pool: u32, block: u32, _valid: u32, _now: u64) {
        self.closed.insert(pool, block);
    }
    fn remove(&mut self, pool: u32, block: u32, _valid: u32) {
        self.closed.remove(pool, block);
    }
    #[inline]
    fn invalidated(&mut self, _pool: u32, _block: u32, _valid: u32) {}
    fn choose(&mut self, pool: u32, _now: u64) -> Option<u32> {
        self.closed.draw(pool, &mut self.rng)
    }
    fn is_sound(&self, shape: &Shape) -> bool {
        self.closed.is_sound(shape.pools, shape.blocks)
    }
    fn each(&self, to: &mut dyn FnMut(u32, Option<u32>)) {
        self.closed.all().for_each(|block| to(block, None));
    }
}
