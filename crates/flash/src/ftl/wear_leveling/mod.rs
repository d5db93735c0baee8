//! Wear leveling: the choice of the free erase block to write next, and of the data to move so that wear spreads.
//!
//! A policy manages the blocks of one pool. It selects *free* blocks ([`Leveling::take`], [`Leveling::take_worn`]) and
//! names a *used* block whose data should move ([`Leveling::relocate`]). The translation layer moves the data and
//! reports the blocks that become free.
//!
//! A new policy is one file with a type that implements `Policy`, and one line in the registry `leveling_policies!`
//! below. Profiles and the documentation of parameters read the registry.

use super::Wear;
use crate::Impossible;
use crate::nand::EraseBlock;
use serde::{Deserialize, Serialize};

/// Declares the policies. Each line has the module and the type of a policy, its variant with its parameters if it has
/// any, its name in profiles, and a description.
///
/// A policy with parameters also has, in its module, `parameters` (the parameters in a profile) and `check` (an error
/// if they are impossible).
macro_rules! leveling_policies {
    ($($module:ident::$policy:ident = $variant:ident $({ $($parameter:ident),+ })?, $name:literal, $meaning:literal;)+) => {
        $(
            mod $module;
            pub use $module::$policy;
        )+

        /// A leveling policy by name.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum LevelingKind {
            $(
                #[doc = concat!("`", $name, "`: ", $meaning, ".")]
                $variant,
            )+
        }

        impl LevelingKind {
            /// All policies.
            pub const ALL: &[LevelingKind] = &[$(LevelingKind::$variant),+];
            /// Names of [`LevelingKind::ALL`] in profiles, in the same order.
            pub const NAMES: &[&str] = &[$($name),+];
            /// Descriptions of all policies, as one text.
            pub const MEANING: &str = concat!("Wear leveling.", $(" `", $name, "`: ", $meaning, "."),+);

            /// Returns the policy with its parameters in `wear`.
            pub(super) fn policy(self, wear: &Wear) -> LevelingPolicy {
                match self {
                    $(LevelingKind::$variant => {
                        $(let ($($parameter,)+) = $module::parameters(wear);)?
                        LevelingPolicy::$variant $({ $($parameter),+ })?
                    })+
                }
            }
            /// Returns true if the policy chooses between free blocks by their wear.
            pub(super) fn compares_wear(self) -> bool {
                match self {
                    $(LevelingKind::$variant => <$policy as Policy>::COMPARES_WEAR,)+
                }
            }
        }

        /// A leveling policy with its parameters.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
        pub enum LevelingPolicy {
            $(
                #[doc = concat!("See [`", stringify!($policy), "`].")]
                $variant $({
                    $(
                        #[doc = concat!("See [`", stringify!($policy), "`].")]
                        $parameter: u32,
                    )+
                })?,
            )+
        }

        impl LevelingPolicy {
            /// Returns the policy without its parameters.
            pub fn kind(self) -> LevelingKind {
                match self {
                    $(LevelingPolicy::$variant { .. } => LevelingKind::$variant,)+
                }
            }
            /// Checks that the policy's parameters are possible.
            pub fn check(&self) -> Result<(), Impossible> {
                match *self {
                    $(LevelingPolicy::$variant $({ $($parameter),+ })? => {
                        $($module::check($($parameter),+)?;)?
                    })+
                }
                Ok(())
            }
            /// Returns true if the policy moves data.
            pub(super) fn moves_data(self) -> bool {
                match self {
                    $(LevelingPolicy::$variant { .. } => <$policy as Policy>::MOVES_DATA,)+
                }
            }
            /// Creates the policy for one pool, without blocks.
            pub(super) fn start(&self) -> Leveler {
                match *self {
                    $(LevelingPolicy::$variant $({ $($parameter),+ })? => {
                        Leveler::$variant($policy::new($($($parameter),+)?))
                    })+
                }
            }
        }

        /// A pool's policy with its state; an enum, so that it can be cloned and stored in a state file.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        pub(super) enum Leveler {
            $($variant($policy),)+
        }

        impl Leveler {
            pub(super) fn policy(&self) -> &dyn Leveling {
                match self {
                    $(Leveler::$variant(policy) => policy,)+
                }
            }
            pub(super) fn policy_mut(&mut self) -> &mut dyn Leveling {
                match self {
                    $(Leveler::$variant(policy) => policy,)+
                }
            }
            /// Returns true if the state is that of `policy`, and agrees with the blocks of its pool.
            pub(super) fn is_sound(&self, policy: LevelingPolicy, blocks: &dyn PoolBlocks) -> bool {
                match self {
                    $(Leveler::$variant(state) => {
                        policy == LevelingPolicy::$variant $({ $($parameter: state.$parameter()),+ })?
                            && state.is_sound(blocks)
                    })+
                }
            }
        }
    };
}

leveling_policies! {
    no_leveling::NoLeveling = None, "none", "the block that was freed last is used first";
    dynamic_leveling::DynamicLeveling = Dynamic, "dynamic", "the least worn free block is used first";
    static_leveling::StaticLeveling = Static { threshold, relief }, "static",
        "like dynamic leveling, and cold data moves out of lightly worn blocks";
}

/// The properties of a policy that its device needs to know.
trait Policy: Leveling {
    /// True if the policy chooses between free blocks by their wear.
    const COMPARES_WEAR: bool = true;
    /// True if the policy moves data.
    const MOVES_DATA: bool = false;
    /// Returns true if the state agrees with the blocks of its pool.
    fn is_sound(&self, blocks: &dyn PoolBlocks) -> bool;
}

/// The blocks of one pool, against which the state of the pool's policy is validated.
pub(super) trait PoolBlocks {
    /// Returns the erase count of a block of the pool if the block is free.
    fn free(&self, block: EraseBlock) -> Option<u32>;
    /// Returns the erase count of a block of the pool if the block is used.
    fn used(&self, block: EraseBlock) -> Option<u32>;
    /// Returns the number of used blocks.
    fn used_count(&self) -> usize;
}

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

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u32 = 8;

    #[test]
    fn every_registered_policy_has_the_properties_that_it_states() {
        for (kind, name) in LevelingKind::ALL.iter().zip(LevelingKind::NAMES) {
            assert!(LevelingKind::MEANING.contains(*name), "{name} has no description");
            let policy = kind.policy(&Wear { threshold: Some(2), ..Wear::default() });
            assert_eq!((policy.kind(), policy.check()), (*kind, Ok(())));
            let mut leveler = policy.start();
            let state = leveler.policy_mut();
            let mut erases = [0; BLOCKS as usize];
            for block in (0..BLOCKS).map(EraseBlock::new) {
                state.freed(block, 0);
            }
            let cold = state.take().expect("all blocks are free");
            state.used(cold, 0);
            let mut moves = false;
            let mut least_first = true;
            for _ in 0..64 {
                moves |= state.relocate(&|block| block == cold).is_some();
                let block = state.take().expect("all blocks but one are free");
                let at = block.index() as usize;
                let others = (0..).zip(erases).filter(|(other, _)| *other != cold.index());
                least_first &= others.map(|(_, erases)| erases).min() == Some(erases[at]);
                state.used(block, erases[at]);
                state.unused(block, erases[at]);
                erases[at] += 1;
                state.freed(block, erases[at]);
            }
            assert_eq!(moves, policy.moves_data(), "{name}: moves of cold data");
            assert_eq!(least_first, kind.compares_wear(), "{name}: use of the least worn block first");
            assert_eq!(state.free_count(), BLOCKS - 1, "{name}");
        }
    }
}
