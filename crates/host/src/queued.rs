//! A machine whose controller has a command queue engine: requests become tasks of the card's command queue.
//!
//! Source: Linux, drivers/mmc/core/block.c, queue.c and drivers/mmc/host/cqhci-core.c. The block layer splits
//! a request that is longer than [`Machine::command_max`], and each part is a task with a tag. The software
//! prepares one task at a time. The preparation starts when the task has a tag and the previous task has been
//! sent, even if the card is busy. It takes the machine's times per request, per block and per command. The
//! engine sends the commands of a task without the help of the software. Flushes and erases go to the card in
//! their order among the tasks, and the card treats them as barriers. In Linux, the driver waits for all
//! tasks or sets the barrier bit of a direct command.
//!
//! Simplification: a completed task costs the software no time beyond the time per command, which includes the
//! interrupt.

use crate::durability::Durability;
use crate::machine::Machine;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request,
    RequestId, RestoreError, Status,
};

/// A device as the block layer of a machine with a command queue engine sees it.
#[derive(Clone)]
pub struct QueuedHost {
    device: Box<dyn Model>,
    geometry: Geometry,
    t_request: Duration,
    t_command: Duration,
    /// Time to prepare a block; zero unless the host prepares commands.
    prepare_block: Duration,
    durability: Durability,
    /// Time when the software is free for the next task.
    software: Instant,
    /// Requests that have no task yet.
    waiting: VecDeque<(Instant, Request)>,
    /// Requests with tasks, and unused entries.
    requests: Vec<InFlight>,
    /// Indices of the unused entries in `requests`.
    unused: Vec<usize>,
    /// Indices of the requests with data that no task covers yet (at most one), and of those that wait for their flush.
    unsent: VecDeque<usize>,
    /// The task that the software prepares.
    preparing: Option<Task>,
    /// Tasks in the card, indexed by tag; for a free tag, the last task that had it.
    sent: Vec<Task>,
    free_tags: Vec<usize>,
    commands: u64,
}

/// A request with tasks.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    request: Request,
    arrived: Instant,
    /// Bytes for which there are tasks.
    moved: u64,
    /// Tasks that have not ended, including the one in preparation.
    tasks: u32,
    /// Time of the software so far.
    host: Duration,
    status: Status,
    /// True while the request waits for its flush, or has sent it.
    flushes: bool,
}

/// A task: one command for a part of a request.
#[derive(Clone, Copy, Debug)]
struct Task {
    tag: usize,
    /// Index of the request in `QueuedHost::requests`.
    of: usize,
    command: Request,
    /// Time when the task is sent.
    at: Instant,
    /// Time of the software for the request up to this task.
    host: Duration,
}

impl Task {
    /// Task of a tag that has never been used.
    const NONE: Task = Task {
        tag: 0,
        of: 0,
        command: Request { id: RequestId(0), op: Op::Flush, file: FileId::DEVICE, offset: 0, length: 0 },
        at: Instant::ZERO,
        host: Duration::ZERO,
    };
}

impl QueuedHost {
    /// Plugs `device` into `machine`, with `depth` tasks at a time.
    pub fn new(machine: &Machine, device: Box<dyn Model>, depth: u32, durability: Durability) -> Self {
        let geometry = device.geometry();
        QueuedHost {
            geometry: Geometry { request_max: machine.command_max.min(geometry.request_max), ..geometry },
            device,
            t_request: machine.t_request,
            t_command: machine.t_command,
            prepare_block: if machine.prepares() { machine.t_block } else { Duration::ZERO },
            durability,
            software: Instant::ZERO,
            waiting: VecDeque::new(),
            requests: Vec::new(),
            unused: Vec::new(),
            unsent: VecDeque::new(),
            preparing: None,
            sent: vec![Task::NONE; depth.max(1) as usize],
            free_tags: (0..depth.max(1) as usize).rev().collect(),
            commands: 0,
        }
    }

    /// Starts to prepare the next task at `now`, if there is one and a tag is free.
    fn prepare(&mut self, now: Instant) {
        if self.preparing.is_some() || self.unsent.is_empty() && self.waiting.is_empty() {
            return;
        }
        let Some(tag) = self.free_tags.pop() else { return };
        let of = match self.unsent.pop_front() {
            Some(of) => of,
            None => {
                let (arrived, request) = self.waiting.pop_front().expect("a request waits");
                let (host, status) = (Duration::ZERO, Status::Ok);
                let in_flight =
                    InFlight { request, arrived, moved: 0, tasks: 0, host, status, flushes: false };
                match self.unused.pop() {
                    Some(place) => {
                        self.requests[place] = in_flight;
                        place
                    }
                    None => {
                        self.requests.push(in_flight);
                        self.requests.len() - 1
                    }
                }
            }
        };
        let (geometry, durability) = (self.geometry, self.durability);
        let in_flight = &mut self.requests[of];
        let request = in_flight.request;
        let is_first = in_flight.tasks == 0 && in_flight.moved == 0 || in_flight.flushes;
        let command = if in_flight.flushes {
            Request { op: Op::Flush, offset: 0, length: 0, ..request }
        } else {
            let is_split = request.op.moves_data() && geometry.admits(&request);
            let left = request.length - in_flight.moved;
            let length = if is_split { left.min(geometry.request_max) } else { left };
            let offset = request.offset + in_flight.moved;
            in_flight.moved += length;
            Request { op: durability.command(request.op), offset, length, ..request }
        };
        let mut software = Duration::ZERO;
        if geometry.admits(&command) && durability.sends(command.op) {
            let blocks = if command.op.moves_data() { command.length / geometry.block } else { 0 };
            software = self.prepare_block * blocks + self.t_command;
            software += if is_first { self.t_request } else { Duration::ZERO };
            self.commands += 1;
        }
        in_flight.host += software;
        in_flight.tasks += 1;
        if in_flight.moved < request.length && !request.op.is_flush() {
            self.unsent.push_front(of);
        }
        self.software = self.software.max(now) + software;
        self.preparing = Some(Task { tag, of, command, at: self.software, host: in_flight.host });
    }

    /// Sends the task that is prepared.
    fn send(&mut self, task: Task) {
        self.sent[task.tag] = task;
        self.device.submit(task.at, Request { id: RequestId(task.tag as u64), ..task.command });
        self.prepare(task.at);
    }

    /// Handles the end of a task. Returns the completion of the request if the task was its last one.
    fn ended(&mut self, mut done: Completion) -> Option<Completion> {
        let task = self.sent[done.id.0 as usize];
        self.free_tags.push(task.tag);
        let in_flight = &mut self.requests[task.of];
        in_flight.tasks -= 1;
        if done.status != Status::Ok {
            in_flight.status = done.status;
        }
        let InFlight { request, arrived, moved, tasks, status, flushes, .. } = *in_flight;
        let is_whole = tasks == 0 && (moved >= request.length || request.op.is_flush());
        let mut whole = None;
        if is_whole && !flushes && status == Status::Ok && self.durability.flushes_after(request.op) {
            in_flight.flushes = true;
            self.unsent.push_back(task.of);
        } else if is_whole {
            self.unused.push(task.of);
            done.spent[Mechanism::Host] += task.host;
            let parts = done.spent.total();
            done.spent[Mechanism::Queue] += done.at.since(arrived).saturating_sub(parts);
            whole = Some(Completion { id: request.id, status, ..done });
        }
        self.prepare(done.at);
        whole
    }
}

impl Model for QueuedHost {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn hint(&self, file: FileId, offsets: &[u64]) {
        self.device.hint(file, offsets);
    }

    fn submit(&mut self, now: Instant, request: Request) {
        self.device.hint(request.file, &[request.offset]);
        self.waiting.push_back((now, request));
        self.prepare(now);
    }

    fn next_due(&self) -> Option<Instant> {
        self.preparing.iter().map(|task| task.at).chain(self.device.next_due()).min()
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        loop {
            let send_at = self.preparing.as_ref().map(|task| task.at);
            // The card's events up to the start of the next task come first.
            let until = send_at.map_or(limit, |at| at.min(limit));
            let in_card = self.free_tags.len() + usize::from(send_at.is_some()) < self.sent.len();
            if in_card && let Some(done) = self.device.complete(until) {
                match self.ended(done) {
                    Some(done) => return Some(done),
                    None => continue,
                }
            }
            match self.preparing.take_if(|task| task.at <= limit) {
                Some(task) => self.send(task),
                None => return None,
            }
        }
    }

    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.waiting.clear();
        self.requests.clear();
        self.unused.clear();
        self.unsent.clear();
        self.preparing = None;
        self.free_tags = (0..self.sent.len()).rev().collect();
        self.device.power_cut(now)
    }

    fn power_up(&mut self, now: Instant) -> Instant {
        self.device.power_up(now)
    }

    fn is_durable(&self, range: &Range<u64>) -> bool {
        self.device.is_durable(range)
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.device.save()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.device.restore(state)
    }

    fn observe(&self, to: &mut dyn Observer) {
        to.count("command_count", self.commands);
        self.device.observe(to);
    }
}
