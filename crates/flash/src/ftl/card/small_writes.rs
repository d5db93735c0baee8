//! The area for small writes: a log whose pages are programmed in the order of the writes. The literature calls such an
//! area a log buffer (FAST) or, in single-bit cells, an SLC cache.
//!
//! The area is a queue of slots of one granule each. A granule that is written again gets a new slot, and its
//! old slot stays invalid until it reaches the head of the queue. If there is no room for a write, the layer
//! *folds*: it removes the slot at the head, and writes all data of that slot's rewrite unit to its place
//! outside the area.
//!
//! A bitmap marks the granules in the area, and a hash table maps each of them to its slot. The table serves look-ups
//! only, so its order has no effect. An area that never fills up needs no slots.
//!
//! # Guarantees
//! [`SmallArea::restored`] checks that each granule of the area is in the slot that the index names.

use super::mapped_granules::MappedGranules;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::ops::Range;
use hashbrown::HashTable;
use serde::{Deserialize, Serialize, Serializer};

/// Entry of a slot without data, in a page that a write did not fill.
const PADDING: u64 = u64::MAX;

/// The data in the area.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "SavedArea")]
pub(super) struct SmallArea {
    granule: u64,
    page: u64,
    /// Greatest number of slots; `u64::MAX` if the area never fills up.
    slots_max: u64,
    /// Granule of each slot, in the order in which the slots were programmed. An area that never fills up has no queue.
    slots: VecDeque<u64>,
    /// Number of slots that have left the queue.
    removed: u64,
    /// The granules in the area.
    present: MappedGranules,
    /// Number of the slot of each granule in the area, if the area can fill up.
    index: HashTable<(u64, u64)>,
    /// Index of a saved area that [`SmallArea::restored`] has not checked yet.
    saved: BTreeMap<u64, u64>,
}

/// The saved form of an area.
#[derive(Serialize, Deserialize)]
#[serde(rename = "SmallArea")]
struct SavedArea {
    granule: u64,
    page: u64,
    slots_max: u64,
    slots: VecDeque<u64>,
    removed: u64,
    /// Number of the slot of each granule in the area; zero if the area never fills up.
    index: BTreeMap<u64, u64>,
}

impl Serialize for SmallArea {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut present = Vec::new();
        self.present.collect(&(0..self.present.len() as u64 * self.granule), &mut present);
        let granules = present.iter().flat_map(|range| range.start / self.granule..range.end / self.granule);
        SavedArea {
            granule: self.granule,
            page: self.page,
            slots_max: self.slots_max,
            slots: self.slots.clone(),
            removed: self.removed,
            index: granules.map(|granule| (granule, self.slot_of(granule).unwrap_or(0))).collect(),
        }
        .serialize(to)
    }
}

impl From<SavedArea> for SmallArea {
    fn from(area: SavedArea) -> Self {
        let SavedArea { granule, page, slots_max, slots, removed, index: saved } = area;
        let (present, index) = (MappedGranules::new(0, granule.max(1)), HashTable::new());
        SmallArea { granule, page, slots_max, slots, removed, present, index, saved }
    }
}

/// Returns the hash of a granule (Fibonacci hashing: Knuth, The Art of Computer Programming, volume 3, section 6.4).
fn hash(granule: u64) -> u64 {
    granule.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32)
}

impl SmallArea {
    /// Creates an empty area of `size` bytes, or an area that never fills up, in a device of `capacity`
    /// bytes.
    pub(super) fn new(capacity: u64, granule: u64, page: u64, size: Option<u64>) -> Self {
        SmallArea {
            granule,
            page,
            slots_max: size.map_or(u64::MAX, |size| size / page * (page / granule)),
            slots: VecDeque::new(),
            removed: 0,
            present: MappedGranules::new(capacity, granule),
            index: HashTable::new(),
            saved: BTreeMap::new(),
        }
    }

    /// Returns true if the area can fill up.
    fn is_bounded(&self) -> bool {
        self.slots_max != u64::MAX
    }

    /// Returns the slot number of a granule, if the area can fill up and holds the granule.
    fn slot_of(&self, granule: u64) -> Option<u64> {
        self.index.find(hash(granule), |(of, _)| *of == granule).map(|(_, slot)| *slot)
    }

    /// Returns the number of pages that a write of `range` programs.
    pub(super) fn pages(&self, range: &Range<u64>) -> u64 {
        range.end.div_ceil(self.page) - range.start / self.page
    }

    /// Returns the number of pages that a batch with the whole granules `packed` programs.
    pub(super) fn pages_of_packed(&self, packed: &[Range<u64>]) -> u64 {
        packed.iter().map(|range| range.end - range.start).sum::<u64>().div_ceil(self.page)
    }

    /// Returns true if there is no room for a write of `pages` pages.
    pub(super) fn lacks_room(&self, pages: u64) -> bool {
        self.slots.len() as u64 + pages * (self.page / self.granule) > self.slots_max
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
    #[inline(never)]
    pub(super) fn contains(&self, offset: u64) -> bool {
        self.present.contains(offset)
    }

    /// Returns the parts of `range` that are in the area, one per granule.
    pub(super) fn ranges(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let (granule, range) = (self.granule, range.clone());
        let present = self.present.touched(&range).map(move |at| at * granule);
        present
            .filter(|start| self.present.contains(*start))
            .map(move |start| start.max(range.start)..(start + granule).min(range.end))
    }

    /// Adds the data of a write of `ranges` in `pages` pages, for which there is room.
    pub(super) fn insert(&mut self, ranges: &[Range<u64>], pages: u64) {
        let mut free = pages * (self.page / self.granule);
        for range in ranges {
            let granules = self.present.touched(range);
            debug_assert!(granules.end - granules.start <= free, "{range:?} does not fit into the pages");
            free = free.saturating_sub(granules.end - granules.start);
            self.present.set(range.clone(), true);
            if self.is_bounded() {
                self.fill_slots(granules);
            }
        }
        if self.is_bounded() {
            self.slots.extend((0..free).map(|_| PADDING));
        }
    }

    /// Puts `granules` into the next slots.
    fn fill_slots(&mut self, granules: Range<u64>) {
        for granule in granules {
            let slot = self.removed + self.slots.len() as u64;
            let of = |entry: &(u64, u64)| hash(entry.0);
            self.index.entry(hash(granule), |(of, _)| *of == granule, of).insert((granule, slot));
            self.slots.push_back(granule);
        }
    }

    /// Removes the granules that `range` touches, because their data is elsewhere now.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        if self.is_bounded() {
            for granule in self.present.touched(range) {
                if self.present.contains(granule * self.granule)
                    && let Ok(entry) = self.index.find_entry(hash(granule), |(of, _)| *of == granule)
                {
                    entry.remove();
                }
            }
        }
        self.present.set(range.clone(), false);
    }

    /// Returns the offset of the granule in the slot at the head of the queue. If that slot is invalid or
    /// padding, removes it and returns `None`.
    pub(super) fn oldest(&mut self) -> Option<u64> {
        let granule = *self.slots.front()?;
        if granule != PADDING && self.slot_of(granule) == Some(self.removed) {
            return Some(granule * self.granule);
        }
        self.slots.pop_front();
        self.removed += 1;
        None
    }

    /// Returns the byte ranges of the data in `unit`, a range of whole granules, with adjacent ranges joined.
    pub(super) fn joined_ranges(&self, unit: &Range<u64>) -> Vec<Range<u64>> {
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in self.ranges(unit) {
            match joined.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => joined.push(range),
            }
        }
        joined
    }

    /// Restores a saved area of a device of `capacity` bytes, after comparing its parameters with those of `like`, a
    /// new area of the same device.
    pub(super) fn restored(mut self, like: &SmallArea, capacity: u64) -> Result<SmallArea, Inconsistent> {
        let shape = |a: &SmallArea| (a.granule, a.page, a.slots_max);
        ensure!(shape(&self) == shape(like), "the area for small writes was saved with other parameters");
        ensure!(
            self.slots.len() as u64 <= self.slots_max,
            "the area for small writes has more slots than fit"
        );
        ensure!(
            self.removed < 1 << 60,
            "the counter of freed slots of the area for small writes exceeds its limit"
        );
        let saved = core::mem::take(&mut self.saved);
        ensure!(
            saved.last_key_value().is_none_or(|(granule, _)| *granule < capacity.div_ceil(self.granule)),
            "the area for small writes holds data beyond the capacity"
        );
        let in_slot = |(granule, slot): (&u64, &u64)| {
            let slot = slot.checked_sub(self.removed).and_then(|slot| self.slots.get(slot as usize));
            slot == Some(granule)
        };
        ensure!(
            !self.is_bounded() || saved.iter().all(in_slot),
            "a granule of the area for small writes is not in its slot"
        );
        self.present = MappedGranules::new(capacity, self.granule);
        for (granule, slot) in saved {
            self.present.set(granule * self.granule..(granule + 1) * self.granule, true);
            if self.is_bounded() {
                self.index.insert_unique(hash(granule), (granule, slot), |(of, _)| hash(*of));
            }
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::slice;
    use proptest::prelude::*;

    const KIB: u64 = 1 << 10;

    #[test]
    fn a_full_area_releases_its_oldest_data_first() {
        let mut area = SmallArea::new(1 << 20, 4 * KIB, 8 * KIB, Some(32 * KIB));
        for at in [0, 64, 128, 0] {
            assert!(!area.lacks_room(1), "four pages fit");
            area.insert(slice::from_ref(&(at * KIB..(at + 4) * KIB)), 1);
        }
        assert!(area.lacks_room(1));
        assert_eq!(area.oldest(), None, "the first write was overwritten by the fourth");
        assert_eq!((area.oldest(), area.oldest()), (None, Some(64 * KIB)), "padding, then the second write");
        assert_eq!(area.oldest(), Some(64 * KIB), "data stays until it is removed");
        assert!(area.joined_ranges(&(64 * KIB..72 * KIB)).iter().eq([&(64 * KIB..68 * KIB)]));
        area.remove(&(64 * KIB..72 * KIB));
        assert!(area.contains(0) && area.contains(128 * KIB) && !area.contains(64 * KIB));
    }

    /// Reference for the area: its index is a map from granule to slot, in the order of the granules.
    #[derive(Serialize)]
    struct Index {
        granule: u64,
        page: u64,
        slots_max: u64,
        slots: VecDeque<u64>,
        removed: u64,
        index: BTreeMap<u64, u64>,
    }

    proptest! {
        /// Compares the area with a map from granule to slot, and its saved form with that of the map.
        #[test]
        fn the_area_agrees_with_a_queue_and_a_map(
            bounded: bool,
            steps in prop::collection::vec((0u8..8, 0u64..60, 1u64..4), 0..200),
        ) {
            const CAPACITY: u64 = 64 * 4 * KIB;
            let new = || SmallArea::new(CAPACITY, 4 * KIB, 8 * KIB, bounded.then_some(64 * KIB));
            let mut area = new();
            let mut reference = Index {
                granule: 4 * KIB,
                page: 8 * KIB,
                slots_max: area.slots_max,
                slots: VecDeque::new(),
                removed: 0,
                index: BTreeMap::new(),
            };
            for (step, at, count) in steps {
                let range = at * 4 * KIB..(at + count) * 4 * KIB;
                match step {
                    0..5 if !area.lacks_room(area.pages(&range)) => {
                        area.insert(slice::from_ref(&range), area.pages(&range));
                        let slots = area.pages(&range) * 2;
                        for granule in at..at + count {
                            reference.index.insert(granule, reference.removed + reference.slots.len() as u64);
                            if bounded {
                                reference.slots.push_back(granule);
                            }
                        }
                        if bounded {
                            reference.slots.extend((count..slots).map(|_| PADDING));
                        }
                    }
                    0..6 => {
                        let oldest = area.oldest();
                        let head = reference.slots.front().copied();
                        let live = head.filter(|granule| reference.index.get(granule) == Some(&reference.removed));
                        if live.is_none() && reference.slots.pop_front().is_some() {
                            reference.removed += 1;
                        }
                        prop_assert_eq!(oldest, live.map(|granule| granule * 4 * KIB));
                        // The caller moves the data.
                        if let Some(granule) = live {
                            area.remove(&(granule * 4 * KIB..(granule + 1) * 4 * KIB));
                            reference.index.remove(&granule);
                        }
                    }
                    6 => {
                        area.remove(&range);
                        reference.index.retain(|granule, _| !(at..at + count).contains(granule));
                    }
                    _ => {
                        let joined = area.joined_ranges(&range);
                        area.remove(&range);
                        let taken: u64 = joined.iter().map(|range| range.end - range.start).sum();
                        let removed = (at..at + count).filter(|at| reference.index.remove(at).is_some()).count();
                        prop_assert_eq!(taken, removed as u64 * 4 * KIB);
                    }
                }
                for granule in 0..64 {
                    prop_assert_eq!(area.contains(granule * 4 * KIB), reference.index.contains_key(&granule));
                }
                let saved = postcard::to_allocvec(&area).expect("it is serialized");
                prop_assert_eq!(&saved, &postcard::to_allocvec(&reference).expect("it is serialized"));
                let parsed: SmallArea = postcard::from_bytes(&saved).expect("the saved form is valid");
                area = parsed.restored(&new(), CAPACITY).expect("it is consistent");
            }
        }
    }

    #[test]
    fn a_saved_area_beyond_the_capacity_is_refused() {
        let mut area = SmallArea::new(1 << 30, 4 * KIB, 8 * KIB, None);
        area.insert(slice::from_ref(&((1 << 29)..(1 << 29) + 4 * KIB)), 1);
        let saved = postcard::to_allocvec(&area).expect("it is serialized");
        let parse = || postcard::from_bytes::<SmallArea>(&saved).expect("the saved form is valid");
        let like = SmallArea::new(1 << 20, 4 * KIB, 8 * KIB, None);
        assert!(parse().restored(&like, 1 << 20).is_err());
        assert!(parse().restored(&like, 1 << 30).is_ok());
    }
}
