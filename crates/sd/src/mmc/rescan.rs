//! Is there a card in the slot, and of which kind?
//!
//! At 400, then 300, 200 and 100 kHz: reset for SDIO (CMD52), CMD0, a probe for SD Express (CMD8), then SDIO (CMD5), SD
//! (ACMD41), MMC (CMD1). A card that is known is asked whether it is still there.

use super::log::{Event, Phase};
use super::order::{Answer, Order, Reach, SpiAnswer};
use super::send::RETRIES;
use super::{Error, Mmc, POLL};
use flashlab_sim::Duration;

/// The clocks at which cards are looked for, in Hz.
pub(super) const FREQUENCIES: [u32; 4] = [400_000, 300_000, 200_000, 100_000];

impl Mmc {
    /// A scan of the slot; what goes wrong with a card in it, the log tells.
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

    /// A known card that does not answer any more is given up.
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

    /// The supply of the slot fails: the host starts anew with what is in it.
    pub(super) fn cut_power(&mut self) {
        self.card = None;
        self.power_off();
    }

    /// The card is gone.
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

    /// Looks for a card at a clock; whether one was brought up.
    fn try_at(&mut self, hz: u32) -> bool {
        self.enter(Phase::Rescan);
        self.f_init = hz;
        self.note(|| Event::Trying { hz });
        self.power_up(self.ocr);
        self.reset_sdio();
        self.go_idle();
        // SD Express: no host of ours has it; whatever the answer, the scan goes on.
        let _ = self.send_interface_condition(self.ocr);
        if self.probe_sdio() {
            self.note(|| Event::Warning("SDIO cards are not driven"));
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

    /// CMD52: I/O abort and reset in the register CCCR. A memory card does not answer; one try each.
    fn reset_sdio(&mut self) {
        const ABORT: u32 = 6;
        const RESET: u32 = 1 << 3;
        const WRITE: u32 = 1 << 31;
        let order = |argument| Order::new(52, argument, Answer::R5, Reach::Addressed, SpiAnswer::R2);
        let old = self.command(order(ABORT << 9), 0).unwrap_or(0) & 0xff;
        // Nothing depends on its answer.
        let _ = self.command(order(WRITE | ABORT << 9 | old | RESET), 0);
    }

    /// CMD0, with the chip select high so that no card takes it for SPI.
    pub(super) fn go_idle(&mut self) {
        const PAUSE: Duration = Duration::from_ms(1);
        self.set_ios(|ios| ios.chip_select = 1);
        self.delay(PAUSE);
        // Nothing is answered to it.
        let _ = self.command(Order::new(0, 0, Answer::Nothing, Reach::Broadcast, SpiAnswer::R1), 0);
        self.delay(PAUSE);
        self.set_ios(|ios| ios.chip_select = 0);
        self.delay(PAUSE);
    }

    /// CMD8: cards of version 2 on answer with the check pattern.
    pub(super) fn send_interface_condition(&mut self, ocr: u32) -> Result<(), Error> {
        const PATTERN: u32 = 0xaa;
        let voltage = u32::from(ocr & 0x00ff_8000 != 0);
        let order =
            Order::new(8, voltage << 8 | PATTERN, Answer::R7, Reach::BroadcastAnswered, SpiAnswer::Five);
        match self.command(order, 0)? & 0xff {
            PATTERN => Ok(()),
            _ => Err(Error::Failed),
        }
    }

    /// CMD5: only an SDIO card answers.
    fn probe_sdio(&mut self) -> bool {
        let order = Order::new(5, 0, Answer::R4, Reach::BroadcastAnswered, SpiAnswer::Five);
        self.command(order, RETRIES).is_ok()
    }

    /// ACMD41 until the card is initialised, for up to a second; with 0, once, to hear its voltages.
    pub(super) fn operating_condition(&mut self, ocr: u32) -> Result<u32, Error> {
        const TRIES: u32 = 100;
        const INITIALISED: u32 = 1 << 31;
        let order = Order::new(41, ocr, Answer::R3, Reach::BroadcastAnswered, SpiAnswer::R1);
        for _ in 0..TRIES {
            let answer = self.application(None, order)?;
            if ocr == 0 || answer & INITIALISED != 0 {
                return Ok(answer);
            }
            self.delay(Duration::from_ms(10));
        }
        self.note(|| Event::Warning("card never left busy state"));
        Err(Error::Timeout)
    }

    /// CMD1: only an MMC answers.
    fn probe_mmc(&mut self) {
        self.set_ios(|ios| ios.push_pull = false);
        let order = Order::new(1, 0, Answer::R3, Reach::BroadcastAnswered, SpiAnswer::R1);
        if self.command(order, 0).is_ok() {
            self.note(|| Event::Warning("MMC cards are not driven"));
        }
    }
}
