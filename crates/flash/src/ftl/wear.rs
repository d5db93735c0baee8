//! The wear parameters of a card's profile, as written in the profile, and the same parameters with their
//! defaults.

use super::wear_leveling::{LevelingKind, LevelingPolicy};
use crate::Impossible;
use crate::nand::Endurance;
use alloc::format;
use serde::{Deserialize, Serialize};

/// The parameters of a card's wear. All are optional.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Wear {
    /// Bytes of the erase blocks that hold data, bad and spare blocks included. Default: an eighth more than the
    /// capacity, and at least 1 % and two blocks more than the translation layer needs. 2^n bytes of flash
    /// sold as 10^m leave 5 to 7 %, and dies have a few percent more blocks than their nominal 2^n.
    pub raw: Option<u64>,
    /// The policy. Default: dynamic.
    pub leveling: Option<LevelingKind>,
    /// See [`StaticLeveling`](super::wear_leveling::StaticLeveling). Default: 64.
    pub threshold: Option<u32>,
    /// See [`StaticLeveling`](super::wear_leveling::StaticLeveling). Default: the threshold.
    pub relief: Option<u32>,
    /// Number of groups of erase blocks, such as dies, that are leveled independently. Default: 1.
    pub pools: Option<u32>,
    /// Number of erases that every block endures. Default: blocks do not wear out.
    pub cycles: Option<u32>,
    /// Further erases after which 63 % of the blocks have failed (Weibull). Default: a quarter of `cycles`.
    pub beyond: Option<u32>,
    /// Share of factory-bad blocks in millionths. Default: 0.
    pub factory_bad: Option<u32>,
}

/// Limit for erase blocks, each of which takes some tens of bytes of memory.
const BLOCKS_MAX: u64 = 1 << 26;
/// Shape of the distribution of block lives beyond the rated cycles.
const SHAPE: f64 = 2.0;

impl Wear {
    /// Checks that the parameters are possible, given the capacity and the erase block in bytes and the number of
    /// blocks that the translation layer needs.
    pub fn check(&self, capacity: u64, erase_block: u64, needed: u64) -> Result<(), Impossible> {
        self.policy().check()?;
        if self.pools() == 0 {
            return Err(Impossible::new("wear.pools", "is 0; expected at least 1"));
        }
        if self.cycles == Some(0) {
            return Err(Impossible::new(
                "wear.cycles",
                "is 0: no block could ever be erased; expected for example 3000, or none for blocks that never wear",
            ));
        }
        if self.factory_bad.is_some_and(|ppm| ppm > 200_000) {
            return Err(Impossible::new("wear.factory_bad", "is above 20 %; makers allow about 2 %"));
        }
        let blocks = self.raw_blocks(capacity, erase_block, needed);
        if blocks > BLOCKS_MAX {
            let why = format!(
                "is {blocks} erase blocks of {erase_block} B; a simulation supports at most {BLOCKS_MAX}"
            );
            return Err(Impossible::new("wear.raw", why));
        }
        let good = blocks - blocks * u64::from(self.factory_bad.unwrap_or(0)) / 1_000_000;
        if good < needed {
            return Err(Impossible::new(
                "wear.raw",
                format!(
                    "is {blocks} erase blocks of {erase_block} B, of which {good} are good; a capacity of {capacity} B \
                     needs {needed}, including open and reserve blocks"
                ),
            ));
        }
        if u64::from(self.pools()) > blocks / 2 {
            return Err(Impossible::new(
                "wear.pools",
                format!("is {} for {blocks} erase blocks; a pool has at least two", self.pools()),
            ));
        }
        Ok(())
    }

    /// Returns the total number of erase blocks.
    pub fn raw_blocks(&self, capacity: u64, erase_block: u64, needed: u64) -> u64 {
        match self.raw {
            Some(raw) => raw / erase_block,
            None => ((capacity + capacity / 8) / erase_block).max(needed + needed / 100 + 2),
        }
    }

    /// Returns the number of pools. All blocks are in one pool if the policy does not compare their wear.
    pub fn pools(&self) -> u32 {
        if self.kind().compares_wear() { self.pools.unwrap_or(1) } else { 1 }
    }

    /// Returns the policy with its parameters.
    pub fn policy(&self) -> LevelingPolicy {
        self.kind().policy(self)
    }

    fn kind(&self) -> LevelingKind {
        self.leveling.unwrap_or(LevelingKind::Dynamic)
    }

    /// Returns the endurance of the blocks; `None` if they never wear out and none is factory-bad.
    pub fn endurance(&self) -> Option<Endurance> {
        if self.cycles.is_none() && self.factory_bad.is_none() {
            return None;
        }
        let rated = self.cycles.unwrap_or(Endurance::UNLIMITED);
        let beyond = self.beyond.unwrap_or(self.cycles.map_or(0, |cycles| cycles / 4));
        let factory_bad_ppm = self.factory_bad.unwrap_or(0);
        Some(Endurance { beyond, shape: SHAPE, factory_bad_ppm, ..Endurance::exactly(rated) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const AU: u64 = 4 << 20;

    #[test]
    fn the_default_is_dynamic_leveling_of_blocks_that_never_wear() {
        let wear = Wear::default();
        assert_eq!(wear.check(100 * AU, AU, 104), Ok(()));
        assert_eq!((wear.policy(), wear.endurance()), (LevelingPolicy::Dynamic, None));
        assert_eq!(wear.raw_blocks(3_000 * AU, AU, 3_004), 3_375);
        assert!(wear.raw_blocks(AU, AU, 5) > 5, "a card of one block has too few blocks");
        let with_bad = Wear { factory_bad: Some(20_000), ..wear };
        assert_eq!(with_bad.endurance().map(|endurance| endurance.rated_cycles()), Some(None));
    }

    #[test]
    fn impossible_wear_is_refused_with_the_number_and_the_reason() {
        let none = Wear::default();
        let wrong = [
            Wear { leveling: Some(LevelingKind::Static), threshold: Some(0), ..none },
            Wear { leveling: Some(LevelingKind::Static), threshold: Some(4), relief: Some(5), ..none },
            Wear { pools: Some(0), ..none },
            Wear { pools: Some(500), ..none },
            Wear { cycles: Some(0), ..none },
            Wear { raw: Some(100 * AU), ..none },
            Wear { raw: Some(106 * AU), factory_bad: Some(50_000), ..none },
            Wear { factory_bad: Some(300_000), ..none },
            Wear { raw: Some((BLOCKS_MAX + 1) * AU), ..none },
        ];
        let messages: alloc::vec::Vec<_> =
            wrong.iter().map(|w| w.check(100 * AU, AU, 104).unwrap_err().to_string()).collect();
        assert_eq!(
            messages,
            [
                "wear.threshold is 0; moving data erases a block, so counts cannot all be equal: expected at least 1",
                "wear.relief is 5; expected 1 to the threshold, 4",
                "wear.pools is 0; expected at least 1",
                "wear.pools is 500 for 112 erase blocks; a pool has at least two",
                "wear.cycles is 0: no block could ever be erased; expected for example 3000, or none for blocks that \
                 never wear",
                "wear.raw is 100 erase blocks of 4194304 B, of which 100 are good; a capacity of 419430400 B needs 104, \
                 including open and reserve blocks",
                "wear.raw is 106 erase blocks of 4194304 B, of which 101 are good; a capacity of 419430400 B needs 104, \
                 including open and reserve blocks",
                "wear.factory_bad is above 20 %; makers allow about 2 %",
                "wear.raw is 67108865 erase blocks of 4194304 B; a simulation supports at most 67108864",
            ]
        );
    }
}
