//! The event loop in steps, for a caller that watches or interrupts a run.

use crate::{Arrival, Instant, Model, Workload};

/// An event loop that a caller advances event by event. The events are the same as those of
/// [`run`](crate::run()).
///
/// The loop may call [`Workload::next`] several times without a request or a completion in between. The
/// workload must give the same answer each time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventLoop {
    now: Instant,
    outstanding: u64,
}

/// Result of [`EventLoop::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A request was submitted.
    Submitted,
    /// A request was completed.
    Completed,
    /// The next event lies after the limit.
    Later,
    /// The workload is done, and no request is in flight.
    Done,
}

impl EventLoop {
    /// Returns a loop that starts at `start`, without requests in flight.
    pub fn new(start: Instant) -> Self {
        EventLoop { now: start, outstanding: 0 }
    }

    /// Returns the instant of the last event.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.outstanding
    }

    /// Executes the next event if it is due at or before `limit`. As in [`run`](crate::run()), a completion precedes an
    /// arrival at the same instant. `limit` must not decrease from call to call.
    ///
    /// # Panics
    /// Panics if the workload waits for a completion while no request is in flight, or if either side breaks its
    /// contract.
    pub fn step(
        &mut self,
        model: &mut dyn Model,
        workload: &mut (impl Workload + ?Sized),
        limit: Instant,
    ) -> Event {
        let arrival = workload.next(self.now);
        let at = match arrival {
            Arrival::At(at) => at,
            Arrival::Waiting | Arrival::Done => Instant::MAX,
        };
        // The completion is passed by reference, because copying it costs measurable time.
        let done = if self.outstanding > 0 { model.complete(at.min(limit)) } else { None };
        if let Some(completion) = &done {
            let at = completion.at;
            assert!(at >= self.now, "a completion at {at:?} precedes the current time {:?}", self.now);
            self.now = at;
            self.outstanding -= 1;
            workload.completed(completion);
            return Event::Completed;
        }
        match arrival {
            Arrival::At(at) if at <= limit => {
                assert!(at >= self.now, "an arrival at {at:?} precedes the current time {:?}", self.now);
                self.now = at;
                model.submit(at, workload.submit(at));
                self.outstanding += 1;
                let (file, upcoming) = workload.upcoming();
                if !upcoming.is_empty() {
                    model.hint(file, upcoming);
                }
                Event::Submitted
            }
            Arrival::Done if self.outstanding == 0 => Event::Done,
            Arrival::Waiting if self.outstanding == 0 => {
                panic!("the workload waits for a completion, but no request is in flight")
            }
            _ if limit == Instant::MAX => panic!("{} requests never complete", self.outstanding),
            _ => Event::Later,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Completion, Duration, FileId, Geometry, Mechanism, Op, PowerCut, Request, RequestId, Spent, Status,
    };
    use alloc::collections::VecDeque;
    use alloc::vec::Vec;

    /// A device that serves one request after the other, each in 30 ns.
    #[derive(Clone, Default)]
    struct Serial(VecDeque<(Instant, Instant, RequestId)>, Instant);

    impl Model for Serial {
        fn geometry(&self) -> Geometry {
            Geometry { capacity: 1 << 20, block: 512, request_max: 512 }
        }
        fn submit(&mut self, now: Instant, request: Request) {
            self.1 = self.1.max(now) + Duration::from_ns(30);
            self.0.push_back((now, self.1, request.id));
        }
        fn next_due(&self) -> Option<Instant> {
            self.0.front().map(|(_, due, _)| *due)
        }
        fn complete(&mut self, limit: Instant) -> Option<Completion> {
            let (since, at, id) = self.0.pop_front_if(|(_, due, _)| *due <= limit)?;
            let mut spent = Spent::default();
            spent[Mechanism::Bus] = at.since(since);
            Some(Completion { id, at, status: Status::Ok, spent })
        }
        fn power_cut(&mut self, _: Instant) -> PowerCut {
            PowerCut::default()
        }
        fn power_up(&mut self, now: Instant) -> Instant {
            now
        }
    }

    /// Ten requests, one every 20 ns, with at most two in flight.
    #[derive(Default)]
    struct Ten {
        submitted: u64,
        in_flight: u64,
        log: Vec<(u64, Instant)>,
    }

    impl Workload for Ten {
        fn next(&mut self, now: Instant) -> Arrival {
            match (self.submitted, self.in_flight) {
                (10, _) => Arrival::Done,
                (_, 2) => Arrival::Waiting,
                (n, _) => Arrival::At(now.max(Instant::from_ns(n * 20))),
            }
        }
        fn submit(&mut self, at: Instant) -> Request {
            self.submitted += 1;
            self.in_flight += 1;
            self.log.push((100 + self.submitted, at));
            Request {
                id: RequestId(self.submitted),
                op: Op::Read,
                file: FileId::DEVICE,
                offset: 0,
                length: 512,
            }
        }
        fn completed(&mut self, completion: &Completion) {
            self.in_flight -= 1;
            self.log.push((completion.id.0, completion.at));
        }
    }

    #[test]
    fn steps_of_any_length_give_the_events_of_a_run() {
        let mut whole = Ten::default();
        let end = crate::run(&mut Serial::default(), &mut whole, Instant::ZERO);
        for stride in [1, 7, 20, 45, 1_000] {
            let (mut model, mut pieces) = (Serial::default(), Ten::default());
            let (mut events, mut limit) = (EventLoop::new(Instant::ZERO), Instant::ZERO);
            loop {
                match events.step(&mut model, &mut pieces, limit) {
                    Event::Done => break,
                    Event::Later => limit += Duration::from_ns(stride),
                    Event::Submitted | Event::Completed => assert!(events.now() <= limit),
                }
            }
            assert_eq!((events.now(), events.in_flight()), (end, 0), "in strides of {stride} ns");
            assert_eq!(pieces.log, whole.log, "in strides of {stride} ns");
        }
    }
}
