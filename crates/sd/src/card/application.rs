//! Application commands, which CMD55 announces.

use super::{Card, State};
use crate::command::{Command, Response, Status};
use crate::opcode;
use crate::register::CsdVersion;
use flashlab_sim::Instant;

impl Card {
    /// Executes a legal ACMD`index`.
    pub(super) fn application_command(&mut self, now: Instant, command: Command) -> Option<Response> {
        // The response still reports that the card interpreted the command as an application command.
        self.volatile.prefix.application = true;
        let response = match command.index {
            opcode::app::SET_BUS_WIDTH => {
                match command.argument & 0b11 {
                    0 => self.volatile.bus.width = 1,
                    2 if self.identity.scr.has_four_lines() => self.volatile.bus.width = 4,
                    _ => self.error(Status::OUT_OF_RANGE),
                }
                Some(self.r1())
            }
            opcode::app::SD_STATUS => {
                let mut ssr = self.identity.ssr;
                ssr.set_width(self.volatile.bus.width);
                self.send(&ssr.0)
            }
            opcode::app::SEND_NUM_WR_BLOCKS => {
                let blocks = self.volatile.written_blocks;
                // SDUC cards send 64 bits.
                match self.csd.version() {
                    Some(CsdVersion::V3) => self.send(&u64::from(blocks).to_be_bytes()),
                    _ => self.send(&blocks.to_be_bytes()),
                }
            }
            // The number of blocks to pre-erase has no effect, since the array erases when it receives a
            // block.
            opcode::app::SET_WR_BLK_ERASE_COUNT => Some(self.r1()),
            opcode::app::SD_SEND_OP_COND => self.initialise(now, command.argument),
            // The pull-up of DAT3 serves to detect a card. It is not modelled, since a slot knows if it holds
            // a card.
            opcode::app::SET_CLR_CARD_DETECT => Some(self.r1()),
            opcode::app::SEND_SCR => {
                let scr = self.identity.scr.0;
                self.send(&scr)
            }
            _ => None,
        };
        if self.volatile.state != State::Inactive {
            self.volatile.prefix.application = false;
        }
        response
    }
}
