//! A write in progress: the blocks that have arrived, the times of the programs, and the overwritten data.
//!
//! Blocks fill pages. The translation layer receives a page when the page is complete or the write ends in
//! it. If the length is known in advance (one block, CMD23), the layer receives the whole write with its
//! first page, as in [`crate::CardModel`]. Otherwise, the layer receives the write page by page. Bytes go to
//! the store at once. The bytes that they replace are preserved until the write is durable, in case the power
//! is cut.

use super::previous::PreviousContents;
use crate::model::array::Array;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::ReadOnly;
use flashlab_flash::ftl::card::Run;
use flashlab_sim::{Duration, Fate, Instant, Mechanism, PowerCut, Spent, Store, StoreError};

/// A page that has arrived, with the start and the end of its program. Times are relative to the moment when the card
/// received the command.
#[derive(Clone, Debug)]
struct Page {
    bytes: Range<u64>,
    start: Duration,
    end: Duration,
}

/// State of a write.
#[derive(Clone, Debug, Default)]
pub(super) struct Write {
    /// Time when the card received the command.
    accepted: Instant,
    /// Address of the first byte.
    start: u64,
    /// Address of the next block.
    pub(super) at: u64,
    /// End of the write, if the host has specified a block count.
    pub(super) end: Option<u64>,
    /// Address of the page that is arriving.
    page_start: u64,
    /// Time when the last block arrived.
    last: Duration,
    /// End of the range that the translation layer has received.
    translated_to: u64,
    /// True if part of the overwritten data was mapped.
    mapped: bool,
    /// Index of the next run of the translation layer's work, and the number of its pages that are left.
    run: usize,
    pages_left: u64,
    leveling: Duration,
    pages: Vec<Page>,
    previous: PreviousContents,
    /// Time when the commit that follows the last program ends; `None` until the transfer has ended.
    committed: Option<Instant>,
    /// Time when the busy signal of the write ends. Set at the end of the transfer.
    pub(super) durable: Instant,
    /// True if the completed write goes into the cache.
    pub(super) cached: bool,
}

impl Write {
    /// Starts a write to `start` that the card accepts at `now`.
    pub(super) fn begin(&mut self, now: Instant, start: u64, end: Option<u64>, array: &mut Array) {
        array.buffer.begin();
        let (mut pages, mut previous) =
            (core::mem::take(&mut self.pages), core::mem::take(&mut self.previous));
        pages.clear();
        previous.clear();
        *self = Write {
            accepted: now,
            start,
            at: start,
            end,
            page_start: start,
            translated_to: start,
            pages,
            previous,
            ..Write::default()
        };
    }

    /// Returns the address of the first byte.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Returns the time until which DAT0 is low because there is no room for the next page.
    pub(super) fn room_at(&self, array: &Array) -> Instant {
        if self.at == self.page_start { self.accepted + array.buffer.room_at() } else { Instant::ZERO }
    }

    /// Preserves the current content of the block that is about to change. `place` is its location in the store.
    pub(super) fn save_previous(
        &mut self,
        place: u64,
        length: usize,
        store: &dyn Store,
    ) -> Result<(), StoreError> {
        self.previous.save(self.at, place, length, store)
    }

    /// Adds a block of `length` bytes that arrived at `now`. Programs the page if the block completes it.
    pub(super) fn arrived(
        &mut self,
        now: Instant,
        length: u64,
        array: &mut Array,
        spent: &mut Spent,
    ) -> Result<(), ReadOnly> {
        self.at += length;
        self.last = now.saturating_since(self.accepted);
        let page = array.flash.page();
        if self.at / page > self.page_start / page || Some(self.at) == self.end {
            self.program(array, spent)?;
        }
        Ok(())
    }

    /// Programs the part of the current page that has arrived.
    fn program(&mut self, array: &mut Array, spent: &mut Spent) -> Result<(), ReadOnly> {
        let bytes = self.page_start..self.at;
        self.page_start = self.at;
        if bytes.start >= self.translated_to {
            self.pass_to_translation(&bytes, array, spent)?;
        }
        let Run { merge, erase, pages, each } = array.flash.work().runs[self.run];
        let first = self.pages_left == pages;
        self.pages_left -= 1;
        let before = if first { merge + erase } else { Duration::ZERO };
        if self.pages_left == 0 {
            self.next_run(self.run + 1, array);
        }
        if first {
            spent[Mechanism::Merge] += merge;
            spent[Mechanism::Program] += erase;
        }
        spent[Mechanism::Program] += each;
        let start = array.buffer.arrived(self.last, before + each);
        self.pages.push(Page { bytes, start: start + before, end: start + before + each });
        Ok(())
    }

    /// Passes the following data to the translation layer: the whole write if its end is known, otherwise `page`.
    fn pass_to_translation(
        &mut self,
        page: &Range<u64>,
        array: &mut Array,
        spent: &mut Spent,
    ) -> Result<(), ReadOnly> {
        let range = page.start..self.end.map_or(page.end, |end| end.max(page.end));
        self.mapped |= array.flash.mapped_bytes(&range) > 0;
        let work = array.flash.write(range.clone())?;
        self.translated_to = range.end;
        self.leveling += work.leveling;
        let copies = work.read_modify_write + work.merge;
        spent[Mechanism::ReadModifyWrite] += work.read_modify_write;
        spent[Mechanism::Merge] += work.merge + work.leveling;
        array.buffer.copy(copies);
        self.next_run(0, array);
        Ok(())
    }

    fn next_run(&mut self, run: usize, array: &Array) {
        let runs = &array.flash.work().runs;
        self.run = run + runs[run.min(runs.len())..].iter().take_while(|run| run.pages == 0).count();
        self.pages_left = runs.get(self.run).map_or(0, |run| run.pages);
    }

    /// Ends the write: programs the rest of the last page and commits the map. Returns the time when the
    /// write is durable. `stop` is the time of the command that ended the write. This time does not overlap
    /// with programs.
    pub(super) fn finish(
        &mut self,
        now: Instant,
        stop: Duration,
        array: &mut Array,
        spent: &mut Spent,
    ) -> Result<Instant, ReadOnly> {
        if self.at > self.page_start {
            self.program(array, spent)?;
        }
        if self.translated_to > self.at && !self.mapped {
            array.flash.trim(self.at..self.translated_to);
        }
        if self.at == self.start {
            return Ok(now);
        }
        let programmed = now.max(self.accepted + array.buffer.programmed() + stop);
        let commit = array.flash.commit(&(self.start..self.at));
        spent[Mechanism::Map] += commit.map;
        spent[Mechanism::Busy] += commit.busy;
        spent[Mechanism::Housekeeping] += commit.housekeeping;
        self.committed = Some(programmed + commit.map);
        Ok(programmed + self.leveling + commit.total())
    }

    /// Returns true if the write has ended and becomes durable after `now`.
    pub(super) fn is_under_way(&self, now: Instant) -> bool {
        now < self.durable
    }

    /// Takes the data of a completed write: its pages, true if part of the overwritten data was mapped, and the
    /// previous contents of its blocks.
    pub(super) fn take_done(&mut self) -> (Vec<Range<u64>>, bool, PreviousContents) {
        self.cached = false;
        let pages = self.pages.drain(..).map(|page| page.bytes).collect();
        (pages, self.mapped, core::mem::take(&mut self.previous))
    }

    /// Returns the number of bytes of the write that have been passed to the array.
    pub(super) fn written(&self) -> u64 {
        self.page_start - self.start
    }

    /// Ends the write after the array has rejected a page. Restores the previous content of the last page and of
    /// the block that could not be stored.
    pub(super) fn revert_incomplete_page(&mut self, store: Option<&dyn Store>) -> Result<(), StoreError> {
        let held = self.pages.last().map_or(self.start, |page| page.bytes.end);
        if let Some(store) = store {
            self.previous.restore(&(held..u64::MAX), store)?;
        }
        (self.at, self.page_start) = (held, held);
        Ok(())
    }

    /// Cuts the power at `now`. Returns the undecided parts of the write, and restores the old data in the store where
    /// it survives. Data that the store fails to restore is unreadable.
    pub(super) fn cut(&mut self, now: Instant, array: &mut Array, store: Option<&dyn Store>) -> PowerCut {
        self.durable = Instant::ZERO;
        let since = now.saturating_since(self.accepted);
        let mut torn = array.torn_write(now, self.committed.is_some_and(|committed| committed <= now));
        for Page { bytes, start, end } in &self.pages {
            torn.page(bytes.clone(), *start, *end, since);
        }
        let not_begun = torn.not_begun.unwrap_or(self.page_start);
        if self.translated_to > not_begun && !self.mapped {
            array.flash.trim(not_begun..self.translated_to);
        }
        let mut cut = torn.cut;
        if self.at > self.page_start {
            cut.push(self.page_start..self.at, Fate::Old);
        }
        if let Some(store) = store {
            for (range, fate) in cut.undecided.iter_mut().filter(|(_, fate)| *fate == Fate::Old) {
                if self.previous.restore(range, store).is_err() {
                    *fate = Fate::Unreadable;
                }
            }
        }
        cut
    }
}
