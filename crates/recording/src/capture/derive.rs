//! Causes of requests, derived from wake-ups on one processor.
//!
//! Each task has an origin: the event that let it run last. A completion that wakes a task becomes its origin; a task
//! that wakes another passes its own origin on; a started step becomes the origin of its task. Since one processor runs
//! and the chain from origin to step has no sleep that waits for the device, the difference of the two instants is
//! processor time, and contains no latency of the recording device.
//!
//! - A new task has the origin of the task that created it.
//! - A timer does not change the origin of a task that sleeps: its sleep counts as think time, as in `sleep 1` after an
//!   `fsync`. An idle kernel thread (state `I`) that a timer wakes has the instant as its origin, as periodic
//!   write-back has.
//! - A task that waits for several of its own synchronous requests is woken by the last one only. The others become
//!   causes too, since a slower device may complete them in another order.
//!
//! Not modelled: the processor's queue of runnable tasks in the replay; merging of requests that a slower device adds.

use core::fmt;
use std::collections::BTreeMap;

use flashlab_sim::{Duration, Op};

use super::tracefs::{Content, Device, Direction, TraceEvent};
use crate::{Action, Cause, Event, Flags, Header, MarkKind, Recording, Step, TaskId};

/// Most requests that one origin joins. A bound on the length of a step.
const JOINS_MAX: usize = 64;

/// Longest time between a completion and a wake-up in the same interrupt. Later wake-ups belong to a timer.
const SAME_INTERRUPT_NS: u64 = 50_000;

/// A trace that is no run of one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeriveError {
    /// The trace contains no request.
    NoRequest,
    /// The trace contains requests to two devices.
    SecondDevice {
        /// Number of the line.
        line: usize,
        /// The second device.
        device: Device,
    },
    /// A request failed in the guest.
    Failed {
        /// Number of the line.
        line: usize,
        /// First sector.
        sector: u64,
        /// Error number of the kernel.
        error: i64,
    },
    /// A time stamp is earlier than the one before it.
    TimeGoesBack {
        /// Number of the line.
        line: usize,
    },
    /// A request never completed.
    Incomplete {
        /// Number of the line.
        line: usize,
        /// First sector.
        sector: u64,
    },
    /// The range of a request is too large for bytes in 64 bits.
    TooFar {
        /// Number of the line.
        line: usize,
        /// First sector.
        sector: u64,
    },
}

impl fmt::Display for DeriveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeriveError::NoRequest => {
                write!(
                    f,
                    "the trace contains no request; enable the events block_rq_issue and block_rq_complete"
                )
            }
            DeriveError::SecondDevice { line, device: Device { major, minor } } => {
                write!(
                    f,
                    "line {line} of the trace: a request to a second device, {major}:{minor}; trace one device"
                )
            }
            DeriveError::Failed { line, sector, error } => {
                write!(
                    f,
                    "line {line} of the trace: the request at sector {sector} failed with error {error}"
                )
            }
            DeriveError::TimeGoesBack { line } => {
                write!(f, "line {line} of the trace: time goes back; use the trace clock `mono`")
            }
            DeriveError::Incomplete { line, sector } => {
                write!(
                    f,
                    "line {line} of the trace: the request at sector {sector} does not complete within the trace"
                )
            }
            DeriveError::TooFar { line, sector } => {
                write!(f, "line {line} of the trace: sector {sector} is beyond 16 EiB")
            }
        }
    }
}

impl std::error::Error for DeriveError {}

/// Derives the recording of a trace. Its instants count from the first event. The recording device needed `latency` for
/// each request; the rest of the time from issue to completion counts as processor time after the completion.
pub fn derive(header: Header, latency: Duration, events: &[TraceEvent]) -> Result<Recording, DeriveError> {
    let mut derivation =
        Derivation { start_ns: events.first().map_or(0, |event| event.at_ns), latency, ..Default::default() };
    let mut last = 0;
    for event in events {
        if event.at_ns < last {
            return Err(DeriveError::TimeGoesBack { line: event.line });
        }
        last = event.at_ns;
        derivation.handle(event)?;
    }
    if derivation.device.is_none() {
        return Err(DeriveError::NoRequest);
    }
    if let Some(request) = derivation.in_flight.first() {
        return Err(DeriveError::Incomplete { line: request.line, sector: request.sector });
    }
    let Derivation { tasks, steps, .. } = derivation;
    Ok(Recording { header: Header { has_dependencies: true, ..header }, tasks, steps })
}

/// An event that lets tasks run.
#[derive(Clone, Default, Debug)]
struct Origin {
    /// Step and event; none for the start of the run and for timers.
    event: Option<(usize, Event)>,
    /// Instant of the event.
    at_ns: u64,
    /// Requests that were complete at the instant and that the task waited for as well, with their completions.
    joins: Vec<(usize, u64)>,
}

#[derive(Default)]
struct Task {
    id: TaskId,
    origin: Origin,
    /// Origin of the wake-up that the next switch to the task applies.
    woken: Option<Origin>,
    is_idle_thread: bool,
    /// Synchronous requests of the task since its last step after a wait: step and completion.
    waits_for: Vec<(usize, Option<u64>)>,
}

struct InFlight {
    line: usize,
    step: usize,
    flush: bool,
    sector: u64,
    end: u64,
    pid: u32,
}

/// A completion in an interrupt.
#[derive(Clone, Copy)]
struct Completion {
    step: usize,
    /// Instant at which the recording device was done.
    at_ns: u64,
    /// Instant of the event in the trace.
    traced_ns: u64,
}

impl Completion {
    fn origin(self) -> Origin {
        Origin { event: Some((self.step, Event::Completed)), at_ns: self.at_ns, joins: Vec::new() }
    }
}

#[derive(Default)]
struct Derivation {
    start_ns: u64,
    latency: Duration,
    device: Option<Device>,
    tasks: Vec<String>,
    by_pid: BTreeMap<u32, Task>,
    in_flight: Vec<InFlight>,
    /// Last completion of the current interrupt.
    interrupt: Option<Completion>,
    steps: Vec<Step>,
}

impl Derivation {
    fn handle(&mut self, event: &TraceEvent) -> Result<(), DeriveError> {
        if !event.in_interrupt {
            self.interrupt = None;
        }
        match &event.content {
            Content::Issue { device, direction, flags, sector, sectors } => {
                self.check_device(*device, event.line)?;
                self.issue(event, *direction, *flags, *sector, *sectors)?;
            }
            Content::Complete { device, direction, sector, sectors, error } => {
                self.check_device(*device, event.line)?;
                if *error != 0 {
                    return Err(DeriveError::Failed { line: event.line, sector: *sector, error: *error });
                }
                self.complete(event, *direction == Direction::Flush, *sector, *sectors);
            }
            Content::Waking { pid } => self.wake(event, *pid),
            Content::Switch { state, next } => {
                let previous = self.task(event.pid, Some(&event.task), event.at_ns);
                previous.is_idle_thread = *state == 'I';
                let parent = previous.origin.clone();
                let is_new = *next != 0 && event.pid != 0 && !self.by_pid.contains_key(next);
                let task = self.task(*next, None, event.at_ns);
                if is_new {
                    task.origin = parent;
                } else if let Some(origin) = task.woken.take() {
                    task.origin = origin;
                }
            }
            Content::New { pid } => {
                let parent = self.task(event.pid, Some(&event.task), event.at_ns).origin.clone();
                self.by_pid.remove(pid);
                self.task(*pid, None, event.at_ns).origin = parent;
            }
            Content::Marker(text) => {
                if let Some(kind) = mark(text) {
                    self.start(event, Action::Mark(kind));
                }
            }
        }
        Ok(())
    }

    fn check_device(&mut self, device: Device, line: usize) -> Result<(), DeriveError> {
        match *self.device.get_or_insert(device) == device {
            true => Ok(()),
            false => Err(DeriveError::SecondDevice { line, device }),
        }
    }

    /// Returns the task. A task that the trace shows for the first time runs since the instant `now`.
    fn task(&mut self, pid: u32, name: Option<&str>, now: u64) -> &mut Task {
        let tasks = &mut self.tasks;
        let task = self.by_pid.entry(pid).or_insert_with(|| {
            tasks.push(String::new());
            let id =
                TaskId(u32::try_from(tasks.len() - 1).expect("a trace in memory has fewer than 2^32 tasks"));
            Task { id, origin: Origin { at_ns: now, ..Origin::default() }, ..Task::default() }
        });
        if let Some(name) = name
            && name != "<idle>"
        {
            tasks[task.id.0 as usize] = name.into();
        }
        task
    }

    fn issue(
        &mut self,
        event: &TraceEvent,
        direction: Direction,
        flags: Flags,
        sector: u64,
        sectors: u64,
    ) -> Result<(), DeriveError> {
        let flush = direction == Direction::Flush;
        let too_far = DeriveError::TooFar { line: event.line, sector };
        let (sector, sectors) = if flush { (0, 0) } else { (sector, sectors) };
        let bytes = |sectors: u64| sectors.checked_mul(512);
        let end = sector.checked_add(sectors).filter(|end| bytes(*end).is_some()).ok_or(too_far)?;
        let op = match direction {
            Direction::Read => Op::Read,
            Direction::Write => Op::Write,
            Direction::WriteFua => Op::WriteFua,
            Direction::Discard => Op::Trim,
            Direction::Flush => Op::Flush,
        };
        let step =
            self.start(event, Action::Request { op, offset: sector * 512, length: sectors * 512, flags });
        self.in_flight.push(InFlight { line: event.line, step, flush, sector, end, pid: event.pid });
        if flags.sync && !event.in_interrupt {
            self.task(event.pid, None, event.at_ns).waits_for.push((step, None));
        }
        Ok(())
    }

    /// Appends a step of the current context with the causes of its origin, and makes the step the origin.
    fn start(&mut self, event: &TraceEvent, action: Action) -> usize {
        let step = self.steps.len();
        let start_ns = self.start_ns;
        let interrupt = self.interrupt.filter(|_| event.in_interrupt);
        let task = self.task(event.pid, Some(&event.task), event.at_ns);
        let id = task.id;
        let origin = match interrupt {
            Some(completion) => completion.origin(),
            None if event.in_interrupt => Origin { at_ns: event.at_ns, ..Origin::default() },
            None => core::mem::take(&mut task.origin),
        };
        if !event.in_interrupt {
            task.origin =
                Origin { event: Some((step, Event::Started)), at_ns: event.at_ns, joins: Vec::new() };
        }
        let causes = origin.causes(step, event.at_ns, start_ns);
        let at = Duration::from_ns(event.at_ns - start_ns);
        self.steps.push(Step { task: id, at, action, causes });
        step
    }

    fn complete(&mut self, event: &TraceEvent, flush: bool, sector: u64, sectors: u64) {
        let found = self.in_flight.iter().position(|request| match flush {
            true => request.flush,
            false => !request.flush && request.sector == sector && request.sector + sectors <= request.end,
        });
        let Some(index) = found.filter(|_| flush || sectors > 0) else { return };
        let request = &mut self.in_flight[index];
        request.sector += if flush { 0 } else { sectors };
        if request.sector < request.end {
            return;
        }
        let InFlight { step, pid, .. } = self.in_flight.remove(index);
        let done = self.steps[step].at.as_ns() + self.latency.as_ns();
        let at_ns = event.at_ns.min(self.start_ns.saturating_add(done));
        if event.in_interrupt {
            self.interrupt = Some(Completion { step, at_ns, traced_ns: event.at_ns });
        }
        let owner = self.task(pid, None, event.at_ns);
        for (_, completed) in owner.waits_for.iter_mut().filter(|(waited, _)| *waited == step) {
            *completed = Some(at_ns);
        }
    }

    fn wake(&mut self, event: &TraceEvent, pid: u32) {
        let now = event.at_ns;
        let completion =
            self.interrupt.filter(|last| event.in_interrupt && now - last.traced_ns <= SAME_INTERRUPT_NS);
        let waker = match completion {
            Some(completion) => Some(completion.origin()),
            None if event.in_interrupt => None,
            None => Some(self.task(event.pid, Some(&event.task), now).origin.clone()),
        };
        let current = event.pid;
        let known = self.by_pid.contains_key(&pid);
        let task = self.task(pid, None, now);
        let Some(mut origin) = waker else {
            // A timer: a sleep is part of the task's own time; an idle thread starts at the instant.
            if task.is_idle_thread || !known {
                task.woken = Some(Origin { at_ns: now, ..Origin::default() });
            }
            return;
        };
        if let Some((waited, Event::Completed)) = origin.event
            && completion.is_some()
        {
            let others = task.waits_for.extract_if(.., |(_, completed)| completed.is_some());
            let others =
                others.filter_map(|(step, at)| at.map(|at| (step, at))).filter(|(step, _)| *step != waited);
            origin.joins.extend(others);
            let excess = origin.joins.len().saturating_sub(JOINS_MAX);
            origin.joins.drain(..excess);
        }
        match pid == current {
            true if completion.is_some() => task.origin = origin,
            true => {}
            false if task.woken.is_none() => task.woken = Some(origin),
            false => {}
        }
    }
}

impl Origin {
    fn causes(&self, step: usize, now: u64, start_ns: u64) -> Vec<Cause> {
        let think = now - self.at_ns;
        let instant = |at_ns: u64| Cause::Instant(Duration::from_ns(at_ns - start_ns));
        let after = |earlier: usize, event: Event, think: u64| {
            let back = u32::try_from(step - earlier).ok().filter(|back| *back <= Cause::FARTHEST)?;
            Some(Cause::Step { back, event, think: Duration::from_ns(think) })
        };
        let first = match self.event {
            Some((earlier, event)) => after(earlier, event, think).unwrap_or(instant(now)),
            None => instant(now),
        };
        let joins = self
            .joins
            .iter()
            .filter_map(|(earlier, at)| after(*earlier, Event::Completed, think.min(now - at)));
        core::iter::once(first).chain(joins).collect()
    }
}

fn mark(text: &str) -> Option<MarkKind> {
    Some(match text.strip_prefix("flashlab:")? {
        "run-begins" => MarkKind::RunBegins,
        "run-ends" => MarkKind::RunEnds,
        "op-begins" => MarkKind::OperationBegins,
        "op-ends" => MarkKind::OperationEnds,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::parse;

    const LATENCY: Duration = Duration::from_us(100);

    fn recording(text: &str) -> Recording {
        derive(Header::default(), LATENCY, &parse(text).unwrap()).unwrap()
    }

    fn fault(text: &str) -> String {
        derive(Header::default(), LATENCY, &parse(text).unwrap()).unwrap_err().to_string()
    }

    fn line(task: &str, context: char, us: u64, event: &str) -> String {
        format!(" {task} [000] d.{context}1. 1.{us:06}: {event}\n")
    }

    fn issue(task: &str, us: u64, letters: &str, sector: u64) -> String {
        line(task, '.', us, &format!("block_rq_issue: 254,0 {letters} 4096 () {sector} + 8 be,0,4 [x]"))
    }

    fn complete(us: u64, letters: &str, sector: u64) -> String {
        line("<idle>-0", 'h', us, &format!("block_rq_complete: 254,0 {letters} () {sector} + 8 be,0,4 [0]"))
    }

    fn waking(task: &str, context: char, us: u64, pid: u32) -> String {
        line(task, context, us, &format!("sched_waking: comm=x pid={pid} prio=120 target_cpu=000"))
    }

    fn switch(task: &str, us: u64, state: char, next: u32) -> String {
        let (_, pid) = task.rsplit_once('-').unwrap();
        let event = format!("sched_switch: prev_comm=x prev_pid={pid} prev_prio=120 prev_state={state} ==> ");
        line(task, '.', us, &(event + &format!("next_comm=x next_pid={next} next_prio=120")))
    }

    fn step(back: u32, event: Event, us: u64) -> Cause {
        Cause::Step { back, event, think: Duration::from_us(us) }
    }

    #[test]
    fn a_task_that_a_completion_wakes_waits_for_it_without_the_latency_of_the_device() {
        let text = issue("a-1", 0, "R", 0)
            + &switch("a-1", 10, 'D', 0)
            + &complete(130, "R", 0)
            + &waking("<idle>-0", 'h', 135, 1)
            + &switch("<idle>-0", 140, 'R', 1)
            + &issue("a-1", 150, "R", 8);
        // The device takes 100 us, so 50 us of the 150 us are processor time.
        let text = text + &complete(260, "R", 8);
        assert_eq!(recording(&text).steps[1].causes, [step(1, Event::Completed, 50)]);
    }

    #[test]
    fn a_wake_up_by_a_task_passes_the_cause_of_that_task_on() {
        let text = issue("a-1", 0, "W", 0)
            + &switch("a-1", 10, 'D', 0)
            + &complete(100, "W", 0)
            + &waking("<idle>-0", 'h', 101, 1)
            + &switch("<idle>-0", 102, 'R', 1)
            + &waking("a-1", '.', 110, 2)
            + &switch("a-1", 111, 'S', 2)
            + &issue("b-2", 120, "W", 8)
            + &complete(220, "W", 8);
        assert_eq!(recording(&text).steps[1].causes, [step(1, Event::Completed, 20)]);
    }

    #[test]
    fn a_timer_is_an_instant_for_an_idle_thread_and_a_sleep_for_other_tasks() {
        let woken_in = |state| {
            let text = issue("a-1", 0, "W", 0)
                + &complete(100, "W", 0)
                + &switch("a-1", 200, state, 0)
                + &waking("<idle>-0", 'h', 5_000, 1)
                + &switch("<idle>-0", 5_001, 'R', 1)
                + &issue("a-1", 5_010, "W", 8)
                + &complete(5_110, "W", 8);
            recording(&text).steps[1].causes.clone()
        };
        assert_eq!(woken_in('I'), [Cause::Instant(Duration::from_us(5_010))]);
        assert_eq!(woken_in('S'), [step(1, Event::Started, 5_010)]);
    }

    #[test]
    fn a_new_task_continues_the_task_that_created_it() {
        let text = issue("a-1", 0, "W", 0)
            + &line("a-1", '.', 10, "sched_wakeup_new: comm=x pid=7 prio=120 target_cpu=000")
            + &switch("a-1", 20, 'S', 7)
            + &issue("b-7", 30, "W", 8)
            + &complete(100, "W", 0)
            + &complete(130, "W", 8);
        assert_eq!(recording(&text).steps[1].causes, [step(1, Event::Started, 30)]);
    }

    #[test]
    fn a_task_waits_for_all_its_synchronous_requests_and_for_no_other() {
        let first_two = |letters: &str| {
            let text = issue("a-1", 0, letters, 0)
                + &issue("a-1", 5, "WS", 8)
                + &switch("a-1", 10, 'D', 0)
                + &complete(100, letters, 0)
                + &complete(105, "WS", 8)
                + &waking("<idle>-0", 'h', 106, 1)
                + &switch("<idle>-0", 108, 'R', 1)
                + &issue("a-1", 115, "WS", 16)
                + &complete(215, "WS", 16);
            recording(&text).steps[2].causes.clone()
        };
        assert_eq!(first_two("WS"), [step(1, Event::Completed, 10), step(2, Event::Completed, 10)]);
        assert_eq!(first_two("W"), [step(1, Event::Completed, 10)]);
    }

    #[test]
    fn marks_become_steps_of_their_task() {
        let text = line("a-1", '.', 0, "tracing_mark_write: flashlab:op-begins") + &issue("a-1", 5, "FF", 0);
        let text = text + &complete(105, "FF", 0) + &line("a-1", '.', 110, "tracing_mark_write: other");
        let recording = recording(&text);
        assert_eq!(recording.tasks, ["a"]);
        assert_eq!(recording.steps.len(), 2);
        assert_eq!(recording.steps[0].action, Action::Mark(MarkKind::OperationBegins));
    }

    #[test]
    fn unusable_traces_are_errors_with_a_line() {
        let whole = issue("a-1", 0, "W", 0) + &complete(100, "W", 0);
        assert!(fault("").contains("no request"));
        assert!(
            fault(&issue("a-1", 0, "W", 8)).contains("line 1 of the trace: the request at sector 8 does not")
        );
        assert!(
            fault(&whole.replace("[0]", "[-5]"))
                .contains("line 2 of the trace: the request at sector 0 failed")
        );
        assert!(
            fault(&(whole.clone() + &issue("a-1", 9, "W", 0)))
                .contains("line 3 of the trace: time goes back")
        );
        assert!(fault(&(whole.clone() + &issue("a-1", 200, "W", u64::MAX))).contains("beyond 16 EiB"));
        let other = issue("a-1", 200, "W", 0).replace("254,0", "254,1");
        assert!(fault(&(whole + &other)).contains("second device, 254:1"));
    }
}
