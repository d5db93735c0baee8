//! A run of a workload on a model, from the first request to the last completion.

use crate::{Event, EventLoop, Instant, Model, Workload};

/// Runs `workload` on `model` from `start` until the workload is done and no request is in flight. Returns the instant
/// of the last event.
///
/// The loop handles all completions up to the next arrival before it submits the arriving request. If an
/// arrival and a completion fall on the same instant, the completion comes first.
///
/// # Panics
/// Panics if the workload waits for a completion while no request is in flight, or if either side breaks its contract.
/// Either case is a bug in a model or a workload.
pub fn run(model: &mut dyn Model, workload: &mut (impl Workload + ?Sized), start: Instant) -> Instant {
    let mut events = EventLoop::new(start);
    while events.step(model, workload, Instant::MAX) != Event::Done {}
    events.now()
}
