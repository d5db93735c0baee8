//! D-choices victim selection: of `d` blocks drawn at random, with repetition, the one with the fewest valid units (Van
//! Houdt 2013).

use super::Policy;
use super::closed_blocks::ClosedBlocks;
use super::valid_counts::ValidCounts;
use crate::Impossible;
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

/// Names that the policy accepts, for messages.
pub(super) const FORM: &str = "1-choices to 1000-choices";

/// Returns the number of draws in a name of the policy.
pub(super) fn parse(name: &str) -> Option<u32> {
    let d = name.strip_suffix("-choices")?.parse().ok()?;
    (1..=1_000).contains(&d).then_some(d)
}

/// Checks the number of draws.
pub(super) fn check(d: u32) -> Result<(), Impossible> {
    match d {
        0 => Err(Impossible::new("ftl.victim", "draws 0 blocks; expected at least 1")),
        _ => Ok(()),
    }
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

#[cfg(test)]
mod tests {
    use crate::ftl::gc::VictimPolicy;

    #[test]
    fn zero_draws_are_refused() {
        let refused = VictimPolicy::DChoices { d: 0 }.check().unwrap_err();
        assert_eq!(alloc::format!("{refused}"), "ftl.victim draws 0 blocks; expected at least 1");
        assert_eq!(VictimPolicy::DChoices { d: 1 }.check(), Ok(()));
        assert_eq!(VictimPolicy::Greedy.check(), Ok(()));
    }
}
