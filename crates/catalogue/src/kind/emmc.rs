//! eMMC devices: the array and the translation layer of a card behind up to eight data lines. Only the timing
//! of these devices is simulated, not their commands and registers.

use super::card::{self, CardInHost, Registers};
use super::{Definition, DeviceKind, Hardware, Parts, Role, machine};
use flashlab_flash::Impossible;
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_host::{Machine, Stack};
use flashlab_sd::Mode;
use flashlab_sim::{Duration, Model};

/// An eMMC device.
pub(super) static KIND: Definition = Definition {
    name: "emmc",
    noun: "an eMMC device",
    subject: "eMMC device",
    folder: "emmc/",
    sections: &["card", "flash", "ftl", "wear"],
    tables: card::tables,
    role: Role::Device(DeviceKind {
        host: &machine::KIND,
        host_example: "emmc-hs200",
        state_includes_host: false,
        hardware: |parts| Ok(Box::new(Emmc(CardInHost::of(parts)?))),
    }),
    blank: card::blank,
    check,
};

fn check(parts: &Parts) -> Result<(), Impossible> {
    let card = card::parameters_of(parts)?;
    card::check_size(&card)?;
    if let Some(mode) = card.modes.iter().find(|mode| mode.is_uhs() || **mode == Mode::HighSpeed) {
        let why = format!(
            "has \"{}\", a mode of SD cards; the modes of eMMC are default-speed, hs52, ddr52, hs200 and hs400",
            mode.name()
        );
        return Err(Impossible::new("card.modes", why));
    }
    if parts.get::<Machine>().stack == Some(Stack::Commands) {
        let why = "is \"commands\", which simulates SD cards only; expected \"blocks\"";
        return Err(Impossible::new("host.stack", why));
    }
    if let Some(path) = parts.get::<Registers>().any_of_sd() {
        return Err(Impossible::new(
            path,
            "is a register of SD cards; the registers of eMMC are not simulated",
        ));
    }
    Ok(())
}

/// The parameters of an eMMC device and of its host.
#[derive(Clone, PartialEq, Debug)]
struct Emmc(CardInHost);

impl Hardware for Emmc {
    fn build(&self, seed: u64) -> Box<dyn Model> {
        self.0.build(seed)
    }
    fn build_without_host(&self, seed: u64) -> Box<dyn Model> {
        self.0.build_without_host(seed)
    }
    fn is_timed(&self) -> bool {
        self.0.is_timed()
    }
    fn capacity(&self) -> u64 {
        self.0.capacity()
    }
    fn t_read(&self) -> Option<Duration> {
        self.0.t_read()
    }
    fn wear_leveling(&self) -> LevelingPolicy {
        self.0.wear_leveling()
    }
}
