//! The data of one command: the bytes that the host expects to transfer (the wrapper's length), and the bytes
//! that the command transfers. Section 6.7 of the bulk-only transport lists the thirteen cases.

use super::PIECE;
use super::bot::{CommandStatus, CommandWrapper, status};
use super::disk::{DiskError, Operation};
use super::unit::Work;
use crate::device::Direction;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Host and device disagree about direction or length of the data (cases 2, 3, 7, 8, 10 and 13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PhaseError;

/// Remaining work of a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Task {
    /// Sends the bytes of `ready`, then `left` bytes that are read from the disk from `offset` on.
    Send {
        ready: Vec<u8>,
        offset: u64,
        left: u64,
    },
    /// Receives `missing` bytes. The bytes of `received` are written to the disk from `offset` on.
    Receive {
        received: Vec<u8>,
        missing: u64,
        offset: u64,
        durable: bool,
    },
    /// Receives the parameter list of an UNMAP.
    ReceiveUnmapList {
        received: Vec<u8>,
        missing: u64,
    },
    Discard(VecDeque<(u64, u64)>),
    Flush,
}

/// Next action of the device for a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Waits for the host or the disk.
    Wait,
    Start(Operation),
    /// Interprets the parameter list of an UNMAP.
    ParseList(Vec<u8>),
    End,
}

/// A command in progress.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    tag: u32,
    /// Bytes that the host expects to transfer.
    expected: u32,
    direction: Direction,
    /// Bytes that crossed the bus.
    transferred: u32,
    /// Bytes that were sent, or received and processed.
    processed: u32,
    /// Length in bytes of the read or write in progress.
    in_progress: u32,
    pub(super) task: Task,
    /// True if the data comes from the disk.
    pub(super) is_read: bool,
    is_done: bool,
    /// True if the device has already halted the data endpoint.
    is_cut: bool,
}

impl Exchange {
    pub(super) fn new(wrapper: &CommandWrapper) -> Exchange {
        Exchange {
            tag: wrapper.tag,
            expected: wrapper.length,
            direction: wrapper.direction,
            transferred: 0,
            processed: 0,
            in_progress: 0,
            task: Task::Discard(VecDeque::new()),
            is_read: false,
            is_done: false,
            is_cut: false,
        }
    }

    /// Begins the work of the command, if the host expects enough data in the right direction.
    pub(super) fn begin(&mut self, work: Work) -> Result<(), PhaseError> {
        match work {
            Work::Nothing => {}
            Work::Flush => self.task = Task::Flush,
            Work::Send(bytes) if bytes.is_empty() => {}
            Work::Send(ready) => {
                self.admit(Direction::In, ready.len() as u64)?;
                self.task = Task::Send { ready, offset: 0, left: 0 };
            }
            Work::Read { offset, length } => {
                self.admit(Direction::In, length)?;
                self.is_read = true;
                self.task = Task::Send { ready: Vec::new(), offset, left: length };
            }
            Work::Write { offset, length, durable } => {
                self.admit(Direction::Out, length)?;
                self.task = Task::Receive { received: Vec::new(), missing: length, offset, durable };
            }
            Work::ReceiveUnmapList { length } => {
                self.admit(Direction::Out, length as u64)?;
                self.task = Task::ReceiveUnmapList { received: Vec::new(), missing: length as u64 };
            }
        }
        Ok(())
    }

    /// Checks that the host expects at least `length` bytes in this direction.
    fn admit(&self, direction: Direction, length: u64) -> Result<(), PhaseError> {
        if self.direction != direction || length > self.expected.into() { Err(PhaseError) } else { Ok(()) }
    }

    pub(super) fn direction(&self) -> Direction {
        self.direction
    }
    /// Returns true if the host still expects to transfer data, so that the endpoint must halt.
    pub(super) fn is_short(&self) -> bool {
        self.transferred < self.expected && !self.is_cut
    }
    /// Returns the status wrapper.
    pub(super) fn status(&self, outcome: CommandStatus) -> Vec<u8> {
        status(self.tag, self.expected - self.processed, outcome)
    }

    /// Takes the bytes for a transfer of at most `length` bytes to the host. Returns `None` if the bytes are
    /// not ready.
    pub(super) fn take(&mut self, length: u32) -> Option<Vec<u8>> {
        let Task::Send { ready, left, .. } = &mut self.task else { return None };
        let count = ready.len().min(length as usize);
        let is_last = *left == 0 && !ready.is_empty();
        if count < length as usize && !is_last {
            return None;
        }
        let rest = ready.split_off(count);
        let bytes = core::mem::replace(ready, rest);
        self.transferred += count as u32;
        self.processed += count as u32;
        Some(bytes)
    }

    /// Returns the next read from the disk. `wanted` is the length of the first transfer that waits for bytes.
    pub(super) fn next_read(&mut self, wanted: Option<u32>, is_busy: bool, request_max: u64) -> Next {
        let Task::Send { ready, offset, left } = &self.task else { return Next::End };
        let wanted = wanted.map_or(1, |length| length.max(1) as usize);
        if *left == 0 && ready.is_empty() {
            return Next::End;
        }
        if *left == 0 || is_busy || ready.len() >= wanted {
            return Next::Wait;
        }
        self.in_progress = (*left).min(PIECE).min(request_max) as u32;
        Next::Start(Operation::Read { offset: *offset, length: self.in_progress })
    }

    /// Returns true if the device can accept more data from the host.
    pub(super) fn has_room(&self) -> bool {
        match &self.task {
            Task::Receive { received, missing, .. } => *missing > 0 && (received.len() as u64) < PIECE,
            Task::ReceiveUnmapList { missing, .. } => *missing > 0,
            _ => false,
        }
    }

    /// Accepts data from the host. Data beyond the end of the command's data is an error, after which the
    /// endpoint is halted.
    pub(super) fn accept(&mut self, bytes: &[u8]) -> Result<(), PhaseError> {
        let (received, missing) = match &mut self.task {
            Task::Receive { received, missing, .. } | Task::ReceiveUnmapList { received, missing } => {
                (received, missing)
            }
            _ => return Err(PhaseError),
        };
        let count = (*missing).min(bytes.len() as u64);
        received.extend_from_slice(&bytes[..count as usize]);
        *missing -= count;
        self.transferred += count as u32;
        self.is_cut = count < bytes.len() as u64;
        if self.is_cut { Err(PhaseError) } else { Ok(()) }
    }

    /// Returns the next write to the disk, or the complete parameter list.
    pub(super) fn next_write(&mut self, request_max: u64) -> Next {
        match &mut self.task {
            Task::Receive { received, missing, offset, durable } => {
                if received.is_empty() && *missing == 0 {
                    return Next::End;
                }
                let piece = PIECE.min(request_max);
                if *missing > 0 && (received.len() as u64) < piece {
                    return Next::Wait;
                }
                let rest = received.split_off(received.len().min(piece as usize));
                let bytes = core::mem::replace(received, rest);
                let from = *offset;
                self.in_progress = bytes.len() as u32;
                *offset += u64::from(self.in_progress);
                Next::Start(Operation::Write { offset: from, bytes, durable: *durable })
            }
            Task::ReceiveUnmapList { received, missing: 0 } => {
                self.processed = received.len() as u32;
                Next::ParseList(core::mem::take(received))
            }
            _ => Next::Wait,
        }
    }

    /// Returns the next flush or discard.
    pub(super) fn next_operation(&mut self) -> Next {
        match &mut self.task {
            Task::Flush if !self.is_done => Next::Start(Operation::Flush),
            Task::Discard(ranges) => match ranges.pop_front() {
                Some((offset, length)) => Next::Start(Operation::Discard { offset, length }),
                None => Next::End,
            },
            _ => Next::End,
        }
    }

    /// Handles the end of an operation. Returns the number of bytes that the operation wrote.
    pub(super) fn operation_ended(&mut self, bytes: Vec<u8>) -> Result<u64, DiskError> {
        let length = core::mem::take(&mut self.in_progress);
        match &mut self.task {
            Task::Send { ready, offset, left } => {
                if bytes.len() != length as usize {
                    return Err(DiskError::Failed);
                }
                ready.extend(bytes);
                *offset += u64::from(length);
                *left -= u64::from(length);
                return Ok(0);
            }
            Task::Flush => self.is_done = true,
            _ => {}
        }
        self.processed += length;
        Ok(length.into())
    }
}
