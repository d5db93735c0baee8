//! One channel: its bus and its dies.
//!
//! The bus serves requests in order, so the slot of a program on the bus, and hence its end, is fixed as soon as the
//! program requests the bus. The slots of the reads that are ready by then are fixed, too. Among the other reads, the
//! one that is ready first is next as long as no program requests the bus.

use super::queue::{Entry, Pool, Queue, Slot};
use super::{NEVER, least};
use crate::nand::{Kind, Scheduling, Suspend};
use alloc::boxed::Box;
use alloc::vec;
use core::hint::select_unpredictable;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// State of a channel and its dies.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Channel {
    /// Instant up to which the bus is certainly occupied.
    free: u64,
    /// Instant of the last bus request by a program.
    asked: u64,
    /// Number of that program.
    number: u64,
    /// Number of active reads.
    reads: u32,
    /// Die whose read occupies the bus or is next, if any.
    next: u32,
    /// First die among those whose program or erase ends earliest.
    works: u32,
    /// Earliest end of a program or erase.
    work_end: u64,
    /// Dies, padded with idle ones to a multiple of four.
    dies: Box<[Die]>,
}

/// State of a die and its queues. The alignment avoids a multiplication in index calculations.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(align(128))]
struct Die {
    /// Instant at which the read requests the bus, in the past or in the future.
    ready: u64,
    /// Instant at which the read starts its transfer, if that is certain.
    start: u64,
    /// Instant at which the array finishes a program or an erase.
    end: u64,
    /// Instant at which the array starts, or last resumed, the program or erase.
    begun: u64,
    /// Instant at which the last program requested the bus.
    asked: u64,
    /// Transfer time of the read.
    transfer: Duration,
    /// Work that remains for the array from `begun` on.
    remaining: Duration,
    /// Active operation.
    active: Option<Slot>,
    /// Operation that is suspended, or will be as soon as the array has started it.
    suspended: Option<Slot>,
    /// Number of urgent reads that have overtaken the oldest of `suspended` and `others`.
    overtaken: u32,
    urgent: Queue,
    others: Queue,
}

impl Die {
    const IDLE: Die = Die {
        ready: NEVER,
        start: NEVER,
        end: NEVER,
        begun: 0,
        asked: NEVER,
        transfer: Duration::ZERO,
        remaining: Duration::ZERO,
        active: None,
        suspended: None,
        overtaken: 0,
        urgent: Queue::EMPTY,
        others: Queue::EMPTY,
    };

    /// Returns the program that requested the bus last, if it has not ended.
    fn program(&self) -> Option<Slot> {
        self.suspended.or(self.active)
    }

    /// Returns the number of the active operation.
    fn number(&self, pool: &Pool) -> Option<u64> {
        self.active.map(|active| pool.get(active).number)
    }

    /// Calls `each` for every active, suspended and waiting operation, with true if the array had started it by `now`.
    fn operations(&mut self, now: u64, pool: &Pool, mut each: impl FnMut(Slot, bool)) {
        if let Some(active) = self.active {
            let entry = pool.get(active);
            let begun = match entry.operation.kind {
                // A read whose die is still being suspended starts later.
                Kind::Read { .. } => self.ready <= now.saturating_add(entry.array.as_ns()),
                Kind::Program { .. } | Kind::Erase => self.begun <= now,
            };
            each(active, begun);
        }
        if let Some(suspended) = self.suspended {
            each(suspended, self.begun <= now);
        }
        for queue in [&mut self.urgent, &mut self.others] {
            while let Some(waiting) = queue.pop(pool) {
                each(waiting, false);
            }
        }
    }
}

impl Channel {
    /// Returns a channel with idle dies and a bus that is free from `free` on.
    pub(super) fn new(dies: u32, free: u64) -> Self {
        Channel {
            free,
            asked: NEVER,
            number: 0,
            reads: 0,
            next: 0,
            works: 0,
            work_end: NEVER,
            dies: vec![Die::IDLE; dies.next_multiple_of(4) as usize].into_boxed_slice(),
        }
    }

    /// Returns true if no operation is active or waiting on `die`.
    #[inline]
    pub(super) fn idle(&self, die: usize) -> bool {
        self.dies[die].active.is_none()
    }

    /// Drops all operations at `now`. Calls `each` for every operation, with true if the array had started
    /// the operation.
    pub(super) fn stop(&mut self, now: u64, pool: &Pool, mut each: impl FnMut(Slot, bool)) {
        self.dies.iter_mut().for_each(|die| die.operations(now, pool, &mut each));
        *self = Channel::new(self.dies.len() as u32, now);
    }

    /// Returns the instant at which the next operation ends.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        let next = &self.dies[self.next as usize];
        // A saturated sum means that the die requests nothing.
        let start = self.free.max(next.ready).min(next.start);
        start.saturating_add(next.transfer.as_ns()).min(self.work_end)
    }

    /// Ends an operation that is due at `now` and returns its entry. Programs and erases end before reads.
    #[inline]
    pub(super) fn end(&mut self, now: u64, scheduling: &Scheduling, pool: &Pool) -> Slot {
        let die = if self.work_end == now {
            let die = self.works as usize;
            self.dies[die].end = NEVER;
            self.choose_work();
            die
        } else {
            let die = self.next as usize;
            self.free = self.free.max(now);
            let read = &mut self.dies[die];
            (read.ready, read.start) = (NEVER, NEVER);
            self.reads -= 1;
            if self.reads > 0 {
                self.choose_read(pool);
            }
            die
        };
        let ended = &mut self.dies[die];
        let entry = ended.active.take().expect("the operation that ends is active");
        if ended.overtaken > 0 && !pool.get(entry).operation.urgent() {
            ended.overtaken = 0;
        }
        self.turn(die, now, scheduling, pool);
        entry
    }

    /// Selects the next operation of an idle die.
    #[inline]
    fn turn(&mut self, die: usize, now: u64, scheduling: &Scheduling, pool: &Pool) {
        let turning = &mut self.dies[die];
        let others_wait = turning.suspended.is_some() || !turning.others.is_empty();
        let queue =
            if !turning.urgent.is_empty() && (!others_wait || turning.overtaken < scheduling.overtaken_max) {
                turning.overtaken += u32::from(others_wait);
                &mut turning.urgent
            } else if turning.suspended.is_some() {
                return self.resume(die, now, scheduling);
            } else {
                &mut turning.others
            };
        if let Some(entry) = queue.pop(pool) {
            // An operation that was submitted ahead of time may not have arrived yet.
            let begins = now.max(pool.get(entry).submitted.as_ns());
            self.begin(die, entry, begins, pool);
        }
    }

    /// Resumes the suspended operation of `die`.
    #[inline(never)]
    fn resume(&mut self, die: usize, now: u64, scheduling: &Scheduling) {
        let t_resume = scheduling.suspend.map_or(Duration::ZERO, |suspend| suspend.t_resume);
        let resuming = &mut self.dies[die];
        resuming.active = resuming.suspended.take();
        resuming.begun = now;
        let end = after(after(now, t_resume), resuming.remaining);
        self.work_until(die, end);
    }

    /// Starts `entry` on `die` at `at`.
    #[inline(always)]
    pub(super) fn begin(&mut self, die: usize, entry: Slot, at: u64, pool: &Pool) {
        let beginning = &mut self.dies[die];
        beginning.active = Some(entry);
        let entry = pool.get(entry);
        match entry.operation.kind {
            Kind::Read { .. } => {
                beginning.transfer = entry.transfer;
                beginning.ready = after(at, entry.array);
                self.ask(die, entry.number, pool);
            }
            Kind::Program { .. } => {
                beginning.asked = at;
                if self.asked == at && entry.number < self.number {
                    return self.slip_in(die, at, entry, pool);
                }
                (self.asked, self.number) = (at, entry.number);
                if self.dies[self.next as usize].ready <= at {
                    self.free = settle_reads(&mut self.dies, self.free, (at, Some(entry.number)), pool);
                }
                self.free = after(self.free.max(at), entry.transfer);
                self.work(die, self.free, entry.array);
            }
            Kind::Erase => self.work(die, at, entry.array),
        }
    }

    /// Starts a program or an erase in the array of `die` at `at`.
    #[inline]
    fn work(&mut self, die: usize, at: u64, array: Duration) {
        (self.dies[die].begun, self.dies[die].remaining) = (at, array);
        self.work_until(die, after(at, array));
    }

    /// Sets the end of the program or erase in the array of `die`.
    #[inline]
    fn work_until(&mut self, die: usize, end: u64) {
        self.dies[die].end = end;
        if end < self.work_end || (end == self.work_end && (die as u32) < self.works) {
            (self.work_end, self.works) = (end, die as u32);
        }
    }

    /// Finds the program or erase with the earliest end.
    #[inline]
    fn choose_work(&mut self) {
        let (end, first, _) = least(self.dies.as_chunks::<4>().0, |die| die.end);
        (self.work_end, self.works) = (end, first);
    }

    /// Requests the bus for the read of `die`.
    #[inline]
    fn ask(&mut self, die: usize, number: u64, pool: &Pool) {
        self.reads += 1;
        let (ready, first) = (self.dies[die].ready, &self.dies[self.next as usize]);
        let mut is_first = ready < first.ready;
        if ready == first.ready && die != self.next as usize {
            is_first = first.active.is_none_or(|active| number <= pool.get(active).number);
        }
        // A branch here would be unpredictable.
        self.next = select_unpredictable(is_first, die as u32, self.next);
    }

    /// Chooses the next read: the one that is ready first, and among equals the one that was submitted first.
    #[inline]
    fn choose_read(&mut self, pool: &Pool) {
        let (ready, first, last) = least(self.dies.as_chunks::<4>().0, |die| die.ready);
        self.next = if first == last || ready == NEVER { first } else { self.first_submitted(ready, pool) };
    }

    /// Returns the die of the read that was submitted first among those that are ready at the instant `ready`.
    #[cold]
    fn first_submitted(&self, ready: u64, pool: &Pool) -> u32 {
        let ready = (0..).zip(&self.dies).filter(|(_, die)| die.ready == ready);
        ready.min_by_key(|(_, die)| die.number(pool)).expect("at least two dies are ready").0
    }

    /// Inserts the program of `entry` before programs that requested the bus at the same instant `now` but were
    /// submitted later. Their transfers, and those of the reads between them, are delayed accordingly.
    #[cold]
    fn slip_in(&mut self, die: usize, now: u64, entry: &Entry, pool: &Pool) {
        let (mut start, delay) = (self.free, entry.transfer.as_ns());
        for die in &mut self.dies {
            let later =
                |other: Option<Slot>| other.is_some_and(|other| pool.get(other).number > entry.number);
            if die.asked == now && later(die.program()) {
                start -= die.program().map_or(0, |program| pool.get(program).transfer.as_ns());
                die.begun += delay;
                // Only one of `end` and `ready` is set. Either the program has an end, or it is suspended as
                // soon as it has started, and the read for which it is suspended has a ready instant.
                die.end = die.end.saturating_add(delay);
                die.ready = die.ready.saturating_add(delay);
            } else if die.ready == now && die.start != NEVER && later(die.active) {
                start -= die.transfer.as_ns();
                die.start += delay;
            }
        }
        self.free = after(self.free, entry.transfer);
        self.choose_work();
        self.choose_read(pool);
        self.work(die, after(start, entry.transfer), entry.array);
    }

    /// Queues `entry` on `die`.
    #[inline]
    pub(super) fn wait(&mut self, die: usize, entry: Slot, pool: &mut Pool) {
        self.dies[die].others.push(pool, entry);
    }

    /// Queues the urgent read `entry` on `die`.
    #[inline]
    pub(super) fn wait_urgently(&mut self, die: usize, entry: Slot, pool: &mut Pool) {
        self.dies[die].urgent.push(pool, entry);
    }

    /// Suspends the program or erase of `die` for its oldest urgent read, if the profile allows it and the remaining
    /// work takes longer than suspending. The suspension starts at `now`, or with the start of the work if that is
    /// later.
    #[inline(never)]
    pub(super) fn try_suspend(
        &mut self,
        die: usize,
        now: u64,
        suspend: &Suspend,
        overtaken_max: u32,
        pool: &Pool,
    ) {
        let working = &mut self.dies[die];
        if working.end == NEVER || working.urgent.is_empty() || working.overtaken >= overtaken_max {
            return;
        }
        let active = working.active.expect("the array of an idle die has no `end`");
        let allowed = match pool.get(active).operation.kind {
            Kind::Program { .. } => suspend.programs,
            Kind::Erase => suspend.erases,
            Kind::Read { .. } => unreachable!("a read asks for the channel, so its array has no `end`"),
        };
        let at = now.max(working.begun);
        let left = Duration::from_ns(working.end - at);
        if !allowed || left <= suspend.t_suspend {
            return;
        }
        // An operation that is suspended while it is being resumed has made no progress.
        working.remaining = working.remaining.min(left);
        working.suspended = Some(active);
        working.overtaken += 1;
        working.end = NEVER;
        let entry = working.urgent.pop(pool).expect("an urgent read waits");
        self.choose_work();
        self.begin(die, entry, after(at, suspend.t_suspend), pool);
    }
}

/// Fixes the bus slots of the reads that precede a program; `before` is the instant of the program's request and its
/// number. Returns the instant up to which the bus is then occupied.
#[inline(never)]
fn settle_reads(dies: &mut [Die], mut free: u64, before: (u64, Option<u64>), pool: &Pool) -> u64 {
    let order = |die: &Die| (die.ready, die.number(pool));
    let waits = |die: &&mut Die| die.ready <= before.0 && die.start == NEVER && order(die) < before;
    while let Some(read) = dies.iter_mut().filter(waits).min_by_key(|die| order(die)) {
        read.start = free.max(read.ready);
        free = after(read.start, read.transfer);
    }
    free
}

#[inline]
fn after(at: u64, duration: Duration) -> u64 {
    at.checked_add(duration.as_ns())
        .filter(|&end| end != NEVER)
        .expect("simulated time stays under 584 years")
}
