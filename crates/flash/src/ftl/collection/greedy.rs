//! The block with the fewest valid units, and of several the one that changed last.
//!
//! A block's rank says both: its valid units, and below them how few changes there have been since its own. A rank only
//! falls as long as the block is a candidate, so that the least rank of each group of blocks follows a change by one
//! comparison, and a victim is found among the groups. A unit that becomes invalid touches one line of memory here; lists
//! by the number of valid units would touch the block's neighbours, and the heads, too.

use super::{Policy, Shape};
use crate::stride::Stride;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Blocks of a group: as many groups as blocks of a group are looked through in a pool of 4,096.
const GROUP: usize = 64;
/// The rank of what is no candidate.
const NONE: u64 = u64::MAX;
/// Bits of a rank for changes; those above are for valid units. Beyond 2^40 changes, 4 PiB in units of 4 KiB, the choice
/// among equals is another one.
const CHANGE_BITS: u32 = 40;
const CHANGES: u64 = (1 << CHANGE_BITS) - 1;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Greedy {
    pools: Stride,
    /// Whole groups of a pool.
    groups: usize,
    /// By pool, and the blocks of each in order.
    ranks: Vec<u64>,
    /// Of each group.
    least: Vec<u64>,
    changes: u64,
}

/// The place of the least of some ranks, and that.
fn least_of(ranks: &[u64]) -> (usize, u64) {
    let least = ranks.iter().fold(NONE, |least, rank| least.min(*rank));
    (ranks.iter().position(|rank| *rank == least).unwrap_or(0), least)
}

impl Greedy {
    pub(super) fn new(pools: u32, blocks: u32) -> Self {
        let groups = blocks.div_ceil(pools).div_ceil(GROUP as u32) as usize;
        Greedy {
            pools: Stride::new(pools.into()),
            groups,
            ranks: vec![NONE; pools as usize * groups * GROUP],
            least: vec![NONE; pools as usize * groups],
            changes: 0,
        }
    }

    #[inline]
    fn place(&self, pool: u32, block: u32) -> usize {
        pool as usize * self.groups * GROUP + self.pools.index(block.into()) as usize
    }

    #[inline]
    fn change(&mut self, pool: u32, block: u32, valid: u32) {
        self.changes += 1;
        let rank = u64::from(valid) << CHANGE_BITS | (CHANGES - (self.changes & CHANGES));
        let place = self.place(pool, block);
        self.ranks[place] = rank;
        let least = &mut self.least[place / GROUP];
        *least = (*least).min(rank);
    }
}

impl Policy for Greedy {
    fn insert(&mut self, pool: u32, block: u32, valid: u32, _now: u64) {
        self.change(pool, block, valid);
    }
    fn remove(&mut self, pool: u32, block: u32, _valid: u32) {
        let place = self.place(pool, block);
        self.ranks[place] = NONE;
        let first = place - place % GROUP;
        self.least[place / GROUP] = least_of(&self.ranks[first..first + GROUP]).1;
    }
    #[inline]
    fn invalidated(&mut self, pool: u32, block: u32, valid: u32) {
        self.change(pool, block, valid);
    }
    fn choose(&mut self, pool: u32, _now: u64) -> Option<u32> {
        let first = pool as usize * self.groups;
        let (group, least) = least_of(&self.least[first..first + self.groups]);
        if least == NONE {
            return None;
        }
        let (within, _) = least_of(&self.ranks[(first + group) * GROUP..][..GROUP]);
        Some((group * GROUP + within) as u32 * self.pools.bytes() as u32 + pool)
    }
    #[inline]
    fn prefetch(&self, pool: u32, block: u32) {
        flashlab_sim::prefetch(&self.ranks, self.place(pool, block));
    }
    fn is_sound(&self, shape: &Shape) -> bool {
        let Greedy { pools, groups, ranks, least, changes } = self;
        let new = Greedy::new(shape.pools, shape.blocks);
        let sizes = (*pools, *groups, ranks.len(), least.len());
        if sizes != (new.pools, new.groups, new.ranks.len(), new.least.len()) {
            return false;
        }
        let places = groups * GROUP;
        ranks.chunks(GROUP).zip(least).all(|(ranks, least)| least_of(ranks).1 == *least)
            && ranks.iter().enumerate().filter(|(_, rank)| **rank != NONE).all(|(place, rank)| {
                let block = (place % places) as u64 * pools.bytes() + (place / places) as u64;
                block < shape.blocks.into()
                    && (rank >> CHANGE_BITS) as u32 <= shape.units
                    && CHANGES - (rank & CHANGES) <= *changes
            })
            && *changes < 1 << 62
    }
    fn each(&self, to: &mut dyn FnMut(u32, Option<u32>)) {
        let places = self.groups * GROUP;
        for (place, rank) in self.ranks.iter().enumerate().filter(|(_, rank)| **rank != NONE) {
            let block = (place % places) * self.pools.bytes() as usize + place / places;
            to(block as u32, Some((rank >> CHANGE_BITS) as u32));
        }
    }
}
