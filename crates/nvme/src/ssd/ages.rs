//! The ages of the drive and of the data in each block. The probability of read errors depends on these ages.
//!
//! # Invariant
//! No data is older than the drive. The drive never becomes younger, and a program resets the age of the data in its
//! block.

use alloc::vec;
use alloc::vec::Vec;
use flashlab_flash::nand::EraseBlock;
use flashlab_sim::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Upper bound for the age of a drive: 2^62 ns, which is 146 years.
const AGE_MAX: Duration = Duration::from_ns(1 << 62);

/// The ages of one drive. If data does not age, no block is recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ages {
    /// Age of the drive at the last program of each block.
    programmed: Vec<Duration>,
    /// Age of the drive at instant zero.
    drive: Duration,
}

impl Ages {
    /// Creates the ages of a new drive. `blocks` is the number of blocks whose data ages.
    pub(super) fn new(blocks: u32) -> Self {
        Ages { programmed: vec![Duration::ZERO; blocks as usize], drive: Duration::ZERO }
    }
    /// Returns the age of the drive at `now`.
    #[inline]
    fn at(&self, now: Instant) -> Duration {
        self.drive + now.since(Instant::ZERO)
    }
    /// Records a program of `block` at `now`.
    #[inline]
    pub(super) fn program(&mut self, block: EraseBlock, now: Instant) {
        if !self.programmed.is_empty() {
            self.programmed[block.index() as usize] = self.at(now);
        }
    }
    /// Returns the time from the last program of `block` to `now`.
    #[inline]
    pub(super) fn since_program(&self, block: EraseBlock, now: Instant) -> Duration {
        self.at(now).saturating_sub(self.programmed[block.index() as usize])
    }
    /// Ages the drive by `time` without power.
    pub(super) fn rest(&mut self, time: Duration) {
        self.drive += time;
    }
    /// Moves the zero of the clock to `now`.
    pub(super) fn reset_clock(&mut self, now: Instant) {
        self.drive = self.at(now);
    }
    /// Returns true if the ages are possible for a drive with `blocks` blocks whose data ages.
    pub(super) fn is_sound(&self, blocks: u32) -> bool {
        self.programmed.len() == blocks as usize
            && self.drive < AGE_MAX
            && self.programmed.iter().all(|programmed| *programmed <= self.drive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_ages_from_its_program_on_with_and_without_power() {
        let (first, second) = (EraseBlock::new(0), EraseBlock::new(1));
        let at = |ns| Instant::ZERO + Duration::from_ns(ns);
        let mut ages = Ages::new(2);
        ages.program(first, at(10));
        assert_eq!(ages.since_program(first, at(15)), Duration::from_ns(5));
        ages.reset_clock(at(20));
        ages.rest(Duration::from_ns(100));
        assert_eq!(ages.since_program(first, at(1)), Duration::from_ns(111));
        assert_eq!(ages.since_program(second, at(1)), Duration::from_ns(121));
        assert!(ages.is_sound(2) && !ages.is_sound(3));
        ages.rest(AGE_MAX);
        assert!(!ages.is_sound(2), "it is too old");
        let older = Ages { programmed: vec![Duration::from_ns(1)], drive: Duration::ZERO };
        assert!(!older.is_sound(1), "data is older than the drive");
    }

    #[test]
    fn data_that_does_not_age_has_no_blocks() {
        let mut ages = Ages::new(0);
        ages.program(EraseBlock::new(7), Instant::ZERO);
        assert!(ages.is_sound(0));
    }
}
