//! Wear leveling: which free erase block is written next, and whose data is moved so that wear spreads.
//!
//! A policy sees the blocks of one pool. It answers for *free* blocks ([`Leveling::take`], [`Leveling::take_worn`]) and
//! names a *used* block whose data should move ([`Leveling::relocate`]); the layer above moves the data and tells what
//! became free. One file a policy: [`NoLeveling`], [`DynamicLeveling`], [`StaticLeveling`].

mod dynamic_leveling;
mod no_leveling;
mod static_leveling;

pub use dynamic_leveling::DynamicLeveling;
pub use no_leveling::NoLeveling;
pub use static_leveling::StaticLeveling;

use crate::Impossible;
use crate::nand::EraseBlock;
use serde::{Deserialize, Serialize};

/// What a policy is told and asked, for the blocks of one pool. `erases` is always the block's count at that moment.
pub trait Leveling {
    /// `block` is free.
    fn freed(&mut self, block: EraseBlock, erases: u32);
    /// `block`, which was taken, holds data from now on; `erases` may be one more than when it was free.
    fn used(&mut self, _block: EraseBlock, _erases: u32) {}
    /// `block`, which was used, holds no data any more: it will be freed, or it is retired.
    fn unused(&mut self, _block: EraseBlock, _erases: u32) {}
    /// `block`, which was free, is retired.
    fn withdrawn(&mut self, block: EraseBlock, erases: u32);
    /// The free block that new data goes to; it is not free any more.
    fn take(&mut self) -> Option<EraseBlock>;
    /// The free block that data goes to which leveling moves, since it is expected to stay.
    fn take_worn(&mut self) -> Option<EraseBlock> {
        self.take()
    }
    /// The used block whose data should move to the block that [`Leveling::take_worn`] would give, if any should and
    /// `movable` allows it.
    fn relocate(&self, _movable: &dyn Fn(EraseBlock) -> bool) -> Option<EraseBlock> {
        None
    }
    /// Whether the policy's promise breaks if nothing is moved before the next block is taken.
    fn must_relocate(&self) -> bool {
        false
    }
    /// Free blocks.
    fn free_count(&self) -> u32;
}

/// A leveling policy as a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum LevelingPolicy {
    /// What was freed last is used first.
    #[default]
    None,
    /// The least worn free block is used first; data that stays where it is keeps its block from wearing.
    Dynamic,
    /// Dynamic, and data is moved out of little worn blocks.
    Static {
        /// Difference of erase counts, most worn free block to least worn used one, at which data begins to move.
        threshold: u32,
        /// Difference below which moving ends again; `threshold` moves no more than it must.
        relief: u32,
    },
}

impl LevelingPolicy {
    /// Refuses what no policy can keep.
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

    /// The policy for one pool, without blocks.
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

/// One pool's policy with its state; an enum, so that it can be cloned and kept.
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
