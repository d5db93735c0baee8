//! Write buffer of a controller: units that were accepted and are not programmed yet.
//!
//! The buffer accepts a unit into a slot. If the unit is written again before its program is formed, it stays
//! in its slot (the writes coalesce). If the unit is written again after that, or after a trim, it gets
//! another slot, and the two slots are linked as older and newer copies of one unit. The map entry of the
//! unit names the newest slot, and that slot stores the former map entry, which describes the copy in the
//! array. The buffer therefore needs no search and no hash map. Slots that wait for a program are queued in
//! the order of acceptance. Slots whose program failed precede all others.

use super::place::Entry;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

crate::index::index! {
    /// Link to a slot. Outside of links, a slot has a plain number, so that access to it needs no conversion.
    pub(crate) struct SlotLink;
}

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum SlotState {
    Vacant,
    /// The slot is queued for a program.
    Waiting,
    /// The slot is queued for another program, because the last one failed.
    WaitingAgain,
    /// The slot is in a program.
    Programming,
}

/// Slot of the buffer with its unit.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Slot {
    pub(crate) unit: u32,
    /// In the newest slot of a unit: the map entry that the unit would have without the buffer.
    pub(crate) committed: Entry,
    /// Slot that holds the next older copy of the same unit.
    pub(crate) older: Option<SlotLink>,
    /// Slot that holds the next newer copy of the same unit.
    pub(crate) newer: Option<SlotLink>,
    /// Next vacant slot.
    next: Option<SlotLink>,
    state: SlotState,
    /// True if a newer copy became durable before this one.
    pub(crate) overtaken: bool,
    /// In the newest slot of a unit: true if a trim of a buffered copy voided the committed copy, too.
    pub(crate) committed_is_trimmed: bool,
    /// Number of the oldest write in the slot.
    pub(crate) accepted: u64,
    /// Number of the newest write in the slot.
    pub(crate) version: u64,
    /// Number of the trim that voided the slot, or 0.
    pub(crate) trimmed: u64,
}

impl Slot {
    const VACANT: Slot = Slot {
        unit: 0,
        committed: Entry::NOWHERE,
        older: None,
        newer: None,
        next: None,
        state: SlotState::Vacant,
        overtaken: false,
        committed_is_trimmed: false,
        accepted: 0,
        version: 0,
        trimmed: 0,
    };
    /// Returns true if the slot is the only copy of its unit in the buffer and was not trimmed.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.older.is_none() && self.newer.is_none() && !self.overtaken && self.trimmed == 0
    }
    /// Returns true if the slot is in a program.
    #[inline]
    pub(crate) fn is_programming(&self) -> bool {
        self.state == SlotState::Programming
    }
}

/// A write buffer and its slots.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WriteBuffer {
    slots: Vec<Slot>,
    /// Maximum number of slots.
    capacity: u32,
    /// Head of the list of vacant slots.
    vacant: Option<SlotLink>,
    used: u32,
    /// Slots that wait to be programmed, in order, with their units. A slot that was accepted long ago is no
    /// longer in a fast processor cache. The queue therefore stores the units beside the slots, so that
    /// forming a program need not wait for the slots.
    waiting: VecDeque<(u32, u32)>,
    /// Units accepted up to this number are to be programmed even if their page does not become full.
    pub(crate) flush_to: u64,
}

impl WriteBuffer {
    pub(crate) fn new(capacity: u32) -> Self {
        WriteBuffer {
            slots: Vec::with_capacity(capacity as usize),
            capacity,
            vacant: None,
            used: 0,
            waiting: VecDeque::with_capacity(capacity as usize),
            flush_to: 0,
        }
    }
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used == self.capacity
    }
    pub(crate) fn used(&self) -> u32 {
        self.used
    }
    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }
    /// Returns the number of slots that wait for a program.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.len() as u32
    }
    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }
    #[inline]
    pub(crate) fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Returns true if a page of `units` units is to be programmed, because it is full or is being flushed.
    #[inline]
    pub(crate) fn page_waits(&self, units: u32) -> bool {
        let is_flushed = |first: &(u32, u32)| self.slot(first.0).accepted <= self.flush_to;
        self.waiting() >= units || self.waiting.front().is_some_and(is_flushed)
    }

    /// Returns the number of the oldest write that waits.
    pub(crate) fn oldest_waiting(&self) -> Option<u64> {
        // Slots whose program failed were accepted before all others.
        let failed = |slot: &u32| self.slot(*slot).state == SlotState::WaitingAgain;
        let fresh = self.queue().find(|slot| !failed(slot));
        let failed = self.queue().take_while(failed);
        failed.chain(fresh).map(|slot| self.slot(slot).accepted).min()
    }

    /// Takes a slot for write `number` of `unit` and queues the slot. `committed` describes the unit's copy in the
    /// array.
    #[inline]
    pub(crate) fn accept(&mut self, unit: u32, committed: Entry, number: u64) -> u32 {
        let slot = self.vacant.map_or_else(|| self.grow(), SlotLink::index);
        let place = &mut self.slots[slot as usize];
        self.vacant = place.next;
        let state = SlotState::Waiting;
        *place = Slot { unit, committed, state, accepted: number, version: number, ..Slot::VACANT };
        self.waiting.push_back((slot, unit));
        self.used += 1;
        slot
    }

    /// Adds a slot, because none is vacant. Returns its number.
    #[cold]
    fn grow(&mut self) -> u32 {
        self.slots.push(Slot::VACANT);
        self.slots.len() as u32 - 1
    }

    /// Takes the first waiting slot into a program. Returns the slot and its unit.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u32, u32)> {
        let (slot, unit) = self.waiting.pop_front()?;
        self.slot_mut(slot).state = SlotState::Programming;
        Some((slot, unit))
    }

    /// Puts a slot whose program failed back into the queue, before all others.
    pub(crate) fn requeue(&mut self, slot: u32) {
        let failed = self.slot_mut(slot);
        failed.state = SlotState::WaitingAgain;
        let unit = failed.unit;
        self.waiting.push_front((slot, unit));
    }

    /// Links slot `newer`, the newest copy of its unit, to slot `older`, and copies `committed_is_trimmed` from
    /// `older`.
    pub(crate) fn supersede(&mut self, older: u32, newer: u32) {
        self.slot_mut(older).newer = Some(SlotLink::new(newer));
        let committed_is_trimmed = self.slot(older).committed_is_trimmed;
        let newest = self.slot_mut(newer);
        newest.older = Some(SlotLink::new(older));
        newest.committed_is_trimmed = committed_is_trimmed;
    }

    /// Returns a slot and the slots of the older copies of its unit, newest first.
    fn and_older(&self, slot: u32) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(slot), |slot| self.slot(*slot).older.map(SlotLink::index))
    }

    /// Returns the number of the first write and of the first trim (or 0) among the copies of a unit that are newer
    /// than the committed copy. `newest` is the newest of these copies.
    pub(crate) fn first_changes(&self, newest: u32) -> (u64, u64) {
        let mut first = (self.slot(newest).accepted, 0);
        let copies = self.and_older(newest).map(|slot| self.slot(slot));
        for &Slot { accepted, trimmed, .. } in copies.take_while(|slot| !slot.overtaken) {
            first = (accepted, if trimmed > 0 { trimmed } else { first.1 });
        }
        first
    }

    /// Returns the number of the first trim of `slot` or of a newer copy of its unit, or 0.
    pub(crate) fn first_trim(&self, slot: u32) -> u64 {
        let mut copies =
            core::iter::successors(Some(slot), |slot| self.slot(*slot).newer.map(SlotLink::index));
        copies.find_map(|slot| Some(self.slot(slot).trimmed).filter(|number| *number > 0)).unwrap_or(0)
    }

    /// Marks all copies older than `slot` as overtaken, because a newer copy is durable.
    #[inline]
    pub(crate) fn mark_overtaken(&mut self, slot: u32) {
        let mut next = self.slot(slot).older;
        while let Some(older) = next {
            let copy = self.slot_mut(older.index());
            copy.overtaken = true;
            next = copy.older;
        }
    }

    /// Returns true if a copy of a unit was accepted with a number up to `number` and is not durable. `newest` is the
    /// newest copy of the unit.
    pub(crate) fn holds(&self, newest: u32, number: u64) -> bool {
        let mut copies = self.and_older(newest).map(|slot| self.slot(slot));
        copies.any(|slot| slot.accepted <= number && !slot.overtaken)
    }

    /// Releases a slot whose program has ended. The caller has unlinked it from other copies of its unit.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) {
        let vacant = &mut self.slots[slot as usize];
        vacant.state = SlotState::Vacant;
        vacant.next = self.vacant;
        self.vacant = Some(SlotLink::new(slot));
        self.used -= 1;
    }

    /// Unlinks a slot from the other copies of its unit.
    pub(crate) fn unlink(&mut self, slot: u32) {
        let Slot { older, newer, .. } = *self.slot(slot);
        if let Some(older) = older {
            self.slot_mut(older.index()).newer = newer;
        }
        if let Some(newer) = newer {
            self.slot_mut(newer.index()).older = older;
        }
    }

    /// Returns the used slots, in arbitrary order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let used = |(_, slot): &(u32, &Slot)| slot.state != SlotState::Vacant;
        (0..).zip(&self.slots).filter(used).map(|(number, _)| number)
    }

    /// Returns the waiting slots, in order.
    fn queue(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|(slot, _)| *slot)
    }

    /// Drops all units.
    pub(crate) fn clear(&mut self) {
        *self = WriteBuffer::new(self.capacity);
    }

    /// Returns a slot, used or vacant, or `None` if no slot has this number.
    pub(crate) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)
    }

    /// Checks the lists of a buffer of `capacity` slots. `accepted` is the number of the last accepted write or trim.
    pub(crate) fn validate(&self, capacity: u32, accepted: u64) -> Result<(), Inconsistent> {
        ensure!(
            self.capacity == capacity && self.slots.len() <= capacity as usize,
            "the buffer has room for {} slots and holds {}, expected {capacity}",
            self.capacity,
            self.slots.len()
        );
        ensure!(self.flush_to <= accepted, "the pending flush covers writes that were never accepted");
        for number in self.iter() {
            let slot = self.slot(number);
            ensure!(
                slot.accepted <= slot.version && slot.version.max(slot.trimmed) <= accepted,
                "slot {number} is newer than the last accepted request, or older than its own data"
            );
        }
        let mut seen = vec![false; self.slots.len()];
        self.check_vacant(&mut seen)?;
        self.check_queue(&mut seen)?;
        let programming = self.iter().filter(|slot| self.slot(*slot).is_programming());
        programming.for_each(|slot| seen[slot as usize] = true);
        ensure!(seen.iter().all(|seen| *seen), "a slot is neither vacant, nor queued, nor being programmed");
        self.check_copies()
    }

    /// Checks the list of vacant slots and the number of used slots.
    fn check_vacant(&self, seen: &mut [bool]) -> Result<(), Inconsistent> {
        let mut next = self.vacant.map(SlotLink::index);
        while let Some(slot) = next {
            let vacant = self.get(slot).filter(|slot| slot.state == SlotState::Vacant);
            ensure!(
                vacant.is_some() && !core::mem::replace(&mut seen[slot as usize], true),
                "slot {slot} is in the list of vacant slots, but is used, or is listed twice"
            );
            next = self.slot(slot).next.map(SlotLink::index);
        }
        let used = self.iter().count();
        ensure!(used == self.used as usize, "{used} slots are used, but {} are counted", self.used);
        Ok(())
    }

    /// Checks the list of waiting slots: slots whose program failed, then all others in the order of acceptance.
    fn check_queue(&self, seen: &mut [bool]) -> Result<(), Inconsistent> {
        let mut last: Option<&Slot> = None;
        for &(next, unit) in &self.waiting {
            let waits = |slot: &&Slot| matches!(slot.state, SlotState::Waiting | SlotState::WaitingAgain);
            let Some(this) = self.get(next).filter(waits).filter(|this| this.unit == unit) else {
                return Err(Inconsistent {
                    what: alloc::format!(
                        "slot {next} is queued for unit {unit}, but does not wait with this unit"
                    ),
                });
            };
            ensure!(!core::mem::replace(&mut seen[next as usize], true), "slot {next} is queued twice");
            let before = |last: &Slot| {
                last.state == SlotState::WaitingAgain
                    || (this.state == SlotState::Waiting && last.accepted < this.accepted)
            };
            ensure!(last.is_none_or(before), "slot {next} is out of the order of acceptance");
            last = Some(this);
        }
        Ok(())
    }

    /// Checks that the copies of one unit are linked both ways. The lists have been checked before.
    fn check_copies(&self) -> Result<(), Inconsistent> {
        let used = |slot: u32| self.get(slot).filter(|slot| slot.state != SlotState::Vacant);
        for slot in self.iter() {
            let this = self.slot(slot);
            if let Some(older) = this.older {
                let is_older = |older: &Slot| {
                    older.newer == Some(SlotLink::new(slot))
                        && older.unit == this.unit
                        && older.version < this.version
                };
                let older = used(older.index()).filter(|older| is_older(older));
                ensure!(older.is_some(), "slot {slot} and its older copy are not linked both ways");
                ensure!(
                    !this.overtaken || older.is_some_and(|older| older.overtaken),
                    "slot {slot} is overtaken, but its older copy is not"
                );
            }
            if let Some(newer) = this.newer {
                ensure!(
                    used(newer.index()).is_some_and(|newer| newer.older == Some(SlotLink::new(slot))),
                    "slot {slot} and its newer copy are not linked both ways"
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waiting_slots_are_taken_in_order_and_failed_ones_before_all_others(
            steps in prop::collection::vec((0u32..4, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut buffer = WriteBuffer::new(8);
            // Numbers of the waiting writes; slots and numbers of the writes in programs.
            let (mut waiting, mut programmed) = (VecDeque::new(), Vec::new());
            for (number, (step, index)) in (1u64..).zip(steps) {
                match step {
                    0 if !buffer.is_full() => {
                        buffer.accept(number as u32, Entry::NOWHERE, number);
                        waiting.push_back(number);
                    }
                    1 => {
                        let taken = buffer.take();
                        prop_assert_eq!(taken.map(|(_, unit)| u64::from(unit)), waiting.front().copied());
                        if let (Some((slot, _)), Some(number)) = (taken, waiting.pop_front()) {
                            programmed.push((slot, number));
                        }
                    }
                    2 if !programmed.is_empty() => {
                        let (slot, number) = programmed.swap_remove(index.index(programmed.len()));
                        buffer.requeue(slot);
                        waiting.push_front(number);
                    }
                    3 if !programmed.is_empty() => {
                        let (slot, _) = programmed.swap_remove(index.index(programmed.len()));
                        buffer.release(slot);
                    }
                    _ => {}
                }
                buffer.validate(8, number).expect("the buffer is consistent");
                prop_assert_eq!(buffer.oldest_waiting(), waiting.iter().min().copied());
                prop_assert_eq!(buffer.used() as usize, waiting.len() + programmed.len());
            }
        }
    }
}
