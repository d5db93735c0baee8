//! A host stack like Linux' mmc core: what a driver developer sees happen between host and card.
//!
//! [`Mmc`] drives a card slot ([`Native`]) by the description of a [`Controller`] and in the manner of a [`Kernel`]: power,
//! rescan, bring-up, block requests, erase, suspend, removal, with Linux' retries. It was written from what Linux does, as
//! its log shows it (`tests/traces`), and prints the same lines ([`Entry::linux`]).
//!
//! Guarantees: the same commands in the same order as Linux for the cards of the recorded logs (docs/sd-commands.md lists the
//! exceptions); a request of the block layer either did what it was asked to or says that it failed.
//!
//! Left out: SDIO and MMC cards beyond their probe, SPI, command queueing, UHS-II, periodic re-tuning, packed and asynchronous
//! requests; the time that software takes, but for its pace on the wires ([`MmcModel`]).

mod attach;
mod block;
mod bus_mode;
mod card;
mod controller;
mod decoded;
mod discard;
mod erase;
mod error;
mod extension;
mod kernel;
mod log;
mod model;
mod order;
mod rescan;
mod send;
mod sleep;

pub use block::BlockError;
pub use card::{Attached, Capacity};
pub use controller::Controller;
pub use decoded::{CidFields, CsdFields, ScrFields, SsrFields, SwitchFields};
pub use erase::EraseSizes;
pub use error::Error;
pub use kernel::Kernel;
pub use log::{Done, Entry, Event, Outcome, Phase, name_of, size};
pub use model::MmcModel;
pub use order::{Answer, Data, Direction, MmcRequest, Order, Reach, SpiAnswer};

use crate::{Card, Ios, Native, Power, Signal, Timing};
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant};

/// How often the core looks for cards where the slot does not tell.
const POLL: Duration = Duration::from_secs(1);
/// What the supply takes to become stable.
const POWER_DELAY: Duration = Duration::from_ms(10);

/// A host with one slot.
pub struct Mmc {
    native: Native,
    controller: Controller,
    kernel: Kernel,
    log: Option<Vec<Entry>>,
    phase: Phase,
    ios: Ios,
    /// The clock at which cards are looked for.
    f_init: u32,
    /// The voltages that may be used, as bits of the OCR.
    ocr: u32,
    card: Option<Attached>,
    /// When the slot is asked next.
    poll_at: Option<Instant>,
    /// Data commands of the block layer.
    transfers: u64,
}

impl Mmc {
    /// A host that is off, with what is in the slot of `native`.
    pub fn new(native: Native, controller: Controller, kernel: Kernel) -> Self {
        Mmc {
            native,
            controller,
            kernel,
            log: None,
            phase: Phase::StartHost,
            ios: Ios {
                clock_hz: 0,
                width: 1,
                timing: Timing::Legacy,
                signal: Signal::V3_3,
                power: Power::Off,
                vdd: 0,
                push_pull: true,
                chip_select: 0,
            },
            f_init: controller.f_min.max(controller.f_max.min(rescan::FREQUENCIES[0])),
            ocr: controller.ocr,
            card: None,
            poll_at: None,
            transfers: 0,
        }
    }

    /// Notes down from now on what happens.
    pub fn keep_log(&mut self) {
        self.log.get_or_insert_default();
    }

    /// The same host and card in the same state, but for the card's bytes and the log.
    pub fn without_bytes(&self) -> Mmc {
        Mmc { native: self.native.without_bytes(), log: None, card: self.card.clone(), ..*self }
    }

    /// What was noted down since this was last asked.
    pub fn take_log(&mut self) -> Vec<Entry> {
        self.log.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// The card that was brought up.
    pub fn card(&self) -> Option<&Attached> {
        self.card.as_ref()
    }

    /// The wires and what is in the slot.
    pub fn native(&self) -> &Native {
        &self.native
    }

    /// The same, to be changed: its card's faults, its power.
    pub fn native_mut(&mut self) -> &mut Native {
        &mut self.native
    }

    /// Clock, width and voltage as they are set.
    pub fn ios(&self) -> &Ios {
        &self.ios
    }

    /// How many data commands block requests have become, those that were tried again included.
    pub fn transfers(&self) -> u64 {
        self.transfers
    }

    /// The controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// The host's time.
    pub fn now(&self) -> Instant {
        self.native.now()
    }

    /// Loading the driver: power for the slot, then a first scan. Not finding a card is no error.
    pub fn start_host(&mut self) {
        self.phase = Phase::StartHost;
        if self.controller.powered_before_scan {
            self.power_up(self.ocr);
        }
        self.rescan();
    }

    /// Puts a card into the slot, and scans it, as a slot that tells does; where it does not, the next poll finds the card.
    pub fn insert(&mut self, card: Card) {
        self.native.insert(card);
        if !self.controller.polls {
            self.rescan();
        }
    }

    /// Takes the card out of the slot, at once or in the middle of what it does.
    pub fn remove(&mut self) -> Option<Card> {
        let card = self.native.remove();
        if !self.controller.polls {
            self.rescan();
        }
        card
    }

    /// Lets time pass; where the slot is polled, it is once a second.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now() + time;
        while let Some(at) = self.poll_at.filter(|at| *at <= end) {
            self.delay(at.saturating_since(self.now()));
            self.rescan();
        }
        self.delay(end.saturating_since(self.now()));
    }

    /// Polls the slot where that is due: between two requests.
    fn poll(&mut self) {
        if self.poll_at.is_some_and(|at| at <= self.now()) {
            let phase = self.phase;
            self.rescan();
            self.phase = phase;
        }
    }

    fn delay(&mut self, time: Duration) {
        self.native.advance(time);
    }

    fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(log) = &mut self.log {
            log.push(Entry { at: self.native.now(), phase: self.phase, event: event() });
        }
    }

    /// Sets the wires as `change` has them.
    fn set_ios(&mut self, change: impl FnOnce(&mut Ios)) {
        change(&mut self.ios);
        let ios = self.ios;
        self.note(|| Event::Ios(ios));
        self.native.set_ios(&ios);
    }

    /// The highest clock of the controller that is not above `hz`.
    fn set_clock(&mut self, hz: u32) {
        let hz = hz.min(self.controller.f_max);
        self.set_ios(|ios| ios.clock_hz = hz);
    }

    /// One line, default speed, push-pull.
    fn initial_state(&mut self) {
        self.set_ios(|ios| {
            ios.chip_select = 0;
            ios.push_pull = true;
            ios.width = 1;
            ios.timing = Timing::Legacy;
        });
    }

    /// Power at the highest of the voltages in `ocr`, and a clock of at least 74 periods.
    fn power_up(&mut self, ocr: u32) {
        if self.ios.power == Power::On {
            return;
        }
        self.ios.vdd = ocr.checked_ilog2().unwrap_or(0) as u8;
        self.ios.power = Power::Up;
        self.ios.signal = Signal::V3_3;
        self.initial_state();
        self.note(|| Event::Signal(Signal::V3_3));
        self.delay(POWER_DELAY);
        let clock_hz = self.f_init;
        self.set_ios(|ios| {
            ios.clock_hz = clock_hz;
            ios.power = Power::On;
        });
        self.delay(POWER_DELAY);
    }

    fn power_off(&mut self) {
        if self.ios.power == Power::Off {
            return;
        }
        self.ios.clock_hz = 0;
        self.ios.vdd = 0;
        self.ios.power = Power::Off;
        self.initial_state();
        self.delay(Duration::from_ms(1));
    }

    fn power_cycle(&mut self, ocr: u32) {
        self.power_off();
        self.delay(Duration::from_ms(1));
        self.power_up(ocr);
    }
}
