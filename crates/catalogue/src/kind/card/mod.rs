//! SD cards.

pub(super) mod parameters;
mod registers;

use super::{Definition, DeviceKind, Hardware, Parts, Role, machine, wear};
use crate::profile::Parameter;
use flashlab_flash::Impossible;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::card::Mapping;
use flashlab_flash::ftl::card::Overwrite;
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_flash::nand::Nand;
use flashlab_host::{Machine, Stack};
use flashlab_sd::{Card, CardParameters, Identity};
use flashlab_sim::{Duration, Model, Store};
pub(super) use registers::Registers;

/// An SD card.
pub(super) static KIND: Definition = Definition {
    name: "card",
    noun: "a card",
    subject: "card",
    folder: "sd/",
    sections: &["card", "flash", "ftl", "wear"],
    tables,
    role: Role::Device(DeviceKind {
        host: &machine::KIND,
        host_example: "raspberry-pi-4",
        state_includes_host: false,
        hardware: |parts| Ok(Box::new(CardInHost::of(parts)?)),
    }),
    blank,
    check: |parts| {
        let card = parameters_of(parts)?;
        check_size(&card)?;
        if let Some(mode) = card.modes.iter().find(|mode| mode.is_emmc()) {
            let why = format!(
                "has \"{}\", which only eMMC has; for such a device, set kind = \"emmc\"",
                mode.name()
            );
            return Err(Impossible::new("card.modes", why));
        }
        check_stack(&card, parts)?;
        parts.get::<Registers>().identity(&card).map(drop)
    },
};

pub(super) fn tables() -> &'static [&'static [Parameter]] {
    &[parameters::TABLE, parameters::FLASH, wear::TABLE, parameters::WEAR]
}

/// The parameters of a card and of its host.
#[derive(Clone, PartialEq, Debug)]
pub struct CardInHost {
    /// Parameters of the card.
    pub card: CardParameters,
    /// Contents of the card's registers.
    pub identity: Identity,
    /// Parameters of the host.
    pub host: Machine,
}

impl CardInHost {
    pub(super) fn of(parts: &Parts) -> Result<CardInHost, Impossible> {
        let card = parameters_of(parts)?;
        let identity = parts.get::<Registers>().identity(&card)?;
        Ok(CardInHost { card, identity, host: parts.get::<Machine>().clone() })
    }
}

impl Hardware for CardInHost {
    fn build(&self, seed: u64) -> Box<dyn Model> {
        self.host.with_card(&self.card, &self.identity, seed)
    }
    fn build_without_host(&self, seed: u64) -> Box<dyn Model> {
        let bare = Machine { t_block: Duration::ZERO, stack: None, ..self.host.clone() };
        bare.slot(&self.card, &self.identity, seed)
    }
    fn build_card(&self, seed: u64, store: Option<Box<dyn Store>>) -> Option<Card> {
        Some(Card::new(self.card.clone(), self.identity.clone(), store, seed))
    }
    fn is_timed(&self) -> bool {
        self.card.has_timing()
    }
    fn capacity(&self) -> u64 {
        self.card.capacity
    }
    fn t_read(&self) -> Option<Duration> {
        self.card.refinements.read_ahead.is_none().then_some(self.card.nand.t_read)
    }
    fn wear_leveling(&self) -> LevelingPolicy {
        self.card.wear.policy()
    }
}

pub(super) fn blank(parts: &mut Parts) {
    let none = Duration::ZERO;
    parts.insert(CardParameters {
        capacity: 0,
        modes: Vec::new(),
        nand: Nand {
            page: 0,
            t_read: none,
            read_rate: 0,
            t_prog: none,
            erase_block: 0,
            t_bers: none,
            spread_ppm: 0,
            t_prog_slc: None,
            bits: None,
        },
        mapping: Mapping {
            program_unit: 0,
            t_commit: none,
            map_unit: 0,
            rewrite_unit: 0,
            overwrite: Overwrite::Convert,
            open_units: 0,
            map_cache: None,
            map_page: 0,
        },
        wear: Wear::default(),
        refinements: Default::default(),
    });
    parts.insert(Registers::default());
    parts.insert(Wear::default());
}

/// Checks and returns the parameters of the card that the parts describe.
pub(super) fn parameters_of(parts: &Parts) -> Result<CardParameters, Impossible> {
    let card = CardParameters { wear: *parts.get::<Wear>(), ..parts.get::<CardParameters>().clone() };
    card.check()?;
    Ok(card)
}

/// Rejects `host.stack = "commands"` for a card with a mechanism that only the timed model has.
fn check_stack(card: &CardParameters, parts: &Parts) -> Result<(), Impossible> {
    match card.refinements.only_timed() {
        Some(path) if parts.get::<Machine>().stack == Some(Stack::Commands) => {
            let why =
                format!("is \"commands\", which does not simulate {path} of this card; expected \"blocks\"");
            Err(Impossible::new("host.stack", why))
        }
        _ => Ok(()),
    }
}

/// Rejects a valid card whose map would not fit into the memory of an ordinary machine.
pub(super) fn check_size(card: &CardParameters) -> Result<(), Impossible> {
    /// Limit for map units, of up to 16 bytes each.
    const UNITS_MAX: u64 = 1 << 26;
    /// Limit for mapped pages, of one bit each.
    const PAGES_MAX: u64 = 1 << 33;
    let units = card.capacity.div_ceil(card.mapping.map_unit);
    if units > UNITS_MAX {
        let why =
            format!("divides the capacity into {units} map units; a simulation supports at most {UNITS_MAX}");
        return Err(Impossible::new("ftl.map_unit", why));
    }
    let pages = card.capacity / card.nand.page.min(4096);
    if pages > PAGES_MAX {
        let why = format!("contains {pages} mapped pages; a simulation supports at most {PAGES_MAX}");
        return Err(Impossible::new("card.capacity", why));
    }
    Ok(())
}
