//! A host stack that behaves like the mmc core of Linux, so that a driver developer sees the same exchange between host
//! and card.
//!
//! [`Mmc`] drives a card slot ([`Native`]) with the properties of a [`Controller`] and the behaviour of a [`Kernel`]:
//! power, rescan, initialisation, block requests, erase, suspend and removal, with the retries of Linux. It was written
//! from the observed behaviour of Linux, as recorded in its logs (`crates/lab/tests/traces`), and it prints the same
//! lines ([`Entry::linux`]).
//!
//! # Guarantees
//! - For the cards of the recorded logs, the stack sends the same commands in the same order as Linux
//!   (docs/sd-commands.md lists the exceptions).
//! - A request of the block layer either succeeds completely or reports an error.
//!
//! # Not modelled
//! SDIO and MMC cards beyond their probe, SPI, command queueing, UHS-II, periodic re-tuning, packed and asynchronous
//! requests. Software takes no time, except for the time per block that the host adds on the wires ([`MmcModel`]).

mod attach;
mod block;
mod bus_mode;
mod card;
mod command;
mod controller;
mod decoded;
mod discard;
mod erase;
mod error;
mod extension;
mod kernel;
mod log;
mod model;
mod rescan;
mod send;
mod sleep;

pub use block::BlockError;
pub use card::{Capacity, CardInfo};
pub use command::{CommandType, Data, Direction, MmcCommand, MmcRequest, MmcResponseType, SpiResponseType};
pub use controller::Controller;
pub use decoded::{CidFields, CsdFields, ScrFields, SsrFields, SwitchFields};
pub use erase::EraseSizes;
pub use error::Error;
pub use kernel::Kernel;
pub use log::{Done, Entry, Event, Outcome, Phase, name_of, size};
pub use model::MmcModel;

use alloc::vec::Vec;
use flashlab_sd::{Card, Ios, Native, Power, Signal, Timing};
use flashlab_sim::{Duration, Instant};

/// Interval at which the core polls the slot of a controller with [`Controller::polls`].
const POLL: Duration = Duration::from_secs(1);
/// Time for the power supply to become stable.
const POWER_DELAY: Duration = Duration::from_ms(10);

/// A host with one slot.
pub struct Mmc {
    native: Native,
    controller: Controller,
    kernel: Kernel,
    log: Option<Vec<Entry>>,
    phase: Phase,
    ios: Ios,
    /// Clock rate for the initialisation of cards.
    f_init: u32,
    /// Supported voltages, as bits of the OCR.
    ocr: u32,
    card: Option<CardInfo>,
    /// Time of the next poll.
    poll_at: Option<Instant>,
    /// Number of data commands for block requests.
    transfers: u64,
}

impl Mmc {
    /// Creates a host without power. The card in the slot of `native`, if any, stays there.
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

    /// Starts to log events.
    pub fn keep_log(&mut self) {
        self.log.get_or_insert_default();
    }

    /// Returns a copy of the host and the card in the same state, without the stored bytes and the log.
    pub fn without_bytes(&self) -> Mmc {
        Mmc { native: self.native.without_bytes(), log: None, card: self.card.clone(), ..*self }
    }

    /// Returns the log entries since the last call, and removes them.
    pub fn take_log(&mut self) -> Vec<Entry> {
        self.log.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Returns the initialised card.
    pub fn card(&self) -> Option<&CardInfo> {
        self.card.as_ref()
    }

    /// Returns the slot with its wires and its card.
    pub fn native(&self) -> &Native {
        &self.native
    }

    /// Returns the slot mutably, for example to change the card's quirks or its power.
    pub fn native_mut(&mut self) -> &mut Native {
        &mut self.native
    }

    /// Returns the current clock, width and voltage.
    pub fn ios(&self) -> &Ios {
        &self.ios
    }

    /// Returns the number of data commands sent for block requests, including retries.
    pub fn transfers(&self) -> u64 {
        self.transfers
    }

    /// Returns the controller.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Returns the time of the host.
    pub fn now(&self) -> Instant {
        self.native.now()
    }

    /// Loads the driver: powers the slot and scans it. An empty slot is not an error.
    pub fn start_host(&mut self) {
        self.phase = Phase::StartHost;
        if self.controller.powered_before_scan {
            self.power_up(self.ocr);
        }
        self.rescan();
    }

    /// Inserts a card. The next poll finds it if the controller polls ([`Controller::polls`]); otherwise the slot is
    /// scanned at once.
    pub fn insert(&mut self, card: Card) {
        self.native.insert(card);
        if !self.controller.polls {
            self.rescan();
        }
    }

    /// Removes the card, even in the middle of an operation.
    pub fn remove(&mut self) -> Option<Card> {
        let card = self.native.remove();
        if !self.controller.polls {
            self.rescan();
        }
        card
    }

    /// Advances the time. A polled slot is polled once per second.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now() + time;
        while let Some(at) = self.poll_at.filter(|at| *at <= end) {
            self.delay(at.saturating_since(self.now()));
            self.rescan();
        }
        self.delay(end.saturating_since(self.now()));
    }

    /// Polls the slot if a poll is due. Operations call this function before they send commands.
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

    /// Applies `change` to the settings of the bus.
    fn set_ios(&mut self, change: impl FnOnce(&mut Ios)) {
        change(&mut self.ios);
        let ios = self.ios;
        self.note(|| Event::Ios(ios));
        self.native.set_ios(&ios);
    }

    /// Sets the clock to `hz`, or to the controller's maximum if that is lower.
    fn set_clock(&mut self, hz: u32) {
        let hz = hz.min(self.controller.f_max);
        self.set_ios(|ios| ios.clock_hz = hz);
    }

    /// Sets one data line, default speed, and push-pull.
    fn initial_state(&mut self) {
        self.set_ios(|ios| {
            ios.chip_select = 0;
            ios.push_pull = true;
            ios.width = 1;
            ios.timing = Timing::Legacy;
        });
    }

    /// Powers the slot at the highest voltage in `ocr`, and gives the card at least 74 clocks.
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
