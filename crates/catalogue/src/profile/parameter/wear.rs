//! The parameters of wear, which cards and SSDs share.

use super::{ANY, Choice, Field, Kind, Lens, MIB, Parameter};
use flashlab_flash::ftl::LevelingKind;

pub(super) use card::TABLE as CARD;
pub(super) use drive::TABLE as DRIVE;

/// Range of counts.
const UP_TO_2_32: (u64, u64) = (0, u32::MAX as u64);

const KINDS: &[Kind] = &[Kind::Card, Kind::Ssd];

pub(super) const TABLE: &[Parameter] = &[
    choice!("wear.levelling", optional wear.leveling, ["none" = LevelingKind::None, "dynamic" = LevelingKind::Dynamic,
        "static" = LevelingKind::Static],
        "Wear leveling: none, over the free erase blocks, or over all erase blocks by moving cold data.", "dynamic"),
    may!("wear.threshold", CountOrNone wear.threshold, UP_TO_2_32,
        "Static wear leveling: difference of erases, between the most worn free block and the least worn used one, at \
         which it begins to move data.",
        "64"),
    may!("wear.relief", CountOrNone wear.relief, UP_TO_2_32,
        "Static wear leveling: difference of erases below which it stops moving data.", "as threshold"),
    may!("wear.cycles", CountOrNone wear.cycles, UP_TO_2_32, "Number of erases that every erase block endures.",
        "blocks do not wear out"),
    may!("wear.beyond", CountOrNone wear.beyond, UP_TO_2_32,
        "Further erases after which 63 % of the erase blocks have failed (Weibull); the seed draws the number of each \
         block.",
        "a quarter of cycles"),
    may!("wear.factory_bad", ShareOrNone wear.factory_bad, (0, 1_000_000), "Share of the erase blocks that are bad from the factory.",
        "none"),
];

/// Wear parameters that only cards have.
mod card {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Card];

    pub(in super::super) const TABLE: &[Parameter] = &[
        may!("wear.raw", SizeOrNone wear.raw, (MIB, 256 << 40),
            "Bytes of the erase blocks that hold data, bad ones and spare ones included.",
            "an eighth more than the capacity, and at least the minimum that the card needs"),
        may!("wear.pools", CountOrNone wear.pools, UP_TO_2_32,
            "Number of groups of erase blocks with separate wear leveling, such as dies.", "1"),
    ];
}

/// Wear parameters that only SSDs have. The model of a card does not simulate single programs that can fail.
mod drive {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Ssd];

    pub(in super::super) const TABLE: &[Parameter] = &[
        may!("wear.program_fail", NumberOrNone optional.program_fail, ANY,
            "Probability that programming a page fails in service, in steps of 1e-9: its data is programmed \
             elsewhere, and the erase block is retired.",
            "none fails"),
        may!("wear.erase_fail", NumberOrNone optional.erase_fail, ANY,
            "Probability that an erase fails in service, in steps of 1e-9: the erase block is retired.", "none fails"),
    ];
}
