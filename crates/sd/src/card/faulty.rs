//! Effects of the card's quirks ([`Quirks`](crate::Quirks)) on commands, data and power.

use super::{Card, CrcStatus};
use crate::command::{Command, Response};
use crate::quirk::{Blow, Heard, Place};
use flashlab_sim::{Instant, StoreError};

impl Card {
    /// Applies the planned removals and power cuts until `now`. Commands and data blocks do so too; a caller needs this
    /// method only to inspect a card that receives none.
    pub fn suffer(&mut self, now: Instant) {
        while let Some((at, blow)) = self.quirks.time(now) {
            self.strike(at, blow);
        }
    }

    /// Applies an event. The caller does not learn the fate of the data.
    fn strike(&mut self, at: Instant, blow: Blow) {
        match blow {
            Blow::Remove => self.power_off(at),
            Blow::PowerCut => self.fail_power(at),
        };
    }

    /// Handles a command for a card with quirks.
    pub(super) fn faulty_command(&mut self, now: Instant, command: Command) -> Option<Response> {
        self.suffer(now);
        if let Some(blow) = self.quirks.count_command(now, command.index) {
            self.strike(now, blow);
        }
        self.power?;
        self.settle(now);
        match self.quirks.command(now, command.index, command.argument) {
            Heard::Well => self.execute(now, command),
            Heard::Not => None,
            Heard::Illegal => self.illegal(),
        }
    }

    /// Stores the bytes of a block for `at`, as the quirks determine. Returns false if the card rejects the block.
    pub(super) fn keep_faulty(&mut self, at: u64, bytes: &[u8]) -> Result<bool, StoreError> {
        if self.quirks.is_read_only() {
            return Ok(false);
        }
        let (Some(store), false, Place::At(place)) = (&self.store, bytes.is_empty(), self.quirks.place(at))
        else {
            return Ok(true);
        };
        let mut kept = bytes.to_vec();
        self.quirks.keep(&mut kept);
        self.write.remember(place, kept.len(), store.as_ref())?;
        store.write(place, &kept)?;
        Ok(true)
    }

    /// Counts a written block. An event at this moment may prevent the CRC status.
    pub(super) fn written_faulty(&mut self, now: Instant) -> Option<CrcStatus> {
        match self.quirks.block_written(now) {
            Some(blow) => {
                self.strike(now, blow);
                None
            }
            None => Some(CrcStatus::Accepted),
        }
    }
}
