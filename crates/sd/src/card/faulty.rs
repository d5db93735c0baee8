//! Where what is wrong with a card ([`Quirks`](crate::Quirks)) meets what it does.

use super::{Card, CrcStatus};
use crate::command::{Command, Response};
use crate::quirk::{Blow, Heard, Place};
use flashlab_sim::{Instant, StoreError};

impl Card {
    /// What was to happen to the card by itself until `now` happens. Commands and blocks see to that; it is for whoever looks
    /// at a card that nobody asks for anything.
    pub fn suffer(&mut self, now: Instant) {
        while let Some((at, blow)) = self.quirks.time(now) {
            self.strike(at, blow);
        }
    }

    /// Nobody is told here what it left.
    fn strike(&mut self, at: Instant, blow: Blow) {
        match blow {
            Blow::Remove => self.power_off(at),
            Blow::PowerCut => self.fail_power(at),
        };
    }

    /// A command for a card that has something wrong with it.
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

    /// Keeps the bytes of a block for `at`, as it keeps them. `false`: it refuses to.
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

    /// A block was written; what then happens may keep the card from saying so.
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
