//! The drive in simulated time: queues, firmware, map, translation layer, array and link as one model.
//!
//! A command is fetched over the link, waits for the firmware, which serves one at a time and in order, and is looked up in
//! the map. Reads then go to the array page by page, and each page over the link when it has left the array; what is not
//! mapped is answered without the array. Writes fetch their data over the link and are done when all of it is in the
//! write buffer, which programs empty; with FUA, when all of it is programmed, for which it does not wait until a page is
//! full. A part of a unit that is mapped is read first and written with the rest.
//!
//! - Where the map does not fit in the drive's memory, [`Map`] says what a look-up costs. Either the firmware waits while a
//!   map page is loaded, or it turns to the next command and the request waits alone.
//! - Without commands for `t_idle` the firmware writes back what changed of the map, loads ahead what host memory has
//!   room for, and collects.
//! - Time spent sums exactly: the parts are the link, the firmware, the map, the array's work for the piece that was last,
//!   and waiting for the write buffer, FUA or a flush (`program`); the rest is waiting behind others.
//!
//! Left out: several processors, arbitration between submission queues, interrupts and the host's own time, write
//! ordering between queues, and host memory that other devices compete for.

mod background;
mod events;
mod kept;
mod parameters;
mod power;
mod read;
mod slot;
mod write;

pub use parameters::{Controller, SsdParameters};

use crate::Link;
use crate::hmb::{Buffer, Descriptor, Effect, HmbError, SetFeatures};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use events::{Events, Stage};
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::map::{Loaders, Map};
use flashlab_flash::ftl::page_map::{PageMap, Ticket};
use flashlab_flash::nand::{Channels, Decoder};
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Model, Observer, Op, PowerCut, Request, RestoreError,
    Rng, Status,
};
use serde::{Deserialize, Serialize};
use slot::{Slot, Slots};

/// Map pages that wait to be accepted by the translation layer, above which the firmware takes no command.
const MAP_QUEUE_MAX: usize = 64;

/// An NVMe SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: SsdParameters,
    seed: u64,
    /// Bytes of a unit, as a power of two.
    unit_shift: u32,
    layer: PageMap,
    map: Map,
    loaders: Loaders,
    array: Channels,
    link: Link,
    host_memory: Buffer,
    decoder: Option<Decoder>,
    rng: Rng,
    /// When each block was programmed last, counted since the drive was new; empty where age is of no account.
    programmed: Vec<Duration>,
    /// How old the drive was when its clock began.
    age: Duration,

    slots: Slots,
    /// On the host's side, since the drive has all the commands it takes.
    waiting: VecDeque<u32>,
    in_drive: u32,
    events: Events,
    /// For the firmware.
    commands: VecDeque<u32>,
    /// Changed map pages that wait for the translation layer.
    map_pages: VecDeque<MapPage>,
    /// Writes whose data comes or waits for the write buffer, with when it is here, in order. Behind one that was refused,
    /// nobody is told of those that come.
    incoming: VecDeque<(Instant, u32)>,
    /// The first of them is here.
    is_here: bool,
    /// The first of them was refused.
    refused: bool,
    /// Writes that read what they overwrite in part, and will ask for the link then.
    partial_writes: u32,
    /// In order of their tickets.
    flushes: VecDeque<(Ticket, u32)>,
    /// Writes with FUA that are accepted, with their last units' tickets.
    forced: Vec<(Ticket, u32)>,
    /// When the last request was done, while there is none.
    idle_since: Instant,
    counts: Counts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Counts {
    host_read_bytes: u64,
    host_written_bytes: u64,
    read_modify_write_bytes: u64,
    retries: u64,
    uncorrectable: u64,
}

impl Ssd {
    /// A fresh drive, with the medium of `seed`. The driver has lent host memory already, where the drive asks for some.
    ///
    /// # Panics
    /// Where the parameters are impossible; see [`SsdParameters::check`].
    pub fn new(parameters: SsdParameters, seed: u64) -> Self {
        if let Err(impossible) = parameters.check() {
            panic!("{impossible}");
        }
        let host_memory = parameters.lend();
        let layer = parameters.layer_with(&host_memory);
        let units = layer.capacity / layer.unit;
        let mut map = Map::new(&parameters.map, units);
        map.lend(host_memory.usable());
        Ssd {
            seed,
            unit_shift: layer.unit.ilog2(),
            layer: PageMap::new(&layer, seed),
            map,
            loaders: Loaders::new(parameters.map.loaders, parameters.map.t_load),
            array: Channels::new(&layer.geometry, &parameters.timing, &parameters.scheduling, seed),
            link: Link::new(parameters.wires),
            host_memory,
            decoder: parameters.reliability.as_ref().map(Decoder::new),
            rng: Rng::for_purpose(seed, 0x5244),
            programmed: match parameters.reliability {
                Some(_) => vec![Duration::ZERO; layer.geometry.block_count() as usize],
                None => Vec::new(),
            },
            age: Duration::ZERO,
            slots: Slots::default(),
            waiting: VecDeque::new(),
            in_drive: 0,
            events: Events::default(),
            commands: VecDeque::new(),
            map_pages: VecDeque::new(),
            incoming: VecDeque::new(),
            is_here: false,
            refused: false,
            partial_writes: 0,
            flushes: VecDeque::new(),
            forced: Vec::new(),
            idle_since: Instant::ZERO,
            counts: Counts::default(),
            parameters,
        }
    }

    /// Its parameters.
    pub fn parameters(&self) -> &SsdParameters {
        &self.parameters
    }
    /// The translation layer.
    pub fn layer(&self) -> &PageMap {
        &self.layer
    }
    /// Where the map is.
    pub fn map(&self) -> &Map {
        &self.map
    }
    /// Host memory that it may use now, in bytes.
    pub fn host_memory(&self) -> u64 {
        self.host_memory.usable()
    }

    /// The host sends Set Features 0Dh with this list; nothing is outstanding.
    ///
    /// # Errors
    /// Where the controller aborts the command.
    pub fn set_host_memory(
        &mut self,
        command: &SetFeatures,
        list: &[Descriptor],
    ) -> Result<Effect, HmbError> {
        let effect = self.host_memory.set(command, list)?;
        match effect {
            Effect::Lent(bytes) => self.map.lend(bytes),
            Effect::Returned(_) => self.map.give_back(),
            Effect::TakenAway => self.map.take_away(),
            Effect::Nothing => {}
        }
        Ok(effect)
    }

    #[inline]
    fn unit_of(&self, offset: u64) -> u32 {
        (offset >> self.unit_shift) as u32
    }
    #[inline]
    fn unit(&self) -> u64 {
        1 << self.unit_shift
    }

    /// As [`Geometry::admits`], without divisions: blocks are a power of two.
    #[inline]
    fn admits(&self, request: &Request) -> bool {
        let within = request.end() <= self.parameters.page_map.capacity;
        let whole = (request.offset | request.length) & (self.parameters.block - 1) == 0;
        request.op.is_flush() || (within && whole && request.length > 0)
    }

    /// The firmware takes commands up while it has none.
    #[inline]
    fn run_firmware(&mut self, now: Instant) {
        while let Some(slot) = self.commands.front().copied()
            && !self.events.firmware_works()
            && self.map_pages.len() < MAP_QUEUE_MAX
        {
            self.commands.pop_front();
            self.serve(now, slot);
        }
    }

    /// A command is in the drive: the firmware takes it up, or it waits.
    #[inline]
    fn fetched(&mut self, now: Instant, slot: u32) {
        let waits = self.events.firmware_works() || self.map_pages.len() >= MAP_QUEUE_MAX;
        if waits || !self.commands.is_empty() {
            self.commands.push_back(slot);
            return self.run_firmware(now);
        }
        self.serve(now, slot);
    }

    /// The idle firmware takes a command up.
    #[inline]
    fn serve(&mut self, now: Instant, slot: u32) {
        let time = self.take_up(now, slot);
        if time > Duration::ZERO {
            return self.events.push(Stage::Firmware, now + time, slot);
        }
        self.leave_firmware(now, slot);
    }

    /// What the firmware does with a command: all changes to the map happen here. Returns how long it takes.
    #[inline]
    fn take_up(&mut self, now: Instant, slot: u32) -> Duration {
        let times = &self.parameters.controller;
        let request = &self.slots.get(slot).request;
        let is_admitted = self.admits(request);
        let firmware = match request.op {
            Op::Read if is_admitted => self.command_time(request),
            Op::Write | Op::WriteFua if is_admitted => times.t_command_write,
            _ => times.t_command,
        };
        let state = self.slots.get_mut(slot);
        state.firmware = firmware;
        if !is_admitted {
            state.status = Status::OutOfRange;
            return firmware;
        }
        if self.map.is_whole() { firmware } else { firmware + self.use_map(now, slot) }
    }

    /// What the firmware does with a map that is not whole, for a command; returns how long that takes.
    #[inline(never)]
    fn use_map(&mut self, now: Instant, slot: u32) -> Duration {
        let request = self.slots.get(slot).request;
        let map = match request.op {
            Op::Read => self.look_up(now, slot, &request),
            Op::Write | Op::WriteFua | Op::Trim => self.change_map(now, slot, &request),
            Op::Flush | Op::FlushData => Duration::ZERO,
        };
        self.slots.get_mut(slot).map = map;
        map
    }

    /// The firmware is done with a command: it goes on, or waits for its map pages.
    #[inline(always)]
    fn leave_firmware(&mut self, now: Instant, slot: u32) {
        let ready = self.slots.get(slot).ready;
        if ready > now {
            self.slots.get_mut(slot).map += ready.since(now);
            self.events.push(Stage::Loads, ready, slot);
            return;
        }
        self.go_on(now, slot);
    }

    /// A command that was looked up is carried out.
    #[inline]
    fn go_on(&mut self, now: Instant, slot: u32) {
        let Slot { request, status, .. } = self.slots.get(slot);
        if *status != Status::Ok {
            return self.post(now, slot);
        }
        match request.op {
            Op::Read => self.read(now, slot),
            Op::Write | Op::WriteFua => self.write(now, slot),
            Op::Trim => self.trim(now, slot),
            Op::Flush | Op::FlushData => self.flush(now, slot),
        }
    }

    /// The last of a request without data for the host: its completion is sent.
    #[inline]
    fn post(&mut self, now: Instant, slot: u32) {
        let post = self.link.post();
        self.slots.get_mut(slot).bus += post;
        self.events.push(Stage::Posted, now + post, slot);
    }

    /// A completion is in the host's memory.
    #[inline(always)]
    fn finish(&mut self, at: Instant, slot: u32) -> Completion {
        let done = self.slots.finish(slot, at);
        self.in_drive -= 1;
        if let Some(next) = self.waiting.pop_front() {
            let request = self.slots.get(next).request;
            self.fetch(at, next, &request);
        }
        self.idle_since = at;
        done
    }

    /// A command is on its way to the drive. If it asks for nothing there that may have changed until it arrives, it is
    /// served ahead of time.
    #[inline]
    fn fetch(&mut self, now: Instant, slot: u32, request: &Request) {
        let fetch = self.link.fetch();
        self.slots.get_mut(slot).bus = fetch;
        self.in_drive += 1;
        let arrives = now + fetch;
        let is_served = self.is_unhindered(request)
            && match request.op {
                Op::Read => self.read_ahead(arrives, slot, request),
                Op::Write | Op::WriteFua if self.is_of_whole_units(request) => {
                    self.write_ahead(arrives, slot, request);
                    true
                }
                _ => false,
            };
        if !is_served {
            self.events.push(Stage::Fetched, arrives, slot);
        }
    }

    /// Whether a request is behind nobody who will ask for the firmware or for the link to the drive, and asks for nothing
    /// of the map that has to be loaded.
    #[inline]
    fn is_unhindered(&self, request: &Request) -> bool {
        self.events.none_comes() && self.map.is_whole() && self.partial_writes == 0 && self.admits(request)
    }

    /// Whether a request covers no unit in part.
    #[inline]
    fn is_of_whole_units(&self, request: &Request) -> bool {
        (request.offset | request.length) & (self.unit() - 1) == 0
    }
}

impl Model for Ssd {
    fn geometry(&self) -> Geometry {
        Geometry {
            capacity: self.parameters.page_map.capacity,
            block: self.parameters.block,
            request_max: self.parameters.request_max,
        }
    }

    #[inline]
    fn hint(&self, _file: FileId, offsets: &[u64]) {
        for offset in offsets {
            self.layer.prefetch(self.unit_of(*offset));
        }
    }

    #[inline]
    fn submit(&mut self, now: Instant, request: Request) {
        if self.slots.taken() == 0 {
            self.catch_up(now);
        }
        let slot = self.slots.take(now, &request);
        if self.in_drive < self.parameters.controller.depth {
            self.fetch(now, slot, &request);
        } else {
            self.waiting.push_back(slot);
        }
    }

    #[inline]
    fn next_due(&self) -> Option<Instant> {
        if self.slots.taken() == 0 { None } else { self.events.next_due(&self.array) }
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        // Asked before every arrival: mostly nothing is due.
        if self.slots.taken() == 0 || !self.events.is_due(&self.array, limit) {
            return None;
        }
        self.advance(limit)
    }

    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.cut(now)
    }

    fn power_up(&mut self, now: Instant) -> Instant {
        self.recover(now)
    }

    fn is_durable(&self, range: &Range<u64>) -> bool {
        let units = (range.start >> self.unit_shift) as u32..range.end.div_ceil(self.unit()) as u32;
        units.into_iter().all(|unit| self.layer.is_programmed(unit))
    }

    fn save(&self) -> Option<Vec<u8>> {
        let mut still = self.clone();
        still.come_to_rest();
        still.keep()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.take_over(state)
    }

    fn observe(&self, to: &mut dyn Observer) {
        to.count("host_read_bytes", self.counts.host_read_bytes);
        to.count("host_written_bytes", self.counts.host_written_bytes);
        to.count("read_modify_write_bytes", self.counts.read_modify_write_bytes);
        to.count("read_retry_count", self.counts.retries);
        to.count("uncorrectable_count", self.counts.uncorrectable);
        self.layer.observe(to);
        self.map.observe(to);
    }
}
