//! The allocation bitmap of the clusters. As in Linux, the search for free clusters continues where the last one ended,
//! and wraps around.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// Consecutive clusters of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// Number of the first cluster, counted from the start of the heap.
    pub first: u64,
    /// Number of clusters.
    pub count: u64,
}

impl Extent {
    /// Returns the clusters as a range.
    pub fn range(&self) -> Range<u64> {
        self.first..self.first + self.count
    }
}

/// Allocation state of the clusters of a heap.
#[derive(Clone, Debug)]
pub(super) struct Clusters {
    taken: Vec<u64>,
    count: u64,
    free: u64,
    /// Cluster at which the next search starts.
    hint: u64,
}

impl Clusters {
    pub(super) fn new(count: u64) -> Self {
        Clusters { taken: vec![0; count.div_ceil(64) as usize], count, free: count, hint: 0 }
    }

    pub(super) fn free(&self) -> u64 {
        self.free
    }

    fn is_taken(&self, cluster: u64) -> bool {
        self.taken[(cluster / 64) as usize] >> (cluster % 64) & 1 == 1
    }

    fn set(&mut self, cluster: u64, taken: bool) {
        let bit = 1 << (cluster % 64);
        let word = &mut self.taken[(cluster / 64) as usize];
        if taken {
            *word |= bit;
        } else {
            *word &= !bit;
        }
    }

    /// Allocates the next `wanted` free clusters, and merges adjacent ones into extents. Returns `None` if fewer are
    /// free.
    pub(super) fn allocate(&mut self, wanted: u64) -> Option<Vec<Extent>> {
        if wanted > self.free {
            return None;
        }
        let mut extents: Vec<Extent> = Vec::new();
        let (mut left, mut at) = (wanted, self.hint);
        while left > 0 {
            if at == self.count {
                at = 0;
            }
            if !self.is_taken(at) {
                self.set(at, true);
                left -= 1;
                match extents.last_mut() {
                    Some(last) if last.first + last.count == at => last.count += 1,
                    _ => extents.push(Extent { first: at, count: 1 }),
                }
            }
            at += 1;
        }
        self.free -= wanted;
        self.hint = at;
        Some(extents)
    }

    pub(super) fn release(&mut self, extent: &Extent) {
        for cluster in extent.range() {
            self.set(cluster, false);
        }
        self.free += extent.count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn allocation_continues_after_the_previous_file_even_if_that_file_was_removed() {
        let mut clusters = Clusters::new(100);
        let first = clusters.allocate(40).expect("room")[0];
        clusters.release(&first);
        assert_eq!(clusters.allocate(40).expect("room"), [Extent { first: 40, count: 40 }]);
        assert_eq!(
            clusters.allocate(40).expect("room"),
            [Extent { first: 80, count: 20 }, Extent { first: 0, count: 20 }]
        );
        assert_eq!(clusters.allocate(21), None);
    }

    proptest! {
        #[test]
        fn no_cluster_is_allocated_twice(
            sizes in prop::collection::vec(1u64..50, 1..30), keep in prop::collection::vec(any::<bool>(), 30),
        ) {
            let mut clusters = Clusters::new(200);
            let mut files: Vec<Vec<Extent>> = Vec::new();
            for (size, keep) in sizes.into_iter().zip(keep) {
                let Some(extents) = clusters.allocate(size) else { continue };
                prop_assert_eq!(extents.iter().map(|e| e.count).sum::<u64>(), size);
                if keep {
                    files.push(extents);
                } else {
                    extents.iter().for_each(|e| clusters.release(e));
                }
            }
            let mut all: Vec<u64> = files.iter().flatten().flat_map(Extent::range).collect();
            prop_assert_eq!(clusters.free(), 200 - all.len() as u64);
            all.sort_unstable();
            let before = all.len();
            all.dedup();
            prop_assert_eq!(all.len(), before);
        }
    }
}
