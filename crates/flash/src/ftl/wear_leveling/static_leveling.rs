//! Static leveling: dynamic, and data is moved out of little worn blocks into much worn ones.
//!
//! Moving begins when the most worn free block has been erased `threshold` times more often than the least worn used
//! one. The least worn used block's data goes to the most worn free block, where it is expected to stay; the young block
//! becomes free. It ends when the difference is below `relief`: with `relief` = `threshold` after a move or two, with a
//! smaller one after most of the free blocks have been exchanged (a burst).
//!
//! Data moves only if it is cold: it has stayed while as many blocks were taken as the pool has, each of them once in the
//! mean. The young block goes to the next data that is written, and is the least worn used one again; were that data moved
//! as well, it would be rewritten where it is expected to stay, the most worn block would be the first to wear on, and
//! moving would not end.
//!
//! # Guarantee
//! If the layer above moves what [`Leveling::relocate`] names until it names nothing before it takes the next block,
//! and erases one block for each that it takes, then the erase counts of a pool never differ by more than
//! `threshold` + 1, whatever is written. For that, a block that is so worn stays free until the least worn one has been
//! erased again, and as soon as fewer than two other blocks are free, the least worn blocks are moved round in turn
//! until that has happened, cold or not. (A workload must seek out the data that leveling has moved for it to come so
//! far.) What the layer above says cannot be moved is not bound by this.

use super::{DynamicLeveling, Leveling};
use crate::nand::EraseBlock;
use alloc::collections::BTreeMap;
use serde::{Deserialize, Serialize};

/// Free blocks and used blocks in order of their erase counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StaticLeveling {
    threshold: u32,
    relief: u32,
    free: DynamicLeveling,
    /// With each used one, how many blocks of the pool had been taken before it.
    used: BTreeMap<(u32, EraseBlock), u64>,
    /// Blocks taken so far.
    taken: u64,
    /// Moving has begun and not ended.
    moving: bool,
}

impl StaticLeveling {
    /// Without blocks.
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

    /// Whether it has these numbers, and holds free blocks and all `count` used ones with their counts.
    pub(in crate::ftl) fn is_sound(
        &self,
        numbers: (u32, u32),
        free: &dyn Fn(EraseBlock) -> Option<u32>,
        used: &dyn Fn(EraseBlock) -> Option<u32>,
        count: usize,
    ) -> bool {
        let known = |((erases, block), since): (&(u32, EraseBlock), &u64)| {
            used(*block) == Some(*erases) && *since < self.taken
        };
        (self.threshold, self.relief) == numbers
            && self.free.is_sound(free)
            && self.used.len() == count
            && self.used.iter().all(known)
            && self.taken < 1 << 60
    }

    /// The count above which a free block must not be used.
    fn ceiling(&self) -> u32 {
        let used = self.least_used();
        let least = used.into_iter().chain(self.free.least()).min();
        least.unwrap_or_default().saturating_add(self.threshold)
    }

    /// How much more worn the most worn free block is than the least worn used one.
    fn gap(&self) -> u32 {
        match (self.free.most(), self.least_used()) {
            (Some(most), Some(least)) => most.saturating_sub(least),
            _ => 0,
        }
    }

    /// Erase count of the least worn used block.
    fn least_used(&self) -> Option<u32> {
        self.used.first_key_value().map(|((erases, _), _)| *erases)
    }

    /// Whether the data of a block that was taken after `since` others has stayed while as many were taken as the pool has.
    fn is_cold(&self, since: u64) -> bool {
        self.taken - since > self.used.len() as u64 + u64::from(self.free.free_count())
    }

    /// Follows a change of `free` or `used`.
    fn changed(&mut self) {
        let gap = self.gap();
        self.moving = gap >= if self.moving { self.relief } else { self.threshold };
    }

    /// Whether the least worn used blocks must move round: too few free blocks may be used. One alone is not enough where
    /// what is freed next is above the ceiling.
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
