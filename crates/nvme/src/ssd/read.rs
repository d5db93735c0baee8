//! Reads: map look-up, array operations, and the transfer to the host.

use super::{Ssd, Stage};
use core::ops::Range;
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::Found;
use flashlab_flash::ftl::page_map::map_cache::Location;
use flashlab_flash::nand::{Cause, EraseBlock, Finished, Kind, Operation, ReadOutcome};
use flashlab_sim::{Duration, Instant, Request, Status};

/// Units of a request that lie in the same page, so that one array operation reads them.
pub(super) struct Piece {
    pub(super) block: EraseBlock,
    pub(super) page: u32,
    pub(super) slc: bool,
    pub(super) bytes: u64,
}

impl Piece {
    /// Returns the read operation for the request in `slot`.
    #[inline]
    fn read_for(&self, slot: u32) -> Operation {
        let Piece { block, page, slc, bytes } = *self;
        let kind = Kind::Read { bytes: bytes as u32 };
        Operation { kind, block, page, slc, cause: Cause::Host, tag: slot }
    }
}

impl Ssd {
    /// Returns the firmware's time for a read.
    #[inline]
    pub(super) fn command_time(&self, request: &Request) -> Duration {
        let times = &self.parameters.controller;
        if times.t_command_unmapped == times.t_command {
            return times.t_command;
        }
        let (first, last) = (self.unit_of(request.offset), self.unit_of(request.end() - 1));
        let unmapped = (first..=last).all(|unit| self.layer.read(unit) == Found::Unmapped);
        if unmapped { times.t_command_unmapped } else { times.t_command }
    }

    /// Looks up the map pages of a request. Returns the firmware's time for the look-up.
    #[inline(never)]
    pub(super) fn look_up(&mut self, now: Instant, slot: u32, request: &Request) -> Duration {
        let entries = self.map.entries();
        let first = u64::from(self.unit_of(request.offset)) / entries;
        let last = u64::from(self.unit_of(request.end() - 1)) / entries;
        let mut time = Duration::ZERO;
        for page in first..=last {
            let page = MapPage(page as u32);
            let found = self.map.look_up(page);
            time += found.time;
            time += self.load(now, slot, page, found.found == Location::Flash);
        }
        time
    }

    /// Loads a map page, or waits for a load in progress. Returns the time for which the firmware is blocked.
    pub(super) fn load(&mut self, now: Instant, slot: u32, page: MapPage, load: bool) -> Duration {
        if self.parameters.map.blocking {
            return if load { self.parameters.map.t_load } else { Duration::ZERO };
        }
        let ready = if load { Some(self.loaders.load(now, page)) } else { self.loaders.under_way(now, page) };
        if let Some(ready) = ready {
            let slot = self.slots.get_mut(slot);
            slot.ready = slot.ready.max(ready);
        }
        Duration::ZERO
    }

    /// Submits array reads for the units in the array and sends the rest to the host at once.
    #[inline]
    pub(super) fn read(&mut self, now: Instant, slot: u32) {
        let request = self.slots.get(slot).request;
        self.counts.host_read_bytes += request.length;
        match self.single_piece(&request) {
            Some(piece) => self.submit_read(now, slot, &piece),
            None => self.read_pieces(now, slot, request.offset..request.end()),
        }
    }

    /// Returns the piece of a read that lies within one unit, if the unit is in the array.
    #[inline(always)]
    fn single_piece(&self, request: &Request) -> Option<Piece> {
        let unit = self.unit_of(request.offset);
        if unit != self.unit_of(request.end() - 1) {
            return None;
        }
        match self.layer.read(unit) {
            Found::At { block, page, slc, .. } => Some(Piece { block, page, slc, bytes: request.length }),
            _ => None,
        }
    }

    /// Submits the array read of a command that arrives at `at`, before it arrives. Returns false and does
    /// nothing if the read is not a single piece, if the location of the piece can change before `at`, if the
    /// firmware takes time, or if read errors are modelled.
    #[inline]
    pub(super) fn read_early(&mut self, at: Instant, slot: u32, request: &Request) -> bool {
        let times = &self.parameters.controller;
        let takes_time = times.t_command.max(times.t_command_unmapped) > Duration::ZERO;
        // A write that waits for the write buffer enters it when a program ends.
        let may_change = !self.incoming.is_empty() || self.layer.outstanding() > 0;
        if takes_time || may_change || self.decoder.is_some() {
            return false;
        }
        let Some(piece) = self.single_piece(request) else { return false };
        self.counts.host_read_bytes += request.length;
        self.slots.get_mut(slot).pending = 1;
        self.array.submit_ahead(at, &piece.read_for(slot));
        true
    }

    /// Reads bytes that may lie in several pages, or in none.
    #[inline(never)]
    fn read_pieces(&mut self, now: Instant, slot: u32, bytes: Range<u64>) {
        let mut piece = Piece { block: EraseBlock::new(0), page: 0, slc: false, bytes: 0 };
        // Bytes that need no array operation.
        let mut immediate_bytes = 0;
        let Range { start: mut at, end: to } = bytes;
        while at < to {
            let unit = self.unit_of(at);
            let end = ((u64::from(unit) + 1) << self.unit_shift).min(to);
            let bytes = end - at;
            at = end;
            match self.layer.read(unit) {
                Found::At { block, page, slc, .. } => {
                    if (piece.block, piece.page) != (block, page) && piece.bytes > 0 {
                        self.submit_read(now, slot, &piece);
                        piece.bytes = 0;
                    }
                    piece = Piece { block, page, slc, bytes: piece.bytes + bytes };
                }
                Found::Unmapped | Found::Buffered => immediate_bytes += bytes,
                Found::Unreadable => {
                    self.slots.get_mut(slot).status = Status::Unreadable;
                    immediate_bytes += bytes;
                }
            }
        }
        if piece.bytes > 0 {
            self.submit_read(now, slot, &piece);
        }
        if immediate_bytes > 0
            && let Some(sent) = self.send(now, slot, immediate_bytes)
        {
            self.events.push(Stage::Sent, sent, slot);
        }
    }

    /// Submits the array read of a piece, for a read or for a read-modify-write.
    #[inline]
    pub(super) fn submit_read(&mut self, now: Instant, slot: u32, piece: &Piece) {
        self.slots.get_mut(slot).pending += 1;
        let operation = piece.read_for(slot);
        match self.decode(piece.block, now) {
            Some(read) if read.retries > 0 || read.uncorrectable => {
                self.submit_with_retries(now, operation, read)
            }
            _ => self.array.submit(now, &operation),
        }
    }

    /// Returns the result of decoding a page of `block` at `now`, or `None` if errors are not modelled.
    #[inline]
    pub(super) fn decode(&mut self, block: EraseBlock, now: Instant) -> Option<ReadOutcome> {
        self.decoder.as_ref()?;
        self.decode_by_age(block, now)
    }

    /// Draws the decoding result of a page from its wear and age.
    #[inline(never)]
    fn decode_by_age(&mut self, block: EraseBlock, now: Instant) -> Option<ReadOutcome> {
        let decoder = self.decoder.as_ref()?;
        let cycles = self.layer.blocks().erase_count(block);
        let age = self.ages.since_program(block, now);
        Some(decoder.read(cycles, age, &mut self.rng))
    }

    /// Submits a read with retries. The die is busy for all attempts. The transfers of failed attempts count as array
    /// time.
    #[cold]
    fn submit_with_retries(&mut self, now: Instant, operation: Operation, read: ReadOutcome) {
        let Kind::Read { bytes } = operation.kind else { unreachable!("only reads are read again") };
        let timing = &self.parameters.timing;
        let again = (timing.read(operation.slc) + timing.transfer(bytes)) * u64::from(read.retries);
        self.counts.retries += u64::from(read.retries);
        if read.uncorrectable {
            self.counts.uncorrectable += 1;
            self.slots.get_mut(operation.tag).status = Status::Unreadable;
        }
        self.array.submit_lasting(now, &operation, timing.read(operation.slc) + again);
    }

    /// Sends a piece to the host. Returns the instant at which the completion arrives if this is the last piece.
    #[inline(always)]
    fn send(&mut self, now: Instant, slot: u32, bytes: u64) -> Option<Instant> {
        let occupy = self.link.occupy(bytes);
        let end = self.link.send(now, occupy);
        let post = self.link.post();
        let state = self.slots.get_mut(slot);
        if state.pending > 0 {
            return None;
        }
        state.bus += occupy + post;
        Some(end + post)
    }

    /// Handles the end of an array read for a host request. Returns the instant at which the request completes, if
    /// known.
    #[inline]
    pub(super) fn read_finished(&mut self, finished: &Finished) -> Option<Instant> {
        let Finished { operation, at, array, transfer, .. } = *finished;
        let slot = operation.tag;
        let state = self.slots.get_mut(slot);
        state.pending -= 1;
        if state.request.op.is_write() {
            if state.pending == 0 {
                state.read_modify_write = array + transfer;
                self.merge_reads_finished(at, slot);
            }
            return None;
        }
        if state.pending == 0 {
            state.read = array + transfer;
        }
        let Kind::Read { bytes } = operation.kind else { unreachable!("only reads are the host's") };
        self.send(at, slot, bytes.into())
    }
}
