//! What a card says of itself, apart from what it is made of.

use super::{Cid, Csd, Extensions, Functions, Ocr, Scr, Ssr};
use crate::{CardParameters, Mode};
use flashlab_sim::Duration;

/// The largest SDHC card; what is larger is SDXC.
const SDHC_MAX: u64 = 32 << 30;

/// The contents of a card's registers, and what goes with them.
///
/// The card believes its CSD: capacity, addressing, command classes, write protection; its OCR: voltages and whether it
/// switches to 1.8 V signals; and its SCR: bus widths and the commands beyond the classes.
#[derive(Clone, PartialEq, Debug)]
pub struct Identity {
    /// Voltages, and [`Ocr::HIGH_CAPACITY`], [`Ocr::OVER_2TB`] and [`Ocr::LOW_VOLTAGE_SIGNALS`] where the card has them.
    pub ocr: Ocr,
    /// The identification.
    pub cid: Cid,
    /// The card-specific data.
    pub csd: Csd,
    /// The configuration.
    pub scr: Scr,
    /// The SD status; the width in it is what the host has chosen.
    pub ssr: Ssr,
    /// The relative address that the card publishes first.
    pub relative_address: u16,
    /// CMD6.
    pub functions: Functions,
    /// CMD48 and CMD49.
    pub extensions: Extensions,
    /// From the first ACMD41 that names a voltage until the card is initialised.
    pub t_init: Duration,
    /// From the clock's edge to the data on the wires, in picoseconds: at most 14,000 by the specification (section 6.7).
    pub t_output_ps: u32,
}

impl Identity {
    /// A plausible card of these parameters: version 3 of the specification, made in January 2020.
    pub fn new(parameters: &CardParameters) -> Self {
        let csd = Csd::new(parameters.capacity);
        let large = parameters.capacity > Csd::V1_MAX;
        let uhs = parameters.modes.iter().any(|mode| *mode > Mode::HighSpeed);
        let set = |set: bool, bit: u32| if set { bit } else { 0 };
        let mut scr = Scr::new(if uhs { 6 } else { 3 });
        let version = if parameters.capacity > SDHC_MAX { 4 } else { 2 + u8::from(large) };
        scr.set_security(version);
        if large {
            scr.set_commands(if uhs { 0b0111 } else { 0b0011 });
        }
        let mut ssr = Ssr::EMPTY;
        ssr.set_allocation_unit(if large { 4 << 20 } else { 16 << 10 });
        ssr.set_erase(8, 1, 1);
        ssr.set_speed_class(if large { 10 } else { 4 });
        ssr.set_uhs_grade(u8::from(uhs));
        ssr.set_erase_kinds(uhs, uhs);
        Identity {
            ocr: Ocr(Ocr::WINDOW_2_7_TO_3_6
                | set(large, Ocr::HIGH_CAPACITY)
                | set(parameters.capacity > Csd::V2_MAX, Ocr::OVER_2TB)
                | set(uhs, Ocr::LOW_VOLTAGE_SIGNALS)),
            cid: Cid::new(0, *b"FL", *b"FLASH", 0x10, 1, (2020, 1)),
            csd,
            scr,
            ssr,
            relative_address: 1,
            functions: Functions::new(&parameters.modes),
            extensions: Extensions { power_off_notification: true, cache: false },
            t_init: Duration::from_ms(100),
            t_output_ps: 10_000,
        }
    }

    /// Whether addresses count blocks, not bytes.
    pub fn is_block_addressed(&self) -> bool {
        self.ocr.0 & Ocr::HIGH_CAPACITY != 0
    }
}
