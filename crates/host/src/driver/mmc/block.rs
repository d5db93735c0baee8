//! Block requests, with the commands and the error handling of `mmc_block` in Linux.
//!
//! A request is split at the controller's maximum transfer size. One block uses CMD17 or CMD24. Several
//! blocks use CMD18 or CMD25, followed by a CMD12, or preceded by a CMD23 if host and card support it. For
//! an SDUC card, a CMD22 with the upper bits of the address precedes each transfer, and Linux sends no
//! CMD23. After every write, a host with [`asks_behind_write`](super::Controller::asks_behind_write) sends
//! CMD13 until the card is ready for data again. A failed transfer is repeated up to five times, the last
//! time after a reset. A read of several blocks falls back to single blocks, so that all readable blocks
//! before the first bad one are read.

use super::command::{
    BUSY_LIMIT, CommandType, Data, Direction, MmcCommand, MmcRequest, MmcResponseType, SpiResponseType,
};
use super::log::{Done, Event, Phase};
use super::send::{Bytes, is_ready};
use super::{Error, Mmc};
use core::fmt;
use flashlab_sd::Status;
use flashlab_sd::opcode;

/// Maximum number of retries of a transfer.
const RETRIES_MAX: u32 = 5;
/// Number of retries of a transfer that remain after a data error. Command errors use all retries.
const DATA_RETRIES: u32 = 2;
/// Number of retries of CMD13 and CMD12 in the block layer.
const STATUS_RETRIES: u32 = 5;
/// Size of a block in bytes.
const BLOCK: usize = 512;

/// Error bits of the card status that make a transfer fail.
const ERRORS: u32 = Status::ADDRESS_ERROR.0
    | Status::BLOCK_LEN_ERROR.0
    | Status::WP_VIOLATION.0
    | Status::CARD_ECC_FAILED.0
    | Status::CC_ERROR.0
    | Status::ERROR.0;

/// Error bits that are checked in the response to a command.
const COMMAND_ERRORS: u32 = ERRORS | Status::OUT_OF_RANGE.0;

/// Returns the error bits that the host checks after the data. Without a block count, a card may read ahead
/// beyond its last block and report OUT_OF_RANGE, which the host then ignores.
const fn errors_behind(request: &MmcRequest) -> u32 {
    if request.count.is_some() { COMMAND_ERRORS } else { ERRORS }
}

/// Failed request of the block layer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockError {
    /// First block of 512 bytes that was not transferred.
    pub sector: u64,
    /// Reason for the failure.
    pub error: Error,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}: {}", self.sector, self.error)
    }
}

impl core::error::Error for BlockError {}

impl Mmc {
    /// Reads `count` blocks of 512 bytes from `sector` on. If `buffer` is empty, the bytes are discarded.
    pub fn read(&mut self, sector: u64, count: u32, buffer: &mut [u8]) -> Result<(), BlockError> {
        self.request(Direction::Read, sector, count, Bytes::Read(buffer))
    }

    /// Writes `count` blocks of 512 bytes from `sector` on. If `bytes` is empty, the blocks are written without
    /// contents.
    pub fn write(&mut self, sector: u64, count: u32, bytes: &[u8]) -> Result<(), BlockError> {
        self.request(Direction::Write, sector, count, Bytes::Write(bytes))
    }

    /// Creates the block device of an initialised card, and reads its first blocks to look for a partition table.
    pub(super) fn begin_block_device(&mut self) {
        const PAGE: u64 = 8;
        self.enter(Phase::BlockDevice);
        let busy_limit_ms = self.controller.busy_limit_ms;
        let Some(card) = &mut self.card else { return };
        if card.csd.classes & super::CsdFields::ERASE != 0 && card.erase.unit > 0 {
            let (sectors, limit_ms) = card.erase.discard_max(busy_limit_ms);
            card.discard_max = sectors;
            self.note(|| Event::DiscardMax { sectors, limit_ms });
        }
        let Some(card) = &self.card else { return };
        let (address, name, sectors) = (card.address, card.cid.name, card.csd.sectors);
        self.note(|| Event::Disk { address, name, sectors, read_only: false });
        let count = PAGE.min(sectors) as u32;
        // A read error is logged, but the device is created nevertheless.
        let _ = self.request_in(Phase::BlockDevice, Direction::Read, 0, count, Bytes::None);
    }

    fn request(
        &mut self,
        direction: Direction,
        sector: u64,
        count: u32,
        bytes: Bytes<'_>,
    ) -> Result<(), BlockError> {
        self.request_in(Phase::Transfer, direction, sector, count, bytes)
    }

    fn request_in(
        &mut self,
        phase: Phase,
        direction: Direction,
        sector: u64,
        count: u32,
        mut bytes: Bytes<'_>,
    ) -> Result<(), BlockError> {
        let most = self.controller.transfer_blocks();
        let mut moved = 0;
        while moved < count {
            let blocks = most.min(count - moved);
            let at = sector + u64::from(moved);
            self.poll();
            self.enter(phase);
            let sent = self.awake().and_then(|()| match &self.card {
                None => Err(Error::NoCard),
                Some(card) if at + u64::from(blocks) > card.csd.sectors => Err(Error::Invalid),
                Some(_) => Ok(()),
            });
            let part = |from: u32| from as usize * BLOCK..(from + blocks) as usize * BLOCK;
            let sent = sent.map_err(|error| (0, error)).and_then(|()| match &mut bytes {
                Bytes::Read(buffer) if !buffer.is_empty() => {
                    self.transfer(direction, at, blocks, Bytes::Read(&mut buffer[part(moved)]))
                }
                Bytes::Write(bytes) if !bytes.is_empty() => {
                    self.transfer(direction, at, blocks, Bytes::Write(&bytes[part(moved)]))
                }
                _ => self.transfer(direction, at, blocks, Bytes::None),
            });
            if let Err((done, error)) = sent {
                let sector = at + u64::from(done);
                self.note(|| Event::BlockError { sector, write: direction == Direction::Write });
                return Err(BlockError { sector, error });
            }
            moved += blocks;
        }
        Ok(())
    }

    /// Sends CMD22 before a command that addresses `sector` of an SDUC card.
    ///
    /// If CMD22 fails, the card may still hold the upper bits of another address, so the caller must not send the
    /// command. Linux sends it nevertheless: `mmc_start_request` drops the result of `mmc_send_ext_addr`, because the
    /// card reports address errors in the response to that command (commit 737d220bb2be, in Linux 6.13). That reason
    /// does not cover a CMD22 that the card did not receive.
    pub(super) fn extend_address(&mut self, sector: u64) -> Result<(), Error> {
        let extension = self.card.as_ref().and_then(|card| card.address_extension(sector));
        let Some(extension) = extension else { return Ok(()) };
        let cmd = MmcCommand::new(
            opcode::ADDRESS_EXTENSION,
            extension,
            MmcResponseType::R1,
            CommandType::Addressed,
            SpiResponseType::Nothing,
        );
        self.command(cmd, 0).map(|_| ())
    }

    /// Builds the request of one transfer.
    pub(super) fn transfer_request(&self, direction: Direction, sector: u64, blocks: u32) -> MmcRequest {
        let write = direction == Direction::Write;
        let (argument, limit, counts) = match &self.card {
            Some(card) => {
                let limit = card.limit(write, self.ios.clock_hz);
                (card.argument(sector), limit, card.scr.has_set_block_count())
            }
            None => (0, BUSY_LIMIT, false),
        };
        let many = blocks > 1;
        let counts = counts && !self.card.as_ref().is_some_and(|card| card.extends_addresses);
        let index = match (direction, many) {
            (Direction::Read, false) => opcode::READ_SINGLE_BLOCK,
            (Direction::Read, true) => opcode::READ_MULTIPLE_BLOCK,
            (Direction::Write, false) => opcode::WRITE_BLOCK,
            (Direction::Write, true) => opcode::WRITE_MULTIPLE_BLOCK,
        };
        let count = MmcCommand::new(
            opcode::SET_BLOCK_COUNT,
            blocks,
            MmcResponseType::R1,
            CommandType::Addressed,
            SpiResponseType::Nothing,
        );
        let (answer, spi) = if write {
            (MmcResponseType::R1b, SpiResponseType::R1b)
        } else {
            (MmcResponseType::R1, SpiResponseType::R1)
        };
        let stop = MmcCommand::new(opcode::STOP_TRANSMISSION, 0, answer, CommandType::Addressed, spi);
        MmcRequest {
            count: (many && counts && self.controller.set_block_count).then_some(count),
            stop: many.then_some(stop),
            busy_limit: BUSY_LIMIT,
            ..MmcRequest::with_data(
                MmcCommand::new(index, argument, MmcResponseType::R1, CommandType::Data, SpiResponseType::R1),
                Data { direction, block: BLOCK as u32, blocks, limit },
            )
        }
    }

    /// Transfers up to the controller's maximum transfer size. An error includes the number of blocks transferred.
    fn transfer(
        &mut self,
        direction: Direction,
        sector: u64,
        blocks: u32,
        mut bytes: Bytes<'_>,
    ) -> Result<(), (u32, Error)> {
        let mut retries = 0;
        let mut moved = 0;
        loop {
            let request = self.transfer_request(direction, sector + u64::from(moved), blocks - moved);
            let rest = moved as usize * BLOCK;
            let part = match &mut bytes {
                Bytes::Read(buffer) => Bytes::Read(&mut buffer[rest..]),
                Bytes::Write(bytes) => Bytes::Write(&bytes[rest..]),
                Bytes::None => Bytes::None,
            };
            self.transfers += 1;
            self.extend_address(sector + u64::from(moved)).map_err(|error| (moved, error))?;
            let mut done = self.run(&request, part, 0);
            let failed = self.verdict(direction, &request, &mut done);
            let Some(error) = failed else { return Ok(()) };
            let phase = self.phase;
            self.enter(Phase::Recovery);
            let recovered = self.recover(direction, &request, &done, &mut retries);
            self.enter(phase);
            match recovered {
                Recovered::Moved(n) => {
                    moved += n;
                    if moved == blocks {
                        return Ok(());
                    }
                    continue;
                }
                Recovered::SingleBlocks if blocks - moved > 1 => {
                    return self.read_singly(sector, moved, blocks, bytes);
                }
                Recovered::GiveUp => return Err((moved, error)),
                Recovered::SingleBlocks | Recovered::Again => {}
            }
            retries += 1;
            if retries > RETRIES_MAX {
                return Err((moved, error));
            }
        }
    }

    /// Returns the error of a transfer, if any. Also checks the card status and, after a write, polls with CMD13 until
    /// the card is ready.
    fn verdict(&mut self, direction: Direction, request: &MmcRequest, done: &mut Done) -> Option<Error> {
        let behind = errors_behind(request);
        let failure = |status: u32, errors: u32| (status & errors != 0).then_some(Error::Failed);
        let mut failed = done
            .error()
            .or(failure(done.cmd.response[0], COMMAND_ERRORS))
            .or(failure(done.stop.response[0], behind));
        let asks = direction == Direction::Write && self.controller.asks_behind_write;
        if asks && done.error().is_none() {
            let (answer, last) = self.wait_for_write();
            failed = failed.or(answer.err()).or(failure(last.0, behind));
            if failed.is_some() {
                done.bytes = 0;
            }
        }
        failed
    }

    /// Sends CMD13 until the card is ready for data. Also returns the status bits accumulated over all responses.
    fn wait_for_write(&mut self) -> (Result<(), Error>, Status) {
        let Some(address) = self.card.as_ref().map(|card| card.address) else {
            return (Err(Error::NoCard), Status::default());
        };
        let mut errors = 0;
        let waited = self.poll_while(BUSY_LIMIT, |mmc| {
            let status = mmc.status(address, STATUS_RETRIES)?;
            errors |= status.0;
            Ok(!is_ready(status))
        });
        (waited, Status(errors))
    }

    /// Brings the card back to the transfer state. Returns how the transfer continues.
    fn recover(
        &mut self,
        direction: Direction,
        request: &MmcRequest,
        done: &Done,
        retries: &mut u32,
    ) -> Recovered {
        let Some(address) = self.card.as_ref().map(|card| card.address) else { return Recovered::GiveUp };
        let write = direction == Direction::Write;
        let behind = errors_behind(request);
        let refused = done.cmd.response[0] & COMMAND_ERRORS != 0;
        let mut asked = self.status(address, 0);
        let doubtful = refused
            || done.stop.response[0] & behind != 0
            || asked.map_or(true, |status| status.0 & behind != 0 || write && !is_ready(status));
        let mut bytes = if doubtful { 0 } else { done.bytes };
        if asked.is_err() {
            asked = self.status(address, 0);
        }
        if asked.is_err() && self.detect_removal(address) {
            return Recovered::GiveUp;
        }
        let mut fixed = Ok(());
        if !asked.is_ok_and(is_ready) {
            fixed = self.stop_and_wait(address, request);
        }
        // If the card has not accepted the command, ACMD22 would return the count of the previous write.
        let begun = done.count.error.is_none() && done.cmd.error.is_none() && !refused;
        if fixed.is_ok() && write && begun {
            bytes = self.written_blocks(address).map_or(0, |blocks| blocks.saturating_mul(BLOCK as u64));
        }
        if fixed.is_err() && self.reset().is_err() {
            return Recovered::GiveUp;
        }
        let blocks = (bytes / BLOCK as u64).min(request.data.map_or(0, |data| data.blocks.into()));
        if blocks > 0 {
            return Recovered::Moved(blocks as u32);
        }
        // The host resets the card before the last try. If the reset fails, the last try takes place anyway.
        if *retries + 1 == RETRIES_MAX && self.reset().is_err() {
            return Recovered::Again;
        }
        // Command errors are fast and use all five retries. Data errors take long, so they use fewer retries.
        if done.count.error.is_some() || done.cmd.error.is_some() {
            return Recovered::Again;
        }
        if *retries < RETRIES_MAX - DATA_RETRIES {
            *retries = RETRIES_MAX - DATA_RETRIES;
            return Recovered::Again;
        }
        if write { Recovered::Again } else { Recovered::SingleBlocks }
    }

    /// Returns true if the card no longer responds at all, and marks the card as removed.
    fn detect_removal(&mut self, address: u16) -> bool {
        let gone = self.status(address, super::send::RETRIES).is_err()
            && (!self.controller.detects_card || self.native.card().is_none());
        if gone {
            self.note(|| Event::RemoveDetected);
            if let Some(card) = &mut self.card {
                card.removed = true;
            }
        }
        gone
    }

    /// Sends CMD12, and then CMD13 until the card is ready for data.
    fn stop_and_wait(&mut self, address: u16, request: &MmcRequest) -> Result<(), Error> {
        let limit = request.data.map_or(BUSY_LIMIT, |data| data.limit);
        let stop = MmcCommand::new(
            opcode::STOP_TRANSMISSION,
            0,
            MmcResponseType::R1,
            CommandType::Addressed,
            SpiResponseType::R1,
        );
        // A card that is programming does not respond to CMD12. CMD13 shows whether the stop succeeded.
        let _ = self.command(stop, STATUS_RETRIES);
        self.poll_while(limit, |mmc| mmc.status(address, STATUS_RETRIES).map(|status| !is_ready(status)))
    }

    /// Asks the card with ACMD22 how many blocks of the last write it has written. An SDUC card returns the
    /// number in 64 bits.
    fn written_blocks(&mut self, address: u16) -> Result<u64, Error> {
        let limit = self.card.as_ref().map_or(BUSY_LIMIT, |card| card.limit(false, self.ios.clock_hz));
        let cmd = MmcCommand::new(
            opcode::app::SEND_NUM_WR_BLOCKS,
            0,
            MmcResponseType::R1,
            CommandType::Data,
            SpiResponseType::R1,
        );
        if self.card.as_ref().is_some_and(|card| card.extends_addresses) {
            return self.read_application(address, cmd, limit).map(u64::from_be_bytes);
        }
        self.read_application(address, cmd, limit).map(|bytes| u32::from_be_bytes(bytes).into())
    }

    /// Cycles the power and initialises the same card again.
    fn reset(&mut self) -> Result<(), Error> {
        let Some(old) = self.card.clone() else { return Err(Error::NoCard) };
        self.power_cycle(old.ocr);
        let card = self.init_card(old.ocr, Some(&old))?;
        self.card = Some(card);
        self.enter(Phase::Recovery);
        Ok(())
    }

    /// Repeats a failed read block by block, up to the first block that fails.
    fn read_singly(
        &mut self,
        sector: u64,
        moved: u32,
        blocks: u32,
        mut bytes: Bytes<'_>,
    ) -> Result<(), (u32, Error)> {
        for n in moved..blocks {
            let request = self.transfer_request(Direction::Read, sector + u64::from(n), 1);
            let mut retries = 0;
            loop {
                let part = match &mut bytes {
                    Bytes::Read(buffer) => {
                        Bytes::Read(&mut buffer[n as usize * BLOCK..(n as usize + 1) * BLOCK])
                    }
                    _ => Bytes::None,
                };
                self.transfers += 1;
                self.extend_address(sector + u64::from(n)).map_err(|error| (n, error))?;
                let mut done = self.run(&request, part, 0);
                let Some(error) = self.verdict(Direction::Read, &request, &mut done) else { break };
                let address = self.card.as_ref().map_or(0, |card| card.address);
                let ready = self.status(address, 0).is_ok_and(is_ready);
                if !ready && self.stop_and_wait(address, &request).is_err() {
                    return Err((n, error));
                }
                retries += 1;
                if retries > DATA_RETRIES {
                    return Err((n, error));
                }
            }
        }
        Ok(())
    }
}

/// Next step after a failed transfer.
enum Recovered {
    /// This many blocks were transferred. The next transfer requests the rest.
    Moved(u32),
    /// The transfer is repeated.
    Again,
    /// The transfer continues block by block.
    SingleBlocks,
    /// The transfer fails.
    GiveUp,
}
