//! A controller's write buffer: units that were accepted and are not programmed yet.
//!
//! A unit is accepted into a slot. Written again before its program is formed, it stays in its slot (the writes
//! coalesce); written again after that, it gets another slot, and the two are linked as older and newer copies of one
//! unit. The map's entry names the newest slot, and that slot remembers what the map said of the copy in the array: no
//! search, no hash map. Slots are also linked in the order in which they were accepted, so that the oldest write that
//! is not durable is known at once.

use super::Inconsistent;
use super::inconsistent::ensure;
use super::page_map::Entry;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// A unit in the buffer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Slot {
    pub(crate) unit: u32,
    /// Of the newest slot of a unit: what the map would say without the buffer.
    pub(crate) committed: Entry,
    /// Slots that hold an older and a newer copy of the same unit.
    pub(crate) older: u32,
    pub(crate) newer: u32,
    /// In the order of acceptance; `next` links vacant slots, too.
    previous: u32,
    next: u32,
    /// The number of the oldest write in it, and of the newest.
    pub(crate) accepted: u64,
    pub(crate) version: u64,
    /// The number of the trim that made it void, or 0.
    pub(crate) trimmed: u64,
    /// Whether that trim made what is committed void, too.
    pub(crate) voided: bool,
    pub(crate) programming: bool,
    /// A newer copy has become durable before it.
    pub(crate) overtaken: bool,
}

impl Slot {
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
    room: u32,
    vacant: u32,
    used: u32,
    oldest: u32,
    youngest: u32,
    /// What waits to be programmed, in order.
    pub(crate) queue: VecDeque<u32>,
    /// What was accepted up to this number is to be programmed even if a page does not become full.
    pub(crate) flush_to: u64,
}

impl WriteBuffer {
    pub(crate) fn new(room: u32) -> Self {
        WriteBuffer {
            slots: Vec::with_capacity(room as usize),
            room,
            vacant: NONE,
            used: 0,
            oldest: NONE,
            youngest: NONE,
            queue: VecDeque::with_capacity(room as usize),
            flush_to: 0,
        }
    }
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.used == self.room
    }
    pub(crate) fn used(&self) -> u32 {
        self.used
    }
    pub(crate) fn room(&self) -> u32 {
        self.room
    }
    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }
    #[inline]
    pub(crate) fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// The number of the oldest write that is not durable.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<u64> {
        (self.oldest != NONE).then(|| self.slot(self.oldest).accepted)
    }

    /// Takes a slot for write `number` of `unit`, whose copy in the array is as `committed` says; queues it.
    #[inline]
    pub(crate) fn accept(&mut self, unit: u32, committed: Entry, number: u64) -> u32 {
        let fresh = Slot {
            unit,
            committed,
            older: NONE,
            newer: NONE,
            previous: self.youngest,
            next: NONE,
            accepted: number,
            version: number,
            trimmed: 0,
            voided: false,
            programming: false,
            overtaken: false,
        };
        let slot = self.vacant;
        let slot = if slot == NONE {
            self.slots.push(fresh);
            self.slots.len() as u32 - 1
        } else {
            self.vacant = self.slots[slot as usize].next;
            self.slots[slot as usize] = fresh;
            slot
        };
        match self.youngest {
            NONE => self.oldest = slot,
            youngest => self.slots[youngest as usize].next = slot,
        }
        self.youngest = slot;
        self.used += 1;
        self.queue.push_back(slot);
        slot
    }

    /// Links the newest copy of a unit to the one before it, and takes over what that knew.
    pub(crate) fn supersede(&mut self, older: u32, newer: u32) {
        self.slots[older as usize].newer = newer;
        self.slots[newer as usize].older = older;
    }

    /// Marks all copies older than `slot`: a newer one is durable.
    #[inline]
    pub(crate) fn overtake(&mut self, slot: u32) {
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

    /// Gives back a slot whose program has ended.
    #[inline]
    pub(crate) fn vacate(&mut self, slot: u32) {
        let Slot { older, newer, previous, next, .. } = self.slots[slot as usize];
        if older != NONE {
            self.slots[older as usize].newer = newer;
        }
        if newer != NONE {
            self.slots[newer as usize].older = older;
        }
        match previous {
            NONE => self.oldest = next,
            previous => self.slots[previous as usize].next = next,
        }
        match next {
            NONE => self.youngest = previous,
            next => self.slots[next as usize].previous = previous,
        }
        self.slots[slot as usize].next = self.vacant;
        self.vacant = slot;
        self.used -= 1;
    }

    /// What is in the buffer, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let first = (self.oldest != NONE).then_some(self.oldest);
        core::iter::successors(first, |slot| {
            let next = self.slot(*slot).next;
            (next != NONE).then_some(next)
        })
    }

    /// Loses everything.
    pub(crate) fn clear(&mut self) {
        *self = WriteBuffer::new(self.room);
    }

    /// The slot of that number, taken or vacant.
    pub(crate) fn get(&self, slot: u32) -> Option<&Slot> {
        self.slots.get(slot as usize)
    }

    /// Walks the lists of a buffer of `room` slots, to which `accepted` writes and trims were told.
    pub(crate) fn validate(&self, room: u32, accepted: u64) -> Result<(), Inconsistent> {
        ensure!(
            self.room == room && self.slots.len() <= room as usize,
            "a buffer of {room} slots has {}",
            self.slots.len()
        );
        let mut seen = vec![false; self.slots.len()];
        let mut see =
            |slot: u32| seen.get_mut(slot as usize).is_some_and(|seen| !core::mem::replace(seen, true));
        let (mut previous, mut next, mut used) = (NONE, self.oldest, 0);
        while next != NONE {
            ensure!(see(next), "slot {next} is not there, or twice in order");
            let this = self.slot(next);
            let before = if previous == NONE { 0 } else { self.slot(previous).accepted };
            ensure!(
                this.previous == previous && before < this.accepted,
                "slot {next} is out of the order of acceptance"
            );
            ensure!(
                this.accepted <= this.version && this.version.max(this.trimmed) <= accepted,
                "slot {next} is newer than all that was accepted"
            );
            (previous, next, used) = (next, this.next, used + 1);
        }
        ensure!(
            (previous, used) == (self.youngest, self.used),
            "slots in the order of acceptance and slots used: {used} and {}",
            self.used
        );
        let mut next = self.vacant;
        while next != NONE {
            ensure!(see(next), "slot {next} is not there, or vacant and used");
            next = self.slot(next).next;
        }
        ensure!(seen.iter().all(|seen| *seen), "a slot is neither used nor vacant");
        self.check_copies()?;
        self.check_queue(accepted)
    }

    /// Copies of one unit are linked both ways; the lists have been walked.
    fn check_copies(&self) -> Result<(), Inconsistent> {
        let mut used = vec![false; self.slots.len()];
        self.iter().for_each(|slot| used[slot as usize] = true);
        let is_used = |slot: u32| used.get(slot as usize) == Some(&true);
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

    fn check_queue(&self, accepted: u64) -> Result<(), Inconsistent> {
        let mut waits = vec![false; self.slots.len()];
        self.iter().for_each(|slot| waits[slot as usize] = !self.slot(slot).programming);
        for slot in &self.queue {
            let waiting = waits.get_mut(*slot as usize).is_some_and(|waits| core::mem::replace(waits, false));
            ensure!(waiting, "slot {slot} is queued, but does not wait");
        }
        ensure!(!waits.contains(&true), "a slot waits, but is not queued");
        ensure!(self.flush_to <= accepted, "a flush of what was never accepted");
        Ok(())
    }
}
