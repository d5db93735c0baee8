//! Discards: CMD32, CMD33, CMD38.

use super::command::{CommandType, MmcCommand, MmcRequest, MmcResponseType, SpiResponseType};
use super::log::{Event, Phase};
use super::send::{Bytes, RETRIES, is_ready};
use super::{BlockError, Error, Mmc};
use flashlab_sd::opcode;

/// Bits of the card status that report a failed erase.
const ERRORS: u32 = 0xfff9_a000;

impl Mmc {
    /// Discards `count` blocks of 512 bytes from `sector` on, in pieces that the card can discard within the
    /// controller's maximum busy time.
    pub fn discard(&mut self, sector: u64, count: u64) -> Result<(), BlockError> {
        let end = sector + count;
        let mut at = sector;
        while at < end {
            self.poll();
            self.enter(Phase::Erase);
            let failed = |error| BlockError { sector: at, error };
            self.awake().map_err(failed)?;
            let card = self.card.as_ref().ok_or(failed(Error::NoCard))?;
            if end > card.csd.sectors {
                return Err(failed(Error::Invalid));
            }
            if card.discard_max == 0 {
                return Err(failed(Error::Unsupported));
            }
            let piece = u64::from(card.discard_max).min(end - at);
            let range = card.erase.aligned(at, at + piece);
            if let Some((first, end)) = range {
                self.erase(first, end - 1).map_err(failed)?;
            }
            at += piece;
        }
        Ok(())
    }

    /// Erases the blocks from `first` to `last`, inclusive.
    fn erase(&mut self, first: u64, last: u64) -> Result<(), Error> {
        let Some(card) = &self.card else { return Err(Error::NoCard) };
        let (address, sizes) = (card.address, card.erase);
        let arguments = [card.argument(first), card.argument(last)];
        for ((index, argument), sector) in [opcode::ERASE_WR_BLK_START, opcode::ERASE_WR_BLK_END]
            .into_iter()
            .zip(arguments)
            .zip([first, last])
        {
            self.extend_address(sector)?;
            let cmd = MmcCommand::new(
                index,
                argument,
                MmcResponseType::R1,
                CommandType::Addressed,
                SpiResponseType::R1,
            );
            if let Err(error) = self.command(cmd, 0) {
                self.note(|| Event::Failure("group start error {}, status 0", error));
                return Err(Error::Failed);
            }
        }
        let limit = sizes.limit(first, last);
        // If the controller cannot wait that long, the command expects R1 instead of R1b.
        let longest = u64::from(self.controller.busy_limit_ms) * 1_000_000;
        let waits = longest == 0 || limit.as_ns() <= longest;
        let (answer, spi) = if waits {
            (MmcResponseType::R1b, SpiResponseType::R1b)
        } else {
            (MmcResponseType::R1, SpiResponseType::R1)
        };
        let cmd = MmcCommand::new(opcode::ERASE, sizes.argument, answer, CommandType::Addressed, spi);
        let request = MmcRequest { busy_limit: limit, ..MmcRequest::bare(cmd) };
        let done = self.run(&request, Bytes::None, 0);
        if let Some(error) = done.error() {
            self.note(|| Event::Failure("erase error {}, status 0", error));
            return Err(Error::Failed);
        }
        if waits && self.controller.trusts_r1b {
            return Ok(());
        }
        if self.controller.senses_busy {
            return self.wait_while_busy(address, limit);
        }
        let mut errors = 0;
        self.poll_while(limit, |mmc| {
            let status = mmc.status(address, RETRIES)?;
            errors |= status.0 & ERRORS;
            Ok(!is_ready(status))
        })?;
        if errors == 0 { Ok(()) } else { Err(Error::Failed) }
    }
}
