//! The bulk-only transport of one logical unit: commands, their data and their status, and the halts of the endpoints.

use super::bot::{CommandStatus, CommandWrapper, STATUS_LENGTH};
use super::command::Command;
use super::exchange::{self, Exchange, Task};
use super::sense::Sense;
use super::unit::{Unit, sense_of, unmap_ranges};
use super::{DATA_IN, DATA_OUT, Disk, Done, Identity, StickCounters};
use crate::device::{Completed, Direction, Outcome, Payload, Transfer};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use flashlab_sim::Instant;

/// Largest number of bytes from the host that wait for the device. Further transfers fail.
const WAITING_MAX: usize = 4 << 20;

/// Phase of the bulk-only protocol.
#[derive(Clone, Debug)]
enum Phase {
    /// The device waits for a command.
    Command,
    /// A command is being executed.
    Exchange(Exchange),
    /// The host has not yet read this status wrapper.
    Status(Vec<u8>),
    /// The host sent an invalid wrapper and must perform a reset recovery.
    Invalid,
}

/// Use of the disk by the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DiskUse {
    Idle,
    /// An operation of the current command is in progress.
    Current,
    /// An operation is in progress, but a reset has abandoned its command.
    Abandoned,
}

/// The transport, with the disk behind it.
#[derive(Debug)]
pub(super) struct Transport<D> {
    disk: D,
    disk_use: DiskUse,
    identity: Identity,
    pub(super) unit: Unit,
    phase: Phase,
    halted_in: bool,
    halted_out: bool,
    /// Transfers from the host that the device has not accepted: identifier and bytes.
    outgoing: VecDeque<(u64, Vec<u8>)>,
    /// Transfers to the host that wait for bytes: identifier and length.
    incoming: VecDeque<(u64, u32)>,
    completed: VecDeque<Completed>,
    counters: StickCounters,
}

impl<D: Disk> Transport<D> {
    /// Creates the transport of a stick without power.
    pub(super) fn new(disk: D, identity: Identity) -> Transport<D> {
        let unit = Unit::new(disk.is_read_only());
        Transport {
            disk,
            disk_use: DiskUse::Idle,
            identity,
            unit,
            phase: Phase::Command,
            halted_in: false,
            halted_out: false,
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            completed: VecDeque::new(),
            counters: StickCounters::default(),
        }
    }

    pub(super) fn disk(&self) -> &D {
        &self.disk
    }
    pub(super) fn disk_mut(&mut self) -> &mut D {
        &mut self.disk
    }
    pub(super) fn into_disk(self) -> D {
        self.disk
    }
    pub(super) fn counters(&self) -> StickCounters {
        self.counters
    }

    /// Cuts the power of the disk, or restores it. If the power comes on, the medium is ready at `ready_at`.
    pub(super) fn set_power(&mut self, now: Instant, on: bool, ready_at: Instant) {
        self.forget();
        // An operation does not survive the loss of power.
        self.disk_use = DiskUse::Idle;
        self.disk.set_power(now, on);
        if on {
            self.unit.power_on(ready_at);
        }
    }

    /// Handles a reset of the port.
    pub(super) fn reset_port(&mut self) {
        self.forget();
        self.unit.reset();
    }

    /// Handles a reset of the transport. The reset preserves halts, which the host clears next (section 3.1).
    pub(super) fn reset(&mut self, now: Instant) {
        self.phase = Phase::Command;
        self.abandon();
        self.advance(now);
    }

    /// Drops all transfers, ends the halts, and abandons the command.
    fn forget(&mut self) {
        self.phase = Phase::Command;
        (self.halted_in, self.halted_out) = (false, false);
        self.outgoing.clear();
        self.incoming.clear();
        self.completed.clear();
        self.abandon();
    }

    fn abandon(&mut self) {
        if self.disk_use == DiskUse::Current {
            self.disk_use = DiskUse::Abandoned;
        }
    }

    fn answer(&mut self, now: Instant, id: u64, outcome: Outcome) {
        self.completed.push_back(Completed { id, at: now, outcome });
    }

    /// Halts the endpoint of a direction. The transfers that wait on it fail.
    fn halt(&mut self, now: Instant, direction: Direction) {
        match direction {
            Direction::In => {
                self.halted_in = true;
                while let Some((id, _)) = self.incoming.pop_front() {
                    self.answer(now, id, Outcome::Stalled);
                }
            }
            Direction::Out => {
                self.halted_out = true;
                while let Some((id, _)) = self.outgoing.pop_front() {
                    self.answer(now, id, Outcome::Stalled);
                }
            }
        }
    }

    /// Performs all steps that are possible at `now`.
    fn advance(&mut self, now: Instant) {
        while self.step(now) {}
    }

    /// Performs a step. Returns false if nothing can happen before the host or the disk acts.
    fn step(&mut self, now: Instant) -> bool {
        match core::mem::replace(&mut self.phase, Phase::Command) {
            // The device accepts a command only if no abandoned operation uses the disk.
            Phase::Command if self.disk_use == DiskUse::Idle => self.accept_command(now),
            Phase::Command => false,
            Phase::Status(bytes) => self.send_status(now, bytes),
            Phase::Invalid => {
                self.phase = Phase::Invalid;
                false
            }
            Phase::Exchange(exchange) => self.step_exchange(now, exchange),
        }
    }

    fn accept_command(&mut self, now: Instant) -> bool {
        let Some((id, bytes)) = self.outgoing.pop_front() else { return false };
        let Some(wrapper) = CommandWrapper::parse(&bytes) else {
            self.phase = Phase::Invalid;
            self.answer(now, id, Outcome::Out(bytes.len() as u32));
            self.halt(now, Direction::In);
            self.halt(now, Direction::Out);
            return true;
        };
        self.answer(now, id, Outcome::Out(bytes.len() as u32));
        self.counters.commands += 1;
        let geometry = self.disk.geometry();
        let work = match wrapper.lun {
            0 => Command::parse(&wrapper.block, wrapper.block_length)
                .and_then(|command| self.unit.execute(now, command, &geometry, &self.identity)),
            _ => Err(Sense::NO_SUCH_LUN),
        };
        let mut exchange = Exchange::new(&wrapper);
        match work {
            Err(sense) => self.fail(now, exchange, sense),
            Ok(work) => match exchange.begin(work) {
                Ok(()) => self.phase = Phase::Exchange(exchange),
                Err(exchange::PhaseError) => self.finish(now, exchange, CommandStatus::PhaseError),
            },
        }
        true
    }

    fn send_status(&mut self, now: Instant, mut bytes: Vec<u8>) -> bool {
        let Some((id, length)) = self.incoming.pop_front() else {
            self.phase = Phase::Status(bytes);
            return false;
        };
        if length == 0 {
            self.phase = Phase::Status(bytes);
            self.answer(now, id, Outcome::In(Vec::new()));
            return true;
        }
        // A host that requests fewer bytes loses the rest of the status, because a status is a single packet.
        bytes.truncate(length.min(STATUS_LENGTH) as usize);
        self.answer(now, id, Outcome::In(bytes));
        true
    }

    fn fail(&mut self, now: Instant, exchange: Exchange, sense: Sense) {
        self.unit.fail(sense);
        self.finish(now, exchange, CommandStatus::Failed);
    }

    fn finish(&mut self, now: Instant, exchange: Exchange, status: CommandStatus) {
        if status != CommandStatus::Passed {
            self.counters.failed += 1;
        }
        self.phase = Phase::Status(exchange.status(status));
        if exchange.is_short() {
            self.halt(now, exchange.direction());
        }
    }

    fn step_exchange(&mut self, now: Instant, mut exchange: Exchange) -> bool {
        let is_busy = self.disk_use == DiskUse::Current;
        let request_max = self.disk.geometry().request_max;
        let stepped = match &exchange.task {
            Task::Send { .. } => {
                if self.send(now, &mut exchange) {
                    self.phase = Phase::Exchange(exchange);
                    return true;
                }
                exchange.next_read(self.incoming.front().map(|(_, length)| *length), is_busy, request_max)
            }
            _ if is_busy => exchange::Next::Wait,
            Task::Receive { .. } | Task::ReceiveUnmapList { .. } => {
                if self.receive(now, &mut exchange) {
                    self.phase = Phase::Exchange(exchange);
                    return true;
                }
                exchange.next_write(request_max)
            }
            Task::Flush | Task::Discard(_) => exchange.next_operation(),
        };
        match stepped {
            exchange::Next::Wait => {
                self.phase = Phase::Exchange(exchange);
                false
            }
            exchange::Next::Start(operation) => {
                self.disk_use = DiskUse::Current;
                self.disk.start(now, operation);
                self.phase = Phase::Exchange(exchange);
                true
            }
            exchange::Next::ParseList(list) => {
                match unmap_ranges(&list, &self.disk.geometry()) {
                    Ok(ranges) => {
                        exchange.task = Task::Discard(ranges);
                        self.phase = Phase::Exchange(exchange);
                    }
                    Err(sense) => self.fail(now, exchange, sense),
                }
                true
            }
            exchange::Next::End => {
                self.finish(now, exchange, CommandStatus::Passed);
                true
            }
        }
    }

    /// Sends bytes to the first waiting transfer. Returns false if no transfer waits, or if the bytes are not
    /// ready.
    fn send(&mut self, now: Instant, exchange: &mut Exchange) -> bool {
        let Some((id, length)) = self.incoming.front().copied() else { return false };
        let Some(bytes) = exchange.take(length) else { return false };
        self.counters.read_bytes += if exchange.is_read { bytes.len() as u64 } else { 0 };
        self.incoming.pop_front();
        self.answer(now, id, Outcome::In(bytes));
        true
    }

    /// Accepts the first waiting transfer as data of the command. Returns false if no transfer waits, or if
    /// the device has no room.
    fn receive(&mut self, now: Instant, exchange: &mut Exchange) -> bool {
        if !exchange.has_room() {
            return false;
        }
        let Some((id, bytes)) = self.outgoing.pop_front() else { return false };
        let outcome = match exchange.accept(&bytes) {
            Ok(()) => Outcome::Out(bytes.len() as u32),
            Err(exchange::PhaseError) => Outcome::Stalled,
        };
        let is_stalled = outcome == Outcome::Stalled;
        self.answer(now, id, outcome);
        if is_stalled {
            self.halt(now, Direction::Out);
        }
        true
    }

    /// Handles the end of the operation in progress.
    fn operation_ended(&mut self, now: Instant, done: Done) {
        let was = core::mem::replace(&mut self.disk_use, DiskUse::Idle);
        let mut exchange = match core::mem::replace(&mut self.phase, Phase::Command) {
            Phase::Exchange(exchange) if was == DiskUse::Current => exchange,
            phase => {
                self.phase = phase;
                return;
            }
        };
        let is_write = !exchange.is_read;
        match done.and_then(|bytes| exchange.operation_ended(bytes)) {
            Ok(written) => {
                self.counters.written_bytes += written;
                self.phase = Phase::Exchange(exchange);
            }
            Err(error) => self.fail(now, exchange, sense_of(error, is_write)),
        }
    }

    /// Halts the endpoint with this address, or ends the halt, at the host's request.
    pub(super) fn set_halted(&mut self, now: Instant, address: u8, halted: bool) {
        let direction = match address {
            0x81 => Direction::In,
            DATA_OUT => Direction::Out,
            _ => return,
        };
        match (direction, halted) {
            (_, true) => self.halt(now, direction),
            // Only a reset recovery ends the halt after an invalid wrapper.
            _ if matches!(self.phase, Phase::Invalid) => {}
            (Direction::In, false) => self.halted_in = false,
            (Direction::Out, false) => self.halted_out = false,
        }
        self.advance(now);
    }

    pub(super) fn is_halted(&self, address: u8) -> bool {
        match address {
            0x81 => self.halted_in,
            DATA_OUT => self.halted_out,
            _ => false,
        }
    }

    /// Starts a bulk transfer.
    pub(super) fn submit(&mut self, now: Instant, Transfer { id, endpoint, payload }: Transfer) {
        match (endpoint, payload) {
            (DATA_IN, Payload::In(length)) if !self.halted_in => self.incoming.push_back((id, length)),
            (DATA_OUT, Payload::Out(bytes)) if !self.halted_out => {
                let waiting: usize = self.outgoing.iter().map(|(_, bytes)| bytes.len()).sum();
                if waiting + bytes.len() > WAITING_MAX {
                    return self.answer(now, id, Outcome::Stalled);
                }
                self.outgoing.push_back((id, bytes));
            }
            _ => return self.answer(now, id, Outcome::Stalled),
        }
        self.advance(now);
    }

    /// Drops a transfer. Returns true if it was outstanding.
    pub(super) fn cancel(&mut self, id: u64) -> bool {
        let before = self.outgoing.len() + self.incoming.len() + self.completed.len();
        self.outgoing.retain(|(waiting, _)| *waiting != id);
        self.incoming.retain(|(waiting, _)| *waiting != id);
        self.completed.retain(|completed| completed.id != id);
        self.outgoing.len() + self.incoming.len() + self.completed.len() < before
    }

    /// Answers a transfer with a stall.
    pub(super) fn refuse(&mut self, now: Instant, id: u64) {
        self.answer(now, id, Outcome::Stalled);
    }

    /// Returns the instant at which the next transfer completes or the disk ends its operation.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let disk = if self.disk_use == DiskUse::Idle { None } else { self.disk.next_due() };
        self.completed.front().map(|completed| completed.at).into_iter().chain(disk).min()
    }

    /// Returns the next transfer that completes at or before `limit`. If there is none, ends at most one
    /// operation of the disk.
    pub(super) fn complete(&mut self, limit: Instant) -> Progress {
        if let Some(completed) = self.completed.pop_front_if(|completed| completed.at <= limit) {
            return Progress::Completed(completed);
        }
        if self.disk_use == DiskUse::Idle {
            return Progress::None;
        }
        let Some((at, done)) = self.disk.complete(limit) else { return Progress::None };
        self.operation_ended(at, done);
        self.advance(at);
        Progress::Operation(at)
    }
}

/// Progress of the transport up to a given instant.
#[derive(Debug)]
pub(super) enum Progress {
    /// A transfer is complete.
    Completed(Completed),
    /// The disk ended an operation at this instant.
    Operation(Instant),
    /// Nothing is due.
    None,
}
