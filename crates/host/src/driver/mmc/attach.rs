//! Initialisation of an SD card: identification, address, registers, bus mode, clock, width, extension registers.

use super::card::CardInfo;
use super::command::{CommandType, MmcCommand, MmcResponseType, SpiResponseType};
use super::decoded::{CsdFields, ScrFields, SsrFields};
use super::erase::EraseSizes;
use super::log::{Event, Phase};
use super::send::RETRIES;
use super::{Error, Mmc};
use flashlab_sd::Signal;
use flashlab_sd::Status;
use flashlab_sd::opcode;
use flashlab_sim::Duration;

/// Bits in the argument of ACMD41 and in the OCR.
const HIGH_CAPACITY: u32 = 1 << 30;
const MAX_POWER: u32 = 1 << 28;
const OVER_2TB: u32 = 1 << 27;
const LOW_VOLTAGE_SIGNALS: u32 = 1 << 24;
/// Bits in byte 3 of the SCR that report support for CMD48, 49, 58 and 59.
const SCR_EXTENSIONS: u8 = 0b1100;

impl Mmc {
    /// Initialises a card that has responded to ACMD41 with the voltages `ocr`.
    pub(super) fn attach_sd(&mut self, ocr: u32) -> Result<(), Error> {
        self.enter(Phase::Identify);
        let ocr = self.kernel.select_voltage(ocr, self.ocr).ok_or(Error::Invalid)?;
        let card = self.init_card(ocr, None)?;
        let (timing, capacity, address) = (self.ios.timing, card.capacity(), card.address);
        self.card = Some(card);
        self.note(|| Event::New { timing, capacity, address });
        Ok(())
    }

    /// Initialises a card from reset to the transfer state, in the best mode that host and card support. If
    /// `old` is given, any other card is rejected.
    pub(super) fn init_card(&mut self, ocr: u32, old: Option<&CardInfo>) -> Result<CardInfo, Error> {
        self.enter(Phase::Identify);
        let (cid, answered) = self.identify(ocr)?;
        let mut card = match old {
            Some(old) if old.cid_raw != cid => return Err(Error::Replaced),
            Some(old) => CardInfo { suspended: false, ..old.clone() },
            None => CardInfo::new(cid, ocr),
        };
        let cmd = MmcCommand::new(
            opcode::SEND_RELATIVE_ADDR,
            0,
            MmcResponseType::R6,
            CommandType::BroadcastWithResponse,
            SpiResponseType::Nothing,
        );
        card.address = (self.command(cmd, RETRIES)? >> 16) as u16;
        self.enter(Phase::Setup);
        if old.is_none() {
            card.csd_raw = self.long_register(opcode::SEND_CSD, card.address)?;
            let csd = CsdFields::of(&card.csd_raw).filter(|csd| self.kernel.reads(csd));
            if csd.is_none() {
                self.note(|| Event::Warning("unrecognised CSD structure version"));
            }
            card.csd = csd.ok_or(Error::Invalid)?;
            const ULTRA: u32 = HIGH_CAPACITY | OVER_2TB;
            card.extends_addresses = self.kernel.addresses_ultra_capacity()
                && card.csd.ultra_structure
                && answered & ULTRA == ULTRA;
        }
        self.select(card.address)?;
        if old.is_none() {
            self.read_configuration(&mut card)?;
        }
        self.read_switch(&mut card)?;

        self.enter(Phase::BusMode);
        if answered & LOW_VOLTAGE_SIGNALS != 0 && !self.uhs().is_empty() {
            self.enter_uhs(&card)?;
        } else {
            self.enter_high_speed(&card)?;
        }
        self.enter(Phase::Extensions);
        if old.is_none() && card.scr.has_extension_registers() {
            self.read_extensions(&mut card)?;
        }
        if card.extensions.cache.is_some() {
            self.enable_cache(&mut card)?;
        }
        Ok(card)
    }

    /// Sends CMD0, CMD8, ACMD41 and CMD2, with a CMD11 before CMD2 if host and card support 1.8 V. Returns
    /// the CID and the card's response to ACMD41.
    fn identify(&mut self, ocr: u32) -> Result<([u8; 16], u32), Error> {
        const SWITCH_TRIES: u32 = 10;
        let mut tries = SWITCH_TRIES;
        loop {
            if tries == 0 {
                self.note(|| Event::Warning("Skipping voltage switch"));
            }
            self.go_idle();
            let mut asked = ocr;
            if self.send_interface_condition(ocr).is_ok() {
                asked |= HIGH_CAPACITY;
                if self.kernel.addresses_ultra_capacity() {
                    asked |= OVER_2TB;
                }
            }
            if tries > 0 && !self.uhs().is_empty() {
                asked |= LOW_VOLTAGE_SIGNALS;
            }
            if self.controller.current_max_ma > 150 {
                asked |= MAX_POWER;
            }
            let answered = self.operating_condition(asked)?;
            if asked & LOW_VOLTAGE_SIGNALS != 0 && answered & LOW_VOLTAGE_SIGNALS != 0 {
                match self.switch_voltage(ocr) {
                    Ok(()) => {}
                    Err(Error::Again) => {
                        tries -= 1;
                        continue;
                    }
                    Err(_) => {
                        tries = 0;
                        continue;
                    }
                }
            }
            return Ok((self.long_register(opcode::ALL_SEND_CID, 0)?, answered));
        }
    }

    /// Sends CMD11, and switches the signals to 1.8 V while the clock is stopped.
    fn switch_voltage(&mut self, ocr: u32) -> Result<(), Error> {
        let cmd = MmcCommand::new(
            opcode::VOLTAGE_SWITCH,
            0,
            MmcResponseType::R1,
            CommandType::Addressed,
            SpiResponseType::Nothing,
        );
        let switched = match self.command(cmd, 0) {
            Ok(status) if status & Status::ERROR.0 != 0 => return Err(Error::Failed),
            Ok(_) => self.drive_low_voltage(),
            Err(error) => Err(error),
        };
        if switched.is_err() {
            self.note(|| Event::Warning("Signal voltage switch failed, power cycling card"));
            self.power_cycle(ocr);
        }
        switched
    }

    /// Switches the host to 1.8 V. The card holds CMD and DAT low until the host drives 1.8 V and the clock runs again.
    fn drive_low_voltage(&mut self) -> Result<(), Error> {
        self.delay(Duration::from_ms(1));
        if self.controller.senses_busy && !self.native.is_busy() {
            return Err(Error::Again);
        }
        let clock_hz = self.ios.clock_hz;
        self.set_ios(|ios| ios.clock_hz = 0);
        self.ios.signal = Signal::V1_8;
        let ios = self.ios;
        self.native.set_ios(&ios);
        self.note(|| Event::Signal(Signal::V1_8));
        self.delay(Duration::from_ms(10));
        self.set_ios(|ios| ios.clock_hz = clock_hz);
        self.delay(Duration::from_ms(1));
        if self.controller.senses_busy && self.native.is_busy() {
            return Err(Error::Again);
        }
        Ok(())
    }

    /// Reads a register of 16 bytes with CMD2 or CMD9.
    fn long_register(&mut self, index: u8, address: u16) -> Result<[u8; 16], Error> {
        let argument = u32::from(address) << 16;
        let cmd = MmcCommand::new(
            index,
            argument,
            MmcResponseType::R2,
            CommandType::Addressed,
            SpiResponseType::Nothing,
        );
        let words = self.command_long(cmd, RETRIES)?;
        let mut bytes = [0; 16];
        for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().zip(words) {
            *bytes = word.to_be_bytes();
        }
        Ok(bytes)
    }

    /// Sends CMD7.
    fn select(&mut self, address: u16) -> Result<(), Error> {
        let argument = u32::from(address) << 16;
        let cmd = MmcCommand::new(
            opcode::SELECT_CARD,
            argument,
            MmcResponseType::R1,
            CommandType::Addressed,
            SpiResponseType::Nothing,
        );
        self.command(cmd, RETRIES).map(|_| ())
    }

    /// Reads SCR and SD Status, and derives the erase sizes.
    fn read_configuration(&mut self, card: &mut CardInfo) -> Result<(), Error> {
        let limit = card.limit(false, self.ios.clock_hz);
        let cmd = MmcCommand::new(
            opcode::app::SEND_SCR,
            0,
            MmcResponseType::R1,
            CommandType::Data,
            SpiResponseType::R1,
        );
        card.scr_raw = self.read_application(card.address, cmd, limit)?;
        if !self.controller.extension_registers {
            card.scr_raw[3] &= !SCR_EXTENSIONS;
        }
        card.scr = ScrFields::of(&card.scr_raw).ok_or(Error::Invalid)?;
        if !card.scr.widths_are_legal {
            self.note(|| Event::Warning("invalid bus width"));
            return Err(Error::Invalid);
        }
        if card.csd.classes & CsdFields::APPLICATION == 0 {
            self.note(|| Event::Warning("card lacks mandatory SD Status function"));
        } else {
            let cmd = MmcCommand::new(
                opcode::app::SD_STATUS,
                0,
                MmcResponseType::R1,
                CommandType::Data,
                SpiResponseType::R2,
            );
            match self.read_application(card.address, cmd, limit) {
                Ok(raw) => card.ssr_raw = raw,
                Err(_) => self.note(|| Event::Warning("problem reading SD Status register")),
            }
        }
        card.ssr = SsrFields::of(&card.ssr_raw, &card.scr);
        card.erase = EraseSizes::of(&card.csd, &card.ssr);
        Ok(())
    }
}
