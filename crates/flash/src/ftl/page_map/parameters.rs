//! Parameters of a page-mapped translation layer, and their limits.

use super::place::PLACES_MAX;
use super::slc::Slc;
use crate::Impossible;
use crate::ftl::gc::VictimPolicy;
use crate::ftl::wear_leveling::LevelingPolicy;
use crate::nand::{Cell, Endurance, Geometry};
use alloc::format;
use serde::{Deserialize, Serialize};

/// Separation of data into streams: each stream fills erase blocks of its own, one open block on each die.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Streams {
    /// Host data and data moved by garbage collection go to the same blocks.
    One,
    /// Data that survived a garbage collection is separated from host data.
    #[default]
    Two,
    /// Data that survived one garbage collection is separated from data that survived several.
    HotCold,
}

/// Parameters of a page-mapped translation layer.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct PageMapParameters {
    /// Geometry of the array.
    pub geometry: Geometry,
    /// Cell type. A block used with one bit per cell has 1/n of the pages, where n is the number of bits per cell.
    pub cell: Cell,
    /// Bytes of a unit, which one map entry covers.
    pub unit: u64,
    /// Bytes that the host can address. The remaining bytes of the array are over-provisioning.
    pub capacity: u64,
    /// Number of map pages, of one unit each, that the controller also stores in the array; 0: the map needs none.
    pub map_pages: u32,
    /// Victim selection policy.
    pub victim: VictimPolicy,
    /// Separation of data into streams.
    pub streams: Streams,
    /// Number of free blocks of a die at which garbage collection starts while the host writes.
    pub reserve: u32,
    /// Number of free blocks of a die up to which garbage collection runs while the host is idle; 0: no idle garbage
    /// collection.
    pub idle_free: u32,
    /// Bytes of the write buffer.
    pub write_buffer: u64,
    /// SLC buffer: blocks used with one bit per cell, which host data goes to first.
    pub slc: Option<Slc>,
    /// Wear leveling policy.
    pub leveling: LevelingPolicy,
    /// Endurance of the blocks; `None`: blocks last for ever.
    pub endurance: Option<Endurance>,
}

/// Maximum number of units of a page, so that the valid bits of a page fit in a machine word.
const UNITS_PER_PAGE_MAX: u64 = 64;

impl PageMapParameters {
    /// Returns the number of free blocks of a die that are reserved for moved data, however much the host
    /// writes. One block is for each stream that may need a block in the middle of a garbage collection, and
    /// one is for map pages and trim records.
    pub(super) fn floor(&self) -> u32 {
        2 + u32::from(self.streams == Streams::HotCold)
    }

    /// Returns the number of blocks of a die that data can never fill: the reserve, the open blocks, and the blocks
    /// used with one bit per cell.
    fn overhead(&self) -> u32 {
        let streams = match self.streams {
            Streams::One => 1,
            Streams::Two => 2,
            Streams::HotCold => 3,
        };
        let leveling = u32::from(self.leveling.moves_data());
        self.reserve + streams + leveling + 1 + self.slc.map_or(0, |slc| slc.blocks)
    }

    /// Returns the number of slots of the write buffer.
    pub(super) fn data_slots(&self) -> u32 {
        (self.write_buffer / self.unit) as u32
    }

    /// Returns the number of units of the host and of the map.
    pub fn units(&self) -> u64 {
        self.capacity / self.unit + u64::from(self.map_pages)
    }

    /// Returns the number of units that `blocks` blocks can hold, without the reserve, the open blocks and the blocks
    /// used with one bit per cell.
    pub fn room(&self, blocks: u32) -> u64 {
        let overhead = u64::from(self.overhead()) * u64::from(self.geometry.die_count());
        u64::from(blocks).saturating_sub(overhead) * (self.geometry.block_bytes() / self.unit)
    }

    /// Checks that the parameters are possible.
    pub fn check(&self) -> Result<(), Impossible> {
        self.geometry.check()?;
        self.victim.check()?;
        self.leveling.check()?;
        if let Some(endurance) = &self.endurance {
            endurance.check()?;
        }
        self.check_unit()?;
        if self.capacity == 0 || !self.capacity.is_multiple_of(self.unit) {
            let why = format!("is {} B; expected a whole number of units of {} B", self.capacity, self.unit);
            return Err(Impossible::new("ftl.capacity", why));
        }
        if self.reserve <= self.floor() {
            let why = format!(
                "is {} blocks of a die; expected at least {}, since {} are kept for data that garbage collection moves",
                self.reserve,
                self.floor() + 1,
                self.floor()
            );
            return Err(Impossible::new("ftl.reserve", why));
        }
        let block = self.geometry.block_bytes();
        if block / self.unit >= 1 << 24 {
            let why = format!("is {} B; expected fewer than 2^24 units in a block of {block} B", self.unit);
            return Err(Impossible::new("ftl.unit", why));
        }
        if let Some(slc) = &self.slc {
            slc.check(&self.geometry, self.cell)?;
        }
        self.check_write_buffer()?;
        self.check_room()
    }

    /// Checks that a program writes whole units, and that neither a program nor the array has too many of them.
    fn check_unit(&self) -> Result<(), Impossible> {
        let program = self.geometry.program_bytes();
        if self.unit < 512 || !program.is_multiple_of(self.unit) {
            let why =
                format!("is {} B; expected a divisor of the {program} B that one program writes", self.unit);
            return Err(Impossible::new("ftl.unit", why));
        }
        if program / self.unit > UNITS_PER_PAGE_MAX {
            let why = format!(
                "is {} B, with {} units in a program of {program} B; expected at most {UNITS_PER_PAGE_MAX}",
                self.unit,
                program / self.unit
            );
            return Err(Impossible::new("ftl.unit", why));
        }
        if self.geometry.raw_bytes() / self.unit > PLACES_MAX {
            let why = format!(
                "is {} B, with more than {PLACES_MAX} units in the array; expected larger units",
                self.unit
            );
            return Err(Impossible::new("ftl.unit", why));
        }
        Ok(())
    }

    /// Checks that the write buffer holds enough data for programs, in few enough units.
    fn check_write_buffer(&self) -> Result<(), Impossible> {
        let program = self.geometry.program_bytes();
        if self.write_buffer < 2 * program {
            let why = format!("is {} B; expected at least two programs of {program} B", self.write_buffer);
            return Err(Impossible::new("ftl.write_buffer", why));
        }
        if self.write_buffer / self.unit >= 1 << 24 {
            let why =
                format!("is {} B; expected fewer than 2^24 units of {} B", self.write_buffer, self.unit);
            return Err(Impossible::new("ftl.write_buffer", why));
        }
        Ok(())
    }

    /// Checks that the array has room for the data besides the overhead, on every device that may leave the factory.
    fn check_room(&self) -> Result<(), Impossible> {
        if self.overhead() >= self.geometry.blocks {
            let why = format!(
                "is {}: {} blocks of a die are reserve, open or used with one bit a cell, but a die has {}",
                self.reserve,
                self.overhead(),
                self.geometry.blocks
            );
            return Err(Impossible::new("ftl.reserve", why));
        }
        let room = self.room(self.geometry.block_count());
        let units = self.units();
        if units >= room {
            let why = format!(
                "is {} B with {} map pages: {units} units, but the array's {} blocks hold only {room} besides the {} \
                 of each die that are reserve, open or used with one bit a cell; expected a smaller capacity",
                self.capacity,
                self.map_pages,
                self.geometry.block_count(),
                self.overhead(),
            );
            return Err(Impossible::new("ftl.capacity", why));
        }
        self.check_factory_bad(units)
    }

    /// Rejects a device that might be read-only when new. The device must have room for its data even if the
    /// number of factory-bad blocks is four standard deviations above the mean.
    fn check_factory_bad(&self, units: u64) -> Result<(), Impossible> {
        let Some(Endurance { factory_bad_ppm: ppm @ 1.., .. }) = self.endurance else { return Ok(()) };
        let blocks = self.geometry.block_count();
        let mean = u64::from(blocks) * u64::from(ppm) / 1_000_000;
        let bad = u32::try_from(mean + 4 * mean.isqrt()).unwrap_or(u32::MAX).min(blocks);
        let room = self.room(blocks - bad);
        if units > room {
            let why = format!(
                "is {ppm} millionths: {bad} of {blocks} blocks may be bad, and the others hold only {room} \
                 of the {units} units"
            );
            return Err(Impossible::new("endurance.factory_bad", why));
        }
        Ok(())
    }
}

#[cfg(test)]
impl PageMapParameters {
    /// Returns the parameters of a layer of two dies, each with 16 blocks of 6 pages of 4 units, for tests of its
    /// parts.
    pub(super) fn tiny() -> Self {
        PageMapParameters {
            geometry: Geometry { channels: 2, dies: 1, planes: 1, blocks: 16, pages: 6, page: 16_384 },
            cell: Cell::Tlc,
            unit: 4_096,
            capacity: 2 * 8 * 6 * 16_384,
            map_pages: 0,
            victim: VictimPolicy::Greedy,
            streams: Streams::Two,
            reserve: 3,
            idle_free: 0,
            write_buffer: 64 << 10,
            slc: None,
            leveling: LevelingPolicy::Dynamic,
            endurance: None,
        }
    }
}
