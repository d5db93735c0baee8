//! The host's end of the wires in native (SD bus) mode: one slot, a clock, one or four data lines, a supply.
//!
//! Time is here: [`Native::now`] moves on with what goes over the wires, with waiting, and by [`Native::advance`]. A command
//! with a short response takes [`Bus::command`], a long response 88 clocks more; a data block [`Bus::read`] or
//! [`Bus::write`]. A card with bytes is spoken to in frames, whose CRC7 and CRC16 are made and checked at both ends; one
//! without is spoken to in types, which takes the same time.
//!
//! Nothing is forbidden: a clock that is too fast for the mode shrinks the margins in `signal.rs` until bits are wrong; a width
//! or an access mode that card and host do not agree on gives checksums that do not match; a signal voltage that they do
//! not agree on, no answer at all.

mod answer;
mod data;
mod ios;

pub use answer::{Expects, Fault};
pub use ios::{Ios, Power, Signal, Timing};

use crate::bus::Bus;
use crate::card::Card;
use crate::command::{Command, Response, Status};
use crate::register::Voltage;
use crate::signal::{Board, Noise};
use alloc::boxed::Box;
use answer::typed;
use flashlab_sim::{Duration, Instant};

/// The wires' times, worked out once.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    command: Duration,
    long_command: Duration,
    /// Without a response.
    bare_command: Duration,
    /// Until the host gives up on a response.
    unanswered: Duration,
    read_block: Duration,
    write_block: Duration,
}

/// The clocks of initialisation: section 6.4.1.
const WAKE_CLOCKS: u64 = 74;
/// N_CR at most, and the command itself.
const UNANSWERED_CLOCKS: u64 = 48 + 64;
/// The command, and eight clocks before the next one.
const BARE_CLOCKS: u64 = 48 + 8;
/// What a response of 136 bits is longer than one of 48.
const LONG_CLOCKS: u64 = 136 - 48;
/// Chip select low.
const CHIP_SELECTED: u8 = 2;

/// The host's end.
#[derive(Debug)]
pub struct Native {
    card: Option<Card>,
    ios: Ios,
    board: Board,
    bus: Bus,
    times: Times,
    /// What the host's software spends on each block of 512 bytes while the data moves.
    pace: Duration,
    now: Instant,
    /// When the card has seen the clocks that it needs to wake; `None` while there are none.
    awake: Option<Instant>,
    /// The access mode of the card, as of when the bits were last looked at.
    access_mode: u8,
    /// What is wrong with the bits; `None`: nothing.
    noise: Option<Box<Noise>>,
}

impl Native {
    /// A slot without power, with or without a card in it.
    pub fn new(card: Option<Card>) -> Native {
        let mut native = Native {
            card: None,
            ios: Ios::OFF,
            board: Board::default(),
            bus: Bus { clock_hz: 0, width: 1, ddr: false },
            times: Times::default(),
            pace: Duration::ZERO,
            now: Instant::ZERO,
            awake: None,
            access_mode: 0,
            noise: None,
        };
        if let Some(card) = card {
            native.insert(card);
        }
        native
    }

    /// The time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now
    }
    /// Lets time pass.
    #[inline]
    pub fn advance(&mut self, by: Duration) {
        self.now = self.now.saturating_add(by);
    }
    /// How the slot is driven.
    pub fn ios(&self) -> &Ios {
        &self.ios
    }
    /// The card in the slot.
    pub fn card(&self) -> Option<&Card> {
        self.card.as_ref()
    }
    /// The card in the slot.
    pub fn card_mut(&mut self) -> Option<&mut Card> {
        self.card.as_mut()
    }
    /// The wires as they are driven.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }
    /// What the host's own half of the signals is like.
    pub fn board(&self) -> &Board {
        &self.board
    }
    /// Changes the host's own half of the signals.
    pub fn set_board(&mut self, board: Board) {
        self.board = board;
        self.listen();
    }

    /// Puts a card in the slot, and gives it power if that has any. One that was there is gone.
    pub fn insert(&mut self, mut card: Card) {
        self.remove();
        if self.ios.power != Power::Off
            && let Some(voltage) = Voltage::of_vdd(self.ios.vdd)
        {
            card.power_on(self.now, voltage);
            card.set_command_time(self.times.command);
        }
        self.card = Some(card);
        self.wake();
        self.listen();
    }

    /// Takes the card out, at whatever it does: it has no power from now on.
    pub fn remove(&mut self) -> Option<Card> {
        self.awake = None;
        let mut card = self.card.take()?;
        if card.is_powered() {
            card.power_off(self.now);
        }
        Some(card)
    }

    /// Drives the slot otherwise.
    pub fn set_ios(&mut self, ios: &Ios) {
        let before = core::mem::replace(&mut self.ios, *ios);
        let ddr = ios.timing == Timing::Ddr50;
        self.bus = Bus { clock_hz: u64::from(ios.clock_hz), width: u32::from(ios.width.max(1)), ddr };
        if ios.clock_hz > 0
            && (ios.clock_hz, ios.width, ios.timing) != (before.clock_hz, before.width, before.timing)
        {
            self.time_wires();
        }
        if let Some(card) = &mut self.card {
            let voltage = Voltage::of_vdd(ios.vdd).filter(|_| ios.power != Power::Off);
            match voltage {
                Some(voltage) => card.power_on(self.now, voltage),
                None if card.is_powered() => {
                    card.power_off(self.now);
                }
                None => {}
            }
            card.set_command_time(self.times.command);
            if ios.signal != before.signal {
                card.set_signal(ios.signal);
            }
        }
        self.wake();
        self.listen();
    }

    /// Works the times of the wires out.
    fn time_wires(&mut self) {
        let bus = &self.bus;
        self.times = Times {
            command: bus.command(),
            long_command: bus.command() + bus.clocks(LONG_CLOCKS),
            bare_command: bus.clocks(BARE_CLOCKS),
            unanswered: bus.clocks(UNANSWERED_CLOCKS),
            read_block: bus.read_block() + self.pace,
            write_block: bus.write_block() + self.pace,
        };
    }

    /// Takes so long for each block of 512 bytes beside the wires: a processor that copies it. See [`crate::Link`].
    pub fn set_pace(&mut self, pace: Duration) {
        self.pace = pace;
        if self.bus.clock_hz > 0 {
            self.time_wires();
        }
    }

    /// The same slot and card, in the same state, but for the card's bytes: the copy carries none.
    pub fn without_bytes(&self) -> Native {
        Native {
            card: self.card.as_ref().map(Card::without_bytes),
            noise: self.noise.clone(),
            ios: self.ios,
            board: self.board,
            bus: self.bus,
            times: self.times,
            pace: self.pace,
            now: self.now,
            awake: self.awake,
            access_mode: self.access_mode,
        }
    }

    /// The clock begins to run, or the power is gone.
    fn wake(&mut self) {
        if self.ios.power == Power::Off {
            self.awake = None;
        } else if self.ios.clock_hz > 0 && self.awake.is_none() {
            self.awake = Some(self.now + self.bus.clocks(WAKE_CLOCKS));
        }
    }

    /// How well the host hears the card, and the card the host.
    fn listen(&mut self) {
        let Some(card) = &self.card else { return };
        self.access_mode = card.access_mode();
        let rng = self.noise.take().map(|noise| noise.into_rng());
        self.noise = Noise::new(&self.board, &self.ios, self.access_mode, card.identity(), card.seed(), rng);
    }

    /// The card may have changed its access mode: by CMD0, or with the end of CMD6's data.
    #[inline]
    fn notice(&mut self) {
        if self.card.as_ref().is_some_and(|card| card.access_mode() != self.access_mode) {
            self.listen();
        }
    }

    /// The card, if it can hear the host.
    #[inline]
    fn listener(&mut self) -> Option<&mut Card> {
        let awake = self.awake.is_some_and(|awake| awake <= self.now);
        let signal = self.ios.signal;
        let hears = self.ios.clock_hz > 0 && awake;
        self.card.as_mut().filter(|card| hears && card.signal() == signal)
    }

    /// Sends a command and waits for its response.
    pub fn command(&mut self, command: Command, expects: Expects) -> Result<Response, Fault> {
        let begun = self.now;
        self.now += match expects {
            Expects::None => self.times.bare_command,
            Expects::R2 => self.times.long_command,
            _ => self.times.command,
        };
        let (now, low) = (self.now, self.ios.chip_select == CHIP_SELECTED);
        let response = match self.listener() {
            Some(card) if low && command.index == 0 => {
                card.set_spi();
                card.command(now, command);
                None
            }
            Some(card) if card.is_spi() => None,
            Some(card) if card.has_bytes() => return self.framed(begun, command, expects),
            Some(card) => card.command(now, command),
            None => None,
        };
        self.notice();
        if expects == Expects::None {
            return Ok(Response::R1(Status::default()));
        }
        let Some(response) = response else {
            return Err(self.unanswered(begun));
        };
        if self.card.as_mut().is_some_and(|card| card.quirks_mut().damages_response()) {
            return Err(Fault::Crc);
        }
        match (expects, response) {
            (Expects::R2, Response::R2(_)) | (Expects::R3, Response::R3(_)) => Ok(response),
            (Expects::R2, _) | (_, Response::R2(_) | Response::R3(_)) => Err(Fault::Crc),
            (_, short) => Ok(typed(expects, short.word())),
        }
    }

    /// The same bit by bit.
    fn framed(&mut self, begun: Instant, command: Command, expects: Expects) -> Result<Response, Fault> {
        let now = self.now;
        let Some(card) = &mut self.card else { return Err(Fault::Timeout) };
        let mut sent = command.to_bytes();
        if let Some(noise) = &mut self.noise {
            noise.reaches_card(&mut sent, 1);
        }
        let response = match Command::from_bytes(&sent) {
            Some(command) => card.command(now, command),
            None => {
                card.crc_error(now);
                None
            }
        };
        let index = sent[0] & 0x3f;
        let mut frame = response.map(|response| response.to_frame(index));
        if let (Some(noise), Some(frame)) = (&mut self.noise, &mut frame) {
            noise.reaches_host(frame.bytes_mut(), 1);
        }
        if let Some(frame) = &mut frame
            && self.card.as_mut().is_some_and(|card| card.quirks_mut().damages_response())
        {
            frame.bytes_mut()[1] ^= 1;
        }
        self.notice();
        if expects == Expects::None {
            return Ok(Response::R1(Status::default()));
        }
        let Some(frame) = frame else {
            return Err(self.unanswered(begun));
        };
        let answer = match expects {
            Expects::R2 => frame.long().map(Response::R2),
            Expects::R3 => frame.without_crc().map(Response::R3),
            _ => frame.short(command.index).map(|word| typed(expects, word)),
        };
        answer.ok_or(Fault::Crc)
    }

    /// The host gives up, no sooner than the command was sent.
    fn unanswered(&mut self, begun: Instant) -> Fault {
        self.now = begun + self.times.unanswered;
        Fault::Timeout
    }
}
