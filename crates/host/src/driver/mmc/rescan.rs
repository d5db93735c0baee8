//! Rescan: the host detects a card in the slot and determines its type.
//!
//! At 400 kHz, and then at 300, 200 and 100 kHz, the host sends a reset for SDIO (CMD52), CMD0, and a probe for SD
//! Express (CMD8), and then probes for SDIO (CMD5), SD (ACMD41) and MMC (CMD1). If a card is already initialised, the
//! host checks that it is still present.

use super::command::{CommandType, MmcCommand, MmcResponseType, SpiResponseType};
use super::log::{Event, Phase};
use super::send::RETRIES;
use super::{Error, Mmc, POLL};
use flashlab_sd::opcode;
use flashlab_sim::Duration;

/// Clock rates for the scan, in Hz.
pub(super) const FREQUENCIES: [u32; 4] = [400_000, 300_000, 200_000, 100_000];

impl Mmc {
    /// Scans the slot for a card. Errors of the card appear only in the log.
    pub fn rescan(&mut self) {
        if self.card.is_some() {
            self.detect();
        }
        if self.card.is_none() {
            self.scan();
        }
        if self.controller.polls {
            self.poll_at = Some(self.now() + POLL);
        }
    }

    /// Drops an initialised card that no longer responds.
    fn detect(&mut self) {
        self.enter(Phase::Detect);
        let Some(card) = &self.card else { return };
        if card.suspended {
            return;
        }
        let address = card.address;
        if self.status(address, RETRIES).is_err() {
            self.note(|| Event::RemoveDetected);
            self.forget();
        }
    }

    /// Cuts the power supply of the slot. The host drops its card.
    pub(super) fn cut_power(&mut self) {
        self.card = None;
        self.power_off();
    }

    /// Drops the card after its removal.
    pub(super) fn forget(&mut self) {
        if let Some(card) = self.card.take() {
            self.note(|| Event::Removed { address: card.address });
            self.power_off();
        }
    }

    fn scan(&mut self) {
        if self.controller.detects_card && self.native.card().is_none() {
            self.power_off();
            return;
        }
        let (f_min, f_max) = (self.controller.f_min, self.controller.f_max);
        for (n, frequency) in FREQUENCIES.into_iter().enumerate() {
            if frequency > f_max && n + 1 < FREQUENCIES.len() {
                continue;
            }
            if self.try_at(frequency.min(f_max).max(f_min)) {
                self.begin_block_device();
                return;
            }
            if frequency <= f_min {
                return;
            }
        }
    }

    /// Scans for a card at a clock rate. Returns true if a card was initialised.
    fn try_at(&mut self, hz: u32) -> bool {
        self.enter(Phase::Rescan);
        self.f_init = hz;
        self.note(|| Event::Trying { hz });
        self.power_up(self.ocr);
        self.reset_sdio();
        self.go_idle();
        // Probe for SD Express, which no modelled host supports. The scan continues whatever the response is.
        let _ = self.send_interface_condition(self.ocr);
        if self.probe_sdio() {
            self.note(|| Event::Warning("SDIO cards are not supported"));
        } else {
            if let Ok(ocr) = self.operating_condition(0) {
                match self.attach_sd(ocr) {
                    Ok(()) => return true,
                    Err(error) => self.note(|| Event::Failure("error {} whilst initialising SD card", error)),
                }
                self.enter(Phase::Rescan);
            }
            self.probe_mmc();
        }
        self.power_off();
        false
    }

    /// Resets an SDIO card: reads the I/O abort register in the CCCR and sets its reset bit (CMD52). A memory card does
    /// not respond. Neither command is retried.
    fn reset_sdio(&mut self) {
        const ABORT: u32 = 6;
        const RESET: u32 = 1 << 3;
        const WRITE: u32 = 1 << 31;
        let cmd = |argument| {
            MmcCommand::new(
                opcode::IO_RW_DIRECT,
                argument,
                MmcResponseType::R5,
                CommandType::Addressed,
                SpiResponseType::R2,
            )
        };
        let old = self.command(cmd(ABORT << 9), 0).unwrap_or(0) & 0xff;
        // The response has no effect.
        let _ = self.command(cmd(WRITE | ABORT << 9 | old | RESET), 0);
    }

    /// Sends CMD0 with chip select high, so that the card does not enter SPI mode.
    pub(super) fn go_idle(&mut self) {
        const PAUSE: Duration = Duration::from_ms(1);
        self.set_ios(|ios| ios.chip_select = 1);
        self.delay(PAUSE);
        // CMD0 has no response.
        let _ = self.command(
            MmcCommand::new(
                opcode::GO_IDLE_STATE,
                0,
                MmcResponseType::Nothing,
                CommandType::Broadcast,
                SpiResponseType::R1,
            ),
            0,
        );
        self.delay(PAUSE);
        self.set_ios(|ios| ios.chip_select = 0);
        self.delay(PAUSE);
    }

    /// Sends CMD8. Cards of version 2 and above respond with the check pattern.
    pub(super) fn send_interface_condition(&mut self, ocr: u32) -> Result<(), Error> {
        const PATTERN: u32 = 0xaa;
        let voltage = u32::from(ocr & 0x00ff_8000 != 0);
        let cmd = MmcCommand::new(
            opcode::SEND_IF_COND,
            voltage << 8 | PATTERN,
            MmcResponseType::R7,
            CommandType::BroadcastWithResponse,
            SpiResponseType::Five,
        );
        match self.command(cmd, 0)? & 0xff {
            PATTERN => Ok(()),
            _ => Err(Error::Failed),
        }
    }

    /// Sends CMD5. Only an SDIO card responds.
    fn probe_sdio(&mut self) -> bool {
        let cmd = MmcCommand::new(
            opcode::IO_SEND_OP_COND,
            0,
            MmcResponseType::R4,
            CommandType::BroadcastWithResponse,
            SpiResponseType::Five,
        );
        self.command(cmd, RETRIES).is_ok()
    }

    /// Sends ACMD41 until the card is initialised, for up to a second. If `ocr` is 0, sends it once to read the
    /// voltages.
    pub(super) fn operating_condition(&mut self, ocr: u32) -> Result<u32, Error> {
        const TRIES: u32 = 100;
        const INITIALISED: u32 = 1 << 31;
        let cmd = MmcCommand::new(
            opcode::app::SD_SEND_OP_COND,
            ocr,
            MmcResponseType::R3,
            CommandType::BroadcastWithResponse,
            SpiResponseType::R1,
        );
        for _ in 0..TRIES {
            let answer = self.application(None, cmd)?;
            if ocr == 0 || answer & INITIALISED != 0 {
                return Ok(answer);
            }
            self.delay(Duration::from_ms(10));
        }
        self.note(|| Event::Warning("card never left busy state"));
        Err(Error::Timeout)
    }

    /// Sends CMD1. Only an MMC card responds.
    fn probe_mmc(&mut self) {
        self.set_ios(|ios| ios.push_pull = false);
        let cmd = MmcCommand::new(
            opcode::SEND_OP_COND,
            0,
            MmcResponseType::R3,
            CommandType::BroadcastWithResponse,
            SpiResponseType::R1,
        );
        if self.command(cmd, 0).is_ok() {
            self.note(|| Event::Warning("MMC cards are not supported"));
        }
    }
}
