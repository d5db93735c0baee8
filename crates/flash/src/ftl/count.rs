//! Translation layers at count level: requests finish at once, and what they wrote, moved and erased is counted.
//!
//! This is what the two families share, page-mapped ([`PageMap`]) and in allocation units, so that closed forms and
//! reports of wear can ask either.

use super::Blocks;
use super::page_map::{Accepted, PageMap};
use core::fmt;
use flashlab_sim::Observer;

/// A translation layer without time.
pub trait Ftl {
    /// Bytes of what it maps.
    fn unit_bytes(&self) -> u64;
    /// Units that the host can address.
    fn unit_count(&self) -> u64;
    /// Writes `count` units from `first`.
    fn write(&mut self, first: u64, count: u64) -> Result<(), ReadOnly>;
    /// Unmaps `count` units from `first`.
    fn trim(&mut self, first: u64, count: u64);
    /// Programs what is buffered.
    fn flush(&mut self);
    /// The erase blocks and their wear.
    fn blocks(&self) -> &Blocks;
    /// Walks the whole structure.
    ///
    /// # Panics
    /// With what is wrong.
    fn check(&self);
    /// Reports counters and wear.
    fn observe(&self, to: &mut dyn Observer);
}

/// The device takes no writes: it has too few good blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOnly;

impl fmt::Display for ReadOnly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the device is read-only: it has too few good erase blocks for its capacity")
    }
}

impl core::error::Error for ReadOnly {}

impl Ftl for PageMap {
    fn unit_bytes(&self) -> u64 {
        self.parameters().unit
    }
    fn unit_count(&self) -> u64 {
        u64::from(self.units())
    }
    fn write(&mut self, first: u64, count: u64) -> Result<(), ReadOnly> {
        for unit in first..first + count {
            loop {
                match PageMap::write(self, unit as u32) {
                    Accepted::Buffered(_) => break,
                    Accepted::ReadOnly => return Err(ReadOnly),
                    Accepted::Full => self.settle(),
                }
            }
            self.settle();
        }
        Ok(())
    }
    fn trim(&mut self, first: u64, count: u64) {
        PageMap::trim(self, first as u32, count as u32);
        self.settle();
    }
    fn flush(&mut self) {
        PageMap::flush(self);
        self.settle();
    }
    fn blocks(&self) -> &Blocks {
        PageMap::blocks(self)
    }
    fn check(&self) {
        PageMap::check(self);
    }
    fn observe(&self, to: &mut dyn Observer) {
        PageMap::observe(self, to);
    }
}
