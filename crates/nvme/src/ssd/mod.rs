//! The drive in simulated time: queues, firmware, map, translation layer, array and link as one model.
//!
//! The drive fetches a command over the link. The command waits for the firmware, which serves one command at
//! a time in order, and then for its map look-up. A read goes to the array page by page, and each page
//! crosses the link when it has left the array. Unmapped data needs no array operation. A write fetches its
//! data over the link, and completes when all of the data is in the write buffer, which drains to the array.
//! An FUA write completes when its data is programmed, and does not wait until a page is full. A write of
//! part of a unit that is in the array reads the unit first (read-modify-write).
//!
//! - If the map does not fit in the drive's memory, [`MapCache`] determines the cost of a look-up. While a
//!   map page is loaded, either the firmware blocks, or only the request waits and the firmware serves the
//!   next command.
//! - After `t_idle` without commands, the firmware writes back changed map pages, loads the rest of the map into host
//!   memory if all of it fits, and collects garbage.
//! - A latency is exactly the sum of its parts: link, firmware, map, array time of the last piece,
//!   read-modify-write, and `program`, which is the wait for the write buffer, FUA or a flush. The rest is
//!   `queue`.
//!
//! The model omits additional processors, arbitration between submission queues, interrupts and the host's
//! own time, write ordering between queues, and competition of several devices for host memory.

mod admission;
mod ages;
mod background;
mod events;
mod incoming;
mod parameters;
mod power;
mod read;
mod slot;
mod snapshot;
mod write;

pub use parameters::{Controller, SsdParameters};

use crate::Link;
use crate::hmb::{Buffer, Descriptor, Effect, HmbError, HostDriver, SetFeatures};
use admission::Admission;
use ages::Ages;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use events::{Events, Stage};
use flashlab_flash::ftl::MapPage;
use flashlab_flash::ftl::page_map::map_cache::{Loaders, MapCache};
use flashlab_flash::ftl::page_map::{PageMap, Ticket};
use flashlab_flash::nand::{Channels, Decoder};
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Model, Observer, Op, PowerCut, Request, RestoreError,
    Rng, Status,
};
use incoming::Incoming;
use serde::{Deserialize, Serialize};
use slot::{Slot, Slots};

/// Number of waiting map pages at which the firmware starts no further command.
const MAP_QUEUE_MAX: usize = 64;

/// An NVMe SSD.
#[derive(Clone, Debug)]
pub struct Ssd {
    parameters: SsdParameters,
    seed: u64,
    /// Base-2 logarithm of the unit size in bytes.
    unit_shift: u32,
    layer: PageMap,
    map: MapCache,
    loaders: Loaders,
    array: Channels,
    link: Link,
    host_memory: Buffer,
    /// Driver of the host, which grants the host memory again after a power cut.
    driver: HostDriver,
    decoder: Option<Decoder>,
    rng: Rng,
    ages: Ages,

    slots: Slots,
    admission: Admission,
    events: Events,
    /// Commands that wait for the firmware.
    commands: VecDeque<u32>,
    /// Changed map pages that wait for the translation layer to accept them.
    map_pages: VecDeque<MapPage>,
    incoming: Incoming,
    /// Number of writes whose read-modify-write reads are in progress. These writes use the link afterwards.
    partial_writes: u32,
    /// Flushes in flight, in order of their tickets.
    flushes: VecDeque<(Ticket, u32)>,
    /// FUA writes in the write buffer, with the tickets of their last units.
    forced: Vec<(Ticket, u32)>,
    /// Instant of the last completion. The value is valid only while no request is in flight.
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
    /// Returns a new drive whose medium is drawn from `seed`. The `driver` of the host has already granted
    /// the requested host memory, up to [`SsdParameters::lend_max`].
    ///
    /// # Panics
    /// Panics if the parameters are impossible; see [`SsdParameters::check`].
    pub fn new(parameters: SsdParameters, driver: HostDriver, seed: u64) -> Self {
        if let Err(impossible) = parameters.check(driver) {
            panic!("{impossible}");
        }
        let host_memory = parameters.lend(driver);
        let layer = parameters.layer_with(&host_memory);
        let units = layer.capacity / layer.unit;
        let mut map = MapCache::new(&parameters.map, units);
        map.use_host_memory(host_memory.usable());
        Ssd {
            seed,
            unit_shift: layer.unit.ilog2(),
            layer: PageMap::new(&layer, seed),
            map,
            loaders: Loaders::new(parameters.map.loaders, parameters.map.t_load),
            array: Channels::new(&layer.geometry, &parameters.timing, &parameters.scheduling, seed),
            link: Link::new(parameters.link),
            host_memory,
            driver,
            decoder: parameters.reliability.as_ref().map(Decoder::new),
            rng: Rng::for_purpose(seed, 0x5244),
            ages: Ages::new(parameters.blocks_that_age()),
            slots: Slots::default(),
            admission: Admission::new(parameters.controller.depth),
            events: Events::default(),
            commands: VecDeque::new(),
            map_pages: VecDeque::new(),
            incoming: Incoming::default(),
            partial_writes: 0,
            flushes: VecDeque::new(),
            forced: Vec::new(),
            idle_since: Instant::ZERO,
            counts: Counts::default(),
            parameters,
        }
    }

    /// Returns the parameters.
    pub fn parameters(&self) -> &SsdParameters {
        &self.parameters
    }
    /// Returns the translation layer.
    pub fn layer(&self) -> &PageMap {
        &self.layer
    }
    /// Keeps the versions of all units, for tests; see [`PageMap::track_versions`].
    pub fn track_versions(&mut self) {
        self.layer.track_versions();
    }
    /// Returns the map.
    pub fn map(&self) -> &MapCache {
        &self.map
    }
    /// Returns the size in bytes of the host memory that the drive may use at present.
    pub fn host_memory(&self) -> u64 {
        self.host_memory.usable()
    }

    /// Executes Set Features 0Dh (Host Memory Buffer) with this list of descriptors. Must be called while no request is
    /// in flight.
    ///
    /// # Errors
    /// Returns an error if the controller aborts the command.
    pub fn set_host_memory(
        &mut self,
        command: &SetFeatures,
        list: &[Descriptor],
    ) -> Result<Effect, HmbError> {
        let effect = self.host_memory.set(command, list)?;
        match effect {
            Effect::Lent(bytes) => self.map.use_host_memory(bytes),
            Effect::Returned(_) => self.map.return_host_memory(),
            Effect::Withdrawn => self.map.disable_host_memory(),
            Effect::Unchanged => {}
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

    /// Returns the same as [`Geometry::admits`] but without divisions, because the block size is a power of two.
    #[inline]
    fn admits(&self, request: &Request) -> bool {
        let within = request.end() <= self.parameters.page_map.capacity;
        let whole = (request.offset | request.length) & (self.parameters.block - 1) == 0;
        request.op.is_flush() || (within && whole && request.length > 0)
    }

    /// Starts commands while the firmware is idle.
    #[inline]
    fn run_firmware(&mut self, now: Instant) {
        while let Some(slot) = self.commands.front().copied()
            && !self.events.is_firmware_busy()
            && self.map_pages.len() < MAP_QUEUE_MAX
        {
            self.commands.pop_front();
            self.start_command(now, slot);
        }
    }

    /// Handles the arrival of a command: the firmware starts it, or it waits.
    #[inline]
    fn command_fetched(&mut self, now: Instant, slot: u32) {
        let waits = self.events.is_firmware_busy() || self.map_pages.len() >= MAP_QUEUE_MAX;
        if waits || !self.commands.is_empty() {
            self.commands.push_back(slot);
            return self.run_firmware(now);
        }
        self.start_command(now, slot);
    }

    /// Starts a command on the idle firmware.
    #[inline]
    fn start_command(&mut self, now: Instant, slot: u32) {
        let time = self.process_command(now, slot);
        if time > Duration::ZERO {
            return self.events.push(Stage::Firmware, now + time, slot);
        }
        self.finish_firmware(now, slot);
    }

    /// Processes a command in the firmware, including the access to a map that is only partly in memory.
    /// Returns the firmware's time.
    #[inline]
    fn process_command(&mut self, now: Instant, slot: u32) -> Duration {
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
        if self.map.is_resident() { firmware } else { firmware + self.access_map(now, slot) }
    }

    /// Looks up or changes entries of a map that is only partly in memory. Returns the firmware's time.
    #[inline(never)]
    fn access_map(&mut self, now: Instant, slot: u32) -> Duration {
        let request = self.slots.get(slot).request;
        let map = match request.op {
            Op::Read => self.look_up(now, slot, &request),
            Op::Write | Op::WriteFua | Op::Trim => self.change_map(now, slot, &request),
            Op::Flush | Op::FlushData => Duration::ZERO,
        };
        self.slots.get_mut(slot).map = map;
        map
    }

    /// Handles the end of the firmware's work: the command continues, or waits for its map pages.
    #[inline(always)]
    fn finish_firmware(&mut self, now: Instant, slot: u32) {
        let ready = self.slots.get(slot).ready;
        if ready > now {
            self.slots.get_mut(slot).map += ready.since(now);
            self.events.push(Stage::Loads, ready, slot);
            return;
        }
        self.execute(now, slot);
    }

    /// Executes a command after its map look-up.
    #[inline]
    fn execute(&mut self, now: Instant, slot: u32) {
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

    /// Sends the completion of a request that has no data for the host.
    #[inline]
    fn post(&mut self, now: Instant, slot: u32) {
        let post = self.link.post();
        self.slots.get_mut(slot).bus += post;
        self.events.push(Stage::Posted, now + post, slot);
    }

    /// Completes a request at `at` and fetches the next waiting command.
    #[inline(always)]
    fn finish(&mut self, at: Instant, slot: u32) -> Completion {
        let done = self.slots.finish(slot, at);
        if let Some(next) = self.admission.leave() {
            let request = self.slots.get(next).request;
            self.fetch(at, next, &request);
        }
        self.idle_since = at;
        done
    }

    /// Fetches a command. The model serves the command ahead of time, which saves events, if nothing that the
    /// command depends on can change before its arrival.
    #[inline]
    fn fetch(&mut self, now: Instant, slot: u32, request: &Request) {
        let fetch = self.link.fetch();
        self.slots.get_mut(slot).bus = fetch;
        let arrives = now + fetch;
        let is_served_early = self.can_serve_early(request)
            && match request.op {
                Op::Read => self.read_early(arrives, slot, request),
                Op::Write | Op::WriteFua if self.is_of_whole_units(request) => {
                    self.write_early(arrives, slot, request);
                    true
                }
                _ => false,
            };
        if !is_served_early {
            self.events.push(Stage::Fetched, arrives, slot);
        }
    }

    /// Returns true if no earlier request will use the firmware or the link to the drive, the whole map is in memory,
    /// and the request is valid.
    #[inline]
    fn can_serve_early(&self, request: &Request) -> bool {
        self.events.no_command_is_pending()
            && self.map.is_resident()
            && self.partial_writes == 0
            && self.admits(request)
    }

    /// Returns true if a request covers only whole units.
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
        if self.slots.used_count() == 0 {
            self.work_while_idle(now);
        }
        let slot = self.slots.allocate(now, &request);
        if self.admission.enter(slot) {
            self.fetch(now, slot, &request);
        }
    }

    #[inline]
    fn next_due(&self) -> Option<Instant> {
        if self.slots.used_count() == 0 { None } else { self.events.next_due(&self.array) }
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        // The caller asks before every arrival, when usually no event is due.
        if self.slots.used_count() == 0 || !self.events.is_due(&self.array, limit) {
            return None;
        }
        self.advance(limit)
    }

    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.lose_power(now)
    }

    fn power_up(&mut self, now: Instant) -> Instant {
        self.recover(now)
    }

    fn is_durable(&self, range: &Range<u64>) -> bool {
        let units = (range.start >> self.unit_shift) as u32..range.end.div_ceil(self.unit()) as u32;
        units.into_iter().all(|unit| self.layer.is_programmed(unit))
    }

    fn save(&self) -> Option<Vec<u8>> {
        let mut quiescent = self.clone();
        quiescent.quiesce();
        quiescent.to_snapshot()
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        self.restore_snapshot(state)
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
