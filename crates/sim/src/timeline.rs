//! A resource that serves one thing at a time, in order of arrival.

use crate::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// When a resource is free again: a wire, a die, a copying processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Timeline {
    free: Instant,
}

impl Timeline {
    /// Takes the resource for `d`, from `now` or from when it is free; returns the end.
    pub fn reserve(&mut self, now: Instant, d: Duration) -> Instant {
        self.free = self.free.max(now) + d;
        self.free
    }
}
