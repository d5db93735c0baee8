//! Victim selection for garbage collection, one policy per file, and the number of valid units of each block
//! (`valid_counts.rs`).
//!
//! A policy knows the closed blocks of each pool (a die), reads their valid units from the counts, and selects the next
//! victim. A selection depends only on the calls before it and on the seed. A policy does not know whether a victim
//! frees any space: a caller that cannot gain space must not ask for one.

mod closed_blocks;
pub mod closed_forms;
mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod random;
mod valid_counts;

use cost_benefit::CostBenefit;
use d_choices::DChoices;
use fifo::Fifo;
use greedy::Greedy;
use random::Random;
use serde::{Deserialize, Serialize};
use valid_counts::ValidCounts;

use crate::Impossible;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;

/// Selection of a victim among a die's closed blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum VictimPolicy {
    /// The block with the fewest valid units.
    Greedy,
    /// The block with the greatest (1 - u) age / 2u, where u is its share of valid units (Rosenblum and Ousterhout
    /// 1992).
    CostBenefit,
    /// The block that was closed first.
    Fifo,
    /// A random block.
    Random,
    /// Of `d` blocks drawn at random, the one with the fewest valid units (Van Houdt 2013).
    DChoices {
        /// Number of blocks drawn.
        d: u32,
    },
}

impl VictimPolicy {
    /// Checks that the policy's parameters are possible.
    pub fn check(self) -> Result<(), Impossible> {
        if self == (VictimPolicy::DChoices { d: 0 }) {
            return Err(Impossible::new("ftl.victim", "draws 0 blocks; expected at least 1"));
        }
        Ok(())
    }
}

/// The closed blocks of all pools under one policy.
trait Policy {
    /// Adds `block` of `pool`, which was closed when `now` units had been written, to the candidates.
    fn insert(&mut self, counts: &ValidCounts, pool: u32, block: u32, now: u64);
    /// Removes `block` from the candidates.
    fn remove(&mut self, counts: &ValidCounts, pool: u32, block: u32);
    /// Returns the next victim of `pool`, which stays a candidate until the caller removes it.
    fn choose(&mut self, counts: &ValidCounts, pool: u32, now: u64) -> Option<u32>;
    /// Returns true if the policy's lists are consistent and hold exactly the candidates of the counts, when `now`
    /// units have been written.
    fn is_sound(&self, counts: &ValidCounts, now: u64) -> bool;
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Policies {
    Greedy(Greedy),
    CostBenefit(CostBenefit),
    Fifo(Fifo),
    Random(Random),
    DChoices(DChoices),
}

impl Policies {
    fn new(victim: VictimPolicy, counts: &ValidCounts, seed: u64) -> Self {
        match victim {
            VictimPolicy::Greedy => Policies::Greedy(Greedy::new(counts)),
            VictimPolicy::CostBenefit => Policies::CostBenefit(CostBenefit::new(counts)),
            VictimPolicy::Fifo => Policies::Fifo(Fifo::new(counts)),
            VictimPolicy::Random => Policies::Random(Random::new(counts, seed)),
            VictimPolicy::DChoices { d } => Policies::DChoices(DChoices::new(d, counts, seed)),
        }
    }
    fn is(&self, victim: VictimPolicy) -> bool {
        match self {
            Policies::Greedy(_) => victim == VictimPolicy::Greedy,
            Policies::CostBenefit(_) => victim == VictimPolicy::CostBenefit,
            Policies::Fifo(_) => victim == VictimPolicy::Fifo,
            Policies::Random(_) => victim == VictimPolicy::Random,
            Policies::DChoices(policy) => victim == VictimPolicy::DChoices { d: policy.draws() },
        }
    }
    fn policy(&self) -> &dyn Policy {
        match self {
            Policies::Greedy(policy) => policy,
            Policies::CostBenefit(policy) => policy,
            Policies::Fifo(policy) => policy,
            Policies::Random(policy) => policy,
            Policies::DChoices(policy) => policy,
        }
    }
    fn policy_mut(&mut self) -> &mut dyn Policy {
        match self {
            Policies::Greedy(policy) => policy,
            Policies::CostBenefit(policy) => policy,
            Policies::Fifo(policy) => policy,
            Policies::Random(policy) => policy,
            Policies::DChoices(policy) => policy,
        }
    }
}

/// The closed blocks with their valid units, under the policy of the parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Candidates {
    counts: ValidCounts,
    policies: Policies,
}

impl Candidates {
    /// Creates an empty set of candidates for `blocks` blocks of at most `units` units in `pools` pools, block b in
    /// pool b % `pools`.
    pub(crate) fn new(victim: VictimPolicy, pools: u32, blocks: u32, units: u32, seed: u64) -> Self {
        let counts = ValidCounts::new(pools, blocks, units);
        let policies = Policies::new(victim, &counts, seed);
        Candidates { counts, policies }
    }
    /// Returns the number of invalid units in the candidates of `pool`.
    pub(crate) fn invalid_units(&self, pool: u32) -> u64 {
        self.counts.invalid_units(pool)
    }
    /// Counts a unit of `block` as invalid, if the block is a candidate.
    #[inline]
    pub(crate) fn invalidate(&mut self, block: u32) {
        self.invalidate_units(block, 1);
    }
    /// Counts `units` units of `block` as invalid, if the block is a candidate.
    #[inline]
    pub(crate) fn invalidate_units(&mut self, block: u32, units: u32) {
        if let Some((place, rank)) = self.counts.invalidate(block, units)
            && let Policies::Greedy(greedy) = &mut self.policies
        {
            greedy.fell(place, rank);
        }
    }
    /// Adds `block` of `pool` to the candidates: a closed block with `valid` valid units, when `now` units have been
    /// written.
    pub(crate) fn insert(&mut self, pool: u32, block: u32, valid: u32, now: u64) {
        self.counts.insert(block, valid);
        self.policies.policy_mut().insert(&self.counts, pool, block, now);
    }
    /// Removes `block` of `pool` from the candidates.
    pub(crate) fn remove(&mut self, pool: u32, block: u32) {
        self.counts.remove(block);
        self.policies.policy_mut().remove(&self.counts, pool, block);
    }
    /// Returns the next victim of `pool`, which stays a candidate until the caller removes it.
    pub(crate) fn choose(&mut self, pool: u32, now: u64) -> Option<u32> {
        self.policies.policy_mut().choose(&self.counts, pool, now)
    }
    /// Prefetches the counts of `block` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, block: u32) {
        flashlab_sim::prefetch(self.counts.words(), self.counts.place_of(block));
    }
    /// Validates the candidates of `blocks` blocks of at most `units` units in `pools` pools, when `now` units have
    /// been written. `said` returns the caller's count for each block: its valid units if the block is closed.
    pub(crate) fn validate(
        &self,
        victim: VictimPolicy,
        (pools, blocks, units): (u32, u32, u32),
        now: u64,
        said: &dyn Fn(u32) -> Option<u32>,
    ) -> Result<(), Inconsistent> {
        ensure!(
            self.counts.is_sound(pools, blocks, units),
            "the valid units of blocks are not possible, or those of other blocks"
        );
        ensure!(
            self.policies.is(victim) && self.policies.policy().is_sound(&self.counts, now),
            "the lists of candidates do not hold together"
        );
        for block in 0..blocks {
            let found = self.counts.is_candidate(block).then(|| self.counts.valid(block));
            ensure!(
                found == said(block),
                "valid units of block {block}, if it is closed: {found:?}, not {:?}",
                said(block)
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use flashlab_sim::Rng;

    const UNITS: u32 = 8;
    const BLOCKS: u32 = 12;

    /// Reference for the policies: (block, valid, closed at) in the order of closing.
    #[derive(Default)]
    struct Reference {
        closed: Vec<(u32, u32, u64)>,
    }

    fn allowed(victim: VictimPolicy, reference: &Reference, pool: u32, now: u64, chosen: u32) -> bool {
        let mine: Vec<_> = reference.closed.iter().filter(|(block, ..)| block % 2 == pool).collect();
        let (_, valid, at) = **mine.iter().find(|(block, ..)| *block == chosen).expect("a candidate");
        // A block without valid units costs nothing to collect: its score is infinite, regardless of its age.
        let score =
            |valid: u32, at: u64| f64::from(UNITS - valid) * (now - at + 1) as f64 / (2.0 * f64::from(valid));
        match victim {
            VictimPolicy::Greedy => mine.iter().all(|(_, other, _)| valid <= *other),
            VictimPolicy::Fifo => mine[0].0 == chosen,
            VictimPolicy::CostBenefit => {
                mine.iter().all(|(_, v, a)| score(valid, at) >= score(*v, *a) * (1.0 - 1e-12))
            }
            VictimPolicy::Random | VictimPolicy::DChoices { .. } => true,
        }
    }

    #[test]
    fn every_policy_chooses_what_it_promises_whatever_it_was_told_before() {
        for victim in [
            VictimPolicy::Greedy,
            VictimPolicy::CostBenefit,
            VictimPolicy::Fifo,
            VictimPolicy::Random,
            VictimPolicy::DChoices { d: 1 },
            VictimPolicy::DChoices { d: 3 },
        ] {
            let mut rng = Rng::new(7);
            let mut policy = Candidates::new(victim, 2, BLOCKS, UNITS, 7);
            let mut reference = Reference::default();
            for now in 1..5_000u64 {
                let block = rng.below(u64::from(BLOCKS)) as u32;
                let units = 1 + rng.below(2) as u32;
                let position = reference.closed.iter().position(|(b, ..)| *b == block);
                match (rng.below(3), position) {
                    (0, None) => {
                        let valid = rng.below(u64::from(UNITS) + 1) as u32;
                        policy.insert(block % 2, block, valid, now);
                        reference.closed.push((block, valid, now));
                    }
                    (1, Some(at)) => {
                        policy.remove(block % 2, block);
                        reference.closed.remove(at);
                    }
                    (2, Some(at)) if reference.closed[at].1 >= units => {
                        reference.closed[at].1 -= units;
                        policy.invalidate_units(block, units);
                    }
                    // Invalid units of a block that is no candidate are not counted.
                    (2, None) => policy.invalidate(block),
                    _ => {}
                }
                let said =
                    |block| reference.closed.iter().find(|(b, ..)| *b == block).map(|(_, valid, _)| *valid);
                policy.validate(victim, (2, BLOCKS, UNITS), now, &said).expect("it holds together");
                let pool = rng.below(2) as u32;
                let any = reference.closed.iter().any(|(b, ..)| b % 2 == pool);
                match policy.choose(pool, now) {
                    Some(chosen) => {
                        assert!(allowed(victim, &reference, pool, now, chosen), "{victim:?} at step {now}");
                    }
                    None => assert!(!any, "{victim:?} chose none at step {now}"),
                }
            }
        }
    }

    #[test]
    fn no_choice_of_none_is_refused() {
        let refused = VictimPolicy::DChoices { d: 0 }.check().unwrap_err();
        assert_eq!(alloc::format!("{refused}"), "ftl.victim draws 0 blocks; expected at least 1");
        assert_eq!(VictimPolicy::Greedy.check(), Ok(()));
    }
}
