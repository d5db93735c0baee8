//! The victim that the layer collects ahead of need, in steps: while the card is idle, or before writes.
//!
//! Granules remain only in a victim, which is a closed block. A victim without remaining granules is done.

use crate::nand::EraseBlock;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The victim and the granules that are left in it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct IdleVictim {
    /// The last victim, even if it is done.
    pub(super) victim: Option<EraseBlock>,
    /// Granules still to be moved out of the victim; some of them may have become invalid.
    pub(super) remaining: Vec<u32>,
}

impl IdleVictim {
    /// Returns the victim, unless it is done.
    pub(super) fn current(&self) -> Option<EraseBlock> {
        if self.remaining.is_empty() { None } else { self.victim }
    }

    /// Selects `victim`, whose valid granules are `granules`.
    pub(super) fn select(&mut self, victim: EraseBlock, granules: Vec<u32>) {
        (self.victim, self.remaining) = (Some(victim), granules);
    }

    /// Stops the collection of the victim, which may be selected again.
    pub(super) fn abandon(&mut self) {
        self.remaining.clear();
    }

    /// Notes that `block` is free.
    pub(super) fn released(&mut self, block: EraseBlock) {
        if self.victim == Some(block) {
            self.remaining.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_is_done_without_remaining_granules_and_once_its_block_is_free() {
        let (victim, other) = (EraseBlock::new(3), EraseBlock::new(4));
        let mut idle_victim = IdleVictim::default();
        assert_eq!(idle_victim.current(), None);
        idle_victim.select(victim, Vec::from([7]));
        idle_victim.released(other);
        assert_eq!(idle_victim.current(), Some(victim));
        idle_victim.remaining.pop();
        assert_eq!(idle_victim.current(), None);
        idle_victim.select(victim, Vec::from([7]));
        idle_victim.released(victim);
        assert_eq!(idle_victim.current(), None);
    }
}
