//! The parameters of wear, which cards and SSDs share.

use super::{ANY, Choice, Field, Kind, Lens, MIB, Parameter};
use flashlab_flash::ftl::LevellingKind;

pub(super) use card::TABLE as CARD;
pub(super) use drive::TABLE as DRIVE;

/// Range of counts.
const UP_TO_2_32: (u64, u64) = (0, u32::MAX as u64);

const KINDS: &[Kind] = &[Kind::Card, Kind::Ssd];

pub(super) const TABLE: &[Parameter] = &[
    choice!("wear.levelling", optional wear.levelling, ["none" = LevellingKind::None, "dynamic" = LevellingKind::Dynamic,
        "static" = LevellingKind::Static],
        "How wear is spread: not at all, over the free erase blocks, or over all by moving data that stays.", "dynamic"),
    may!("wear.threshold", CountOrNone wear.threshold, UP_TO_2_32,
        "Static levelling: difference of erases at which data begins to move, from the most worn free block to the least worn \
         used one.", "64"),
    may!("wear.relief", CountOrNone wear.relief, UP_TO_2_32,
        "Static levelling: difference of erases below which moving ends again.", "as threshold"),
    may!("wear.cycles", CountOrNone wear.cycles, UP_TO_2_32, "Erases that every erase block stands.",
        "blocks do not wear out"),
    may!("wear.beyond", CountOrNone wear.beyond, UP_TO_2_32,
        "Further erases after which 63 % of the erase blocks have failed (Weibull); the seed draws each block's.",
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
            "an eighth more than the capacity, and at least what the card cannot do without"),
        may!("wear.pools", CountOrNone wear.pools, UP_TO_2_32,
            "Groups of erase blocks that are levelled each on its own, such as dies.", "1"),
    ];
}

/// Wear parameters that only SSDs have. The model of a card does not simulate single programs that can fail.
mod drive {
    use super::*;

    const KINDS: &[Kind] = &[Kind::Ssd];

    pub(in super::super) const TABLE: &[Parameter] = &[
        may!("wear.program_fail", NumberOrNone optional.program_fail, ANY,
            "Probability that the program of a page fails in life, in billionths: its data is programmed elsewhere, and the \
             erase block retired.", "none fails"),
        may!("wear.erase_fail", NumberOrNone optional.erase_fail, ANY,
            "Probability that an erase fails in life, in billionths: the erase block is retired.", "none fails"),
    ];
}
