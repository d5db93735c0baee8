//! No wear leveling: the block that was freed last is used first.
//!
//! Repeated writes to one address wear only the blocks that hold this address and one more block, which these
//! blocks share.

use super::{Leveling, Policy, PoolBlocks};
use crate::nand::EraseBlock;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A stack of free blocks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NoLeveling {
    free: Vec<EraseBlock>,
}

impl NoLeveling {
    /// Creates a policy without blocks.
    pub fn new() -> Self {
        NoLeveling::default()
    }
}

impl Policy for NoLeveling {
    const COMPARES_WEAR: bool = false;
    fn is_sound(&self, blocks: &dyn PoolBlocks) -> bool {
        self.free.iter().all(|block| blocks.free(*block).is_some())
    }
}

impl Leveling for NoLeveling {
    fn freed(&mut self, block: EraseBlock, _: u32) {
        self.free.push(block);
    }
    fn withdrawn(&mut self, block: EraseBlock, _: u32) {
        self.free.retain(|free| *free != block);
    }
    fn take(&mut self) -> Option<EraseBlock> {
        self.free.pop()
    }
    fn free_count(&self) -> u32 {
        self.free.len() as u32
    }
}
