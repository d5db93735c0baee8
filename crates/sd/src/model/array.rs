//! The array of a card with its translation layer. The timed model and the card with a command line share it.
//!
//! Reads are streamed: a [`Stream`] computes piece by piece when the array has the requested data. Writes fill a
//! buffer, whose pages are programmed while further ones arrive. A [`TornWrite`] decides what a power cut leaves of a
//! write.

use super::CardParameters;
use super::buffer::Buffer;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::card::Translation;
use flashlab_sim::{Duration, Fate, Instant, PowerCut, RestoreError, Rng};

/// The array and its write buffer.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) flash: Translation,
    pub(crate) buffer: Buffer,
    /// Time when the last request completed.
    pub(crate) idle_since: Instant,
    seed: u64,
}

impl Array {
    /// Creates a fresh array. The caller has checked `parameters`.
    pub(crate) fn new(parameters: CardParameters, seed: u64) -> Self {
        let CardParameters { capacity, nand, mapping, wear, .. } = parameters;
        let buffered_pages = (mapping.program_unit / nand.page) as usize;
        Array {
            flash: Translation::new(capacity, nand, mapping, &wear, seed),
            buffer: Buffer::new(buffered_pages),
            idle_since: Instant::ZERO,
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
        self.idle_since = now + self.flash.power_up();
        self.idle_since
    }

    /// Starts to decide what a power cut at `now` leaves of a write. `committed` is true if the map records all pages
    /// that were programmed.
    pub(crate) fn torn_write(&self, now: Instant, committed: bool) -> TornWrite {
        let mut rng = Rng::for_purpose(self.seed, now.as_ns());
        let found = committed || rng.below(2) == 0;
        TornWrite { rng, found, not_begun: None, cut: PowerCut::default() }
    }

    /// Returns the state that goes into a state file.
    pub(crate) fn state(&self) -> (&Translation, Instant) {
        (&self.flash, self.idle_since)
    }

    /// Restores a saved state.
    pub(crate) fn restore(
        &mut self,
        (flash, idle_since): (Translation, Instant),
    ) -> Result<(), RestoreError> {
        self.flash
            .restore(flash)
            .map_err(|wrong| RestoreError::new(format!("invalid state for this card: {wrong}")))?;
        self.idle_since = idle_since;
        Ok(())
    }
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
}

impl Stream {
    /// Reads the data of one access at `at`, no further than `end`. Returns the end of that data, and how much of the
    /// time was spent on loading map pages.
    #[inline]
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
            // The latency of the first access is exposed. After it, the array streams.
            self.ready += if self.accessed { flash.stream(end - at) } else { flash.access(at) };
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
        // An array that is no slower than the wires stays ahead of them.
        if !self.accessed || at >= self.unit_end || each > on_wires || self.ready + each > wires {
            return 0;
        }
        let granules = flash.mapped_run(at..end.min(self.unit_end));
        self.ready += each * granules;
        self.granule_end += flash.granule() * granules;
        granules
    }
}

/// Decides page by page what a power cut leaves of a write. A page that was programmed completely has its new data,
/// unless recovery misses it because the write was not committed. A page whose program was interrupted holds its old
/// data, its new data, or is unreadable. Pages whose program had not started keep their old data.
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
        let fate = if end <= since {
            if self.found { Fate::New } else { Fate::Old }
        } else if start < since {
            [Fate::Old, Fate::New, Fate::Unreadable][self.rng.below(3) as usize]
        } else {
            self.not_begun.get_or_insert(bytes.start);
            Fate::Old
        };
        self.cut.push(bytes, fate);
    }
}

/// Parses the saved state of an array. Returns the remaining bytes too, since the state of a [`crate::Card`] has more
/// data.
pub(crate) fn parse(state: &[u8]) -> Result<((Translation, Instant), &[u8]), RestoreError> {
    postcard::take_from_bytes(state).map_err(invalid_state)
}

/// Serializes a state.
pub(crate) fn to_bytes(state: &impl serde::Serialize) -> Option<Vec<u8>> {
    postcard::to_allocvec(state).ok()
}
