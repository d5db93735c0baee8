//! The area for small writes: pages of a log in the order of the writes. The literature calls such an area a log buffer
//! (FAST) or, in cells of one bit, an SLC cache.
//!
//! The area is a queue of slots of one granule each. A granule that is written again gets a new slot, and its old slot
//! is dead until it reaches the head of the queue. If there is no room for a write, the layer *folds*: it removes the
//! slot at the head, and writes all data of the same rewrite unit to its place outside the area.
//!
//! # Guarantees
//! [`SmallArea::validate`] checks that each granule of the area is in the slot that the index names.

use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Slot of a page that a write did not fill.
const PADDING: u64 = u64::MAX;

/// The data in the area.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SmallArea {
    granule: u64,
    page: u64,
    /// Greatest number of slots; `u64::MAX` if the area never fills up.
    slots_max: u64,
    /// Granules in the order of their programs. An area that never fills up has no queue.
    slots: VecDeque<u64>,
    /// Number of slots that have left the queue.
    removed: u64,
    /// Number of the slot of each granule.
    index: BTreeMap<u64, u64>,
}

impl SmallArea {
    pub(super) fn new(granule: u64, page: u64, size: Option<u64>) -> Self {
        SmallArea {
            granule,
            page,
            slots_max: size.map_or(u64::MAX, |size| size / page * (page / granule)),
            slots: VecDeque::new(),
            removed: 0,
            index: BTreeMap::new(),
        }
    }

    /// Returns the number of pages that a write of `range` programs.
    pub(super) fn pages(&self, range: &Range<u64>) -> u64 {
        range.end.div_ceil(self.page) - range.start / self.page
    }

    /// Returns true if there is no room for a write of `range`.
    pub(super) fn lacks_room(&self, range: &Range<u64>) -> bool {
        let slots = self.pages(range) * (self.page / self.granule);
        self.slots.len() as u64 + slots > self.slots_max
    }

    /// Returns the number of slots in use.
    pub(super) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns true if the queue is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns true if the granule at byte `offset` is in the area.
    pub(super) fn contains(&self, offset: u64) -> bool {
        !self.index.is_empty() && self.index.contains_key(&(offset / self.granule))
    }

    /// Returns the bytes of `range` that are in the area.
    pub(super) fn ranges(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let (granule, range) = (self.granule, range.clone());
        self.index
            .range(range.start / granule..range.end.div_ceil(granule))
            .map(move |(at, _)| (at * granule).max(range.start)..((at + 1) * granule).min(range.end))
    }

    /// Adds the data of a write, for which there is room.
    pub(super) fn insert(&mut self, range: &Range<u64>) {
        let granules = range.start / self.granule..range.end.div_ceil(self.granule);
        let slots = self.pages(range) * (self.page / self.granule);
        let bounded = self.slots_max != u64::MAX;
        for (n, granule) in (0..).zip(granules.clone()) {
            self.index.insert(granule, self.removed + self.slots.len() as u64);
            debug_assert!(n < slots, "a page holds whole granules");
            if bounded {
                self.slots.push_back(granule);
            }
        }
        let padding = slots.saturating_sub(granules.end - granules.start);
        if bounded {
            self.slots.extend((0..padding).map(|_| PADDING));
        }
    }

    /// Removes the granules that `range` touches, because their data is elsewhere now.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        if self.index.is_empty() {
            return;
        }
        let granules = range.start / self.granule..range.end.div_ceil(self.granule);
        while let Some((granule, _)) = self.index.range(granules.clone()).next() {
            let granule = *granule;
            self.index.remove(&granule);
        }
    }

    /// Removes the slot at the head of the queue. Returns the offset of its granule, or `None` if the slot is dead or
    /// the queue is empty.
    pub(super) fn pop(&mut self) -> Option<u64> {
        let granule = self.slots.pop_front()?;
        let slot = self.removed;
        self.removed += 1;
        (self.index.get(&granule) == Some(&slot)).then(|| granule * self.granule)
    }

    /// Removes all data in `unit`, a range of whole granules. Returns its byte ranges, with neighbours joined.
    pub(super) fn take(&mut self, unit: &Range<u64>) -> Vec<Range<u64>> {
        let mut taken: Vec<Range<u64>> = Vec::new();
        for range in self.ranges(unit) {
            match taken.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => taken.push(range),
            }
        }
        self.remove(unit);
        taken
    }

    /// Checks the structure, and compares its sizes with those of `like`.
    pub(super) fn validate(&self, like: &SmallArea, capacity: u64) -> Result<(), Inconsistent> {
        let shape = |a: &SmallArea| (a.granule, a.page, a.slots_max);
        ensure!(shape(self) == shape(like), "the area for small writes is of other parameters");
        ensure!(self.slots.len() as u64 <= self.slots_max, "the area for small writes is too full");
        ensure!(self.removed < 1 << 60, "more slots were used than is possible");
        ensure!(
            self.index.last_key_value().is_none_or(|(granule, _)| *granule < capacity.div_ceil(self.granule)),
            "the area for small writes holds data beyond the capacity"
        );
        let in_slot = |(granule, slot): (&u64, &u64)| {
            let slot = slot.checked_sub(self.removed).and_then(|slot| self.slots.get(slot as usize));
            slot == Some(granule)
        };
        ensure!(
            self.slots_max == u64::MAX || self.index.iter().all(in_slot),
            "a granule of the area for small writes is not in its slot"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn a_full_area_releases_its_oldest_data_first() {
        let mut area = SmallArea::new(4 * KIB, 8 * KIB, Some(32 * KIB));
        for at in [0, 64, 128, 0] {
            assert!(!area.lacks_room(&(at * KIB..(at + 4) * KIB)), "four pages fit");
            area.insert(&(at * KIB..(at + 4) * KIB));
        }
        assert!(area.lacks_room(&(0..4 * KIB)));
        assert_eq!(area.pop(), None, "the first write was overwritten by the fourth");
        assert_eq!((area.pop(), area.pop()), (None, Some(64 * KIB)), "padding, then the second write");
        assert!(area.take(&(64 * KIB..72 * KIB)).iter().eq([&(64 * KIB..68 * KIB)]));
        assert!(area.contains(0) && area.contains(128 * KIB) && !area.contains(64 * KIB));
        assert_eq!(area.validate(&SmallArea::new(4 * KIB, 8 * KIB, Some(32 * KIB)), 1 << 20), Ok(()));
    }
}
