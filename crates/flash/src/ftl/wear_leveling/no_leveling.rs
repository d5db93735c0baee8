//! No leveling: the block that was freed last is used first.
//!
//! Writes to one place wear as many blocks as hold it, and one more that they share.

use super::Leveling;
use crate::nand::EraseBlock;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// A stack of free blocks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct NoLeveling {
    free: Vec<EraseBlock>,
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
