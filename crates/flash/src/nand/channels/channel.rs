//! One channel: its wire and its dies, one end of an operation at a time.
//!
//! A program has its place on the wire, and hence its end, as soon as it asks: what asks later goes later. The reads that
//! are ready by then have theirs too; of the others, the one that is ready first is next for as long as no program asks.

use super::queue::{Entry, NONE, Pool, Queue};
use super::{NEVER, least};
use crate::nand::{Kind, Scheduling, Suspend};
use alloc::boxed::Box;
use alloc::vec;
use core::hint::select_unpredictable;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// What a channel carries and what its dies do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Channel {
    /// Until when the wire is taken, as far as it is certain.
    free: u64,
    /// When the last program asked for it, and its number.
    asked: u64,
    number: u64,
    /// Reads under way.
    reads: u32,
    /// The die whose read is on the wire or goes next, if there is one.
    next: u32,
    /// The first die whose program or erase ends first.
    works: u32,
    /// When that is.
    work_end: u64,
    /// Idle ones fill up four.
    dies: Box<[Die]>,
}

/// What a die does and what waits for it. Aligned, it is found without a multiplication.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[repr(align(128))]
struct Die {
    /// Since when, or from when, its read asks for the wire.
    ready: u64,
    /// When its read has the wire, if that is certain.
    start: u64,
    /// When its array ends a program or an erase.
    end: u64,
    /// When the array began it, or will, or went on with it last.
    begun: u64,
    /// When its last program asked for the wire.
    asked: u64,
    /// How long its read holds the wire.
    transfer: Duration,
    /// What the array has to do from `begun` on.
    remaining: Duration,
    /// The operation under way, or [`NONE`].
    active: u32,
    /// The operation that is suspended, or will be when the array has begun it, or [`NONE`].
    suspended: u32,
    /// Urgent reads that went before the eldest of `suspended` and `others`.
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
        active: NONE,
        suspended: NONE,
        overtaken: 0,
        urgent: Queue::EMPTY,
        others: Queue::EMPTY,
    };

    /// The program that asked last, if it is not done.
    fn program(&self) -> u32 {
        if self.suspended == NONE { self.active } else { self.suspended }
    }

    /// Hands out all it does and all that waits, each with whether the array had begun it by `now`.
    fn operations(&mut self, now: u64, pool: &Pool, mut each: impl FnMut(u32, bool)) {
        if self.active != NONE {
            let entry = pool.get(self.active);
            let begun = match entry.operation.kind {
                // One whose die is being suspended begins later.
                Kind::Read { .. } => self.ready <= now.saturating_add(entry.array.as_ns()),
                Kind::Program { .. } | Kind::Erase => self.begun <= now,
            };
            each(self.active, begun);
        }
        if self.suspended != NONE {
            each(self.suspended, self.begun <= now);
        }
        for queue in [&mut self.urgent, &mut self.others] {
            while !queue.is_empty() {
                each(queue.pop(pool), false);
            }
        }
    }
}

impl Channel {
    /// Idle dies, and a wire that is free from `free`.
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

    /// Whether nothing is under way or waits on `die`.
    #[inline]
    pub(super) fn idle(&self, die: usize) -> bool {
        self.dies[die].active == NONE
    }

    /// Stops all at `now`: each operation, and whether the array had begun it.
    pub(super) fn stop(&mut self, now: u64, pool: &Pool, mut each: impl FnMut(u32, bool)) {
        self.dies.iter_mut().for_each(|die| die.operations(now, pool, &mut each));
        *self = Channel::new(self.dies.len() as u32, now);
    }

    /// When an operation ends next.
    #[inline]
    pub(super) fn due(&self) -> u64 {
        let next = &self.dies[self.next as usize];
        // An end beyond all time is none: a die that does not ask.
        let start = self.free.max(next.ready).min(next.start);
        start.saturating_add(next.transfer.as_ns()).min(self.work_end)
    }

    /// Ends the operation that is due at `now`, of several, programs and erases first; returns its entry.
    #[inline]
    pub(super) fn end(&mut self, now: u64, scheduling: &Scheduling, pool: &Pool) -> u32 {
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
        let entry = core::mem::replace(&mut ended.active, NONE);
        if ended.overtaken > 0 && !pool.get(entry).operation.urgent() {
            ended.overtaken = 0;
        }
        self.turn(die, now, scheduling, pool);
        entry
    }

    /// A die with nothing under way turns to what it serves next.
    #[inline]
    fn turn(&mut self, die: usize, now: u64, scheduling: &Scheduling, pool: &Pool) {
        let turning = &mut self.dies[die];
        let others_wait = turning.suspended != NONE || !turning.others.is_empty();
        let queue =
            if !turning.urgent.is_empty() && (!others_wait || turning.overtaken < scheduling.overtaken_max) {
                turning.overtaken += u32::from(others_wait);
                &mut turning.urgent
            } else if turning.suspended != NONE {
                return self.resume(die, now, scheduling);
            } else {
                &mut turning.others
            };
        if !queue.is_empty() {
            let entry = queue.pop(pool);
            // One that was told ahead of time may not have come yet.
            let begins = now.max(pool.get(entry).submitted.as_ns());
            self.begin(die, entry, begins, pool);
        }
    }

    /// The array of `die` goes on with what was suspended.
    #[inline(never)]
    fn resume(&mut self, die: usize, now: u64, scheduling: &Scheduling) {
        let t_resume = scheduling.suspend.map_or(Duration::ZERO, |suspend| suspend.t_resume);
        let resuming = &mut self.dies[die];
        resuming.active = resuming.suspended;
        resuming.suspended = NONE;
        resuming.begun = now;
        let end = after(after(now, t_resume), resuming.remaining);
        self.work_until(die, end);
    }

    /// `entry` is under way on `die` from `at`.
    #[inline(always)]
    pub(super) fn begin(&mut self, die: usize, entry: u32, at: u64, pool: &Pool) {
        let beginning = &mut self.dies[die];
        beginning.active = entry;
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
                    self.free = settle_reads(&mut self.dies, self.free, (at, entry.number), pool);
                }
                self.free = after(self.free.max(at), entry.transfer);
                self.work(die, self.free, entry.array);
            }
            Kind::Erase => self.work(die, at, entry.array),
        }
    }

    /// The array of `die` programs or erases from `at`.
    #[inline]
    fn work(&mut self, die: usize, at: u64, array: Duration) {
        (self.dies[die].begun, self.dies[die].remaining) = (at, array);
        self.work_until(die, after(at, array));
    }

    /// The array of `die` programs or erases until `end`.
    #[inline]
    fn work_until(&mut self, die: usize, end: u64) {
        self.dies[die].end = end;
        if end < self.work_end || (end == self.work_end && (die as u32) < self.works) {
            (self.work_end, self.works) = (end, die as u32);
        }
    }

    /// Finds the program or erase that ends first anew.
    #[inline]
    fn choose_work(&mut self) {
        let (end, first, _) = least(self.dies.as_chunks::<4>().0, |die| die.end);
        (self.work_end, self.works) = (end, first);
    }

    /// The read of `die` asks for the wire.
    #[inline]
    fn ask(&mut self, die: usize, number: u64, pool: &Pool) {
        self.reads += 1;
        let (ready, first) = (self.dies[die].ready, &self.dies[self.next as usize]);
        let mut is_first = ready < first.ready;
        if ready == first.ready && die != self.next as usize {
            is_first = number <= pool.get(first.active).number;
        }
        // No branch: which it is cannot be predicted.
        self.next = select_unpredictable(is_first, die as u32, self.next);
    }

    /// Chooses the next read anew: of the dies that ask, or will, the one ready first, submitted first.
    #[inline]
    fn choose_read(&mut self, pool: &Pool) {
        let (ready, first, last) = least(self.dies.as_chunks::<4>().0, |die| die.ready);
        self.next = if first == last || ready == NEVER { first } else { self.first_submitted(ready, pool) };
    }

    /// Of the reads that are ready at one instant, the one that was submitted first.
    #[cold]
    fn first_submitted(&self, ready: u64, pool: &Pool) -> u32 {
        let ready = (0..).zip(&self.dies).filter(|(_, die)| die.ready == ready);
        ready.min_by_key(|(_, die)| pool.get(die.active).number).expect("two of them are ready then").0
    }

    /// The program of `entry` asks for the wire at `now`, where programs that ask at the same instant have asked already,
    /// but were submitted later: they, and the reads between them, have the wire so much later.
    #[cold]
    fn slip_in(&mut self, die: usize, now: u64, entry: &Entry, pool: &Pool) {
        let (mut start, delay) = (self.free, entry.transfer.as_ns());
        for die in &mut self.dies {
            let later = |other: u32| pool.get(other).number > entry.number;
            if die.asked == now && later(die.program()) {
                start -= pool.get(die.program()).transfer.as_ns();
                die.begun += delay;
                // One of the two: the program's end, or the read for which it is suspended when it has begun.
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

    /// `entry` waits for its turn on `die`.
    #[inline]
    pub(super) fn wait(&mut self, die: usize, entry: u32, pool: &mut Pool) {
        self.dies[die].others.push(pool, entry);
    }

    /// As [`Channel::wait`], before what is not urgent.
    #[inline]
    pub(super) fn wait_urgently(&mut self, die: usize, entry: u32, pool: &mut Pool) {
        self.dies[die].urgent.push(pool, entry);
    }

    /// Suspends the array's work on `die` for the eldest urgent read that waits there, at `now` or, if it has not begun
    /// by then, when it begins, where that is a choice, allowed and worth it.
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
        let allowed = match pool.get(working.active).operation.kind {
            Kind::Program { .. } => suspend.programs,
            Kind::Erase => suspend.erases,
            Kind::Read { .. } => unreachable!("a read asks for the channel, so its array has no `end`"),
        };
        let at = now.max(working.begun);
        let left = Duration::from_ns(working.end - at);
        if !allowed || left <= suspend.t_suspend {
            return;
        }
        // Suspended while it was being resumed, it has made no progress.
        working.remaining = working.remaining.min(left);
        working.suspended = working.active;
        working.overtaken += 1;
        working.end = NEVER;
        let entry = working.urgent.pop(pool);
        self.choose_work();
        self.begin(die, entry, after(at, suspend.t_suspend), pool);
    }
}

/// The reads that have the wire before the program that asks with `before`, an instant and a number, are certain to have
/// it; returns until when it is taken.
#[inline(never)]
fn settle_reads(dies: &mut [Die], mut free: u64, before: (u64, u64), pool: &Pool) -> u64 {
    let order = |die: &Die| (die.ready, pool.get(die.active).number);
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
