//! Writes, trims and flushes: the map's changes, the data's way to the drive, and the write buffer.
//!
//! A drive that loads its map trims page of the map by page, and only those that exist: deallocating all of a drive costs
//! what is mapped on it.
//!
//! A write of a part of a unit reads the rest of it first, as any read: with its time, its retries and its errors. Where
//! that cannot be read, the command fails and nothing of it is written, so that what was lost stays an error until the
//! whole unit is written or trimmed. Real drives do this or one thing more: those that keep a flag for each block of a unit
//! write, and mark only the other blocks as unreadable. The map here knows units, so the first. The status is NVMe's
//! Unrecovered Read Error.

use super::read::Piece;
use super::slot::Slot;
use super::{Ssd, Stage};
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::{Accepted, Found};
use flashlab_sim::{Duration, Instant, Op, Request, Status};

impl Ssd {
    /// Units that a request covers, those in part included.
    #[inline]
    pub(super) fn units_touched(&self, request: &Request) -> Range<u32> {
        self.unit_of(request.offset)..self.unit_of(request.end() - 1) + 1
    }

    /// Units that a request covers as a whole.
    fn units_covered(&self, request: &Request) -> Range<u32> {
        let first = self.unit_of(request.offset + self.unit() - 1);
        first..self.unit_of(request.end()).max(first)
    }

    /// Changes the map pages of a write or a trim; returns the firmware's time for it.
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
        // Pages of which every entry changes.
        let first = u64::from(units.start).div_ceil(entries) as u32;
        let end = if u64::from(units.end) == capacity { pages.end } else { units.end / entries as u32 };
        let whole = first..end.max(first);
        if request.op == Op::Trim {
            self.trim_existing(pages.clone(), units);
            self.map.deallocate(whole.clone());
            let partly = pages.filter(|page| !whole.contains(page));
            let mut time = Duration::ZERO;
            for page in partly.map(MapPage) {
                // Where nothing is mapped, nothing changes.
                if self.map.exists(page) {
                    time += self.change(now, slot, page, false);
                }
            }
            return time;
        }
        pages.map(|page| self.change(now, slot, MapPage(page), whole.contains(&page))).sum()
    }

    /// Unmaps those of `units` that lie in map pages that exist.
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
        let change = self.map.change(page, all);
        if let Some(page) = change.written_back {
            self.program_map_page(now, page);
        }
        change.time + self.load(now, slot, page, change.load)
    }

    /// A changed map page is to be programmed.
    pub(super) fn program_map_page(&mut self, now: Instant, page: MapPage) {
        self.map_pages.push_back(page);
        self.drain(now);
    }

    /// The firmware takes up a write of whole units that arrives at `at`, and has nobody before it.
    #[inline]
    pub(super) fn write_ahead(&mut self, at: Instant, slot: u32, request: &Request) {
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

    /// A write leaves the firmware: what it overwrites in part is read first.
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

    /// A write that overwrites units in part reads them first.
    #[cold]
    fn write_partly(&mut self, now: Instant, slot: u32) {
        let request = self.slots.get(slot).request;
        let (units, covered) = (self.units_touched(&request), self.units_covered(&request));
        let ends = [units.start, units.end - 1];
        let ends = if units.len() == 1 { &ends[..1] } else { &ends[..] };
        let partly = ends.iter().copied().filter(|unit| !covered.contains(unit));
        if partly.clone().any(|unit| self.layer.read(unit) == Found::Unreadable) {
            self.slots.get_mut(slot).status = Status::Unreadable;
            return self.post(now, slot);
        }
        for unit in partly {
            if let Found::At { block, page, slc, .. } = self.layer.read(unit) {
                let bytes = self.unit();
                self.counts.read_modify_write_bytes += bytes;
                self.ask_array(now, slot, &Piece { block, page, slc, bytes });
            }
        }
        if self.slots.get(slot).pending == 0 {
            return self.receive(now, slot, request.length);
        }
        self.partial_writes += 1;
    }

    /// What a write keeps of the units that it overwrites in part has left the array, or cannot be read.
    pub(super) fn old_parts_read(&mut self, now: Instant, slot: u32) {
        self.partial_writes -= 1;
        let Slot { request, status, .. } = *self.slots.get(slot);
        if status == Status::Ok { self.receive(now, slot, request.length) } else { self.post(now, slot) }
    }

    /// The data of a write is fetched.
    #[inline]
    pub(super) fn receive(&mut self, now: Instant, slot: u32, bytes: u64) {
        let occupy = self.link.occupy(bytes);
        let end = self.link.receive(now, occupy);
        // The read request's way up and the first data's down.
        let arrives = end + self.link.round_trip();
        let state = self.slots.get_mut(slot);
        state.bus += occupy + self.link.round_trip();
        state.since = arrives;
        if self.incoming.is_empty() {
            self.events.expect_data(arrives);
        }
        self.incoming.push_back((arrives, slot));
    }

    /// The data of the first write that was not refused is here.
    #[inline]
    pub(super) fn received(&mut self, now: Instant) {
        self.is_here = true;
        self.drain(now);
    }

    /// Moves the units of a write into the write buffer; says whether that is done.
    #[inline]
    fn accept(&mut self, now: Instant, slot: u32) -> bool {
        if !self.map.is_whole() {
            self.keep_mapped(slot);
        }
        let Ssd { slots, layer, .. } = self;
        let state = slots.get_mut(slot);
        let end = ((state.request.end() - 1) >> self.unit_shift) as u32 + 1;
        while state.next_unit < end {
            match layer.write(state.next_unit) {
                Accepted::Buffered(_) => state.next_unit += 1,
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
            if op == Op::WriteFua {
                self.forced.push((self.layer.force(), slot));
                return true;
            }
        }
        self.end_program(now, slot);
        true
    }

    /// A write or a flush has waited for the write buffer, or for programs, long enough.
    #[inline]
    fn end_program(&mut self, now: Instant, slot: u32) {
        let state = self.slots.get_mut(slot);
        state.program += now.since(state.since);
        self.post(now, slot);
    }

    /// Completes the writes with FUA of which each unit is durable.
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

    /// A trim that overtook a write has dropped map pages that the write needs.
    fn keep_mapped(&mut self, slot: u32) {
        let units = self.units_touched(&self.slots.get(slot).request);
        let entries = self.map.entries() as u32;
        for page in (units.start / entries..=(units.end - 1) / entries).map(MapPage) {
            if !self.map.exists(page)
                && let Some(gone) = self.map.change(page, true).written_back
            {
                self.map_pages.push_back(gone);
            }
        }
    }

    /// Gives the array what there is to do, and the write buffer what waits for it, until neither takes more.
    #[inline]
    pub(super) fn drain(&mut self, now: Instant) {
        loop {
            let Ssd { layer, array, .. } = self;
            layer.issue(|operation| array.submit(now, operation));
            let mut went_on = false;
            while let Some(page) = self.map_pages.front() {
                match self.layer.write_map_page(page.0) {
                    Accepted::Buffered(_) | Accepted::ReadOnly => {
                        self.map_pages.pop_front();
                        went_on = true;
                    }
                    Accepted::Full => break,
                }
            }
            while let Some(slot) = self.next_received(now) {
                let before = self.slots.get(slot).next_unit;
                self.refused = !self.accept(now, slot);
                if self.refused {
                    went_on |= self.slots.get(slot).next_unit > before;
                    break;
                }
                self.incoming.pop_front();
                self.is_here = false;
                went_on = true;
            }
            if !went_on {
                break;
            }
        }
        let first = self.incoming.front().filter(|_| !self.refused);
        self.events.expect_data(first.map_or(Instant::MAX, |(at, _)| *at));
        self.end_flushes(now);
        self.end_forced(now);
    }

    /// The write that waits for the write buffer first, unless it was refused and nothing has left the buffer since. A
    /// device that takes no more writes says so to all that wait.
    #[inline]
    fn next_received(&self, now: Instant) -> Option<u32> {
        if self.refused && self.layer.is_full() && !self.layer.is_read_only() {
            return None;
        }
        let (at, slot) = *self.incoming.front()?;
        (self.is_here || at < now).then_some(slot)
    }

    /// Unmaps the units that are covered as a whole, where anything is mapped.
    #[inline(never)]
    pub(super) fn trim(&mut self, now: Instant, slot: u32) {
        let units = self.units_covered(&self.slots.get(slot).request);
        // Where the map is loaded, it was done with the map's pages.
        if self.map.is_whole() && !units.is_empty() {
            self.layer.trim(units.start, units.len() as u32);
        }
        self.drain(now);
        self.post(now, slot);
    }

    /// What was written so far is made durable.
    #[inline(never)]
    pub(super) fn flush(&mut self, now: Instant, slot: u32) {
        let ticket = self.layer.flush();
        self.slots.get_mut(slot).since = now;
        self.flushes.push_back((ticket, slot));
        self.drain(now);
    }

    /// Completes the flushes whose writes are durable.
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
