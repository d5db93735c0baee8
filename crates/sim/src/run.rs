//! The event loop. Nothing else advances simulated time.

use crate::{Arrival, Instant, Model, Workload};

/// Runs `workload` on `model` from `start` until the workload is done and no request is in flight. Returns the instant
/// of the last event.
///
/// The loop handles all completions up to the next arrival before it submits that request. If an arrival and a
/// completion fall on the same instant, the completion comes first.
///
/// # Panics
/// Panics if the workload waits for a completion while no request is in flight, or if either side breaks its contract.
/// Either case is a bug in a model or a workload.
pub fn run(model: &mut dyn Model, workload: &mut (impl Workload + ?Sized), start: Instant) -> Instant {
    let mut now = start;
    let mut outstanding: u64 = 0;
    loop {
        let arrival = workload.next(now);
        let limit = match arrival {
            Arrival::At(at) => at,
            Arrival::Waiting | Arrival::Done => Instant::MAX,
        };
        // Passed by reference because copying a completion costs measurable time.
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
