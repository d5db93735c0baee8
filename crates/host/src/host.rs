//! A machine in front of a device: splits requests into commands.
//!
//! As with an MMC host, one command is in flight at a time, and requests are served in order of arrival. A
//! request longer than [`Machine::command_max`] becomes several commands. The software's time per request
//! passes before the first command, and its time per command before each command. The software's time per
//! block passes while data moves, so it is part of the [`flashlab_sd::Link`] with which the card was built.
//!
//! A host that prepares commands ([`Machine::prepare`]), as Linux's mmc stack does, spends its times per request and per
//! block before the command: it builds the command and maps its pages for DMA. This preparation begins as soon as the
//! previous command has been sent, so it overlaps with the transfer of that command if the request is already waiting.
//! The pieces of a long request are prepared in the same way. The time per command, with its interrupts and task
//! switches, never overlaps.
//!
//! Neighbouring requests that wait are merged into one command ([`Software::merges_after`]). They complete together.
//!
//! A card with a volatile cache receives flushes ([`Durability`]).

use crate::Machine;
use crate::durability::Durability;
use crate::waiting::{MergedRequest, WaitingRequest, WaitingRequests};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request,
    RequestId, RestoreError, Spent, Status,
};

/// A device as the block layer of a machine sees it.
#[derive(Clone)]
pub struct Host {
    device: Box<dyn Model>,
    geometry: Geometry,
    t_request: Duration,
    t_command: Duration,
    /// Time to prepare a block, if the host prepares commands.
    prepare_block: Option<Duration>,
    durability: Durability,
    /// Instant at which the last command was sent. The preparation of the next one can begin then.
    sent: Instant,
    queue: WaitingRequests,
    serving: Option<RequestInService>,
    /// Times of the completed commands of the request in service. They are not in [`RequestInService`],
    /// because most requests have one command, and the time to fill and add this field for every request
    /// would be measurable.
    earlier: Option<Spent>,
    /// Requests that were merged into the one in service.
    merged: Vec<MergedRequest>,
    /// Completions of merged requests, which follow that of the request that they were merged into.
    completed: VecDeque<Completion>,
    commands: u64,
}

#[derive(Clone, Copy)]
struct RequestInService {
    request: Request,
    /// True if the host sends a command for the request to the card.
    reaches_card: bool,
    /// Bytes transferred so far.
    moved: u64,
    /// Bytes of the command in execution.
    in_command: u64,
    /// Time for which the request waited for other requests.
    queued: Duration,
    /// Time of the software for all commands of the request so far.
    software: Duration,
    stage: Stage,
    /// True while the flush that follows the data is in service.
    flushes: bool,
}

#[derive(Clone, Copy)]
enum Stage {
    /// The software prepares the command, which starts at this instant.
    Preparing(Instant),
    /// The device executes the command.
    Commanded,
}

/// The software of a machine above a device that takes one command at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Software {
    /// Largest data transfer of one command, in bytes.
    pub command_max: u64,
    /// Time for each request that reaches the block layer.
    pub t_request: Duration,
    /// Time for each command.
    pub t_command: Duration,
    /// Time to prepare a block while the device is busy with the previous command; `None` if the software prepares no
    /// commands.
    pub prepare_block: Option<Duration>,
    /// Number of waiting requests that the driver has taken already. Later ones merge with their neighbours. `None` if no
    /// requests merge.
    pub merges_after: Option<usize>,
}

/// Number of requests that Linux's mmc stack takes beyond the one on the bus.
const TAKEN: usize = 1;

/// Panic message if a command completes while no request is in service.
const SERVED: &str = "the completed command belongs to a served request";

impl Host {
    /// Plugs `device` into `machine`.
    pub fn new(machine: &Machine, device: Box<dyn Model>) -> Self {
        let software = Software {
            command_max: machine.command_max,
            t_request: machine.t_request,
            t_command: machine.t_command,
            prepare_block: machine.prepares().then_some(machine.t_block),
            merges_after: (machine.merge == Some(true)).then_some(TAKEN),
        };
        Host::with_software(software, device)
    }

    /// Puts `device` below `software`.
    pub(crate) fn with_software(software: Software, device: Box<dyn Model>) -> Self {
        let geometry = device.geometry();
        Host {
            geometry: Geometry { request_max: software.command_max.min(geometry.request_max), ..geometry },
            device,
            t_request: software.t_request,
            t_command: software.t_command,
            prepare_block: software.prepare_block,
            durability: Durability::Immediate,
            sent: Instant::ZERO,
            queue: WaitingRequests::new(software.merges_after),
            serving: None,
            earlier: None,
            merged: Vec::new(),
            completed: VecDeque::new(),
            commands: 0,
        }
    }

    /// Returns this host with `durability`, the way in which it makes data on the card durable.
    pub(crate) fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Returns true if the host sends a command for `request` to the card.
    fn reaches_card(&self, request: &Request) -> bool {
        self.geometry.admits(request) && self.durability.sends(request.op)
    }

    /// Adds a request to those that wait.
    #[inline(never)]
    fn enqueue(&mut self, now: Instant, request: Request) {
        let length_max = self.reaches_card(&request).then_some(self.geometry.request_max);
        self.queue.push(now, request, length_max);
    }

    /// At `start`, when the device becomes free, starts the request that has waited longest.
    #[inline(never)]
    fn start_waiting(&mut self, start: Instant) {
        if let Some(WaitingRequest { arrived, request, merged }) = self.queue.pop() {
            self.merged = merged;
            self.start(arrived, start, request);
        }
    }

    /// Starts to serve a request that arrived at `arrived`.
    #[inline(always)]
    fn start(&mut self, arrived: Instant, start: Instant, request: Request) {
        // A request that the block layer rejects sends no command, nor does a flush of a card without a cache.
        let reaches_card = self.reaches_card(&request);
        let software = if reaches_card {
            let length =
                if request.op.moves_data() { request.length.min(self.geometry.request_max) } else { 0 };
            let preparation = match self.prepare_block {
                Some(t_block) => self.rest_of_preparation(arrived, start, self.t_request, t_block, length),
                None => self.t_request,
            };
            preparation + self.t_command
        } else {
            Duration::ZERO
        };
        self.serving = Some(RequestInService {
            request,
            reaches_card,
            moved: 0,
            in_command: 0,
            queued: start.since(arrived),
            software,
            stage: Stage::Preparing(start + software),
            flushes: false,
        });
    }

    /// Completes the requests that were merged into the request of `completion`. Each merged request arrived
    /// later, so it waited for a shorter time.
    #[cold]
    fn complete_merged(&mut self, completion: &Completion) {
        for MergedRequest { id, later } in self.merged.drain(..) {
            let mut own = Completion { id, ..*completion };
            own.spent[Mechanism::Queue] = own.spent[Mechanism::Queue].saturating_sub(later);
            self.completed.push_back(own);
        }
    }

    /// Returns the part of a command's preparation that is left at `start`, when the device becomes free. The command
    /// moves `length` bytes; its request arrived at `arrived`.
    fn rest_of_preparation(
        &self,
        arrived: Instant,
        start: Instant,
        fixed: Duration,
        t_block: Duration,
        length: u64,
    ) -> Duration {
        let prepared = self.sent.max(arrived) + fixed + t_block * self.geometry.blocks(length);
        prepared.saturating_since(start)
    }

    /// Prepares the next command of the request in service, after its command `done`. Returns false if `done`
    /// was the last command or failed.
    #[inline(never)]
    fn prepare_next_command(&mut self, done: &Completion) -> bool {
        let Some(serving) = &self.serving else { return false };
        if done.status != Status::Ok || serving.flushes {
            return false;
        }
        let left = serving.request.length.saturating_sub(serving.moved);
        let (software, flushes) = if left > 0 {
            (self.before_next_piece(done.at, left), false)
        } else {
            // The block layer sends the flush as a request of its own.
            (self.t_request + self.t_command, true)
        };
        *self.earlier.get_or_insert_default() += done.spent;
        if let Some(serving) = &mut self.serving {
            serving.software += software;
            serving.stage = Stage::Preparing(done.at + software);
            serving.flushes = flushes;
        }
        true
    }

    /// Returns the time of the software before the next command of a request, of which `left` bytes remain. The
    /// previous command ended at `end`.
    fn before_next_piece(&self, end: Instant, left: u64) -> Duration {
        let length = left.min(self.geometry.request_max);
        let preparation = self.prepare_block.map_or(Duration::ZERO, |t_block| {
            self.rest_of_preparation(Instant::ZERO, end, Duration::ZERO, t_block, length)
        });
        preparation + self.t_command
    }
}

impl RequestInService {
    /// Returns the next command. Data is transferred in pieces; trims and invalid requests go to the device as a whole.
    fn command(&self, geometry: &Geometry, durability: Durability) -> Request {
        let Request { op, offset, length, file, .. } = self.request;
        if self.flushes {
            return Request { id: RequestId(0), op: Op::Flush, file, offset: 0, length: 0 };
        }
        let op = durability.command(op);
        let left = length - self.moved;
        let piece = if left <= geometry.request_max { left } else { self.piece(geometry) };
        Request { id: RequestId(0), op, file, offset: offset + self.moved, length: piece }
    }

    #[cold]
    fn piece(&self, geometry: &Geometry) -> u64 {
        let whole = !self.request.op.moves_data() || !geometry.admits(&self.request);
        if whole { self.request.length } else { geometry.request_max }
    }
}

impl Model for Host {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn hint(&self, file: FileId, offsets: &[u64]) {
        self.device.hint(file, offsets);
    }

    fn submit(&mut self, now: Instant, request: Request) {
        if self.serving.is_some() {
            self.enqueue(now, request);
        } else {
            self.start(now, now, request);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        if let Some(completion) = self.completed.front() {
            return Some(completion.at);
        }
        match self.serving.as_ref()?.stage {
            Stage::Preparing(until) => Some(until),
            Stage::Commanded => self.device.next_due(),
        }
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        if !self.completed.is_empty() {
            return self.completed.pop_front();
        }
        loop {
            let serving = self.serving.as_mut()?;
            if let Stage::Preparing(until) = serving.stage {
                if until > limit {
                    return None;
                }
                let command = serving.command(&self.geometry, self.durability);
                serving.stage = Stage::Commanded;
                serving.in_command = command.length;
                self.sent = until;
                self.commands += u64::from(serving.reaches_card);
                self.device.submit(until, command);
            }
            // The completion is modified in place: it is so large that the cost of a copy would be measurable.
            let mut done = self.device.complete(limit);
            let completion = done.as_mut()?;
            let serving = self.serving.as_mut().expect(SERVED);
            serving.moved += serving.in_command;
            let is_last =
                serving.moved >= serving.request.length && !self.durability.flushes_after(serving.request.op);
            if !is_last && self.prepare_next_command(completion) {
                continue;
            }
            let serving = self.serving.take().expect(SERVED);
            completion.id = serving.request.id;
            completion.spent[Mechanism::Queue] += serving.queued;
            completion.spent[Mechanism::Host] += serving.software;
            if let Some(earlier) = self.earlier.take() {
                completion.spent += earlier;
            }
            if !self.merged.is_empty() {
                self.complete_merged(completion);
            }
            if !self.queue.is_empty() {
                self.start_waiting(completion.at);
            }
            return done;
        }
    }

    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.queue.clear();
        self.serving = None;
        self.earlier = None;
        self.merged.clear();
        self.completed.clear();
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
