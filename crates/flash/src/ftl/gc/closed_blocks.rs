//! A set of blocks per pool, with random draws and removals in constant time.

use super::valid_counts::ValidCounts;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::Rng;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ClosedBlocks {
    pools: Vec<Vec<u32>>,
    /// Position of each block in its pool.
    positions: Vec<u32>,
}

impl ClosedBlocks {
    pub(super) fn new(counts: &ValidCounts) -> Self {
        let (pools, blocks) = (counts.pool_count(), counts.block_count());
        let room = blocks.div_ceil(pools) as usize;
        ClosedBlocks {
            pools: (0..pools).map(|_| Vec::with_capacity(room)).collect(),
            positions: vec![0; blocks as usize],
        }
    }
    pub(super) fn insert(&mut self, pool: u32, block: u32) {
        let members = &mut self.pools[pool as usize];
        self.positions[block as usize] = members.len() as u32;
        members.push(block);
    }
    /// Removes a member; the last member takes its position.
    pub(super) fn remove(&mut self, pool: u32, block: u32) {
        let members = &mut self.pools[pool as usize];
        let position = self.positions[block as usize] as usize;
        debug_assert_eq!(members[position], block, "block {block} is not a member");
        members.swap_remove(position);
        if let Some(moved) = members.get(position) {
            self.positions[*moved as usize] = position as u32;
        }
    }
    /// Returns true if the members of each pool are its candidates, and their recorded positions are right.
    pub(super) fn is_sound(&self, counts: &ValidCounts) -> bool {
        let stands = |(pool, members): (usize, &Vec<u32>)| {
            let stands = |(position, block): (usize, &u32)| {
                *block as usize % self.pools.len() == pool
                    && self.positions.get(*block as usize) == Some(&(position as u32))
            };
            members.iter().enumerate().all(stands)
        };
        self.pools.len() == counts.pool_count() as usize
            && self.positions.len() == counts.block_count() as usize
            && self.pools.iter().enumerate().all(stands)
            && counts.are_all_candidates(self.pools.iter().flatten().copied())
    }
    pub(super) fn members(&self, pool: u32) -> &[u32] {
        &self.pools[pool as usize]
    }
    /// Returns a random member; all members are equally likely.
    pub(super) fn draw(&self, pool: u32, rng: &mut Rng) -> Option<u32> {
        let members = self.members(pool);
        (!members.is_empty()).then(|| members[rng.below(members.len() as u64) as usize])
    }
}
