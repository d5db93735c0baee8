//! The dependencies of a recorded run during a replay: they determine which steps may start, and when.
//!
//! The graph holds a window of the run. Steps enter at the end of the window in recorded order. They leave at
//! its front once they are over and too far back for the causes of later steps, so memory does not grow with
//! the length of the run.

use crate::replay::Flight;
use crate::waiters::{List, Waiter, Waiters};
use crate::{Action, Cause, Event, MarkKind, Step, TaskId};
use flashlab_sim::{Duration, Instant, Op};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;

/// Largest distance from the oldest step that is not over to the end of the window. Steps beyond it are read once the
/// window moves.
const AHEAD: u64 = 65_536;
/// Maximum number of causes in the window whose instants are unknown. At the maximum, the replay reads no
/// further step. At 16 bytes each and with spare room, the causes, including those of the last step read,
/// take at most 34 MB.
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
    /// The step would start more than 146 years after the start of the run.
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
                write!(f, "step {step} waits for a step at distance {back}: expected 1 to {farthest}")
            }
            ReplayError::TooLate { step } => {
                write!(f, "step {step} starts more than 146 years after the start of the run")
            }
        }
    }
}

impl std::error::Error for ReplayError {}

/// A step in the window.
#[derive(Debug)]
struct Slot {
    content: Content,
    /// Latest instant of the causes that are known. From [`State::Started`] on, the start of the step.
    ready: Instant,
    /// While the request is in flight, the instant of its submission. Once the step is over, the end of the
    /// step.
    at: Instant,
    /// Causes whose instant is not known yet.
    unresolved: u32,
    /// Steps that wait for the start of this one.
    wait_for_start: List,
    /// Steps that wait for the end of this one.
    wait_for_end: List,
    state: State,
}

/// The part of a step that is needed at its end. The window holds up to 131,070 slots, and small slots make
/// better use of the processor's caches.
#[derive(Clone, Copy, Debug)]
enum Content {
    Request {
        op: Op,
        offset: u64,
        length: u64,
    },
    /// The mark at which the operation of a task begins.
    Begins(TaskId),
    /// The mark at which an operation ends, with the start of the operation.
    Ends(Option<Begin>),
    RunBegins,
    RunEnds,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Not all causes are known.
    Waiting,
    /// The start is known.
    Started,
    /// The request was submitted.
    InFlight,
    Over,
}

const _: () = assert!(size_of::<Slot>() <= 64);

impl Slot {
    /// Returns the instant of an event, if it is known.
    #[inline]
    fn instant_of(&self, event: Event) -> Option<Instant> {
        match event {
            Event::Started => (self.state != State::Waiting).then_some(self.ready),
            Event::Completed => (self.state == State::Over).then_some(self.at),
        }
    }
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
    /// Number of the oldest step that may not be over.
    oldest: u64,
    ready: BinaryHeap<Reverse<(Instant, u64)>>,
    /// Start of the open operation of each task.
    operations: BTreeMap<TaskId, Begin>,
    /// Causes in the window whose instant is not known yet.
    waiters: Waiters,
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
            waiters: Waiters::default(),
            reached: Vec::new(),
            unsettled: Vec::new(),
            too_late: None,
        }
    }

    /// Returns true if the window has room for another step.
    pub(crate) fn has_room(&self) -> bool {
        self.next_number() < self.oldest + AHEAD && self.waiters.count() < UNKNOWN_CAUSES_MAX
    }

    /// Returns true if every step of the window is over.
    pub(crate) fn is_over(&self) -> bool {
        self.oldest == self.next_number()
    }

    /// Appends the next step of the recording.
    pub(crate) fn push(&mut self, step: &Step) -> Result<(), ReplayError> {
        let number = self.next_number();
        let mut slot = Slot {
            content: Content::RunBegins,
            ready: self.start,
            at: Instant::ZERO,
            unresolved: 0,
            wait_for_start: List::default(),
            wait_for_end: List::default(),
            state: State::Waiting,
        };
        for cause in &step.causes {
            match *cause {
                Cause::Instant(after) => slot.ready = slot.ready.max(self.start.saturating_add(after)),
                Cause::Step { back, event, think } => {
                    if back == 0 || back > Cause::FARTHEST || u64::from(back) > number {
                        return Err(ReplayError::Distance { step: number, back });
                    }
                    self.wait(&mut slot, number, number - u64::from(back), event, think);
                }
            }
        }
        slot.content = match step.action {
            Action::Request { op, offset, length, .. } => Content::Request { op, offset, length },
            Action::Mark(MarkKind::RunBegins) => Content::RunBegins,
            Action::Mark(MarkKind::RunEnds) => Content::RunEnds,
            Action::Mark(MarkKind::OperationBegins) => {
                self.operations.insert(step.task, Begin::Step(number));
                Content::Begins(step.task)
            }
            // An operation cannot end before it begins, even if the recording does not state this dependency.
            Action::Mark(MarkKind::OperationEnds) => {
                let operation = self.operations.remove(&step.task);
                match operation {
                    Some(Begin::Step(begin)) => {
                        self.wait(&mut slot, number, begin, Event::Completed, Duration::ZERO);
                    }
                    Some(Begin::At(at)) => slot.ready = slot.ready.max(at),
                    None => {}
                }
                Content::Ends(operation)
            }
        };
        let resolved = slot.unresolved == 0;
        self.window.push_back(slot);
        if resolved {
            self.start_step(number);
            self.settle();
        }
        Ok(())
    }

    /// Returns the first step that was found to start more than [`LONGEST`] after the start of the run.
    pub(crate) fn too_late(&self) -> Option<ReplayError> {
        self.too_late.map(|step| ReplayError::TooLate { step })
    }

    /// Returns the start of the next request that may start.
    pub(crate) fn next_ready(&self) -> Option<Instant> {
        self.ready.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the request that [`Graph::next_ready`] announced, with its number.
    #[inline]
    pub(crate) fn take_ready(&mut self, now: Instant) -> Option<(u64, Flight)> {
        let Reverse((_, number)) = self.ready.pop()?;
        let slot = self.slot_mut(number);
        let Content::Request { op, offset, length } = slot.content else { return None };
        (slot.state, slot.at) = (State::InFlight, now);
        Some((number, Flight { op, offset, length, since: now, submitted: now }))
    }

    /// Marks a request as completed. Returns `None` if it is not in flight.
    #[inline]
    pub(crate) fn complete(&mut self, number: u64, at: Instant) -> Option<Flight> {
        if number < self.first || number >= self.next_number() {
            return None;
        }
        let slot = self.slot_mut(number);
        let (State::InFlight, Content::Request { op, offset, length }) = (slot.state, slot.content) else {
            return None;
        };
        let submitted = std::mem::replace(&mut slot.at, at);
        slot.state = State::Over;
        let list = std::mem::take(&mut slot.wait_for_end);
        self.tell(number, Event::Completed, list, at);
        self.settle();
        Some(Flight { op, offset, length, since: submitted, submitted })
    }

    /// Returns true if no mark was reached since the last call of [`Graph::take_reached`], and no step is too late.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.reached.is_empty() && self.too_late.is_none()
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

    /// Returns the number of the step in the window whose low bits are `step`.
    #[inline]
    fn number_of(&self, step: u32) -> u64 {
        self.first + u64::from(step.wrapping_sub(self.first as u32))
    }

    /// Makes the new step `slot`, whose number is `number`, wait for an event of step `earlier`, which is still in the
    /// window.
    #[inline]
    fn wait(&mut self, slot: &mut Slot, number: u64, earlier: u64, event: Event, think: Duration) {
        let source = &mut self.window[(earlier - self.first) as usize];
        if let Some(at) = source.instant_of(event) {
            slot.ready = slot.ready.max(at.saturating_add(think));
            return;
        }
        let list = match event {
            Event::Started => &mut source.wait_for_start,
            Event::Completed => &mut source.wait_for_end,
        };
        slot.unresolved += 1;
        self.waiters.push(list, Waiter { step: number as u32, think });
    }

    /// Fixes the start of a step whose causes are all known.
    #[inline]
    fn start_step(&mut self, number: u64) {
        let latest = self.start.saturating_add(LONGEST);
        let slot = self.slot_mut(number);
        let at = slot.ready;
        if at > latest {
            self.too_late.get_or_insert(number);
            return;
        }
        slot.state = State::Started;
        if let Content::Request { .. } = slot.content {
            self.ready.push(Reverse((at, number)));
        } else {
            self.reach(number, at);
        }
        self.unsettled.push(number);
    }

    /// Ends the step of a mark, which starts and ends at the same instant.
    fn reach(&mut self, number: u64, at: Instant) {
        let slot = self.slot_mut(number);
        (slot.state, slot.at) = (State::Over, at);
        match slot.content {
            Content::Request { .. } => unreachable!("a request is no mark"),
            Content::Begins(task) => {
                let open = self.operations.get_mut(&task);
                if let Some(begin) = open.filter(|begin| **begin == Begin::Step(number)) {
                    *begin = Begin::At(at);
                }
            }
            Content::Ends(operation) => {
                if let Some(Begin::At(began)) = operation {
                    self.reached.push(Reached::Operation(at.since(began)));
                }
            }
            Content::RunBegins => self.reached.push(Reached::RunBegins(at)),
            Content::RunEnds => self.reached.push(Reached::RunEnds(at)),
        }
    }

    /// Reports the events of started steps to the steps that wait for them, until no further step starts, and moves
    /// the window.
    #[inline]
    fn settle(&mut self) {
        while let Some(number) = self.unsettled.pop() {
            let slot = self.slot_mut(number);
            let (started, over) = (slot.ready, slot.instant_of(Event::Completed));
            let list = std::mem::take(&mut slot.wait_for_start);
            self.tell(number, Event::Started, list, started);
            if let Some(at) = over {
                let list = std::mem::take(&mut self.slot_mut(number).wait_for_end);
                self.tell(number, Event::Completed, list, at);
            }
        }
        while self.oldest < self.next_number() && self.slot(self.oldest).state == State::Over {
            self.oldest += 1;
        }
        let retained = self.next_number().saturating_sub(u64::from(Cause::FARTHEST));
        while self.first < self.oldest.min(retained) {
            self.window.pop_front();
            self.first += 1;
        }
    }

    /// Reports an event of step `number` to the steps in `list`, which wait for it.
    #[inline]
    fn tell(&mut self, number: u64, event: Event, list: List, at: Instant) {
        let mut list = self.waiters.reversed(list);
        while let Some(waiter) = self.waiters.pop(&mut list) {
            let step = self.number_of(waiter.step);
            let slot = self.slot_mut(step);
            slot.ready = slot.ready.max(at.saturating_add(waiter.think));
            slot.unresolved -= 1;
            if let (Event::Completed, Content::Ends(Some(begin))) = (event, &mut slot.content)
                && *begin == Begin::Step(number)
            {
                *begin = Begin::At(at);
            }
            if slot.unresolved == 0 {
                self.start_step(step);
            }
        }
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

    #[test]
    fn steps_with_many_causes_take_bounded_memory() {
        let action = Action::Request { op: Op::Read, offset: 0, length: 4096, flags: Flags::default() };
        let count = 5_000;
        let mut graph = Graph::new(Instant::ZERO);
        let (mut pushed, mut most) = (0, 0);
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
            most = most.max(graph.waiters.count());
            let at = graph.next_ready().expect("each completion readies the next request");
            assert_eq!(graph.take_ready(at).map(|(number, _)| number), Some(done));
            graph.complete(done, at);
        }
        assert!(graph.is_over());
        assert!((UNKNOWN_CAUSES_MAX..=UNKNOWN_CAUSES_MAX + 1024).contains(&most), "{most} causes");
        assert_eq!(graph.waiters.count(), 0);
        assert!(graph.waiters.bytes() <= 34_000_000, "{} bytes", graph.waiters.bytes());
    }
}
