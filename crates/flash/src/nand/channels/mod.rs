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
//! An event-driven simulation whose only events are ends: of transfers, and of arrays that program or erase. A channel
//! knows when each of its dies is ready, or will be, and so which transfer is next and when it ends; what is submitted
//! meanwhile can only come before it while it has not begun, since what becomes ready later goes later.
//! [`Channels::complete`] handles the earliest end over all channels until one is an operation's.

mod events;
mod queue;

use super::{Block, Cut, Die, Finished, Geometry, Kind, Operation, Scheduling, Timing};
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{Duration, Instant, mix};
use queue::{Entry, NONE, Pool, Queue};
use serde::{Deserialize, Serialize};

/// Never, as nanoseconds.
const NEVER: u64 = u64::MAX;

/// The array's dies and channels in simulated time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Channels {
    timing: Timing,
    scheduling: Scheduling,
    seed: u64,
    die_count: u32,
    dies_per_channel: u32,
    /// Where each die's state is.
    places: Vec<Place>,
    /// When each channel's next event is.
    due: Vec<u64>,
    wires: Vec<Wire>,
    /// By slot: since when, or from when, the die asks for the channel, until it has had it.
    ready: Vec<u64>,
    /// By slot: when the array ends a program or an erase.
    works: Vec<u64>,
    dies: Vec<DieState>,
    pool: Pool,
    /// How long the bytes of the last read, and of the last program, held the channel.
    read_transfer: (u32, Duration),
    program_transfer: (u32, Duration),
    /// The earliest of `due`, and the first channel that has it.
    next_at: u64,
    next_channel: u32,
    /// The instant of the last event that was handled.
    handled: u64,
    /// Operations submitted so far.
    number: u64,
    outstanding: u32,
}

/// Where a die's state is: the dies of a channel lie side by side.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Place {
    channel: u32,
    slot: u32,
}

/// What a channel carries and when.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Wire {
    /// When the last transfer ended.
    free: u64,
    /// The earliest of the channel's `works`.
    work_end: u64,
    /// The first slot that has it.
    works: u32,
    /// The slot whose transfer is under way or next, if its die asks.
    next: u32,
}

impl Wire {
    /// A channel without anything to carry, whose dies begin at slot `first`.
    fn idle(free: u64, first: u32) -> Self {
        Wire { free, work_end: NEVER, works: first, next: first }
    }
}

/// What a die does and what waits for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct DieState {
    /// The operation under way, or [`NONE`].
    active: u32,
    /// How long it holds the channel.
    transfer: Duration,
    /// The operation that is suspended, or [`NONE`].
    suspended: u32,
    /// What its array has still to do.
    remaining: Duration,
    /// Urgent reads that went before the eldest of `suspended` and `others`.
    overtaken: u32,
    urgent: Queue,
    others: Queue,
}

impl DieState {
    const IDLE: DieState = DieState {
        active: NONE,
        transfer: Duration::ZERO,
        suspended: NONE,
        remaining: Duration::ZERO,
        overtaken: 0,
        urgent: Queue::EMPTY,
        others: Queue::EMPTY,
    };
}

impl Channels {
    /// Idle dies. `seed` draws the spread of t_R.
    ///
    /// # Panics
    /// Where the geometry has no dies; see [`Geometry::check`].
    pub fn new(geometry: &Geometry, timing: &Timing, scheduling: &Scheduling, seed: u64) -> Self {
        let die_count = geometry.die_count();
        assert!(die_count > 0, "an array has at least one die");
        let places = (0..die_count)
            .map(|die| {
                let channel = geometry.channel_of(Die(die));
                Place { channel, slot: channel * geometry.dies + die / geometry.channels }
            })
            .collect();
        let dies = die_count as usize;
        let channels = geometry.channels as usize;
        Channels {
            timing: *timing,
            scheduling: *scheduling,
            seed: mix(seed),
            die_count,
            dies_per_channel: geometry.dies,
            places,
            due: vec![NEVER; channels],
            wires: (0..geometry.channels).map(|channel| Wire::idle(0, channel * geometry.dies)).collect(),
            ready: vec![NEVER; dies],
            works: vec![NEVER; dies],
            dies: vec![DieState::IDLE; dies],
            pool: Pool::new(),
            read_transfer: (0, timing.transfer(0)),
            program_transfer: (0, timing.transfer(0)),
            next_at: NEVER,
            next_channel: 0,
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
        self.dies[self.places[die.0 as usize].slot as usize].active == NONE
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
    #[inline]
    pub fn submit(&mut self, now: Instant, operation: Operation) {
        let array = match operation.kind {
            Kind::Read { .. } => self.timing.read_at(operation.slc, mix(self.seed ^ self.number)),
            Kind::Program { .. } => self.timing.program(operation.page, operation.slc),
            Kind::Erase => self.timing.t_bers,
        };
        self.submit_lasting(now, operation, array);
    }

    /// As [`Channels::submit`], for an operation whose array time is known to the caller.
    #[inline]
    pub fn submit_lasting(&mut self, now: Instant, operation: Operation, array: Duration) {
        let now_ns = now.as_ns();
        assert!(
            self.next_at >= now_ns,
            "submitted at {now:?}, but something was due before: ask `complete` first"
        );
        debug_assert!(self.handled <= now_ns, "submitted at {now:?}, earlier than what has been handled");
        let transfer = self.transfer(operation.kind);
        let entry = Entry { operation, submitted: now, array, transfer, number: self.number, next: NONE };
        self.number += 1;
        self.outstanding += 1;
        let Place { channel, slot } = self.place_of(operation.block);
        let (channel, slot) = (channel as usize, slot as usize);
        let entry = self.pool.insert(entry);
        if self.dies[slot].active == NONE {
            self.begin(channel, slot, entry, now_ns);
            self.notice(channel);
        } else if self.scheduling.reads_first && operation.urgent() {
            self.dies[slot].urgent.push(&mut self.pool, entry);
            self.try_suspend(channel, slot, now_ns);
            self.notice(channel);
        } else {
            self.dies[slot].others.push(&mut self.pool, entry);
        }
    }

    /// The next operation to end, if it ends not later than `limit`. The instants of ends never decrease; of those that
    /// end at one instant, the one on the lower channel is first, and on a channel programs and erases.
    ///
    /// Commits nothing that starts after min(limit, the instant returned).
    #[inline]
    pub fn complete(&mut self, limit: Instant) -> Option<Finished> {
        while self.next_at <= limit.as_ns() && self.next_at != NEVER {
            let finished = self.step(self.next_channel as usize);
            if finished.is_some() {
                return finished;
            }
        }
        None
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
        for slot in 0..self.dies.len() {
            let begun = self.array_begun(slot, now);
            let die = &mut self.dies[slot];
            let mut note = |place: u32, what: Cut| {
                let entry = self.pool.get(place);
                cut.push((entry.number, entry.operation, what));
            };
            if die.active != NONE {
                note(die.active, if begun { Cut::Torn } else { Cut::Void });
            }
            if die.suspended != NONE {
                note(die.suspended, Cut::Torn);
            }
            for queue in [&mut die.urgent, &mut die.others] {
                while !queue.is_empty() {
                    note(queue.pop(&self.pool), Cut::Void);
                }
            }
        }
        assert_eq!(cut.len(), self.outstanding(), "every operation lies on one die");
        cut.sort_unstable_by_key(|&(number, ..)| number);
        self.stop(now);
        cut.into_iter().map(|(_, operation, what)| (operation, what)).collect()
    }

    /// All dies idle, all channels free from `now`.
    fn stop(&mut self, now: u64) {
        self.pool = Pool::new();
        self.dies.fill(DieState::IDLE);
        self.ready.fill(NEVER);
        self.works.fill(NEVER);
        self.due.fill(NEVER);
        for (wire, first) in self.wires.iter_mut().zip((0..).step_by(self.dies_per_channel as usize)) {
            *wire = Wire::idle(now, first);
        }
        self.next_at = NEVER;
        self.next_channel = 0;
        self.outstanding = 0;
    }

    /// Whether the array had begun the operation under way on `slot` before `now` (or at it).
    fn array_begun(&self, slot: usize, now: u64) -> bool {
        let die = &self.dies[slot];
        if die.active == NONE {
            return false;
        }
        let entry = self.pool.get(die.active);
        match entry.operation.kind {
            // One whose die is being suspended begins later.
            Kind::Read { .. } => self.ready[slot] <= now.saturating_add(entry.array.as_ns()),
            Kind::Program { .. } | Kind::Erase => self.works[slot] != NEVER,
        }
    }

    /// How long an operation holds the channel. Most are of one size: the division is spared.
    #[inline]
    fn transfer(&mut self, kind: Kind) -> Duration {
        let (known, bytes) = match kind {
            Kind::Read { bytes } => (&mut self.read_transfer, bytes),
            Kind::Program { bytes } => (&mut self.program_transfer, bytes),
            Kind::Erase => return Duration::ZERO,
        };
        if known.0 != bytes {
            *known = (bytes, self.timing.transfer(bytes));
        }
        known.1
    }

    #[inline]
    fn place_of(&self, block: Block) -> Place {
        let die = if self.die_count.is_power_of_two() {
            block.0 & (self.die_count - 1)
        } else {
            block.0 % self.die_count
        };
        self.places[die as usize]
    }
}
