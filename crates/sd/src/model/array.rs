//! A card's array behind its translation layer, as the timed model and the card behind the command line share it.
//!
//! Reads stream: a [`Stream`] tells piece by piece when the array has what a read asks for. Writes fill a buffer, whose
//! pages are programmed while others arrive. What a power cut leaves of a write, a [`Tear`] decides.

use super::CardParameters;
use super::buffer::Buffer;
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::Translation;
use flashlab_sim::{Duration, Fate, Instant, PowerCut, RestoreError, Rng};

/// The array and the buffer before it.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) flash: Translation,
    pub(crate) buffer: Buffer,
    /// When the last request was done.
    pub(crate) idle_since: Instant,
    seed: u64,
}

impl Array {
    /// A fresh one, of parameters that have been checked.
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

    /// A request comes at `now`: until then the array was idle.
    #[inline]
    pub(crate) fn wake(&mut self, now: Instant) {
        self.flash.idle(now.saturating_since(self.idle_since));
    }

    /// The power is back; returns when the array is ready.
    pub(crate) fn power_up(&mut self, now: Instant) -> Instant {
        self.idle_since = now + self.flash.power_up();
        self.idle_since
    }

    /// Begins to decide what a cut at `now` leaves of a write; `committed`: the map knows of all that was programmed.
    pub(crate) fn tear(&self, now: Instant, committed: bool) -> Tear {
        let mut rng = Rng::for_purpose(self.seed, now.as_ns());
        let found = committed || rng.below(2) == 0;
        Tear { rng, found, not_begun: None, cut: PowerCut::default() }
    }

    /// What can be kept of it.
    pub(crate) fn state(&self) -> (&Translation, Instant) {
        (&self.flash, self.idle_since)
    }

    /// Takes over a state that was kept.
    pub(crate) fn restore(
        &mut self,
        (flash, idle_since): (Translation, Instant),
    ) -> Result<(), RestoreError> {
        self.flash
            .restore(flash)
            .map_err(|wrong| RestoreError::new(format!("it contradicts itself or the card: {wrong}")))?;
        self.idle_since = idle_since;
        Ok(())
    }
}

/// What is wrong with bytes that are no state.
pub(crate) fn no_state(error: postcard::Error) -> RestoreError {
    RestoreError::new(format!("this is no state of a card: {error}"))
}

/// A read on its way out of the array. Times count from when the card has the command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stream {
    /// When the array has what was asked for so far.
    pub(crate) ready: Duration,
    accessed: bool,
    unit_end: u64,
    granule_end: u64,
}

impl Stream {
    /// Goes on at `at` with what one access brings, no further than `end`; returns where that ends, and how much of the time
    /// went into loading map pages.
    #[inline]
    pub(crate) fn next(&mut self, flash: &mut Translation, at: u64, end: u64) -> (u64, Duration) {
        let mut loading = Duration::ZERO;
        if at >= self.unit_end {
            // One look-up is enough for a map unit.
            self.unit_end = flash.unit_end(at);
            self.granule_end = flash.granule_end(at);
            loading = flash.look_up(at);
            self.ready += loading;
        } else {
            self.granule_end += flash.granule();
        }
        let end = self.granule_end.min(self.unit_end).min(end);
        if flash.is_mapped(at) {
            // The first access is exposed; behind it the array streams.
            self.ready += if self.accessed { flash.stream(end - at) } else { flash.access(at) };
            self.accessed = true;
        }
        (end, loading)
    }
}

impl Stream {
    /// Passes over the whole granules at `at` that arrive from the array before the wires need them, in the map unit that
    /// was looked up and no further than `end`. The wires are free at `wires` and take `on_wires` for a granule. Returns how
    /// many granules these are.
    #[inline]
    pub(crate) fn ahead(
        &mut self,
        flash: &Translation,
        at: u64,
        end: u64,
        wires: Duration,
        on_wires: Duration,
    ) -> u64 {
        let each = flash.stream(flash.granule());
        // Where the array is no slower than the wires, it stays ahead once it is.
        if !self.accessed || at >= self.unit_end || each > on_wires || self.ready + each > wires {
            return 0;
        }
        let granules = flash.mapped_run(at..end.min(self.unit_end));
        self.ready += each * granules;
        self.granule_end += flash.granule() * granules;
        granules
    }
}

/// What a power cut leaves of a write, page by page. A page whose program was done can be found where the write goes on
/// with its run; before a commit, recovery may miss it. Of the page that was being programmed anything may be found. What
/// was not begun is as it was.
pub(crate) struct Tear {
    rng: Rng,
    /// What was programmed is found.
    found: bool,
    /// Where the first page lies that was not begun.
    pub(crate) not_begun: Option<u64>,
    pub(crate) cut: PowerCut,
}

impl Tear {
    /// The next page: programmed from `start` to `end`, in a write that was cut at `since`.
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

/// The kept state of an array alone, or with more behind it.
pub(crate) fn parse(state: &[u8]) -> Result<((Translation, Instant), &[u8]), RestoreError> {
    postcard::take_from_bytes(state).map_err(no_state)
}

/// The bytes of a state.
pub(crate) fn to_bytes(state: &impl serde::Serialize) -> Option<Vec<u8>> {
    postcard::to_allocvec(state).ok()
}
