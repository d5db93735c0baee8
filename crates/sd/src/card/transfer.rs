//! Data blocks between the array and the wires.

use super::volatile::{BlockPurpose, Lines, Read};
use super::{Card, CrcStatus, State, Transfer};
use crate::command::Status;
use crate::quirk::{Location, T_STUCK_BUSY};
use crate::register::{Csd, Group};
use core::ops::Range;
use flashlab_sim::{Duration, Instant, Mechanism, fault};

impl Card {
    /// Returns the direction of the data lines.
    #[inline]
    pub fn transfer(&self) -> Transfer {
        match self.volatile.lines {
            Lines::Idle => Transfer::None,
            Lines::Read(Read { block, .. }) | Lines::Register(block) => Transfer::Sending { block },
            Lines::Write => Transfer::Receiving { block: 512 },
            Lines::ReceiveOther(block, _) => Transfer::Receiving { block },
        }
    }

    /// Returns the earliest time from `now` on at which a sending card can send the next block. Returns
    /// `None` if the card never sends the block, so that the host times out.
    #[inline]
    pub fn block_ready(&mut self, now: Instant) -> Option<Instant> {
        if !self.quirks.is_empty() {
            self.apply_planned_quirks(now);
            if !self.quirks.sends_data() {
                return None;
            }
        }
        match &mut self.volatile.lines {
            Lines::Register(_) => Some(now.max(self.volatile.busy)),
            Lines::Read(read) => {
                let end = read.at + u64::from(read.block);
                if end <= read.ready_to && read.block == 512 && self.unreadable.is_empty() {
                    return Some(now.max(read.accepted + read.stream.ready));
                }
                self.stream(now, end)
            }
            _ => None,
        }
    }

    /// Sends up to `count` blocks whose bytes the host does not need. The card has no quirks. Each block
    /// takes `each`, and the host waits for each block up to `limit`. Returns the number of blocks sent, and
    /// the time when the last block ended. The effect is the same as that of alternate calls of
    /// [`Card::block_ready`] and [`Card::send_block`]. Blocks that one access of the array reads are
    /// processed together.
    pub(crate) fn send_blocks(
        &mut self,
        now: Instant,
        count: u32,
        each: Duration,
        limit: Duration,
    ) -> (u32, Instant) {
        let (mut sent, mut now) = (0, now);
        while sent < count {
            let Some(ready) = self.block_ready(now).filter(|ready| ready.saturating_since(now) <= limit)
            else {
                break;
            };
            let Lines::Read(read) = &mut self.volatile.lines else { break };
            let block = u64::from(read.block);
            let is_plain = block == 512 && self.unreadable.is_empty();
            let brought = if is_plain { (read.ready_to - read.at) / block } else { 1 };
            let blocks = brought.min(u64::from(count - sent));
            read.at += blocks * block;
            let done = read.end == Some(read.at);
            sent += blocks as u32;
            now = ready + each * blocks;
            if done {
                self.end_read(now);
                break;
            }
        }
        (sent, now)
    }

    /// Reads from the array the data up to `end`, which the next block needs.
    fn stream(&mut self, now: Instant, end: u64) -> Option<Instant> {
        let Lines::Read(read) = &mut self.volatile.lines else { return None };
        if end > self.capacity {
            self.error(Status::OUT_OF_RANGE);
            return None;
        }
        if read.at / 512 != (end - 1) / 512 && !self.csd.reads_misaligned() {
            self.error(Status::ADDRESS_ERROR);
            return None;
        }
        let mut loading = Duration::ZERO;
        while read.ready_to < end {
            let last = read.end.unwrap_or(self.capacity).min(self.capacity);
            let (ready_to, load) = read.stream.next(&mut self.array.flash, read.ready_to, last);
            read.ready_to = ready_to;
            loading += load;
        }
        let ready = read.accepted + read.stream.ready;
        let waited = ready.saturating_since(now);
        let for_map = waited.min(loading);
        self.spent[Mechanism::Map] += for_map;
        self.spent[Mechanism::Read] += waited - for_map;
        let block = read.at..end;
        if self.unreadable.iter().any(|torn| torn.start < block.end && block.start < torn.end) {
            self.error(Status::CARD_ECC_FAILED);
            return None;
        }
        Some(now.max(ready))
    }

    /// Sends a block whose last bit leaves the card at `now`, and fills `buffer`. The buffer may be empty if
    /// the bytes are not needed. Returns false if the store cannot read the bytes. In that case, the card
    /// sends nothing.
    #[inline]
    pub fn send_block(&mut self, now: Instant, buffer: &mut [u8]) -> bool {
        match &mut self.volatile.lines {
            Lines::Read(read) => {
                let at = read.at;
                let next = at + u64::from(read.block);
                let done = read.end == Some(next);
                if !buffer.is_empty() && !self.fill(at, buffer) {
                    return false;
                }
                if let Lines::Read(read) = &mut self.volatile.lines {
                    read.at = next;
                }
                if done {
                    self.end_read(now);
                }
            }
            Lines::Register(length) => {
                let length = (*length as usize).min(buffer.len());
                buffer[..length].copy_from_slice(&self.volatile.register[..length]);
                self.volatile.lines = Lines::Idle;
                self.volatile.state = State::Transfer;
                if let Some(chosen) = self.volatile.bus.chosen.take() {
                    self.volatile.bus.selection = chosen;
                    let high = chosen.0[Group::AccessMode as usize] > 0;
                    self.csd.set_tran_speed(if high {
                        Csd::TRAN_SPEED_50_MHZ
                    } else {
                        self.identity.csd.tran_speed()
                    });
                }
            }
            _ => {}
        }
        true
    }

    /// Fills `buffer` with the data at `at`. Returns false if the store fails.
    fn fill(&mut self, at: u64, buffer: &mut [u8]) -> bool {
        let (Location::At(at), Some(store)) = (self.quirks.location(at), &self.store) else {
            buffer.fill(0);
            return true;
        };
        let range = at..at + buffer.len() as u64;
        let read = if self.identity.scr.erased_are_ones()
            && !self.array.flash.is_mapped(at)
            && store.data_in(range) == Ok(None)
        {
            buffer.fill(0xff);
            Ok(())
        } else {
            store.read(at, buffer)
        };
        if read.is_err() {
            buffer.fill(0);
            self.error(Status::CC_ERROR);
        }
        read.is_ok()
    }

    /// Ends a read.
    pub(super) fn end_read(&mut self, now: Instant) {
        self.volatile.lines = Lines::Idle;
        self.volatile.state = State::Transfer;
        self.array.idle_since = now;
    }

    /// Receives a block whose last bit arrived at `now`. `bytes` may be empty if the card stores no bytes. `crc_ok` is
    /// true if the CRC16 was correct. Returns `None` if the card sends no CRC status, as after an error until CMD12.
    #[inline]
    pub fn receive_block(&mut self, now: Instant, bytes: &[u8], crc_ok: bool) -> Option<CrcStatus> {
        if !self.quirks.is_empty() {
            self.apply_planned_quirks(now);
        }
        match self.volatile.lines {
            _ if self.volatile.ignores_blocks => None,
            Lines::Write if crc_ok => self.receive(now, bytes),
            Lines::Write => {
                self.ignore_following_blocks(now);
                Some(CrcStatus::CrcError)
            }
            Lines::ReceiveOther(..) if !crc_ok => {
                self.volatile.lines = Lines::Idle;
                self.volatile.state = State::Transfer;
                Some(CrcStatus::CrcError)
            }
            Lines::ReceiveOther(length, purpose) => {
                let length = (length as usize).min(bytes.len());
                self.volatile.lines = Lines::Idle;
                self.volatile.state = State::Transfer;
                self.handle_non_data_block(now, &bytes[..length], purpose);
                Some(CrcStatus::Accepted)
            }
            _ => None,
        }
    }

    /// Receives a block for the array.
    fn receive(&mut self, now: Instant, bytes: &[u8]) -> Option<CrcStatus> {
        let at = self.write.at;
        if at + 512 > self.capacity {
            self.error(Status::OUT_OF_RANGE);
            self.ignore_following_blocks(now);
            return None;
        }
        if self.is_protected(at) {
            self.error(Status::WP_VIOLATION);
            self.ignore_following_blocks(now);
            return Some(CrcStatus::WriteError);
        }
        let stored = match &self.store {
            _ if !self.quirks.is_empty() => self.store_with_quirks(at, bytes),
            Some(store) if !bytes.is_empty() => {
                let kept = self.write.save_previous(at, bytes.len(), store.as_ref());
                kept.and_then(|()| store.write(at, bytes)).map(|()| true)
            }
            _ => Ok(true),
        };
        let written =
            stored == Ok(true) && self.write.arrived(now, 512, &mut self.array, &mut self.spent).is_ok();
        if !written {
            self.fail_write();
            self.ignore_following_blocks(now);
            return Some(CrcStatus::WriteError);
        }
        // While the card has unreadable blocks, writes do not go into the cache. A power cut therefore cannot undo the
        // repair of such a block.
        self.write.cached &= self.unreadable.is_empty();
        self.mark_readable(at..at + 512);
        self.volatile.written_blocks += 1;
        if self.write.end == Some(self.write.at) {
            self.end_write(now, Duration::ZERO);
        }
        if self.quirks.is_empty() { Some(CrcStatus::Accepted) } else { self.count_written_block(now) }
    }

    /// Reports a failed write, and reverts the part of the last page that has arrived.
    fn fail_write(&mut self) {
        self.error(Status::ERROR);
        if self.write.revert_incomplete_page(self.store.as_deref()).is_err() {
            self.error(Status::CC_ERROR);
        }
        self.volatile.written_blocks = (self.write.written() / 512) as u32;
    }

    /// Ignores the following blocks until CMD12. A write of a single block ends at once.
    fn ignore_following_blocks(&mut self, now: Instant) {
        let single = self.write.end.is_some_and(|end| end == self.write.at + 512);
        if single && self.volatile.written_blocks == 0 {
            self.end_write(now, Duration::ZERO);
        } else {
            self.volatile.ignores_blocks = true;
        }
    }

    /// Ends a write. The card is busy until the data is durable or, with a volatile cache, in the cache.
    pub(super) fn end_write(&mut self, now: Instant, stop: Duration) {
        self.volatile.ignores_blocks = false;
        self.volatile.lines = Lines::Idle;
        let until = match self.write.finish(now, stop, &mut self.array, &mut self.spent) {
            Ok(until) => until,
            Err(_) => {
                self.fail_write();
                now
            }
        };
        let until = if self.quirks.is_empty() { until } else { self.quirks.write_ended(now, until) };
        self.write.durable = until;
        self.be_busy(now, until);
        if until <= now {
            self.writing = false;
            self.array.idle_since = now;
        }
    }

    /// Handles a block that is not user data.
    fn handle_non_data_block(&mut self, now: Instant, bytes: &[u8], purpose: BlockPurpose) {
        match purpose {
            BlockPurpose::Csd => match bytes.first_chunk().and_then(|new| self.csd.programmed(new)) {
                Some(csd) => {
                    self.csd = csd;
                    let commit = self.array.flash.t_commit();
                    self.be_busy(now, now + commit);
                }
                None => self.error(Status::CSD_OVERWRITE),
            },
            BlockPurpose::Lock => self.execute_lock(now, bytes),
            BlockPurpose::Extension { function, offset, length } => {
                let Range { start, end } = offset..offset.saturating_add(length).min(512);
                for (at, byte) in (start..end).zip(bytes) {
                    let caches = self.volatile.settings.caches();
                    self.identity.extensions.write(function, at, *byte, &mut self.volatile.settings);
                    let settings = self.volatile.settings;
                    let flushes = self.identity.extensions.flushes(function, at, *byte);
                    if flushes && self.quirks.hangs_on_flush() {
                        self.be_busy(now, now.saturating_add(T_STUCK_BUSY));
                    } else if flushes && !fault("card-ignores-a-flush") || caches && settings.empties_cache()
                    {
                        self.commit_cache();
                    }
                }
            }
            BlockPurpose::Vendor => {}
        }
    }

    /// Returns the time until which DAT0 is low, or `None` if DAT0 is not low.
    #[inline]
    pub fn busy_until(&self, now: Instant) -> Option<Instant> {
        let v = &self.volatile;
        self.power?;
        if v.bus.switching {
            return Some(Instant::MAX);
        }
        let until = match v.lines {
            Lines::Write if !v.ignores_blocks => self.write.room_at(&self.array),
            _ if v.state == State::Programming => v.busy,
            _ => Instant::ZERO,
        };
        let until = if self.quirks.is_empty() { until } else { until.max(self.quirks.busy_until()) };
        (until > now).then_some(until)
    }
}
