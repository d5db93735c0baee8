//! A device and a workload that a caller can observe and stop during a run.
//!
//! [`Watched`] wraps the device and counts requests. [`Stoppable`] wraps the workload, which ends early once the stop
//! flag shared by the two wrappers is set. Until then neither wrapper changes the result.

use flashlab_sim::{
    Arrival, CloneModel, Completion, FileId, Geometry, Instant, Model, Observer, PowerCut, Request, Workload,
};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Callback that observes a device at an instant of a run. It returns false to end the run.
pub(crate) type Probe<'a> = dyn FnMut(Instant, &dyn Model) -> bool + Send + 'a;

/// A device whose callback runs after every `interval` requests.
pub(crate) struct Watched<'a, 'b> {
    pub(crate) model: &'a mut dyn Model,
    pub(crate) probe: &'a mut Probe<'b>,
    pub(crate) interval: u64,
    /// Requests until the next call of `probe`.
    pub(crate) left: u64,
    /// Stop flag, set when the run should end.
    pub(crate) stop: &'a AtomicBool,
}

impl CloneModel for Watched<'_, '_> {
    fn clone_box(&self) -> Box<dyn Model> {
        self.model.clone_box()
    }
}

impl Model for Watched<'_, '_> {
    fn geometry(&self) -> Geometry {
        self.model.geometry()
    }
    fn hint(&self, file: FileId, offsets: &[u64]) {
        self.model.hint(file, offsets);
    }
    fn submit(&mut self, now: Instant, request: Request) {
        self.model.submit(now, request);
        self.left -= 1;
        if self.left == 0 {
            self.left = self.interval;
            if !(self.probe)(now, self.model) {
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }
    fn next_due(&self) -> Option<Instant> {
        self.model.next_due()
    }
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        self.model.complete(limit)
    }
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.model.power_cut(now)
    }
    fn power_up(&mut self, now: Instant) -> Instant {
        self.model.power_up(now)
    }
    fn is_durable(&self, range: &Range<u64>) -> bool {
        self.model.is_durable(range)
    }
    fn observe(&self, to: &mut dyn Observer) {
        self.model.observe(to);
    }
}

/// A workload that ends early once `stop` is set.
pub(crate) struct Stoppable<'a, W> {
    pub(crate) workload: &'a mut W,
    pub(crate) stop: &'a AtomicBool,
}

impl<W: Workload> Workload for Stoppable<'_, W> {
    fn next(&mut self, now: Instant) -> Arrival {
        if self.stop.load(Ordering::Relaxed) { Arrival::Done } else { self.workload.next(now) }
    }
    fn submit(&mut self, at: Instant) -> Request {
        self.workload.submit(at)
    }
    fn upcoming(&mut self) -> (FileId, &[u64]) {
        self.workload.upcoming()
    }
    fn completed(&mut self, completion: &Completion) {
        self.workload.completed(completion);
    }
}
