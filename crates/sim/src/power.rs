//! The result of a power cut.

use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Content of a byte range after a power cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Fate {
    /// The last durable content.
    Old,
    /// The last written content, although no flush had made it durable.
    New,
    /// Neither the old nor the new content. Reads fail until the range is written again.
    Unreadable,
}

/// Effect of a power cut on writes and trims that were not durable. Data covered by a completed flush is never listed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PowerCut {
    /// Byte ranges with their fates, in ascending order and without overlap. All other bytes were durable.
    pub undecided: Vec<(Range<u64>, Fate)>,
}

impl PowerCut {
    /// Appends a range, or extends the last range if the new one continues it with the same fate.
    ///
    /// # Panics
    /// Panics if the range overlaps or precedes the last one, which is a bug in the model.
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
    fn adjacent_ranges_with_one_fate_are_merged() {
        let mut cut = PowerCut::default();
        cut.push(0..4, Fate::Old);
        cut.push(4..8, Fate::Old);
        cut.push(8..12, Fate::New);
        cut.push(16..20, Fate::New);
        assert_eq!(cut.undecided, [(0..8, Fate::Old), (8..12, Fate::New), (16..20, Fate::New)]);
    }
}
