//! The interface of a device that holds bytes.

use crate::{Context, Geometry, Io, Outcome};
use flashlab_sim::Instant;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

/// A device that holds bytes, live or simulated.
///
/// - Requests of several threads run concurrently. Overlapping requests are serialized per block: each block ends up as
///   if one request had followed the other.
/// - A flush makes durable every request that was answered before the flush started, regardless of the client that sent
///   it.
/// - A read fills its whole buffer, or it fails.
/// - A request beyond the capacity fails and never causes a panic; see [`Io::check`].
pub trait BlockDevice: Send + Sync {
    /// Returns the capacity, the block size and the largest request.
    fn geometry(&self) -> Geometry;
    /// Returns the optional features of the device.
    fn features(&self) -> Features;
    /// Starts a request. A request that can be answered immediately returns [`Started::Done`], which needs no
    /// allocated future.
    fn start(&self, cx: &Context, io: Io) -> Started;
    /// Returns the instant of the next event of a timed device. Without further requests, nothing completes
    /// before that instant. Returns `None` if no request is outstanding, or if the device answers on its own.
    fn next_due(&self) -> Option<Instant> {
        None
    }
    /// Advances the device to an instant: completes the requests that are due, and wakes the tasks that wait
    /// for them. A task that waits for an answer must arrange for a call of this method. One call serves all
    /// waiting tasks.
    fn advance(&self, _now: Instant) {}
    /// Returns the number of power losses so far. A power loss may discard requests that were answered but not flushed,
    /// and no later flush can detect this. A caller that passes on the answers of flushes must therefore fail the
    /// flushes of clients that were connected before the loss.
    fn power_losses(&self) -> u64 {
        0
    }
}

/// Optional features of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Features {
    /// The device rejects writes.
    pub read_only: bool,
    /// The device supports discard.
    pub discard: bool,
    /// The device writes zeroes without receiving them, never more slowly than if they were sent.
    pub write_zeroes: bool,
    /// The device reports its holes.
    pub extents: bool,
    /// A request to read ahead has an effect.
    pub cache: bool,
    /// Seeks cost time.
    pub rotational: bool,
    /// The device models its own latency. A client then reads holes instead of asking for them, because a read of a
    /// hole takes time, too.
    pub timed: bool,
}

/// A request that was started.
pub enum Started {
    /// The request is complete.
    Done(Outcome),
    /// The request completes when the future does.
    Pending(Pin<Box<dyn Future<Output = Outcome> + Send>>),
}

impl Started {
    /// Waits for the outcome of the request.
    pub async fn outcome(self) -> Outcome {
        match self {
            Started::Done(outcome) => outcome,
            Started::Pending(future) => future.await,
        }
    }
}

impl fmt::Debug for Started {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Started::Done(outcome) => f.debug_tuple("Done").field(outcome).finish(),
            Started::Pending(_) => f.write_str("Pending"),
        }
    }
}
