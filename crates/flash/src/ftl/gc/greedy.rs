//! The block with the fewest valid units, and of several the one that changed last: the one of the least rank.
//!
//! A rank only falls as long as the block is a candidate, so that the least rank of each group of blocks follows a change
//! by one comparison, and a victim is found among the groups. Lists by the number of valid units would touch a block's
//! neighbours, and the heads, for every unit that becomes invalid.

use super::Policy;
use super::tally::{GROUP, OTHER, Tally};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greedy {
    /// The least rank of each group, or [`OTHER`].
    least: Vec<u64>,
}

/// The place of the least of some ranks, and that.
fn least_of(ranks: &[u64]) -> (usize, u64) {
    let least = ranks.iter().fold(u64::MAX, |least, rank| least.min(*rank));
    (ranks.iter().position(|rank| *rank == least).unwrap_or(0), least.min(OTHER))
}

impl Greedy {
    pub(super) fn new(tally: &Tally) -> Self {
        Greedy { least: vec![OTHER; tally.words().len() / GROUP] }
    }
    /// The rank at `place` has fallen.
    #[inline]
    pub(super) fn fell(&mut self, place: usize, rank: u64) {
        let least = &mut self.least[place / GROUP];
        *least = (*least).min(rank);
    }
}

impl Policy for Greedy {
    fn insert(&mut self, tally: &Tally, _pool: u32, block: u32, _now: u64) {
        let place = tally.place_of(block);
        self.fell(place, tally.words()[place]);
    }
    fn remove(&mut self, tally: &Tally, _pool: u32, block: u32) {
        let group = tally.place_of(block) / GROUP;
        self.least[group] = least_of(&tally.words()[group * GROUP..][..GROUP]).1;
    }
    fn choose(&mut self, tally: &Tally, pool: u32, _now: u64) -> Option<u32> {
        let places = tally.places_of(pool);
        let first = places.start / GROUP;
        let (group, least) = least_of(&self.least[first..places.end / GROUP]);
        if least == OTHER {
            return None;
        }
        let place = (first + group) * GROUP;
        let (within, _) = least_of(&tally.words()[place..][..GROUP]);
        Some(tally.block_at(place + within))
    }
    fn is_sound(&self, tally: &Tally, _now: u64) -> bool {
        let groups = tally.words().chunks(GROUP).map(|ranks| least_of(ranks).1);
        groups.eq(self.least.iter().copied())
    }
}
