//! USB sticks: the flash and the translation layer of a card behind a USB link.

use super::{Definition, DeviceKind, Hardware, Parts, Role, card, usb_port, wear};
use crate::profile::parameter::*;
use flashlab_flash::Impossible;
use flashlab_flash::ftl::Wear;
use flashlab_flash::ftl::wear_leveling::LevelingPolicy;
use flashlab_host::{Stick, UsbHost, UsbSpeed};
use flashlab_sd::{CardParameters, Refinements};
use flashlab_sim::{Duration, Model};

/// A USB stick.
pub(super) static KIND: Definition = Definition {
    name: "stick",
    noun: "a USB stick",
    subject: "USB stick",
    folder: "usb/",
    sections: &["stick", "flash", "ftl", "wear"],
    tables: || &[TABLE, card::parameters::FLASH, wear::TABLE, card::parameters::WEAR],
    role: Role::Device(DeviceKind {
        host: &usb_port::KIND,
        host_example: "raspberry-pi-4-usb",
        state_includes_host: false,
        hardware: |parts| Ok(Box::new(StickInPort::of(parts)?)),
    }),
    blank,
    check: |parts| StickInPort::of(parts).map(drop),
};

/// The numbers that only sticks have.
#[derive(Clone, PartialEq, Debug)]
struct StickNumbers {
    capacity: u64,
    speed: UsbSpeed,
    read_ahead: Option<u64>,
    cache: Option<u64>,
}

const TABLE: &[Parameter] = &[
    mandatory!("stick.capacity", Size StickNumbers.capacity, (MIB, 128 << 40), "Bytes that can be addressed."),
    choice!(
        "stick.speed",
        StickNumbers.speed,
        ["high" = UsbSpeed::High, "super" = UsbSpeed::Super],
        "Fastest link of the stick: USB 2.0 high speed (480 Mb/s) or USB 3 SuperSpeed (5 Gb/s)."
    ),
    optional!("stick.read_ahead", SizeOrNone StickNumbers.read_ahead, UP_TO_A_GIB,
        "Bytes after the end of a read that the stick reads ahead into its buffer until the next command.",
        "the stick does not read ahead"),
    optional!("stick.cache", SizeOrNone StickNumbers.cache, UP_TO_A_GIB,
        "Bytes of the volatile write cache; the host sends SYNCHRONIZE CACHE.", "a completed write is durable"),
];

fn blank(parts: &mut Parts) {
    card::blank(parts);
    parts.insert(StickNumbers { capacity: 0, speed: UsbSpeed::High, read_ahead: None, cache: None });
}

/// The parameters of a stick and of the port of its host.
#[derive(Clone, PartialEq, Debug)]
struct StickInPort {
    stick: Stick,
    port: UsbHost,
}

impl StickInPort {
    fn of(parts: &Parts) -> Result<StickInPort, Impossible> {
        let numbers = parts.get::<StickNumbers>();
        let shared = parts.get::<CardParameters>().clone();
        let flash = CardParameters {
            capacity: numbers.capacity,
            modes: Vec::new(),
            wear: *parts.get::<Wear>(),
            refinements: Refinements {
                read_ahead: numbers.read_ahead,
                cache: numbers.cache,
                ..shared.refinements
            },
            ..shared
        };
        let checked = flash.check_flash().and_then(|()| card::check_size(&flash));
        checked.map_err(|impossible| Impossible { path: profile_path(impossible.path), ..impossible })?;
        Ok(StickInPort { stick: Stick { speed: numbers.speed, flash }, port: *parts.get::<UsbHost>() })
    }
}

/// Returns the path in a stick's profile of a parameter to which the model of a card gives another name.
fn profile_path(path: &'static str) -> &'static str {
    match path {
        "card.capacity" => "stick.capacity",
        "card.cache" => "stick.cache",
        other => other,
    }
}

impl Hardware for StickInPort {
    fn build(&self, seed: u64) -> Box<dyn Model> {
        self.port.with_stick(&self.stick, seed)
    }
    fn build_without_host(&self, seed: u64) -> Box<dyn Model> {
        self.port.link(&self.stick, seed)
    }
    fn capacity(&self) -> u64 {
        self.stick.flash.capacity
    }
    fn t_read(&self) -> Option<Duration> {
        self.stick.flash.refinements.read_ahead.is_none().then_some(self.stick.flash.nand.t_read)
    }
    fn wear_leveling(&self) -> LevelingPolicy {
        self.stick.flash.wear.policy()
    }
}
