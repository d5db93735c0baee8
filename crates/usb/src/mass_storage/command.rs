//! The command descriptor blocks (CDB) of SPC-4 and SBC-3 that hosts send to a USB stick.

use super::sense::Sense;

/// A command. Allocation lengths limit the bytes of the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command {
    TestUnitReady,
    RequestSense { allocation: usize },
    Inquiry { page: Option<u8>, allocation: usize },
    ModeSense { query: ModeQuery, allocation: usize },
    StartStop { start: bool, eject: bool },
    PreventRemoval,
    ReadFormatCapacities { allocation: usize },
    ReadCapacity10,
    ReadCapacity16 { allocation: usize },
    Read(Blocks),
    Write { blocks: Blocks, durable: bool },
    Verify(Blocks),
    SynchronizeCache,
    Unmap { list: usize },
    ReportLuns { allocation: usize },
}

/// A range of logical blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Blocks {
    pub(super) first: u64,
    pub(super) count: u32,
}

/// The mode page that a MODE SENSE requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ModeQuery {
    pub(super) page: u8,
    pub(super) subpage: u8,
    /// Page control: current, changeable, default or saved values.
    pub(super) control: u8,
    /// True for MODE SENSE(10), whose header is longer than that of MODE SENSE(6).
    pub(super) long: bool,
}

fn half(bytes: &[u8; 16], at: usize) -> u32 {
    u32::from(bytes[at]) << 8 | u32::from(bytes[at + 1])
}
fn word(bytes: &[u8; 16], at: usize) -> u32 {
    half(bytes, at) << 16 | half(bytes, at + 2)
}
fn double(bytes: &[u8; 16], at: usize) -> u64 {
    u64::from(word(bytes, at)) << 32 | u64::from(word(bytes, at + 4))
}

impl Command {
    /// Decodes a command of `length` bytes. The bytes of `cdb` after these are zero.
    pub(super) fn parse(cdb: &[u8; 16], length: u8) -> Result<Command, Sense> {
        let command = Command::decode(cdb)?;
        // The group code in the opcode determines the length (SPC-4, section 4.3.2). Hosts may send more bytes.
        let needed = match cdb[0] >> 5 {
            0 => 6,
            1 | 2 => 10,
            4 => 16,
            _ => 12,
        };
        if length < needed { Err(Sense::INVALID_FIELD) } else { Ok(command) }
    }

    fn decode(cdb: &[u8; 16]) -> Result<Command, Sense> {
        use super::opcode::*;
        let allocation_16 = |at| half(cdb, at) as usize;
        Ok(match cdb[0] {
            TEST_UNIT_READY => Command::TestUnitReady,
            REQUEST_SENSE if cdb[1] & 1 == 0 => Command::RequestSense { allocation: cdb[4].into() },
            INQUIRY => match (cdb[1] & 1 == 1, cdb[2]) {
                (false, 1..) => return Err(Sense::INVALID_FIELD),
                (vpd, page) => Command::Inquiry { page: vpd.then_some(page), allocation: allocation_16(3) },
            },
            MODE_SENSE_6 | MODE_SENSE_10 => {
                let long = cdb[0] == MODE_SENSE_10;
                let query = ModeQuery { page: cdb[2] & 0x3f, subpage: cdb[3], control: cdb[2] >> 6, long };
                let allocation = if long { allocation_16(7) } else { cdb[4].into() };
                Command::ModeSense { query, allocation }
            }
            START_STOP_UNIT => Command::StartStop { start: cdb[4] & 1 == 1, eject: cdb[4] & 2 == 2 },
            PREVENT_ALLOW_MEDIUM_REMOVAL => Command::PreventRemoval,
            READ_FORMAT_CAPACITIES => Command::ReadFormatCapacities { allocation: allocation_16(7) },
            READ_CAPACITY_10 => Command::ReadCapacity10,
            SERVICE_ACTION_IN_16 => match cdb[1] & 0x1f {
                READ_CAPACITY_16 => Command::ReadCapacity16 { allocation: word(cdb, 10) as usize },
                _ => return Err(Sense::INVALID_FIELD),
            },
            READ_6 | READ_10 | READ_12 | READ_16 => Command::Read(blocks(cdb)?),
            WRITE_6 => Command::Write { blocks: blocks(cdb)?, durable: false },
            WRITE_10 | WRITE_12 | WRITE_16 => {
                Command::Write { blocks: blocks(cdb)?, durable: cdb[1] & 8 == 8 }
            }
            // A comparison with data of the host (BYTCHK) is not supported.
            VERIFY_10 | VERIFY_12 | VERIFY_16 if cdb[1] & 6 != 0 => return Err(Sense::INVALID_FIELD),
            VERIFY_10 | VERIFY_12 | VERIFY_16 => Command::Verify(blocks(cdb)?),
            SYNCHRONIZE_CACHE_10 | SYNCHRONIZE_CACHE_16 => Command::SynchronizeCache,
            // A discard that leaves blocks anchored is not supported.
            UNMAP if cdb[1] & 1 == 0 => Command::Unmap { list: allocation_16(7) },
            REQUEST_SENSE | UNMAP => return Err(Sense::INVALID_FIELD),
            REPORT_LUNS => Command::ReportLuns { allocation: word(cdb, 6) as usize },
            _ => return Err(Sense::INVALID_OPCODE),
        })
    }
}

/// Decodes the range of a read, write or verification. The upper bits of the second byte request protection
/// information, which is not supported.
fn blocks(cdb: &[u8; 16]) -> Result<Blocks, Sense> {
    let group = cdb[0] >> 5;
    if group != 0 && cdb[1] >> 5 != 0 {
        return Err(Sense::INVALID_FIELD);
    }
    Ok(match group {
        0 => {
            let first = u64::from(word(cdb, 0) & 0x1f_ffff);
            // In the six-byte form, 0 means 256 blocks.
            let count = if cdb[4] == 0 { 256 } else { cdb[4].into() };
            Blocks { first, count }
        }
        1 => Blocks { first: word(cdb, 2).into(), count: half(cdb, 7) },
        4 => Blocks { first: double(cdb, 2), count: word(cdb, 10) },
        _ => Blocks { first: word(cdb, 2).into(), count: word(cdb, 6) },
    })
}
