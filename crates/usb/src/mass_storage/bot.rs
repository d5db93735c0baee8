//! The wrappers of the bulk-only transport: USB Mass Storage Class, Bulk-Only Transport, revision 1.0, section 5.

use crate::device::Direction;
use crate::read::Reader;
use alloc::vec::Vec;

/// Class, subclass (SCSI) and protocol (bulk-only) of the interface (section 4.3).
pub(super) const INTERFACE: [u8; 3] = [0x08, 0x06, 0x50];
/// Class requests (section 3).
pub(super) mod request {
    pub(crate) const RESET: u8 = 0xff;
    pub(crate) const GET_MAX_LUN: u8 = 0xfe;
}
/// Signatures of the wrappers, little-endian: "USBC" and "USBS".
const COMMAND_SIGNATURE: u32 = 0x4342_5355;
const STATUS_SIGNATURE: u32 = 0x5342_5355;
/// Length of a command block wrapper in bytes.
const COMMAND_LENGTH: usize = 31;
/// Length of a status wrapper in bytes.
pub(super) const STATUS_LENGTH: u32 = 13;

/// Command block wrapper (CBW).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CommandWrapper {
    /// dCBWTag, which the status repeats.
    pub(super) tag: u32,
    /// dCBWDataTransferLength: bytes of data that the host expects to transfer.
    pub(super) length: u32,
    /// Direction of the data; meaningless if `length` is 0.
    pub(super) direction: Direction,
    /// bCBWLUN: number of the logical unit.
    pub(super) lun: u8,
    /// CBWCB: the command descriptor block, padded with zeroes.
    pub(super) block: [u8; 16],
    /// bCBWCBLength, 1 to 16.
    pub(super) block_length: u8,
}

impl CommandWrapper {
    /// Decodes a wrapper. Returns `None` if the wrapper is not valid or not meaningful (sections 6.2.1 and
    /// 6.2.2).
    pub(super) fn parse(bytes: &[u8]) -> Option<CommandWrapper> {
        if bytes.len() != COMMAND_LENGTH {
            return None;
        }
        let mut reader = Reader(bytes);
        let (signature, tag, length) = (reader.u32_le()?, reader.u32_le()?, reader.u32_le()?);
        let (flags, lun, block_length) = (reader.u8()?, reader.u8()?, reader.u8()?);
        let mut block: [u8; 16] = reader.array()?;
        let is_meaningful = flags & 0x7f == 0 && lun <= 15 && (1..=16).contains(&block_length);
        if signature != COMMAND_SIGNATURE || !is_meaningful {
            return None;
        }
        block[usize::from(block_length)..].fill(0);
        let direction = if flags & 0x80 == 0 { Direction::Out } else { Direction::In };
        Some(CommandWrapper { tag, length, direction, lun, block, block_length })
    }
}

/// bCSWStatus: result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandStatus {
    Passed = 0,
    Failed = 1,
    PhaseError = 2,
}

/// Encodes a command status wrapper (CSW). `residue` is the part of the expected data that was not processed.
pub(super) fn status(tag: u32, residue: u32, status: CommandStatus) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(STATUS_LENGTH as usize);
    for word in [STATUS_SIGNATURE, tag, residue] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.push(status as u8);
    bytes
}
