//! A controller's write buffer: units that were accepted and are not programmed yet.
//!
//! A unit is accepted into a slot. Written again before its program is formed, it stays in its slot (the writes
//! coalesce); written again after that, it gets another slot, and the two are linked as older and newer copies of one
//! unit. The map's entry names the newest slot, and that slot remembers what the map said of the copy in the array: no
//! search, no hash map. Slots that wait for a program are queued in the order of acceptance, but for those whose program
//! failed: they go before all others.

use super::place::Entry;
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// No slot, and no unit.
pub(crate) const NONE: u32 = u32::MAX;

/// A unit in the buffer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Slot {
    /// [`NONE`]: the slot is vacant.
    pub(crate) unit: u32,
    /// Of the newest slot of a unit: what the map would say without the buffer.
    pub(crate) committed: Entry,
    /// Slots that hold an older and a newer copy of the same unit.
    pub(crate) older: u32,
    pub(crate) newer: u32,
    /// The next that is vacant.
    next: u32,
    pub(crate) programming: bool,
    /// Its program has failed before.
    failed: bool,
    /// A newer copy has become durable before it.
    pub(crate) overtaken: bool,
    /// Of the newest slot of a unit: what is committed is void by the first trim of a copy in the buffer.
    pub(crate) committed_is_trimmed: bool,
    /// The number of the oldest write in it, and of the newest.
    pub(crate) accepted: u64,
    pub(crate) version: u64,
    /// The number of the trim that made it void, or 0.
    pub(crate) trimmed: u64,
}

impl Slot {
    const VACANT: Slot = Slot {
        unit: NONE,
        committed: Entry::NOWHERE,
        older: NONE,
        newer: NONE,
        next: NONE,
        programming: false,
        failed: false,
        overtaken: false,
        committed_is_trimmed: false,
        accepted: 0,
        version: 0,
        trimmed: 0,
    };
    /// Whether it is the only copy of its unit in the buffer, and was not trimmed.
    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.older == NONE && self.newer == NONE && !self.overtaken && self.trimmed == 0
    }
}

/// The slots of a buffer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WriteBuffer {
    slots: Vec<Slot>,
    /// Slots it may have.
    capacity: u32,
    vacant: u32,
    used: u32,
    /// The slots that wait to be programmed, in order, and their units. Beside the slots: what is known of one that was accepted
    /// long ago is in no cache near, and the next ones are not to wait for it.
    waiting: VecDeque<(u32, u32)>,
    /// What was accepted up to this number is to be programmed even if a page does not become full.
    pub(crate) flush_to: u64,
}

impl WriteBuffer {
    pub(crate) fn new(capacity: u32) -> Self {
        WriteBuffer {
            slots: Vec::with_capacity(capacity as usize),
            capacity,
            vacant: NONE,
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
    /// Slots that wait for a program.
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

    /// Whether a page of so many units is to be programmed: one that becomes full, or one that is flushed.
    #[inline]
    pub(crate) fn page_waits(&self, units: u32) -> bool {
        let is_flushed = |first: &(u32, u32)| self.slot(first.0).accepted <= self.flush_to;
        self.waiting() >= units || self.waiting.front().is_some_and(is_flushed)
    }

    /// The number of the oldest write that waits.
    pub(crate) fn oldest_waiting(&self) -> Option<u64> {
        // Those that failed were accepted before all that did not.
        let failed = self.queue().take_while(|slot| self.slot(*slot).failed);
        let fresh = self.queue().find(|slot| !self.slot(*slot).failed);
        failed.chain(fresh).map(|slot| self.slot(slot).accepted).min()
    }

    /// Takes a slot for write `number` of `unit`, whose copy in the array is as `committed` says; queues it.
    #[inline]
    pub(crate) fn accept(&mut self, unit: u32, committed: Entry, number: u64) -> u32 {
        if self.vacant == NONE {
            self.grow();
        }
        let slot = self.vacant;
        let place = &mut self.slots[slot as usize];
        self.vacant = place.next;
        *place = Slot { unit, committed, accepted: number, version: number, ..Slot::VACANT };
        self.waiting.push_back((slot, unit));
        self.used += 1;
        slot
    }

    /// Adds a vacant slot, where none is.
    #[cold]
    fn grow(&mut self) {
        self.vacant = self.slots.len() as u32;
        self.slots.push(Slot::VACANT);
    }

    /// Takes the first that waits into a program; the slot and its unit.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(u32, u32)> {
        let (slot, unit) = self.waiting.pop_front()?;
        self.slot_mut(slot).programming = true;
        Some((slot, unit))
    }

    /// The program of a slot failed: it waits again, before all others.
    pub(crate) fn requeue(&mut self, slot: u32) {
        let state = self.slot_mut(slot);
        (state.programming, state.failed) = (false, true);
        let unit = state.unit;
        self.waiting.push_front((slot, unit));
    }

    /// Links the newest copy of a unit to the one before it, and takes over what that knew.
    pub(crate) fn supersede(&mut self, older: u32, newer: u32) {
        self.slots[older as usize].newer = newer;
        self.slots[newer as usize].older = older;
        self.slots[newer as usize].committed_is_trimmed = self.slots[older as usize].committed_is_trimmed;
    }

    /// Of the copies of a unit that are newer than what is committed, of which `newest` is the newest: the number of the
    /// first write, and of the first trim, or 0.
    pub(crate) fn first_changes(&self, newest: u32) -> (u64, u64) {
        let mut first = (self.slot(newest).accepted, 0);
        let mut slot = newest;
        while slot != NONE && !self.slot(slot).overtaken {
            let Slot { older, accepted, trimmed, .. } = *self.slot(slot);
            first = (accepted, if trimmed > 0 { trimmed } else { first.1 });
            slot = older;
        }
        first
    }

    /// The number of the first trim of `slot` or of a newer copy of its unit, or 0.
    pub(crate) fn first_trim(&self, mut slot: u32) -> u64 {
        while slot != NONE {
            let Slot { newer, trimmed, .. } = *self.slot(slot);
            if trimmed > 0 {
                return trimmed;
            }
            slot = newer;
        }
        0
    }

    /// Marks all copies older than `slot`: a newer one is durable.
    #[inline]
    pub(crate) fn mark_overtaken(&mut self, slot: u32) {
        let mut older = self.slots[slot as usize].older;
        while older != NONE {
            self.slots[older as usize].overtaken = true;
            older = self.slots[older as usize].older;
        }
    }

    /// Whether one of the copies of a unit, of which `newest` is the newest, was accepted up to `number` and is not durable.
    pub(crate) fn holds(&self, newest: u32, number: u64) -> bool {
        let older = |slot: &u32| Some(self.slot(*slot).older).filter(|older| *older != NONE);
        core::iter::successors(Some(newest), older)
            .map(|slot| self.slot(slot))
            .any(|slot| slot.accepted <= number && !slot.overtaken)
    }

    /// Gives back a slot whose program has ended, and which is the only copy of its unit.
    #[inline]
    pub(crate) fn release(&mut self, slot: u32) {
        let vacant = &mut self.slots[slot as usize];
        vacant.unit = NONE;
        vacant.next = self.vacant;
        self.vacant = slot;
        self.used -= 1;
    }

    /// Takes a slot out of the copies of its unit.
    pub(crate) fn unlink(&mut self, slot: u32) {
        let Slot { older, newer, .. } = *self.slot(slot);
        if older != NONE {
            self.slot_mut(older).newer = newer;
        }
        if newer != NONE {
            self.slot_mut(newer).older = older;
        }
    }

    /// What is in the buffer, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.slots).filter(|(_, slot)| slot.unit != NONE).map(|(number, _)| number)
    }

    /// What waits, in order.
    fn queue(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.iter().map(|(slot, _)| *slot)
    }

    /// Loses everything.
    pub(crate) fn clear(&mut self) {
        *self = WriteBuffer::new(self.capacity);
    }

    /// The slot of that number, taken or vacant.
    pub(crate) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)
    }

    /// Walks the lists of a buffer of `capacity` slots, to which `accepted` writes and trims were told.
    pub(crate) fn validate(&self, capacity: u32, accepted: u64) -> Result<(), Inconsistent> {
        ensure!(
            self.capacity == capacity && self.slots.len() <= capacity as usize,
            "a buffer of {capacity} slots has {}",
            self.slots.len()
        );
        ensure!(self.flush_to <= accepted, "a flush of what was never accepted");
        for number in self.iter() {
            let slot = self.slot(number);
            ensure!(
                slot.accepted <= slot.version && slot.version.max(slot.trimmed) <= accepted,
                "slot {number} is newer than all that was accepted"
            );
        }
        let mut seen = vec![false; self.slots.len()];
        self.check_vacant(&mut seen)?;
        self.check_queue(&mut seen)?;
        let programming = self.iter().filter(|slot| self.slot(*slot).programming);
        programming.for_each(|slot| seen[slot as usize] = true);
        ensure!(seen.iter().all(|seen| *seen), "a slot is neither vacant, nor queued, nor programmed");
        self.check_copies()
    }

    /// The list of vacant slots, and how many are used.
    fn check_vacant(&self, seen: &mut [bool]) -> Result<(), Inconsistent> {
        let mut next = self.vacant;
        while next != NONE {
            let is_vacant = self.get(next).is_some_and(|slot| slot.unit == NONE);
            ensure!(
                is_vacant && !core::mem::replace(&mut seen[next as usize], true),
                "slot {next} is used, or vacant twice"
            );
            next = self.slot(next).next;
        }
        let used = self.iter().count();
        ensure!(used == self.used as usize, "slots used: {used} and {}", self.used);
        Ok(())
    }

    /// The list of slots that wait: those whose program failed, then all others in the order of acceptance.
    fn check_queue(&self, seen: &mut [bool]) -> Result<(), Inconsistent> {
        let mut last = NONE;
        for &(next, unit) in &self.waiting {
            let has_waiting_page = self.get(next).is_some_and(|slot| slot.unit != NONE && !slot.programming);
            ensure!(
                has_waiting_page && !core::mem::replace(&mut seen[next as usize], true),
                "slot {next} is queued, but does not wait, or twice"
            );
            let this = self.slot(next);
            ensure!(this.unit == unit, "slot {next} is queued as one of unit {unit}");
            let before =
                |last: &Slot| if last.failed { true } else { !this.failed && last.accepted < this.accepted };
            ensure!(self.get(last).is_none_or(before), "slot {next} is out of the order of acceptance");
            last = next;
        }
        Ok(())
    }

    /// Copies of one unit are linked both ways; the lists have been walked.
    fn check_copies(&self) -> Result<(), Inconsistent> {
        let is_used = |slot: u32| self.get(slot).is_some_and(|slot| slot.unit != NONE);
        for slot in self.iter() {
            let this = self.slot(slot);
            if this.older != NONE {
                ensure!(is_used(this.older), "the older copy of slot {slot} is vacant");
                let older = self.slot(this.older);
                ensure!(
                    older.newer == slot && older.unit == this.unit && older.version < this.version,
                    "slot {slot} and its older copy are not linked both ways"
                );
                ensure!(
                    !this.overtaken || older.overtaken,
                    "what is older than slot {slot} is overtaken, too"
                );
            }
            let newer = self.get(this.newer).filter(|_| is_used(this.newer));
            ensure!(
                this.newer == NONE || newer.is_some_and(|newer| newer.older == slot),
                "slot {slot} and its newer copy are not linked both ways"
            );
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
        fn what_waits_is_taken_in_order_and_what_failed_before_all_others(
            steps in prop::collection::vec((0u32..4, any::<prop::sample::Index>()), 0..200),
        ) {
            let mut buffer = WriteBuffer::new(8);
            // Numbers of what waits, and slots and numbers of what is programmed.
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
                buffer.validate(8, number).expect("it holds together");
                prop_assert_eq!(buffer.oldest_waiting(), waiting.iter().min().copied());
                prop_assert_eq!(buffer.used() as usize, waiting.len() + programmed.len());
            }
        }
    }
}
