//! Bit sets of dies and of places.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// Set of dies, one bit per die.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DieSet {
    words: Vec<u64>,
}

impl DieSet {
    pub(super) fn new(dies: u32) -> Self {
        DieSet { words: alloc::vec![0; dies.div_ceil(64) as usize] }
    }
    #[inline]
    pub(super) fn set(&mut self, die: u32, member: bool) {
        let word = &mut self.words[(die / 64) as usize];
        *word = *word & !(1 << (die % 64)) | u64::from(member) << (die % 64);
    }
    /// Returns true if the set has the size for `dies` dies, and no other members.
    pub(super) fn holds(&self, dies: u32) -> bool {
        let DieSet { words } = DieSet::new(dies);
        self.words.len() == words.len() && (dies..words.len() as u32 * 64).all(|die| !self.contains(die))
    }
    pub(super) fn contains(&self, die: u32) -> bool {
        self.words[(die / 64) as usize] >> (die % 64) & 1 == 1
    }
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
    /// Returns the first member at or after `die`, continuing from die 0 after the last die.
    #[inline]
    pub(super) fn next(&self, die: u32) -> Option<u32> {
        let mut word = (die / 64) as usize;
        let mut members = self.words[word] & u64::MAX << (die % 64);
        for _ in 0..self.words.len() {
            if members != 0 {
                break;
            }
            word = if word + 1 == self.words.len() { 0 } else { word + 1 };
            members = self.words[word];
        }
        (members != 0).then(|| word as u32 * 64 + members.trailing_zeros())
    }
}

/// Returns the number of set bits of `mask`. Most masks are those of a page of at most four units. For these,
/// a table avoids an instruction that only newer processors have.
#[inline]
pub(super) fn count_valid(mask: u64) -> u32 {
    const OF_FOUR: u64 = 0x4332_3221_3221_2110;
    if mask < 16 { (OF_FOUR >> (4 * mask)) as u32 & 7 } else { mask.count_ones() }
}

/// Set of places that hold the committed copy of a unit, one bit per place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Validity {
    words: Vec<u64>,
}

impl Validity {
    pub(super) fn new(places: u32) -> Self {
        Validity { words: alloc::vec![0; (places as usize).div_ceil(64) + 1] }
    }
    #[inline]
    pub(super) fn get(&self, place: u32) -> bool {
        self.words[(place / 64) as usize] >> (place % 64) & 1 == 1
    }
    #[inline]
    pub(super) fn clear(&mut self, place: u32) {
        self.words[(place / 64) as usize] &= !(1 << (place % 64));
    }
    /// Clears a bit. Returns true if the bit was set.
    #[inline]
    pub(super) fn test_and_clear(&mut self, place: u32) -> bool {
        let (word, bit) = (&mut self.words[(place / 64) as usize], 1 << (place % 64));
        let was = *word & bit != 0;
        *word &= !bit;
        was
    }
    /// Sets the bits of `mask`, whose lowest bit stands for the place `first`.
    #[inline]
    pub(super) fn set_mask(&mut self, first: u32, mask: u64) {
        let (word, shift) = ((first / 64) as usize, first % 64);
        self.words[word] |= mask << shift;
        let beyond = mask >> 1 >> (63 - shift);
        if beyond != 0 {
            self.words[word + 1] |= beyond;
        }
    }
    /// Returns the bits of `count` places from `first`. `count` is at most 64.
    #[inline]
    pub(super) fn mask(&self, first: u32, count: u32) -> u64 {
        let (word, shift) = ((first / 64) as usize, first % 64);
        let mut bits = self.words[word] >> shift;
        if shift + count > 64 {
            bits |= self.words[word + 1] << (64 - shift);
        }
        bits & (u64::MAX >> (64 - count))
    }
    /// Returns the number of set bits among `count` places from `first`.
    pub(super) fn count(&self, first: u32, count: u32) -> u32 {
        let (whole, rest) = (count / 64, count % 64);
        let masks = (0..whole).map(|n| self.mask(first + 64 * n, 64));
        let rest = if rest == 0 { 0 } else { self.mask(first + 64 * whole, rest) };
        masks.chain([rest]).map(u64::count_ones).sum()
    }
    /// Returns true if the set has a bit for each of `places` places.
    pub(super) fn holds(&self, places: u32) -> bool {
        self.words.len() == (places as usize).div_ceil(64) + 1
    }
    pub(super) fn prefetch(&self, place: u32) {
        flashlab_sim::prefetch(&self.words, (place / 64) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn next_returns_the_first_member_from_a_die_on_and_wraps_around(
            members in prop::collection::vec(any::<bool>(), 1..200),
            from: prop::sample::Index,
        ) {
            let dies = members.len() as u32;
            let mut set = DieSet::new(dies);
            (0..).zip(&members).for_each(|(die, member)| set.set(die, *member));
            let from = from.index(members.len()) as u32;
            let expected = (0..dies).map(|n| (from + n) % dies).find(|die| members[*die as usize]);
            prop_assert_eq!(set.next(from), expected);
        }

        #[test]
        fn ones_are_counted(mask in prop_oneof![0u64..16, any::<u64>()]) {
            prop_assert_eq!(count_valid(mask), mask.count_ones());
        }

        #[test]
        fn a_mask_contains_the_bits_that_were_set(
            bits in prop::collection::vec(any::<bool>(), 300),
            first in 0u32..230,
            count in 1u32..=64,
        ) {
            let mut validity = Validity::new(300);
            (0..).zip(&bits).filter(|(_, bit)| **bit).for_each(|(place, _)| validity.set_mask(place, 1));
            let expected = (0..count).filter(|n| bits[(first + n) as usize]).fold(0, |mask, n| mask | 1u64 << n);
            prop_assert_eq!(validity.mask(first, count), expected);
            let mut other = Validity::new(300);
            other.set_mask(first, expected);
            for place in 0..300 {
                let within = (first..first + count).contains(&place);
                prop_assert_eq!(other.get(place), within && bits[place as usize]);
            }
            prop_assert_eq!(validity.count(first, 300 - first), bits[first as usize..].iter().filter(|bit| **bit).count() as u32);
            prop_assert_eq!(validity.count(0, 256), bits[..256].iter().filter(|bit| **bit).count() as u32);
            prop_assert_eq!(validity.test_and_clear(first), bits[first as usize]);
            prop_assert!(!validity.get(first));
        }
    }
}
