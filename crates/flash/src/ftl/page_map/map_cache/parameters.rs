//! Parameters of a demand-loaded map.

use crate::Impossible;
use alloc::format;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Use of host memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum HostMemoryPolicy {
    /// Host memory holds clean map pages only: a write invalidates the page's copy there. While host memory
    /// holds all map pages that exist and no page is changed, reads index host memory directly, without a
    /// look-up. After a write, host memory is a cache until the changed pages have been written back and
    /// loaded again.
    CleanMap,
    /// If the whole map fits, host memory is a table that writes update in place, so host memory can also
    /// hold changed pages. If the map does not fit, this policy is the same as
    /// [`HostMemoryPolicy::CleanMap`].
    DirectTable,
    /// Host memory buffers written data and holds no map pages.
    WriteBuffer,
}

impl HostMemoryPolicy {
    /// All policies.
    pub const ALL: [HostMemoryPolicy; 3] =
        [HostMemoryPolicy::CleanMap, HostMemoryPolicy::DirectTable, HostMemoryPolicy::WriteBuffer];

    /// Returns the name of the policy in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            HostMemoryPolicy::CleanMap => "clean-map",
            HostMemoryPolicy::DirectTable => "direct-table",
            HostMemoryPolicy::WriteBuffer => "write-buffer",
        }
    }
}

/// Parameters of the map: the memory that holds it, and the cost of access.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MapCacheParameters {
    /// Bytes of the controller's memory for clean map pages. `None`: the drive has memory for the whole map, and none
    /// of the fields below applies.
    pub sram: Option<u64>,
    /// Bytes of a map page, the unit in which the map is loaded, cached and written.
    pub page: u64,
    /// Bytes of one map entry.
    pub entry: u64,
    /// Bytes of the controller's memory for changed map pages.
    pub dirty: u64,
    /// Firmware time for a look-up in the cache in host memory: finding the slot and choosing the page to evict.
    pub t_look: Duration,
    /// Time to transfer a map page between host memory and the controller's memory.
    pub t_hmb: Duration,
    /// Total time to load a map page from flash.
    pub t_load: Duration,
    /// Firmware time to pass a changed map page on for programming when another page needs its slot.
    pub t_write_back: Duration,
    /// Number of map pages that load in parallel.
    pub loaders: u32,
    /// True if the firmware waits for a load; false if it continues with the next command.
    pub blocking: bool,
    /// Use of host memory.
    pub policy: HostMemoryPolicy,
}

impl MapCacheParameters {
    /// Returns the number of map pages for `units` mapping units.
    pub fn pages(&self, units: u64) -> u64 {
        units.div_ceil(self.entries())
    }
    /// Returns the number of entries of a map page.
    pub fn entries(&self) -> u64 {
        self.page / self.entry
    }

    /// Checks that the parameters are possible.
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
                "is {}, but the firmware waits for each load (map.blocking), so only one loader is ever busy",
                self.loaders
            );
            return Err(Impossible::new("map.loaders", why));
        }
        Ok(())
    }
}
