//! Slow reference simulator of dies and channels, simple enough to be verified by reading. The simulator searches one
//! list of operations for the next event. [`Channels`](flashlab_flash::nand::Channels) must give the same results.

use flashlab_flash::nand::{Cut, Geometry, Kind, Operation, Scheduling, Timing};
use flashlab_sim::{Duration, Instant};

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Queued,
    /// A read occupies the array until this time.
    Sensing(u64),
    /// The operation has waited for the channel since this time.
    Asking(u64),
    /// The transfer occupies the channel until this time.
    Moving(u64),
    /// A program or an erase occupies the array until this time.
    Working(u64),
    /// A program or an erase is suspended with this much array time left.
    Suspended(u64),
    Done,
}
use State::*;

#[derive(Clone, Debug)]
struct Op {
    operation: Operation,
    submitted: u64,
    array: u64,
    transfer: u64,
    state: State,
    /// Time at which the array started a read, or at which the transfer of a program ended.
    sensed: u64,
    /// Array time left at the last start or resume; the end time once the operation is done.
    left: u64,
    /// Number of urgent reads that overtook the operation while it was the oldest of its die.
    overtaken: u32,
}

/// Completed operation with the times of its submission and of its end.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Ended {
    pub(crate) operation: Operation,
    pub(crate) submitted: Instant,
    pub(crate) at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Event {
    Sensed,
    Worked,
    Moved,
    Granted,
}

#[derive(Clone)]
pub(crate) struct Reference {
    geometry: Geometry,
    timing: Timing,
    scheduling: Scheduling,
    ops: Vec<Op>,
}

impl Reference {
    pub(crate) fn new(geometry: &Geometry, timing: &Timing, scheduling: &Scheduling) -> Self {
        Reference { geometry: *geometry, timing: *timing, scheduling: *scheduling, ops: Vec::new() }
    }

    fn die(&self, op: usize) -> u32 {
        self.geometry.die_of(self.ops[op].operation.block).0
    }
    fn channel(&self, op: usize) -> u32 {
        self.die(op) % self.geometry.channels
    }
    fn urgent(&self, op: usize) -> bool {
        self.scheduling.reads_first && self.ops[op].operation.urgent()
    }

    /// Returns the first operation of a die, in the order of submission, that satisfies `is`.
    fn first(&self, die: u32, is: impl Fn(usize) -> bool) -> Option<usize> {
        (0..self.ops.len()).find(|&op| self.die(op) == die && is(op))
    }
    fn busy(&self, die: u32) -> Option<usize> {
        self.first(die, |op| matches!(self.ops[op].state, Sensing(_) | Asking(_) | Moving(_) | Working(_)))
    }

    pub(crate) fn submit(&mut self, now: Instant, operation: Operation, array: Duration) {
        let transfer = match operation.kind {
            Kind::Read { bytes } | Kind::Program { bytes } => self.timing.transfer(bytes).as_ns(),
            Kind::Erase => 0,
        };
        let (now, array) = (now.as_ns(), array.as_ns());
        let op = Op {
            operation,
            submitted: now,
            array,
            transfer,
            state: Queued,
            sensed: 0,
            left: array,
            overtaken: 0,
        };
        self.ops.push(op);
        let op = self.ops.len() - 1;
        let die = self.die(op);
        if self.busy(die).is_none() {
            self.begin(op, now);
        } else if self.urgent(op) {
            self.suspend(die, now);
        }
    }

    fn begin(&mut self, op: usize, at: u64) {
        let op = &mut self.ops[op];
        op.state = match op.operation.kind {
            Kind::Read { .. } => {
                op.sensed = at;
                Sensing(at + op.array)
            }
            Kind::Program { .. } => Asking(at),
            Kind::Erase => Working(at + op.array),
        };
    }

    /// Starts or resumes the next operation of a die that has none in progress.
    fn turn(&mut self, die: u32, now: u64) {
        let read = self.first(die, |op| self.ops[op].state == Queued && self.urgent(op));
        let suspended = self.first(die, |op| matches!(self.ops[op].state, Suspended(_)));
        let eldest = suspended.or(self.first(die, |op| self.ops[op].state == Queued && !self.urgent(op)));
        match (read, eldest) {
            (Some(read), None) => self.begin(read, now),
            (Some(read), Some(eldest)) if self.ops[eldest].overtaken < self.scheduling.overtaken_max => {
                self.ops[eldest].overtaken += 1;
                self.begin(read, now);
            }
            (_, Some(eldest)) => match self.ops[eldest].state {
                Suspended(left) => {
                    let resume = self.scheduling.suspend.unwrap().t_resume.as_ns();
                    self.ops[eldest].left = left;
                    self.ops[eldest].state = Working(now + resume + left);
                }
                _ => self.begin(eldest, now),
            },
            (None, None) => {}
        }
    }

    /// Suspends the program or erase in the array of `die` for a waiting urgent read, if the settings allow it.
    fn suspend(&mut self, die: u32, now: u64) {
        let Some(suspend) = self.scheduling.suspend else { return };
        let Some(read) = self.first(die, |op| self.ops[op].state == Queued && self.urgent(op)) else {
            return;
        };
        let Some(op) = self.busy(die) else { return };
        let Working(until) = self.ops[op].state else { return };
        let allowed = match self.ops[op].operation.kind {
            Kind::Program { .. } => suspend.programs,
            _ => suspend.erases,
        };
        let to_go = until - now;
        if !allowed
            || to_go <= suspend.t_suspend.as_ns()
            || self.ops[op].overtaken >= self.scheduling.overtaken_max
        {
            return;
        }
        self.ops[op].state = Suspended(to_go.min(self.ops[op].left));
        self.ops[op].overtaken += 1;
        self.begin(read, now + suspend.t_suspend.as_ns());
    }

    /// Returns the next event: time, channel, event, die, operation.
    fn next(&self) -> Option<(u64, u32, Event, u32, usize)> {
        let mut next: Option<(u64, u32, Event, u32, usize)> = None;
        for op in 0..self.ops.len() {
            let (at, event) = match self.ops[op].state {
                Sensing(until) => (until, Event::Sensed),
                Working(until) => (until, Event::Worked),
                Moving(until) => (until, Event::Moved),
                _ => continue,
            };
            let candidate = (at, self.channel(op), event, self.die(op), op);
            next = Some(next.map_or(candidate, |next| next.min(candidate)));
        }
        for channel in 0..self.geometry.channels {
            let here = |op: &usize| self.channel(*op) == channel;
            if (0..self.ops.len()).filter(here).any(|op| matches!(self.ops[op].state, Moving(_))) {
                continue;
            }
            let asking = (0..self.ops.len()).filter(here).filter_map(|op| match self.ops[op].state {
                Asking(since) => Some((since, op)),
                _ => None,
            });
            if let Some((since, op)) = asking.min() {
                let candidate = (since.max(self.free(channel)), channel, Event::Granted, 0, op);
                next = Some(next.map_or(candidate, |next| next.min(candidate)));
            }
        }
        next
    }

    /// Returns the time at which the last transfer on the channel ended.
    fn free(&self, channel: u32) -> u64 {
        (0..self.ops.len())
            .filter(|&op| self.channel(op) == channel)
            .map(|op| self.ops[op].moved())
            .max()
            .unwrap_or(0)
    }

    pub(crate) fn complete(&mut self, limit: Instant) -> Option<Ended> {
        while let Some((at, _, event, die_key, op)) = self.next() {
            if at > limit.as_ns() {
                return None;
            }
            let die = self.die(op);
            debug_assert!(event == Event::Granted || die == die_key);
            match event {
                Event::Sensed => self.ops[op].state = Asking(at),
                Event::Granted => self.ops[op].state = Moving(at + self.ops[op].transfer),
                Event::Moved if matches!(self.ops[op].operation.kind, Kind::Program { .. }) => {
                    self.ops[op].sensed = at;
                    self.ops[op].state = Working(at + self.ops[op].array);
                    self.suspend(die, at);
                }
                Event::Worked | Event::Moved => {
                    self.ops[op].state = Done;
                    self.ops[op].left = at;
                    self.turn(die, at);
                    let op = &self.ops[op];
                    return Some(Ended {
                        operation: op.operation,
                        submitted: Instant::from_ns(op.submitted),
                        at: Instant::from_ns(at),
                    });
                }
            }
        }
        None
    }

    pub(crate) fn power_cut(&mut self, now: Instant) -> Vec<(Operation, Cut)> {
        let now = now.as_ns();
        let cut = self.ops.iter().filter(|op| op.state != Done).map(|op| {
            let torn = match op.state {
                Queued => false,
                Working(_) | Suspended(_) => true,
                Sensing(_) => op.sensed <= now,
                Asking(_) | Moving(_) => matches!(op.operation.kind, Kind::Read { .. }),
                Done => unreachable!(),
            };
            (op.operation, if torn { Cut::Torn } else { Cut::Void })
        });
        let cut = cut.collect();
        self.ops.clear();
        cut
    }
}

impl Op {
    /// Returns the time at which the operation's transfer ended, or 0 if the transfer has not ended.
    fn moved(&self) -> u64 {
        match (self.operation.kind, self.state) {
            (Kind::Read { .. }, Done) => self.left,
            (Kind::Program { .. }, Working(_) | Suspended(_) | Done) => self.sensed,
            _ => 0,
        }
    }
}
