//! Detection of sequential streams in the sequence of writes.
//!
//! A card tracks as many sequential streams as it has open units. A write that begins at the end of a stream continues
//! that stream and needs no map update. Any other write begins a new stream, which replaces the least recently used
//! one.

use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// The end offsets of the most recent streams.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct SequentialStreams {
    /// End offsets, least recently used first.
    ends: Vec<u64>,
    most: usize,
}

impl SequentialStreams {
    /// Creates an empty set of at most `most` streams.
    pub(super) fn new(most: usize) -> Self {
        SequentialStreams { ends: Vec::with_capacity(most), most }
    }

    /// Removes all streams after a loss of power.
    pub(super) fn clear(&mut self) {
        self.ends.clear();
    }

    /// Returns true if the limit equals that of `like` and is not exceeded.
    pub(super) fn is_like(&self, like: &SequentialStreams) -> bool {
        self.most == like.most && self.ends.len() <= self.most
    }

    /// Returns true if a write of `range` would continue a stream.
    pub(super) fn continues(&self, range: &Range<u64>) -> bool {
        self.ends.contains(&range.start)
    }

    /// Records a write; returns true if it continues a stream.
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
    fn the_given_number_of_streams_is_tracked() {
        let continued = |runs: u64, most: usize| {
            let mut streams = SequentialStreams::new(most);
            let write = |n: u64| (n % runs) * 1_000 + n / runs..(n % runs) * 1_000 + n / runs + 1;
            (0..100 * runs).filter(|n| streams.write(&write(*n))).count() as u64
        };
        assert_eq!(continued(4, 4), 4 * 99, "all but the first of each run");
        assert_eq!(continued(5, 4), 0, "with one run too many, each is forgotten before it continues");
    }
}
