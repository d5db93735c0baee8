//! Loaders, which load map pages from flash. A number of loaders work in parallel, each on one page at a time, and
//! serve pages in request order. A second request for the same page waits for the load in flight, which
//! [`Loaders::under_way`] finds.
//!
//! A load takes a fixed time. If the time is from a published curve, it includes both the array's time and the
//! firmware's overhead. Not modelled: competition between loads and data reads for the dies.

use crate::ftl::MapPage;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Loaders and their loads in flight.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Loaders {
    t_load: Duration,
    /// Instant at which each loader becomes free.
    free: Vec<Instant>,
    /// Loads that may still be in flight, with the instants at which they end.
    under_way: Vec<(MapPage, Instant)>,
}

impl Loaders {
    /// Returns `count` idle loaders, at least one.
    pub fn new(count: u32, t_load: Duration) -> Self {
        Loaders { t_load, free: vec![Instant::ZERO; count.max(1) as usize], under_way: Vec::new() }
    }

    /// Starts the load of `page` for a request made at `now`, as soon as a loader is free. Returns the end of the load.
    pub fn load(&mut self, now: Instant, page: MapPage) -> Instant {
        self.under_way.retain(|(_, end)| *end > now);
        let loader = self.free.iter_mut().min().expect("there is at least one");
        *loader = now.max(*loader) + self.t_load;
        self.under_way.push((page, *loader));
        *loader
    }

    /// Returns the end of the load of `page` that is in flight at `now`, if there is one.
    pub fn under_way(&self, now: Instant, page: MapPage) -> Option<Instant> {
        let found = self.under_way.iter().find(|(loading, end)| *loading == page && *end > now);
        found.map(|(_, end)| *end)
    }

    /// Makes all loaders idle.
    pub fn reset(&mut self) {
        self.free.fill(Instant::ZERO);
        self.under_way.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pages_load_in_parallel_as_there_are_loaders() {
        let at = |us| Instant::ZERO + Duration::from_us(us);
        let mut loaders = Loaders::new(2, Duration::from_us(90));
        let ends = [0, 1, 2, 3].map(|page| loaders.load(at(10), MapPage(page)));
        assert_eq!(ends, [at(100), at(100), at(190), at(190)]);
        assert_eq!(loaders.under_way(at(100), MapPage(2)), Some(at(190)));
        assert_eq!(loaders.under_way(at(100), MapPage(0)), None, "it has ended");
        assert_eq!(loaders.load(at(500), MapPage(9)), at(590));
    }
}
