//! Any block, each as likely as any other.

use super::Policy;
use super::set::Set;
use super::tally::Tally;
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Random {
    closed: Set,
    rng: Rng,
}

impl Random {
    pub(super) fn new(tally: &Tally, seed: u64) -> Self {
        Random { closed: Set::new(tally), rng: Rng::new(seed) }
    }
}

impl Policy for Random {
    fn insert(&mut self, _tally: &Tally, pool: u32, block: u32, _now: u64) {
        self.closed.insert(pool, block);
    }
    fn remove(&mut self, _tally: &Tally, pool: u32, block: u32) {
        self.closed.remove(pool, block);
    }
    fn choose(&mut self, _tally: &Tally, pool: u32, _now: u64) -> Option<u32> {
        self.closed.draw(pool, &mut self.rng)
    }
    fn is_sound(&self, tally: &Tally, _now: u64) -> bool {
        self.closed.is_sound(tally)
    }
}
