//! What happens on a channel and its dies, one event at a time.

use super::queue::NONE;
use super::{Channels, NEVER};
use crate::nand::{Finished, Kind};
use core::ops::Range;
use flashlab_sim::{Duration, Instant};

impl Channels {
    /// Handles `channel`'s next event, which is the earliest of all; returns the operation that it ends, if any.
    ///
    /// At one instant arrays end before the transfer, so that what asks for the channel because of them takes part in
    /// the choice of the next one.
    #[inline]
    pub(super) fn step(&mut self, channel: usize) -> Option<Finished> {
        let now = self.due[channel];
        let ended = match self.array_end(channel, now) {
            None => self.transfer_end(channel, now),
            ended => ended,
        };
        self.reckon(channel);
        self.elect();
        ended
    }

    #[inline]
    fn slots(&self, channel: usize) -> Range<usize> {
        let dies = self.dies_per_channel as usize;
        channel * dies..(channel + 1) * dies
    }

    /// The end of a program or an erase at `now`, if there is one.
    #[inline]
    fn array_end(&mut self, channel: usize, now: u64) -> Option<Finished> {
        if self.wires[channel].working == 0 {
            return None;
        }
        let slots = self.slots(channel);
        let place = self.works[slots.clone()].iter().position(|&end| end == now)?;
        let slot = slots.start + place;
        self.works[slot] = NEVER;
        self.wires[channel].working -= 1;
        Some(self.end(channel, slot, now))
    }

    /// The end of the channel's transfer: a read is done, a program goes into the array.
    #[inline]
    fn transfer_end(&mut self, channel: usize, now: u64) -> Option<Finished> {
        let wire = &mut self.wires[channel];
        wire.free = now;
        let slot = wire.next as usize;
        self.ready[slot] = NEVER;
        let entry = self.pool.get(self.dies[slot].active);
        if let Kind::Read { .. } = entry.operation.kind {
            return Some(self.end(channel, slot, now));
        }
        let array = entry.array;
        self.work(channel, slot, array, now);
        self.try_suspend(channel, slot, now);
        None
    }

    /// The array of `slot` begins to program or to erase.
    fn work(&mut self, channel: usize, slot: usize, array: Duration, now: u64) {
        self.dies[slot].remaining = array;
        self.works[slot] = after(now, array);
        self.wires[channel].working += 1;
    }

    /// The operation under way on `slot` ends, and the die turns to the next.
    #[inline]
    fn end(&mut self, channel: usize, slot: usize, now: u64) -> Finished {
        let die = &mut self.dies[slot];
        let finished = self.pool.remove(die.active).finished(Instant::from_ns(now));
        die.active = NONE;
        self.outstanding -= 1;
        if !finished.operation.urgent() {
            die.overtaken = 0;
        }
        self.turn(channel, slot, now);
        finished
    }

    /// A die with nothing under way turns to what it serves next.
    #[inline]
    fn turn(&mut self, channel: usize, slot: usize, now: u64) {
        let die = &mut self.dies[slot];
        let others_wait = die.suspended != NONE || !die.others.is_empty();
        if !die.urgent.is_empty() && (!others_wait || die.overtaken < self.scheduling.overtaken_max) {
            die.overtaken += u32::from(others_wait);
            let entry = die.urgent.pop(&self.pool);
            self.begin(channel, slot, entry, now);
        } else if die.suspended != NONE {
            self.resume(channel, slot, now);
        } else if !die.others.is_empty() {
            let entry = die.others.pop(&self.pool);
            self.begin(channel, slot, entry, now);
        }
    }

    /// `entry` is under way on `slot` from `at`.
    #[inline]
    pub(super) fn begin(&mut self, channel: usize, slot: usize, entry: u32, at: u64) {
        self.dies[slot].active = entry;
        let entry = self.pool.get(entry);
        self.transfers[slot] = entry.transfer.as_ns();
        match entry.operation.kind {
            Kind::Read { .. } => self.ready[slot] = after(at, entry.array),
            Kind::Program { .. } => self.ready[slot] = at,
            Kind::Erase => {
                let array = entry.array;
                self.work(channel, slot, array, at);
            }
        }
    }

    /// Suspends the array's work on `slot` for the eldest urgent read that waits there, where that is a choice, allowed
    /// and worth it; says whether it did.
    pub(super) fn try_suspend(&mut self, channel: usize, slot: usize, now: u64) -> bool {
        let Some(suspend) = self.scheduling.suspend else { return false };
        let die = &mut self.dies[slot];
        let end = self.works[slot];
        if end == NEVER || die.urgent.is_empty() || die.overtaken >= self.scheduling.overtaken_max {
            return false;
        }
        let allowed = match self.pool.get(die.active).operation.kind {
            Kind::Program { .. } => suspend.programs,
            Kind::Erase => suspend.erases,
            Kind::Read { .. } => unreachable!("a read asks for the channel, so its array is not in `works`"),
        };
        let left = Duration::from_ns(end - now);
        if !allowed || left <= suspend.t_suspend {
            return false;
        }
        // Suspended while it was being resumed, it has made no progress.
        die.remaining = die.remaining.min(left);
        die.suspended = die.active;
        die.overtaken += 1;
        let entry = die.urgent.pop(&self.pool);
        self.works[slot] = NEVER;
        self.wires[channel].working -= 1;
        self.begin(channel, slot, entry, after(now, suspend.t_suspend));
        true
    }

    /// The array of `slot` works on at what was suspended.
    fn resume(&mut self, channel: usize, slot: usize, now: u64) {
        let t_resume = self.scheduling.suspend.map_or(Duration::ZERO, |suspend| suspend.t_resume);
        let die = &mut self.dies[slot];
        die.active = die.suspended;
        die.suspended = NONE;
        self.works[slot] = after(after(now, t_resume), die.remaining);
        self.wires[channel].working += 1;
    }

    /// Reckons a channel's next transfer and next event anew.
    #[inline]
    pub(super) fn reckon(&mut self, channel: usize) {
        let (ready, slot) = self.eldest(channel);
        let wire = &mut self.wires[channel];
        wire.next = slot as u32;
        let mut due = wire.transfer_end(ready, self.transfers[slot]);
        if wire.working > 0 {
            due = self.works[self.slots(channel)].iter().copied().fold(due, u64::min);
        }
        self.due[channel] = due;
    }

    /// Of the dies that ask for the channel, or will, the one to go next: ready first, submitted first.
    #[inline]
    fn eldest(&self, channel: usize) -> (u64, usize) {
        let slots = self.slots(channel);
        // No branches: which die is next cannot be predicted.
        let (mut best, mut at, mut tie) = (NEVER, 0, false);
        for (place, &ready) in self.ready[slots.clone()].iter().enumerate() {
            let before = ready < best;
            tie = (tie & !before) | (ready == best);
            best = if before { ready } else { best };
            at = if before { place } else { at };
        }
        let slot = slots.start + at;
        if tie && best != NEVER { (best, self.first_submitted(slots, best)) } else { (best, slot) }
    }

    /// Of the dies that are ready at the same instant, the one whose operation was submitted first.
    #[cold]
    fn first_submitted(&self, slots: Range<usize>, ready: u64) -> usize {
        slots
            .filter(|&slot| self.ready[slot] == ready)
            .min_by_key(|&slot| self.pool.get(self.dies[slot].active).number)
            .expect("two of them are ready then")
    }

    /// `slot`, which was idle, has begun something.
    ///
    /// What is ready at the same instant as the next transfer was submitted before this, and stays next.
    #[inline]
    pub(super) fn notice(&mut self, channel: usize, slot: usize) {
        let wire = &mut self.wires[channel];
        let next = wire.next as usize;
        let ready = self.ready[slot];
        let before = self.due[channel];
        let mut due = before.min(self.works[slot]);
        if ready < self.ready[next] || next == slot {
            wire.next = slot as u32;
            due = wire.transfer_end(ready, self.transfers[slot]);
            if wire.working > 0 {
                due = self.works[self.slots(channel)].iter().copied().fold(due, u64::min);
            }
        }
        self.due[channel] = due;
        let channel = channel as u32;
        if due > before && channel == self.next_channel {
            // It goes first but takes longer than what would have gone.
            self.elect();
        } else if due < self.next_at || (due == self.next_at && channel < self.next_channel) {
            (self.next_at, self.next_channel) = (due, channel);
        }
    }

    /// Finds the earliest event over all channels.
    #[inline]
    pub(super) fn elect(&mut self) {
        let (mut at, mut channel) = (NEVER, 0);
        for (index, &due) in self.due.iter().enumerate() {
            let before = due < at;
            at = if before { due } else { at };
            channel = if before { index as u32 } else { channel };
        }
        (self.next_at, self.next_channel) = (at, channel);
    }
}

#[inline]
pub(super) fn after(at: u64, duration: Duration) -> u64 {
    at.checked_add(duration.as_ns())
        .filter(|&end| end != NEVER)
        .expect("simulated time stays under 584 years")
}
