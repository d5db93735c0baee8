//! Least-recently-used replacement.

use crate::IndexLists;
use serde::{Deserialize, Serialize};

/// A cache of indices below a fixed number. A full cache replaces the entry that was used least recently.
///
/// Uniform look-ups among N indices hit with probability C/N if the cache holds C of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lru {
    /// One list, least recently used entry first.
    order: IndexLists,
    len: u32,
    capacity: u32,
}

/// Number of the only list.
const ORDER: u32 = 0;

impl Lru {
    /// Creates an empty cache of at most `capacity` indices, all below `count`.
    pub fn new(capacity: u32, count: u32) -> Self {
        Lru { order: IndexLists::new(count, 1), len: 0, capacity }
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Returns the number of entries that fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
    /// Returns true if a new entry replaces another one.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len >= self.capacity
    }
    /// Returns true if `index` is an entry.
    #[inline]
    pub fn contains(&self, index: u32) -> bool {
        self.order.contains(index)
    }
    /// Returns the entry that was used least recently.
    pub fn oldest(&self) -> Option<u32> {
        self.order.front(ORDER)
    }

    /// Makes `index` the most recently used entry. Returns false if it is not an entry.
    #[inline]
    pub fn touch(&mut self, index: u32) -> bool {
        if !self.contains(index) {
            return false;
        }
        if self.order.back(ORDER) != Some(index) {
            self.order.remove(index);
            self.order.push_back(ORDER, index);
        }
        true
    }

    /// Inserts `index` as the most recently used entry. Returns the entry that it replaces; a cache without capacity
    /// returns `index` itself.
    #[inline]
    pub fn insert(&mut self, index: u32) -> Option<u32> {
        if self.capacity == 0 {
            return Some(index);
        }
        if self.touch(index) {
            return None;
        }
        let replaced = if self.is_full() { self.oldest() } else { None };
        if let Some(replaced) = replaced {
            self.remove(replaced);
        }
        self.order.push_back(ORDER, index);
        self.len += 1;
        replaced
    }

    /// Removes `index`. Returns false if it is not an entry.
    #[inline]
    pub fn remove(&mut self, index: u32) -> bool {
        if !self.contains(index) {
            return false;
        }
        self.order.remove(index);
        self.len -= 1;
        true
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        while let Some(index) = self.oldest() {
            self.remove(index);
        }
    }

    /// Returns true if the cache is for indices below `count` and its list is sound. A deserialized cache
    /// must not be used if this function returns false.
    pub fn is_sound(&self, count: u32) -> bool {
        self.len <= self.capacity
            && self.order.is_sound(count, 1)
            && self.order.iter(ORDER).count() == self.len as usize
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Touch(u32),
        Insert(u32),
        Remove(u32),
    }

    proptest! {
        #[test]
        fn the_cache_holds_the_most_recently_used_entries(
            capacity in 0u32..9,
            steps in prop::collection::vec((0u32..3, 0u32..16).prop_map(|(what, page)| match what {
                0 => Step::Touch(page),
                1 => Step::Insert(page),
                _ => Step::Remove(page),
            }), 0..200),
        ) {
            let mut lru = Lru::new(capacity, 16);
            // The least recently used entry comes first.
            let mut reference: Vec<u32> = Vec::new();
            for step in steps {
                match step {
                    Step::Touch(page) => {
                        let held = reference.contains(&page);
                        if held {
                            reference.retain(|&p| p != page);
                            reference.push(page);
                        }
                        prop_assert_eq!(lru.touch(page), held);
                    }
                    Step::Insert(page) => {
                        reference.retain(|&p| p != page);
                        reference.push(page);
                        let gone = (reference.len() > capacity as usize).then(|| reference.remove(0));
                        prop_assert_eq!(lru.insert(page), gone);
                    }
                    Step::Remove(page) => {
                        let held = reference.contains(&page);
                        reference.retain(|&p| p != page);
                        prop_assert_eq!(lru.remove(page), held);
                    }
                }
                prop_assert_eq!(lru.len() as usize, reference.len());
                prop_assert_eq!(lru.oldest(), reference.first().copied());
                for page in 0..16 {
                    prop_assert_eq!(lru.contains(page), reference.contains(&page));
                }
            }
            lru.clear();
            prop_assert!(lru.is_empty());
        }
    }
}
