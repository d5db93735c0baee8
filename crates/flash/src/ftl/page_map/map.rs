//! The map: the committed location of each unit, and what the array holds at each place.
//!
//! # Invariant
//! A place is *valid* if the unit that it holds has its committed copy there: the unit's entry, or the committed entry
//! in the unit's newest slot of the write buffer, names the place. No other place is valid. [`Map::validate`] checks
//! this. Every method keeps `valid` equal to the number of valid places.

use super::bits::Validity;
use super::place::{Entry, Layout, Mapped};
use super::programs::Part;
use super::reverse_map::ReverseMap;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{fault, prefetch};
use serde::{Deserialize, Serialize};

/// The two maps of the layer and the set of valid places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Map {
    /// Entry of each unit: the host's units, the map pages, the trim records.
    entries: Vec<Entry>,
    reverse: ReverseMap,
    validity: Validity,
    /// Number of valid places.
    valid: u64,
    /// Versions of the units at all places, if a test asks for them.
    #[serde(skip)]
    versions: Option<Vec<u64>>,
}

impl Map {
    /// Creates a map without mapped units.
    pub(super) fn new(layout: &Layout) -> Self {
        Map {
            entries: vec![Entry::NOWHERE; layout.logical() as usize],
            reverse: ReverseMap::new(layout.blocks, layout.units_per_block, layout.units_per_page),
            validity: Validity::new(layout.places()),
            valid: 0,
            versions: None,
        }
    }

    /// Returns the entry of a unit.
    #[inline(always)]
    pub(super) fn entry(&self, unit: u32) -> Entry {
        self.entries[unit as usize]
    }
    #[inline(always)]
    pub(super) fn set(&mut self, unit: u32, entry: Entry) {
        self.entries[unit as usize] = entry;
    }
    /// Returns the number of valid places.
    pub(super) fn valid(&self) -> u64 {
        self.valid
    }
    #[inline]
    pub(super) fn is_valid(&self, place: u32) -> bool {
        self.validity.get(place)
    }
    /// Returns one bit for each of `count` places from `first`, set if the place is valid. `count` is at most 64.
    #[inline]
    pub(super) fn valid_mask(&self, first: u32, count: u32) -> u64 {
        self.validity.mask(first, count)
    }
    /// Returns the number of valid places among `count` from `first`.
    pub(super) fn valid_count(&self, first: u32, count: u32) -> u32 {
        self.validity.count(first, count)
    }
    /// Returns the reverse map, which names the unit at each place.
    #[inline]
    pub(super) fn reverse(&self) -> &ReverseMap {
        &self.reverse
    }
    #[inline]
    pub(super) fn reverse_mut(&mut self) -> &mut ReverseMap {
        &mut self.reverse
    }

    /// Marks a place as valid for each of the `units` set bits of `mask`, whose lowest bit stands for `place`.
    #[inline]
    pub(super) fn validate_places(&mut self, place: u32, mask: u64, units: u32) {
        debug_assert_eq!(mask.count_ones(), units);
        self.validity.set_mask(place, mask);
        self.valid += u64::from(units);
    }
    /// Marks a place as no longer valid.
    #[inline(always)]
    pub(super) fn invalidate(&mut self, place: u32) {
        debug_assert!(self.validity.get(place), "place {place} is not valid");
        self.validity.clear(place);
        self.valid -= 1;
    }

    /// Moves the committed copies of `parts` to the places from `place` on, unless a copy has become invalid since it
    /// was read. Calls `in_slot` with the slot and the new entry of each unit whose newest copy is in the write buffer.
    #[inline]
    pub(super) fn commit_moves(
        &mut self,
        place: u32,
        parts: &[Part],
        mut in_slot: impl FnMut(u32, u32, Entry),
    ) {
        let mut valid = 0u64;
        for (n, part) in (0..).zip(parts) {
            if !self.validity.test_and_clear(part.from) && !fault("stale-copy-is-moved") {
                continue;
            }
            valid |= 1 << n;
            let entry = Entry::at(place + n);
            let mapped = &mut self.entries[part.unit as usize];
            if mapped.place().is_some() {
                *mapped = entry;
            } else if let Mapped::Slot(slot) = mapped.decode() {
                in_slot(part.unit, slot, entry);
            }
        }
        self.validity.set_mask(place, valid);
    }

    /// Undoes the trim of a unit if the trim has no record on flash: the copy at the unit's old place is committed
    /// again. Returns false if the unit is not trimmed.
    pub(super) fn undo_trim(&mut self, unit: u32) -> bool {
        let Mapped::Trimmed(place) = self.entry(unit).decode() else { return false };
        if fault("trim-survives-without-a-record") {
            return false;
        }
        self.set(unit, Entry::at(place));
        self.validate_places(place, 1, 1);
        true
    }

    /// Loads the cache line of a unit's entry into the processor's cache.
    #[inline(always)]
    pub(super) fn prefetch(&self, unit: u32) {
        prefetch(&self.entries, unit as usize);
    }
    /// Loads the cache line with the valid bit of a place.
    #[inline(always)]
    pub(super) fn prefetch_place(&self, place: u32) {
        self.validity.prefetch(place);
    }

    /// Starts to record versions, for `places` places.
    pub(super) fn track_versions(&mut self, places: u32) {
        self.versions = Some(vec![0; places as usize]);
    }
    /// Returns the recorded versions of all places.
    #[inline]
    pub(super) fn versions(&self) -> Option<&[u64]> {
        self.versions.as_deref()
    }
    #[inline]
    pub(super) fn versions_mut(&mut self) -> Option<&mut [u64]> {
        self.versions.as_deref_mut()
    }

    /// Returns the number of units whose newest copy is in the write buffer.
    pub(super) fn in_slots(&self) -> usize {
        self.entries.iter().filter(|entry| matches!(entry.decode(), Mapped::Slot(_))).count()
    }

    /// Checks the sizes of the maps, and that the place of every mapped unit holds the unit and no other place is
    /// valid. `committed` returns the entry of a unit's copy in the array, and `is_erased` names the erased blocks.
    pub(super) fn validate(
        &self,
        layout: &Layout,
        committed: &dyn Fn(u32, Entry) -> Entry,
        is_erased: &dyn Fn(u32) -> bool,
    ) -> Result<(), Inconsistent> {
        ensure!(
            self.entries.len() == layout.logical() as usize && self.validity.holds(layout.places()),
            "the map or the list of valid places has another size"
        );
        self.reverse.validate(layout.blocks, layout.units_per_block, layout.units_per_page)?;
        let mut mapped = 0;
        for (unit, entry) in (0..).zip(&self.entries) {
            let entry = committed(unit, *entry);
            ensure!(layout.is_committed(entry), "the entry of unit {unit} is out of range: {entry:?}");
            let (Mapped::At(place) | Mapped::Trimmed(place)) = entry.decode() else { continue };
            let is_valid = entry.place().is_some();
            let (block, page, index) = layout.parts(place);
            ensure!(
                self.reverse.unit(block, page, index) == unit && self.is_valid(place) == is_valid,
                "unit {unit} is mapped to place {place}, which belongs to another unit or has the wrong \
                 validity: {}, expected {is_valid}",
                !is_valid
            );
            ensure!(
                is_valid || !is_erased(block),
                "unit {unit} is trimmed without a record, but its place {place} is erased"
            );
            mapped += u64::from(is_valid);
        }
        ensure!(mapped == self.valid, "{mapped} units are mapped, but {} are counted as valid", self.valid);
        let valid = u64::from(self.validity.count(0, layout.places()));
        ensure!(valid == self.valid, "{valid} units of all blocks are valid, but {} are counted", self.valid);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::page_map::PageMapParameters;

    /// Returns a map with the units 10 to 13 on page 2 of block 3, and the first place of that page.
    fn with_a_page() -> (Map, Layout, u32) {
        let layout = Layout::new(&PageMapParameters::tiny());
        let mut map = Map::new(&layout);
        let place = layout.place(3, 2);
        let parts: Vec<Part> = (10..14).map(|unit| Part { from: 0, unit }).collect();
        map.reverse_mut().write(3, 2, &parts, 4);
        (0..4).for_each(|n| map.set(10 + n, Entry::at(place + n)));
        map.validate_places(place, 0b1111, 4);
        (map, layout, place)
    }

    fn check(map: &Map, layout: &Layout) -> Result<(), Inconsistent> {
        map.validate(layout, &|_, entry| entry, &|_| false)
    }

    #[test]
    fn a_place_is_valid_exactly_while_the_entry_of_its_unit_names_it() {
        let (mut map, layout, place) = with_a_page();
        check(&map, &layout).expect("four units are mapped");
        map.invalidate(place + 1);
        assert!(check(&map, &layout).is_err(), "the entry names an invalid place");
        map.set(11, Entry::NOWHERE);
        check(&map, &layout).expect("three units are mapped");
        map.set(12, Entry::at(place));
        assert!(check(&map, &layout).is_err(), "another unit lies there");
    }

    #[test]
    fn a_move_leaves_out_units_that_were_overwritten_since_their_read() {
        let (mut map, layout, place) = with_a_page();
        map.invalidate(place);
        map.set(10, Entry::NOWHERE);
        map.set(12, Entry::slot(5));
        let to = layout.place(7, 0);
        let parts: Vec<Part> = (0..4).map(|n| Part { from: place + n, unit: 10 + n }).collect();
        map.reverse_mut().write(7, 0, &parts, 4);
        let mut in_slots = Vec::new();
        map.commit_moves(to, &parts, |unit, slot, entry| in_slots.push((unit, slot, entry)));
        assert_eq!(in_slots, [(12, 5, Entry::at(to + 2))]);
        assert_eq!((map.valid(), map.valid_mask(place, 4), map.valid_mask(to, 4)), (3, 0, 0b1110));
        let committed = |unit, entry| if unit == 12 { Entry::at(to + 2) } else { entry };
        map.validate(&layout, &committed, &|_| false).expect("three units moved");
    }

    #[test]
    fn an_undone_trim_makes_the_old_copy_valid_again() {
        let (mut map, layout, place) = with_a_page();
        map.invalidate(place + 3);
        map.set(13, Entry::trimmed(place + 3));
        check(&map, &layout).expect("the unit is trimmed");
        let is_erased = |block| block == 3;
        assert!(map.validate(&layout, &|_, entry| entry, &is_erased).is_err(), "the unit's block was erased");
        assert!(map.undo_trim(13) && !map.undo_trim(13) && !map.undo_trim(12));
        assert_eq!((map.entry(13), map.valid()), (Entry::at(place + 3), 4));
        check(&map, &layout).expect("four units are mapped");
    }
}
