//! The host's end of the wires in native (SD bus) mode: one slot with a clock, one or four data lines, and a power
//! supply.
//!
//! [`Native`] holds the simulated time: [`Native::now`] advances with transfers on the wires, with waits, and
//! by [`Native::advance`]. A command with a short response takes [`Bus::command`]. A long response takes 88
//! clocks more. A data block takes [`Bus::read`] or [`Bus::write`]. A card that stores bytes exchanges
//! frames, whose CRC7 and CRC16 are computed and checked at both ends. A card without bytes exchanges typed
//! values, which takes the same time.
//!
//! No setting is rejected. A clock that is too fast for the mode reduces the margins in `signal.rs` until bits are
//! wrong. If card and host disagree about the width, or if only one of them uses DDR50, checksums do not match. If they
//! disagree about the signal voltage, the card does not respond.

mod data;
mod ios;
mod response;

pub use ios::{Ios, Power, Signal, Timing};
pub use response::{Fault, ResponseType};

use crate::bus::Bus;
use crate::card::Card;
use crate::command::{Command, Response, Status};
use crate::opcode;
use crate::register::Voltage;
use crate::signal::{Board, Noise};
use alloc::boxed::Box;
use flashlab_sim::{Duration, Instant, Rng};
use response::typed;

/// Precomputed times of transfers on the wires.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    command: Duration,
    long_command: Duration,
    /// Time of a command without a response.
    bare_command: Duration,
    /// Time until the host gives up waiting for a response.
    unanswered: Duration,
    read_block: Duration,
    write_block: Duration,
}

/// Clocks of the initialisation (section 6.4.1).
const WAKE_CLOCKS: u64 = 74;
/// Clocks until the host gives up waiting for a response: the command itself, and the maximum of N_CR (the
/// time between command and response).
const UNANSWERED_CLOCKS: u64 = 48 + 64;
/// Clocks of a command without a response: the command itself, and the eight clocks before the next command.
const BARE_CLOCKS: u64 = 48 + 8;
/// Additional length of a 136-bit response compared with a 48-bit one.
const LONG_CLOCKS: u64 = 136 - 48;
/// Value of [`Ios::chip_select`] for low.
const CHIP_SELECTED: u8 = 2;

/// The host's end of the wires, with the card in its slot.
#[derive(Debug)]
pub struct Native {
    card: Option<Card>,
    ios: Ios,
    board: Board,
    bus: Bus,
    times: Times,
    /// Time that the host's software spends on each block of 512 bytes while data moves.
    t_block_host: Duration,
    now: Instant,
    /// Time when the card has received the clocks of its initialisation; `None` if the clock has not run since
    /// power-up.
    awake: Option<Instant>,
    /// Access mode of the card when the bit errors were last computed.
    access_mode: u8,
    /// Bit errors on the wires; `None` if there are none.
    noise: Option<Box<Noise>>,
    /// Random generator of the bit errors. The generator is kept while there are no errors, so that later
    /// errors do not repeat earlier ones.
    noise_rng: Option<Rng>,
}

impl Native {
    /// Creates a slot without power, with or without a card in it.
    pub fn new(card: Option<Card>) -> Native {
        let mut native = Native {
            card: None,
            ios: Ios::OFF,
            board: Board::default(),
            bus: Bus { clock_hz: 0, width: 1, ddr: false },
            times: Times::default(),
            t_block_host: Duration::ZERO,
            now: Instant::ZERO,
            awake: None,
            access_mode: 0,
            noise: None,
            noise_rng: None,
        };
        if let Some(card) = card {
            native.insert(card);
        }
        native
    }

    /// Returns the simulated time.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now
    }
    /// Advances the simulated time.
    #[inline]
    pub fn advance(&mut self, by: Duration) {
        self.now = self.now.saturating_add(by);
    }
    /// Returns the settings of the slot.
    pub fn ios(&self) -> &Ios {
        &self.ios
    }
    /// Returns the card in the slot.
    pub fn card(&self) -> Option<&Card> {
        self.card.as_ref()
    }
    /// Returns the card in the slot, mutably.
    pub fn card_mut(&mut self) -> Option<&mut Card> {
        self.card.as_mut()
    }
    /// Returns the bus with its current settings.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }
    /// Returns the signal timing of the host.
    pub fn board(&self) -> &Board {
        &self.board
    }
    /// Changes the signal timing of the host.
    pub fn set_board(&mut self, board: Board) {
        self.board = board;
        self.update_noise();
    }

    /// Inserts a card, which replaces any card in the slot. The card gets power if the slot has power.
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
        self.update_noise();
    }

    /// Removes the card, which loses power at once, even in the middle of an operation.
    pub fn remove(&mut self) -> Option<Card> {
        self.awake = None;
        let mut card = self.card.take()?;
        if card.is_powered() {
            card.power_off(self.now);
        }
        Some(card)
    }

    /// Changes the settings of the slot.
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
        self.update_noise();
    }

    /// Recomputes the times of the wires.
    fn time_wires(&mut self) {
        let bus = &self.bus;
        self.times = Times {
            command: bus.command(),
            long_command: bus.command() + bus.clocks(LONG_CLOCKS),
            bare_command: bus.clocks(BARE_CLOCKS),
            unanswered: bus.clocks(UNANSWERED_CLOCKS),
            read_block: bus.read_block() + self.t_block_host,
            write_block: bus.write_block() + self.t_block_host,
        };
    }

    /// Sets the time that the host adds to each block of 512 bytes, for example the copy by a processor. See
    /// [`crate::Link`].
    pub fn set_t_block_host(&mut self, t_block_host: Duration) {
        self.t_block_host = t_block_host;
        if self.bus.clock_hz > 0 {
            self.time_wires();
        }
    }

    /// Returns a copy of the slot and the card in the same state, without the bytes that the card stores.
    pub fn without_bytes(&self) -> Native {
        Native {
            card: self.card.as_ref().map(Card::without_bytes),
            noise: self.noise.clone(),
            noise_rng: self.noise_rng.clone(),
            ios: self.ios,
            board: self.board,
            bus: self.bus,
            times: self.times,
            t_block_host: self.t_block_host,
            now: self.now,
            awake: self.awake,
            access_mode: self.access_mode,
        }
    }

    /// Starts the initialisation clocks when the clock starts to run, and discards them when the power is off.
    fn wake(&mut self) {
        if self.ios.power == Power::Off {
            self.awake = None;
        } else if self.ios.clock_hz > 0 && self.awake.is_none() {
            self.awake = Some(self.now + self.bus.clocks(WAKE_CLOCKS));
        }
    }

    /// Recomputes the bit errors between host and card.
    fn update_noise(&mut self) {
        let Some(card) = &self.card else { return };
        self.access_mode = card.access_mode();
        if let Some(noise) = self.noise.take() {
            self.noise_rng = Some(noise.into_rng());
        }
        let (identity, seed, rng) = (card.identity(), card.seed(), &mut self.noise_rng);
        self.noise = Noise::new(&self.board, &self.ios, self.access_mode, identity, seed, rng);
    }

    /// Recomputes the bit errors if the card has changed its access mode, by CMD0 or at the end of the data of CMD6.
    #[inline]
    fn update_access_mode(&mut self) {
        if self.card.as_ref().is_some_and(|card| card.access_mode() != self.access_mode) {
            self.update_noise();
        }
    }

    /// Returns the card if it can receive signals from the host.
    #[inline]
    fn receiving_card(&mut self) -> Option<&mut Card> {
        let awake = self.awake.is_some_and(|awake| awake <= self.now);
        let signal = self.ios.signal;
        let receives = self.ios.clock_hz > 0 && awake;
        self.card.as_mut().filter(|card| receives && card.signal() == signal)
    }

    /// Sends a command and waits for its response.
    pub fn command(&mut self, command: Command, expects: ResponseType) -> Result<Response, Fault> {
        let begun = self.now;
        self.now += match expects {
            ResponseType::None => self.times.bare_command,
            ResponseType::R2 => self.times.long_command,
            _ => self.times.command,
        };
        let (now, low) = (self.now, self.ios.chip_select == CHIP_SELECTED);
        let response = match self.receiving_card() {
            Some(card) if low && command.index == opcode::GO_IDLE_STATE => {
                card.set_spi();
                card.command(now, command);
                None
            }
            Some(card) if card.is_spi() => None,
            Some(card) if card.has_bytes() => return self.framed(begun, command, expects),
            Some(card) => card.command(now, command),
            None => None,
        };
        self.update_access_mode();
        if expects == ResponseType::None {
            return Ok(Response::R1(Status::default()));
        }
        let Some(response) = response else {
            return Err(self.unanswered(begun));
        };
        // R3 has no checksum.
        if expects != ResponseType::R3
            && self.card.as_mut().is_some_and(|card| card.quirks_mut().damages_response())
        {
            return Err(Fault::Crc);
        }
        match (expects, response) {
            (ResponseType::R2, Response::R2(_)) | (ResponseType::R3, Response::R3(_)) => Ok(response),
            (ResponseType::R2 | ResponseType::R3, _) | (_, Response::R2(_) | Response::R3(_)) => {
                Err(Fault::Crc)
            }
            (_, short) => Ok(typed(expects, short.word())),
        }
    }

    /// Sends a command as a frame, which bit errors may change, and waits for its response.
    fn framed(&mut self, begun: Instant, command: Command, expects: ResponseType) -> Result<Response, Fault> {
        let now = self.now;
        let Some(card) = &mut self.card else { return Err(Fault::Timeout) };
        let mut sent = command.to_bytes();
        if let Some(noise) = &mut self.noise {
            noise.corrupt_to_card(&mut sent, 1);
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
            noise.corrupt_to_host(frame.bytes_mut(), 1);
        }
        if let Some(frame) = &mut frame
            && expects != ResponseType::R3
            && self.card.as_mut().is_some_and(|card| card.quirks_mut().damages_response())
        {
            frame.bytes_mut()[1] ^= 1;
        }
        self.update_access_mode();
        if expects == ResponseType::None {
            return Ok(Response::R1(Status::default()));
        }
        let Some(frame) = frame else {
            return Err(self.unanswered(begun));
        };
        let answer = match expects {
            ResponseType::R2 => frame.long().map(Response::R2),
            ResponseType::R3 => frame.without_crc().map(Response::R3),
            _ => frame.short(command.index).map(|word| typed(expects, word)),
        };
        answer.ok_or(Fault::Crc)
    }

    /// Ends the wait for a response that does not arrive.
    fn unanswered(&mut self, begun: Instant) -> Fault {
        self.now = begun + self.times.unanswered;
        Fault::Timeout
    }
}
