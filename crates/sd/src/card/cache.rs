//! The volatile cache: SD Physical Layer Specification, section 5.8.2, which cards have from version 6.00 on.
//!
//! Once a host has turned the cache on, a write is in the cache when the card is no longer busy, and a loss of power may
//! lose it. A flush, a power-off notification, the loss of the setting (CMD0) and turning the cache off write everything in
//! the cache to the array. The cache writes pages to the array in any order: of the pages that were written since the last
//! flush, a loss of power keeps some and loses others. Beyond [`CACHE_BYTES`] the oldest writes leave the cache.
//!
//! Left out: the time that a cache saves, since no card with one has been measured. A write takes as long as without one, and
//! a flush takes the time of its commands.

use super::write::{Before, Write};
use crate::model::array::Array;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{Fate, PowerCut, Store, StoreError};

/// Bytes that the cache holds; the specification names no size.
const CACHE_BYTES: u64 = 4 << 20;
/// Bytes of a block.
const BLOCK: u64 = 512;

/// A write that is in the cache.
#[derive(Clone, Debug)]
struct Cached {
    pages: Vec<Range<u64>>,
    /// Some of what it overwrote was mapped.
    mapped: bool,
    before: Vec<Before>,
    bytes_before: Vec<u8>,
}

/// The writes since the last flush, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    writes: VecDeque<Cached>,
    bytes: u64,
}

impl Cache {
    /// Takes over a write that is done.
    pub(super) fn take(&mut self, write: &mut Write) {
        let (pages, mapped, before, bytes_before) = write.take_done();
        self.bytes += pages.iter().map(|page| page.end - page.start).sum::<u64>();
        self.writes.push_back(Cached { pages, mapped, before, bytes_before });
        while self.bytes > CACHE_BYTES
            && let Some(oldest) = self.writes.pop_front()
        {
            self.bytes -= oldest.pages.iter().map(|page| page.end - page.start).sum::<u64>();
        }
    }

    /// Everything is in the array.
    pub(super) fn clear(&mut self) {
        *self = Cache::default();
    }

    /// Forgets what `range` held: it was erased, which is durable.
    pub(super) fn erase(&mut self, range: &Range<u64>) {
        for write in &mut self.writes {
            for page in &mut write.pages {
                // A page that is erased in part keeps the part before the range, or behind it.
                let part = if range.start > page.start {
                    page.start..page.end.min(range.start)
                } else {
                    page.start.max(range.end)..page.end
                };
                *page = if range.start < page.end && page.start < range.end { part } else { page.clone() };
            }
            write.pages.retain(|page| !page.is_empty());
        }
    }

    /// Returns true if a byte of `range` is in the cache.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        let meets = |page: &Range<u64>| page.start < range.end && range.start < page.end;
        self.writes.iter().flat_map(|write| &write.pages).any(meets)
    }

    /// Loses the pages for which `is_lost` returns true, given their numbers: their blocks become as they were at the last
    /// flush. `torn` is left of the write that was under way; a block that it leaves as it was before is lost too. Returns
    /// all blocks that are not as the last write to them left them.
    pub(super) fn cut(
        &mut self,
        torn: PowerCut,
        is_lost: impl Fn(u64) -> bool,
        array: &mut Array,
        store: Option<&dyn Store>,
    ) -> PowerCut {
        if self.writes.is_empty() {
            return torn;
        }
        let page_bytes = array.flash.page();
        let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
        for (range, fate) in &torn.undecided {
            fates.extend(range.clone().step_by(BLOCK as usize).map(|block| (block, *fate)));
        }
        while let Some(write) = self.writes.pop_back() {
            for page in &write.pages {
                let mut all_lost = true;
                for block in page.clone().step_by(BLOCK as usize) {
                    let lost = match fates.get(&block) {
                        Some(fate) => *fate == Fate::Old,
                        None => is_lost(block / page_bytes),
                    };
                    all_lost &= lost;
                    if lost {
                        let restored = store.is_none_or(|store| write.restore(block, store).is_ok());
                        fates.insert(block, if restored { Fate::Old } else { Fate::Unreadable });
                    }
                }
                if all_lost && !write.mapped {
                    array.flash.trim(page.clone());
                }
            }
        }
        self.bytes = 0;
        let mut cut = PowerCut::default();
        fates.into_iter().for_each(|(block, fate)| cut.push(block..block + BLOCK, fate));
        cut
    }

    /// The same cache without bytes.
    pub(super) fn without_bytes(&self) -> Cache {
        let bare = |write: &Cached| Cached {
            pages: write.pages.clone(),
            mapped: write.mapped,
            before: Vec::new(),
            bytes_before: Vec::new(),
        };
        Cache { writes: self.writes.iter().map(bare).collect(), bytes: self.bytes }
    }
}

impl Cached {
    /// Makes the block at `offset` what it was before this write.
    fn restore(&self, offset: u64, store: &dyn Store) -> Result<(), StoreError> {
        let at = self.before.partition_point(|before| before.offset < offset);
        match self.before.get(at).filter(|before| before.offset == offset) {
            Some(before) => before.restore(&self.bytes_before, store),
            None => Ok(()),
        }
    }
}
