//! Directory of the map pages that exist on flash. The directory of a drive is small (4 bytes for each 4 MiB
//! of the drive), so it always stays in the controller's memory. A look-up in a map page that does not exist
//! needs no load, because no unit of such a page is mapped.

use crate::ftl::MapPage;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Set of the existing map pages, one bit per map page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Directory {
    bits: Vec<u64>,
    pages: u32,
    count: u32,
}

impl Directory {
    /// Returns a directory of `pages` map pages, none of which exists.
    pub fn new(pages: u32) -> Self {
        Directory { bits: vec![0; pages.div_ceil(64) as usize], pages, count: 0 }
    }

    /// Returns the number of map pages of the drive.
    pub fn pages(&self) -> u32 {
        self.pages
    }
    /// Returns the number of map pages that exist.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns true if the directory has `pages` map pages and its count matches its bits.
    pub(super) fn is_sound(&self, pages: u32) -> bool {
        let counted: u32 = self.bits.iter().map(|word| word.count_ones()).sum();
        self.pages == pages
            && self.bits.len() == pages.div_ceil(64) as usize
            && self.count == counted
            && self.iter(0..pages).count() == counted as usize
    }

    /// Returns true if `page` exists.
    #[inline]
    pub fn contains(&self, page: MapPage) -> bool {
        self.bits[page.0 as usize / 64] >> (page.0 % 64) & 1 == 1
    }

    /// Marks `page` as existing.
    pub fn insert(&mut self, page: MapPage) {
        self.count += u32::from(!self.contains(page));
        self.bits[page.0 as usize / 64] |= 1 << (page.0 % 64);
    }

    /// Marks `page` as not existing.
    pub fn remove(&mut self, page: MapPage) {
        self.count -= u32::from(self.contains(page));
        self.bits[page.0 as usize / 64] &= !(1 << (page.0 % 64));
    }

    /// Returns the existing map pages in `range`, in ascending order.
    pub fn iter(&self, range: Range<u32>) -> impl Iterator<Item = MapPage> + '_ {
        let mut at = range.start;
        core::iter::from_fn(move || {
            while at < range.end.min(self.pages) {
                let word = self.bits[at as usize / 64] >> (at % 64);
                if word == 0 {
                    at = (at / 64 + 1) * 64;
                    continue;
                }
                let page = at + word.trailing_zeros();
                at = page + 1;
                return (page < range.end).then_some(MapPage(page));
            }
            None
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_directory_agrees_with_a_set(
            steps in prop::collection::vec((any::<bool>(), 0u32..300), 0..200),
            from in 0u32..300,
            to in 0u32..300,
        ) {
            let mut directory = Directory::new(300);
            let mut reference = BTreeSet::new();
            for (insert, page) in steps {
                if insert {
                    directory.insert(MapPage(page));
                    reference.insert(page);
                } else {
                    directory.remove(MapPage(page));
                    reference.remove(&page);
                }
            }
            prop_assert_eq!(directory.count() as usize, reference.len());
            let listed: Vec<u32> = directory.iter(from..to).map(|page| page.0).collect();
            let expected: Vec<u32> = if from < to { reference.range(from..to).copied().collect() } else { Vec::new() };
            prop_assert_eq!(listed, expected);
        }
    }
}
