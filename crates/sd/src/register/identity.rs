//! The identity of a card: the contents of its registers, independent of the parameters of its array.

use super::{Cid, Csd, Extensions, Functions, Ocr, Scr, Ssr};
use crate::CardParameters;
use flashlab_sim::Duration;

/// The capacity of the largest SDHC card. Larger cards are SDXC.
const SDHC_MAX: u64 = 32 << 30;

/// The contents of a card's registers, and its electrical timing.
///
/// The card behaves according to these registers. The CSD determines capacity, command classes and write
/// protection. The OCR determines the unit of addresses, the voltages and the switch to 1.8 V signals. The
/// SCR determines the bus widths and the optional commands that the card supports beyond its command
/// classes.
#[derive(Clone, PartialEq, Debug)]
pub struct Identity {
    /// The OCR: voltages, and [`Ocr::HIGH_CAPACITY`], [`Ocr::OVER_2TB`] and [`Ocr::LOW_VOLTAGE_SIGNALS`] if supported.
    pub ocr: Ocr,
    /// The card identification (CID).
    pub cid: Cid,
    /// The card-specific data (CSD).
    pub csd: Csd,
    /// The SD configuration register (SCR).
    pub scr: Scr,
    /// The SD Status. The card sends it with the bus width that the host has selected.
    pub ssr: Ssr,
    /// The first relative address that the card publishes.
    pub relative_address: u16,
    /// Functions of CMD6.
    pub functions: Functions,
    /// Extension registers of CMD48 and CMD49.
    pub extensions: Extensions,
    /// Time from the first ACMD41 that names a voltage until the card is initialised.
    pub t_init: Duration,
    /// Output delay in picoseconds, from the clock edge until the data is on the wires: at most 14,000 according to the
    /// specification (section 6.7).
    pub t_output_ps: u32,
}

impl Identity {
    /// Creates the registers of a plausible card with these parameters: version 6 of the specification for a UHS-I card
    /// and version 3 for any other, manufactured in January 2020.
    pub fn new(parameters: &CardParameters) -> Self {
        let csd = Csd::new(parameters.capacity);
        let large = parameters.capacity > Csd::V1_MAX;
        let uhs = parameters.modes.iter().any(|mode| mode.is_uhs());
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

    /// Returns true if addresses count blocks instead of bytes.
    pub fn is_block_addressed(&self) -> bool {
        self.ocr.0 & Ocr::HIGH_CAPACITY != 0
    }
}
