//! The write buffers: one for units of the host, one for map pages and trim records.
//!
//! # Invariant
//! Every accepted write, every trim that changes a unit and every loss of a unit has a number, and the
//! numbers rise by one. The slots of a buffer hold units of that buffer's own range. The map names the newest
//! slot of each buffered unit, and that slot stores the entry of the copy in the array.

use super::place::{Entry, Layout, Mapped};
use super::programs::Source;
use super::write_buffer::WriteBuffer;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use serde::{Deserialize, Serialize};

/// Accepted units that are not programmed yet.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Buffers {
    pub(super) data: WriteBuffer,
    pub(super) map: WriteBuffer,
    /// First unit that does not belong to the host.
    host_units: u32,
    /// Number of the last accepted write or trim.
    accepted: u64,
}

impl Buffers {
    /// Creates empty buffers, with `data_slots` slots for units of the host.
    pub(super) fn new(data_slots: u32, layout: &Layout) -> Self {
        Buffers {
            data: WriteBuffer::new(data_slots),
            map: WriteBuffer::new(layout.map_slots()),
            host_units: layout.units,
            accepted: 0,
        }
    }

    /// Returns the number of the last accepted write or trim.
    #[inline]
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }
    /// Records that the trim with this number was accepted.
    pub(super) fn accept_trim(&mut self, number: u64) {
        self.accepted = self.accepted.max(number);
    }

    /// Returns the buffer of a unit.
    #[inline]
    pub(super) fn of(&self, unit: u32) -> &WriteBuffer {
        if unit < self.host_units { &self.data } else { &self.map }
    }
    #[inline]
    pub(super) fn of_mut(&mut self, unit: u32) -> &mut WriteBuffer {
        if unit < self.host_units { &mut self.data } else { &mut self.map }
    }
    /// Returns the buffer that a program takes its units from.
    #[inline]
    pub(super) fn source(&self, source: Source) -> &WriteBuffer {
        if source == Source::Data { &self.data } else { &self.map }
    }
    #[inline]
    pub(super) fn source_mut(&mut self, source: Source) -> &mut WriteBuffer {
        if source == Source::Data { &mut self.data } else { &mut self.map }
    }

    /// Accepts a write of `unit`, whose map entry is `entry`. Returns the new map entry, or `None` if the buffer is
    /// full. A unit whose program is not formed yet keeps its slot, unless the unit was trimmed.
    #[inline(always)]
    pub(super) fn accept(&mut self, unit: u32, entry: Entry) -> Option<Entry> {
        let number = self.accepted + 1;
        let buffer = self.of_mut(unit);
        let mut slot = None;
        let mut committed = entry;
        if let Mapped::Slot(newest) = entry.decode() {
            let held = buffer.slot_mut(newest);
            if !held.is_programming() && held.trimmed == 0 {
                held.version = number;
                self.accepted = number;
                return Some(entry);
            }
            (slot, committed) = (Some(newest), held.committed);
        }
        if buffer.is_full() {
            return None;
        }
        let newest = buffer.accept(unit, committed, number);
        if let Some(older) = slot {
            buffer.supersede(older, newest);
        }
        self.accepted = number;
        Some(Entry::slot(newest))
    }

    /// Returns the entry of a unit's copy in the array, from its map entry.
    #[inline]
    pub(super) fn committed(&self, unit: u32, entry: Entry) -> Entry {
        match entry.decode() {
            Mapped::Slot(slot) => self.of(unit).get(slot).map_or(Entry::NOWHERE, |slot| slot.committed),
            _ => entry,
        }
    }

    /// Drops all units and calls `lost` with each unit and the entry of its copy in the array.
    pub(super) fn lose(&mut self, mut lost: impl FnMut(u32, Entry)) {
        for buffer in [&mut self.data, &mut self.map] {
            for slot in buffer.iter().map(|slot| buffer.slot(slot)) {
                if slot.newer.is_none() && !slot.overtaken {
                    lost(slot.unit, slot.committed);
                }
            }
            buffer.clear();
        }
    }

    /// Checks the buffers, which have `data_slots` slots for units of the host, and that `entry` names the newest slot
    /// of each unit and no other. Returns the number of newest slots.
    pub(super) fn validate(
        &self,
        data_slots: u32,
        layout: &Layout,
        entry: &dyn Fn(u32) -> Entry,
    ) -> Result<usize, Inconsistent> {
        ensure!(self.host_units == layout.units, "the write buffers were saved with another capacity");
        self.data.validate(data_slots, self.accepted)?;
        self.map.validate(layout.map_slots(), self.accepted)?;
        let mut newest = 0;
        for (buffer, units) in [(&self.data, 0..layout.units), (&self.map, layout.units..layout.logical())] {
            for number in buffer.iter() {
                let slot = buffer.slot(number);
                ensure!(
                    units.contains(&slot.unit) && layout.is_committed(slot.committed),
                    "slot {number} has a unit or a committed entry that is out of range: {}, {:?}",
                    slot.unit,
                    slot.committed
                );
                if slot.newer.is_none() && !slot.overtaken {
                    newest += 1;
                    ensure!(
                        entry(slot.unit) == Entry::slot(number),
                        "unit {} is not mapped to slot {number}",
                        slot.unit
                    );
                }
            }
        }
        Ok(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::page_map::PageMapParameters;
    use alloc::vec::Vec;

    #[test]
    fn a_unit_has_one_slot_until_its_program_is_formed_and_the_map_names_the_newest() {
        let layout = Layout::new(&PageMapParameters::tiny());
        let mut buffers = Buffers::new(2, &layout);
        let first = buffers.accept(7, Entry::at(40)).expect("there is room");
        assert_eq!(buffers.accept(7, first), Some(first), "the writes coalesce");
        assert_eq!((buffers.accepted(), buffers.data.used()), (2, 1));
        buffers.data.take();
        let second = buffers.accept(7, first).expect("there is room");
        assert_ne!(second, first);
        assert_eq!(buffers.committed(7, second), Entry::at(40), "the copy in the array is still committed");
        assert_eq!(buffers.accept(8, Entry::NOWHERE), None, "the buffer is full");
        assert_eq!(buffers.accepted(), 3, "a rejected write has no number");
        let names = |entry| move |unit| if unit == 7 { entry } else { Entry::NOWHERE };
        assert_eq!(buffers.validate(2, &layout, &names(second)).ok(), Some(1));
        assert!(buffers.validate(2, &layout, &names(first)).is_err(), "the map names an older slot");
    }

    #[test]
    fn a_power_cut_loses_the_newest_write_of_each_unit_and_leaves_the_committed_copy() {
        let layout = Layout::new(&PageMapParameters::tiny());
        let mut buffers = Buffers::new(4, &layout);
        let first = buffers.accept(7, Entry::at(40)).expect("there is room");
        buffers.data.take();
        buffers.accept(7, first).expect("there is room");
        buffers.accept(layout.log_unit(), Entry::NOWHERE).expect("map pages have their own buffer");
        let mut lost = Vec::new();
        buffers.lose(|unit, entry| lost.push((unit, entry)));
        assert_eq!(lost, [(7, Entry::at(40)), (layout.log_unit(), Entry::NOWHERE)]);
        assert_eq!((buffers.data.used(), buffers.map.used(), buffers.accepted()), (0, 0, 3));
    }
}
