//! Observation of the requests of a timed device.

use crate::layer::Kind;
use flashlab_sim::{Instant, Spent};

/// Receives every request of the clients of a timed device that the model has completed. Calls come one at a
/// time, under the device's lock, so they have to be quick.
pub trait Monitor: Send {
    /// Records a completed request.
    fn completed(&mut self, request: &Completed);
}

/// A completed request.
#[derive(Clone, Copy, Debug)]
pub struct Completed {
    /// Kind of the request.
    pub kind: Kind,
    /// Bytes of the request; 0 for a flush.
    pub bytes: u64,
    /// Instant of the completion.
    pub at: Instant,
    /// Time from the arrival to the completion, by mechanism. A request in several pieces has the times of
    /// its last piece, and a durable discard has the times of the flush that follows it.
    pub spent: Spent,
    /// False if the device answered with an error.
    pub is_ok: bool,
}
