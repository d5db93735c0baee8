//! The block with the fewest valid units of `d` that are drawn at random, with repetition (Van Houdt 2013).

use super::Policy;
use super::set::Set;
use super::tally::Tally;
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DChoices {
    d: u32,
    closed: Set,
    rng: Rng,
}

impl DChoices {
    /// How many are drawn.
    pub(super) fn draws(&self) -> u32 {
        self.d
    }
    pub(super) fn new(d: u32, tally: &Tally, seed: u64) -> Self {
        DChoices { d, closed: Set::new(tally), rng: Rng::new(seed) }
    }
}

impl Policy for DChoices {
    fn insert(&mut self, _tally: &Tally, pool: u32, block: u32, _now: u64) {
        self.closed.insert(pool, block);
    }
    fn remove(&mut self, _tally: &Tally, pool: u32, block: u32) {
        self.closed.remove(pool, block);
    }
    fn choose(&mut self, tally: &Tally, pool: u32, _now: u64) -> Option<u32> {
        let mut best = self.closed.draw(pool, &mut self.rng)?;
        for _ in 1..self.d {
            let other = self.closed.draw(pool, &mut self.rng).expect("it has members");
            if tally.valid(other) < tally.valid(best) {
                best = other;
            }
        }
        Some(best)
    }
    fn is_sound(&self, tally: &Tally, _now: u64) -> bool {
        self.closed.is_sound(tally)
    }
}
