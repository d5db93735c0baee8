//! What a power cut leaves behind.

use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// What a range of a device holds after the power was cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Fate {
    /// What it held before: the content that had become durable last.
    Old,
    /// What was written to it last, although nothing had promised that.
    New,
    /// Neither: reads of it end in an error until it is written again.
    Unreadable,
}

/// What a power cut did to writes and trims that were not durable. What a completed flush covered is never in it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PowerCut {
    /// Ranges of bytes in ascending order that do not overlap, each with its fate; what is not named was durable.
    pub undecided: Vec<(Range<u64>, Fate)>,
}

impl PowerCut {
    /// Adds a range that lies behind all others; one that continues the last with the same fate extends it.
    ///
    /// # Panics
    /// If it overlaps or precedes the last one: a mistake in a model.
    pub fn push(&mut self, range: Range<u64>, fate: Fate) {
        match self.undecided.last_mut() {
            Some((last, same)) if last.end == range.start && *same == fate => last.end = range.end,
            last => {
                assert!(last.is_none_or(|(last, _)| last.end <= range.start), "{range:?} is out of order");
                self.undecided.push((range, fate));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_continue_one_another_with_one_fate_are_one() {
        let mut cut = PowerCut::default();
        cut.push(0..4, Fate::Old);
        cut.push(4..8, Fate::Old);
        cut.push(8..12, Fate::New);
        cut.push(16..20, Fate::New);
        assert_eq!(cut.undecided, [(0..8, Fate::Old), (8..12, Fate::New), (16..20, Fate::New)]);
    }
}
