//! The packets between the driver and the adapter: vendor requests, commands of 64 bytes, and responses.
//!
//! There is no public document; the layout is that of the Linux driver. Integers are big-endian in commands and
//! little-endian in a port status.

use alloc::vec::Vec;
use flashlab_sd::opcode::{READ_MULTIPLE_BLOCK, WRITE_MULTIPLE_BLOCK};
use flashlab_sd::{Command, Response, ResponseType};

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

/// Error codes of a response of type error. Linux returns ETIMEDOUT for `CommandTimeout`, EINVAL for `IllegalCommand`,
/// ENOMEDIUM for `NoDevice`, ENODEV for `TransferLength`, and EILSEQ (damaged data) for the others.
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

/// Decodes the driver's number for a type of response.
fn expects(kind: u8) -> Option<ResponseType> {
    Some(match kind {
        0 | 1 => ResponseType::None,
        // R4 and R5 are SDIO responses of 48 bits, which no memory card sends.
        2 | 6 | 7 => ResponseType::R1,
        3 | 8 => ResponseType::R1b,
        4 => ResponseType::R2,
        5 => ResponseType::R3,
        9 => ResponseType::R6,
        10 => ResponseType::R7,
        _ => return None,
    })
}

/// A packet from the driver on the command pipe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packet {
    /// A command for the card.
    Command(CommandPacket),
    /// A poll for an interrupt of an SDIO card, which this adapter does not have.
    Poll,
}

/// A command with its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CommandPacket {
    pub(super) command: Command,
    pub(super) expects: ResponseType,
    /// True if the data goes to the card.
    pub(super) write: bool,
    /// Length of all data in bytes.
    pub(super) size: u32,
    /// Block length in bytes; never 0 if there is data.
    pub(super) block: u32,
}

impl Packet {
    pub(super) const BYTES: usize = 64;

    /// Decodes a packet. Returns `None` if the packet is neither a valid command nor a poll.
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
        // A block count of 0 means a single block, shorter than the configured block size.
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
    /// Returns true if the adapter ends the transfer with CMD12.
    pub(super) fn is_open_ended(&self) -> bool {
        self.size > 0 && matches!(self.command.index, READ_MULTIPLE_BLOCK | WRITE_MULTIPLE_BLOCK)
    }

    /// Returns the packet with the card's response, as it crossed the wires.
    pub(super) fn response_packet(&self, response: Response) -> Vec<u8> {
        let frame = response.to_frame(self.command.index);
        let raw = if self.expects == ResponseType::None { &[] } else { frame.bytes() };
        let mut packet = Vec::from([5 + raw.len() as u8, header::RESPONSE, 0, u8::from(self.write) << 7]);
        packet.push(self.command.index);
        packet.extend(raw);
        packet
    }
}

/// Returns a response with an error code.
pub(super) fn error(code: ErrorCode) -> Vec<u8> {
    Vec::from([4, header::ERROR, 0, code as u8])
}

/// Returns the answer to a poll: no SDIO interrupt is pending.
pub(super) fn no_interrupt() -> Vec<u8> {
    Vec::from([3, header::NO_INTERRUPT, 0])
}

/// Returns the controller's description: the length of this packet, the version of the firmware, one port.
pub(super) fn controller_info() -> Vec<u8> {
    Vec::from([4, 0x00, 0x01, 1])
}

/// Returns the state of the slot, 15 bytes.
pub(super) fn port_status(present: bool, read_only: bool, clock_khz: u32) -> Vec<u8> {
    let flags = u16::from(present) | u16::from(read_only) << 4;
    let mut packet = Vec::from([15, header::STATUS, 0]);
    packet.extend(flags.to_le_bytes());
    packet.extend(clock_khz.to_le_bytes());
    // Lengths of headers that the firmware supports.
    for length in [20u16, 4, 8] {
        packet.extend(length.to_le_bytes());
    }
    packet
}
