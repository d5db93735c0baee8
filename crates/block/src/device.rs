//! The seam that says *what*: a device that holds bytes.

use crate::{Geometry, Io, Outcome};
use flashlab_sim::Instant;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A device that holds bytes, live or simulated.
///
/// - Requests of several threads run at the same time. Two that overlap end as if one came after the other, block by
///   block.
/// - What was answered before a flush was started is durable when the flush is done, whoever asked for it.
/// - A read's buffer comes back full, or the read fails.
/// - Bytes beyond the capacity are refused, never panicked over: see [`Io::check`].
pub trait BlockDevice: Send + Sync {
    /// Capacity, block and largest request.
    fn geometry(&self) -> Geometry;
    /// What it can do.
    fn abilities(&self) -> Abilities;
    /// Begins a request. Where it can be answered at once the answer is [`Started::Done`], without an allocation.
    fn start(&self, cx: &Context, io: Io) -> Started;
    /// Where time decides when requests are done: nothing is done before this instant, unless more is asked. `None`: nothing
    /// is outstanding, or the device answers on its own.
    fn next_due(&self) -> Option<Instant> {
        None
    }
    /// The time is `now`: what is due is done, and who waits for it woken. Whoever waits for an answer sees to this; one
    /// of several is enough.
    fn advance(&self, _now: Instant) {}
    /// How often power was lost. What was answered before and not flushed may be gone, and no later flush can tell: whoever
    /// passes on the answers of flushes has to fail those of clients from before.
    fn power_losses(&self) -> u64 {
        0
    }
}

/// What a device can do besides reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// It is not written to.
    pub read_only: bool,
    /// It discards.
    pub discard: bool,
    /// It writes zeroes without being sent them, and never slower than if it were.
    pub write_zeroes: bool,
    /// It knows its holes.
    pub extents: bool,
    /// Reading ahead does something.
    pub cache: bool,
    /// Seeking costs time.
    pub rotational: bool,
    /// How long it takes is part of what it is: a hole is read, not looked up.
    pub timed: bool,
}

/// A request that was begun.
pub enum Started {
    /// It is done already.
    Done(Outcome),
    /// It is done when the future is.
    Later(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Started::Done(outcome) => f.debug_tuple("Done").field(outcome).finish(),
            Started::Later(_) => f.write_str("Later"),
        }
    }
}

/// What surrounds a request: the time.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    now: Instant,
}

impl Context {
    /// At this instant.
    pub fn new(now: Instant) -> Context {
        Context { now }
    }
    /// When the request arrived, since the run began.
    pub fn now(&self) -> Instant {
        self.now
    }
}
