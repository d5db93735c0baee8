//! Dynamic wear leveling: the least worn free block is used first. Of equally worn blocks, the block that has
//! been free longest is used first.
//!
//! Wear spreads over the blocks that become free. A block whose data is never rewritten, and never moved by
//! garbage collection, is never erased. If a share c of the data is of this kind, and the data fills a share
//! rho of the raw blocks in service, the device lives for 1 - c rho of its possible life.

use super::{Leveling, Policy, PoolBlocks};
use crate::nand::EraseBlock;
use alloc::collections::BTreeSet;
use serde::{Deserialize, Serialize};

/// Free blocks in order of their erase counts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct DynamicLeveling {
    /// Erase count, number of releases before this one, and block.
    free: BTreeSet<(u32, u64, EraseBlock)>,
    freed: u64,
}

impl DynamicLeveling {
    /// Creates a policy without blocks.
    pub fn new() -> Self {
        DynamicLeveling::default()
    }
    /// Returns the erase count of the least worn free block.
    pub(super) fn least(&self) -> Option<u32> {
        self.free.first().map(|(erases, ..)| *erases)
    }
    /// Returns the erase count of the second least worn free block.
    pub(super) fn second(&self) -> Option<u32> {
        self.free.iter().nth(1).map(|(erases, ..)| *erases)
    }
    /// Returns the erase count of the most worn free block.
    pub(super) fn most(&self) -> Option<u32> {
        self.free.last().map(|(erases, ..)| *erases)
    }
    /// Allocates the most worn free block that was erased at most `most` times.
    pub(super) fn take_most(&mut self, most: u32) -> Option<EraseBlock> {
        let entry = *self.free.range(..=(most, u64::MAX, EraseBlock::new(0))).next_back()?;
        self.free.remove(&entry);
        Some(entry.2)
    }
}

impl Policy for DynamicLeveling {
    /// Returns true if all entries are free blocks with their erase counts.
    fn is_sound(&self, blocks: &dyn PoolBlocks) -> bool {
        let known = |(erases, freed, block): &(u32, u64, EraseBlock)| {
            blocks.free(*block) == Some(*erases) && *freed < self.freed
        };
        self.freed < 1 << 60 && self.free.iter().all(known)
    }
}

impl Leveling for DynamicLeveling {
    fn freed(&mut self, block: EraseBlock, erases: u32) {
        self.free.insert((erases, self.freed, block));
        self.freed += 1;
    }
    fn withdrawn(&mut self, block: EraseBlock, _: u32) {
        self.free.retain(|(_, _, free)| *free != block);
    }
    fn take(&mut self) -> Option<EraseBlock> {
        self.free.pop_first().map(|(_, _, block)| block)
    }
    fn free_count(&self) -> u32 {
        self.free.len() as u32
    }
}
