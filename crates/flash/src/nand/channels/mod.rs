//! Dies that share channels, exact to the nanosecond.
//!
//! - A read takes its die's array for t_R, holds the die's register until the channel has carried its bytes, and is then
//!   done. A program waits for the channel with its die taken, is transferred, and is done when the array is. An erase
//!   takes the array only. Between its beginning and its end an operation has its die to itself.
//! - A channel carries one transfer at a time, and of those that are ready the one that was ready first; of those, the
//!   one submitted first. What becomes ready at the instant at which the channel is given away takes part.
//! - A die serves in the order of arrival, or as [`Scheduling`] says: urgent reads first, up to a bound; an urgent read
//!   that arrives while the array programs or erases, or waits when it begins to, suspends it, if more is left to do than
//!   suspending takes. The array does nothing while it is being suspended or resumed.
//!
//! An event-driven simulation whose only events are ends of operations. A channel knows when each of its dies is ready,
//! or will be, and so what is transferred next and when that ends; what is submitted meanwhile can only come before what
//! has not begun, since what becomes ready later goes later.
//!
//! Exact for reads whose array time and programs whose transfer take a nanosecond or more.

mod channel;
mod queue;
mod times;

use super::{Block, Cut, Die, Finished, Geometry, Kind, Operation, Scheduling, Timing};
use alloc::vec;
use alloc::vec::Vec;
use channel::Channel;
use core::hint::select_unpredictable;
use flashlab_sim::{Duration, Instant};
use queue::{Entry, NONE, Pool};
use serde::{Deserialize, Serialize};
use times::Times;

/// Never, as nanoseconds.
const NEVER: u64 = u64::MAX;

/// The array's dies and channels in simulated time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Channels {
    times: Times,
    scheduling: Scheduling,
    /// By die.
    places: Vec<Place>,
    /// What of a block's number is its die's, where there are a power of two; else all of it, and a division follows.
    die_mask: u32,
    channels: Vec<Channel>,
    /// When an operation ends next, by channel. Some more fill up the last eight.
    due: Vec<[u64; 8]>,
    /// The earliest of `due`, and the first channel that has it.
    next_at: u64,
    next_channel: u32,
    pool: Pool,
    /// The instant of the last end that was handled.
    handled: u64,
    /// Operations submitted so far.
    number: u64,
    outstanding: u32,
}

/// Where a die is: its channel, and its number there.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    channel: u32,
    die: u32,
}

impl Channels {
    /// Idle dies. `seed` draws the spread of t_R.
    ///
    /// # Panics
    /// Where the geometry has no dies; see [`Geometry::check`].
    pub fn new(geometry: &Geometry, timing: &Timing, scheduling: &Scheduling, seed: u64) -> Self {
        let die_count = geometry.die_count();
        assert!(die_count > 0, "an array has at least one die");
        let place = |die| Place { channel: geometry.channel_of(Die(die)), die: die / geometry.channels };
        Channels {
            times: Times::new(timing, seed),
            scheduling: *scheduling,
            places: (0..die_count).map(place).collect(),
            die_mask: if die_count.is_power_of_two() { die_count - 1 } else { u32::MAX },
            channels: vec![Channel::new(geometry.dies, 0); geometry.channels as usize],
            due: vec![[NEVER; 8]; geometry.channels.div_ceil(8) as usize],
            next_at: NEVER,
            next_channel: 0,
            pool: Pool::new(),
            handled: 0,
            number: 0,
            outstanding: 0,
        }
    }

    /// Operations submitted and not yet returned by [`Channels::complete`].
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.outstanding as usize
    }

    /// Whether nothing is under way or waits on `die`.
    pub fn idle(&self, die: Die) -> bool {
        let Place { channel, die } = self.places[die.0 as usize];
        self.channels[channel as usize].idle(die as usize)
    }

    /// Nothing ends before this instant, unless more is submitted, and no choice is made.
    #[inline]
    pub fn next_due(&self) -> Option<Instant> {
        (self.next_at != NEVER).then_some(Instant::from_ns(self.next_at))
    }

    /// Takes an operation at `now`, which is not earlier than at the last submission, what was last returned, or a limit
    /// up to which all was asked for.
    ///
    /// # Panics
    /// Where something earlier than `now` has not been taken: the caller calls [`Channels::complete`] with `now` as limit
    /// first, until it returns `None` or something that ends at `now`.
    #[inline(never)]
    pub fn submit(&mut self, now: Instant, operation: &Operation) {
        self.check_in_time(now);
        let array = self.times.array(operation, self.number);
        self.take(now, operation, array);
    }

    /// As [`Channels::submit`], for an operation whose array time is known to the caller.
    #[inline(never)]
    pub fn submit_lasting(&mut self, now: Instant, operation: &Operation, array: Duration) {
        self.check_in_time(now);
        self.take(now, operation, array);
    }

    /// As [`Channels::submit`], of an urgent read that comes at `at`, told ahead of time: what is due before need not have
    /// been taken. Nothing is submitted later that comes earlier, and its die has nothing to do but urgent reads.
    #[inline(never)]
    pub fn submit_ahead(&mut self, at: Instant, operation: &Operation) {
        debug_assert!(matches!(operation.kind, Kind::Read { .. }) && operation.urgent());
        let array = self.times.array(operation, self.number);
        self.take(at, operation, array);
    }

    #[inline(always)]
    fn check_in_time(&self, now: Instant) {
        assert!(
            self.next_at >= now.as_ns(),
            "submitted at {now:?}, but something was due before: ask `complete` first"
        );
    }

    #[inline(always)]
    fn take(&mut self, now: Instant, operation: &Operation, array: Duration) {
        let now_ns = now.as_ns();
        debug_assert!(self.handled <= now_ns, "submitted at {now:?}, earlier than what has been handled");
        let transfer = self.times.transfer(operation.kind);
        let Place { channel: place, die } = self.place_of(operation.block);
        let entry =
            Entry { operation: *operation, submitted: now, array, transfer, number: self.number, next: NONE };
        let entry = self.pool.insert(entry);
        self.number += 1;
        self.outstanding += 1;
        let (place, die) = (place as usize, die as usize);
        let (channel, pool) = (&mut self.channels[place], &mut self.pool);
        if channel.idle(die) {
            self.begin(place, die, entry, now_ns);
        } else if self.scheduling.reads_first && operation.urgent() {
            channel.wait_urgently(die, entry, pool);
            if let Some(suspend) = self.scheduling.suspend {
                channel.try_suspend(die, now_ns, &suspend, self.scheduling.overtaken_max, pool);
                self.reckon(place);
            }
        } else {
            channel.wait(die, entry, pool);
        }
    }

    /// An operation begins as soon as it is submitted.
    #[inline(never)]
    fn begin(&mut self, place: usize, die: usize, entry: u32, now: u64) {
        self.channels[place].begin(die, entry, now, &self.pool);
        self.reckon(place);
    }

    /// Reckons when an operation ends next on the channel at `place`, to which one was submitted.
    #[inline]
    fn reckon(&mut self, place: usize) {
        let due = self.channels[place].due();
        self.due.as_flattened_mut()[place] = due;
        if (due, place) < (self.next_at, self.next_channel as usize) {
            (self.next_at, self.next_channel) = (due, place as u32);
        } else if place == self.next_channel as usize && due > self.next_at {
            self.elect();
        }
    }

    /// The next operation to end, if it ends not later than `limit`. The instants of ends never decrease; of those that
    /// end at one instant, the one on the lower channel is first, and on a channel programs and erases.
    ///
    /// Commits nothing that starts after min(limit, the instant returned).
    #[inline]
    pub fn complete(&mut self, limit: Instant) -> Option<Finished> {
        if self.next_at > limit.as_ns() { None } else { self.end_next() }
    }

    /// The next operation to end.
    #[inline(never)]
    fn end_next(&mut self) -> Option<Finished> {
        let (now, place) = (self.next_at, self.next_channel as usize);
        if now == NEVER {
            return None;
        }
        (self.handled, self.outstanding) = (now, self.outstanding - 1);
        let channel = &mut self.channels[place];
        let entry = channel.end(now, &self.scheduling, &self.pool);
        self.due.as_flattened_mut()[place] = channel.due();
        self.elect();
        Some(self.pool.remove(entry).finished(Instant::from_ns(now)))
    }

    /// Finds the channel on which an operation ends first.
    #[inline]
    fn elect(&mut self) {
        (self.next_at, self.next_channel, _) = least(&self.due, |due| *due);
    }

    /// Cuts the power at `now`: everything outstanding, in the order of submission, with what became of it. Afterwards
    /// all dies are idle.
    ///
    /// # Panics
    /// Where something ended before or at `now` and was not taken; see [`Channels::submit`].
    pub fn power_cut(&mut self, now: Instant) -> Vec<(Operation, Cut)> {
        let now = now.as_ns();
        assert!(self.next_at > now, "a cut at {now} ns, but something was due: ask `complete` first");
        let mut cut: Vec<(u64, Operation, Cut)> = Vec::with_capacity(self.outstanding());
        for channel in &mut self.channels {
            channel.stop(now, &self.pool, |place, begun| {
                let entry = self.pool.get(place);
                cut.push((entry.number, entry.operation, if begun { Cut::Torn } else { Cut::Void }));
            });
        }
        assert_eq!(cut.len(), self.outstanding(), "every operation lies on one die");
        cut.sort_unstable_by_key(|&(number, ..)| number);
        self.pool = Pool::new();
        self.due.fill([NEVER; 8]);
        self.next_at = NEVER;
        self.outstanding = 0;
        cut.into_iter().map(|(_, operation, what)| (operation, what)).collect()
    }

    #[inline]
    fn place_of(&self, block: Block) -> Place {
        let die = (block.0 & self.die_mask) as usize;
        match self.places.get(die) {
            Some(place) => *place,
            None => self.places[die % self.places.len()],
        }
    }
}

/// The least of some instants, and the first and the last place that has it.
#[inline(always)]
fn least<T, const N: usize>(all: &[[T; N]], instant: impl Fn(&T) -> u64) -> (u64, u32, u32) {
    let Some((some, more)) = all.split_first() else { return (NEVER, 0, 0) };
    let mut found = least_of(some, 0, &instant);
    for (start, some) in (N as u32..).step_by(N).zip(more) {
        let (least, first, last) = least_of(some, start, &instant);
        if least < found.0 {
            found = (least, first, last);
        } else if least == found.0 {
            found.2 = last;
        }
    }
    found
}

/// As [`least`], of a few whose places begin with `start`. No branches: which it is cannot be predicted.
#[inline(always)]
fn least_of<T, const N: usize>(some: &[T; N], start: u32, instant: impl Fn(&T) -> u64) -> (u64, u32, u32) {
    let (mut least, mut first, mut last) = (NEVER, start, start);
    for (place, each) in (start..).zip(some) {
        let instant = instant(each);
        let (less, as_little) = (instant < least, instant <= least);
        least = select_unpredictable(less, instant, least);
        first = select_unpredictable(less, place, first);
        last = select_unpredictable(as_little, place, last);
    }
    (least, first, last)
}
