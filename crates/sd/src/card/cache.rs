//! The volatile cache: SD Physical Layer Specification, section 5.8.2, for cards of version 6.00 and above.
//!
//! If the host has enabled the cache, the data of a write is in the cache when the card is no longer busy,
//! and a power cut may lose this data. The card writes all cached data to the array on a flush and on a
//! power-off notification. It does the same when the host disables the cache, and when CMD0 resets that
//! setting. The cache writes pages to the array in any order: a power cut preserves some of the pages written
//! since the last flush and loses others. When the cache exceeds [`CACHE_BYTES`], the oldest writes leave it.
//!
//! The model does not include the time that a cache saves, since no card with a cache has been measured. A write takes
//! as long as without a cache, and a flush takes the time of its commands.

use super::previous::PreviousContents;
use super::write::Write;
use crate::model::array::Array;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{Fate, PowerCut, Store};

/// Size of the cache in bytes. The specification does not define it.
const CACHE_BYTES: u64 = 4 << 20;
/// Size of a block in bytes.
const BLOCK: u64 = 512;

/// A write in the cache.
#[derive(Clone, Debug)]
struct Cached {
    pages: Vec<Range<u64>>,
    /// True if part of the overwritten data was mapped.
    mapped: bool,
    previous: PreviousContents,
}

/// Cached writes, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Cache {
    writes: VecDeque<Cached>,
    bytes: u64,
}

impl Cache {
    /// Adds a completed write. If the cache exceeds [`CACHE_BYTES`], the oldest writes leave it.
    pub(super) fn take(&mut self, write: &mut Write) {
        let (pages, mapped, previous) = write.take_done();
        let write = Cached { pages, mapped, previous };
        self.bytes += write.bytes();
        self.writes.push_back(write);
        while self.bytes > CACHE_BYTES
            && let Some(oldest) = self.writes.pop_front()
        {
            self.bytes -= oldest.bytes();
        }
    }

    /// Removes all writes. Their data is in the array.
    pub(super) fn clear(&mut self) {
        *self = Cache::default();
    }

    /// Removes `range`, which an erase has cleared. The erase is durable.
    pub(super) fn erase(&mut self, range: &Range<u64>) {
        // If the erase covers a part of a page, the parts before and after `range` remain.
        let remaining =
            |page: &Range<u64>| [page.start..page.end.min(range.start), page.start.max(range.end)..page.end];
        for write in &mut self.writes {
            write.pages = write.pages.iter().flat_map(remaining).filter(|part| !part.is_empty()).collect();
        }
        self.bytes = self.writes.iter().map(Cached::bytes).sum();
    }

    /// Returns true if a byte of `range` is in the cache.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        let meets = |page: &Range<u64>| page.start < range.end && range.start < page.end;
        self.writes.iter().flat_map(|write| &write.pages).any(meets)
    }

    /// Drops the pages whose number satisfies `is_lost`: their blocks return to their content before the
    /// cached writes. `torn` is the result of the cut for the write in progress, and decides the fate of its
    /// own blocks: a block that `torn` reverts to old data is lost from the cache too. Returns the fates of
    /// the blocks of `torn` and of all lost blocks.
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
                        let restored =
                            store.is_none_or(|store| write.previous.restore_at(block, store).is_ok());
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

    /// Returns a copy of the cache without the overwritten data.
    pub(super) fn without_bytes(&self) -> Cache {
        let bare = |write: &Cached| Cached {
            pages: write.pages.clone(),
            mapped: write.mapped,
            previous: PreviousContents::default(),
        };
        Cache { writes: self.writes.iter().map(bare).collect(), bytes: self.bytes }
    }
}

impl Cached {
    /// Returns the number of cached bytes.
    fn bytes(&self) -> u64 {
        self.pages.iter().map(|page| page.end - page.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn an_erase_inside_a_page_leaves_both_ends_of_it_in_the_cache() {
        let whole = [0..4096, 4096..8192, 8192..12288];
        let write = Cached { pages: whole.to_vec(), mapped: true, previous: PreviousContents::default() };
        let mut cache = Cache { bytes: write.bytes(), writes: VecDeque::from([write]) };
        cache.erase(&(512..1024));
        cache.erase(&(4096..8704));
        assert_eq!(cache.writes[0].pages, vec![0..512, 1024..4096, 8704..12288]);
        assert_eq!(cache.bytes, 512 + 3072 + 3584);
        assert!(!cache.holds(&(512..1024)) && cache.holds(&(0..512)) && cache.holds(&(1024..1536)));
    }
}
