//! Simulation of dies that share channels, exact to the nanosecond.
//!
//! - A read occupies the array of its die for t_R, then the register of the die until the channel has transferred its
//!   bytes. A program occupies its die while it waits for the channel, while it is transferred, and until the array has
//!   finished its work. An erase occupies only the array. From its start to its end, an operation has its die
//!   to itself, unless it is suspended.
//! - A channel carries one transfer at a time. Among the ready transfers it chooses the one that became ready first,
//!   and among those the one that was submitted first. A transfer that becomes ready at the very instant of the choice
//!   takes part in it.
//! - A die serves operations in the order of arrival, or by [`Scheduling`]: urgent reads first, up to a bound. An
//!   urgent read suspends a program or an erase, in progress or about to start, if the remaining work takes longer than
//!   suspending. The array makes no progress while it is being suspended or resumed.
//!
//! The simulation is event-driven, and its only events are ends of operations. A channel knows the instant at which
//! each of its dies is or will be ready, and hence the next transfer and its end. A later submission can only precede
//! transfers that have not started, because transfers are served in the order in which they become ready.
//!
//! The simulation is exact if array times of reads and transfer times of programs are at least a nanosecond.

mod channel;
mod queue;
mod times;

use super::{Cut, Die, EraseBlock, Finished, Geometry, Kind, Operation, Scheduling, Timing};
use alloc::vec;
use alloc::vec::Vec;
use channel::Channel;
use core::hint::select_unpredictable;
use flashlab_sim::{Duration, Instant};
use queue::{Entry, Pool, Slot};
use serde::{Deserialize, Serialize};
use times::Times;

/// An instant, in nanoseconds, that is never reached.
const NEVER: u64 = u64::MAX;

/// The dies and channels of an array in simulated time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Channels {
    times: Times,
    scheduling: Scheduling,
    /// Location of each die.
    die_addresses: Vec<DieAddress>,
    /// Mask that extracts the die from a block number if the number of dies is a power of two. Otherwise all bits are
    /// set, and a division follows.
    die_mask: u32,
    channels: Vec<Channel>,
    /// Instant of the next end of an operation on each channel, padded to a multiple of eight.
    due: Vec<[u64; 8]>,
    /// Minimum of `due`.
    next_at: u64,
    /// First channel that has this minimum.
    next_channel: u32,
    pool: Pool,
    /// Instant of the last end that was handled.
    handled: u64,
    /// Number of operations submitted so far.
    number: u64,
    outstanding: u32,
}

/// Address of a die: its channel, and its index on the channel.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct DieAddress {
    channel: u32,
    die: u32,
}

impl Channels {
    /// Returns idle dies. `seed` determines the random part of t_R.
    ///
    /// # Panics
    /// Panics if the geometry has no dies; see [`Geometry::check`].
    pub fn new(geometry: &Geometry, timing: &Timing, scheduling: &Scheduling, seed: u64) -> Self {
        let die_count = geometry.die_count();
        assert!(die_count > 0, "the array has no die");
        let address =
            |die| DieAddress { channel: geometry.channel_of(Die(die)), die: die / geometry.channels };
        Channels {
            times: Times::new(timing, seed),
            scheduling: *scheduling,
            die_addresses: (0..die_count).map(address).collect(),
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

    /// Returns the number of operations in flight.
    #[inline]
    pub fn outstanding(&self) -> usize {
        self.outstanding as usize
    }

    /// Returns true if no operation is active or waiting on `die`.
    pub fn idle(&self, die: Die) -> bool {
        let DieAddress { channel, die } = self.die_addresses[die.0 as usize];
        self.channels[channel as usize].idle(die as usize)
    }

    /// Returns the instant at which the next operation ends. Without a further submission, no operation ends and no
    /// scheduling choice is made earlier.
    #[inline]
    pub fn next_due(&self) -> Option<Instant> {
        (self.next_at != NEVER).then_some(Instant::from_ns(self.next_at))
    }

    /// Submits an operation at `now`, which is not earlier than the last submission, the last returned end,
    /// or the last limit up to which all ends were collected.
    ///
    /// # Panics
    /// Panics if an end before `now` has not been collected. The caller first calls [`Channels::complete`] with `now`
    /// as limit until it returns `None` or an operation that ends at `now`.
    #[inline(never)]
    pub fn submit(&mut self, now: Instant, operation: &Operation) {
        self.check_in_time(now);
        let array = self.times.array(operation, self.number);
        self.take(now, operation, array);
    }

    /// Submits an operation with a given array time; see [`Channels::submit`].
    #[inline(never)]
    pub fn submit_lasting(&mut self, now: Instant, operation: &Operation, array: Duration) {
        self.check_in_time(now);
        self.take(now, operation, array);
    }

    /// Submits an urgent read ahead of its arrival at `at`; see [`Channels::submit`]. Ends before `at` need
    /// not have been collected. The caller guarantees that no later submission has an earlier instant, and
    /// that the die serves nothing but urgent reads.
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
        let DieAddress { channel: index, die } = self.die_address(operation.block);
        let entry =
            Entry { operation: *operation, submitted: now, array, transfer, number: self.number, next: None };
        let entry = self.pool.insert(entry);
        self.number += 1;
        self.outstanding += 1;
        let (index, die) = (index as usize, die as usize);
        let (channel, pool) = (&mut self.channels[index], &mut self.pool);
        if channel.idle(die) {
            self.begin(index, die, entry, now_ns);
        } else if self.scheduling.reads_first && operation.urgent() {
            channel.wait_urgently(die, entry, pool);
            if let Some(suspend) = self.scheduling.suspend {
                channel.try_suspend(die, now_ns, &suspend, self.scheduling.overtaken_max, pool);
                self.reckon(index);
            }
        } else {
            channel.wait(die, entry, pool);
        }
    }

    /// Starts an operation at its submission.
    #[inline(never)]
    fn begin(&mut self, index: usize, die: usize, entry: Slot, now: u64) {
        self.channels[index].begin(die, entry, now, &self.pool);
        self.reckon(index);
    }

    /// Updates the next end on the channel `index` after a submission.
    #[inline]
    fn reckon(&mut self, index: usize) {
        let due = self.channels[index].due();
        self.due.as_flattened_mut()[index] = due;
        if (due, index) < (self.next_at, self.next_channel as usize) {
            (self.next_at, self.next_channel) = (due, index as u32);
        } else if index == self.next_channel as usize && due > self.next_at {
            self.elect();
        }
    }

    /// Returns the next operation that ends at or before `limit`.
    ///
    /// The instants of ends never decrease. Ends at the same instant are ordered by channel, and on a channel
    /// programs and erases come before reads. Applies no change that starts after the returned end, or after
    /// `limit` if there is none.
    #[inline]
    pub fn complete(&mut self, limit: Instant) -> Option<Finished> {
        if self.next_at > limit.as_ns() { None } else { self.end_next() }
    }

    /// Handles and returns the next end of an operation.
    #[inline(never)]
    fn end_next(&mut self) -> Option<Finished> {
        let (now, index) = (self.next_at, self.next_channel as usize);
        if now == NEVER {
            return None;
        }
        (self.handled, self.outstanding) = (now, self.outstanding - 1);
        let channel = &mut self.channels[index];
        let entry = channel.end(now, &self.scheduling, &self.pool);
        self.due.as_flattened_mut()[index] = channel.due();
        self.elect();
        Some(self.pool.remove(entry).finished(Instant::from_ns(now)))
    }

    /// Finds the channel with the earliest end.
    #[inline]
    fn elect(&mut self) {
        (self.next_at, self.next_channel, _) = least(&self.due, |due| *due);
    }

    /// Cuts the power at `now` and returns all operations in flight with their outcomes, in the order of submission.
    /// All dies are idle afterwards.
    ///
    /// # Panics
    /// Panics if an end at or before `now` has not been collected; see [`Channels::submit`].
    pub fn power_cut(&mut self, now: Instant) -> Vec<(Operation, Cut)> {
        let now = now.as_ns();
        assert!(self.next_at > now, "a cut at {now} ns, but something was due: ask `complete` first");
        let mut cut: Vec<(u64, Operation, Cut)> = Vec::with_capacity(self.outstanding());
        for channel in &mut self.channels {
            channel.stop(now, &self.pool, |index, begun| {
                let entry = self.pool.get(index);
                cut.push((entry.number, entry.operation, if begun { Cut::Torn } else { Cut::Void }));
            });
        }
        assert_eq!(cut.len(), self.outstanding(), "the dies do not hold all operations in flight");
        cut.sort_unstable_by_key(|&(number, ..)| number);
        self.pool = Pool::new();
        self.due.fill([NEVER; 8]);
        self.next_at = NEVER;
        self.outstanding = 0;
        cut.into_iter().map(|(_, operation, what)| (operation, what)).collect()
    }

    #[inline]
    fn die_address(&self, block: EraseBlock) -> DieAddress {
        let die = (block.index() & self.die_mask) as usize;
        match self.die_addresses.get(die) {
            Some(address) => *address,
            None => self.die_addresses[die % self.die_addresses.len()],
        }
    }
}

/// Returns the minimum of the instants, and the first and last index that has it.
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

/// Returns the same as [`least`] for one chunk whose first index is `start`. Avoids branches because they would be
/// unpredictable.
#[inline(always)]
fn least_of<T, const N: usize>(some: &[T; N], start: u32, instant: impl Fn(&T) -> u64) -> (u64, u32, u32) {
    let (mut least, mut first, mut last) = (NEVER, start, start);
    for (index, each) in (start..).zip(some) {
        let instant = instant(each);
        let (less, as_little) = (instant < least, instant <= least);
        least = select_unpredictable(less, instant, least);
        first = select_unpredictable(less, index, first);
        last = select_unpredictable(as_little, index, last);
    }
    (least, first, last)
}
