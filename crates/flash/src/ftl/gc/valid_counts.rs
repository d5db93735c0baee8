//! The candidates for garbage collection and the number of valid units of each: one word per block.
//!
//! When a unit becomes invalid, only this word and counters that all blocks of a pool share change; no other
//! cache line of this module is accessed. The word of a candidate is its rank: the number of valid units in
//! the high bits, and below them the complement of the number of the block's last change. Therefore, no two
//! ranks are equal, and the rank of a candidate never rises. The block with the least rank has the fewest
//! valid units. Of several such blocks, it is the one that changed last. Nothing needs the valid units of
//! blocks that are not candidates, so they are counted when a block becomes a candidate, and not at each
//! program.

use crate::ftl::divisor::Divisor;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Words of a group. A pool has a whole number of groups.
pub(super) const GROUP: usize = 64;
/// Bits of a rank for the change number; the bits above are for valid units. After 2^39 changes (2 PiB in units of 4
/// KiB) the change number wraps around, and blocks with equal valid units may compare in another order.
const CHANGE_BITS: u32 = 39;
const CHANGES: u64 = (1 << CHANGE_BITS) - 1;
/// One valid unit in a rank.
const ONE_UNIT: u64 = 1 << CHANGE_BITS;
/// The word of a block that is not a candidate; every rank is less.
pub(super) const NOT_A_CANDIDATE: u64 = 1 << 63;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ValidCounts {
    pools: Divisor,
    blocks: u32,
    /// Number of units of a block.
    units: u32,
    /// Number of words per pool.
    stride: usize,
    /// The words of all blocks, by pool and in block order within each pool.
    words: Vec<u64>,
    changes: u64,
    /// Invalid units in the candidates of each pool.
    invalid_units: Vec<u64>,
}

impl ValidCounts {
    /// Creates the counts of `blocks` blocks, none of which is a candidate; block b is in pool b % `pools`.
    pub(super) fn new(pools: u32, blocks: u32, units: u32) -> Self {
        let stride = (blocks.div_ceil(pools) as usize).next_multiple_of(GROUP);
        ValidCounts {
            pools: Divisor::new(pools),
            blocks,
            units,
            stride,
            words: vec![NOT_A_CANDIDATE; pools as usize * stride],
            changes: 0,
            invalid_units: vec![0; pools as usize],
        }
    }

    /// Returns the position of a block's word, and the block's pool.
    #[inline]
    fn place(&self, block: u32) -> (usize, usize) {
        let (index, pool) = self.pools.split(block);
        (pool as usize * self.stride + index as usize, pool as usize)
    }
    /// Returns the position of a block's word.
    #[inline]
    pub(super) fn place_of(&self, block: u32) -> usize {
        self.place(block).0
    }
    /// Returns the positions of a pool's words.
    pub(super) fn places_of(&self, pool: u32) -> Range<usize> {
        let first = pool as usize * self.stride;
        first..first + self.stride
    }
    /// Returns the block whose word is at a position.
    pub(super) fn block_at(&self, place: usize) -> u32 {
        (place % self.stride) as u32 * self.invalid_units.len() as u32 + (place / self.stride) as u32
    }
    #[inline]
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }
    pub(super) fn pool_count(&self) -> u32 {
        self.invalid_units.len() as u32
    }
    pub(super) fn block_count(&self) -> u32 {
        self.blocks
    }
    /// Returns the number of units of a block.
    pub(super) fn units(&self) -> u32 {
        self.units
    }

    /// Returns the number of valid units of a candidate.
    #[inline]
    pub(super) fn valid(&self, block: u32) -> u32 {
        (self.words[self.place_of(block)] >> CHANGE_BITS) as u32
    }
    pub(super) fn is_candidate(&self, block: u32) -> bool {
        self.words[self.place_of(block)] != NOT_A_CANDIDATE
    }
    /// Returns true if `blocks` yields every candidate exactly once and no other block.
    pub(super) fn are_all_candidates(&self, blocks: impl Iterator<Item = u32>) -> bool {
        let mut seen = vec![false; self.words.len()];
        let once = |block: u32| {
            let is_one = block < self.blocks && self.is_candidate(block);
            is_one && !core::mem::replace(&mut seen[self.place_of(block)], true)
        };
        let mut blocks = blocks;
        blocks.by_ref().all(once)
            && seen.iter().zip(&self.words).all(|(seen, word)| *seen == (*word != NOT_A_CANDIDATE))
    }
    /// Returns the number of invalid units in the candidates of a pool.
    pub(super) fn invalid_units(&self, pool: u32) -> u64 {
        self.invalid_units[pool as usize]
    }

    /// Counts `units` units of a block as invalid, in one change. Returns the position and the new rank if the block is
    /// a candidate.
    #[inline]
    pub(super) fn invalidate(&mut self, block: u32, units: u32) -> Option<(usize, u64)> {
        let (place, pool) = self.place(block);
        let word = &mut self.words[place];
        if *word == NOT_A_CANDIDATE {
            return None;
        }
        self.changes += 1;
        *word = latest(*word - u64::from(units) * ONE_UNIT, self.changes);
        self.invalid_units[pool] += u64::from(units);
        Some((place, *word))
    }

    /// Makes a block with `valid` valid units a candidate.
    pub(super) fn insert(&mut self, block: u32, valid: u32) {
        let (place, pool) = self.place(block);
        self.changes += 1;
        self.words[place] = latest(u64::from(valid) * ONE_UNIT, self.changes);
        self.invalid_units[pool] += u64::from(self.units - valid);
    }
    /// Removes a block from the candidates.
    pub(super) fn remove(&mut self, block: u32) {
        let (place, pool) = self.place(block);
        self.invalid_units[pool] -= u64::from(self.units - self.valid(block));
        self.words[place] = NOT_A_CANDIDATE;
    }

    /// Returns true if the counts are for these numbers of pools, blocks and units, and all words are possible.
    pub(super) fn is_sound(&self, pools: u32, blocks: u32, units: u32) -> bool {
        let new = ValidCounts::new(pools, blocks, units);
        let shape = |counts: &ValidCounts| (counts.pools, counts.blocks, counts.units, counts.stride);
        let lengths = |counts: &ValidCounts| (counts.words.len(), counts.invalid_units.len());
        if shape(self) != shape(&new) || lengths(self) != lengths(&new) || self.changes >= 1 << 62 {
            return false;
        }
        let mut invalid_units = vec![0; pools as usize];
        for (place, word) in self.words.iter().enumerate() {
            if *word == NOT_A_CANDIDATE {
                continue;
            }
            let valid = word >> CHANGE_BITS;
            let possible = self.block_at(place) < blocks && CHANGES - (word & CHANGES) <= self.changes;
            if valid > units.into() || !possible {
                return false;
            }
            invalid_units[place / self.stride] += u64::from(units) - valid;
        }
        invalid_units == self.invalid_units
    }
}

/// Returns the rank of a candidate whose last change is the change number `changes`.
#[inline]
fn latest(rank: u64, changes: u64) -> u64 {
    rank >> CHANGE_BITS << CHANGE_BITS | !changes & CHANGES
}
