//! Which writes continue one another.
//!
//! A card keeps a record of as many runs of writes as it has open units. A write that begins where one of them ended adds
//! to its run, and the map need not be told; any other write begins a run, and the least recently used one is forgotten.

use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// The ends of the latest runs of writes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SequentialStreams {
    /// Least recently used first.
    ends: Vec<u64>,
    most: usize,
}

impl SequentialStreams {
    /// Follows at most `most` runs.
    pub(super) fn new(most: usize) -> Self {
        SequentialStreams { ends: Vec::with_capacity(most), most }
    }

    /// Forgets all runs: the power was off.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    /// Whether it follows as many runs as it may, and not more.
    pub(super) fn is_like(&self, like: &SequentialStreams) -> bool {
        self.most == like.most && self.ends.len() <= self.most
    }

    /// Takes note of a write; returns whether it continues a run.
    pub(super) fn write(&mut self, range: &Range<u64>) -> bool {
        let known = self.ends.iter().position(|end| *end == range.start);
        match known {
            Some(place) => {
                self.ends.remove(place);
            }
            None if self.ends.len() == self.most => {
                self.ends.remove(0);
            }
            None => {}
        }
        self.ends.push(range.end);
        known.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_runs_are_followed_as_were_asked_for() {
        let continued = |runs: u64, most: usize| {
            let mut streams = SequentialStreams::new(most);
            let write = |n: u64| (n % runs) * 1_000 + n / runs..(n % runs) * 1_000 + n / runs + 1;
            (0..100 * runs).filter(|n| streams.write(&write(*n))).count() as u64
        };
        assert_eq!(continued(4, 4), 4 * 99, "all but the first of each run");
        assert_eq!(continued(5, 4), 0, "one run too many, and each is forgotten before it goes on");
    }
}
