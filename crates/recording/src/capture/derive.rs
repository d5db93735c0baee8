//! Causes of requests, derived from wake-ups on one processor.
//!
//! Each task has an origin: the event that last let it run. A completion that wakes a task becomes the origin
//! of that task. A task that wakes another one passes its own origin on. A step that a task starts becomes
//! the task's origin. There is only one processor, and between the origin and the step the task does not wait
//! for the device. The difference of the two instants is therefore time of the processor or of timers,
//! without any latency of the recording device.
//!
//! - A new task has the origin of the task that created it.
//! - A coarse timer (`timer_list`, such as the commit timer of jbd2 or that of delayed work) has the origin
//!   of the task or interrupt that armed it. For example, write-back starts some seconds after the write that
//!   armed its timer.
//! - Any other timer leaves the origin of the task that it wakes unchanged. The sleep counts as think time,
//!   as in `sleep 1` after an `fsync`. An idle kernel thread (state `I`), or a task that the trace has not
//!   shown yet, has the instant of such a wake-up as its origin.
//! - A work item has the origin of the task or interrupt that queued it, whichever kernel worker executes it. A request
//!   that a worker issues for a task belongs to the task that obtained it (`block_getrq`).
//! - A task that ends passes its origin on to a sleeping parent. For example, fio polls for the end of its
//!   jobs, so the job itself wakes no task.
//! - A request that a busy driver returned (`block_rq_requeue`) keeps the cause of its first issue.
//! - A task that waits for several of its own synchronous requests is woken only by the last of them to
//!   complete. The others become causes too, since a slower device may complete them in another order.
//!
//! Calls such as `fsync` become operations, unless the workload marks its operations itself.
//!
//! Not modelled: in a replay, the processor's queue of runnable tasks, and the additional merging of requests
//! on a slower device.

use std::collections::BTreeMap;

use flashlab_sim::{Duration, Op};

use super::error::DeriveError;
use super::tracefs::{Content, Context, Device, Direction, TraceEvent};
use crate::{Action, Cause, Event, Flags, Header, MarkKind, Recording, Step, TaskId};

/// Maximum number of requests that one origin joins, which bounds the length of a step.
const JOINS_MAX: usize = 64;

/// Longest time from a completion or a coarse timer to a wake-up in the same interrupt, if the trace shows no
/// ends of handlers. The cause of a later wake-up is unknown.
const SAME_INTERRUPT_NS: u64 = 50_000;

/// Derives the recording of a trace. The instants of the recording count from the first event. The recording
/// device needed `latency` for each request. The rest of the time from issue to completion counts as
/// processor time after the completion.
pub fn derive(header: Header, latency: Duration, events: &[TraceEvent]) -> Result<Recording, DeriveError> {
    let mut derivation = Derivation {
        start_ns: events.first().map_or(0, |event| event.at_ns),
        latency,
        marks_operations: events.iter().any(|event| match &event.content {
            Content::Marker(text) => mark(text) == Some(MarkKind::OperationBegins),
            _ => false,
        }),
        shows_ends: events.iter().any(|event| event.content == Content::EndTimer),
        ..Default::default()
    };
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
    /// Step and event; `None` for tasks and interrupts whose cause the trace does not show, and for idle
    /// threads that a timer woke.
    event: Option<(usize, Event)>,
    /// Instant of the event. A completion counts as at most [`Derivation::latency`] after the last issue of
    /// its request.
    at_ns: u64,
    /// Other requests that the task waited for and that were complete at its wake-up, with the instants of
    /// their completions.
    joins: Vec<(usize, u64)>,
}

#[derive(Default)]
struct Task {
    id: TaskId,
    /// Task that created this one, if the trace shows it.
    parent: Option<u32>,
    origin: Origin,
    /// Origin that a wake-up has passed to the task. It replaces `origin` at the next switch to the task.
    woken: Option<Origin>,
    is_idle_thread: bool,
    is_asleep: bool,
    /// Synchronous requests of the task that no wake-up has used yet: step, and instant of the completion if it is
    /// known.
    waits_for: Vec<(usize, Option<u64>)>,
}

struct InFlight {
    line: usize,
    step: usize,
    flush: bool,
    sector: u64,
    end: u64,
    /// Task that obtained the request; for a flush or if unknown, the task that issued the request.
    pid: u32,
    /// Instant of the last issue.
    issued_ns: u64,
    /// True after the driver returned the request, until it receives the request again.
    is_requeued: bool,
}

/// Cause of the current interrupt.
#[derive(Clone)]
struct Interrupt {
    origin: Origin,
    /// True for a completion, false for a timer. Only a wake-up by a completion uses up [`Task::waits_for`].
    is_completion: bool,
    /// Instant of the event in the trace.
    traced_ns: u64,
}

#[derive(Default)]
struct Derivation {
    start_ns: u64,
    latency: Duration,
    device: Option<Device>,
    tasks: Vec<String>,
    by_pid: BTreeMap<u32, Task>,
    in_flight: Vec<InFlight>,
    hard_interrupt: Option<Interrupt>,
    soft_interrupt: Option<Interrupt>,
    /// Origin of each timer when it was last armed, by address.
    timers: BTreeMap<u64, Origin>,
    /// Origin of each work item that is queued, by address.
    works: BTreeMap<u64, Origin>,
    /// Task that obtained the request, by first sector.
    obtained: BTreeMap<u64, u32>,
    /// True if the trace shows the ends of the handlers of timers.
    shows_ends: bool,
    /// True if the workload marks its operations. System calls then do not count as operations.
    marks_operations: bool,
    steps: Vec<Step>,
}

impl Derivation {
    fn handle(&mut self, event: &TraceEvent) -> Result<(), DeriveError> {
        match event.context {
            Context::Task => (self.hard_interrupt, self.soft_interrupt) = (None, None),
            Context::SoftInterrupt => self.hard_interrupt = None,
            Context::HardInterrupt => {}
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
            Content::Obtain { sector } => {
                self.obtained.insert(*sector, event.pid);
            }
            Content::Requeue { device, direction, sector } => {
                self.check_device(*device, event.line)?;
                let flush = *direction == Direction::Flush;
                let returned = self.in_flight.iter_mut().find(|request| request.is(flush, *sector));
                returned.into_iter().for_each(|request| request.is_requeued = true);
            }
            Content::Waking { pid } => self.wake(event, *pid),
            Content::Switch { state, next } => self.switch(event, *state, *next),
            Content::New { pid } => {
                let parent = self.task(event.pid, Some(&event.task), event.at_ns).origin.clone();
                self.by_pid.remove(pid);
                let task = self.task(*pid, None, event.at_ns);
                (task.origin, task.parent) = (parent, Some(event.pid));
            }
            Content::Exit => self.exit(event),
            Content::QueueWork { work } => {
                if let Some(origin) = self.current(event) {
                    self.works.insert(*work, origin);
                }
            }
            Content::BeginWork { work } => {
                if let Some(origin) = self.works.remove(work) {
                    self.task(event.pid, Some(&event.task), event.at_ns).origin = origin;
                }
            }
            Content::ArmTimer { timer } => match self.current(event) {
                Some(origin) => _ = self.timers.insert(*timer, origin),
                None => _ = self.timers.remove(timer),
            },
            Content::BeginTimer { timer } => {
                let origin = self.timers.get(timer).cloned();
                *self.interrupt_of(event.context) =
                    origin.map(|origin| Interrupt { origin, is_completion: false, traced_ns: event.at_ns });
            }
            Content::EndTimer => *self.interrupt_of(event.context) = None,
            Content::Marker(text) => {
                if let Some(kind) = mark(text) {
                    self.start(event, event.pid, Action::Mark(kind));
                }
            }
            Content::BeginSync if !self.marks_operations => {
                self.start(event, event.pid, Action::Mark(MarkKind::OperationBegins));
            }
            Content::EndSync if !self.marks_operations => {
                self.start(event, event.pid, Action::Mark(MarkKind::OperationEnds));
            }
            Content::BeginSync | Content::EndSync => {}
        }
        Ok(())
    }

    /// Returns the cause of the interrupt that is running, if the cause is known.
    fn interrupt_of(&mut self, context: Context) -> &mut Option<Interrupt> {
        match context {
            Context::HardInterrupt => &mut self.hard_interrupt,
            Context::SoftInterrupt | Context::Task => &mut self.soft_interrupt,
        }
    }

    /// Returns the origin of the code that is running, or `None` in an interrupt of unknown cause.
    fn current(&mut self, event: &TraceEvent) -> Option<Origin> {
        match event.context {
            Context::Task => Some(self.task(event.pid, Some(&event.task), event.at_ns).origin.clone()),
            context => self.interrupt_of(context).as_ref().map(|interrupt| interrupt.origin.clone()),
        }
    }

    fn switch(&mut self, event: &TraceEvent, state: char, next: u32) {
        let previous = self.task(event.pid, Some(&event.task), event.at_ns);
        previous.is_idle_thread = state == 'I';
        previous.is_asleep = state != 'R';
        let parent = previous.origin.clone();
        let is_new = next != 0 && event.pid != 0 && !self.by_pid.contains_key(&next);
        let task = self.task(next, None, event.at_ns);
        task.is_asleep = false;
        if is_new {
            (task.origin, task.parent) = (parent, Some(event.pid));
        } else if let Some(origin) = task.woken.take() {
            task.origin = origin;
        }
    }

    /// Passes the origin of a task that ends on to its parent, if the parent sleeps and nothing has woken it.
    /// The parent may poll for the end of the task.
    fn exit(&mut self, event: &TraceEvent) {
        let task = self.task(event.pid, Some(&event.task), event.at_ns);
        let (origin, parent) = (task.origin.clone(), task.parent);
        let Some(parent) = parent.and_then(|parent| self.by_pid.get_mut(&parent)) else { return };
        if parent.is_asleep && parent.woken.is_none() {
            parent.origin = origin;
        }
    }

    fn check_device(&mut self, device: Device, line: usize) -> Result<(), DeriveError> {
        match *self.device.get_or_insert(device) == device {
            true => Ok(()),
            false => Err(DeriveError::SecondDevice { line, device }),
        }
    }

    /// Returns the task. A task that the trace shows for the first time counts as running since the instant `now`.
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
        let returned =
            self.in_flight.iter_mut().find(|request| request.is_requeued && request.is(flush, sector));
        if let Some(request) = returned {
            (request.is_requeued, request.issued_ns, request.line) = (false, event.at_ns, event.line);
            return Ok(());
        }
        let pid = if flush { None } else { self.obtained.remove(&sector) }.unwrap_or(event.pid);
        let action = Action::Request { op, offset: sector * 512, length: sectors * 512, flags };
        let step = self.start(event, pid, action);
        self.in_flight.push(InFlight {
            line: event.line,
            step,
            flush,
            sector,
            end,
            pid,
            issued_ns: event.at_ns,
            is_requeued: false,
        });
        if flags.sync && event.context == Context::Task {
            self.task(pid, None, event.at_ns).waits_for.push((step, None));
        }
        Ok(())
    }

    /// Appends a step of the task `pid` with the causes of the current context. Outside of interrupts, the
    /// step becomes the origin of the current task.
    fn start(&mut self, event: &TraceEvent, pid: u32, action: Action) -> usize {
        let step = self.steps.len();
        let start_ns = self.start_ns;
        let id = self.task(pid, (pid == event.pid).then_some(&event.task), event.at_ns).id;
        let origin = match event.context {
            Context::Task => {
                let started =
                    Origin { event: Some((step, Event::Started)), at_ns: event.at_ns, joins: Vec::new() };
                let task = self.task(event.pid, Some(&event.task), event.at_ns);
                core::mem::replace(&mut task.origin, started)
            }
            _ => self.current(event).unwrap_or(Origin { at_ns: event.at_ns, ..Origin::default() }),
        };
        let causes = origin.causes(step, event.at_ns, start_ns);
        let at = Duration::from_ns(event.at_ns - start_ns);
        self.steps.push(Step { task: id, at, action, causes });
        step
    }

    fn complete(&mut self, event: &TraceEvent, flush: bool, sector: u64, sectors: u64) {
        let found = self.in_flight.iter().position(|request| match flush {
            true => request.flush,
            false => {
                let end = sector.checked_add(sectors);
                request.is(false, sector) && end.is_some_and(|end| end <= request.end)
            }
        });
        let Some(index) = found.filter(|_| flush || sectors > 0) else { return };
        let request = &mut self.in_flight[index];
        request.sector += if flush { 0 } else { sectors };
        if request.sector < request.end {
            return;
        }
        let InFlight { step, pid, issued_ns, .. } = self.in_flight.remove(index);
        let at_ns = event.at_ns.min(issued_ns.saturating_add(self.latency.as_ns()));
        if event.context != Context::Task {
            let origin = Origin { event: Some((step, Event::Completed)), at_ns, joins: Vec::new() };
            *self.interrupt_of(event.context) =
                Some(Interrupt { origin, is_completion: true, traced_ns: event.at_ns });
        }
        let owner = self.task(pid, None, event.at_ns);
        for (_, completed) in owner.waits_for.iter_mut().filter(|(waited, _)| *waited == step) {
            *completed = Some(at_ns);
        }
    }

    fn wake(&mut self, event: &TraceEvent, pid: u32) {
        let (now, shows_ends) = (event.at_ns, self.shows_ends);
        let is_completion = event.context != Context::Task && {
            let interrupt = self.interrupt_of(event.context);
            if !shows_ends {
                _ = interrupt.take_if(|last| now - last.traced_ns > SAME_INTERRUPT_NS);
            }
            interrupt.as_ref().is_some_and(|last| last.is_completion)
        };
        let waker = self.current(event);
        let current = event.pid;
        let known = self.by_pid.contains_key(&pid);
        let task = self.task(pid, None, now);
        let Some(mut origin) = waker else {
            // An interrupt of unknown cause, such as a fine timer, woke the task. A sleep is part of the
            // task's own time, but an idle thread or an unknown task starts at this instant.
            if task.is_idle_thread || !known {
                task.woken = Some(Origin { at_ns: now, ..Origin::default() });
            }
            return;
        };
        if let Some((waited, Event::Completed)) = origin.event
            && is_completion
        {
            let others = task.waits_for.extract_if(.., |(_, completed)| completed.is_some());
            let others =
                others.filter_map(|(step, at)| at.map(|at| (step, at))).filter(|(step, _)| *step != waited);
            origin.joins.extend(others);
            let excess = origin.joins.len().saturating_sub(JOINS_MAX);
            origin.joins.drain(..excess);
        }
        match pid == current {
            true if is_completion => task.origin = origin,
            true => {}
            false if task.woken.is_none() => task.woken = Some(origin),
            false => {}
        }
    }
}

impl InFlight {
    /// Returns true if both are flushes, or if the unfinished part of this request starts at `sector` and
    /// neither is a flush.
    fn is(&self, flush: bool, sector: u64) -> bool {
        self.flush == flush && (flush || self.sector == sector)
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
mod tests;
