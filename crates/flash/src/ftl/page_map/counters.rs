//! Counters of the layer.

use super::PageMap;
use flashlab_sim::Observer;
use serde::{Deserialize, Serialize};

/// Counts since the device was new, in units unless a name says otherwise.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    /// Units accepted from the host.
    pub(super) accepted: u64,
    /// Units trimmed by the host.
    pub(super) trimmed: u64,
    /// Units programmed for the host.
    pub(super) host: u64,
    /// Map pages and trim records programmed.
    pub(super) map: u64,
    /// Units moved by garbage collection.
    pub(super) gc: u64,
    /// Units moved by wear leveling.
    pub(super) leveling: u64,
    /// Units folded out of the SLC buffer.
    pub(super) fold: u64,
    /// Units programmed without data, in pages that were not full.
    pub(super) padding: u64,
    /// Units of pages whose program failed.
    pub(super) failed_units: u64,
    /// Units of pages whose program a power cut tore.
    pub(super) torn_units: u64,
    /// Pages programmed, including failed and torn ones.
    pub(super) pages: u64,
    /// Programs that failed.
    pub(super) failed: u64,
    /// Pages read for their valid units.
    pub(super) reads: u64,
    /// Victims of garbage collection, and blocks emptied because a program failed.
    pub(super) gc_blocks: u64,
    /// Blocks folded.
    pub(super) folded_blocks: u64,
    /// Blocks whose data wear leveling moved.
    pub(super) leveled_blocks: u64,
    /// Pages that could not be read when their units were to be moved.
    pub(super) uncorrectable: u64,
    /// Units lost because their page could not be read.
    pub(super) lost: u64,
}

impl Counters {
    /// Returns the greatest count, apart from the count of trimmed units.
    pub(super) fn most(&self) -> u64 {
        let Counters { accepted, host, map, gc, leveling, fold, padding, .. } = *self;
        let Counters { failed_units, torn_units, pages, failed, reads, gc_blocks, folded_blocks, .. } = *self;
        let Counters { leveled_blocks, uncorrectable, lost, .. } = *self;
        let units = [accepted, host, map, gc, leveling, fold, padding, failed_units, torn_units];
        let others = [pages, failed, reads, gc_blocks, folded_blocks, leveled_blocks, uncorrectable, lost];
        units.into_iter().chain(others).max().unwrap_or(0)
    }
}

/// Units accepted, and units programmed in the array by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Written {
    /// Units accepted from the host, programmed or not.
    pub accepted: u64,
    /// Units programmed for the host.
    pub host: u64,
    /// Map pages and trim records.
    pub map: u64,
    /// Units moved by garbage collection.
    pub gc: u64,
    /// Units moved by wear leveling.
    pub leveling: u64,
    /// Units folded out of the SLC buffer.
    pub fold: u64,
    /// Padding: units of pages programmed before they were full, and of programs that failed or were torn.
    pub padding: u64,
}

impl Written {
    /// Returns the total number of units programmed.
    pub fn total(&self) -> u64 {
        self.host + self.map + self.gc + self.leveling + self.fold + self.padding
    }
    /// Returns the write amplification: units of host data programmed, including moves, per unit programmed for the
    /// host. Map pages and padding do not count.
    pub fn amplification(&self) -> f64 {
        (self.host + self.gc + self.leveling + self.fold) as f64 / self.host as f64
    }
    /// Returns the counts since `earlier`.
    pub fn since(&self, earlier: &Written) -> Written {
        Written {
            accepted: self.accepted - earlier.accepted,
            host: self.host - earlier.host,
            map: self.map - earlier.map,
            gc: self.gc - earlier.gc,
            leveling: self.leveling - earlier.leveling,
            fold: self.fold - earlier.fold,
            padding: self.padding - earlier.padding,
        }
    }
}

impl PageMap {
    /// Returns the units programmed since the device was new.
    pub fn written(&self) -> Written {
        let c = &self.counters;
        Written {
            accepted: c.accepted,
            host: c.host,
            map: c.map,
            gc: c.gc,
            leveling: c.leveling,
            fold: c.fold,
            padding: c.padding + c.failed_units + c.torn_units,
        }
    }

    /// Returns the number of units of the array that can hold data. These are the units of the good blocks,
    /// without the free reserve, the unwritten part of open blocks and the blocks of the SLC buffer.
    pub fn effective_units(&self) -> u64 {
        let per_block = u64::from(self.layout.units_per_block);
        let mut units = u64::from(self.blocks.pool().usable_count()) * per_block;
        for die in self.dies.iter() {
            let slc = self.parameters.slc.map_or(0, |slc| slc.blocks);
            let set_aside = u64::from(die.free_beyond_slc(&self.parameters).min(self.parameters.reserve))
                + u64::from(slc);
            let open = die.open_blocks().map(|(_, block)| {
                let state = self.blocks.get(block);
                let unwritten = (self.layout.pages - state.next_page) * self.layout.units_per_page;
                if state.slc { 0 } else { u64::from(unwritten) }
            });
            units = units.saturating_sub(set_aside * per_block + open.sum::<u64>());
        }
        units
    }
    /// Returns the number of units in the array that hold data.
    pub fn valid_units(&self) -> u64 {
        self.map.valid()
    }

    /// Reports counters and wear.
    pub fn observe(&self, to: &mut dyn Observer) {
        let c = &self.counters;
        let bytes = |units: u64| units * self.parameters.unit;
        to.count("accepted_unit_bytes", bytes(c.accepted));
        to.count("programmed_bytes", c.pages * self.parameters.geometry.program_bytes());
        to.count("collection_count", c.gc_blocks);
        to.count("leveling_count", c.leveled_blocks);
        to.count("fold_count", c.folded_blocks);
        to.count("collection_moved_bytes", bytes(c.gc));
        to.count("leveling_moved_bytes", bytes(c.leveling));
        to.count("fold_moved_bytes", bytes(c.fold));
        to.count("map_programmed_bytes", bytes(c.map));
        to.count("padding_bytes", bytes(c.padding));
        to.count("program_failure_count", c.failed);
        to.count("collection_uncorrectable_count", c.uncorrectable);
        to.count("lost_unit_count", c.lost);
        to.count("mapped_bytes", bytes(self.map.valid()));
        let exported = u64::from(self.layout.units) + u64::from(self.layout.map_pages);
        let spare = self.effective_units().saturating_sub(exported);
        to.count("effective_spare_ppm", (u128::from(spare) * 1_000_000 / u128::from(exported)) as u64);
        to.count("read_only", u64::from(self.read_only));
        self.blocks.pool().observe(self.parameters.geometry.block_bytes(), to);
        to.block_uses(self.layout.blocks, &|block| self.use_of(block));
        let buffer = &self.buffers.data;
        to.level("write buffer", bytes(buffer.used().into()), bytes(buffer.capacity().into()));
    }
}
