//! Replay of a recorded run as a workload.

use crate::graph::{Graph, Reached, ReplayError};
use crate::in_order::{InOrder, Pace};
use crate::{ReadStep, Step};
use flashlab_sim::{
    Arrival, Completion, Duration, FileId, Histogram, Instant, Mechanism, Op, Request, RequestId, Spent,
    Status, Workload,
};

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
    /// Time from the start to the end of the measured part of the run.
    pub elapsed: Duration,
    /// Reads.
    pub reads: Latencies,
    /// Writes.
    pub writes: Latencies,
    /// Trims.
    pub trims: Latencies,
    /// Flushes.
    pub flushes: Latencies,
    /// Latencies of the operations that the user waits for. Without dependencies, it is unknown for which
    /// requests an operation waited. The operation then ends with the last of the requests before its end
    /// mark.
    pub operations: Histogram,
    /// Requests that the device did not complete with [`Status::Ok`].
    pub failed: u64,
}

/// Latencies of one kind of request.
#[derive(Clone, Debug)]
pub struct Latencies {
    /// The latencies.
    pub histogram: Histogram,
    /// Sum of the time per mechanism in nanoseconds. The time for which a request waits before the device
    /// receives it belongs to no mechanism.
    mechanisms_ns: [u128; Mechanism::ALL.len()],
}

impl Latencies {
    fn new() -> Latencies {
        Latencies { histogram: Histogram::new(), mechanisms_ns: [0; Mechanism::ALL.len()] }
    }

    fn record(&mut self, latency: Duration, spent: &Spent) {
        self.histogram.record(latency);
        for (sum, (_, part)) in self.mechanisms_ns.iter_mut().zip(spent.iter()) {
            *sum += u128::from(part.as_ns());
        }
    }

    /// Returns the mechanisms with the sum of their time in nanoseconds, in printing order.
    pub fn mechanisms_ns(&self) -> impl Iterator<Item = (Mechanism, u128)> + '_ {
        Mechanism::ALL.into_iter().zip(self.mechanisms_ns)
    }
}

/// A request in flight, or one that just completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Flight {
    pub(crate) op: Op,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Instant from which its latency counts.
    pub(crate) since: Instant,
    /// Instant at which it was submitted.
    pub(crate) submitted: Instant,
}

/// A recorded run as a [`Workload`]. `S` yields the steps in recorded order; a bounded number of them is in
/// memory.
#[derive(Debug)]
pub struct Replay<S> {
    steps: S,
    /// Step that was read last.
    step: Step,
    schedule: Schedule,
    start: Instant,
    /// True once `steps` ended or a step was refused.
    ended: bool,
    refused: Option<ReplayError>,
    /// Steps read so far.
    read: u64,
    in_flight: u64,
    run_begins: Option<Instant>,
    run_ends: Option<Instant>,
    last: Instant,
    outcome: Outcome,
}

/// Requests that wait for their start, and those in flight.
#[derive(Debug)]
enum Schedule {
    Dependencies(Graph),
    InOrder(InOrder),
}

impl<S: ReadStep> Replay<S> {
    /// Creates the replay of `steps`, which starts at `start`.
    pub fn new(steps: S, mode: Mode, start: Instant) -> Replay<S> {
        let in_order = |pace| Schedule::InOrder(InOrder::new(pace, start));
        let schedule = match mode {
            Mode::Dependencies => Schedule::Dependencies(Graph::new(start)),
            Mode::Timestamps { numerator, denominator } => {
                in_order(Pace::Timestamps { numerator, denominator })
            }
            Mode::Fast { depth } => in_order(Pace::Fast { depth }),
        };
        let outcome = Outcome {
            elapsed: Duration::ZERO,
            reads: Latencies::new(),
            writes: Latencies::new(),
            trims: Latencies::new(),
            flushes: Latencies::new(),
            operations: Histogram::new(),
            failed: 0,
        };
        Replay {
            steps,
            step: Step::EMPTY,
            schedule,
            start,
            ended: false,
            refused: None,
            read: 0,
            in_flight: 0,
            run_begins: None,
            run_ends: None,
            last: start,
            outcome,
        }
    }

    /// Returns the measurements after the run.
    ///
    /// # Errors
    /// Returns the first step that cannot be replayed. After that fault, no further steps were read.
    pub fn finish(mut self) -> Result<Outcome, ReplayError> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        let begin = self.run_begins.unwrap_or(self.start);
        self.outcome.elapsed = self.run_ends.unwrap_or(self.last).saturating_since(begin);
        Ok(self.outcome)
    }

    /// Returns the steps that were not read, or the first step that cannot be replayed.
    pub(crate) fn into_steps(self) -> Result<S, ReplayError> {
        self.refused.map_or(Ok(self.steps), Err)
    }

    /// Returns the number of requests in flight.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Ends the request of `completion` without a measurement of its latency. Returns `None` if it is not in flight.
    #[inline]
    pub(crate) fn end(&mut self, completion: &Completion) -> Option<Flight> {
        let number = completion.id.0;
        let flight = match &mut self.schedule {
            Schedule::Dependencies(graph) => graph.complete(number, completion.at),
            Schedule::InOrder(queue) => queue.complete(number, completion.at),
        }?;
        self.in_flight -= 1;
        self.last = self.last.max(completion.at);
        self.note_marks();
        Some(flight)
    }

    /// Reads steps until the schedule is full or the recording ends.
    fn fill(&mut self) {
        while !self.ended && self.schedule.has_room() {
            if !self.steps.read_step(&mut self.step) {
                self.ended = true;
                return;
            }
            let pushed = match &mut self.schedule {
                Schedule::Dependencies(graph) => graph.push(&self.step),
                Schedule::InOrder(queue) => queue.push(self.read, &self.step),
            };
            self.read += 1;
            self.refuse(pushed);
            self.note_marks();
        }
    }

    fn refuse(&mut self, result: Result<(), ReplayError>) {
        if let Err(refused) = result {
            self.refused.get_or_insert(refused);
            self.ended = true;
        }
    }

    /// Notes the marks that the schedule reached, and a step that starts too late.
    #[inline]
    fn note_marks(&mut self) {
        let is_quiet = match &self.schedule {
            Schedule::Dependencies(graph) => graph.is_quiet(),
            Schedule::InOrder(queue) => queue.is_quiet(),
        };
        if !is_quiet {
            self.note_reached();
        }
    }

    fn note_reached(&mut self) {
        let mut note = |reached| match reached {
            Reached::Operation(latency) => self.outcome.operations.record(latency),
            Reached::RunBegins(at) => self.run_begins = Some(at),
            Reached::RunEnds(at) => self.run_ends = Some(at),
        };
        match &mut self.schedule {
            Schedule::Dependencies(graph) => {
                graph.take_reached().for_each(note);
                let within = graph.too_late().map_or(Ok(()), Err);
                self.refuse(within);
            }
            Schedule::InOrder(queue) => queue.take_reached().for_each(&mut note),
        }
    }
}

impl Schedule {
    fn has_room(&self) -> bool {
        match self {
            Schedule::Dependencies(graph) => graph.has_room(),
            Schedule::InOrder(queue) => queue.has_room(),
        }
    }
}

impl<S: ReadStep> Workload for Replay<S> {
    fn next(&mut self, now: Instant) -> Arrival {
        self.fill();
        let (ready, has_started_all) = match &self.schedule {
            Schedule::Dependencies(graph) => (graph.next_ready(), graph.is_over()),
            Schedule::InOrder(queue) => (queue.next_ready(), queue.has_started_all()),
        };
        match ready {
            Some(at) => Arrival::At(at.max(now)),
            None if self.ended && (has_started_all || self.in_flight == 0) => Arrival::Done,
            None => Arrival::Waiting,
        }
    }

    fn submit(&mut self, at: Instant) -> Request {
        let taken = match &mut self.schedule {
            Schedule::Dependencies(graph) => graph.take_ready(at),
            Schedule::InOrder(queue) => queue.take_ready(at),
        };
        let (id, Flight { op, offset, length, .. }) = taken.expect("`submit` follows an arrival");
        self.in_flight += 1;
        self.note_marks();
        Request { id: RequestId(id), op, file: FileId::DEVICE, offset, length }
    }

    fn completed(&mut self, completion: &Completion) {
        let Some(Flight { op, since, .. }) = self.end(completion) else { return };
        let latency = completion.at.since(since);
        match op {
            Op::Read => self.outcome.reads.record(latency, &completion.spent),
            Op::Write | Op::WriteFua => self.outcome.writes.record(latency, &completion.spent),
            Op::Trim => self.outcome.trims.record(latency, &completion.spent),
            Op::Flush | Op::FlushData => self.outcome.flushes.record(latency, &completion.spent),
        }
        self.outcome.failed += u64::from(completion.status != Status::Ok);
    }
}
