//! The parameters of wear, which cards and SSDs share.

use crate::profile::parameter::*;
use flashlab_flash::ftl::LevelingKind;
use flashlab_flash::ftl::Wear;

/// Range of counts.
const UP_TO_2_32: (u64, u64) = (0, u32::MAX as u64);

pub(super) const TABLE: &[Parameter] = &[
    choice!("wear.leveling", optional Wear.leveling, ["none" = LevelingKind::None, "dynamic" = LevelingKind::Dynamic,
        "static" = LevelingKind::Static],
        "Wear leveling: none, over the free erase blocks, or over all erase blocks by moving cold data.", "dynamic"),
    optional!("wear.threshold", CountOrNone Wear.threshold, UP_TO_2_32,
        "Static wear leveling: difference of erases, between the most worn free block and the least worn used one, at \
         which it begins to move data.",
        "64"),
    optional!("wear.relief", CountOrNone Wear.relief, UP_TO_2_32,
        "Static wear leveling: difference of erases below which it stops moving data.", "as threshold"),
    optional!("wear.cycles", CountOrNone Wear.cycles, UP_TO_2_32, "Number of erases that every erase block endures.",
        "blocks do not wear out"),
    optional!("wear.beyond", CountOrNone Wear.beyond, UP_TO_2_32,
        "Further erases after which 63 % of the erase blocks have failed (Weibull); the seed draws the number of each \
         block.",
        "a quarter of cycles"),
    optional!("wear.factory_bad", ShareOrNone Wear.factory_bad, (0, 1_000_000), "Share of the erase blocks that are bad from the factory.",
        "none"),
];
