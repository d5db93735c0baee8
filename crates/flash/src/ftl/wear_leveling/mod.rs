//! Wear leveling: the choice of the free erase block to write next, and of the data to move so that wear spreads.
//!
//! A policy manages the blocks of one pool. It selects *free* blocks ([`Leveling::take`], [`Leveling::take_worn`]) and
//! names a *used* block whose data should move ([`Leveling::relocate`]). The translation layer moves the data and
//! reports the blocks that become free. One file per policy: [`NoLeveling`], [`DynamicLeveling`], [`StaticLeveling`].

mod dynamic_leveling;
mod no_leveling;
mod static_leveling;

pub use dynamic_leveling::DynamicLeveling;
pub use no_leveling::NoLeveling;
pub use static_leveling::StaticLeveling;

use crate::Impossible;
use crate::nand::EraseBlock;
use serde::{Deserialize, Serialize};

/// A wear leveling policy for the blocks of one pool. `erases` is always the block's erase count at that moment.
pub trait Leveling {
    /// Adds `block` to the free blocks.
    fn freed(&mut self, block: EraseBlock, erases: u32);
    /// Records that `block`, which was allocated, holds data from now on. `erases` may be one more than when the block
    /// was free.
    fn used(&mut self, _block: EraseBlock, _erases: u32) {}
    /// Records that `block`, which was used, holds no data any more. The block will be freed or retired.
    fn unused(&mut self, _block: EraseBlock, _erases: u32) {}
    /// Removes `block`, which was free and is now retired.
    fn withdrawn(&mut self, block: EraseBlock, erases: u32);
    /// Allocates the free block for new data.
    fn take(&mut self) -> Option<EraseBlock>;
    /// Allocates the free block for data that wear leveling moves. This data is expected to stay in place.
    fn take_worn(&mut self) -> Option<EraseBlock> {
        self.take()
    }
    /// Returns the used block whose data should move to the block that [`Leveling::take_worn`] would return, if there
    /// is one and `movable` allows it.
    fn relocate(&self, _movable: &dyn Fn(EraseBlock) -> bool) -> Option<EraseBlock> {
        None
    }
    /// Returns true if the policy's guarantee breaks unless data is moved before the next allocation.
    fn must_relocate(&self) -> bool {
        false
    }
    /// Returns the number of free blocks.
    fn free_count(&self) -> u32;
}

/// A leveling policy as a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum LevelingPolicy {
    /// The block that was freed last is used first.
    #[default]
    None,
    /// The least worn free block is used first. A block whose data is never rewritten does not wear.
    Dynamic,
    /// Dynamic leveling that also moves data out of little worn blocks.
    Static {
        /// Difference of the erase counts of the most worn free block and the least worn used block at which moving
        /// begins.
        threshold: u32,
        /// Difference below which moving ends. With `relief` equal to `threshold`, no more data moves than necessary.
        relief: u32,
    },
}

impl LevelingPolicy {
    /// Checks that the policy's parameters are possible.
    pub fn check(&self) -> Result<(), Impossible> {
        let LevelingPolicy::Static { threshold, relief } = *self else { return Ok(()) };
        if threshold == 0 {
            return Err(Impossible::new(
                "wear.threshold",
                "is 0; moving data erases a block, so counts cannot all be equal: expected at least 1",
            ));
        }
        if relief == 0 || relief > threshold {
            return Err(Impossible::new(
                "wear.relief",
                alloc::format!("is {relief}; expected 1 to the threshold, {threshold}"),
            ));
        }
        Ok(())
    }

    /// Creates the policy for one pool, without blocks.
    pub(super) fn start(&self) -> Leveler {
        match *self {
            LevelingPolicy::None => Leveler::None(NoLeveling::default()),
            LevelingPolicy::Dynamic => Leveler::Dynamic(DynamicLeveling::default()),
            LevelingPolicy::Static { threshold, relief } => {
                Leveler::Static(StaticLeveling::new(threshold, relief))
            }
        }
    }
}

/// A pool's policy with its state; an enum, so that it can be cloned and stored in a state file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Leveler {
    None(NoLeveling),
    Dynamic(DynamicLeveling),
    Static(StaticLeveling),
}

impl Leveler {
    pub(super) fn policy(&self) -> &dyn Leveling {
        match self {
            Leveler::None(policy) => policy,
            Leveler::Dynamic(policy) => policy,
            Leveler::Static(policy) => policy,
        }
    }
    pub(super) fn policy_mut(&mut self) -> &mut dyn Leveling {
        match self {
            Leveler::None(policy) => policy,
            Leveler::Dynamic(policy) => policy,
            Leveler::Static(policy) => policy,
        }
    }
}
