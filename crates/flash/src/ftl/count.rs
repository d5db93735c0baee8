//! Translation layers without timing: requests finish at once, and the layer counts the bytes it writes, moves and
//! erases.
//!
//! The page-mapped layer ([`PageMap`]) and the layer of a card share this interface, so that closed forms and wear
//! reports work with either.

use super::Blocks;
use super::page_map::PageMap;
use core::fmt;
use flashlab_sim::Observer;

/// A translation layer without time.
pub trait Ftl {
    /// Returns the bytes of a mapped unit.
    fn unit_bytes(&self) -> u64;
    /// Returns the number of units that the host can address.
    fn unit_count(&self) -> u64;
    /// Writes `count` units from `first`.
    fn write(&mut self, first: u64, count: u64) -> Result<(), ReadOnly>;
    /// Unmaps `count` units from `first`.
    fn trim(&mut self, first: u64, count: u64);
    /// Programs the buffered data.
    fn flush(&mut self);
    /// Returns the erase blocks and their wear.
    fn blocks(&self) -> &Blocks;
    /// Validates the complete state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    fn check(&self);
    /// Reports counters and wear.
    fn observe(&self, to: &mut dyn Observer);
}

/// The device accepts no writes, because it has too few good blocks.
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
            self.write_and_settle(unit as u32)?;
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
