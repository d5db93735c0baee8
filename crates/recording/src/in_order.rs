//! Replay in recorded order, without dependencies: by timestamps, or as fast as a queue depth allows.
//!
//! In a replay by timestamps, a mark that begins the run or an operation is reached at its recorded instant
//! times the scale. In a replay as fast as possible, such a mark is reached when the next request starts. A
//! mark that ends the run or an operation is reached once every request before it is over, but not before its
//! instant.

use crate::graph::{LONGEST, Reached, ReplayError};
use crate::replay::Flight;
use crate::{Action, MarkKind, Step, TaskId};
use flashlab_sim::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Largest number of requests in flight in a replay by timestamps. Further requests wait, but their latencies
/// count from their recorded instants.
const IN_FLIGHT_MAX: usize = 65_536;
/// Maximum number of marks that wait for earlier requests. At the maximum, the replay reads no further step.
const ENDS_MAX: usize = 65_536;

/// Rule for the start of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    /// The recorded instant times a scale.
    Timestamps { numerator: u64, denominator: u64 },
    /// Room in a queue of this depth.
    Fast { depth: u32 },
}

/// A mark that waits for the requests before it.
#[derive(Clone, Copy, Debug)]
struct End {
    /// Number of requests before the mark.
    after: u64,
    earliest: Instant,
    /// Start of the operation that the mark ends; `None` for the end of the run.
    began: Option<Instant>,
}

/// State of the replay: the next request, the requests in flight, and the marks that were read but not
/// reached.
#[derive(Debug)]
pub(crate) struct InOrder {
    pace: Pace,
    start: Instant,
    next: Option<(Instant, Action)>,
    /// Requests from the oldest in flight on; `None` once a request is over.
    flights: VecDeque<Option<Flight>>,
    in_flight: usize,
    /// Number of the first request in `flights`.
    oldest: u64,
    ends: VecDeque<End>,
    /// Start of the open operation of each task.
    operations: BTreeMap<TaskId, Instant>,
    /// Tasks whose operation begins with the next request.
    beginning: BTreeSet<TaskId>,
    run_is_beginning: bool,
    /// Latest completion.
    last: Instant,
    reached: Vec<Reached>,
}

impl InOrder {
    pub(crate) fn new(pace: Pace, start: Instant) -> InOrder {
        InOrder {
            pace,
            start,
            next: None,
            flights: VecDeque::new(),
            in_flight: 0,
            oldest: 0,
            ends: VecDeque::new(),
            operations: BTreeMap::new(),
            beginning: BTreeSet::new(),
            run_is_beginning: false,
            last: start,
            reached: Vec::new(),
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.next.is_none() && self.ends.len() < ENDS_MAX
    }

    /// Returns true if every request that was read has started.
    pub(crate) fn has_started_all(&self) -> bool {
        self.next.is_none()
    }

    /// Appends step `number` of the recording.
    pub(crate) fn push(&mut self, number: u64, step: &Step) -> Result<(), ReplayError> {
        let after = match self.pace {
            Pace::Timestamps { numerator, denominator } => scaled(step.at, numerator, denominator),
            Pace::Fast { .. } => Duration::ZERO,
        };
        if after > LONGEST {
            return Err(ReplayError::TooLate { step: number });
        }
        let at = self.start.saturating_add(after);
        match step.action {
            Action::Request { .. } => self.next = Some((at, step.action)),
            Action::Mark(kind) => self.mark(kind, step.task, at),
        }
        Ok(())
    }

    fn mark(&mut self, kind: MarkKind, task: TaskId, at: Instant) {
        let is_known = matches!(self.pace, Pace::Timestamps { .. });
        match kind {
            MarkKind::RunBegins if is_known => self.reached.push(Reached::RunBegins(at)),
            MarkKind::RunBegins => self.run_is_beginning = true,
            MarkKind::OperationBegins if is_known => {
                self.operations.insert(task, at);
            }
            MarkKind::OperationBegins => {
                self.operations.remove(&task);
                self.beginning.insert(task);
            }
            MarkKind::RunEnds => self.end(at, None),
            MarkKind::OperationEnds => {
                let begins_now = self.beginning.remove(&task);
                let began = self.operations.remove(&task).or(begins_now.then_some(self.last));
                if began.is_some() {
                    self.end(at, began);
                }
            }
        }
    }

    fn end(&mut self, earliest: Instant, began: Option<Instant>) {
        self.ends.push_back(End { after: self.oldest + self.flights.len() as u64, earliest, began });
        self.reach_ends();
    }

    /// Returns the start of the next request, or `None` if it waits for a completion.
    pub(crate) fn next_ready(&self) -> Option<Instant> {
        let most = match self.pace {
            Pace::Timestamps { .. } => IN_FLIGHT_MAX,
            Pace::Fast { depth } => depth as usize,
        };
        let (at, _) = self.next?;
        (self.in_flight < most).then_some(at)
    }

    /// Takes the request that [`InOrder::next_ready`] announced, with its number.
    pub(crate) fn take_ready(&mut self, now: Instant) -> Option<(u64, Flight)> {
        let (at, action) = self.next.take()?;
        let Action::Request { op, offset, length, .. } = action else { return None };
        for task in std::mem::take(&mut self.beginning) {
            self.operations.insert(task, now);
        }
        if std::mem::take(&mut self.run_is_beginning) {
            self.reached.push(Reached::RunBegins(now));
        }
        let since = match self.pace {
            Pace::Timestamps { .. } => at,
            Pace::Fast { .. } => now,
        };
        let flight = Flight { op, offset, length, since, submitted: now };
        self.flights.push_back(Some(flight));
        self.in_flight += 1;
        Some((self.oldest + self.flights.len() as u64 - 1, flight))
    }

    /// Ends a request. Returns `None` if it is not in flight.
    pub(crate) fn complete(&mut self, number: u64, at: Instant) -> Option<Flight> {
        let place = usize::try_from(number.checked_sub(self.oldest)?).ok()?;
        let flight = self.flights.get_mut(place)?.take()?;
        self.in_flight -= 1;
        self.last = self.last.max(at);
        while self.flights.pop_front_if(|flight| flight.is_none()).is_some() {
            self.oldest += 1;
        }
        self.reach_ends();
        Some(flight)
    }

    fn reach_ends(&mut self) {
        while let Some(end) = self.ends.pop_front_if(|end| end.after <= self.oldest) {
            let at = end.earliest.max(self.last);
            self.reached.push(match end.began {
                Some(began) => Reached::Operation(at.saturating_since(began)),
                None => Reached::RunEnds(at),
            });
        }
    }

    /// Returns true if no mark was reached since the last call of [`InOrder::take_reached`].
    pub(crate) fn is_quiet(&self) -> bool {
        self.reached.is_empty()
    }

    /// Returns the marks that were reached since the last call.
    pub(crate) fn take_reached(&mut self) -> impl Iterator<Item = Reached> + '_ {
        self.reached.drain(..)
    }
}

/// Returns `time * numerator / denominator`, at most the longest duration.
fn scaled(time: Duration, numerator: u64, denominator: u64) -> Duration {
    let ns = u128::from(time.as_ns()) * u128::from(numerator) / u128::from(denominator);
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}
