//! VUB300: an SD host controller on USB 2.0 with one slot (0424:012c). Its Linux driver is `vub300`.
//!
//! The driver sends each command of the mmc core as 64 bytes to one bulk pipe and reads the response from
//! another. Two more pipes carry data. The adapter sends the command to the card, transfers the blocks, ends
//! transfers of several blocks with CMD12, and waits while a card signals busy after R1b. The adapter learns
//! the bus width from each ACMD6 that it passes on, and selects high-speed timing above 25 MHz.
//!
//! Timing: transfers on the wires and the card's operations take the time that their models give, counted
//! from the driver's request. A data transfer completes when its last byte has crossed the wires, but the
//! last transfer of a write completes at once. A response is available when the card has finished.
//!
//! The following behaviour is assumed, because no public document describes it. If data does not arrive
//! within 500 ms, or if a card stays busy that long between blocks, the adapter reports a time-out (SD
//! specification 4.6.2: the longest time that a card may take). If a card is busy for longer than that after
//! its last block or a command, the adapter still sends the response. Linux then polls the card with CMD13
//! until the card is ready. The adapter clears the bits of CMD48 and related commands in each SCR that it
//! passes on. CMD7 with address 0 deselects the card. No card responds to this command, which is not an
//! error.
//!
//! The model omits SDIO and its offloaded registers, and the time of the adapter's own firmware. It also
//! omits 1.8 V, tuning, CMD23 and the commands of the extension registers, because the driver does not pass
//! them on.

mod packet;
mod pipe;

use crate::descriptor::{Descriptors, Endpoint};
use crate::device::{Completed, Device, Direction, Outcome, Payload, Setup, Stalled, Transfer};
use alloc::borrow::Cow;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sd::opcode;
use flashlab_sd::{Card, Command, Fault, Ios, Native, Power, Response, ResponseType, Timing};
use flashlab_sim::{Duration, Instant, PowerCut};
use packet::{CommandPacket, ErrorCode, Packet, request};
use pipe::{Pipe, Waiting};

static DESCRIPTORS: Descriptors = Descriptors {
    vendor: 0x0424,
    product: 0x012c,
    release: 0x0100,
    interface_class: 0xff,
    interface_subclass: 0,
    interface_protocol: 0,
    strings: [Cow::Borrowed("flashlab"), Cow::Borrowed("VUB300"), Cow::Borrowed("1")],
    endpoints: &[
        Endpoint { number: RESPONSES, direction: Direction::In },
        Endpoint { number: COMMANDS, direction: Direction::Out },
        Endpoint { number: DATA_IN, direction: Direction::In },
        Endpoint { number: DATA_OUT, direction: Direction::Out },
    ],
};
const RESPONSES: u8 = 1;
const COMMANDS: u8 = 2;
const DATA_IN: u8 = 3;
const DATA_OUT: u8 = 4;

/// CMD48, 49, 58 and 59 in byte 3 of the SCR.
const SCR_EXTENSIONS: u8 = 0b1100;
/// Largest transfer in bytes: the driver requests at most 511 blocks at a time.
const SIZE_MAX: u32 = 511 * BLOCK_MAX;
/// Longest block that the adapter can buffer, in bytes.
const BLOCK_MAX: u32 = 512;
/// Time that the adapter waits for data and for a busy card.
const DATA_TIMEOUT: Duration = Duration::from_ms(500);
/// Time from power to the first command: the supply's ramp and 74 clock cycles at the slowest clock (SD specification
/// 6.4.1).
const RAMP: Duration = Duration::from_ms(2);
/// Clock frequencies that the adapter can generate, in kHz.
const CLOCK_KHZ: core::ops::RangeInclusive<u64> = 200..=48_000;
/// Largest clock frequency of default speed. Above this frequency, the card must be in high-speed mode.
const DEFAULT_SPEED_HZ: u32 = 25_000_000;

/// A write whose data has not arrived completely.
#[derive(Clone, Debug)]
struct Writing {
    packet: CommandPacket,
    response: Response,
    /// Bytes that have not been written to the card.
    left: u32,
    /// Bytes of an incomplete block.
    block: Vec<u8>,
}

/// Counters of the adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Number of commands that the driver has sent to the card.
    pub commands: u64,
    /// Number of commands and requests that ended in an error.
    pub failed: u64,
    /// Number of bytes read from the card.
    pub read_bytes: u64,
    /// Number of bytes written to the card.
    pub written_bytes: u64,
}

/// The adapter, whose slot holds a card or is empty.
#[derive(Debug)]
pub struct Vub300 {
    native: Native,
    /// Position of the write-protect switch on the card.
    read_only: bool,
    ios: Ios,
    /// True if the last command was CMD55, so that the next one is an application command.
    application: bool,
    writing: Option<Writing>,
    responses: Pipe,
    data: Pipe,
    /// Accepted transfers to the device and all stalled transfers: instant of completion, id and outcome.
    accepted: VecDeque<(Instant, u64, Outcome)>,
    counters: Counters,
}

impl Vub300 {
    /// Creates an adapter with `card` in its slot, or with an empty slot.
    pub fn new(card: Option<Card>) -> Vub300 {
        Vub300 {
            native: Native::new(card),
            read_only: false,
            ios: Ios::OFF,
            application: false,
            writing: None,
            responses: Pipe::default(),
            data: Pipe::default(),
            accepted: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Sets the write-protect switch on the card. The card ignores the switch, and the driver obeys it.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }

    /// Returns the card, if one is in the slot.
    pub fn card(&self) -> Option<&Card> {
        self.native.card()
    }
    /// Returns the card, for events outside the bus.
    pub fn card_mut(&mut self) -> Option<&mut Card> {
        self.native.card_mut()
    }
    /// Inserts a card. The driver detects the card within a second.
    pub fn insert(&mut self, now: Instant, card: Card) {
        self.catch_up(now);
        self.native.insert(card);
    }
    /// Removes the card, even during a command.
    pub fn remove(&mut self, now: Instant) -> Option<Card> {
        self.cut_power(now);
        let card = self.native.remove()?;
        self.abort(now, ErrorCode::NoDevice);
        Some(card)
    }
    /// Cuts the card's power at `now`. The model has already executed commands beyond `now`; the card discards the work
    /// that it would not have finished by then.
    fn cut_power(&mut self, now: Instant) {
        if let Some(card) = self.native.card_mut().filter(|card| card.is_powered()) {
            card.power_off(now);
        }
    }
    /// Interrupts the card's power for an instant, even during a command. Returns the effect on a write, or
    /// the default value if there is no card.
    pub fn fail_power(&mut self, now: Instant) -> PowerCut {
        let cut = self.native.card_mut().map(|card| card.fail_power(now)).unwrap_or_default();
        self.abort(now, ErrorCode::DataTimeout);
        cut
    }
    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Aborts the command that the card executes at `now`, and reports the error to the driver.
    fn abort(&mut self, now: Instant, code: ErrorCode) {
        let responded = self.responses.ready.iter().all(|(at, _)| *at <= now);
        if self.writing.is_none() && responded {
            return;
        }
        self.fail(code);
        self.responses.ready.iter_mut().for_each(|(at, _)| *at = now);
    }
    /// Returns the card's current time, which is ahead of the caller's time while the card executes a
    /// command.
    pub fn card_time(&self) -> Instant {
        self.native.now()
    }

    /// Returns true if a card is in the slot and no quirk of the card simulates its removal.
    fn is_occupied(&self) -> bool {
        self.native.card().is_some_and(|card| !card.quirks().is_removed())
    }

    /// Advances the card's time to `now`, unless the card is already ahead because of an earlier command.
    fn catch_up(&mut self, now: Instant) {
        self.native.advance(now.saturating_since(self.native.now()));
    }

    fn set_power(&mut self, on: bool) {
        self.ios = Ios::OFF;
        if on {
            self.ios = Ios { power: Power::On, clock_hz: *CLOCK_KHZ.start() as u32 * 1000, ..Ios::OFF };
        }
        self.native.set_ios(&self.ios);
        self.native.advance(if on { RAMP } else { Duration::ZERO });
        self.application = false;
        self.writing = None;
    }

    /// Sets the clock from a 64-bit frequency in kHz; 0 stops the clock.
    fn set_clock(&mut self, data: &[u8]) {
        let Some(khz) = data.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)) else { return };
        let hz = if khz == 0 { 0 } else { khz.clamp(*CLOCK_KHZ.start(), *CLOCK_KHZ.end()) as u32 * 1000 };
        self.ios.clock_hz = hz;
        self.ios.timing = if hz > DEFAULT_SPEED_HZ { Timing::HighSpeed } else { Timing::Legacy };
        self.native.set_ios(&self.ios);
    }

    /// Makes `packet` the pending response. The adapter holds only one response.
    fn respond(&mut self, packet: Vec<u8>) {
        self.responses.clear();
        self.responses.ready.push_back((self.native.now(), packet));
        self.responses.complete = true;
    }

    fn fail(&mut self, code: ErrorCode) {
        self.counters.failed += 1;
        self.writing = None;
        self.data.clear();
        self.respond(packet::error(code));
    }

    fn command(&mut self, bytes: &[u8]) {
        self.writing = None;
        self.data.clear();
        // A response that the driver did not read belongs to an earlier command.
        self.responses.clear();
        let packet = match Packet::parse(bytes) {
            Some(Packet::Command(packet)) => packet,
            Some(Packet::Poll) => return self.respond(packet::no_interrupt()),
            None => return self.fail(ErrorCode::IllegalCommand),
        };
        if !self.is_occupied() {
            return self.fail(ErrorCode::NoDevice);
        }
        if packet.size > SIZE_MAX || packet.block > BLOCK_MAX {
            return self.fail(ErrorCode::TransferLength);
        }
        if self.ios.power != Power::On || self.ios.clock_hz == 0 {
            return self.fail(ErrorCode::CommandTimeout);
        }
        self.counters.commands += 1;
        let application = core::mem::take(&mut self.application);
        let deselects = packet.command.index == opcode::SELECT_CARD && packet.command.argument >> 16 == 0;
        let expects = if deselects { ResponseType::None } else { packet.expects };
        let response = match self.native.command(packet.command, expects) {
            Ok(response) => response,
            Err(Fault::Timeout) => return self.fail(ErrorCode::CommandTimeout),
            Err(_) => return self.fail(ErrorCode::CommandCrc),
        };
        if deselects {
            // The driver expects six bytes.
            return self.respond(packet.response_packet(response));
        }
        self.snoop(packet.command, application);
        match (packet.size, packet.write) {
            (0, _) => {
                if expects == ResponseType::R1b {
                    self.wait_while_busy();
                }
                self.respond(packet.response_packet(response));
            }
            (_, false) => self.read(packet, response),
            (left, true) => self.writing = Some(Writing { packet, response, left, block: Vec::new() }),
        }
    }

    /// Learns the bus width from an ACMD6 that passes through the adapter.
    fn snoop(&mut self, command: Command, application: bool) {
        if application && command.index == opcode::app::SET_BUS_WIDTH {
            self.ios.width = if command.argument & 3 == 2 { 4 } else { 1 };
            self.native.set_ios(&self.ios);
        }
        self.application = command.index == opcode::APP_CMD;
    }

    /// Waits while the card is busy. After a time-out, the driver itself polls the card with CMD13.
    fn wait_while_busy(&mut self) {
        let _ = self.native.wait_ready(DATA_TIMEOUT);
    }

    fn stop(&mut self, packet: &CommandPacket) -> Result<(), Fault> {
        if !packet.is_open_ended() {
            return Ok(());
        }
        self.native.command(Command::new(opcode::STOP_TRANSMISSION, 0), ResponseType::R1b).map(|_| ())
    }

    fn read(&mut self, packet: CommandPacket, response: Response) {
        let mut left = packet.size;
        while left > 0 {
            let length = packet.block.min(left);
            let mut block = vec![0; length as usize];
            if let Err(fault) = self.native.read_block(&mut block, length, DATA_TIMEOUT) {
                // The driver receives the error of the data transfer, even if the stop command fails as well.
                let _ = self.stop(&packet);
                return self.fail(data_error(fault));
            }
            // The driver does not pass CMD48 on, and Linux gives up on a card that advertises it.
            if packet.command.index == opcode::app::SEND_SCR && length == 8 {
                block[3] &= !SCR_EXTENSIONS;
            }
            self.data.ready.push_back((self.native.now(), block));
            self.counters.read_bytes += u64::from(length);
            left -= length;
        }
        self.data.complete = true;
        if self.stop(&packet).is_err() {
            return self.fail(ErrorCode::CommandTimeout);
        }
        self.wait_while_busy();
        self.respond(packet.response_packet(response));
    }

    /// Receives data for the open write. Data without an open write, as after an error, is dropped.
    fn receive(&mut self, bytes: &[u8]) {
        let Some(mut writing) = self.writing.take() else { return };
        // The driver pads short data.
        let count = bytes.len().min(writing.left as usize - writing.block.len());
        writing.block.extend_from_slice(&bytes[..count]);
        while writing.left > 0 {
            let length = writing.packet.block.min(writing.left);
            if writing.block.len() < length as usize {
                self.writing = Some(writing);
                return;
            }
            let block: Vec<u8> = writing.block.drain(..length as usize).collect();
            if let Err(fault) = self.native.write_block(&block, length, DATA_TIMEOUT) {
                let _ = self.stop(&writing.packet);
                return self.fail(data_error(fault));
            }
            self.counters.written_bytes += u64::from(length);
            writing.left -= length;
        }
        if self.stop(&writing.packet).is_err() {
            return self.fail(ErrorCode::CommandTimeout);
        }
        self.wait_while_busy();
        self.respond(writing.packet.response_packet(writing.response));
    }
}

/// Translates a fault on the data lines.
fn data_error(fault: Fault) -> ErrorCode {
    match fault {
        Fault::Timeout => ErrorCode::DataTimeout,
        Fault::Crc => ErrorCode::DataCrc,
        Fault::WriteError => ErrorCode::StatusOfData,
    }
}

impl Device for Vub300 {
    fn descriptors(&self) -> &Descriptors {
        &DESCRIPTORS
    }

    fn reset(&mut self, now: Instant) {
        self.catch_up(now);
        self.writing = None;
        self.responses = Pipe::default();
        self.data = Pipe::default();
        self.accepted.clear();
    }

    fn attach(&mut self, now: Instant, attached: bool) {
        if !attached {
            self.cut_power(now);
        }
        self.reset(now);
        // After attachment, the driver itself requests the card's power.
        if !attached {
            self.set_power(false);
        }
    }

    fn control(&mut self, now: Instant, setup: Setup, data: &[u8]) -> Result<Vec<u8>, Stalled> {
        if !setup.is_vendor() {
            return Err(Stalled);
        }
        let mut answer = match (setup.direction(), setup.request) {
            (Direction::In, request::GET_SYSTEM_PORT_STATUS) => {
                if let Some(card) = self.native.card_mut() {
                    card.apply_planned_quirks(now);
                }
                packet::port_status(self.is_occupied(), self.read_only, self.ios.clock_hz / 1000)
            }
            (Direction::In, request::GET_HC_INFO) => packet::controller_info(),
            (Direction::In, _) => return Err(Stalled),
            (Direction::Out, request::SET_SD_POWER) => {
                self.catch_up(now);
                self.set_power(setup.value != 0);
                Vec::new()
            }
            (Direction::Out, request::SET_CLOCK_SPEED) => {
                self.catch_up(now);
                self.set_clock(data);
                Vec::new()
            }
            // The other requests set wait states of the ROM, SDIO modes or firmware. None of them affects a
            // memory card.
            (Direction::Out, _) => Vec::new(),
        };
        answer.truncate(usize::from(setup.length));
        Ok(answer)
    }

    fn submit(&mut self, now: Instant, transfer: Transfer) {
        let Transfer { id, endpoint, payload } = transfer;
        match (endpoint, payload) {
            (RESPONSES, Payload::In(length)) => {
                self.responses.waiting.push_back(Waiting { id, length, since: now });
            }
            (DATA_IN, Payload::In(length)) => self.data.waiting.push_back(Waiting { id, length, since: now }),
            (COMMANDS, Payload::Out(bytes)) => {
                self.catch_up(now);
                self.command(&bytes);
                self.accepted.push_back((now, id, Outcome::Out(bytes.len() as u32)));
            }
            (DATA_OUT, Payload::Out(bytes)) => {
                self.catch_up(now);
                self.receive(&bytes);
                // While the write is incomplete, the transfer completes when its data has crossed the
                // card's wires. The last transfer completes at once, and the response follows when the card
                // has finished.
                let at = if self.writing.is_some() { self.native.now() } else { now };
                self.accepted.push_back((at, id, Outcome::Out(bytes.len() as u32)));
            }
            _ => self.accepted.push_back((now, id, Outcome::Stalled)),
        }
    }

    fn cancel(&mut self, id: u64) -> bool {
        let before = self.responses.waiting.len() + self.data.waiting.len() + self.accepted.len();
        self.responses.waiting.retain(|waiting| waiting.id != id);
        self.data.waiting.retain(|waiting| waiting.id != id);
        self.accepted.retain(|(_, accepted, _)| *accepted != id);
        self.responses.waiting.len() + self.data.waiting.len() + self.accepted.len() < before
    }

    fn next_due(&self) -> Option<Instant> {
        let pipes = [&self.responses, &self.data].into_iter().filter_map(|pipe| pipe.due().map(|(at, _)| at));
        pipes.chain(self.accepted.iter().map(|(at, ..)| *at)).min()
    }

    fn complete(&mut self, limit: Instant) -> Option<Completed> {
        if let Some(first) = self.accepted.iter().position(|(at, ..)| *at <= limit) {
            let (at, id, outcome) = self.accepted.remove(first)?;
            return Some(Completed { id, at, outcome });
        }
        self.data.complete(limit).or_else(|| self.responses.complete(limit))
    }
}
