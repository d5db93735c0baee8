//! Parameters of an SSD and their limits.

use crate::LinkParameters;
use crate::hmb::{Buffer, HostDriver, Limits, PAGE};
use crate::identify::{Identify, ONCS_DATASET_MANAGEMENT, VWC_PRESENT};
use alloc::format;
use flashlab_flash::Impossible;
use flashlab_flash::ftl::page_map::PageMapParameters;
use flashlab_flash::ftl::page_map::map_cache::{HostMemoryPolicy, MapCacheParameters};
use flashlab_flash::nand::{Reliability, Scheduling, Timing};
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Parameters of the controller's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Controller {
    /// Maximum number of commands in the drive; others wait on the host's side.
    pub depth: u32,
    /// Processing time of a command that is neither a write nor a read of unmapped data: decoding it,
    /// locating the data, setting up the array.
    pub t_command: Duration,
    /// Processing time of a write.
    pub t_command_write: Duration,
    /// Processing time of a read of unmapped data.
    pub t_command_unmapped: Duration,
    /// Time without commands after which background work starts.
    pub t_idle: Duration,
}

/// Parameters of an SSD.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SsdParameters {
    /// Logical block size of the namespace in bytes.
    pub block: u64,
    /// Size of the largest request in bytes.
    pub request_max: u64,
    /// The controller's processor.
    pub controller: Controller,
    /// Link to the host.
    pub link: LinkParameters,
    /// Translation layer, with the geometry of the array. Its number of map pages follows from `map`.
    pub page_map: PageMapParameters,
    /// Operation times of the array.
    pub timing: Timing,
    /// Scheduling of operations on a die.
    pub scheduling: Scheduling,
    /// Read errors of pages; `None` if every read succeeds at once.
    pub reliability: Option<Reliability>,
    /// Location and caching of the map.
    pub map: MapCacheParameters,
    /// Host memory that the drive requests.
    pub hmb: Limits,
    /// Maximum host memory that the driver grants, in bytes.
    pub lend_max: u64,
}

impl SsdParameters {
    /// Returns the translation layer's parameters with the number of map pages that `map` needs.
    pub fn layer(&self) -> PageMapParameters {
        let units = self.page_map.capacity / self.page_map.unit.max(1);
        let pages = match self.map.sram {
            Some(_) => u32::try_from(self.map.pages(units)).unwrap_or(u32::MAX),
            None => 0,
        };
        PageMapParameters { map_pages: pages, ..self.page_map }
    }

    /// Returns the translation layer's parameters. With [`HostMemoryPolicy::WriteBuffer`], their write buffer
    /// includes `host_memory`.
    pub(super) fn layer_with(&self, host_memory: &Buffer) -> PageMapParameters {
        let layer = self.layer();
        let borrowed =
            if self.map.policy == HostMemoryPolicy::WriteBuffer { host_memory.usable() } else { 0 };
        PageMapParameters { write_buffer: layer.write_buffer + borrowed, ..layer }
    }

    /// Returns the number of blocks whose data ages: all of them if reads can fail, otherwise none.
    pub(super) fn blocks_that_age(&self) -> u32 {
        if self.reliability.is_some() { self.page_map.geometry.block_count() } else { 0 }
    }

    /// Returns the host memory that `driver` grants when the drive starts.
    pub(super) fn lend(&self, driver: HostDriver) -> Buffer {
        let mut host_memory = Buffer::new(self.hmb);
        if let Some((command, descriptors)) = driver(&self.identify(), self.lend_max) {
            let lent = host_memory.set(&command, &descriptors);
            lent.expect("the driver respects the limits that the controller publishes");
        }
        host_memory
    }

    /// Checks the parameters of a drive whose host has this `driver`.
    ///
    /// # Errors
    /// Returns the name of the impossible parameter and the reason.
    pub fn check(&self, driver: HostDriver) -> Result<(), Impossible> {
        self.map.check()?;
        let layer = self.layer();
        layer.check()?;
        self.timing.check()?;
        self.scheduling.check()?;
        self.link.check()?;
        if let Some(reliability) = &self.reliability {
            reliability.check()?;
        }
        let (units, room) = (layer.units(), layer.room(layer.geometry.block_count()));
        if room - units > units {
            let why = format!(
                "is {} B ({units} units with the map), but the array holds {room} units besides its reserve and open \
                 blocks: the spare area would exceed the capacity; expected at least half of the array",
                layer.capacity
            );
            return Err(Impossible::new("ftl.capacity", why));
        }
        let unit = self.page_map.unit;
        if !unit.is_power_of_two() || unit > 1 << 20 {
            let why = format!("is {unit} B; expected a power of two up to 1 MiB, for example \"4KiB\"");
            return Err(Impossible::new("ftl.unit", why));
        }
        if self.page_map.cell != self.timing.cell {
            return Err(Impossible::new("nand.cell", "differs between the array and the translation layer"));
        }
        if self.block < 512 || !self.block.is_power_of_two() || self.block > unit {
            let why =
                format!("is {} B; expected a power of two from 512 B to a unit of {unit} B", self.block);
            return Err(Impossible::new("nvme.block", why));
        }
        if self.request_max < unit || !self.request_max.is_multiple_of(self.block) {
            let why =
                format!("is {} B; expected whole blocks, at least a unit of {unit} B", self.request_max);
            return Err(Impossible::new("nvme.request_max", why));
        }
        if self.map.sram.is_some() && self.map.page != unit {
            let why =
                format!("is {} B; map pages lie in the array as units of {unit} B (ftl.unit)", self.map.page);
            return Err(Impossible::new("map.page", why));
        }
        if self.controller.depth == 0 || self.controller.depth > 65_536 {
            let why = format!("is {}; expected 1 to 65536 commands", self.controller.depth);
            return Err(Impossible::new("nvme.depth", why));
        }
        self.check_host_memory(driver)
    }

    fn check_host_memory(&self, driver: HostDriver) -> Result<(), Impossible> {
        let Limits { preferred, minimum, .. } = self.hmb;
        let bytes = |pages: u32| u64::from(pages) * PAGE;
        if minimum > preferred {
            let why = format!(
                "is {} B, above hmb.preferred, {} B: a controller cannot need more host memory than it would like",
                bytes(minimum),
                bytes(preferred)
            );
            return Err(Impossible::new("hmb.minimum", why));
        }
        if preferred == 0 && self.lend_max > 0 && self.map.sram.is_none() {
            return Ok(());
        }
        if self.lend_max > 0 && self.lend_max < bytes(minimum) {
            let why = format!(
                "is {} B, below hmb.minimum, {} B: the driver would lend nothing; expected 0, or at least the minimum",
                self.lend_max,
                bytes(minimum)
            );
            return Err(Impossible::new("nvme.hmb", why));
        }
        // Host memory that enlarges the write buffer must not make it too large.
        self.layer_with(&self.lend(driver))
            .check()
            .map_err(|with| Impossible::new("nvme.hmb", format!("is {} B; with it, {with}", self.lend_max)))
    }

    /// Returns the Identify Controller data.
    pub fn identify(&self) -> Identify {
        let pages = (self.request_max / PAGE).max(1);
        Identify {
            model: "flashlab".into(),
            serial: "0".into(),
            firmware: "1".into(),
            mdts: pages.ilog2() as u8,
            version: 0x0001_0300,
            hmpre: self.hmb.preferred,
            hmmin: self.hmb.minimum,
            hmminds: self.hmb.descriptor_minimum,
            hmmaxd: self.hmb.descriptors_max,
            namespaces: 1,
            oncs: ONCS_DATASET_MANAGEMENT,
            vwc: VWC_PRESENT,
            ..Identify::default()
        }
    }
}
