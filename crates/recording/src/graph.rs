//! The dependencies of a recorded run while it is replayed: which steps may start, and when.
//!
//! The graph sees a window of the run. Steps enter at its end in recorded order and leave at its front once they are
//! over, so memory does not grow with the length of the run.

use crate::{Action, Cause, Event, MarkKind, Step, TaskId};
use flashlab_sim::{Duration, Instant, Op};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;

/// Steps read beyond the oldest step that is not over. A step farther ahead waits until the window moves.
const AHEAD: u64 = 65_536;
/// Causes in the window whose instant is not known yet. No further step is read while there are as many. With
/// [`Waiter`]s of 24 bytes, they take at most 50 MB.
const UNKNOWN_CAUSES_MAX: usize = 1 << 20;

/// Longest run that can be replayed: 2^62 ns, or 146 years.
pub(crate) const LONGEST: Duration = Duration::from_ns(1 << 62);

/// A step that cannot be replayed. It ends the replay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayError {
    /// The step waits for a step outside of the recording, or too far back.
    Distance {
        /// Number of the step, from 0.
        step: u64,
        /// Its distance to the step that it waits for.
        back: u32,
    },
    /// The step would start more than 146 years after the run.
    TooLate {
        /// Number of the step, from 0.
        step: u64,
    },
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ReplayError::Distance { step, back } => {
                let farthest = step.min(Cause::FARTHEST.into());
                write!(f, "step {step} waits for a step {back} places earlier: expected 1 to {farthest}")
            }
            ReplayError::TooLate { step } => {
                write!(f, "step {step} starts more than 146 years after the run")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// A step that waits for an event of another step.
#[derive(Clone, Copy, Debug)]
struct Waiter {
    step: u64,
    event: Event,
    think: Duration,
}

/// A step in the window. Its instants are `None` until they are known.
#[derive(Debug)]
struct Slot {
    task: TaskId,
    action: Action,
    /// Instant at which the request was submitted.
    submitted: Option<Instant>,
    /// Causes whose instant is not known yet.
    unresolved: u32,
    /// Latest instant of the causes that are known.
    ready: Instant,
    started: Option<Instant>,
    completed: Option<Instant>,
    waiters: Vec<Waiter>,
    /// Start of the operation that this mark ends.
    operation: Option<Begin>,
}

/// The start of an operation: the number of its mark until the replay reaches the mark, then the instant. The mark may
/// leave the window before the operation ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Begin {
    Step(u64),
    At(Instant),
}

/// A mark, and the instant at which the replay reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// An operation ended after this time.
    Operation(Duration),
    /// The measured part of the run begins.
    RunBegins(Instant),
    /// The measured part of the run ends.
    RunEnds(Instant),
}

/// A window over the steps of a run, and the requests in it that may start.
#[derive(Debug)]
pub(crate) struct Graph {
    start: Instant,
    /// Number of the first step in the window.
    first: u64,
    window: VecDeque<Slot>,
    /// First step that may not be over.
    oldest: u64,
    ready: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Start of the open operation of each task.
    operations: BTreeMap<TaskId, Begin>,
    /// Causes in the window whose instant is not known yet.
    unknown_causes: usize,
    reached: Vec<Reached>,
    /// Steps whose start is known but not yet reported to the steps that wait for it.
    unsettled: Vec<u64>,
    too_late: Option<u64>,
}

impl Graph {
    /// Creates the graph of a run that starts at `start`.
    pub(crate) fn new(start: Instant) -> Graph {
        Graph {
            start,
            first: 0,
            window: VecDeque::new(),
            oldest: 0,
            ready: BinaryHeap::new(),
            operations: BTreeMap::new(),
            unknown_causes: 0,
            reached: Vec::new(),
            unsettled: Vec::new(),
            too_late: None,
        }
    }

    /// Returns true if the window has room for another step.
    pub(crate) fn has_room(&self) -> bool {
        self.next_number() < self.oldest + AHEAD && self.unknown_causes < UNKNOWN_CAUSES_MAX
    }

    /// Returns true if every step of the window is over.
    pub(crate) fn is_over(&self) -> bool {
        self.oldest == self.next_number()
    }

    /// Appends the next step of the recording.
    pub(crate) fn push(&mut self, step: &Step) -> Result<(), ReplayError> {
        let number = self.next_number();
        let mut slot = Slot {
            task: step.task,
            action: step.action,
            submitted: None,
            unresolved: 0,
            ready: self.start,
            started: None,
            completed: None,
            waiters: Vec::new(),
            operation: None,
        };
        for cause in &step.causes {
            match *cause {
                Cause::Instant(after) => slot.ready = slot.ready.max(self.start.saturating_add(after)),
                Cause::Step { back, event, think } => {
                    if back == 0 || back > Cause::FARTHEST || u64::from(back) > number {
                        return Err(ReplayError::Distance { step: number, back });
                    }
                    let waiter = Waiter { step: number, event, think };
                    self.wait(&mut slot, number - u64::from(back), waiter);
                }
            }
        }
        match step.action {
            Action::Mark(MarkKind::OperationBegins) => {
                self.operations.insert(step.task, Begin::Step(number));
            }
            // An operation cannot end before it begins, even if the recording does not state this dependency.
            Action::Mark(MarkKind::OperationEnds) => {
                slot.operation = self.operations.remove(&step.task);
                match slot.operation {
                    Some(Begin::Step(begin)) => {
                        let waiter = Waiter { step: number, event: Event::Completed, think: Duration::ZERO };
                        self.wait(&mut slot, begin, waiter);
                    }
                    Some(Begin::At(at)) => slot.ready = slot.ready.max(at),
                    None => {}
                }
            }
            _ => {}
        }
        let resolved = slot.unresolved == 0;
        self.window.push_back(slot);
        if resolved {
            self.start_step(number);
            self.settle();
        }
        Ok(())
    }

    /// Returns the first step found that would start after the longest run.
    pub(crate) fn too_late(&self) -> Option<ReplayError> {
        self.too_late.map(|step| ReplayError::TooLate { step })
    }

    /// Returns the start of the next request that may start.
    pub(crate) fn next_ready(&self) -> Option<Instant> {
        self.ready.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the request that [`Graph::next_ready`] announced, with its number.
    pub(crate) fn take_ready(&mut self, now: Instant) -> Option<(u64, Action)> {
        let Reverse((_, number)) = self.ready.pop()?;
        let slot = self.slot_mut(number);
        slot.submitted = Some(now);
        Some((number, slot.action))
    }

    /// Marks a request as completed. Returns its operation and the instant at which it was submitted, or `None` if it
    /// is not in flight.
    pub(crate) fn complete(&mut self, number: u64, at: Instant) -> Option<(Op, Instant)> {
        if number < self.first || number >= self.next_number() {
            return None;
        }
        let slot = self.slot_mut(number);
        let (Some(since), None, Action::Request { op, .. }) = (slot.submitted, slot.completed, slot.action)
        else {
            return None;
        };
        slot.completed = Some(at);
        self.tell(number, Event::Completed, at);
        self.settle();
        Some((op, since))
    }

    /// Returns the marks that were reached since the last call.
    pub(crate) fn take_reached(&mut self) -> impl Iterator<Item = Reached> + '_ {
        self.reached.drain(..)
    }

    fn next_number(&self) -> u64 {
        self.first + self.window.len() as u64
    }

    fn slot(&self, number: u64) -> &Slot {
        &self.window[(number - self.first) as usize]
    }

    fn slot_mut(&mut self, number: u64) -> &mut Slot {
        &mut self.window[(number - self.first) as usize]
    }

    /// Lets the new step `slot` wait for an event of step `earlier`, which is still in the window.
    fn wait(&mut self, slot: &mut Slot, earlier: u64, waiter: Waiter) {
        let source = self.slot_mut(earlier);
        let known = match waiter.event {
            Event::Started => source.started,
            Event::Completed => source.completed,
        };
        match known {
            Some(at) => slot.ready = slot.ready.max(at.saturating_add(waiter.think)),
            None => {
                slot.unresolved += 1;
                source.waiters.push(waiter);
                self.unknown_causes += 1;
            }
        }
    }

    /// Fixes the start of a step whose causes are all known.
    fn start_step(&mut self, number: u64) {
        let latest = self.start.saturating_add(LONGEST);
        let slot = self.slot_mut(number);
        let at = slot.ready;
        if at > latest {
            self.too_late.get_or_insert(number);
            return;
        }
        slot.started = Some(at);
        let Slot { task, operation, .. } = *slot;
        match slot.action {
            Action::Request { .. } => self.ready.push(Reverse((at, number))),
            Action::Mark(kind) => {
                slot.completed = Some(at);
                match kind {
                    MarkKind::OperationBegins => {
                        let open = self.operations.get_mut(&task);
                        if let Some(begin) = open.filter(|begin| **begin == Begin::Step(number)) {
                            *begin = Begin::At(at);
                        }
                    }
                    MarkKind::OperationEnds => {
                        if let Some(Begin::At(began)) = operation {
                            self.reached.push(Reached::Operation(at.since(began)));
                        }
                    }
                    MarkKind::RunBegins => self.reached.push(Reached::RunBegins(at)),
                    MarkKind::RunEnds => self.reached.push(Reached::RunEnds(at)),
                }
            }
        }
        self.unsettled.push(number);
    }

    /// Reports the events of started steps to the steps that wait for them, until no further step starts, and moves
    /// the window.
    fn settle(&mut self) {
        while let Some(number) = self.unsettled.pop() {
            let Slot { started, completed, .. } = *self.slot(number);
            if let Some(at) = started {
                self.tell(number, Event::Started, at);
            }
            if let Some(at) = completed {
                self.tell(number, Event::Completed, at);
            }
        }
        while self.oldest < self.next_number() && self.slot(self.oldest).completed.is_some() {
            self.oldest += 1;
        }
        let retained = self.next_number().saturating_sub(u64::from(Cause::FARTHEST));
        while self.first < self.oldest.min(retained) {
            self.window.pop_front();
            self.first += 1;
        }
    }

    /// Reports an event of step `number` to the steps that wait for it.
    fn tell(&mut self, number: u64, event: Event, at: Instant) {
        let mut waiters = std::mem::take(&mut self.slot_mut(number).waiters);
        let before = waiters.len();
        waiters.retain(|waiter| {
            if waiter.event != event {
                return true;
            }
            let slot = self.slot_mut(waiter.step);
            slot.ready = slot.ready.max(at.saturating_add(waiter.think));
            slot.unresolved -= 1;
            if event == Event::Completed && slot.operation == Some(Begin::Step(number)) {
                slot.operation = Some(Begin::At(at));
            }
            if slot.unresolved == 0 {
                self.start_step(waiter.step);
            }
            false
        });
        self.unknown_causes -= before - waiters.len();
        // The step stays in the window long after its events, so its spare capacity would add up.
        waiters.shrink_to_fit();
        self.slot_mut(number).waiters = waiters;
    }
}

#[cfg(test)]
mod tests {
    use super::{AHEAD, Graph, UNKNOWN_CAUSES_MAX};
    use crate::{Action, Cause, Event, Flags, Step, TaskId};
    use flashlab_sim::{Duration, Instant, Op};

    #[test]
    fn the_window_does_not_grow_with_the_run() {
        let action = Action::Request { op: Op::Read, offset: 0, length: 4096, flags: Flags::default() };
        let follows = vec![Cause::Step { back: 1, event: Event::Completed, think: Duration::from_us(1) }];
        let mut graph = Graph::new(Instant::ZERO);
        let (mut pushed, mut longest) = (0, 0);
        for done in 0..300_000 {
            while graph.has_room() && pushed < 300_000 {
                let causes = if pushed == 0 { Vec::new() } else { follows.clone() };
                graph.push(&Step { task: TaskId(0), at: Duration::ZERO, action, causes }).unwrap();
                pushed += 1;
            }
            longest = longest.max(graph.window.len() as u64);
            let at = graph.next_ready().expect("each completion readies the next request");
            assert_eq!(graph.take_ready(at).map(|(number, _)| number), Some(done));
            graph.complete(done, at);
        }
        assert!(graph.is_over());
        assert!(longest <= AHEAD + u64::from(Cause::FARTHEST), "{longest}");
    }

    /// Causes and bytes that the waiters of the whole window take.
    fn waiters(graph: &Graph) -> (usize, usize) {
        let lists = graph.window.iter().map(|slot| &slot.waiters);
        lists.fold((0, 0), |(count, room), list| (count + list.len(), room + list.capacity()))
    }

    #[test]
    fn steps_with_many_causes_take_bounded_memory() {
        let action = Action::Request { op: Op::Read, offset: 0, length: 4096, flags: Flags::default() };
        let count = 5_000;
        let mut graph = Graph::new(Instant::ZERO);
        let (mut pushed, mut most, mut roomiest) = (0, 0, 0);
        for done in 0..count {
            while graph.has_room() && pushed < count {
                let events = [Event::Started, Event::Completed];
                let causes = (1..=pushed.min(512) as u32)
                    .flat_map(|back| events.map(|event| Cause::Step { back, event, think: Duration::ZERO }));
                graph
                    .push(&Step { task: TaskId(0), at: Duration::ZERO, action, causes: causes.collect() })
                    .unwrap();
                pushed += 1;
            }
            if done % 64 == 0 {
                let (causes, room) = waiters(&graph);
                assert_eq!(causes, graph.unknown_causes);
                (most, roomiest) = (most.max(causes), roomiest.max(room));
            }
            let at = graph.next_ready().expect("each completion readies the next request");
            assert_eq!(graph.take_ready(at).map(|(number, _)| number), Some(done));
            graph.complete(done, at);
        }
        assert!(graph.is_over());
        assert!(most <= UNKNOWN_CAUSES_MAX + 1024, "{most} causes");
        assert!(roomiest <= 2 * UNKNOWN_CAUSES_MAX + 1024, "room for {roomiest} causes");
    }
}
