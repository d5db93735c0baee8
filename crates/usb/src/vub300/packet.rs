//! What the driver and the adapter say to each other: the vendor's requests, the 64 bytes of a command, responses.
//!
//! There is no public document; the layout is that which Linux' driver speaks. Numbers in commands are big-endian, those
//! in a port's status little-endian.

use alloc::vec::Vec;
use flashlab_sd::{Command, Expects, Response};

/// bRequest of the vendor's control transfers.
pub(super) mod request {
    pub(crate) const GET_SYSTEM_PORT_STATUS: u8 = 0;
    pub(crate) const GET_HC_INFO: u8 = 1;
    pub(crate) const SET_SD_POWER: u8 = 4;
    pub(crate) const SET_CLOCK_SPEED: u8 = 11;
}

/// Types of packets from the adapter.
mod header {
    pub(super) const RESPONSE: u8 = 0;
    pub(super) const ERROR: u8 = 2;
    pub(super) const STATUS: u8 = 3;
    pub(super) const NO_INTERRUPT: u8 = 8;
}

/// What went wrong, as a response of type error has it. Linux takes the first for a time-out of the command, those after it
/// for damaged data, and the last for an empty slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ErrorCode {
    CommandTimeout = 0x01,
    CommandCrc = 0x05,
    DataCrc = 0x06,
    DataTimeout = 0x10,
    StatusOfData = 0x17,
    IllegalCommand = 0x0c,
    NoDevice = 0x0d,
    TransferLength = 0x0e,
}

/// The type of a response, as the driver numbers it.
fn expects(kind: u8) -> Option<Expects> {
    Some(match kind {
        0 | 1 => Expects::None,
        // R4 and R5 are SDIO's: 48 bits, too, and no memory card sends them.
        2 | 6 | 7 => Expects::R1,
        3 | 8 => Expects::R1b,
        4 => Expects::R2,
        5 => Expects::R3,
        9 => Expects::R6,
        10 => Expects::R7,
        _ => return None,
    })
}

/// What the driver sends to the command pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packet {
    /// A command for the card.
    Command(CommandPacket),
    /// It asks for an interrupt of an SDIO card, which is not here.
    Poll,
}

/// A command with its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CommandPacket {
    pub(super) command: Command,
    pub(super) expects: Expects,
    /// Whether its data goes to the card.
    pub(super) write: bool,
    /// Bytes of all its data.
    pub(super) size: u32,
    /// Bytes of a block; never 0 where there is data.
    pub(super) block: u32,
}

impl Packet {
    pub(super) const BYTES: usize = 64;

    /// Nothing if it is neither of the two.
    pub(super) fn parse(bytes: &[u8]) -> Option<Packet> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let half = |at: usize| u32::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        match bytes[1] {
            0 => {}
            1 => return Some(Packet::Poll),
            _ => return None,
        }
        let size = word(5);
        // No blocks are counted where all is one that is shorter than the block size which is set.
        let block = if half(14) == 0 { size } else { half(16) };
        if size > 0 && block == 0 {
            return None;
        }
        Some(Packet::Command(CommandPacket {
            command: Command::new(bytes[4], word(10)),
            expects: expects(bytes[9])?,
            write: bytes[3] & 0x80 != 0,
            size,
            block,
        }))
    }
}

impl CommandPacket {
    /// Whether the adapter ends the transfer with CMD12.
    pub(super) fn is_open_ended(&self) -> bool {
        self.size > 0 && matches!(self.command.index, 18 | 25)
    }

    /// What the card answered, as it came over the wires.
    pub(super) fn answer(&self, response: Response) -> Vec<u8> {
        let frame = response.to_frame(self.command.index);
        let raw = if self.expects == Expects::None { &[] } else { frame.bytes() };
        let mut packet = Vec::from([5 + raw.len() as u8, header::RESPONSE, 0, u8::from(self.write) << 7]);
        packet.push(self.command.index);
        packet.extend(raw);
        packet
    }
}

/// A response that says what went wrong.
pub(super) fn error(code: ErrorCode) -> Vec<u8> {
    Vec::from([4, header::ERROR, 0, code as u8])
}

/// No SDIO card wants anything.
pub(super) fn no_interrupt() -> Vec<u8> {
    Vec::from([3, header::NO_INTERRUPT, 0])
}

/// What there is: the size of this, the firmware's version, one port.
pub(super) fn controller_info() -> Vec<u8> {
    Vec::from([4, 0x00, 0x01, 1])
}

/// What is in the slot, 15 bytes.
pub(super) fn port_status(present: bool, read_only: bool, clock_khz: u32) -> Vec<u8> {
    let flags = u16::from(present) | u16::from(read_only) << 4;
    let mut packet = Vec::from([15, header::STATUS, 0]);
    packet.extend(flags.to_le_bytes());
    packet.extend(clock_khz.to_le_bytes());
    // Lengths of headers that its firmware knows.
    for length in [20u16, 4, 8] {
        packet.extend(length.to_le_bytes());
    }
    packet
}
