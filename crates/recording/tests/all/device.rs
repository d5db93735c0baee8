//! A device of constant latency, which serves one request at a time or all at once.

use flashlab_sim::{Completion, Duration, Geometry, Instant, Model, PowerCut, Request, Spent, Status};
use std::collections::VecDeque;

#[derive(Clone)]
pub(crate) struct Constant {
    latency: Duration,
    serial: bool,
    busy_until: Instant,
    done: VecDeque<Completion>,
    /// Offset and start of every request.
    pub(crate) starts: Vec<(u64, Instant)>,
}

impl Constant {
    pub(crate) fn parallel(latency: Duration) -> Constant {
        Constant {
            latency,
            serial: false,
            busy_until: Instant::ZERO,
            done: VecDeque::new(),
            starts: Vec::new(),
        }
    }
    pub(crate) fn serial(latency: Duration) -> Constant {
        Constant { serial: true, ..Constant::parallel(latency) }
    }
}

impl Model for Constant {
    fn geometry(&self) -> Geometry {
        panic!("replay does not ask for the geometry")
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.starts.push((request.offset, now));
        let from = if self.serial { now.max(self.busy_until) } else { now };
        let at = from + self.latency;
        self.busy_until = at;
        self.done.push_back(Completion { id: request.id, at, status: Status::Ok, spent: Spent::default() });
    }
    fn next_due(&self) -> Option<Instant> {
        self.done.front().map(|completion| completion.at)
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        self.done.pop_front_if(|completion| completion.at <= limit)
    }
    fn power_cut(&mut self, _: Instant) -> PowerCut {
        panic!("these tests cut no power")
    }
    fn power_up(&mut self, _: Instant) -> Instant {
        panic!("these tests cut no power")
    }
}
