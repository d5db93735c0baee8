//! Map pages in the order of their last use: what replacement by age (LRU) needs.
//!
//! A doubly linked list through an array with one place for each map page of the drive, so that looking one up, making it
//! the newest and taking it out cost a few memory accesses each. Uniform look-ups over N pages hit with probability C/N
//! where C are held.

use crate::ftl::MapPage;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// No page: the end of the list.
const END: u32 = u32::MAX;
/// Not in the list.
const OUT: u32 = u32::MAX - 1;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    newer: u32,
    older: u32,
}

/// Pages by age, at most `capacity` of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Lru {
    places: Vec<Place>,
    newest: u32,
    oldest: u32,
    len: u32,
    capacity: u32,
}

impl Lru {
    /// Room for `capacity` of `pages` map pages.
    pub fn new(capacity: u32, pages: u32) -> Self {
        let places = vec![Place { newer: OUT, older: OUT }; pages as usize];
        Lru { places, newest: END, oldest: END, len: 0, capacity }
    }

    /// How many are held.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// How many fit.
    pub fn capacity(&self) -> u32 {
        self.capacity
    }
    /// Whether no other one fits.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len >= self.capacity
    }
    /// Whether `page` is held.
    #[inline]
    pub fn contains(&self, page: MapPage) -> bool {
        self.places[page.0 as usize].newer != OUT
    }
    /// The one that was used the longest ago.
    pub fn oldest(&self) -> Option<MapPage> {
        (self.oldest != END).then_some(MapPage(self.oldest))
    }

    /// Makes `page` the newest, if it is held; says whether it is.
    #[inline]
    pub fn touch(&mut self, page: MapPage) -> bool {
        if !self.contains(page) {
            return false;
        }
        if self.newest != page.0 {
            self.unlink(page.0);
            self.link_newest(page.0);
        }
        true
    }

    /// Takes `page` in as the newest; returns the oldest, if it had to give way. With no room at all, `page` itself does.
    #[inline]
    pub fn insert(&mut self, page: MapPage) -> Option<MapPage> {
        if self.capacity == 0 {
            return Some(page);
        }
        if self.touch(page) {
            return None;
        }
        let gone = if self.is_full() { self.oldest() } else { None };
        if let Some(gone) = gone {
            self.remove(gone);
        }
        self.link_newest(page.0);
        self.len += 1;
        gone
    }

    /// Takes `page` out, if it is held; says whether it was.
    #[inline]
    pub fn remove(&mut self, page: MapPage) -> bool {
        if !self.contains(page) {
            return false;
        }
        self.unlink(page.0);
        self.places[page.0 as usize] = Place { newer: OUT, older: OUT };
        self.len -= 1;
        true
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        while let Some(page) = self.oldest() {
            self.remove(page);
        }
    }

    /// Whether it is a list of `pages` pages, linked both ways, of as many as it says and at most its capacity.
    pub(super) fn is_sound(&self, pages: u32) -> bool {
        if self.places.len() != pages as usize || self.len > self.capacity {
            return false;
        }
        let (mut newer, mut page) = (END, self.newest);
        for _ in 0..self.len {
            let Some(place) = self.places.get(page as usize).filter(|place| place.newer == newer) else {
                return false;
            };
            (newer, page) = (page, place.older);
        }
        let out = self.places.iter().filter(|place| place.newer == OUT).count();
        (page, newer) == (END, self.oldest) && out + self.len as usize == self.places.len()
    }

    fn unlink(&mut self, page: u32) {
        let Place { newer, older } = self.places[page as usize];
        match newer {
            END => self.newest = older,
            n => self.places[n as usize].older = older,
        }
        match older {
            END => self.oldest = newer,
            o => self.places[o as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, page: u32) {
        let older = core::mem::replace(&mut self.newest, page);
        self.places[page as usize] = Place { newer: END, older };
        match older {
            END => self.oldest = page,
            o => self.places[o as usize].newer = page,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Touch(u32),
        Insert(u32),
        Remove(u32),
    }

    proptest! {
        #[test]
        fn it_holds_the_most_recently_used(
            capacity in 0u32..9,
            steps in prop::collection::vec((0u32..3, 0u32..16).prop_map(|(what, page)| match what {
                0 => Step::Touch(page),
                1 => Step::Insert(page),
                _ => Step::Remove(page),
            }), 0..200),
        ) {
            let mut lru = Lru::new(capacity, 16);
            // Oldest first.
            let mut reference: Vec<u32> = Vec::new();
            for step in steps {
                match step {
                    Step::Touch(page) => {
                        let held = reference.contains(&page);
                        if held {
                            reference.retain(|&p| p != page);
                            reference.push(page);
                        }
                        prop_assert_eq!(lru.touch(MapPage(page)), held);
                    }
                    Step::Insert(page) => {
                        reference.retain(|&p| p != page);
                        reference.push(page);
                        let gone = (reference.len() > capacity as usize).then(|| reference.remove(0));
                        prop_assert_eq!(lru.insert(MapPage(page)), gone.map(MapPage));
                    }
                    Step::Remove(page) => {
                        let held = reference.contains(&page);
                        reference.retain(|&p| p != page);
                        prop_assert_eq!(lru.remove(MapPage(page)), held);
                    }
                }
                prop_assert_eq!(lru.len() as usize, reference.len());
                prop_assert_eq!(lru.oldest(), reference.first().copied().map(MapPage));
                for page in 0..16 {
                    prop_assert_eq!(lru.contains(MapPage(page)), reference.contains(&page));
                }
            }
            lru.clear();
            prop_assert!(lru.is_empty());
        }
    }
}
