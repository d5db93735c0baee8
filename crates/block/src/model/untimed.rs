//! A model that takes no time: the inner model of a delay or a rate on a device without timing.

use flashlab_sim::{Completion, Geometry, Instant, Model, PowerCut, Request, RestoreError, Spent, Status};
use std::collections::VecDeque;
use std::ops::Range;

/// Completes every request immediately. Every write is durable.
#[derive(Clone, Debug)]
pub struct Untimed {
    geometry: Geometry,
    done: VecDeque<Completion>,
}

impl Untimed {
    /// Creates a model of this geometry.
    pub fn new(geometry: Geometry) -> Untimed {
        Untimed { geometry, done: VecDeque::new() }
    }
}

impl Model for Untimed {
    fn geometry(&self) -> Geometry {
        self.geometry
    }
    fn submit(&mut self, now: Instant, request: Request) {
        let status = if self.geometry.admits(&request) { Status::Ok } else { Status::OutOfRange };
        self.done.push_back(Completion { id: request.id, at: now, status, spent: Spent::default() });
    }
    fn next_due(&self) -> Option<Instant> {
        self.done.front().map(|completion| completion.at)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        self.done.pop_front_if(|completion| completion.at <= limit)
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.done.clear();
        PowerCut::default()
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }
    fn is_durable(&self, _: &Range<u64>) -> bool {
        true
    }
    fn save(&self) -> Option<Vec<u8>> {
        Some(Vec::new())
    }
    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        if state.is_empty() { Ok(()) } else { Err(RestoreError::new("this device has no state")) }
    }
}
