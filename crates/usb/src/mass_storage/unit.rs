//! The logical unit: decides how each command is answered, and holds the state that commands see (sense data, unit
//! attention, ejection).

use super::answer;
use super::command::{Blocks, Command};
use super::disk::DiskError;
use super::sense::Sense;
use super::{Identity, UNMAP_BLOCKS_MAX, UNMAP_DESCRIPTORS_MAX};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use flashlab_sim::{Geometry, Instant};

/// Work that a command requires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// None: the command is complete.
    Nothing,
    /// Sends these bytes to the host.
    Send(Vec<u8>),
    /// Reads a range of the disk, in bytes, and sends it.
    Read { offset: u64, length: u64 },
    /// Receives bytes and writes them to the disk.
    Write { offset: u64, length: u64, durable: bool },
    /// Flushes the disk.
    Flush,
    /// Receives the parameter list of an UNMAP of this length in bytes.
    ReceiveUnmapList { length: usize },
}

/// State of the logical unit.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// Sense data of the last failed command.
    sense: Sense,
    /// Unit attention condition that the next command reports, unless the command is exempt (INQUIRY, REPORT LUNS).
    attention: Option<Sense>,
    is_ejected: bool,
    /// Instant at which the medium becomes ready.
    ready_at: Instant,
    /// Capacity that the unit reports, in bytes, if it differs from the disk's.
    pub(super) reported_capacity: Option<u64>,
    pub(super) is_read_only: bool,
}

impl Unit {
    pub(super) fn new(is_read_only: bool) -> Unit {
        Unit {
            sense: Sense::NONE,
            attention: None,
            is_ejected: false,
            ready_at: Instant::ZERO,
            reported_capacity: None,
            is_read_only,
        }
    }

    /// Handles a power-up. The medium is ready at `ready_at`.
    pub(super) fn power_on(&mut self, ready_at: Instant) {
        *self = Unit { ready_at, attention: Some(Sense::RESET), is_ejected: false, ..self.clone() };
        self.sense = Sense::NONE;
    }

    /// Handles a reset of the port.
    pub(super) fn reset(&mut self) {
        self.sense = Sense::NONE;
        self.attention = Some(Sense::RESET);
    }

    /// Records the sense data of a failed command.
    pub(super) fn fail(&mut self, sense: Sense) {
        self.sense = sense;
    }

    /// Returns the work of a command. `geometry` is the disk's.
    pub(super) fn execute(
        &mut self,
        now: Instant,
        command: Command,
        geometry: &Geometry,
        identity: &Identity,
    ) -> Result<Work, Sense> {
        // SAM-5, section 5.14: INQUIRY and REPORT LUNS neither report nor clear a unit attention. REQUEST
        // SENSE first reports the sense data of a failed command, such as an INQUIRY, and then the unit
        // attention.
        match command {
            Command::Inquiry { page: None, allocation } => {
                return send(answer::inquiry(identity), allocation);
            }
            Command::Inquiry { page: Some(page), allocation } => {
                return send(answer::vital_product_data(page, identity)?, allocation);
            }
            Command::ReportLuns { allocation } => return send(answer::luns(), allocation),
            Command::RequestSense { allocation } => {
                let mut sense = core::mem::replace(&mut self.sense, Sense::NONE);
                if sense == Sense::NONE {
                    sense = self.attention.take().unwrap_or(Sense::NONE);
                }
                return send(sense.to_bytes(), allocation);
            }
            _ => {}
        }
        self.sense = Sense::NONE;
        if let Some(attention) = self.attention.take() {
            return Err(attention);
        }
        match command {
            Command::ModeSense { query, allocation } => {
                return send(answer::mode_sense(query, self.is_read_only)?, allocation);
            }
            Command::StartStop { start, eject } => {
                if eject {
                    self.is_ejected = !start;
                }
                return Ok(if start { Work::Nothing } else { Work::Flush });
            }
            Command::PreventRemoval => return Ok(Work::Nothing),
            _ => {}
        }
        if self.is_ejected {
            return Err(Sense::NO_MEDIUM);
        }
        if now < self.ready_at {
            return Err(Sense::BECOMING_READY);
        }
        self.access_medium(command, geometry)
    }

    /// Returns the work of a command that needs the medium, which is ready.
    fn access_medium(&self, command: Command, geometry: &Geometry) -> Result<Work, Sense> {
        let block = geometry.block as u32;
        let blocks = self.reported_capacity.unwrap_or(geometry.capacity) / geometry.block;
        match command {
            Command::ReadFormatCapacities { allocation } => {
                send(answer::format_capacities(blocks, block), allocation)
            }
            Command::ReadCapacity10 => Ok(Work::Send(answer::capacity_10(blocks, block))),
            Command::ReadCapacity16 { allocation } => send(answer::capacity_16(blocks, block), allocation),
            Command::Read(blocks) => {
                let (offset, length) = bytes(blocks, geometry)?;
                Ok(if length == 0 { Work::Nothing } else { Work::Read { offset, length } })
            }
            Command::Verify(blocks) => bytes(blocks, geometry).map(|_| Work::Nothing),
            Command::Write { blocks, durable } => {
                let (offset, length) = bytes(blocks, geometry)?;
                if self.is_read_only {
                    return Err(Sense::WRITE_PROTECTED);
                }
                Ok(if length == 0 { Work::Nothing } else { Work::Write { offset, length, durable } })
            }
            Command::SynchronizeCache => Ok(Work::Flush),
            Command::Unmap { .. } if self.is_read_only => Err(Sense::WRITE_PROTECTED),
            Command::Unmap { list: 0 } => Ok(Work::Nothing),
            Command::Unmap { list } => Ok(Work::ReceiveUnmapList { length: list }),
            _ => Ok(Work::Nothing),
        }
    }
}

/// Returns the work that sends at most `allocation` of `bytes`.
fn send(mut bytes: Vec<u8>, allocation: usize) -> Result<Work, Sense> {
    bytes.truncate(allocation);
    Ok(Work::Send(bytes))
}

/// Returns offset and length in bytes of a range of blocks, if the disk has these blocks.
fn bytes(blocks: Blocks, geometry: &Geometry) -> Result<(u64, u64), Sense> {
    let end = blocks.first.checked_add(blocks.count.into()).ok_or(Sense::OUT_OF_RANGE)?;
    if end > geometry.capacity / geometry.block {
        return Err(Sense::OUT_OF_RANGE);
    }
    Ok((blocks.first * geometry.block, u64::from(blocks.count) * geometry.block))
}

/// Decodes the parameter list of an UNMAP (SBC-3, section 5.28.2). Returns offsets and lengths in bytes.
pub(super) fn unmap_ranges(list: &[u8], geometry: &Geometry) -> Result<VecDeque<(u64, u64)>, Sense> {
    let header = list.get(..8).ok_or(Sense::PARAMETER_LIST_LENGTH)?;
    let announced = usize::from(u16::from_be_bytes([header[2], header[3]]));
    // Of a truncated list, only the complete descriptors count.
    let descriptors = &list[8..list.len().min(8 + announced)];
    let mut ranges = VecDeque::new();
    for descriptor in descriptors.chunks_exact(16) {
        let first = descriptor[..8].iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
        let count = descriptor[8..12].iter().fold(0, |number: u32, byte| number << 8 | u32::from(*byte));
        let range = bytes(Blocks { first, count }, geometry)?;
        if count > UNMAP_BLOCKS_MAX || ranges.len() >= UNMAP_DESCRIPTORS_MAX as usize {
            return Err(Sense::INVALID_PARAMETER);
        }
        if count > 0 {
            ranges.push_back(range);
        }
    }
    Ok(ranges)
}

/// Returns the sense data of a failed operation of the disk.
pub(super) fn sense_of(error: DiskError, is_write: bool) -> Sense {
    match error {
        DiskError::ReadOnly => Sense::WRITE_PROTECTED,
        DiskError::Medium if is_write => Sense::WRITE_ERROR,
        DiskError::Medium => Sense::READ_ERROR,
        DiskError::Failed => Sense::TARGET_FAILURE,
    }
}
