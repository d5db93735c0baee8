//! Serialised snapshots of a drive at rest.
//!
//! The whole snapshot is validated before the drive changes, so inconsistent bytes cause an error and never a
//! later panic. A snapshot omits everything that is empty at rest: queues, events, array operations and
//! clocks.

use super::ages::Ages;
use super::{Counts, Ssd, SsdParameters};
use crate::hmb::{Buffer, HostDriver};
use alloc::format;
use alloc::vec::Vec;
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::map_cache::MapCache;
use flashlab_flash::ftl::page_map::{Found, PageMap};
use flashlab_sim::{RestoreError, Rng};
use serde::{Deserialize, Serialize};

/// Upper bound for every counter.
const COUNT_MAX: u64 = 1 << 60;

#[derive(Serialize)]
struct SnapshotRef<'a> {
    parameters: &'a SsdParameters,
    seed: u64,
    layer: &'a PageMap,
    map: &'a MapCache,
    host_memory: &'a Buffer,
    rng: &'a Rng,
    ages: &'a Ages,
    counts: Counts,
}

/// Deserialised form of [`SnapshotRef`].
#[derive(Deserialize)]
struct Snapshot {
    parameters: SsdParameters,
    seed: u64,
    layer: PageMap,
    map: MapCache,
    host_memory: Buffer,
    rng: Rng,
    ages: Ages,
    counts: Counts,
}

impl Ssd {
    /// Serialises a drive at rest.
    pub(super) fn to_snapshot(&self) -> Option<Vec<u8>> {
        let Ssd { parameters, seed, layer, map, host_memory, rng, ages, counts, .. } = self;
        let (seed, counts) = (*seed, *counts);
        let snapshot = SnapshotRef { parameters, seed, layer, map, host_memory, rng, ages, counts };
        postcard::to_allocvec(&snapshot).ok()
    }

    /// Replaces the state with a snapshot of a drive with the same parameters.
    pub(super) fn restore_snapshot(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        let snapshot: Snapshot = postcard::from_bytes(state)
            .map_err(|error| RestoreError::new(format!("it is not the state of an SSD: {error}")))?;
        if snapshot.parameters != self.parameters {
            return Err(RestoreError::new("it is the state of an SSD with other parameters"));
        }
        snapshot.check(&self.parameters, self.driver)?;
        let Snapshot { seed, layer, map, host_memory, rng, ages, counts, .. } = snapshot;
        self.drop_in_flight();
        (self.seed, self.ages, self.counts) = (seed, ages, counts);
        (self.layer, self.map, self.host_memory, self.rng) = (layer, map, host_memory, rng);
        self.reset_clocks();
        Ok(())
    }
}

impl Snapshot {
    /// Checks the snapshot for consistency with itself and with `parameters`.
    fn check(&self, parameters: &SsdParameters, driver: HostDriver) -> Result<(), RestoreError> {
        if !self.host_memory.is_valid(&parameters.hmb) {
            return Err(RestoreError::new("its host memory is not a grant that the controller would accept"));
        }
        let layer = parameters.layer_with(&parameters.lend(driver));
        let contradiction =
            |inconsistent| RestoreError::new(format!("its state contradicts itself: {inconsistent}"));
        self.layer.validate_restored(&layer, self.seed).map_err(contradiction)?;
        let units = u64::from(self.layer.units());
        self.map.validate(&parameters.map, units, self.host_memory.usable()).map_err(contradiction)?;
        let entries = self.map.entries();
        let lost = (0..self.layer.units()).find(|unit| {
            let page = MapPage((u64::from(*unit) / entries) as u32);
            self.layer.read(*unit) != Found::Unmapped && !self.map.exists(page)
        });
        if let Some(unit) = lost {
            return Err(RestoreError::new(format!(
                "unit {unit} is mapped in a map page that does not exist"
            )));
        }
        let Counts { host_read_bytes, host_written_bytes, read_modify_write_bytes, retries, uncorrectable } =
            self.counts;
        let counts = [host_read_bytes, host_written_bytes, read_modify_write_bytes, retries, uncorrectable];
        if !self.ages.is_sound(parameters.blocks_that_age())
            || counts.into_iter().any(|count| count >= COUNT_MAX)
        {
            return Err(RestoreError::new("its age or one of its counters is impossibly large"));
        }
        Ok(())
    }
}
