//! Location of a unit: places, and the entries of the two maps.
//!
//! A *place* is a unit of the array: `(block * pages + page) * units_per_page + unit in the page`. An [`Entry`] of the
//! logical-to-physical map is 32 bits wide:
//!
//! | bits | meaning |
//! |---|---|
//! | `00` place | the unit lies at that place |
//! | `01` place | trimmed, not yet on record: after a power cut the unit would be found at that place again |
//! | `1` slot | the newest copy is in that slot of the write buffer, which remembers the place of the committed copy |
//! | all ones | never written, or trimmed on record |
//! | all ones but the last | the unit could not be read when it was moved |
//!
//! An array therefore has at most 2^30 units: 4 TiB in units of 4 KiB.

use super::PageMapParameters;
use crate::ftl::divisor::Divisor;
use serde::{Deserialize, Serialize};

/// Maximum number of places of an array.
pub(super) const PLACES_MAX: u64 = 1 << 30;
/// Units per cache line of the reverse map. The reverse map entries of these units are loaded together.
pub(super) const LINE: u32 = 16;

/// Sizes of the layer's structures, in units unless the name says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Layout {
    /// Units that the host can address.
    pub(super) units: u32,
    /// Number of map pages. Their logical numbers follow those of the host's units.
    pub(super) map_pages: u32,
    pub(super) units_per_page: u32,
    /// Pages of a block with all bits per cell.
    pub(super) pages: u32,
    /// Pages of a block with one bit per cell.
    pub(super) slc_pages: u32,
    pub(super) units_per_block: u32,
    pub(super) blocks: u32,
    pub(super) dies: u32,
    /// Number of pages whose units share a cache line of the reverse map; a power of two.
    pub(super) pages_per_line: u32,
    by_block: Divisor,
    by_page: Divisor,
    by_die: Divisor,
}

impl Layout {
    pub(super) fn new(p: &PageMapParameters) -> Self {
        let units_per_page = (p.geometry.program_bytes() / p.unit) as u32;
        let units_per_block = units_per_page * p.geometry.pages;
        Layout {
            units: (p.capacity / p.unit) as u32,
            map_pages: p.map_pages,
            units_per_page,
            pages: p.geometry.pages,
            slc_pages: p.geometry.pages / p.cell.bits(),
            units_per_block,
            blocks: p.geometry.block_count(),
            dies: p.geometry.die_count(),
            pages_per_line: 1 << (LINE / units_per_page).max(1).ilog2(),
            by_block: Divisor::new(units_per_block),
            by_page: Divisor::new(units_per_page),
            by_die: Divisor::new(p.geometry.die_count()),
        }
    }
    /// Returns the number of logical units: the host's units, the map pages and one unit for trim records.
    pub(super) fn logical(&self) -> u32 {
        self.units + self.map_pages + 1
    }
    /// Returns the logical unit of the trim records.
    pub(super) fn log_unit(&self) -> u32 {
        self.units + self.map_pages
    }
    /// Returns the number of slots of the buffer of map pages.
    pub(super) fn map_slots(&self) -> u32 {
        4 * self.units_per_page + 1
    }
    pub(super) fn places(&self) -> u32 {
        self.blocks * self.units_per_block
    }
    /// Returns the first place of a page.
    #[inline]
    pub(super) fn place(&self, block: u32, page: u32) -> u32 {
        block * self.units_per_block + page * self.units_per_page
    }
    #[inline]
    pub(super) fn block_of(&self, place: u32) -> u32 {
        self.by_block.divide(place)
    }
    #[inline]
    pub(super) fn die_of(&self, block: u32) -> u32 {
        self.by_die.split(block).1
    }
    /// Splits a place into block, page and unit in the page.
    #[inline]
    pub(super) fn parts(&self, place: u32) -> (u32, u32, u32) {
        let (block, within) = self.by_block.split(place);
        let (page, unit) = self.by_page.split(within);
        (block, page, unit)
    }
    /// Returns true if a unit's copy in the array can have this entry.
    pub(super) fn is_committed(&self, entry: Entry) -> bool {
        match entry.decode() {
            Mapped::At(place) | Mapped::Trimmed(place) => place < self.places(),
            Mapped::Nowhere | Mapped::Unreadable => true,
            Mapped::Slot(_) => false,
        }
    }
    /// Returns the number of pages of a block; `slc` is true if the block is in SLC mode.
    pub(super) fn pages_of(&self, slc: bool) -> u32 {
        if slc { self.slc_pages } else { self.pages }
    }
}

/// Entry of the logical-to-physical map.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Entry(u32);

/// Decoded map entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mapped {
    Nowhere,
    Unreadable,
    At(u32),
    Trimmed(u32),
    Slot(u32),
}

const SLOT: u32 = 1 << 31;
const TRIMMED: u32 = 1 << 30;

impl Entry {
    pub(crate) const NOWHERE: Entry = Entry(u32::MAX);
    pub(crate) const UNREADABLE: Entry = Entry(u32::MAX - 1);

    #[inline]
    pub(crate) fn at(place: u32) -> Self {
        Entry(place)
    }
    #[inline]
    pub(crate) fn trimmed(place: u32) -> Self {
        Entry(TRIMMED | place)
    }
    #[inline]
    pub(crate) fn slot(slot: u32) -> Self {
        Entry(SLOT | slot)
    }
    /// Returns the place if the unit's newest copy lies in the array and is not trimmed.
    #[inline]
    pub(crate) fn place(self) -> Option<u32> {
        (self.0 < TRIMMED).then_some(self.0)
    }
    #[inline]
    pub(crate) fn decode(self) -> Mapped {
        match self {
            Entry::NOWHERE => Mapped::Nowhere,
            Entry::UNREADABLE => Mapped::Unreadable,
            Entry(place) if place < TRIMMED => Mapped::At(place),
            Entry(place) if place < SLOT => Mapped::Trimmed(place & !TRIMMED),
            Entry(slot) => Mapped::Slot(slot & !SLOT),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn entries_decode_to_the_values_that_they_encode(n in 0u32..1 << 30) {
            prop_assert_eq!(Entry::at(n).decode(), Mapped::At(n));
            prop_assert_eq!(Entry::trimmed(n).decode(), Mapped::Trimmed(n));
            prop_assert_eq!(Entry::slot(n).decode(), Mapped::Slot(n));
        }
    }
}
