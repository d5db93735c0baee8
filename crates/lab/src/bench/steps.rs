//! Requests that a caller submits to a bench one by one, or in batches, instead of as jobs.

use super::Bench;
use flashlab_sim::{Completion, FileId, Instant, Op, Request, RequestId};
use std::collections::VecDeque;
use std::fmt;

/// A bench that also takes single requests. Jobs run only while no request is in flight.
#[derive(Clone)]
pub struct Steps {
    bench: Bench,
    next_id: u64,
    in_flight: u64,
    /// Completions that happened before the last submission and have not been collected yet.
    completed: VecDeque<Completion>,
}

/// The error of an operation that needs an idle bench, with the number of requests in flight. With requests in flight,
/// jobs cannot run and the device cannot be saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InFlight(pub u64);

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "requests in flight: {}; advance the time to their completions first", self.0)
    }
}

impl std::error::Error for InFlight {}

impl Steps {
    /// Wraps `bench`. At first, no request is in flight.
    pub fn new(bench: Bench) -> Steps {
        Steps { bench, next_id: 0, in_flight: 0, completed: VecDeque::new() }
    }

    /// Returns the bench. Its time is the instant to which the last call advanced it.
    pub fn bench(&self) -> &Bench {
        &self.bench
    }

    /// Returns the bench for jobs, unless requests are in flight.
    pub fn idle_bench(&mut self) -> Result<&mut Bench, InFlight> {
        if self.in_flight == 0 { Ok(&mut self.bench) } else { Err(InFlight(self.in_flight)) }
    }

    /// Returns the number of requests that are not complete.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Submits a request at `at`, or now if that is later. Returns its identifier.
    pub fn submit(&mut self, at: Instant, op: Op, offset: u64, length: u64) -> RequestId {
        let at = at.max(self.bench.now);
        while let Some(completion) = self.complete(at) {
            self.completed.push_back(completion);
        }
        self.bench.now = at;
        let id = RequestId(self.next_id);
        self.next_id += 1;
        self.in_flight += 1;
        self.bench.model().submit(at, Request { id, op, file: FileId::DEVICE, offset, length });
        id
    }

    /// Returns the next completion. If it lies in the future, advances the time to its instant. Returns
    /// `None` if no completion is left.
    pub fn next_completion(&mut self) -> Option<Completion> {
        self.completed.pop_front().or_else(|| self.complete(Instant::MAX))
    }

    /// Advances the time to `limit`, and passes the completions up to that instant to `completed`. A device without
    /// requests in flight can use the time for background work.
    pub fn advance(&mut self, limit: Instant, mut completed: impl FnMut(Completion)) {
        self.completed.drain(..).for_each(&mut completed);
        while let Some(completion) = self.complete(limit) {
            completed(completion);
        }
        self.bench.now = self.bench.now.max(limit);
    }

    /// Submits `requests` one after the other, each as soon as fewer than `depth` requests are in flight, and passes
    /// their completions to `completed`. No request is in flight afterwards.
    pub fn run_closed(
        &mut self,
        requests: impl Iterator<Item = (Op, u64, u64)>,
        depth: u64,
        mut completed: impl FnMut(Completion),
    ) {
        for (op, offset, length) in requests {
            while self.in_flight >= depth.max(1) {
                let Some(completion) = self.next_completion() else { break };
                completed(completion);
            }
            self.submit(Instant::ZERO, op, offset, length);
        }
        while let Some(completion) = self.next_completion() {
            completed(completion);
        }
    }

    /// Submits each of `requests` at its instant, however many are in flight, and passes the completions to
    /// `completed`.
    pub fn run_open(
        &mut self,
        requests: impl Iterator<Item = (Instant, Op, u64, u64)>,
        mut completed: impl FnMut(Completion),
    ) {
        for (at, op, offset, length) in requests {
            self.submit(at, op, offset, length);
            self.completed.drain(..).for_each(&mut completed);
        }
        while let Some(completion) = self.next_completion() {
            completed(completion);
        }
    }

    /// Advances the time to the next completion and returns the completion. Returns `None` if no request
    /// completes up to `limit`.
    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        if self.in_flight == 0 {
            return None;
        }
        let completion = self.bench.model().complete(limit)?;
        self.in_flight -= 1;
        self.bench.now = completion.at;
        Some(completion)
    }
}
