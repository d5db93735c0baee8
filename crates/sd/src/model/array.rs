//! The array of a card with its translation layer. The timed model and the card with a command line share
//! this module.
//!
//! Reads are streamed: a [`Stream`] computes piece by piece when the array has the requested data. Writes
//! fill a buffer, whose pages are programmed while further pages arrive. A [`TornWrite`] decides what a power
//! cut leaves of a write.

use super::CardParameters;
use super::buffer::Buffer;
use crate::bus::BLOCK;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::card::{RefinementState, Translation};
use flashlab_sim::{Duration, Fate, Instant, PowerCut, RestoreError, Rng};
use serde::{Serialize, Serializer};

/// The array and its write buffer.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) flash: Translation,
    pub(crate) buffer: Buffer,
    /// Time when the array became idle: the end of the last request or of the start-up.
    pub(crate) idle_since: Instant,
    /// The read-ahead after the last command, if that command was a read of a card that reads ahead.
    pub(crate) ahead: Option<Ahead>,
    seed: u64,
}

impl Array {
    /// Creates a fresh array. The caller has checked `parameters`.
    pub(crate) fn new(parameters: CardParameters, seed: u64) -> Self {
        let CardParameters { capacity, nand, mapping, wear, refinements, .. } = parameters;
        let ways = refinements.ways(&nand);
        let buffered_pages = (mapping.program_unit / nand.page) as usize;
        let collected_pages = refinements.write_buffer.map(|bytes| bytes / nand.page);
        Array {
            flash: Translation::new(capacity, nand, mapping, &wear, seed).with(refinements.layer),
            buffer: Buffer::new(buffered_pages, ways, collected_pages),
            idle_since: Instant::ZERO,
            ahead: None,
            seed,
        }
    }

    /// Accounts for the idle time of the array until `now`, when a request arrives.
    #[inline]
    pub(crate) fn end_idle(&mut self, now: Instant) {
        self.flash.idle(now.saturating_since(self.idle_since));
    }

    /// Restores the power. Returns the time when the array is ready.
    pub(crate) fn power_up(&mut self, now: Instant) -> Instant {
        self.ahead = None;
        self.idle_since = now + self.flash.power_up();
        self.idle_since
    }

    /// Returns the [`TornWrite`] of a write that a power cut at `now` interrupts. `committed` is true if the
    /// map records all pages that were programmed.
    pub(crate) fn torn_write(&self, now: Instant, committed: bool) -> TornWrite {
        let mut rng = Rng::for_purpose(self.seed, now.as_ns());
        let found = committed || rng.below(2) == 0;
        TornWrite { rng, found, not_begun: None, cut: PowerCut::default() }
    }

    /// Returns the state that goes into a state file.
    pub(crate) fn state(&self) -> Saved<'_> {
        Saved(self)
    }

    /// Parses a saved state. Also returns the remaining bytes, since the state of a [`crate::Card`] has more
    /// data.
    pub(crate) fn parse<'a>(&self, state: &'a [u8]) -> Result<(Parsed, &'a [u8]), RestoreError> {
        let ((flash, idle_since), rest) = postcard::take_from_bytes(state).map_err(invalid_state)?;
        let (refined, rest) = match self.flash.refinement_state() {
            Some(_) => {
                let (refined, rest) = postcard::take_from_bytes(rest).map_err(invalid_state)?;
                (Some(refined), rest)
            }
            None => (None, rest),
        };
        Ok((Parsed { flash, idle_since, refined }, rest))
    }

    /// Restores a saved state.
    pub(crate) fn restore(&mut self, state: Parsed) -> Result<(), RestoreError> {
        self.flash
            .restore(state.flash, state.refined)
            .map_err(|wrong| RestoreError::new(format!("invalid state for this card: {wrong}")))?;
        self.idle_since = state.idle_since;
        self.ahead = None;
        Ok(())
    }
}

/// A read-ahead. After the first access of a sequence of reads, the array streams without a pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Device offset at which the previous read ended.
    pub(crate) offset: u64,
    /// Instant at which the array began to stream data beyond that offset.
    pub(crate) since: Instant,
}

/// The saved form of an array: the translation layer, the end of the last request, and the state of the
/// active refinements, if there are any.
pub(crate) struct Saved<'a>(&'a Array);

impl Serialize for Saved<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Array { flash, idle_since, .. } = self.0;
        match flash.refinement_state() {
            Some(refined) => (flash, idle_since, refined).serialize(to),
            None => (flash, idle_since).serialize(to),
        }
    }
}

/// A saved state that has been parsed.
pub(crate) struct Parsed {
    flash: Translation,
    idle_since: Instant,
    refined: Option<RefinementState>,
}

/// Returns the error for bytes that are not a saved state.
pub(crate) fn invalid_state(error: postcard::Error) -> RestoreError {
    RestoreError::new(format!("this is not the state of a card: {error}"))
}

/// A read that streams data out of the array. Times are relative to the moment when the card has received the command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// Time when the array has the data requested so far.
    pub(crate) ready: Duration,
    accessed: bool,
    unit_end: u64,
    granule_end: u64,
    /// Time that the array took to stream the data in the buffer of the card that was not transferred yet.
    pub(crate) buffered: Duration,
    /// Access time that the bus mode adds to that of the array.
    access: Duration,
}

impl Stream {
    /// Starts a read in a bus mode with the access time `access`. For a read that continues a read-ahead, `ahead`
    /// is the time for which the array had streamed its data before the command arrived.
    pub(crate) fn new(access: Duration, ahead: Option<Duration>) -> Self {
        Stream { access, accessed: ahead.is_some(), buffered: ahead.unwrap_or_default(), ..Stream::default() }
    }

    /// Reads the data of one access at `at`, no further than `end`. Returns the end of that data, and the
    /// time spent on loading map pages.
    #[inline(always)]
    pub(crate) fn next(&mut self, flash: &mut Translation, at: u64, end: u64) -> (u64, Duration) {
        let mut loading = Duration::ZERO;
        if at >= self.unit_end {
            // One look-up covers a map unit.
            self.unit_end = flash.unit_end(at);
            self.granule_end = flash.granule_end(at);
            loading = flash.look_up(at);
            self.ready += loading;
        } else {
            self.granule_end += flash.granule();
        }
        let end = self.granule_end.min(self.unit_end).min(end);
        if flash.is_mapped(at) {
            // The first access takes its whole latency. After it, the array streams.
            let time = if self.accessed { flash.stream(end - at) } else { flash.access(at) + self.access };
            let before = time.min(self.buffered);
            self.buffered = self.buffered.saturating_sub(before);
            self.ready += time.saturating_sub(before);
            self.accessed = true;
        }
        (end, loading)
    }
}

impl Stream {
    /// Skips the whole granules at `at` that the array delivers before the wires need them. The granules lie in the map
    /// unit that was looked up, before `end`. The wires are free at `wires` and take `on_wires` for each granule.
    /// Returns the number of granules skipped.
    #[inline]
    pub(crate) fn skip_prefetched_granules(
        &mut self,
        flash: &Translation,
        at: u64,
        end: u64,
        wires: Duration,
        on_wires: Duration,
    ) -> u64 {
        let each = flash.stream(flash.granule());
        // Data that was read ahead is counted piece by piece. An array that is no slower than the wires stays ahead of
        // them.
        if !self.accessed
            || self.buffered > Duration::ZERO
            || at >= self.unit_end
            || each > on_wires
            || self.ready + each > wires
        {
            return 0;
        }
        let granules = flash.mapped_run(at..end.min(self.unit_end));
        self.ready += each * granules;
        self.granule_end += flash.granule() * granules;
        granules
    }
}

/// A read whose data goes over the wires as soon as the array has it. Times are relative to the moment when the card has
/// received the command.
pub(crate) struct ReadTransfer {
    pub(crate) stream: Stream,
    /// Time when the wires are free.
    pub(crate) wires: Duration,
    /// Time of a block on the wires.
    block: Duration,
    /// Time for which the wires waited while the card loaded map pages.
    pub(crate) for_map: Duration,
    /// Time for which the wires waited for data from the array.
    pub(crate) for_data: Duration,
}

impl ReadTransfer {
    /// Starts a transfer after the time `t_command`, in which the card processes the command. A block takes `block` on
    /// the wires.
    #[inline]
    pub(crate) fn new(mut stream: Stream, t_command: Duration, block: Duration) -> Self {
        stream.ready += t_command;
        let (for_map, for_data) = (Duration::ZERO, Duration::ZERO);
        ReadTransfer { stream, wires: t_command, block, for_map, for_data }
    }

    /// Transfers the data of one access at `at`, no further than `end`. Returns the end of that data.
    #[inline(always)]
    pub(crate) fn next(&mut self, flash: &mut Translation, at: u64, end: u64) -> u64 {
        let (end, loading) = self.stream.next(flash, at, end);
        let waited = self.stream.ready.saturating_sub(self.wires);
        let for_map = waited.min(loading);
        self.for_map += for_map;
        self.for_data += waited - for_map;
        self.wires = self.wires.max(self.stream.ready) + self.block * ((end - at) / BLOCK);
        end
    }

    /// Transfers the rest of the data, from `at` to `end`, after the first access. Short reads end with their
    /// first access and do not need this loop.
    #[inline(never)]
    pub(crate) fn rest(mut self, flash: &mut Translation, mut at: u64, end: u64) -> Self {
        let granule = flash.granule();
        let on_wires = self.block * (granule / BLOCK);
        while at < end {
            let granules = self.stream.skip_prefetched_granules(flash, at, end, self.wires, on_wires);
            if granules > 0 {
                self.wires += on_wires * granules;
                at += granule * granules;
            } else {
                at = self.next(flash, at, end);
            }
        }
        self
    }
}

/// Decides page by page what a power cut leaves of a write. A page that was programmed completely has its new
/// data, unless recovery misses the page because the write was not committed. A page whose program was
/// interrupted holds its old data, its new data, or is unreadable. Pages whose program had not started keep
/// their old data.
pub(crate) struct TornWrite {
    rng: Rng,
    /// True if recovery finds the pages that were programmed.
    found: bool,
    /// Address of the first page whose program had not started.
    pub(crate) not_begun: Option<u64>,
    pub(crate) cut: PowerCut,
}

impl TornWrite {
    /// Records the next page, programmed from `start` to `end`, of a write that was cut at `since`.
    pub(crate) fn page(&mut self, bytes: Range<u64>, start: Duration, end: Duration, since: Duration) {
        self.page_of_parts(core::slice::from_ref(&bytes), start, end, since);
    }

    /// Records the next page, which holds data of the ranges `parts`. Returns true if its program had started.
    pub(crate) fn page_of_parts(
        &mut self,
        parts: &[Range<u64>],
        start: Duration,
        end: Duration,
        since: Duration,
    ) -> bool {
        let has_begun = end <= since || start < since;
        let fate = if end <= since {
            if self.found { Fate::New } else { Fate::Old }
        } else if has_begun {
            [Fate::Old, Fate::New, Fate::Unreadable][self.rng.below(3) as usize]
        } else {
            self.not_begun = self.not_begun.or(parts.first().map(|part| part.start));
            Fate::Old
        };
        parts.iter().for_each(|part| self.cut.push(part.clone(), fate));
        has_begun
    }
}

/// Serialises a state.
pub(crate) fn to_bytes(state: &impl serde::Serialize) -> Option<Vec<u8>> {
    postcard::to_allocvec(state).ok()
}
