//! The controller's memory for map pages: which are loaded, and which one gives way.
//!
//! A map page is loaded whole, and the least recently used one is dropped. Uniform look-ups over N pages hit with
//! probability C/N where C pages fit (the closed form that the tests hold).

use crate::ftl::inconsistent::{COUNT_MAX, ensure};
use crate::ftl::{Inconsistent, MapPage};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Slot {
    page: u32,
    newer: u32,
    older: u32,
}

/// A cache of map pages with LRU replacement: a doubly linked list through an array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MapCache {
    /// Where each map page is, or `NONE`.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    capacity: usize,
    newest: u32,
    oldest: u32,
    hits: u64,
    misses: u64,
}

impl MapCache {
    /// Room for `capacity` of `pages` map pages; at least one.
    pub fn new(capacity: usize, pages: usize) -> Self {
        MapCache {
            slot_of: vec![NONE; pages],
            slots: Vec::with_capacity(capacity.clamp(1, pages.max(1))),
            capacity: capacity.max(1),
            newest: NONE,
            oldest: NONE,
            hits: 0,
            misses: 0,
        }
    }

    /// Looks up `page` and makes it the newest; returns whether it was there. A missing one is loaded.
    #[inline]
    pub fn look_up(&mut self, page: MapPage) -> bool {
        let slot = self.slot_of[page.0 as usize];
        if slot != NONE {
            self.hits += 1;
            if slot != self.newest {
                self.unlink(slot);
                self.link_newest(slot);
            }
            return true;
        }
        self.misses += 1;
        let slot = if self.slots.len() < self.capacity {
            self.slots.push(Slot { page: page.0, newer: NONE, older: NONE });
            (self.slots.len() - 1) as u32
        } else {
            let slot = self.oldest;
            self.unlink(slot);
            self.slot_of[self.slots[slot as usize].page as usize] = NONE;
            self.slots[slot as usize].page = page.0;
            slot
        };
        self.slot_of[page.0 as usize] = slot;
        self.link_newest(slot);
        false
    }

    /// Forgets all pages: the power was off.
    pub fn clear(&mut self) {
        self.slot_of.fill(NONE);
        self.slots.clear();
        (self.newest, self.oldest) = (NONE, NONE);
    }

    /// Look-ups that found their page, and those that did not.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Compares its size with that of `like`; every page that is there is once in the list of them by their last use.
    pub(super) fn validate(&self, like: &MapCache) -> Result<(), Inconsistent> {
        ensure!(
            self.capacity == like.capacity
                && self.slot_of.len() == like.slot_of.len()
                && self.slots.len() <= self.capacity,
            "the memory for map pages has another size"
        );
        let (mut newer, mut slot, mut walked) = (NONE, self.newest, 0);
        while slot != NONE {
            let known = self.slots.get(slot as usize).filter(|_| walked < self.slots.len());
            let sound =
                known.filter(|s| s.newer == newer && self.slot_of.get(s.page as usize) == Some(&slot));
            let Some(sound) = sound else {
                ensure!(false, "map page in slot {slot} is not where the list has it");
                break;
            };
            (newer, slot, walked) = (slot, sound.older, walked + 1);
        }
        let there = self.slot_of.iter().filter(|slot| **slot != NONE).count();
        ensure!(
            self.oldest == newer && walked == self.slots.len() && there == walked,
            "{there} map pages are there, {walked} are in the list"
        );
        ensure!(self.hits.max(self.misses) < COUNT_MAX, "more look-ups were counted than are possible");
        Ok(())
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { newer, older, .. } = self.slots[slot as usize];
        match newer {
            NONE => self.newest = older,
            n => self.slots[n as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            o => self.slots[o as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = core::mem::replace(&mut self.newest, slot);
        let s = &mut self.slots[slot as usize];
        s.newer = NONE;
        s.older = older;
        match older {
            NONE => self.oldest = slot,
            o => self.slots[o as usize].newer = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Rng;
    use proptest::prelude::*;

    #[test]
    fn uniform_look_ups_hit_in_proportion_to_what_fits() {
        let (capacity, pages, n) = (250, 1_000, 400_000);
        let mut cache = MapCache::new(capacity, pages);
        let mut rng = Rng::new(3);
        for _ in 0..n {
            cache.look_up(MapPage(rng.below(pages as u64) as u32));
        }
        let hit = cache.hits_and_misses().0 as f64 / f64::from(n);
        assert!((hit - 0.25).abs() < 0.005, "hit ratio {hit}, expected C/N = 0.25 to half a percent");
    }

    proptest! {
        #[test]
        fn it_holds_exactly_the_most_recently_used_pages(capacity in 1usize..9, asked in prop::collection::vec(0u32..16, 0..200)) {
            let mut cache = MapCache::new(capacity, 16);
            let mut reference: Vec<u32> = Vec::new();
            for page in asked {
                let expected = reference.contains(&page);
                reference.retain(|&p| p != page);
                reference.push(page);
                if reference.len() > capacity {
                    reference.remove(0);
                }
                prop_assert_eq!(cache.look_up(MapPage(page)), expected);
            }
        }
    }
}
