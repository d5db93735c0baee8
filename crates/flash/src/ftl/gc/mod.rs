//! Victim selection for garbage collection, one policy per file, and the number of valid units of each block
//! (`valid_counts.rs`).
//!
//! A policy knows the closed blocks of each pool (a die), reads their valid units from the counts, and selects the next
//! victim. A selection depends only on the calls before it and on the seed. A policy does not know whether a victim
//! frees any space: a caller that cannot gain space must not ask for one.
//!
//! A new policy is one file with a type that implements `Policy`, and one line in the registry `victim_policies!`
//! below. Profiles, experiments and the documentation of parameters read the registry.

pub mod closed_forms;

mod closed_blocks;
mod valid_counts;

use serde::{Deserialize, Serialize};
use valid_counts::ValidCounts;

use crate::Impossible;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;

/// Declares the policies. Each line contains the module and the type of a policy, its name in profiles and a
/// description. A policy with a parameter also states the value that its name in profiles stands for.
///
/// A policy with a parameter also has, in its module, `FORM` (the names that it accepts), `parse` (the parameter in such
/// a name) and `check` (an error if the parameter is impossible).
macro_rules! victim_policies {
    ($($module:ident::$policy:ident $({ $parameter:ident = $value:literal })?, $name:literal, $meaning:literal;)+) => {
        $(mod $module;)+

        /// Selection of a victim among a die's closed blocks.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum VictimPolicy {
            $(
                #[doc = concat!("`", $name, "`: ", $meaning, ".")]
                $policy $({
                    /// Parameter of the policy.
                    $parameter: u32,
                })?,
            )+
        }

        impl VictimPolicy {
            /// The policies that have a name in profiles.
            pub const ALL: &[VictimPolicy] = &[$(VictimPolicy::$policy $({ $parameter: $value })?),+];
            /// Names of [`VictimPolicy::ALL`], in the same order.
            pub const NAMES: &[&str] = &[$($name),+];
            /// Descriptions of all policies, as one text.
            pub const MEANING: &str = concat!(
                "Victim selection of garbage collection.", $(" `", $name, "`: ", $meaning, "."),+
            );
            /// The names that [`VictimPolicy::from_name`] accepts, for messages.
            pub const FORMS: &[&str] = &[$(victim_policies!(@form $name $($module $parameter)?)),+];

            /// Returns the policy with a name. The name of a policy with a parameter may contain another value than the
            /// registered one.
            pub fn from_name(name: &str) -> Option<VictimPolicy> {
                $($(
                    if let Some($parameter) = $module::parse(name) {
                        return Some(VictimPolicy::$policy { $parameter });
                    }
                )?)+
                let at = Self::NAMES.iter().position(|known| *known == name)?;
                Some(Self::ALL[at])
            }

            /// Checks that the policy's parameters are possible.
            pub fn check(self) -> Result<(), Impossible> {
                match self {
                    $(VictimPolicy::$policy $({ $parameter })? => victim_policies!(@check $($module $parameter)?),)+
                }
            }
        }

        /// A policy with its state. Calls to an enum are direct, and an enum can be cloned and stored in a state file.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        enum Policies {
            $($policy($module::$policy)),+
        }

        impl Policies {
            fn new(victim: VictimPolicy, counts: &ValidCounts, seed: u64) -> Self {
                match victim {
                    $(VictimPolicy::$policy $({ $parameter })? => {
                        Policies::$policy($module::$policy::new(counts, seed $(, $parameter)?))
                    })+
                }
            }
            /// Returns true if the state is that of `victim`.
            fn is(&self, victim: VictimPolicy) -> bool {
                match self {
                    $(Policies::$policy(_policy) => {
                        victim == VictimPolicy::$policy $({ $parameter: _policy.$parameter() })?
                    })+
                }
            }
            #[inline(always)]
            fn fell(&mut self, place: usize, rank: u64) {
                match self {
                    $(Policies::$policy(policy) => policy.fell(place, rank),)+
                }
            }
            fn policy(&self) -> &dyn Policy {
                match self {
                    $(Policies::$policy(policy) => policy,)+
                }
            }
            fn policy_mut(&mut self) -> &mut dyn Policy {
                match self {
                    $(Policies::$policy(policy) => policy,)+
                }
            }
        }
    };
    (@form $name:literal) => { $name };
    (@form $name:literal $module:ident $parameter:ident) => { $module::FORM };
    (@check) => { Ok(()) };
    (@check $module:ident $parameter:ident) => { $module::check($parameter) };
}

victim_policies! {
    greedy::Greedy, "greedy", "the block with the fewest valid units";
    cost_benefit::CostBenefit, "cost-benefit", "the best benefit for its cost and age";
    fifo::Fifo, "fifo", "the block that was closed first";
    random::Random, "random", "a random block";
    d_choices::DChoices { d = 10 }, "10-choices", "of ten random blocks, the one with the fewest valid units";
}

impl VictimPolicy {
    /// Returns the name of the policy in profiles, if it has one.
    pub fn name(self) -> Option<&'static str> {
        let at = Self::ALL.iter().position(|policy| *policy == self)?;
        Some(Self::NAMES[at])
    }
}

/// The closed blocks of all pools under one policy.
trait Policy {
    /// Adds `block` of `pool` to the candidates. The block was closed when `now` units had been written.
    fn insert(&mut self, counts: &ValidCounts, pool: u32, block: u32, now: u64);
    /// Removes `block` from the candidates.
    fn remove(&mut self, counts: &ValidCounts, pool: u32, block: u32);
    /// Returns the next victim of `pool`, which stays a candidate until the caller removes it.
    fn choose(&mut self, counts: &ValidCounts, pool: u32, now: u64) -> Option<u32>;
    /// Records that the rank of a candidate fell to `rank`, at the position `place` of the counts.
    #[inline(always)]
    fn fell(&mut self, _place: usize, _rank: u64) {}
    /// Returns true if the policy's lists are consistent and hold exactly the candidates of the counts, when `now`
    /// units have been written.
    fn is_sound(&self, counts: &ValidCounts, now: u64) -> bool;
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
        if let Some((place, rank)) = self.counts.invalidate(block, units) {
            self.policies.fell(place, rank);
        }
    }
    /// Adds `block` of `pool` to the candidates. The block was closed with `valid` valid units when `now`
    /// units had been written.
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
    /// been written. `expected` returns the caller's count for each block: its valid units if the block is closed.
    pub(crate) fn validate(
        &self,
        victim: VictimPolicy,
        (pools, blocks, units): (u32, u32, u32),
        now: u64,
        expected: &dyn Fn(u32) -> Option<u32>,
    ) -> Result<(), Inconsistent> {
        ensure!(
            self.counts.is_sound(pools, blocks, units),
            "the counts of valid units are out of range, or have another number of blocks"
        );
        ensure!(
            self.policies.is(victim) && self.policies.policy().is_sound(&self.counts, now),
            "the lists of candidates are corrupt, or belong to another policy"
        );
        for block in 0..blocks {
            let found = self.counts.is_candidate(block).then(|| self.counts.valid(block));
            ensure!(
                found == expected(block),
                "block {block} has {found:?} valid units as a candidate, expected {:?}",
                expected(block)
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
            _ => true,
        }
    }

    #[test]
    fn every_policy_chooses_a_candidate_and_policies_without_draws_the_documented_one() {
        let draws = [1, 3].map(|d| VictimPolicy::DChoices { d });
        for victim in VictimPolicy::ALL.iter().copied().chain(draws) {
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
                    // Invalid units of a block that is not a candidate are not counted.
                    (2, None) => policy.invalidate(block),
                    _ => {}
                }
                let expected =
                    |block| reference.closed.iter().find(|(b, ..)| *b == block).map(|(_, valid, _)| *valid);
                policy
                    .validate(victim, (2, BLOCKS, UNITS), now, &expected)
                    .expect("the structures of the policy are consistent");
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
    fn every_policy_is_found_by_its_name_and_d_choices_by_the_number_of_draws() {
        for policy in VictimPolicy::ALL {
            let name = policy.name().expect("it is registered");
            assert_eq!(VictimPolicy::from_name(name), Some(*policy));
            assert!(VictimPolicy::MEANING.contains(name), "{name} has no description");
        }
        assert_eq!(VictimPolicy::from_name("3-choices"), Some(VictimPolicy::DChoices { d: 3 }));
        assert_eq!(VictimPolicy::DChoices { d: 3 }.name(), None);
        for wrong in ["", "Greedy", "0-choices", "1001-choices", "x-choices"] {
            assert_eq!(VictimPolicy::from_name(wrong), None, "{wrong}");
        }
    }
}
