//! One request on the wires (command, data, stop), and the retries of a failed command.

use super::command::{
    CommandType, Data, Direction, MmcCommand, MmcRequest, MmcResponseType, SpiResponseType,
};
use super::log::{Done, Event, Outcome, Phase};
use super::{Error, Mmc};
use flashlab_sd::ResponseType;
use flashlab_sd::opcode;
use flashlab_sd::{Response, Status};
use flashlab_sim::{Duration, Instant};

/// Number of retries of a command outside of block requests.
pub(super) const RETRIES: u32 = 3;

/// Bytes of a request. The slices are empty if the card stores no bytes.
pub(super) enum Bytes<'a> {
    /// Buffer for data from the card.
    Read(&'a mut [u8]),
    /// Data for the card.
    Write(&'a [u8]),
    /// No data, or data that is discarded.
    None,
}

/// Returns true if the card is ready for the next transfer: ready for data, and in the transfer state. Some
/// cards report one of these two conditions wrongly.
pub(super) fn is_ready(status: Status) -> bool {
    const TRANSFER: u32 = 4;
    status.0 & Status::READY_FOR_DATA.0 != 0 && status.0 >> 9 & 0xf == TRANSFER
}

impl Mmc {
    /// Sends `request`, with up to `retries` retries if its command fails.
    pub(super) fn run(&mut self, request: &MmcRequest, mut bytes: Bytes<'_>, retries: u32) -> Done {
        self.note(|| Event::Started(*request));
        let mut left = retries;
        let done = loop {
            let done = self.issue(request, &mut bytes);
            match done.cmd.error {
                Some(error) if left > 0 && !self.is_removed() => {
                    self.note(|| Event::Retried { index: request.cmd.command.index, error });
                    left -= 1;
                }
                _ => break done,
            }
        };
        self.note(|| Event::Done(*request, done));
        done
    }

    pub(super) fn issue(&mut self, request: &MmcRequest, bytes: &mut Bytes<'_>) -> Done {
        let mut done = Done::default();
        if let Some(count) = &request.count {
            done.count = self.send(count);
            if done.count.error.is_some() {
                return done;
            }
        }
        done.cmd = self.send(&request.cmd);
        if done.cmd.error.is_some() {
            return done;
        }
        let Some(data) = &request.data else {
            if request.cmd.response == MmcResponseType::R1b && self.controller.hardware_waits {
                done.cmd.error = self.native.wait_ready(request.busy_limit).err().map(Error::from);
            }
            return done;
        };
        self.move_data(data, bytes, &mut done);
        if let Some(stop) = request.stop.filter(|_| request.count.is_none() || done.data_error.is_some()) {
            done.stop = self.send(&stop);
        }
        if data.direction == Direction::Write && self.controller.hardware_waits {
            let waited = self.native.wait_ready(data.limit);
            done.data_error = done.data_error.or(waited.err().map(Error::from));
        }
        done
    }

    /// Transfers the blocks of `data` until one fails.
    fn move_data(&mut self, data: &Data, bytes: &mut Bytes<'_>, done: &mut Done) {
        let (length, blocks) = (data.block, data.blocks);
        let moved = match (data.direction, bytes) {
            (Direction::Read, Bytes::Read(buffer)) => {
                self.native.read_blocks(buffer, length, blocks, data.limit)
            }
            (Direction::Read, _) => self.native.read_blocks(&mut [], length, blocks, data.limit),
            (Direction::Write, bytes) => {
                let bytes = if let Bytes::Write(bytes) = bytes { *bytes } else { &[] };
                let mut parts = bytes.chunks(length as usize);
                (0..blocks).try_for_each(|moved| {
                    let part = parts.next().unwrap_or(&[]);
                    self.native.write_block(part, length, data.limit).map_err(|fault| (moved, fault))
                })
            }
        };
        let count = moved.map_or_else(|(moved, _)| moved, |()| blocks);
        done.bytes += u64::from(count) * u64::from(length);
        done.data_error = moved.err().map(|(_, fault)| fault.into());
    }

    /// Sends one command and receives its response.
    pub(super) fn send(&mut self, cmd: &MmcCommand) -> Outcome {
        let expects = match cmd.response {
            MmcResponseType::Nothing => ResponseType::None,
            MmcResponseType::R1 | MmcResponseType::R5 => ResponseType::R1,
            MmcResponseType::R1b => ResponseType::R1b,
            MmcResponseType::R2 => ResponseType::R2,
            MmcResponseType::R3 | MmcResponseType::R4 => ResponseType::R3,
            MmcResponseType::R6 => ResponseType::R6,
            MmcResponseType::R7 => ResponseType::R7,
        };
        let mut outcome = Outcome::default();
        match self.native.command(cmd.command, expects) {
            Ok(Response::R2(bytes)) => {
                for (word, bytes) in outcome.response.iter_mut().zip(bytes.as_chunks().0) {
                    *word = u32::from_be_bytes(*bytes);
                }
            }
            Ok(response) => outcome.response[0] = response.word(),
            Err(fault) => outcome.error = Some(fault.into()),
        }
        outcome
    }

    /// Sends a command without data. Returns the 32 bits of its response.
    pub(super) fn command(&mut self, cmd: MmcCommand, retries: u32) -> Result<u32, Error> {
        Ok(self.command_long(cmd, retries)?[0])
    }

    /// Sends a command without data. Returns all bits of its response.
    pub(super) fn command_long(&mut self, cmd: MmcCommand, retries: u32) -> Result<[u32; 4], Error> {
        let done = self.run(&MmcRequest::bare(cmd), Bytes::None, retries);
        done.error().map_or(Ok(done.cmd.response), Err)
    }

    /// Sends a command that reads one block.
    pub(super) fn read_register<const N: usize>(
        &mut self,
        cmd: MmcCommand,
        limit: Duration,
    ) -> Result<[u8; N], Error> {
        let data = Data { direction: Direction::Read, block: N as u32, blocks: 1, limit };
        let mut bytes = [0; N];
        let done = self.run(&MmcRequest::with_data(cmd, data), Bytes::Read(&mut bytes), 0);
        done.error().map_or(Ok(bytes), Err)
    }

    /// Sends CMD55, which announces an application command, to the card with `address`, or to all cards.
    pub(super) fn app_command(&mut self, address: Option<u16>) -> Result<(), Error> {
        let (argument, command_type) = match address {
            Some(address) => (u32::from(address) << 16, CommandType::Addressed),
            None => (0, CommandType::BroadcastWithResponse),
        };
        let status = self.command(
            MmcCommand::new(
                opcode::APP_CMD,
                argument,
                MmcResponseType::R1,
                command_type,
                SpiResponseType::R1,
            ),
            0,
        )?;
        if status & Status::APP_CMD.0 == 0 { Err(Error::Unsupported) } else { Ok(()) }
    }

    /// Sends an application command without data. CMD55 precedes each try.
    pub(super) fn application(&mut self, address: Option<u16>, cmd: MmcCommand) -> Result<u32, Error> {
        let mut failed = Error::Failed;
        for _ in 0..=RETRIES {
            let sent = self.app_command(address).and_then(|()| self.command(cmd, 0));
            match sent {
                Ok(response) => return Ok(response),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }

    /// Sends an application command that reads a register.
    pub(super) fn read_application<const N: usize>(
        &mut self,
        address: u16,
        cmd: MmcCommand,
        limit: Duration,
    ) -> Result<[u8; N], Error> {
        self.app_command(Some(address))?;
        self.read_register(cmd, limit)
    }

    /// Sends CMD13.
    pub(super) fn status(&mut self, address: u16, retries: u32) -> Result<Status, Error> {
        let cmd = MmcCommand::new(
            opcode::SEND_STATUS,
            u32::from(address) << 16,
            MmcResponseType::R1,
            CommandType::Addressed,
            SpiResponseType::R2,
        );
        self.command(cmd, retries).map(Status)
    }

    /// Polls until `busy` returns false: at once, then after 32 us, and then with pauses that double up to 32 ms.
    pub(super) fn poll_while(
        &mut self,
        limit: Duration,
        mut busy: impl FnMut(&mut Mmc) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        const LONGEST: Duration = Duration::from_us(32_768);
        let end: Instant = self.now() + limit;
        let mut pause = Duration::from_us(32);
        loop {
            let expired = self.now() > end;
            if !busy(self)? {
                return Ok(());
            }
            if expired {
                self.note(|| Event::Warning("Card stuck being busy! __mmc_poll_for_busy"));
                return Err(Error::Timeout);
            }
            self.delay(pause);
            pause = LONGEST.min(pause * 2);
        }
    }

    /// Waits until the card is no longer busy. Uses DAT0 if the driver can sense that line, and CMD13
    /// otherwise.
    pub(super) fn wait_while_busy(&mut self, address: u16, limit: Duration) -> Result<(), Error> {
        if self.controller.senses_busy {
            return self.native.wait_ready(limit).map_err(Error::from);
        }
        self.poll_while(limit, |mmc| mmc.status(address, RETRIES).map(|status| !is_ready(status)))
    }

    /// Returns true if the host has noticed the removal of the card.
    pub(super) fn is_removed(&self) -> bool {
        self.card.as_ref().is_some_and(|card| card.removed)
    }

    /// Sets the current phase of the host.
    pub(super) fn enter(&mut self, phase: Phase) {
        self.phase = phase;
    }
}
