//! Effects of the card's quirks ([`Quirks`](crate::Quirks)) on commands, data and power.

use super::{Card, CrcStatus};
use crate::command::{Command, Response};
use crate::quirk::{CommandHandling, Location, QuirkEvent};
use flashlab_sim::{Instant, StoreError};

impl Card {
    /// Activates the quirks that are planned for instants up to `now`, and applies removals and power cuts.
    /// Every command and every data block does the same. A caller needs this method only to inspect a card
    /// that receives neither commands nor data.
    pub fn apply_planned_quirks(&mut self, now: Instant) {
        while let Some((at, event)) = self.quirks.time(now) {
            self.apply_event(at, event);
        }
    }

    /// Applies an event. The caller does not learn the fate of the data.
    fn apply_event(&mut self, at: Instant, event: QuirkEvent) {
        match event {
            QuirkEvent::Remove => self.power_off(at),
            QuirkEvent::PowerCut => self.fail_power(at),
        };
    }

    /// Handles a command for a card with quirks.
    pub(super) fn faulty_command(&mut self, now: Instant, command: Command) -> Option<Response> {
        self.apply_planned_quirks(now);
        self.quirks.count_command(command.index);
        while let Some(event) = self.quirks.event_before_command(now, command.index) {
            self.apply_event(now, event);
        }
        self.power?;
        self.advance_to(now);
        match self.quirks.command(now, command.index, command.argument) {
            CommandHandling::Normal => self.execute(now, command),
            CommandHandling::Ignored => None,
            CommandHandling::Illegal => self.illegal(),
        }
    }

    /// Stores the bytes of a block for `at`, as the quirks determine. Returns false if the card rejects the block.
    pub(super) fn store_with_quirks(&mut self, at: u64, bytes: &[u8]) -> Result<bool, StoreError> {
        if self.quirks.is_read_only() {
            return Ok(false);
        }
        let (Some(store), false, Location::At(address)) =
            (&self.store, bytes.is_empty(), self.quirks.location(at))
        else {
            return Ok(true);
        };
        let mut kept = bytes.to_vec();
        self.quirks.corrupt_stored(&mut kept);
        self.write.save_previous(address, kept.len(), store.as_ref())?;
        store.write(address, &kept)?;
        Ok(true)
    }

    /// Counts a written block. A removal or a power cut that the block triggers prevents the CRC status.
    pub(super) fn count_written_block(&mut self, now: Instant) -> Option<CrcStatus> {
        self.quirks.count_block();
        let mut status = Some(CrcStatus::Accepted);
        while let Some(event) = self.quirks.event_after_block(now) {
            self.apply_event(now, event);
            status = None;
        }
        status
    }
}
