//! Wear levelling: which free erase block is written next, and whose data is moved so that wear spreads.
//!
//! A policy sees the blocks of one pool. It answers for *free* blocks ([`Levelling::take`], [`Levelling::take_worn`]) and
//! names a *used* block whose data should move ([`Levelling::relocate`]); the layer above moves the data and tells what
//! became free. One file a policy: [`NoLevelling`], [`DynamicLevelling`], [`StaticLevelling`].

mod dynamic_leveling;
mod no_leveling;
mod static_leveling;

pub use dynamic_leveling::DynamicLevelling;
pub use no_leveling::NoLevelling;
pub use static_leveling::StaticLevelling;

use crate::Impossible;
use crate::nand::Block;
use serde::{Deserialize, Serialize};

/// What a policy is told and asked, for the blocks of one pool. `erases` is always the block's count at that moment.
pub trait Levelling {
    /// `block` is free.
    fn freed(&mut self, block: Block, erases: u32);
    /// `block`, which was taken, holds data from now on; `erases` may be one more than when it was free.
    fn used(&mut self, _block: Block, _erases: u32) {}
    /// `block`, which was used, holds no data any more: it will be freed, or it is retired.
    fn unused(&mut self, _block: Block, _erases: u32) {}
    /// `block`, which was free, is retired.
    fn withdrawn(&mut self, block: Block, erases: u32);
    /// The free block that new data goes to; it is not free any more.
    fn take(&mut self) -> Option<Block>;
    /// The free block that data goes to which levelling moves, since it is expected to stay.
    fn take_worn(&mut self) -> Option<Block> {
        self.take()
    }
    /// The used block whose data should move to the block that [`Levelling::take_worn`] would give, if any should and
    /// `movable` allows it.
    fn relocate(&self, _movable: &dyn Fn(Block) -> bool) -> Option<Block> {
        None
    }
    /// Whether the policy's promise breaks if nothing is moved before the next block is taken.
    fn must_relocate(&self) -> bool {
        false
    }
    /// Free blocks.
    fn free_count(&self) -> u32;
}

/// A levelling policy as a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum LevellingPolicy {
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

impl LevellingPolicy {
    /// Refuses what no policy can keep.
    pub fn check(&self) -> Result<(), Impossible> {
        let LevellingPolicy::Static { threshold, relief } = *self else { return Ok(()) };
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
    pub(super) fn start(&self) -> Leveller {
        match *self {
            LevellingPolicy::None => Leveller::None(NoLevelling::default()),
            LevellingPolicy::Dynamic => Leveller::Dynamic(DynamicLevelling::default()),
            LevellingPolicy::Static { threshold, relief } => {
                Leveller::Static(StaticLevelling::new(threshold, relief))
            }
        }
    }
}

/// One pool's policy with its state; an enum, so that it can be cloned and kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Leveller {
    None(NoLevelling),
    Dynamic(DynamicLevelling),
    Static(StaticLevelling),
}

impl Leveller {
    pub(super) fn policy(&self) -> &dyn Levelling {
        match self {
            Leveller::None(policy) => policy,
            Leveller::Dynamic(policy) => policy,
            Leveller::Static(policy) => policy,
        }
    }
    pub(super) fn policy_mut(&mut self) -> &mut dyn Levelling {
        match self {
            Leveller::None(policy) => policy,
            Leveller::Dynamic(policy) => policy,
            Leveller::Static(policy) => policy,
        }
    }
}
