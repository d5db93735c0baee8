//! A bitmap of the mapped granules of a device.

use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use crate::stride::Stride;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// A bitmap with one bit per granule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MappedGranules {
    granule: Stride,
    words: Vec<u64>,
}

impl MappedGranules {
    pub(super) fn new(capacity: u64, granule: u64) -> Self {
        let words = vec![0; capacity.div_ceil(granule).div_ceil(64) as usize];
        MappedGranules { granule: Stride::new(granule), words }
    }

    /// Returns the number of bytes of a granule.
    pub(super) fn granule(&self) -> u64 {
        self.granule.bytes()
    }

    /// Returns true if the granule at byte `offset` is mapped.
    #[inline]
    pub(super) fn contains(&self, offset: u64) -> bool {
        let granule = self.granule.index(offset);
        self.words[(granule / 64) as usize] >> (granule % 64) & 1 == 1
    }

    /// Returns the number of consecutive mapped granules at the beginning of `range`, which must begin at a granule
    /// boundary. Counts whole granules only.
    #[inline]
    pub(super) fn run(&self, range: Range<u64>) -> u64 {
        let (first, end) = (self.granule.index(range.start), self.granule.index(range.end));
        let mut at = first;
        while at < end {
            let mapped = (self.words[(at / 64) as usize] >> (at % 64)).trailing_ones();
            at += u64::from(mapped);
            if mapped == 0 || !at.is_multiple_of(64) {
                break;
            }
        }
        at.min(end) - first
    }

    /// Returns the number of bits in the bitmap.
    pub(super) fn len(&self) -> usize {
        self.words.len() * 64
    }

    /// Prefetches the bit of `offset` into the processor's cache.
    pub(super) fn prefetch(&self, offset: u64) {
        flashlab_sim::prefetch(&self.words, (self.granule.index(offset) / 64) as usize);
    }

    /// Compares the size with that of `like`, and checks that nothing beyond `capacity` is mapped.
    pub(super) fn validate(&self, capacity: u64, like: &MappedGranules) -> Result<(), Inconsistent> {
        ensure!(
            self.granule == like.granule && self.words.len() == like.words.len(),
            "the map of granules has another size"
        );
        let beyond = self.touched(&(0..capacity)).end..self.len() as u64;
        ensure!(
            masks(beyond).all(|(word, mask)| self.words[word] & mask == 0),
            "a granule beyond the capacity is mapped"
        );
        Ok(())
    }

    /// Maps or unmaps all granules that `range` touches.
    pub(super) fn set(&mut self, range: Range<u64>, value: bool) {
        for (word, mask) in masks(self.touched(&range)) {
            if value {
                self.words[word] |= mask;
            } else {
                self.words[word] &= !mask;
            }
        }
    }

    /// Unmaps each granule that `range` touches and for whose first byte `lies` returns false.
    pub(super) fn retain(&mut self, range: &Range<u64>, lies: impl Fn(u64) -> bool) {
        let granule = self.granule.bytes();
        for start in self.touched(range).map(|at| at * granule).filter(|start| !lies(*start)) {
            self.set(start..start + granule, false);
        }
    }
    /// Returns the number of bytes in the mapped granules that begin in `range`.
    pub(super) fn bytes(&self, range: &Range<u64>) -> u64 {
        let granule = self.granule.bytes();
        let granules = range.start.div_ceil(granule)..range.end.div_ceil(granule);
        let count = |(word, mask): (usize, u64)| u64::from((self.words[word] & mask).count_ones());
        masks(granules).map(count).sum::<u64>() * granule
    }

    /// Returns the total number of mapped bytes.
    pub(super) fn bytes_total(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>() * self.granule.bytes()
    }

    /// Appends the runs of mapped granules that begin in `range` to `to`, as byte ranges.
    pub(super) fn collect(&self, range: &Range<u64>, to: &mut Vec<Range<u64>>) {
        let granule = self.granule.bytes();
        for at in range.start.div_ceil(granule)..range.end.div_ceil(granule) {
            let start = at * granule;
            if self.contains(start) {
                match to.last_mut() {
                    Some(last) if last.end == start => last.end += granule,
                    _ => to.push(start..start + granule),
                }
            }
        }
    }

    /// Returns the indices of the granules that `range` touches.
    pub(super) fn touched(&self, range: &Range<u64>) -> Range<u64> {
        self.granule.index(range.start)..range.end.div_ceil(self.granule.bytes())
    }

    /// Returns the byte range of the granules that lie completely in `range`.
    pub(super) fn whole(&self, range: &Range<u64>) -> Range<u64> {
        let granule = self.granule.bytes();
        let start = range.start.next_multiple_of(granule);
        start..(range.end - range.end % granule).max(start)
    }
}

/// Returns the words of a bitmap that contain the bits in `range`, each with a mask of these bits.
fn masks(range: Range<u64>) -> impl Iterator<Item = (usize, u64)> {
    let first = (range.start / 64) as usize;
    let words = if range.is_empty() { first..first } else { first..range.end.div_ceil(64) as usize };
    words.map(move |word| {
        let low = range.start.saturating_sub(word as u64 * 64);
        let high = (range.end - word as u64 * 64).min(64);
        (word, (u64::MAX >> (64 - high)) & (u64::MAX << low))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_bitmap_agrees_with_a_list_of_flags(
            steps in prop::collection::vec((0u64..300, 0u64..300, any::<bool>()), 0..20),
            probe in (0u64..300, 0u64..300),
        ) {
            let mut mapped = MappedGranules::new(300 * 8, 8);
            let mut list = [false; 300];
            for (a, b, value) in steps {
                let (start, end) = (a.min(b), a.max(b));
                mapped.set(start * 8..end * 8, value);
                list[start as usize..end as usize].fill(value);
            }
            let (start, end) = (probe.0.min(probe.1), probe.0.max(probe.1));
            let range = start * 8..end * 8;
            let inside = &list[start as usize..end as usize];
            prop_assert_eq!(mapped.bytes(&range), 8 * inside.iter().filter(|m| **m).count() as u64);
            prop_assert_eq!(mapped.bytes_total(), 8 * list.iter().filter(|m| **m).count() as u64);
            let run = inside.iter().take_while(|m| **m).count() as u64;
            prop_assert_eq!(mapped.run(range.clone()), run);
            let mut runs = Vec::new();
            mapped.collect(&range, &mut runs);
            let granules: Vec<u64> = runs.iter().flat_map(|r| (r.start / 8)..(r.end / 8)).collect();
            let expected: Vec<u64> = (start..end).filter(|g| list[*g as usize]).collect();
            prop_assert_eq!(granules, expected);
            prop_assert!(runs.windows(2).all(|w| w[0].end < w[1].start));
            for (granule, value) in (0..).zip(list) {
                prop_assert_eq!(mapped.contains(granule * 8), value);
            }
        }
    }
}
