//! Which erase block is collected next: one policy a file.
//!
//! A policy knows the closed blocks of each pool (a die), is told when one of them loses a valid unit, and chooses the
//! next victim. It guarantees that a choice depends on nothing but what it was told and the seed. It does not know what
//! a victim is worth: a caller that cannot gain anything must not ask.

mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
mod random;
mod set;

use cost_benefit::CostBenefit;
use d_choices::DChoices;
use fifo::Fifo;
use greedy::Greedy;
use random::Random;
use serde::{Deserialize, Serialize};

use crate::Impossible;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::vec;

/// No block, at the ends of lists.
const NONE: u32 = u32::MAX;

/// How a victim is chosen among a die's closed blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Victim {
    /// The one with the fewest valid units.
    Greedy,
    /// The one with the greatest (1 - u) age / 2u, u its share of valid units (Rosenblum and Ousterhout 1992).
    CostBenefit,
    /// The one closed first.
    Fifo,
    /// Any.
    Random,
    /// The one with the fewest valid units of `d` drawn at random (Van Houdt 2013).
    DChoices {
        /// How many are drawn.
        d: u32,
    },
}

impl Victim {
    /// Refuses what no policy can be.
    pub fn check(self) -> Result<(), Impossible> {
        if self == (Victim::DChoices { d: 0 }) {
            return Err(Impossible::new("ftl.victim", "draws 0 blocks; expected at least 1"));
        }
        Ok(())
    }
}

/// What a policy was made for, and how much has been written.
struct Shape {
    pools: u32,
    blocks: u32,
    units: u32,
    now: u64,
}

/// Walks a list through `next` from `head`; whether it ends, and every block of it passes with the one before it.
fn ends(head: u32, blocks: u32, next: impl Fn(u32) -> u32, pass: impl Fn(u32, u32) -> bool) -> bool {
    let (mut previous, mut block) = (NONE, head);
    for _ in 0..=blocks {
        if block == NONE {
            return true;
        }
        if block >= blocks || !pass(previous, block) {
            return false;
        }
        (previous, block) = (block, next(block));
    }
    false
}

/// The closed blocks of all pools under one policy.
trait Policy {
    /// `block` of `pool` is closed with `valid` units, `now` units after the device's first.
    fn insert(&mut self, pool: u32, block: u32, valid: u32, now: u64);
    /// `block` is no candidate any more; it has `valid` units.
    fn remove(&mut self, pool: u32, block: u32, valid: u32);
    /// A unit of `block` became invalid: it has `valid` now.
    fn invalidated(&mut self, pool: u32, block: u32, valid: u32);
    /// The next victim of `pool`; it stays a candidate until it is removed.
    fn choose(&mut self, pool: u32, now: u64) -> Option<u32>;
    /// Loads what is known of `block` into the processor's cache.
    #[inline]
    fn prefetch(&self, _pool: u32, _block: u32) {}
    /// Whether it was made for so many pools and blocks of so many units, when `now` units had been written, and its lists
    /// hold together.
    fn is_sound(&self, shape: &Shape) -> bool;
    /// All candidates, each with its valid units where the policy knows them.
    fn each(&self, to: &mut dyn FnMut(u32, Option<u32>));
}

/// The closed blocks under the policy of the parameters.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Candidates {
    Greedy(Greedy),
    CostBenefit(CostBenefit),
    Fifo(Fifo),
    Random(Random),
    DChoices(DChoices),
}

/// Calls the same method of whichever policy it is.
macro_rules! each {
    ($self:ident, $policy:ident => $call:expr) => {
        match $self {
            Candidates::Greedy($policy) => $call,
            Candidates::CostBenefit($policy) => $call,
            Candidates::Fifo($policy) => $call,
            Candidates::Random($policy) => $call,
            Candidates::DChoices($policy) => $call,
        }
    };
}

impl Candidates {
    /// No candidates, of `blocks` of at most `units` units in `pools`.
    pub(crate) fn new(victim: Victim, pools: u32, blocks: u32, units: u32, seed: u64) -> Self {
        match victim {
            Victim::Greedy => Candidates::Greedy(Greedy::new(pools, blocks)),
            Victim::CostBenefit => Candidates::CostBenefit(CostBenefit::new(pools, blocks, units)),
            Victim::Fifo => Candidates::Fifo(Fifo::new(pools, blocks)),
            Victim::Random => Candidates::Random(Random::new(pools, blocks, seed)),
            Victim::DChoices { d } => Candidates::DChoices(DChoices::new(d, pools, blocks, seed)),
        }
    }
    /// `block` of `pool` is closed with `valid` units, when `now` units have been written.
    pub(crate) fn insert(&mut self, pool: u32, block: u32, valid: u32, now: u64) {
        each!(self, policy => policy.insert(pool, block, valid, now));
    }
    /// `block`, which has `valid` units, is no candidate any more.
    pub(crate) fn remove(&mut self, pool: u32, block: u32, valid: u32) {
        each!(self, policy => policy.remove(pool, block, valid));
    }
    /// A unit of the candidate `block` became invalid: it has `valid` now.
    #[inline]
    pub(crate) fn invalidated(&mut self, pool: u32, block: u32, valid: u32) {
        each!(self, policy => policy.invalidated(pool, block, valid));
    }
    /// The next victim of `pool`; it stays a candidate until it is removed.
    pub(crate) fn choose(&mut self, pool: u32, now: u64) -> Option<u32> {
        each!(self, policy => policy.choose(pool, now))
    }
    /// Loads what is known of `block` of `pool` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, pool: u32, block: u32) {
        each!(self, policy => policy.prefetch(pool, block));
    }
    /// Walks the candidates of `blocks` blocks of at most `units` units in `pools`, when `now` units had been written, and
    /// compares with the valid units of each of the blocks, `None` for those that are no candidates.
    pub(crate) fn validate(
        &self,
        victim: Victim,
        (pools, blocks, units): (u32, u32, u32),
        now: u64,
        closed: &dyn Fn(u32) -> Option<u32>,
    ) -> Result<(), Inconsistent> {
        let right = match (self, victim) {
            (Candidates::DChoices(policy), Victim::DChoices { d }) => policy.draws() == d,
            _ => {
                core::mem::discriminant(self) == core::mem::discriminant(&Candidates::new(victim, 1, 0, 0, 0))
            }
        };
        let shape = Shape { pools, blocks, units, now };
        ensure!(
            right && each!(self, policy => policy.is_sound(&shape)),
            "the lists of candidates do not hold together"
        );
        self.compare(blocks, closed)
    }

    /// Compares with the valid units of each of the blocks, `None` for those that are no candidates.
    fn compare(&self, blocks: u32, closed: &dyn Fn(u32) -> Option<u32>) -> Result<(), Inconsistent> {
        let mut seen = vec![false; blocks as usize];
        let mut wrong = None;
        each!(self, policy => policy.each(&mut |block, valid| {
            let expected = closed(block);
            let twice = core::mem::replace(&mut seen[block as usize], true);
            if twice || expected.is_none() || (valid.is_some() && valid != expected) {
                wrong = Some(block);
            }
        }));
        ensure!(
            wrong.is_none(),
            "candidate {wrong:?} is not closed, has other valid units, or is there twice"
        );
        let missing = (0..blocks).find(|block| seen[*block as usize] != closed(*block).is_some());
        ensure!(missing.is_none(), "block {missing:?} is closed, but no candidate");
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

    /// What a policy must know, written down plainly: (block, valid, closed at) in the order of closing.
    #[derive(Default)]
    struct Reference {
        closed: Vec<(u32, u32, u64)>,
    }

    fn allowed(victim: Victim, reference: &Reference, pool: u32, now: u64, chosen: u32) -> bool {
        let mine: Vec<_> = reference.closed.iter().filter(|(block, ..)| block % 2 == pool).collect();
        let (_, valid, at) = **mine.iter().find(|(block, ..)| *block == chosen).expect("a candidate");
        // An empty block costs nothing: its score is infinite, however old it is.
        let score =
            |valid: u32, at: u64| f64::from(UNITS - valid) * (now - at + 1) as f64 / (2.0 * f64::from(valid));
        match victim {
            Victim::Greedy => mine.iter().all(|(_, other, _)| valid <= *other),
            Victim::Fifo => mine[0].0 == chosen,
            Victim::CostBenefit => {
                mine.iter().all(|(_, v, a)| score(valid, at) >= score(*v, *a) * (1.0 - 1e-12))
            }
            Victim::Random | Victim::DChoices { .. } => true,
        }
    }

    #[test]
    fn every_policy_chooses_what_it_promises_whatever_it_was_told_before() {
        for victim in [
            Victim::Greedy,
            Victim::CostBenefit,
            Victim::Fifo,
            Victim::Random,
            Victim::DChoices { d: 1 },
            Victim::DChoices { d: 3 },
        ] {
            let mut rng = Rng::new(7);
            let mut policy = Candidates::new(victim, 2, BLOCKS, UNITS, 7);
            let mut reference = Reference::default();
            for now in 1..5_000u64 {
                let block = rng.below(u64::from(BLOCKS)) as u32;
                let position = reference.closed.iter().position(|(b, ..)| *b == block);
                match (rng.below(3), position) {
                    (0, None) => {
                        let valid = rng.below(u64::from(UNITS) + 1) as u32;
                        policy.insert(block % 2, block, valid, now);
                        reference.closed.push((block, valid, now));
                    }
                    (1, Some(at)) => {
                        policy.remove(block % 2, block, reference.closed[at].1);
                        reference.closed.remove(at);
                    }
                    (2, Some(at)) if reference.closed[at].1 > 0 => {
                        reference.closed[at].1 -= 1;
                        policy.invalidated(block % 2, block, reference.closed[at].1);
                    }
                    _ => {}
                }
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
        let refused = Victim::DChoices { d: 0 }.check().unwrap_err();
        assert_eq!(alloc::format!("{refused}"), "ftl.victim draws 0 blocks; expected at least 1");
        assert_eq!(Victim::Greedy.check(), Ok(()));
    }
}
