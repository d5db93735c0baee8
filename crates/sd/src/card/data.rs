//! Commands that read, write and erase blocks.

use super::volatile::{Erase, Lines, Read};
use super::{Card, State};
use crate::command::{Response, Status};
use crate::model::array::Stream;
use flashlab_sim::{Instant, Mechanism};

/// Argument of CMD38: full user area logical erase (FULE).
const FULL_ERASE: u32 = 2;

impl Card {
    /// Executes CMD16.
    pub(super) fn set_block_length(&mut self, length: u32) -> Option<Response> {
        if (1..=512).contains(&length) {
            self.volatile.block_length = length;
        } else {
            self.error(Status::BLOCK_LEN_ERROR);
        }
        Some(self.r1())
    }

    /// Returns the byte address that an argument stands for.
    pub(super) fn offset(&mut self, argument: u32) -> u64 {
        if self.identity.is_block_addressed() {
            let extension = core::mem::take(&mut self.volatile.prefix.address_extension);
            (extension | u64::from(argument)) * 512
        } else {
            u64::from(argument)
        }
    }

    /// Returns the block length of transfers in bytes. It is fixed if addresses count blocks.
    pub(super) fn block_length(&self) -> u32 {
        if self.identity.is_block_addressed() { 512 } else { self.volatile.block_length }
    }

    /// Starts a request. The array was idle until the beginning of the request's first command.
    pub(super) fn end_idle(&mut self, now: Instant) {
        let began = Instant::from_ns(now.as_ns().saturating_sub(self.command_time.as_ns()));
        self.array.end_idle(began);
        self.array.idle_since = now;
    }

    /// Executes CMD17 or CMD18. `blocks` is the block count, if the host has specified it.
    pub(super) fn read(&mut self, now: Instant, argument: u32, blocks: Option<u32>) -> Option<Response> {
        let (at, block) = (self.offset(argument), self.block_length());
        let crosses = at / 512 != (at + u64::from(block) - 1) / 512;
        if at.saturating_add(u64::from(block)) > self.capacity {
            self.error(Status::OUT_OF_RANGE);
            return Some(self.r1());
        }
        if block < 512 && !self.csd.reads_parts() {
            self.error(Status::BLOCK_LEN_ERROR);
            return Some(self.r1());
        }
        if crosses && !self.csd.reads_misaligned() {
            self.error(Status::ADDRESS_ERROR);
            return Some(self.r1());
        }
        self.end_idle(now);
        let end = blocks.map(|blocks| at + u64::from(blocks) * u64::from(block));
        let accepted = now.max(self.volatile.busy);
        self.volatile.lines =
            Lines::Read(Read { stream: Stream::default(), accepted, at, end, block, ready_to: at });
        self.r1_then(State::SendingData)
    }

    /// Executes CMD24 or CMD25. `blocks` is the block count, if the host has specified it.
    pub(super) fn begin_write(
        &mut self,
        now: Instant,
        argument: u32,
        blocks: Option<u32>,
    ) -> Option<Response> {
        let at = self.offset(argument);
        self.volatile.written_blocks = 0;
        let refused = if at.saturating_add(512) > self.capacity {
            Status::OUT_OF_RANGE
        } else if self.block_length() != 512 {
            Status::BLOCK_LEN_ERROR
        } else if !at.is_multiple_of(512) {
            Status::ADDRESS_ERROR
        } else if self.is_protected(at) {
            Status::WP_VIOLATION
        } else {
            Status::default()
        };
        if refused != Status::default() {
            self.error(refused);
            return Some(self.r1());
        }
        self.end_idle(now);
        let accepted = now.max(self.volatile.busy);
        // The card ignores a block count that reaches beyond its capacity, and rejects the first block there.
        let end = blocks.map(|blocks| at + u64::from(blocks) * 512).filter(|end| *end <= self.capacity);
        self.put_into_cache();
        self.write.begin(accepted, at, end, &mut self.array);
        self.write.cached = self.volatile.settings.caches();
        self.writing = true;
        let v = &mut self.volatile;
        v.ignores_blocks = false;
        v.lines = Lines::Write;
        self.r1_then(State::ReceiveData)
    }

    /// Executes CMD32 or CMD33.
    pub(super) fn erase_from(&mut self, argument: u32, first: bool) -> Option<Response> {
        let at = self.offset(argument);
        if at >= self.capacity {
            self.volatile.erase = Erase::default();
            self.error(Status::OUT_OF_RANGE);
        } else if first {
            self.volatile.erase = Erase { first: Some(at), last: None };
        } else if self.volatile.erase.first.is_some() {
            self.volatile.erase.last = Some(at);
        } else {
            self.error(Status::ERASE_SEQ_ERROR);
        }
        Some(self.r1())
    }

    /// Executes CMD38: erase, discard (which has the same effect here), or full erase. Erased data reads as
    /// the SCR specifies. The map is written at once. The array erases when it needs the space.
    pub(super) fn erase(&mut self, now: Instant, argument: u32) -> Option<Response> {
        let Erase { first, last } = core::mem::take(&mut self.volatile.erase);
        let (Some(first), Some(last)) = (first, last) else {
            self.error(Status::ERASE_SEQ_ERROR);
            return Some(self.r1());
        };
        let all = argument == FULL_ERASE && self.identity.ssr.has_full_erase();
        let unit = self.csd.erase_bytes();
        let range = if all {
            0..self.capacity
        } else {
            first / unit * unit..((last / unit + 1) * unit).min(self.capacity)
        };
        if range.is_empty() {
            self.error(Status::ERASE_PARAM);
            return Some(self.r1());
        }
        let response = self.r1();
        if self.erase_unprotected(range) {
            let commit = self.array.flash.t_commit();
            self.spent[Mechanism::Map] += commit;
            self.be_busy(now, now.max(self.volatile.busy) + commit);
        }
        Some(response)
    }

    /// Cancels the erase sequence because of another command.
    pub(super) fn reset_erase(&mut self) {
        let v = &mut self.volatile;
        if v.erase.first.is_some() || v.erase.last.is_some() {
            v.erase = Erase::default();
            v.errors = v.errors.with(Status::ERASE_RESET);
        }
    }
}
