//! The command queue of the timed card: JESD84-B51, section 6.6.39 (CMDQ); SD Physical Layer Specification 6.00,
//! section 4.19 (command queue).
//!
//! - The host sends the parameters of a task with CMD44 and CMD45, even while data of another task is on the wires.
//! - The card prepares its tasks: it reads the first data of a read in the die that holds this data. The dies
//!   work at the same time. Consecutive pages of the device's address space are in consecutive dies.
//! - A read needs a buffer of the card from its access to the end of its data. If the buffers are in use, the access
//!   waits for the end of a transfer ([`Refinements::queue_buffers`]).
//! - The host reads the status with CMD13. The card reports the task that became ready first, and the host starts its
//!   data with CMD46 or CMD47. The tasks need not run in the order of their arrival.
//! - The data lines transfer one task's data at a time. After the first access, the array streams the data of a read
//!   while the data is on the wires, as without a queue. A write is ready at once, and holds the data lines until it is
//!   programmed or in the cache.
//! - A write that does not go into a cache occupies all dies. Accesses that have begun continue; later accesses wait
//!   for the end of the write.
//! - A flush of a cache and an erase are barriers, as in Linux: they wait for all tasks before them, and later tasks
//!   wait for them.
//!
//! With one request at a time, a request takes as long as without a queue, except that it needs four commands instead
//! of one or two.

use super::{CardModel, Refinements};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_sim::{Completion, Duration, Instant, Mechanism, Model, Op, Request, Spent, Status};

/// Number of commands before the card prepares a task, and between the preparation and the data.
const COMMANDS_TO_ENTER: u64 = 2;
const COMMANDS_TO_START: u64 = 2;

/// Limits of the command queue of a card.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    /// Greatest number of tasks in the queue, if the card has one.
    depth: Option<u32>,
    /// Number of tasks whose data the card holds at a time, if this number is limited.
    buffers: Option<u32>,
    dies: u32,
}

impl QueueLimits {
    pub(super) fn new(refinements: &Refinements) -> Self {
        QueueLimits {
            depth: refinements.queue,
            buffers: refinements.queue_buffers,
            dies: refinements.dies.unwrap_or(1),
        }
    }

    /// Returns an empty queue of up to `depth` tasks, if the card has a queue.
    fn queue(&self, depth: u32) -> Option<CommandQueue> {
        self.depth.map(|most| CommandQueue::new(depth.min(most), self.buffers, self.dies))
    }
}

/// A task in the card.
#[derive(Clone, Copy, Debug)]
struct Task {
    serial: u64,
    arrived: Instant,
    request: Request,
    /// True for a read that waits for a buffer. Its access has not begun.
    waits: bool,
    /// Time when the access of a read begins. While the read waits for a buffer, this is the end of its
    /// commands, the earliest possible time.
    begins: Instant,
    /// Time when the data of the task can be transferred.
    ready: Instant,
    /// Time that a read takes from `ready` to its end, without its commands.
    data: Duration,
    /// Breakdown of the time of a read, without its commands.
    spent: Spent,
}

/// The queue.
#[derive(Clone, Debug)]
pub(super) struct CommandQueue {
    depth: usize,
    /// Number of tasks whose data the card holds at a time.
    buffers: usize,
    /// Requests that have not entered the queue.
    waiting: VecDeque<(Instant, Request)>,
    /// Tasks in the queue, in any order, without the one whose data is transferred.
    tasks: Vec<Task>,
    serials: u64,
    /// Times when the command line and the data lines are free.
    command_line: Instant,
    data_lines: Instant,
    /// For each die, the time when it is free.
    dies: Box<[Instant]>,
    /// The task whose data the host transfers next, and the time when it has read the status.
    next: Option<(u64, Instant)>,
    /// True while a barrier is in service.
    barrier: bool,
}

/// An event of the queue.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The host reads the status, which names the task with this serial number.
    Status(u64),
    /// The host starts the data of the task with this serial number.
    Start(u64),
}

impl CommandQueue {
    fn new(depth: u32, buffers: Option<u32>, dies: u32) -> Self {
        CommandQueue {
            depth: depth.max(1) as usize,
            buffers: buffers.map_or(usize::MAX, |buffers| buffers.max(1) as usize),
            waiting: VecDeque::new(),
            tasks: Vec::new(),
            serials: 0,
            command_line: Instant::ZERO,
            data_lines: Instant::ZERO,
            dies: vec![Instant::ZERO; dies.max(1) as usize].into_boxed_slice(),
            next: None,
            barrier: false,
        }
    }

    /// Removes all tasks.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.tasks.clear();
        (self.next, self.barrier) = (None, false);
        (self.command_line, self.data_lines) = (Instant::ZERO, Instant::ZERO);
        self.dies.fill(Instant::ZERO);
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.tasks.is_empty()
    }

    /// Returns the next event and its time. `busy` is true while data of a task is transferred.
    fn event(&self, busy: bool) -> Option<(Instant, Event)> {
        match self.next {
            Some((serial, at)) if !busy => {
                Some((at.max(self.data_lines).max(self.command_line), Event::Start(serial)))
            }
            Some(_) => None,
            None => {
                let prepared = self.tasks.iter().filter(|task| !task.waits);
                let first = prepared.min_by_key(|task| (task.ready, task.serial))?;
                Some((first.ready.max(self.command_line), Event::Status(first.serial)))
            }
        }
    }

    /// Returns the time of the next event.
    pub(super) fn next_event(&self, busy: bool) -> Option<Instant> {
        self.event(busy).map(|(at, _)| at)
    }

    /// Keeps the dies busy from `start` to `end`. Accesses that have not begun are postponed.
    fn occupy(&mut self, start: Instant, end: Instant) {
        let by = end.saturating_since(start);
        for task in &mut self.tasks {
            if task.request.op == Op::Read && !task.waits && task.begins >= start {
                task.begins += by;
                task.ready += by;
            }
        }
        for die in &mut self.dies {
            *die = if *die > start { *die + by } else { end };
        }
    }
}

impl CardModel {
    /// Returns this card with a host that uses up to `depth` tasks of the card's command queue, if the card
    /// has one.
    pub fn with_queue(mut self, depth: u32) -> Self {
        self.tasks = self.queue_limits.queue(depth).map(Box::new);
        self
    }

    /// Keeps the dies busy from `start` to `end`.
    pub(super) fn occupy_dies(&mut self, start: Instant, end: Instant) {
        if let Some(queue) = &mut self.tasks {
            queue.occupy(start, end);
        }
    }

    /// Executes the events up to `now`, except for completions. The data of a task starts before another task enters.
    fn catch_up(&mut self, now: Instant) {
        loop {
            let service = self.service_due();
            let event = self.tasks.as_ref().and_then(|queue| queue.event(service.is_some()));
            match (service, event) {
                (Some(at), event) if event.is_none_or(|(other, _)| at <= other) => {
                    if at > now || self.in_cache.is_none() {
                        return;
                    }
                    self.step_in_cache();
                }
                (_, Some((at, event))) if at <= now => self.execute(at, event),
                _ => return,
            }
        }
    }

    /// Receives a request at `now`.
    #[inline(never)]
    pub(super) fn submit_task(&mut self, now: Instant, request: Request) {
        self.catch_up(now);
        let in_service = self.service_due().is_some();
        if !in_service && self.tasks.as_ref().is_some_and(|queue| queue.is_empty()) {
            self.end_idle(now);
        }
        if let Some(queue) = &mut self.tasks {
            queue.waiting.push_back((now, request));
        }
        self.enter_tasks(now);
    }

    /// Moves waiting requests into the queue, in their order, as long as there is room.
    fn enter_tasks(&mut self, now: Instant) {
        let geometry = self.geometry();
        let admits = |request: &Request| geometry.admits(request);
        loop {
            let in_service = usize::from(self.service_due().is_some());
            let Some(queue) = &mut self.tasks else { return };
            let Some((arrived, request)) = queue.waiting.front().copied() else { return };
            let tasks = queue.tasks.len() + in_service;
            // A request beyond the capacity is served without a task, like a barrier.
            let is_barrier = request.op == Op::Trim || request.op.is_flush() || !admits(&request);
            if queue.barrier || tasks >= queue.depth || is_barrier && tasks > 0 {
                return;
            }
            queue.waiting.pop_front();
            if is_barrier {
                queue.barrier = true;
                let start = now.max(queue.command_line).max(queue.data_lines);
                self.serve(arrived, start, &request);
                return;
            }
            self.enter_task(now, arrived, request);
        }
    }

    /// Enters a read or a write into the queue.
    fn enter_task(&mut self, now: Instant, arrived: Instant, request: Request) {
        let Some(queue) = &mut self.tasks else { return };
        let entered = now.max(queue.command_line) + self.wire.command * COMMANDS_TO_ENTER;
        queue.command_line = entered;
        let serial = queue.serials;
        queue.serials += 1;
        let waits = request.op == Op::Read;
        let (data, spent) = (Duration::ZERO, Spent::default());
        let (begins, ready) = (entered, entered);
        queue.tasks.push(Task { serial, arrived, request, waits, begins, ready, data, spent });
        self.begin_accesses(now);
    }

    /// Begins the accesses of the reads that wait, in their order, as long as there are free buffers.
    fn begin_accesses(&mut self, now: Instant) {
        loop {
            let in_service = usize::from(self.service_due().is_some());
            let Some(queue) = &mut self.tasks else { return };
            let waiting = queue.tasks.iter().enumerate().filter(|(_, task)| task.waits);
            let oldest = waiting.min_by_key(|(_, task)| task.serial).map(|(place, _)| place);
            let Some(place) = oldest else { return };
            let in_use = in_service + queue.tasks.iter().filter(|task| !task.waits).count();
            if in_use >= queue.buffers {
                return;
            }
            let Task { request, begins: earliest, .. } = queue.tasks[place];
            let die = (request.offset / self.array.flash.page() % queue.dies.len() as u64) as usize;
            let begins = earliest.max(now).max(queue.dies[die]);
            if let Some(cache) = &mut self.cache {
                cache.advance(now, &mut self.array);
            }
            let mut spent = Spent::default();
            let first = self.read(begins, &request, &mut spent);
            let data = spent.total().saturating_sub(first);
            let ready = begins + first;
            if let Some(queue) = &mut self.tasks {
                queue.dies[die] = ready;
                queue.tasks[place] = Task { waits: false, begins, ready, data, spent, ..queue.tasks[place] };
            }
        }
    }

    /// Returns the next completion that is due at or before `limit`.
    #[inline(never)]
    pub(super) fn complete_task(&mut self, limit: Instant) -> Option<Completion> {
        self.catch_up(limit);
        let done = self.served.take_if(|completion| completion.at <= limit)?;
        self.end_task(&done);
        Some(done)
    }

    /// Ends the task in service, and lets waiting requests into the queue.
    fn end_task(&mut self, done: &Completion) {
        self.writing = None;
        self.array.idle_since = self.array.idle_since.max(done.at);
        if let Some(queue) = &mut self.tasks {
            queue.data_lines = done.at;
            queue.barrier = false;
        }
        self.begin_accesses(done.at);
        self.catch_up(done.at);
        self.enter_tasks(done.at);
    }

    /// Executes an event of the queue.
    fn execute(&mut self, at: Instant, event: Event) {
        let command = self.wire.command;
        let Some(queue) = &mut self.tasks else { return };
        queue.command_line = at + command;
        let serial = match event {
            Event::Status(serial) => {
                queue.next = Some((serial, at + command));
                return;
            }
            Event::Start(serial) => serial,
        };
        queue.next = None;
        let place =
            queue.tasks.iter().position(|task| task.serial == serial).expect("the task is in the queue");
        let Task { arrived, request, data, mut spent, .. } = queue.tasks.swap_remove(place);
        let start = at + command;
        spent[Mechanism::Bus] += command * (COMMANDS_TO_ENTER + COMMANDS_TO_START);
        if request.op == Op::Read {
            let end = start + data;
            let parts = spent.total();
            spent[Mechanism::Queue] += end.since(arrived).saturating_sub(parts);
            self.served = Some(Completion { id: request.id, at: end, status: Status::Ok, spent });
            return;
        }
        let parts = spent.total();
        spent[Mechanism::Queue] += start.since(arrived).saturating_sub(parts);
        self.array.ahead = None;
        if self.cache.is_some() {
            return self.begin_in_cache(arrived, start, Duration::ZERO, &request, spent);
        }
        let status = self.write(start, Duration::ZERO, &request, &mut spent);
        let end = arrived + spent.total();
        self.occupy_dies(start, end);
        self.served = Some(Completion { id: request.id, at: end, status, spent });
    }
}
