//! Static wear leveling: dynamic leveling that also moves data out of lightly worn blocks into heavily worn ones.
//!
//! Moving begins when the most worn free block has been erased `threshold` times more often than the least worn used
//! block. The data of the least worn used block moves to the most worn free block, where it is expected to stay, and
//! the lightly worn block becomes free. Moving ends when the difference is below `relief`. If `relief` equals
//! `threshold`, moving ends after a move or two; if `relief` is smaller, it ends after most of the free blocks have
//! been exchanged (a burst).
//!
//! Only cold data moves: data that has stayed in place while as many blocks were allocated as the pool has,
//! so that each block was allocated once on average. The lightly worn block goes to the next data that is
//! written, and is the least worn used block again. If that data moved too, it would soon be rewritten,
//! although data in the most worn block is expected to stay. The most worn block would wear out first, and
//! moving would not end.
//!
//! # Guarantee
//! The erase counts of a pool never differ by more than `threshold` + 1, whatever the workload. This holds
//! under two conditions on the translation layer. Before each allocation, the layer moves the data that
//! [`Leveling::relocate`] names until the policy names none. The layer erases one block per allocation. To
//! keep this guarantee, a block at the limit stays free until the least worn block has been erased again. As
//! soon as fewer than two other blocks are free, the data of the least worn blocks moves in turn, cold or
//! not, until the least worn block has been erased. (These moves occur only if a workload specifically
//! rewrites the data that leveling has moved.) The guarantee does not cover blocks that the translation layer
//! declares immovable.
//!
//! # Cards
//! The layers of [`crate::ftl::card`] level after a request instead of before each allocation: the
//! log-structured layer after each write, the layer with log blocks after a write that has merged. They move
//! the data of one block per pool, and more only while [`Leveling::must_relocate`] holds. This limits the
//! time that leveling adds to one request. Moving does not end with that block: `moving` stays set, and the
//! next such request moves the next block. Cards therefore do not meet the first condition above, and the
//! guarantee does not cover them.

use super::{DynamicLeveling, Leveling, Policy, PoolBlocks};
use crate::Impossible;
use crate::ftl::Wear;
use crate::nand::EraseBlock;
use alloc::collections::BTreeMap;
use alloc::format;
use serde::{Deserialize, Serialize};

/// Free blocks and used blocks in order of their erase counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StaticLeveling {
    /// Difference of the erase counts of the most worn free block and the least worn used block at which moving begins.
    threshold: u32,
    /// Difference below which moving ends. With `relief` equal to `threshold`, no more data moves than necessary.
    relief: u32,
    free: DynamicLeveling,
    /// Used blocks by erase count, each with the number of allocations in the pool before its own.
    used: BTreeMap<(u32, EraseBlock), u64>,
    /// Number of allocations so far.
    taken: u64,
    /// True from the beginning to the end of moving.
    moving: bool,
}

impl StaticLeveling {
    /// Creates a policy without blocks.
    pub fn new(threshold: u32, relief: u32) -> Self {
        StaticLeveling {
            threshold,
            relief,
            free: DynamicLeveling::default(),
            used: BTreeMap::new(),
            taken: 0,
            moving: false,
        }
    }

    pub(super) fn threshold(&self) -> u32 {
        self.threshold
    }
    pub(super) fn relief(&self) -> u32 {
        self.relief
    }

    /// Returns the erase count above which a free block must not be used.
    fn ceiling(&self) -> u32 {
        let used = self.least_used();
        let least = used.into_iter().chain(self.free.least()).min();
        least.unwrap_or_default().saturating_add(self.threshold)
    }

    /// Returns the difference of the erase counts of the most worn free block and the least worn used block.
    fn gap(&self) -> u32 {
        match (self.free.most(), self.least_used()) {
            (Some(most), Some(least)) => most.saturating_sub(least),
            _ => 0,
        }
    }

    /// Returns the erase count of the least worn used block.
    fn least_used(&self) -> Option<u32> {
        self.used.first_key_value().map(|((erases, _), _)| *erases)
    }

    /// Returns true if the data of a block is cold: the block was allocated after `since` others, and since then as
    /// many allocations have followed as the pool has blocks.
    fn is_cold(&self, since: u64) -> bool {
        self.taken - since > self.used.len() as u64 + u64::from(self.free.free_count())
    }

    /// Updates `moving` after a change of `free` or `used`.
    fn changed(&mut self) {
        let gap = self.gap();
        self.moving = gap >= if self.moving { self.relief } else { self.threshold };
    }

    /// Returns true if the data of the least worn used blocks must move because too few free blocks may be used. A
    /// single free block is not enough if the next block to become free is above the ceiling.
    fn is_pressed(&self) -> bool {
        let (Some(least), Some(((most, _), _))) = (self.least_used(), self.used.last_key_value()) else {
            return false;
        };
        let ceiling = self.ceiling();
        let last =
            if self.free.free_count() == 1 { self.free.least().max(Some(*most)) } else { self.free.second() };
        last.is_some_and(|erases| erases > ceiling) && self.free.least().is_some_and(|free| least <= free)
    }
}

/// Returns the threshold and the relief of a profile. Without a threshold, moving begins at a difference of 64.
pub(super) fn parameters(wear: &Wear) -> (u32, u32) {
    let threshold = wear.threshold.unwrap_or(64);
    (threshold, wear.relief.unwrap_or(threshold))
}

/// Checks that the parameters are possible.
pub(super) fn check(threshold: u32, relief: u32) -> Result<(), Impossible> {
    if threshold == 0 {
        return Err(Impossible::new(
            "wear.threshold",
            "is 0; moving data erases a block, so counts cannot all be equal: expected at least 1",
        ));
    }
    if relief == 0 || relief > threshold {
        return Err(Impossible::new(
            "wear.relief",
            format!("is {relief}; expected 1 to the threshold, {threshold}"),
        ));
    }
    Ok(())
}

impl Policy for StaticLeveling {
    const MOVES_DATA: bool = true;
    /// Returns true if the policy holds free blocks and all used blocks with their erase counts.
    fn is_sound(&self, blocks: &dyn PoolBlocks) -> bool {
        let known = |((erases, block), since): (&(u32, EraseBlock), &u64)| {
            blocks.used(*block) == Some(*erases) && *since < self.taken
        };
        self.free.is_sound(blocks)
            && self.used.len() == blocks.used_count()
            && self.used.iter().all(known)
            && self.taken < 1 << 60
    }
}

impl Leveling for StaticLeveling {
    fn freed(&mut self, block: EraseBlock, erases: u32) {
        self.free.freed(block, erases);
        self.changed();
    }
    fn used(&mut self, block: EraseBlock, erases: u32) {
        self.used.insert((erases, block), self.taken);
        self.taken += 1;
        self.changed();
    }
    fn unused(&mut self, block: EraseBlock, erases: u32) {
        self.used.remove(&(erases, block));
        self.changed();
    }
    fn withdrawn(&mut self, block: EraseBlock, erases: u32) {
        self.free.withdrawn(block, erases);
        self.changed();
    }
    fn take(&mut self) -> Option<EraseBlock> {
        self.free.take()
    }
    fn take_worn(&mut self) -> Option<EraseBlock> {
        let ceiling = self.ceiling();
        self.free.take_most(ceiling).or_else(|| self.free.take())
    }
    fn relocate(&self, movable: &dyn Fn(EraseBlock) -> bool) -> Option<EraseBlock> {
        if self.free.free_count() == 0 || !(self.moving || self.is_pressed()) {
            return None;
        }
        let pressed = self.is_pressed();
        let most = self.free.most().unwrap_or_default();
        let least = self.least_used().unwrap_or_default();
        let must = |erases: u32| pressed && erases == least;
        let worth = |erases: u32| must(erases) || most.saturating_sub(erases) >= self.relief;
        let mut candidates = self.used.iter().take_while(|((erases, _), _)| worth(*erases));
        let moves = |((erases, block), since): &(&(u32, EraseBlock), &u64)| {
            (must(*erases) || self.is_cold(**since)) && movable(*block)
        };
        candidates.find(moves).map(|((_, block), _)| *block)
    }
    fn must_relocate(&self) -> bool {
        self.is_pressed()
    }
    fn free_count(&self) -> u32 {
        self.free.free_count()
    }
}
