//! The controller's memory for map pages, with LRU replacement. A page is loaded as a whole.

use crate::ftl::inconsistent::{COUNT_MAX, ensure};
use crate::ftl::{Inconsistent, MapPage};
use flashlab_sim::Lru;
use serde::{Deserialize, Serialize};

/// A cache of map pages that counts hits and misses.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct MapCache {
    pages: Lru,
    hits: u64,
    misses: u64,
    /// Number of map pages of the device.
    count: u32,
}

impl MapCache {
    /// Creates an empty cache that holds up to `capacity` of the device's `count` map pages, and at least one.
    pub(super) fn new(capacity: u64, count: u32) -> Self {
        let capacity = capacity.clamp(1, u64::from(count.max(1))) as u32;
        MapCache { pages: Lru::new(capacity, count), hits: 0, misses: 0, count }
    }

    /// Looks up `page`, and loads it if it is missing. Returns true for a hit.
    #[inline]
    pub(super) fn look_up(&mut self, page: MapPage) -> bool {
        if self.pages.touch(page.0) {
            self.hits += 1;
            return true;
        }
        self.load(page);
        false
    }

    /// Loads `page`, which is missing.
    #[inline(never)]
    fn load(&mut self, page: MapPage) {
        self.misses += 1;
        self.pages.insert(page.0);
    }

    /// Removes all pages after a loss of power.
    pub(super) fn clear(&mut self) {
        self.pages.clear();
    }

    /// Returns the number of pages in memory, and the number that fits.
    pub(super) fn level(&self) -> (u32, u32) {
        (self.pages.len(), self.pages.capacity())
    }

    /// Returns the numbers of hits and misses.
    pub(super) fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }

    /// Checks the structure, and compares its size with that of `like`.
    pub(super) fn validate(&self, like: &MapCache) -> Result<(), Inconsistent> {
        ensure!(
            self.count == like.count && self.pages.capacity() == like.pages.capacity(),
            "the map cache has another size"
        );
        ensure!(self.pages.is_sound(self.count), "the LRU list of map pages is corrupt");
        ensure!(self.hits.max(self.misses) < COUNT_MAX, "a counter of look-ups exceeds its limit");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::Rng;

    #[test]
    fn uniform_look_ups_hit_in_proportion_to_the_capacity() {
        let (capacity, pages, n) = (250, 1_000, 400_000);
        let mut cache = MapCache::new(capacity, pages);
        let mut rng = Rng::new(3);
        for _ in 0..n {
            cache.look_up(MapPage(rng.below(pages.into()) as u32));
        }
        let hit = cache.hits_and_misses().0 as f64 / f64::from(n);
        assert!((hit - 0.25).abs() < 0.005, "hit ratio {hit}, expected C/N = 0.25 to half a percent");
    }
}
