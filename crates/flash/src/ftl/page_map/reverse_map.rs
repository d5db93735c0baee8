//! Reverse map: the unit that each place holds, as the spare areas of the array store it.
//!
//! Data that was written in sequence needs one number for each page, the first unit of the page. A block whose pages
//! all hold consecutive units needs no other memory. The first page that breaks the sequence gives its block a *list*
//! with one entry for each place, until the block is erased. A victim always has a list, so that its units can be moved
//! without checking which form its block has.
//!
//! # Invariant
//! Each list belongs to one block or is vacant. The unit of a place is defined from the write of its page until the
//! erase of its block, except in the padding of a page.

use super::place::LINE;
use super::programs::Part;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::prefetch;
use serde::{Deserialize, Serialize};

crate::index::index! {
    /// List of the units of a block.
    struct List;
}

/// The units of all places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ReverseMap {
    units_per_page: u32,
    units_per_block: u32,
    /// First unit of each page of a block without a list.
    first_units: Vec<u32>,
    lists: Vec<Option<List>>,
    /// Content of the lists, of `units_per_block` units each.
    units: Vec<u32>,
    vacant: Vec<List>,
}

impl ReverseMap {
    pub(super) fn new(blocks: u32, units_per_block: u32, units_per_page: u32) -> Self {
        ReverseMap {
            units_per_page,
            units_per_block,
            first_units: vec![0; (blocks * (units_per_block / units_per_page)) as usize],
            lists: vec![None; blocks as usize],
            // Address space for all lists. The system provides the memory of a list when the list is first used.
            units: Vec::with_capacity(blocks as usize * units_per_block as usize),
            vacant: Vec::new(),
        }
    }

    /// Returns the index of the first unit of a list.
    #[inline]
    fn start_of(&self, list: List) -> usize {
        list.index() as usize * self.units_per_block as usize
    }
    #[inline]
    fn pages_per_block(&self) -> u32 {
        self.units_per_block / self.units_per_page
    }
    #[inline]
    fn page_of(&self, block: u32, page: u32) -> usize {
        (block * self.pages_per_block() + page) as usize
    }

    /// Records the units of a page that is programmed. `parts` has an entry for each unit of a page, of which only the
    /// first `count` are in use.
    #[inline]
    pub(super) fn write(&mut self, block: u32, page: u32, parts: &[Part], count: u32) {
        let list = match self.lists[block as usize] {
            Some(list) => list,
            None if is_sequence(&parts[..count as usize]) => {
                let at = self.page_of(block, page);
                self.first_units[at] = parts[0].unit;
                return;
            }
            None => self.give_list(block, page),
        };
        let start = self.start_of(list) + (page * self.units_per_page) as usize;
        // The next pages of the block write to these entries.
        prefetch(&self.units, start + LINE as usize);
        let units = &mut self.units[start..start + self.units_per_page as usize];
        for (unit, part) in units.iter_mut().zip(parts) {
            *unit = part.unit;
        }
    }

    /// Gives `block` a list with the units of its first `written` pages, and returns the list. The entries of later
    /// pages are set when those pages are written.
    #[cold]
    fn give_list(&mut self, block: u32, written: u32) -> List {
        let size = self.units_per_block as usize;
        let list = self.vacant.pop().unwrap_or_else(|| {
            self.units.resize(self.units.len() + size, 0);
            List::new((self.units.len() / size) as u32 - 1)
        });
        self.lists[block as usize] = Some(list);
        let (start, per_page) = (self.start_of(list), self.units_per_page as usize);
        let first_page = self.page_of(block, 0);
        let first_units = &self.first_units[first_page..first_page + written as usize];
        for (units, first) in self.units[start..start + size].chunks_mut(per_page).zip(first_units) {
            for (unit, number) in units.iter_mut().zip(*first..) {
                *unit = number;
            }
        }
        list
    }

    /// Gives a block that becomes a victim its list.
    #[inline]
    pub(super) fn expand(&mut self, block: u32) {
        if self.lists[block as usize].is_none() {
            self.give_list(block, self.pages_per_block());
        }
    }

    /// Returns the units of all places of a victim.
    #[inline]
    pub(super) fn victim(&self, block: u32) -> &[u32] {
        let start = self.start_of(self.lists[block as usize].expect("a victim has a list"));
        &self.units[start..start + self.units_per_block as usize]
    }

    /// Prefetches the units of a victim from the place `within` on.
    #[inline]
    pub(super) fn prefetch(&self, block: u32, within: u32) {
        if let Some(list) = self.lists[block as usize] {
            prefetch(&self.units, self.start_of(list) + within as usize);
        }
    }

    /// Returns the unit of a place.
    pub(super) fn unit(&self, block: u32, page: u32, index: u32) -> u32 {
        match self.lists[block as usize] {
            Some(list) => {
                let within = (page * self.units_per_page + index) as usize;
                self.units[self.start_of(list) + within]
            }
            None => self.first_units[self.page_of(block, page)] + index,
        }
    }

    /// Forgets the units of an erased block.
    pub(super) fn erase(&mut self, block: u32) {
        self.vacant.extend(self.lists[block as usize].take());
    }

    /// Checks that the map is for these numbers of blocks and units, and that each list is used once or vacant once.
    pub(super) fn validate(
        &self,
        blocks: u32,
        units_per_block: u32,
        units_per_page: u32,
    ) -> Result<(), Inconsistent> {
        let pages = u64::from(blocks) * u64::from(units_per_block / units_per_page);
        ensure!(
            (self.units_per_block, self.units_per_page) == (units_per_block, units_per_page)
                && self.first_units.len() as u64 == pages
                && self.lists.len() == blocks as usize
                && self.first_units.iter().all(|unit| *unit < u32::MAX - units_per_page),
            "the reverse map was saved with another geometry"
        );
        let count = self.units.len() / units_per_block as usize;
        let mut seen = vec![false; count];
        let once = |list: &List| {
            let seen = seen.get_mut(list.index() as usize);
            seen.is_some_and(|seen| !core::mem::replace(seen, true))
        };
        let all_once = self.lists.iter().flatten().chain(&self.vacant).all(once);
        ensure!(
            all_once && self.units.len() == count * units_per_block as usize && seen.iter().all(|seen| *seen),
            "a list of the reverse map has two users or none"
        );
        Ok(())
    }
}

/// Returns true if the units of a page are consecutive.
#[inline]
fn is_sequence(parts: &[Part]) -> bool {
    parts.iter().zip(parts[0].unit..).all(|(part, number)| part.unit == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCKS: u32 = 3;
    const PAGES: u32 = 5;
    const PER_PAGE: u32 = 4;

    proptest! {
        /// Each step programs the next page of a block, in sequence or not, makes the block a victim, or erases it.
        #[test]
        fn every_place_names_the_unit_that_was_written_there(
            steps in prop::collection::vec((0..BLOCKS, 0u8..8, 0u32..1_000, 1..=PER_PAGE), 0..100),
        ) {
            let mut map = ReverseMap::new(BLOCKS, PAGES * PER_PAGE, PER_PAGE);
            let mut written: Vec<Vec<Vec<u32>>> = vec![Vec::new(); BLOCKS as usize];
            for (block, step, first, count) in steps {
                let pages = &mut written[block as usize];
                match step {
                    0 => {
                        map.erase(block);
                        pages.clear();
                    }
                    1 => map.expand(block),
                    _ if pages.len() == PAGES as usize => {}
                    _ => {
                        let unit = |n| if step < 6 { first + n } else { first + 7 * n % 13 };
                        let parts: Vec<Part> = (0..PER_PAGE).map(|n| Part { from: 0, unit: unit(n) }).collect();
                        map.write(block, pages.len() as u32, &parts, count);
                        pages.push((0..count).map(unit).collect());
                    }
                }
                map.validate(BLOCKS, PAGES * PER_PAGE, PER_PAGE).expect("the map is consistent");
                for (block, pages) in (0..).zip(&written) {
                    for (page, units) in (0..).zip(pages) {
                        for (index, unit) in (0..).zip(units) {
                            prop_assert_eq!(map.unit(block, page, index), *unit);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn sequential_data_needs_no_list_and_an_erased_block_returns_its_list() {
        let mut map = ReverseMap::new(2, 8, 4);
        let parts = |first: u32, step: u32| [0, 1, 2, 3].map(|n| Part { from: 0, unit: first + n * step });
        map.write(0, 0, &parts(40, 1), 4);
        map.write(0, 1, &parts(96, 1), 4);
        assert_eq!(map.units.len(), 0);
        map.write(1, 0, &parts(7, 3), 4);
        assert_eq!(map.victim(1)[..4], [7, 10, 13, 16]);
        map.erase(1);
        map.expand(0);
        assert_eq!(map.victim(0), [40, 41, 42, 43, 96, 97, 98, 99]);
        assert_eq!(map.units.len(), 8, "block 0 has the list that block 1 had");
    }
}
