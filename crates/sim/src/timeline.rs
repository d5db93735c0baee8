//! A resource that serves one request at a time, in order of arrival.

use crate::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Occupancy of a resource such as a bus, a die or a processor, as the instant at which it becomes free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    free: Instant,
}

impl Timeline {
    /// Reserves the resource for `d`, from `now` or, if it is occupied then, from the instant at which it becomes free.
    /// Returns the end of the reservation.
    pub fn reserve(&mut self, now: Instant, d: Duration) -> Instant {
        self.free = self.free.max(now) + d;
        self.free
    }
}
