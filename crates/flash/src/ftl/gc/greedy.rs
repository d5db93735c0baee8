//! Greedy victim selection: the block with the fewest valid units. Of several such blocks, the one that changed last is
//! chosen. This is the block with the least rank.
//!
//! The rank of a candidate never rises. A change therefore updates the least rank of its group of blocks by one
//! comparison, and the selection compares only the groups. Lists by the number of valid units would access the block's
//! neighbours and the list heads for every unit that becomes invalid.

use super::Policy;
use super::valid_counts::{GROUP, NOT_A_CANDIDATE, ValidCounts};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greedy {
    /// The least rank of each group, or [`NOT_A_CANDIDATE`].
    least: Vec<u64>,
}

/// Returns the position and the value of the least of `ranks`.
fn least_of(ranks: &[u64]) -> (usize, u64) {
    let least = ranks.iter().fold(u64::MAX, |least, rank| least.min(*rank));
    (ranks.iter().position(|rank| *rank == least).unwrap_or(0), least.min(NOT_A_CANDIDATE))
}

impl Greedy {
    pub(super) fn new(counts: &ValidCounts, _seed: u64) -> Self {
        Greedy { least: vec![NOT_A_CANDIDATE; counts.words().len() / GROUP] }
    }
}

impl Policy for Greedy {
    /// Updates the group's least rank.
    #[inline(always)]
    fn fell(&mut self, place: usize, rank: u64) {
        let least = &mut self.least[place / GROUP];
        *least = (*least).min(rank);
    }
    fn insert(&mut self, counts: &ValidCounts, _pool: u32, block: u32, _now: u64) {
        let place = counts.place_of(block);
        self.fell(place, counts.words()[place]);
    }
    fn remove(&mut self, counts: &ValidCounts, _pool: u32, block: u32) {
        let group = counts.place_of(block) / GROUP;
        self.least[group] = least_of(&counts.words()[group * GROUP..][..GROUP]).1;
    }
    fn choose(&mut self, counts: &ValidCounts, pool: u32, _now: u64) -> Option<u32> {
        let places = counts.places_of(pool);
        let first = places.start / GROUP;
        let (group, least) = least_of(&self.least[first..places.end / GROUP]);
        if least == NOT_A_CANDIDATE {
            return None;
        }
        let place = (first + group) * GROUP;
        let (within, _) = least_of(&counts.words()[place..][..GROUP]);
        Some(counts.block_at(place + within))
    }
    fn is_sound(&self, counts: &ValidCounts, _now: u64) -> bool {
        let groups = counts.words().chunks(GROUP).map(|ranks| least_of(ranks).1);
        groups.eq(self.least.iter().copied())
    }
}
