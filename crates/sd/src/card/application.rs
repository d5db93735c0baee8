//! Application commands: those that CMD55 announces.

use super::{Card, State};
use crate::command::{Command, Response, Status};
use crate::register::CsdVersion;
use flashlab_sim::Instant;

impl Card {
    /// Executes ACMD`index`, which is legal.
    pub(super) fn application_command(&mut self, now: Instant, command: Command) -> Option<Response> {
        // Its response still says that it was taken as an application command.
        self.volatile.application = true;
        let response = match command.index {
            6 => {
                match command.argument & 0b11 {
                    0 => self.volatile.width = 1,
                    2 if self.identity.scr.has_four_lines() => self.volatile.width = 4,
                    _ => self.error(Status::OUT_OF_RANGE),
                }
                Some(self.r1())
            }
            13 => {
                let mut ssr = self.identity.ssr;
                ssr.set_width(self.volatile.width);
                self.send(&ssr.0)
            }
            22 => {
                let blocks = self.volatile.written_blocks;
                // SDUC: 64 bits.
                match self.csd.version() {
                    Some(CsdVersion::V3) => self.send(&u64::from(blocks).to_be_bytes()),
                    _ => self.send(&blocks.to_be_bytes()),
                }
            }
            // Blocks to erase beforehand: the array erases when it takes a block, so there is nothing to gain.
            23 => Some(self.r1()),
            41 => self.initialise(now, command.argument),
            // The pull-up of DAT3 is not modelled: what it is for, the slot knows.
            42 => Some(self.r1()),
            51 => {
                let scr = self.identity.scr.0;
                self.send(&scr)
            }
            _ => None,
        };
        if self.volatile.state != State::Inactive {
            self.volatile.application = false;
        }
        response
    }
}
