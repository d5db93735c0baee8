//! The numbers and choices of a demand-loaded map.

use crate::Impossible;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// What host memory is used for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum HostMemoryPolicy {
    /// It holds clean map pages only: a write invalidates the page's copy there. While it holds the whole map, reads index
    /// it directly, without a look-up; from the first write on it is a cache again.
    CleanMap,
    /// Where the whole map fits, it is a table that writes update in place, so that changes leave the drive; where it does
    /// not fit, the same as [`HostMemoryPolicy::CleanMap`].
    DirectTable,
    /// It buffers what is written, and holds no map.
    WriteBuffer,
}

impl HostMemoryPolicy {
    /// All of them.
    pub const ALL: [HostMemoryPolicy; 3] =
        [HostMemoryPolicy::CleanMap, HostMemoryPolicy::DirectTable, HostMemoryPolicy::WriteBuffer];

    /// As profiles write it.
    pub const fn name(self) -> &'static str {
        match self {
            HostMemoryPolicy::CleanMap => "clean-map",
            HostMemoryPolicy::DirectTable => "direct-table",
            HostMemoryPolicy::WriteBuffer => "write-buffer",
        }
    }
}

/// Where the map is and what it costs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MapCacheParameters {
    /// Bytes of the controller's memory that hold clean map pages; `None`: the drive has memory for the whole map, and
    /// nothing below applies.
    pub sram: Option<u64>,
    /// Bytes of a map page: what is loaded, cached and written as one.
    pub page: u64,
    /// Bytes of one entry.
    pub entry: u64,
    /// Bytes of the controller's memory that hold changed map pages.
    pub dirty: u64,
    /// The firmware's time for a look-up in a cache in host memory: finding the place, choosing what gives way.
    pub t_look: Duration,
    /// Time to move a map page between host memory and the controller's.
    pub t_hmb: Duration,
    /// Time to load a map page from flash, all of it.
    pub t_load: Duration,
    /// The firmware's time to hand a changed map page over to be programmed when another one needs its place.
    pub t_write_back: Duration,
    /// Map pages that load side by side.
    pub loaders: u32,
    /// Whether the firmware waits for a load; else it turns to the next command.
    pub blocking: bool,
    /// What host memory is used for.
    pub policy: HostMemoryPolicy,
}

impl MapCacheParameters {
    /// Map pages for `units` mapping units.
    pub fn pages(&self, units: u64) -> u64 {
        units.div_ceil(self.entries())
    }
    /// Entries of a map page.
    pub fn entries(&self) -> u64 {
        self.page / self.entry
    }

    /// Refuses what no map is.
    pub fn check(&self) -> Result<(), Impossible> {
        if !(1..=64).contains(&self.entry) {
            let why = format!("is {} B; expected 1 B to 64 B, for example \"4B\"", self.entry);
            return Err(Impossible::new("map.entry", why));
        }
        if !self.page.is_power_of_two() || self.page < 512 || self.page > 1 << 20 {
            let why = format!("is {} B; expected a power of two from 512 B to 1 MiB", self.page);
            return Err(Impossible::new("map.page", why));
        }
        let Some(sram) = self.sram else { return Ok(()) };
        if sram < self.page {
            let why = format!("is {sram} B, which holds no map page of {} B", self.page);
            return Err(Impossible::new("map.sram", why));
        }
        if self.dirty < self.page {
            let why = format!(
                "is {} B, which holds no map page of {} B; a write changes one",
                self.dirty, self.page
            );
            return Err(Impossible::new("map.dirty", why));
        }
        if self.t_load == Duration::ZERO {
            let why = "is 0; loading a map page takes the array's time, for example \"90us\"";
            return Err(Impossible::new("map.t_load", why));
        }
        if self.loaders == 0 || self.loaders > 1_024 {
            let why = format!("is {}; expected 1 to 1024", self.loaders);
            return Err(Impossible::new("map.loaders", why));
        }
        if self.blocking && self.loaders > 1 {
            let why = format!(
                "is {}, but the firmware waits for each load (map.blocking), so that only one ever works",
                self.loaders
            );
            return Err(Impossible::new("map.loaders", why));
        }
        Ok(())
    }
}
