//! A resource that serves one request at a time, in order of arrival.

use crate::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Occupancy of a resource such as a bus, a die or a processor, as the instant at which it becomes free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    free: Instant,
}

impl Timeline {
    /// Reserves the resource for the duration `d`. The reservation begins at `now`, or as soon as the
    /// resource is free.
    /// Returns the end of the reservation.
    pub fn reserve(&mut self, now: Instant, d: Duration) -> Instant {
        self.free = self.free.max(now) + d;
        self.free
    }
}
