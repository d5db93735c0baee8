//! Suspend, resume and shutdown: the host notifies or deselects the card, and turns the power off.

use super::card::CardInfo;
use super::command::{CommandType, MmcCommand, MmcResponseType, SpiResponseType};
use super::log::{Event, Phase};
use super::send::RETRIES;
use super::{Error, Mmc};
use flashlab_sd::opcode;

impl Mmc {
    /// Shuts the machine down.
    pub fn shutdown(&mut self) -> Result<(), Error> {
        self.poll();
        self.enter(Phase::Shutdown);
        let slept = self.put_to_sleep();
        if let Err(error) = slept {
            self.note(|| Event::Failure("error {} during shutdown", error));
        }
        self.poll_at = None;
        slept
    }

    /// Suspends the machine. Polling stops until the machine resumes.
    pub fn suspend(&mut self) -> Result<(), Error> {
        self.poll();
        self.enter(Phase::Suspend);
        let slept = self.put_to_sleep();
        if slept.is_ok() {
            self.poll_at = None;
        }
        slept
    }

    /// Resumes the machine. The next use of the card initialises it again; [`Mmc::wake`] does so at once.
    pub fn resume(&mut self) {
        self.enter(Phase::Resume);
        if self.controller.polls {
            self.poll_at = Some(self.now() + super::POLL);
        }
    }

    /// Initialises a suspended card again. If that fails, for example because another card is in the slot, scans the
    /// slot at once: the host drops the old card and initialises the new one.
    pub fn wake(&mut self) -> Result<(), Error> {
        let Some(old) = self.card.take_if(|card| card.suspended) else { return Ok(()) };
        self.enter(Phase::Resume);
        self.power_up(old.ocr);
        let woken = self.init_card(old.ocr, Some(&old));
        match woken {
            Ok(card) => {
                self.card = Some(card);
                Ok(())
            }
            Err(error) => {
                self.note(|| Event::Failure("error {} doing runtime resume", error));
                self.card = Some(CardInfo { suspended: false, ..old });
                self.rescan();
                Err(error)
            }
        }
    }

    /// Wakes a suspended card before a request.
    pub(super) fn awake(&mut self) -> Result<(), Error> {
        let phase = self.phase;
        let woken = self.wake();
        self.enter(phase);
        woken
    }

    fn put_to_sleep(&mut self) -> Result<(), Error> {
        let Some(card) = self.card.clone().filter(|card| !card.suspended) else { return Ok(()) };
        match card.extensions.power_off {
            Some(at) => self.notify_power_off(&card, at)?,
            None => {
                let cmd = MmcCommand::new(
                    opcode::SELECT_CARD,
                    0,
                    MmcResponseType::Nothing,
                    CommandType::Addressed,
                    SpiResponseType::Nothing,
                );
                self.command(cmd, RETRIES)?;
            }
        }
        self.power_off();
        if let Some(card) = &mut self.card {
            card.suspended = true;
        }
        Ok(())
    }
}
