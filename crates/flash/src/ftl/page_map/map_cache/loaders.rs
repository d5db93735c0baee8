//! Who loads map pages from flash: a number of loaders that work side by side, each on one page at a time, in the order
//! in which pages are asked for. Two that ask for the same page wait for one load.
//!
//! A load takes a fixed time: what a published curve gives is the whole of it, the array's time with the firmware's
//! around it. That it competes for dies with reads of data is left out.

use crate::ftl::MapPage;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// The loaders at work.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loaders {
    t_load: Duration,
    /// When each is free.
    free: Vec<Instant>,
    /// Loads that may not have ended, with their ends.
    under_way: Vec<(MapPage, Instant)>,
}

impl Loaders {
    /// `count` idle loaders, at least one.
    pub fn new(count: u32, t_load: Duration) -> Self {
        Loaders { t_load, free: vec![Instant::ZERO; count.max(1) as usize], under_way: Vec::new() }
    }

    /// Begins to load `page` for a request of `now`, when a loader is free; returns the end.
    pub fn load(&mut self, now: Instant, page: MapPage) -> Instant {
        self.under_way.retain(|(_, end)| *end > now);
        let loader = self.free.iter_mut().min().expect("there is at least one");
        *loader = now.max(*loader) + self.t_load;
        self.under_way.push((page, *loader));
        *loader
    }

    /// When the load of `page` that is under way at `now` ends, if there is one.
    pub fn under_way(&self, now: Instant, page: MapPage) -> Option<Instant> {
        let found = self.under_way.iter().find(|(loading, end)| *loading == page && *end > now);
        found.map(|(_, end)| *end)
    }

    /// All idle.
    pub fn reset(&mut self) {
        self.free.fill(Instant::ZERO);
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pages_load_side_by_side_as_there_are_loaders() {
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let mut loaders = Loaders::new(2, Duration::from_us(90));
        let ends = [0, 1, 2, 3].map(|page| loaders.load(at(10), MapPage(page)));
        assert_eq!(ends, [at(100), at(100), at(190), at(190)]);
        assert_eq!(loaders.under_way(at(100), MapPage(2)), Some(at(190)));
        assert_eq!(loaders.under_way(at(100), MapPage(0)), None, "it has ended");
        assert_eq!(loaders.load(at(500), MapPage(9)), at(590));
    }
}
