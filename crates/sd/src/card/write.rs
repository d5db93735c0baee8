//! A write on its way into the array: what has arrived, what is programmed when, and what was there before.
//!
//! Blocks fill pages; a page goes to the translation layer when it has arrived whole, or the write ends in it. Where the
//! length is known beforehand (one block, CMD23), the layer is told of the whole write with its first page, as
//! [`crate::CardModel`] tells it; else page by page. Bytes go to the store at once, and what they replace is kept until the
//! write is durable, in case that the power is cut.

use crate::model::array::Array;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::{ReadOnly, Run};
use flashlab_sim::{Duration, Fate, Instant, Mechanism, PowerCut, Spent, Store, StoreError, fault};

/// A page that has arrived, and its program. Times count from when the card had the command.
#[derive(Clone, Debug)]
struct Page {
    bytes: Range<u64>,
    start: Duration,
    end: Duration,
}

/// What a block replaced.
#[derive(Clone, Debug)]
pub(super) struct Before {
    /// Its address.
    pub(super) offset: u64,
    /// Where it lies in the store.
    place: u64,
    length: usize,
    /// Where its bytes lie in what is kept; `None`: it was zeroes.
    at: Option<usize>,
}

/// The write.
#[derive(Clone, Debug, Default)]
pub(super) struct Write {
    /// When the card had the command.
    accepted: Instant,
    /// Its first byte.
    start: u64,
    /// Where the next block goes.
    pub(super) at: u64,
    /// Where the write ends, if that was said.
    pub(super) end: Option<u64>,
    /// The page that is arriving begins here.
    page_start: u64,
    /// When the last block arrived.
    last: Duration,
    /// The translation layer has been told up to here.
    told: u64,
    /// Some of what it was told was mapped before.
    mapped: bool,
    /// The run of its work that is next, and the pages of it that are left.
    run: usize,
    pages_left: u64,
    levelling: Duration,
    pages: Vec<Page>,
    before: Vec<Before>,
    bytes_before: Vec<u8>,
    /// When the last program ends, once nothing more comes.
    programmed: Option<Instant>,
    /// When the card is no longer busy with it, once nothing more comes.
    pub(super) durable: Instant,
    /// It goes into the cache when it is done.
    pub(super) cached: bool,
}

impl Before {
    /// Makes the block what it was; its bytes lie in `bytes_before`.
    pub(super) fn restore(&self, bytes_before: &[u8], store: &dyn Store) -> Result<(), StoreError> {
        match self.at {
            Some(at) => store.write(self.place, &bytes_before[at..at + self.length]),
            None => store.discard(self.place, self.length as u64),
        }
    }
}

impl Write {
    /// A write to `start` that the card takes up at `now`.
    pub(super) fn begin(&mut self, now: Instant, start: u64, end: Option<u64>, array: &mut Array) {
        array.buffer.begin();
        let (mut pages, mut before, mut bytes_before) = (
            core::mem::take(&mut self.pages),
            core::mem::take(&mut self.before),
            core::mem::take(&mut self.bytes_before),
        );
        pages.clear();
        before.clear();
        bytes_before.clear();
        *self = Write {
            accepted: now,
            start,
            at: start,
            end,
            page_start: start,
            told: start,
            pages,
            before,
            bytes_before,
            ..Write::default()
        };
    }

    /// Its first byte.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// Until when DAT0 is low because the next page has no room.
    pub(super) fn room_at(&self, array: &Array) -> Instant {
        if self.at == self.page_start { self.accepted + array.buffer.room_at() } else { Instant::ZERO }
    }

    /// Keeps what the store holds, at `place`, of the block that is about to change.
    pub(super) fn remember(
        &mut self,
        place: u64,
        length: usize,
        store: &dyn Store,
    ) -> Result<(), StoreError> {
        let held = store.data_in(place..place + length as u64)?.is_some();
        let at = self.bytes_before.len();
        if held {
            self.bytes_before.resize(at + length, 0);
            store.read(place, &mut self.bytes_before[at..])?;
        }
        self.before.push(Before { offset: self.at, place, length, at: held.then_some(at) });
        Ok(())
    }

    /// A block of `length` bytes has arrived at `now`; a page that it completes is programmed.
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

    /// What has arrived of a page is programmed.
    fn program(&mut self, array: &mut Array, spent: &mut Spent) -> Result<(), ReadOnly> {
        let bytes = self.page_start..self.at;
        self.page_start = self.at;
        if bytes.start >= self.told {
            self.tell(&bytes, array, spent)?;
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

    /// Tells the translation layer of what comes: all of the write, or `page` alone.
    fn tell(&mut self, page: &Range<u64>, array: &mut Array, spent: &mut Spent) -> Result<(), ReadOnly> {
        let range = page.start..self.end.map_or(page.end, |end| end.max(page.end));
        self.mapped |= array.flash.mapped_bytes(&range) > 0;
        let work = array.flash.write(range.clone())?;
        self.told = range.end;
        self.levelling += work.levelling;
        let copies = work.read_modify_write + work.merge;
        spent[Mechanism::ReadModifyWrite] += work.read_modify_write;
        spent[Mechanism::Merge] += work.merge + work.levelling;
        array.buffer.copy(copies);
        self.next_run(0, array);
        Ok(())
    }

    fn next_run(&mut self, run: usize, array: &Array) {
        let runs = &array.flash.work().runs;
        self.run = run + runs[run.min(runs.len())..].iter().take_while(|run| run.pages == 0).count();
        self.pages_left = runs.get(self.run).map_or(0, |run| run.pages);
    }

    /// Nothing more comes: what has arrived of a page is programmed, and the map told. Returns when that is done. `stop` is
    /// the time of the command that ended it, behind which nothing is hidden.
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
        if self.told > self.at && !self.mapped {
            array.flash.trim(self.at..self.told);
        }
        if self.at == self.start {
            return Ok(now);
        }
        let programmed = now.max(self.accepted + array.buffer.programmed() + stop);
        let commit = array.flash.commit(&(self.start..self.at));
        spent[Mechanism::Map] += commit;
        self.programmed = Some(programmed);
        Ok(programmed + self.levelling + commit)
    }

    /// Whether it is known when it will be durable, and that is later than `now`.
    pub(super) fn is_under_way(&self, now: Instant) -> bool {
        now < self.durable
    }

    /// Takes out, of a write that is done, its pages, whether some of what it overwrote was mapped, and what it replaced.
    pub(super) fn take_done(&mut self) -> (Vec<Range<u64>>, bool, Vec<Before>, Vec<u8>) {
        self.cached = false;
        let pages = self.pages.drain(..).map(|page| page.bytes).collect();
        let (before, bytes_before) = (&mut self.before, &mut self.bytes_before);
        (pages, self.mapped, core::mem::take(before), core::mem::take(bytes_before))
    }

    /// Bytes that the array holds.
    pub(super) fn written(&self) -> u64 {
        self.page_start - self.start
    }

    /// The array takes no more: what arrived of the last page is as it was, and the block that could not be kept.
    pub(super) fn give_up(&mut self, store: Option<&dyn Store>) -> Result<(), StoreError> {
        let held = self.pages.last().map_or(self.start, |page| page.bytes.end);
        if let Some(store) = store {
            self.restore(&(held..u64::MAX), store)?;
        }
        (self.at, self.page_start) = (held, held);
        Ok(())
    }

    /// The power is cut at `now`; returns what of the write is undecided, and the store holds what was decided. What a store
    /// that fails cannot restore is unreadable.
    pub(super) fn cut(&mut self, now: Instant, array: &mut Array, store: Option<&dyn Store>) -> PowerCut {
        self.durable = Instant::ZERO;
        let since = now.saturating_since(self.accepted);
        let mut tear = array.tear(now, self.programmed.is_some_and(|programmed| programmed <= now));
        for Page { bytes, start, end } in &self.pages {
            tear.page(bytes.clone(), *start, *end, since);
        }
        let not_begun = tear.not_begun.unwrap_or(self.page_start);
        if self.told > not_begun && !self.mapped {
            array.flash.trim(not_begun..self.told);
        }
        let mut cut = tear.cut;
        if self.at > self.page_start {
            cut.push(self.page_start..self.at, Fate::Old);
        }
        if let Some(store) = store {
            for (range, fate) in cut.undecided.iter_mut().filter(|(_, fate)| *fate == Fate::Old) {
                if self.restore(range, store).is_err() {
                    *fate = Fate::Unreadable;
                }
            }
        }
        cut
    }

    /// Makes `range` what it was before.
    fn restore(&self, range: &Range<u64>, store: &dyn Store) -> Result<(), StoreError> {
        let first = self.before.partition_point(|before| before.offset < range.start);
        let end = self.before.partition_point(|before| before.offset < range.end);
        // The newest first: two addresses of a card that is not what it says may lie in one place.
        let skipped = usize::from(fault("undo-forgets-a-block"));
        for before in self.before[first..end.max(first)].iter().rev().skip(skipped) {
            before.restore(&self.bytes_before, store)?;
        }
        Ok(())
    }
}
