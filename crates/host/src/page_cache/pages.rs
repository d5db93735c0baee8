//! The resident pages of the cache, their state (clean, dirty or in write-back), and the replacement of clean
//! pages.
//!
//! A page becomes resident when its read starts or when it is first written. Dirty pages and pages in
//! write-back are not replaced. Clean pages are replaced in the order of their last use; Linux approximates
//! this order with two lists.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use flashlab_sim::FileId;

/// A page of a file: the number of the file in the upper bits, the index within the file in the lower ones. The pages
/// of a file sort by index.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct PageKey(u64);

const INDEX_BITS: u32 = 36;

impl PageKey {
    pub(super) fn new(file: FileId, index: u64) -> PageKey {
        PageKey(u64::from(file.0) << INDEX_BITS | index)
    }

    pub(super) fn index(self) -> u64 {
        self.0 & ((1 << INDEX_BITS) - 1)
    }

    fn file(self) -> FileId {
        FileId((self.0 >> INDEX_BITS) as u32)
    }

    fn next(self) -> PageKey {
        PageKey(self.0 + 1)
    }
}

/// Number of a group of requests. Pages and calls wait for the completion of the group.
pub(super) type IoId = u64;

#[derive(Clone, Copy, Debug)]
struct Resident {
    /// Sequence number of the last use.
    used: u64,
    /// Read that fills the page; `None` once the page is up to date.
    reading: Option<IoId>,
    /// True if the reader of this page starts the next read-ahead window (`PG_readahead`).
    marked: bool,
}

/// State of a page for a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageState {
    Absent,
    /// A read of the page is in flight.
    Reading(IoId),
    UpToDate,
}

/// All pages of the cache.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    capacity: u64,
    resident: BTreeMap<PageKey, Resident>,
    /// Clean pages that can be replaced, by their last use.
    replaceable: BTreeMap<u64, PageKey>,
    dirty: BTreeSet<PageKey>,
    in_writeback: BTreeMap<PageKey, IoId>,
    uses: u64,
}

impl Pages {
    pub(super) fn new(capacity: u64) -> Pages {
        Pages {
            capacity,
            resident: BTreeMap::new(),
            replaceable: BTreeMap::new(),
            dirty: BTreeSet::new(),
            in_writeback: BTreeMap::new(),
            uses: 0,
        }
    }

    pub(super) fn state(&self, key: PageKey) -> PageState {
        match self.resident.get(&key) {
            None => PageState::Absent,
            Some(Resident { reading: Some(io), .. }) => PageState::Reading(*io),
            Some(_) => PageState::UpToDate,
        }
    }

    /// Returns the number of dirty pages. A page in write-back counts only if it became dirty again.
    pub(super) fn dirty(&self) -> u64 {
        self.dirty.len() as u64
    }

    /// Returns the number of dirty pages and pages in write-back.
    pub(super) fn dirty_or_in_writeback(&self) -> u64 {
        (self.dirty.len() + self.in_writeback.len()) as u64
    }

    /// Returns true if a page of `file` is dirty.
    pub(super) fn has_dirty(&self, file: FileId) -> bool {
        self.dirty_from(file, 0).next().is_some()
    }

    /// Returns the dirty pages of `file` from an index on, in ascending order.
    pub(super) fn dirty_from(&self, file: FileId, index: u64) -> impl Iterator<Item = PageKey> {
        let end = PageKey(u64::from(file.0 + 1) << INDEX_BITS);
        self.dirty.range(PageKey::new(file, index)..end).copied()
    }

    pub(super) fn is_dirty(&self, key: PageKey) -> bool {
        self.dirty.contains(&key)
    }

    /// Returns the write-back that includes a page, if any.
    pub(super) fn writeback_of(&self, key: PageKey) -> Option<IoId> {
        self.in_writeback.get(&key).copied()
    }

    /// Returns the number of resident pages directly before `key`, up to `limit`.
    pub(super) fn history(&self, key: PageKey, limit: u64) -> u64 {
        let least = key.index().saturating_sub(limit);
        let mut pages = 0;
        while key.index() - pages > least && self.resident.contains_key(&PageKey(key.0 - pages - 1)) {
            pages += 1;
        }
        pages
    }

    /// Returns the first page from `key` on that is not resident, if it is within `limit` pages.
    pub(super) fn next_miss(&self, key: PageKey, limit: u64) -> Option<PageKey> {
        (0..limit).map(|n| PageKey(key.0 + n)).find(|key| !self.resident.contains_key(key))
    }

    /// Adds an absent page that the read `io` fills.
    pub(super) fn begin_read(&mut self, key: PageKey, io: IoId, marked: bool) {
        self.make_room();
        self.uses += 1;
        self.resident.insert(key, Resident { used: self.uses, reading: Some(io), marked });
    }

    /// Ends the read of `count` pages from `key` on. Pages of a failed read leave the cache.
    pub(super) fn end_read(&mut self, key: PageKey, count: u64, io: IoId, succeeded: bool) {
        let mut key = key;
        for _ in 0..count {
            if let Some(page) = self.resident.get_mut(&key)
                && page.reading == Some(io)
            {
                page.reading = None;
                let used = page.used;
                match succeeded {
                    true if !self.dirty.contains(&key) => _ = self.replaceable.insert(used, key),
                    true => {}
                    false => _ = self.resident.remove(&key),
                }
            }
            key = key.next();
        }
    }

    /// Makes a resident page the most recently used one.
    pub(super) fn touch(&mut self, key: PageKey) {
        let Some(page) = self.resident.get_mut(&key) else { return };
        self.uses += 1;
        let before = core::mem::replace(&mut page.used, self.uses);
        if self.replaceable.remove(&before).is_some() {
            self.replaceable.insert(self.uses, key);
        }
    }

    /// Removes the mark of a page. Returns true if it had one.
    pub(super) fn take_mark(&mut self, key: PageKey) -> bool {
        self.resident.get_mut(&key).is_some_and(|page| core::mem::take(&mut page.marked))
    }

    /// Returns true if a page has a mark.
    pub(super) fn is_marked(&self, key: PageKey) -> bool {
        self.resident.get(&key).is_some_and(|page| page.marked)
    }

    /// Makes a page dirty. Returns true if it was not dirty before.
    pub(super) fn make_dirty(&mut self, key: PageKey) -> bool {
        self.uses += 1;
        let uses = self.uses;
        match self.resident.get_mut(&key) {
            Some(page) => {
                let before = core::mem::replace(&mut page.used, uses);
                page.reading = None;
                self.replaceable.remove(&before);
            }
            None => {
                self.make_room();
                self.resident.insert(key, Resident { used: uses, reading: None, marked: false });
            }
        }
        self.dirty.insert(key)
    }

    /// Moves `count` dirty pages from `key` on into the write `io`.
    pub(super) fn begin_writeback(&mut self, key: PageKey, count: u64, io: IoId) {
        for n in 0..count {
            let key = PageKey(key.0 + n);
            assert!(self.dirty.remove(&key), "only a dirty page is written back");
            self.in_writeback.insert(key, io);
        }
    }

    /// Ends the write of `count` pages from `key` on.
    pub(super) fn end_writeback(&mut self, key: PageKey, count: u64) {
        for n in 0..count {
            let key = PageKey(key.0 + n);
            self.in_writeback.remove(&key);
            if !self.dirty.contains(&key)
                && let Some(page) = self.resident.get(&key)
            {
                self.replaceable.insert(page.used, key);
            }
        }
    }

    /// Removes all pages that are clean and not in write-back.
    pub(super) fn drop_clean(&mut self) {
        let clean: Vec<PageKey> = core::mem::take(&mut self.replaceable).into_values().collect();
        for key in clean {
            self.resident.remove(&key);
        }
    }

    /// Removes the pages of `file` that are clean and not in write-back.
    pub(super) fn drop_clean_of(&mut self, file: FileId) {
        let resident = &mut self.resident;
        self.replaceable.retain(|_, key| {
            let stays = key.file() != file;
            if !stays {
                resident.remove(key);
            }
            stays
        });
    }

    /// Replaces clean pages until there is room for another one. If no page can be replaced, the cache grows.
    fn make_room(&mut self) {
        while self.resident.len() as u64 >= self.capacity {
            let Some((_, key)) = self.replaceable.pop_first() else { return };
            self.resident.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u64) -> PageKey {
        PageKey::new(FileId(3), index)
    }

    #[test]
    fn clean_pages_are_replaced_by_last_use_and_dirty_ones_stay() {
        let mut pages = Pages::new(3);
        for index in 0..3 {
            pages.begin_read(key(index), 1, false);
        }
        pages.end_read(key(0), 3, 1, true);
        assert!(pages.make_dirty(key(1)) && !pages.make_dirty(key(1)));
        pages.touch(key(0));
        pages.begin_read(key(9), 2, false);
        assert_eq!(pages.state(key(2)), PageState::Absent, "the least recently used clean page");
        assert_eq!(pages.state(key(0)), PageState::UpToDate);
        assert_eq!(pages.state(key(1)), PageState::UpToDate);
        assert_eq!(pages.state(key(9)), PageState::Reading(2));
        pages.begin_writeback(key(1), 1, 3);
        assert_eq!((pages.dirty(), pages.dirty_or_in_writeback()), (0, 1));
        assert!(pages.make_dirty(key(1)), "a page in write-back may become dirty again");
        assert_eq!(pages.dirty_or_in_writeback(), 2, "as Linux counts it");
        pages.end_writeback(key(1), 1);
        assert_eq!(pages.dirty_from(FileId(3), 0).collect::<Vec<_>>(), [key(1)]);
    }

    #[test]
    fn the_pages_of_two_files_are_separate() {
        let mut pages = Pages::new(10);
        pages.make_dirty(key(5));
        pages.make_dirty(PageKey::new(FileId(4), 0));
        assert_eq!(pages.dirty_from(FileId(3), 0).count(), 1);
        assert_eq!(pages.dirty_from(FileId(3), 6).count(), 0);
        assert_eq!(pages.history(key(6), 8), 1);
        assert_eq!(pages.history(PageKey::new(FileId(4), 0), 8), 0);
    }
}
