//! What happens on a channel and its dies, one event at a time.

use super::queue::NONE;
use super::{Channels, NEVER};
use crate::nand::{Finished, Kind};
use core::hint::select_unpredictable;
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
        self.handled = now;
        let ended = if self.wires[channel].work_end == now {
            Some(self.array_end(channel, now))
        } else {
            self.transfer_end(channel, now)
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

    /// The end of the channel's earliest program or erase.
    #[inline]
    fn array_end(&mut self, channel: usize, now: u64) -> Finished {
        let slot = self.wires[channel].works as usize;
        self.rest(channel, slot);
        self.end(channel, slot, now)
    }

    /// The end of the channel's transfer: a read is done, a program goes into the array.
    #[inline]
    fn transfer_end(&mut self, channel: usize, now: u64) -> Option<Finished> {
        let wire = &mut self.wires[channel];
        wire.free = now;
        let slot = wire.next as usize;
        self.ready[slot] = NEVER;
        self.choose(channel);
        let entry = self.pool.get(self.dies[slot].active);
        if let Kind::Read { .. } = entry.operation.kind {
            return Some(self.end(channel, slot, now));
        }
        let array = entry.array;
        self.dies[slot].remaining = array;
        self.work(channel, slot, after(now, array));
        if self.scheduling.suspend.is_some() {
            self.try_suspend(channel, slot, now);
        }
        None
    }

    /// The die of `slot` asks for the channel from `ready` on.
    #[inline]
    fn ask(&mut self, channel: usize, slot: usize, ready: u64) {
        self.ready[slot] = ready;
        let next = self.wires[channel].next as usize;
        let first = self.ready[next];
        if ready < first || (ready == first && self.number(slot) <= self.number(next)) {
            self.wires[channel].next = slot as u32;
        }
    }

    fn number(&self, slot: usize) -> u64 {
        self.pool.get(self.dies[slot].active).number
    }

    /// Chooses the channel's next transfer anew: of the dies that ask, or will, the one ready first, submitted first.
    #[inline]
    fn choose(&mut self, channel: usize) {
        let slots = self.slots(channel);
        let (ready, first, last) = least(&self.ready[slots.clone()]);
        let tie = first != last && ready != NEVER;
        let next = if tie { self.first_submitted(slots, ready) } else { slots.start + first };
        self.wires[channel].next = next as u32;
    }

    /// Of the dies that are ready at the same instant, the one whose operation was submitted first.
    #[cold]
    fn first_submitted(&self, slots: Range<usize>, ready: u64) -> usize {
        let ready = slots.filter(|&slot| self.ready[slot] == ready);
        ready.min_by_key(|&slot| self.number(slot)).expect("two of them are ready then")
    }

    /// The array of `slot` programs or erases until `end`.
    #[inline]
    fn work(&mut self, channel: usize, slot: usize, end: u64) {
        self.works[slot] = end;
        let wire = &mut self.wires[channel];
        if end < wire.work_end || (end == wire.work_end && (slot as u32) < wire.works) {
            (wire.work_end, wire.works) = (end, slot as u32);
        }
    }

    /// The array of `slot` no longer programs or erases.
    #[inline]
    fn rest(&mut self, channel: usize, slot: usize) {
        self.works[slot] = NEVER;
        if self.wires[channel].works as usize != slot {
            return;
        }
        let slots = self.slots(channel);
        let (end, first, _) = least(&self.works[slots.clone()]);
        let wire = &mut self.wires[channel];
        (wire.work_end, wire.works) = (end, (slots.start + first) as u32);
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
        let die = &mut self.dies[slot];
        die.active = entry;
        let entry = self.pool.get(entry);
        die.transfer = entry.transfer;
        match entry.operation.kind {
            Kind::Read { .. } => self.ask(channel, slot, after(at, entry.array)),
            Kind::Program { .. } => self.ask(channel, slot, at),
            Kind::Erase => {
                let array = entry.array;
                self.dies[slot].remaining = array;
                self.work(channel, slot, after(at, array));
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
        self.rest(channel, slot);
        self.begin(channel, slot, entry, after(now, suspend.t_suspend));
        true
    }

    /// The array of `slot` works on at what was suspended.
    fn resume(&mut self, channel: usize, slot: usize, now: u64) {
        let t_resume = self.scheduling.suspend.map_or(Duration::ZERO, |suspend| suspend.t_resume);
        let die = &mut self.dies[slot];
        die.active = die.suspended;
        die.suspended = NONE;
        let end = after(after(now, t_resume), die.remaining);
        self.work(channel, slot, end);
    }

    /// Reckons when a channel's next event is.
    #[inline]
    pub(super) fn reckon(&mut self, channel: usize) {
        let wire = &self.wires[channel];
        let next = wire.next as usize;
        // An end beyond all time is none: a die that never asks.
        let transfer_end = self.ready[next].max(wire.free).saturating_add(self.dies[next].transfer.as_ns());
        self.due[channel] = transfer_end.min(wire.work_end);
    }

    /// Reckons a channel's next event, and the earliest of all, after a submission.
    #[inline]
    pub(super) fn notice(&mut self, channel: usize) {
        let before = self.due[channel];
        self.reckon(channel);
        let due = self.due[channel];
        let channel = channel as u32;
        if channel == self.next_channel && due > before {
            // What goes first now takes longer than what would have gone, or a program was suspended.
            self.elect();
        } else {
            let earlier = (due < self.next_at) | ((due == self.next_at) & (channel < self.next_channel));
            self.next_at = select_unpredictable(earlier, due, self.next_at);
            self.next_channel = select_unpredictable(earlier, channel, self.next_channel);
        }
    }

    /// Finds the earliest event over all channels.
    #[inline]
    pub(super) fn elect(&mut self) {
        let (due, first, _) = least(&self.due);
        (self.next_at, self.next_channel) = (due, first as u32);
    }
}

#[inline]
pub(super) fn after(at: u64, duration: Duration) -> u64 {
    at.checked_add(duration.as_ns())
        .filter(|&end| end != NEVER)
        .expect("simulated time stays under 584 years")
}

/// The least of some instants, and the first and the last place that has it. No branches: which it is cannot be
/// predicted.
#[inline(always)]
fn least(instants: &[u64]) -> (u64, usize, usize) {
    let (mut least, mut first, mut last) = (NEVER, 0, 0);
    for (place, &instant) in instants.iter().enumerate() {
        let (less, as_little) = (instant < least, instant <= least);
        least = select_unpredictable(less, instant, least);
        first = select_unpredictable(less, place, first);
        last = select_unpredictable(as_little, place, last);
    }
    (least, first, last)
}
