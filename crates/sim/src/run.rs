//! The event loop: the only place where simulated time moves.

use crate::{Arrival, Instant, Model, Workload};

/// Runs `workload` on `model` from `start` until the workload is done and nothing is outstanding; returns the instant
/// of the last event.
///
/// The workload's next arrival is the limit up to which completions are handled; only then is it submitted. Where an
/// arrival and a completion fall on the same instant, the completion is first.
///
/// # Panics
/// If the workload waits for a completion while nothing is outstanding, or either side breaks its contract: these are
/// mistakes in a model or a workload.
pub fn run(model: &mut dyn Model, workload: &mut (impl Workload + ?Sized), start: Instant) -> Instant {
    let mut now = start;
    let mut outstanding: u64 = 0;
    loop {
        let arrival = workload.next(now);
        let limit = match arrival {
            Arrival::At(at) => at,
            Arrival::Waiting | Arrival::Done => Instant::MAX,
        };
        // By reference: a completion is large enough for a copy to show.
        let done = if outstanding > 0 { model.complete(limit) } else { None };
        if let Some(completion) = &done {
            assert!(completion.at >= now, "a completion at {:?} came after {now:?}", completion.at);
            now = completion.at;
            outstanding -= 1;
            workload.completed(completion);
            continue;
        }
        match arrival {
            Arrival::At(at) => {
                assert!(at >= now, "an arrival at {at:?} came after {now:?}");
                now = at;
                model.submit(now, workload.submit(now));
                outstanding += 1;
                let (file, upcoming) = workload.upcoming();
                if !upcoming.is_empty() {
                    model.hint(file, upcoming);
                }
            }
            Arrival::Waiting => {
                panic!("the workload waits, but {outstanding} requests are outstanding and none completes")
            }
            Arrival::Done if outstanding == 0 => return now,
            Arrival::Done => panic!("{outstanding} requests never complete"),
        }
    }
}
