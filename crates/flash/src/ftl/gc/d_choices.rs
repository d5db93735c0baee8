//! D-choices victim selection: of `d` blocks drawn at random, with repetition, the one with the fewest valid units (Van
//! Houdt 2013).

use super::Policy;
use super::closed_blocks::ClosedBlocks;
use super::valid_counts::ValidCounts;
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

/// Names that the policy accepts, for messages.
pub(super) const FORM: &str = "1-choices to 1000-choices";

/// Returns the number of draws in a name of the policy.
pub(super) fn parse(name: &str) -> Option<u32> {
    let d = name.strip_suffix("-choices")?.parse().ok()?;
    (1..=1_000).contains(&d).then_some(d)
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct DChoices {
    d: u32,
    closed: ClosedBlocks,
    rng: Rng,
}

impl DChoices {
    /// Returns the number of draws per selection.
    pub(super) fn d(&self) -> u32 {
        self.d
    }
    pub(super) fn new(counts: &ValidCounts, seed: u64, d: u32) -> Self {
        DChoices { d, closed: ClosedBlocks::new(counts), rng: Rng::new(seed) }
    }
}

impl Policy for DChoices {
    fn insert(&mut self, _counts: &ValidCounts, pool: u32, block: u32, _now: u64) {
        self.closed.insert(pool, block);
    }
    fn remove(&mut self, _counts: &ValidCounts, pool: u32, block: u32) {
        self.closed.remove(pool, block);
    }
    fn choose(&mut self, counts: &ValidCounts, pool: u32, _now: u64) -> Option<u32> {
        let mut best = self.closed.draw(pool, &mut self.rng)?;
        for _ in 1..self.d {
            let other = self.closed.draw(pool, &mut self.rng).expect("the set of closed blocks has members");
            if counts.valid(other) < counts.valid(best) {
                best = other;
            }
        }
        Some(best)
    }
    fn is_sound(&self, counts: &ValidCounts, _now: u64) -> bool {
        self.closed.is_sound(counts)
    }
}
