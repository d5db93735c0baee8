//! The parameters of wear, which all kinds of devices share.

use crate::profile::parameter::*;
use flashlab_flash::ftl::LevelingKind;
use flashlab_flash::ftl::Wear;

pub(super) const TABLE: &[Parameter] = &[
    Parameter {
        kinds: Vec::new(),
        path: "wear.leveling",
        meaning: LevelingKind::MEANING,
        default_meaning: Some("dynamic"),
        range: ANY,
        field: Field::Choice(Choice {
            names: LevelingKind::NAMES,
            get: |parts| {
                let kind = parts.get::<Wear>().leveling;
                let at = LevelingKind::ALL.iter().position(|known| Some(*known) == kind)?;
                Some(LevelingKind::NAMES[at])
            },
            set: |parts, name| {
                let at = LevelingKind::NAMES.iter().position(|known| *known == name);
                let at = at.expect("the parser accepts only these words");
                parts.get_mut::<Wear>().leveling = Some(LevelingKind::ALL[at]);
            },
        }),
    },
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
