//! Writes, trims and flushes: changes of the map, the transfer to the drive, and the write buffer.
//!
//! A drive that loads its map on demand trims one map page at a time, and only map pages that exist. The cost
//! of deallocating a whole drive is therefore proportional to the amount of mapped data.
//!
//! A write of part of a unit first reads the old unit, with the time, retries and errors of any read. If that
//! read fails, the command ends with NVMe's Unrecovered Read Error and writes nothing. The unit stays
//! unreadable until it is written or trimmed as a whole. Some real drives instead keep an error flag for each
//! logical block: they write the new blocks and mark only the others as unreadable. The map of this model has
//! no such flags.

use super::read::Piece;
use super::slot::Slot;
use super::{Ssd, Stage};
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::{Accepted, Found, Ticket};
use flashlab_sim::{Duration, Instant, Op, Request, Status, fault};

impl Ssd {
    /// Returns the units that a request covers, in whole or in part.
    #[inline]
    pub(super) fn units_touched(&self, request: &Request) -> Range<u32> {
        self.unit_of(request.offset)..self.unit_of(request.end() - 1) + 1
    }

    /// Returns the units that a request covers in whole.
    fn units_covered(&self, request: &Request) -> Range<u32> {
        let first = self.unit_of(request.offset + self.unit() - 1);
        first..self.unit_of(request.end()).max(first)
    }

    /// Changes the map pages of a write or a trim. Returns the firmware's time for the change.
    #[inline(never)]
    pub(super) fn change_map(&mut self, now: Instant, slot: u32, request: &Request) -> Duration {
        let units = match request.op {
            Op::Trim => self.units_covered(request),
            _ => self.units_touched(request),
        };
        if units.is_empty() {
            return Duration::ZERO;
        }
        let entries = self.map.entries();
        let capacity = u64::from(self.layer.units());
        let pages = units.start / entries as u32..(units.end - 1) / entries as u32 + 1;
        // Map pages whose entries all change.
        let first = u64::from(units.start).div_ceil(entries) as u32;
        let end = if u64::from(units.end) == capacity { pages.end } else { units.end / entries as u32 };
        let whole = first..end.max(first);
        if request.op == Op::Trim {
            self.trim_existing(pages.clone(), units);
            self.map.deallocate(whole.clone());
            let partly = pages.filter(|page| !whole.contains(page));
            let mut time = Duration::ZERO;
            for page in partly.map(MapPage) {
                // A map page that does not exist has no entry to change.
                if self.map.exists(page) {
                    time += self.change(now, slot, page, false);
                }
            }
            return time;
        }
        pages.map(|page| self.change(now, slot, MapPage(page), whole.contains(&page))).sum()
    }

    /// Unmaps the part of `units` that lies in existing map pages.
    fn trim_existing(&mut self, pages: Range<u32>, units: Range<u32>) {
        let entries = self.map.entries() as u32;
        let mut existing: Vec<u32> = self.map.existing(pages).map(|page| page.0).collect();
        existing.sort_unstable();
        self.layer.trim_all(existing.chunk_by(|a, b| a + 1 == *b).map(|run| {
            let (first, last) = (run[0], run[run.len() - 1]);
            let from = (first * entries).max(units.start);
            let to = (u64::from(last) + 1).saturating_mul(entries.into()).min(units.end.into()) as u32;
            (from, to - from)
        }));
    }

    fn change(&mut self, now: Instant, slot: u32, page: MapPage, all: bool) -> Duration {
        let change = self.map.update(page, all);
        if let Some(page) = change.written_back {
            self.program_map_page(now, page);
        }
        change.time + self.load(now, slot, page, change.load)
    }

    /// Queues a changed map page for programming.
    pub(super) fn program_map_page(&mut self, now: Instant, page: MapPage) {
        self.map_pages.push_back(page);
        self.drain(now);
    }

    /// Serves a write of whole units ahead of time. The command arrives at `at`, and no other command precedes it.
    #[inline]
    pub(super) fn write_early(&mut self, at: Instant, slot: u32, request: &Request) {
        let time = self.parameters.controller.t_command_write;
        let unit = self.unit_of(request.offset);
        let state = self.slots.get_mut(slot);
        state.firmware = time;
        if time > Duration::ZERO {
            return self.events.push(Stage::Firmware, at + time, slot);
        }
        (state.next_unit, state.durable_to) = (unit, unit);
        self.receive(at, slot, request.length);
    }

    /// Starts a write that the firmware has processed: reads the units that the write overwrites in part, or
    /// fetches its data.
    #[inline]
    pub(super) fn write(&mut self, now: Instant, slot: u32) {
        let request = self.slots.get(slot).request;
        let first = self.unit_of(request.offset);
        let state = self.slots.get_mut(slot);
        (state.next_unit, state.durable_to) = (first, first);
        if self.is_of_whole_units(&request) {
            return self.receive(now, slot, request.length);
        }
        self.write_partly(now, slot);
    }

    /// Reads the units that a write overwrites in part.
    #[cold]
    fn write_partly(&mut self, now: Instant, slot: u32) {
        let request = self.slots.get(slot).request;
        let (units, covered) = (self.units_touched(&request), self.units_covered(&request));
        let ends = [units.start, units.end - 1];
        let ends = if units.len() == 1 { &ends[..1] } else { &ends[..] };
        let partly = ends.iter().copied().filter(|unit| !covered.contains(unit));
        if partly.clone().any(|unit| self.layer.read(unit) == Found::Unreadable)
            && !fault("lost-unit-is-filled-up")
        {
            self.slots.get_mut(slot).status = Status::Unreadable;
            return self.post(now, slot);
        }
        for unit in partly {
            if let Found::At { block, page, slc, .. } = self.layer.read(unit) {
                let bytes = self.unit();
                self.counts.read_modify_write_bytes += bytes;
                self.submit_read(now, slot, &Piece { block, page, slc, bytes });
            }
        }
        if self.slots.get(slot).pending == 0 {
            return self.receive(now, slot, request.length);
        }
        self.partial_writes += 1;
    }

    /// Continues a write after its read-modify-write reads, or ends the write if a read failed.
    pub(super) fn merge_reads_finished(&mut self, now: Instant, slot: u32) {
        self.partial_writes -= 1;
        let Slot { request, status, .. } = *self.slots.get(slot);
        if status == Status::Ok { self.receive(now, slot, request.length) } else { self.post(now, slot) }
    }

    /// Fetches the data of a write over the link.
    #[inline]
    pub(super) fn receive(&mut self, now: Instant, slot: u32, bytes: u64) {
        let occupy = self.link.occupy(bytes);
        let end = self.link.receive(now, occupy);
        // The read request travels to the host, and the first data travels back.
        let arrives = end + self.link.round_trip();
        let state = self.slots.get_mut(slot);
        state.bus += occupy + self.link.round_trip();
        state.since = arrives;
        if self.incoming.is_empty() {
            self.events.expect_data(arrives);
        }
        self.incoming.push(arrives, slot);
    }

    /// Handles the arrival of the data of the oldest incoming write.
    #[inline]
    pub(super) fn received(&mut self, now: Instant) {
        self.incoming.arrive();
        self.drain(now);
    }

    /// Moves the units of a write into the write buffer. Returns true when all of them are there, or when the write
    /// failed.
    #[inline]
    fn accept(&mut self, now: Instant, slot: u32) -> bool {
        if !self.map.is_resident() {
            self.recreate_map_pages(slot);
        }
        let Ssd { slots, layer, .. } = self;
        let state = slots.get_mut(slot);
        let end = ((state.request.end() - 1) >> self.unit_shift) as u32 + 1;
        while state.next_unit < end {
            match layer.write(state.next_unit) {
                Accepted::Buffered(_) => state.next_unit += 1,
                Accepted::Full if fault("unit-that-finds-no-room-is-dropped") => state.next_unit += 1,
                Accepted::Full => return false,
                Accepted::ReadOnly => {
                    state.status = Status::ReadOnly;
                    break;
                }
            }
        }
        let Slot { status, request: Request { op, length, .. }, .. } = *state;
        if status == Status::Ok {
            self.counts.host_written_bytes += length;
            if op == Op::WriteFua && !fault("fua-is-a-plain-write") {
                self.forced.push((self.layer.force(), slot));
                return true;
            }
        }
        self.end_program(now, slot);
        true
    }

    /// Ends the wait of a write or a flush for the write buffer or for programs, and posts its completion.
    #[inline]
    fn end_program(&mut self, now: Instant, slot: u32) {
        let state = self.slots.get_mut(slot);
        state.program += now.since(state.since);
        self.post(now, slot);
    }

    /// Completes the FUA writes whose units are all durable.
    #[inline]
    fn end_forced(&mut self, now: Instant) {
        let mut at = 0;
        while let Some((ticket, slot)) = self.forced.get(at).copied() {
            let Ssd { slots, layer, .. } = self;
            let state = slots.get_mut(slot);
            let end = ((state.request.end() - 1) >> self.unit_shift) as u32 + 1;
            while state.durable_to < end && layer.is_unit_durable(state.durable_to, ticket) {
                state.durable_to += 1;
            }
            let is_durable = state.durable_to == end;
            if !is_durable && !layer.is_read_only() {
                at += 1;
                continue;
            }
            if !is_durable {
                state.status = Status::ReadOnly;
            }
            self.forced.remove(at);
            self.end_program(now, slot);
        }
    }

    /// Recreates the map pages of a write that a trim dropped when it overtook the write.
    fn recreate_map_pages(&mut self, slot: u32) {
        let units = self.units_touched(&self.slots.get(slot).request);
        let entries = self.map.entries() as u32;
        for page in (units.start / entries..=(units.end - 1) / entries).map(MapPage) {
            if !self.map.exists(page)
                && let Some(written_back) = self.map.update(page, true).written_back
            {
                self.map_pages.push_back(written_back);
            }
        }
    }

    /// Issues array operations and fills the write buffer until neither the array nor the buffer accepts
    /// more.
    #[inline]
    pub(super) fn drain(&mut self, now: Instant) {
        loop {
            let Ssd { layer, array, .. } = self;
            layer.issue(|operation| array.submit(now, operation));
            let mut made_progress = false;
            while let Some(page) = self.map_pages.front() {
                match self.layer.write_map_page(page.0) {
                    Accepted::Buffered(_) | Accepted::ReadOnly => {
                        self.map_pages.pop_front();
                        made_progress = true;
                    }
                    Accepted::Full => break,
                }
            }
            while let Some(slot) = self.next_received(now) {
                let before = self.slots.get(slot).next_unit;
                if !self.accept(now, slot) {
                    self.incoming.reject();
                    made_progress |= self.slots.get(slot).next_unit > before;
                    break;
                }
                self.incoming.accept();
                made_progress = true;
            }
            if !made_progress {
                break;
            }
        }
        self.events.expect_data(self.incoming.next_arrival());
        self.end_flushes(now);
        self.end_forced(now);
    }

    /// Returns the oldest write that waits for the write buffer, unless the buffer rejected it and has not gained space
    /// since. A read-only device returns every waiting write, so that each of them fails.
    #[inline]
    fn next_received(&self, now: Instant) -> Option<u32> {
        if self.incoming.is_rejected() && self.layer.is_full() && !self.layer.is_read_only() {
            return None;
        }
        self.incoming.arrived(now)
    }

    /// Unmaps the units that a trim covers in whole.
    #[inline(never)]
    pub(super) fn trim(&mut self, now: Instant, slot: u32) {
        let units = self.units_covered(&self.slots.get(slot).request);
        // If the map is loaded on demand, `change_map` has unmapped the units together with the map pages.
        if self.map.is_resident() && !units.is_empty() {
            self.layer.trim(units.start, units.len() as u32);
        }
        self.drain(now);
        self.post(now, slot);
    }

    /// Starts a flush, which makes all earlier writes durable.
    #[inline(never)]
    pub(super) fn flush(&mut self, now: Instant, slot: u32) {
        let ticket = if fault("flush-is-not-passed-on") { Ticket(0) } else { self.layer.flush() };
        self.slots.get_mut(slot).since = now;
        self.flushes.push_back((ticket, slot));
        self.drain(now);
    }

    /// Completes the flushes whose writes are all durable.
    #[inline]
    fn end_flushes(&mut self, now: Instant) {
        while let Some((ticket, slot)) = self.flushes.front().copied() {
            if !self.layer.durable(ticket) && !self.layer.is_read_only() {
                return;
            }
            self.flushes.pop_front();
            if !self.layer.durable(ticket) {
                self.slots.get_mut(slot).status = Status::ReadOnly;
            }
            self.end_program(now, slot);
        }
    }
}
