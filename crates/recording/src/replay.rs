//! Replay of a recorded run as a workload.

use crate::graph::{Graph, LONGEST, Reached, ReplayError};
use crate::{Action, Step};
use flashlab_sim::{
    Arrival, Completion, Duration, FileId, Histogram, Instant, Op, Request, RequestId, Status, Workload,
};
use std::collections::BTreeMap;

/// Rule for the start of each request in a replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// A request starts when its causes are over. A slower device delays the run as it would in reality.
    Dependencies,
    /// A request starts at its recorded instant times `numerator / denominator`, however late the device is.
    Timestamps {
        /// Numerator of the scale; 1 for the recorded instants.
        numerator: u64,
        /// Denominator of the scale, above 0.
        denominator: u64,
    },
    /// A request starts when fewer than `depth` requests are in flight. `depth` is above 0.
    Fast {
        /// Requests in flight.
        depth: u32,
    },
}

/// Measurements of a replay.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Time from the begin to the end of the measured part of the run.
    pub elapsed: Duration,
    /// Latencies of reads.
    pub reads: Histogram,
    /// Latencies of writes.
    pub writes: Histogram,
    /// Latencies of trims.
    pub trims: Histogram,
    /// Latencies of flushes.
    pub flushes: Histogram,
    /// Latencies of the operations that the user waits for. Empty without dependencies.
    pub operations: Histogram,
    /// Requests that the device did not complete with [`Status::Ok`].
    pub failed: u64,
}

/// A recorded run as a [`Workload`]. `S` yields the steps in recorded order; only those in flight stay in memory.
#[derive(Debug)]
pub struct Replay<S> {
    steps: S,
    schedule: Schedule,
    start: Instant,
    /// True once `steps` ended or a step was refused.
    ended: bool,
    refused: Option<ReplayError>,
    /// Steps read so far.
    read: u64,
    /// Operation and start of each request in flight.
    in_flight: BTreeMap<u64, (Op, Instant)>,
    run_begins: Option<Instant>,
    run_ends: Option<Instant>,
    last: Instant,
    outcome: Outcome,
}

/// Requests that wait for their start.
#[derive(Debug)]
enum Schedule {
    Dependencies(Graph),
    /// Requests in recorded order, each with its earliest start.
    InOrder {
        mode: Mode,
        next: Option<(Instant, Action)>,
        number: u64,
    },
}

impl<S: Iterator<Item = Step>> Replay<S> {
    /// Creates the replay of `steps`, which starts at `start`.
    pub fn new(steps: S, mode: Mode, start: Instant) -> Replay<S> {
        let schedule = match mode {
            Mode::Dependencies => Schedule::Dependencies(Graph::new(start)),
            Mode::Timestamps { .. } | Mode::Fast { .. } => Schedule::InOrder { mode, next: None, number: 0 },
        };
        let outcome = Outcome {
            elapsed: Duration::ZERO,
            reads: Histogram::new(),
            writes: Histogram::new(),
            trims: Histogram::new(),
            flushes: Histogram::new(),
            operations: Histogram::new(),
            failed: 0,
        };
        Replay {
            steps,
            schedule,
            start,
            ended: false,
            refused: None,
            read: 0,
            in_flight: BTreeMap::new(),
            run_begins: None,
            run_ends: None,
            last: start,
            outcome,
        }
    }

    /// Returns the measurements after the run.
    ///
    /// # Errors
    /// Returns the first step that cannot be replayed. Steps after it did not start.
    pub fn finish(mut self) -> Result<Outcome, ReplayError> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let begin = self.run_begins.unwrap_or(self.start);
        self.outcome.elapsed = self.run_ends.unwrap_or(self.last).saturating_since(begin);
        Ok(self.outcome)
    }

    /// Reads steps until the schedule is full or the recording ends.
    fn fill(&mut self) {
        while !self.ended {
            let wants = match &self.schedule {
                Schedule::Dependencies(graph) => graph.has_room(),
                Schedule::InOrder { next, .. } => next.is_none(),
            };
            if !wants {
                return;
            }
            let Some(step) = self.steps.next() else {
                self.ended = true;
                return;
            };
            match &mut self.schedule {
                Schedule::Dependencies(graph) => {
                    if let Err(refused) = graph.push(&step) {
                        self.refused = Some(refused);
                        self.ended = true;
                    }
                }
                Schedule::InOrder { mode, next, .. } => {
                    let after = match *mode {
                        Mode::Timestamps { numerator, denominator } => {
                            scaled(step.at, numerator, denominator)
                        }
                        Mode::Dependencies | Mode::Fast { .. } => Duration::ZERO,
                    };
                    if after > LONGEST {
                        self.refused = Some(ReplayError::TooLate { step: self.read });
                        self.ended = true;
                    } else if matches!(step.action, Action::Request { .. }) {
                        *next = Some((self.start.saturating_add(after), step.action));
                    }
                }
            }
            self.read += 1;
            self.note_marks();
        }
    }

    /// Notes the marks that the graph reached.
    fn note_marks(&mut self) {
        let Schedule::Dependencies(graph) = &mut self.schedule else { return };
        if let Some(too_late) = graph.too_late() {
            self.refused.get_or_insert(too_late);
            self.ended = true;
        }
        for reached in graph.take_reached() {
            match reached {
                Reached::Operation(latency) => self.outcome.operations.record(latency),
                Reached::RunBegins(at) => self.run_begins = Some(at),
                Reached::RunEnds(at) => self.run_ends = Some(at),
            }
        }
    }
}

impl<S: Iterator<Item = Step>> Workload for Replay<S> {
    fn next(&mut self, now: Instant) -> Arrival {
        self.fill();
        let ready = match &self.schedule {
            Schedule::Dependencies(graph) => graph.next_ready(),
            Schedule::InOrder { mode: Mode::Fast { depth }, .. }
                if self.in_flight.len() >= *depth as usize =>
            {
                None
            }
            Schedule::InOrder { next, .. } => next.map(|(at, _)| at),
        };
        let is_over = match &self.schedule {
            Schedule::Dependencies(graph) => graph.is_over(),
            Schedule::InOrder { next, .. } => next.is_none(),
        };
        match ready {
            Some(at) => Arrival::At(at.max(now)),
            None if self.ended && (is_over || self.in_flight.is_empty()) => Arrival::Done,
            None => Arrival::Waiting,
        }
    }

    fn submit(&mut self, at: Instant) -> Request {
        let taken = match &mut self.schedule {
            Schedule::Dependencies(graph) => graph.take_ready(),
            Schedule::InOrder { next, number, .. } => next.take().map(|(_, action)| {
                *number += 1;
                (*number - 1, action)
            }),
        };
        let Some((number, Action::Request { op, offset, length, .. })) = taken else {
            unreachable!("`submit` follows an arrival, and only requests arrive");
        };
        self.in_flight.insert(number, (op, at));
        Request { id: RequestId(number), op, file: FileId::DEVICE, offset, length }
    }

    fn completed(&mut self, completion: &Completion) {
        let number = completion.id.0;
        let Some((op, since)) = self.in_flight.remove(&number) else { return };
        let latency = completion.at.since(since);
        match op {
            Op::Read => self.outcome.reads.record(latency),
            Op::Write | Op::WriteFua => self.outcome.writes.record(latency),
            Op::Trim => self.outcome.trims.record(latency),
            Op::Flush | Op::FlushData => self.outcome.flushes.record(latency),
        }
        self.outcome.failed += u64::from(completion.status != Status::Ok);
        self.last = self.last.max(completion.at);
        if let Schedule::Dependencies(graph) = &mut self.schedule {
            graph.complete(number, completion.at);
        }
        self.note_marks();
    }
}

/// Returns `time * numerator / denominator`, at most the longest duration.
fn scaled(time: Duration, numerator: u64, denominator: u64) -> Duration {
    let ns = u128::from(time.as_ns()) * u128::from(numerator) / u128::from(denominator);
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}
