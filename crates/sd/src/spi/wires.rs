//! The wires of SPI mode, byte by byte.

use crate::card::{Card, CrcStatus, Transfer};
use crate::command::{Command, Response, Status};
use crate::crc::crc16;
use crate::opcode;
use crate::register::Voltage;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant};

/// Effect of a rising chip select on a transfer and on an incomplete command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ChipSelect {
    /// The transfer ends, and the card discards the command.
    #[default]
    EndsTransfers,
    /// No effect: the card waits for the next clocks.
    Pauses,
}

/// Tokens of section 7.3.3.2.
mod token {
    pub(super) const START: u8 = 0xfe;
    pub(super) const START_MULTIPLE: u8 = 0xfc;
    pub(super) const STOP: u8 = 0xfd;
    pub(super) const ACCEPTED: u8 = 0b0000_0101;
    pub(super) const CRC_ERROR: u8 = 0b0000_1011;
    pub(super) const WRITE_ERROR: u8 = 0b0000_1101;
}

/// Bits of R1 (section 7.3.2.1) that this module sets.
mod r1 {
    pub(super) const IDLE: u8 = 1 << 0;
    pub(super) const ILLEGAL_COMMAND: u8 = 1 << 2;
    pub(super) const CRC_ERROR: u8 = 1 << 3;
}

/// An idle line: neither side drives it low.
const HIGH: u8 = 0xff;
/// The busy signal.
const LOW: u8 = 0x00;
/// Byte that some cards send before a response. It is not an R1, since its first bit is set.
const GARBAGE: u8 = 0xc1;
/// Clocks that a card needs before its first command.
const CLOCKS_BEFORE_COMMANDS: u64 = 74;
/// Commands whose CRC7 is always checked: CMD0 and CMD8.
const ALWAYS_CHECKED: [u8; 2] = [opcode::GO_IDLE_STATE, opcode::SEND_IF_COND];

/// Input that the card expects.
#[derive(Clone, Debug)]
enum Phase {
    /// Commands.
    Commands,
    /// The card sends blocks. The host may send commands.
    Sending,
    /// The card should send blocks, but never will. The host may send commands.
    Lost,
    /// A token or a command.
    Token,
    /// Bytes of a block and its CRC16.
    Block { bytes: Vec<u8>, length: usize },
}

/// The host's end of the wires, with the card at the other end.
#[derive(Debug)]
pub struct Spi {
    card: Option<Card>,
    now: Instant,
    clock_hz: u64,
    chip_select: ChipSelect,
    selected: bool,
    /// Number of clocks since the card got power.
    clocks: u64,
    /// Number of times that the card had got power when the clocks were last counted.
    power_ups: u64,
    checks: bool,
    application: bool,
    /// True if the last command, other than CMD13 and CMD55, was CMD25.
    multiple: bool,
    /// True if the last command was illegal and the card reports it again in the next response.
    late_illegal: bool,
    frame: Vec<u8>,
    output: VecDeque<u8>,
    phase: Phase,
}

impl Spi {
    /// Creates the wires with a powered card, or with an empty slot.
    pub fn new(card: Option<Card>, clock_hz: u32) -> Spi {
        let mut spi = Spi {
            card: None,
            now: Instant::ZERO,
            clock_hz: u64::from(clock_hz).max(1),
            chip_select: ChipSelect::default(),
            selected: false,
            clocks: 0,
            power_ups: 0,
            checks: false,
            application: false,
            multiple: false,
            late_illegal: false,
            frame: Vec::new(),
            output: VecDeque::new(),
            phase: Phase::Commands,
        };
        if let Some(card) = card {
            spi.insert(card);
        }
        spi
    }

    /// Changes the effect of a rising chip select.
    #[must_use]
    pub fn with_chip_select(self, chip_select: ChipSelect) -> Spi {
        Spi { chip_select, ..self }
    }

    /// Returns the simulated time.
    pub fn now(&self) -> Instant {
        self.now
    }
    /// Advances the time without clocks.
    pub fn wait(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
    }
    /// Changes the clock rate.
    pub fn set_clock(&mut self, clock_hz: u32) {
        self.clock_hz = u64::from(clock_hz).max(1);
    }
    /// Returns the card.
    pub fn card(&self) -> Option<&Card> {
        self.card.as_ref()
    }
    /// Returns the card, mutably, for example to cut its power.
    pub fn card_mut(&mut self) -> Option<&mut Card> {
        self.card.as_mut()
    }
    /// Inserts a card and powers it.
    pub fn insert(&mut self, mut card: Card) {
        card.power_on(self.now, Voltage::V3_3);
        self.reset();
        self.card = Some(card);
    }
    /// Removes the card, even in the middle of an operation.
    pub fn remove(&mut self) -> Option<Card> {
        self.reset();
        let mut card = self.card.take()?;
        card.power_off(self.now);
        Some(card)
    }
    /// Cuts the power and restores it at once, even in the middle of an operation.
    pub fn power_cycle(&mut self) {
        if let Some(card) = self.remove() {
            self.insert(card);
        }
    }

    fn reset(&mut self) {
        self.clocks = 0;
        (self.checks, self.application, self.multiple) = (false, false, false);
        self.late_illegal = false;
        self.frame.clear();
        self.output.clear();
        self.phase = Phase::Commands;
    }

    /// Returns true if chip select is low.
    pub fn is_selected(&self) -> bool {
        self.selected
    }

    /// Drives chip select low if `selected` is true, high otherwise.
    pub fn select(&mut self, selected: bool) {
        let rises = self.selected && !selected;
        self.selected = selected;
        if !rises || self.chip_select == ChipSelect::Pauses {
            return;
        }
        self.frame.clear();
        self.output.clear();
        if !matches!(self.phase, Phase::Commands) {
            self.phase = Phase::Commands;
            let now = self.now;
            if let Some(card) = self.powered() {
                card.command(now, Command::new(opcode::STOP_TRANSMISSION, 0));
            }
        }
    }

    /// Transfers a byte in each direction, with eight clocks.
    pub fn exchange(&mut self, byte: u8) -> u8 {
        self.notice_power_cut();
        let began = self.now;
        self.now = self.now.saturating_add(Duration::from_ratio_secs(8, self.clock_hz));
        self.clocks += 8;
        if !self.selected {
            return HIGH;
        }
        let answer = self.output(began);
        self.input(byte);
        answer
    }

    /// Forgets the state of the card if its power has failed since the last byte, so that the card needs its first clocks
    /// again.
    fn notice_power_cut(&mut self) {
        let power_ups = self.card.as_ref().map_or(0, Card::power_ups);
        if core::mem::replace(&mut self.power_ups, power_ups) != power_ups {
            self.reset();
        }
    }

    fn powered(&mut self) -> Option<&mut Card> {
        self.card.as_mut().filter(|card| card.is_powered())
    }

    /// Returns the byte that the card sends in the eight clocks that begin at `now`.
    fn output(&mut self, now: Instant) -> u8 {
        let Some(card) = self.card.as_mut().filter(|card| card.is_powered()) else { return HIGH };
        if !card.is_spi() {
            // A card whose power has failed is no longer in SPI mode.
            self.output.clear();
            self.phase = Phase::Commands;
            return card.quirks().data_line_before_reset();
        }
        if let Some(byte) = self.output.pop_front() {
            return byte;
        }
        match self.phase {
            Phase::Sending => match card.block_ready(now) {
                Some(ready) if ready <= now => self.send(now),
                Some(_) => HIGH,
                None => self.end_failed_read(now),
            },
            _ if card.busy_until(now).is_some() => LOW,
            _ => HIGH,
        }
    }

    /// Starts the next block. Returns its start token.
    fn send(&mut self, now: Instant) -> u8 {
        let Some(card) = self.card.as_mut() else { return HIGH };
        let Transfer::Sending { block } = card.transfer() else {
            self.phase = Phase::Commands;
            return HIGH;
        };
        let mut bytes = vec![0; block as usize];
        if !card.send_block(now, &mut bytes) {
            return self.end_failed_read(now);
        }
        let mut crc = crc16(&bytes);
        if card.quirks_mut().damages_read() {
            crc ^= 1;
        }
        self.output.extend(bytes);
        self.output.extend(crc.to_be_bytes());
        if card.transfer() == Transfer::None {
            self.phase = Phase::Commands;
        } else {
            // One byte separates two blocks.
            self.output.push_back(HIGH);
        }
        token::START
    }

    /// Ends a read whose data is not available. Returns an error token if the card reports the reason.
    fn end_failed_read(&mut self, now: Instant) -> u8 {
        let Some(card) = self.card.as_mut() else { return HIGH };
        let Some(Response::R1(status)) = card.command(now, Command::new(opcode::SEND_STATUS, 0)) else {
            return HIGH;
        };
        let bit = |of: Status, n: u32| u8::from(status.has(of)) << n;
        let error = bit(Status::ERROR, 0)
            | bit(Status::CC_ERROR, 1)
            | bit(Status::CARD_ECC_FAILED, 2)
            | bit(Status::OUT_OF_RANGE, 3);
        if error == 0 {
            self.phase = Phase::Lost;
            return HIGH;
        }
        card.command(now, Command::new(opcode::STOP_TRANSMISSION, 0));
        self.phase = Phase::Commands;
        error
    }

    fn input(&mut self, byte: u8) {
        if let Phase::Block { bytes, length } = &mut self.phase {
            bytes.push(byte);
            if bytes.len() == *length + 2 {
                self.receive();
            }
            return;
        }
        let begins = matches!(self.phase, Phase::Token) && self.frame.is_empty();
        if !(begins && self.receive_token(byte)) {
            self.receive_command_byte(byte);
        }
    }

    /// Starts a block if `byte` is a start token, and ends the transfer if it is a stop token. Returns true
    /// if the card accepts `byte` as a token.
    fn receive_token(&mut self, byte: u8) -> bool {
        let now = self.now;
        let multiple = self.multiple;
        let Some(card) = self.powered() else { return false };
        match (byte, multiple, card.transfer()) {
            // A busy card ignores tokens.
            _ if card.busy_until(now).is_some() => false,
            (token::START, false, Transfer::Receiving { block })
            | (token::START_MULTIPLE, true, Transfer::Receiving { block }) => {
                self.phase = Phase::Block { bytes: Vec::new(), length: block as usize };
                true
            }
            (token::STOP, true, _) => {
                card.command(now, Command::new(opcode::STOP_TRANSMISSION, 0));
                self.phase = Phase::Commands;
                true
            }
            _ => false,
        }
    }

    /// Handles a complete block.
    fn receive(&mut self) {
        let Phase::Block { bytes, length } = core::mem::replace(&mut self.phase, Phase::Token) else {
            return;
        };
        let (now, checks, multiple) = (self.now, self.checks, self.multiple);
        let Some(card) = self.powered().filter(|card| card.is_spi()) else { return };
        let (data, crc) = bytes.split_at(length);
        let damaged = card.quirks_mut().damages_write();
        let right = !checks || (!damaged && crc == crc16(data).to_be_bytes());
        let answer = match card.receive_block(now, data, right) {
            Some(CrcStatus::Accepted) => token::ACCEPTED,
            Some(CrcStatus::CrcError) => token::CRC_ERROR,
            // Blocks that follow an error are rejected too.
            Some(CrcStatus::WriteError) | None => token::WRITE_ERROR,
        };
        // The power of the card may have failed during the block.
        if card.is_spi() {
            self.output.push_back(answer);
        }
        if !multiple {
            self.phase = Phase::Commands;
        }
    }

    /// Handles a byte that may belong to a command.
    fn receive_command_byte(&mut self, byte: u8) {
        if self.frame.is_empty() && byte & 0xc0 != 0x40 {
            return;
        }
        self.frame.push(byte);
        let Ok(frame) = <[u8; Command::BYTES]>::try_from(self.frame.as_slice()) else { return };
        self.frame.clear();
        self.receive_command(frame);
    }

    fn receive_command(&mut self, frame: [u8; Command::BYTES]) {
        let [first, a, b, c, d, _] = frame;
        let command = Command::new(first, u32::from_be_bytes([a, b, c, d]));
        let right = Command::from_bytes(&frame).is_some();
        let (now, clocks) = (self.now, self.clocks);
        let checked = self.checks || ALWAYS_CHECKED.contains(&command.index);
        let application = core::mem::take(&mut self.application);
        let Some(card) = self.powered() else { return };
        if !card.is_spi() {
            // Before its first CMD0, the card is in native mode, where the CRC7 of every command is checked.
            if command.index != opcode::GO_IDLE_STATE || !right || clocks < CLOCKS_BEFORE_COMMANDS {
                return;
            }
            if !card.quirks().accepts_reset() {
                card.command(now, command);
                return;
            }
            card.set_spi();
        }
        let Some(card) = self.powered() else { return };
        if checked && !right {
            let idle = Status::default().in_state(card.state()).spi_r1();
            return self.answer(command, &[idle | r1::CRC_ERROR]);
        }
        let Some(response) = card.command(now, command) else { return };
        let (state, late) = (card.state(), card.quirks().repeats_illegal_command());
        let sending = matches!(card.transfer(), Transfer::Sending { .. });
        let receiving = matches!(card.transfer(), Transfer::Receiving { .. });
        let idle = Status::default().in_state(state).spi_r1();
        match response {
            Response::R1(status) => {
                let two = command.index == opcode::SEND_STATUS;
                let [r1, more] = status.spi_r2();
                // The state in a response is the state before the command, but bit 0 of R1 reports the state
                // after the command.
                let mut r1 = r1 & !r1::IDLE | idle;
                let illegal = status.has(Status::ILLEGAL_COMMAND);
                if core::mem::replace(&mut self.late_illegal, illegal && late) {
                    r1 |= r1::ILLEGAL_COMMAND;
                }
                let bytes: &[u8] = if two { &[r1, more] } else { &[r1] };
                self.answer(command, bytes);
                if !illegal {
                    self.application = command.index == opcode::APP_CMD;
                    match command.index {
                        opcode::GO_IDLE_STATE => self.checks = false,
                        opcode::CRC_ON_OFF => self.checks = command.argument & 1 == 1,
                        _ => {}
                    }
                    // CMD13 and CMD55 are legal between the blocks of a write, which continues after them.
                    if !matches!(command.index, opcode::SEND_STATUS | opcode::APP_CMD) {
                        self.multiple = command.index == opcode::WRITE_MULTIPLE_BLOCK && !application;
                    }
                }
            }
            Response::R3(word) | Response::R7(word) => {
                let [a, b, c, d] = word.to_be_bytes();
                self.answer(command, &[idle, a, b, c, d]);
            }
            // In SPI mode registers are read as blocks, and there are no relative addresses.
            Response::R2(_) | Response::R6(_) => {}
        }
        self.phase = match (sending, receiving) {
            (true, _) => Phase::Sending,
            (_, true) => Phase::Token,
            _ => Phase::Commands,
        };
    }

    /// Discards the data that was being sent, and queues a response.
    fn answer(&mut self, command: Command, bytes: &[u8]) {
        self.output.clear();
        if command.index == opcode::STOP_TRANSMISSION {
            self.output.push_back(HIGH);
        }
        self.output.push_back(HIGH);
        if self.card.as_ref().is_some_and(|card| card.quirks().has_garbage()) {
            self.output.push_back(GARBAGE);
        }
        self.output.extend(bytes);
        // Data follows at least one byte after the response.
        self.output.push_back(HIGH);
    }
}
