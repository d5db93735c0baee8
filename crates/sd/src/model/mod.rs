//! The card as a timed block device that serves one request at a time, as a card on an SD bus does.
//!
//! A read command looks up the data (and loads map pages that are not in memory), accesses the array, and transfers
//! blocks over the wires while the array streams the following data. A write command fills a buffer of one program unit
//! over the wires while previous pages are programmed. The card is busy until the last page is programmed. A write that
//! leaves a program unit open or begins a new run must also be committed before the busy signal ends.
//! [`flashlab_flash::ftl`] decides the cost of an overwrite. Reads of unmapped data do not access the array.
//!
//! The time during which the array works is charged to its mechanisms (program, read-modify-write, merge, map). The
//! remaining time is divided between the wires and the host in proportion to their times per block. Data copies of wear
//! leveling are charged as merge. A card with too few good erase blocks rejects writes.
//!
//! Without a volatile cache, a flush takes no time, and the data of a completed write survives a power cut.
//! [`Refinements::cache`] gives the card a cache (`cached.rs`, `cache.rs`), [`Refinements::queue`] a command queue
//! (`queue.rs`).
//!
//! The model does not include:
//! - the commands themselves, the card's states, and its registers;
//! - the scatter of data that was written piecemeal: a long read streams it like any other data;
//! - the return of erase blocks to the free-block pool if a power cut tears a write before it begins to fill them.

pub(crate) mod array;
mod buffer;
mod cache;
mod cached;
mod example;
mod queue;
mod refinements;

pub use refinements::Refinements;

use crate::bus::BLOCK;
use crate::{Mode, Wires};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec::Vec;
use array::{Ahead, Array, ReadTransfer, Stream};
use cache::WriteCache;
use cached::InCache;
use core::ops::Range;
use flashlab_flash::{
    Impossible,
    ftl::{
        Blocks, Wear,
        card::{Mapping, Translation},
    },
    nand::Nand,
};
use flashlab_sim::{
    Completion, Duration, FileId, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request,
    RestoreError, Spent, Status, fault,
};
use queue::{CommandQueue, QueueLimits};

/// Number of blocks of the largest transfer. The model uses 16 bits for the block count of CMD23.
const TRANSFER_BLOCKS_MAX: u64 = 65_535;

/// Parameters of a card.
#[derive(Clone, PartialEq, Debug)]
pub struct CardParameters {
    /// Capacity in bytes.
    pub capacity: u64,
    /// Bus modes that the card supports.
    pub modes: Vec<Mode>,
    /// The NAND array.
    pub nand: Nand,
    /// The translation layer.
    pub mapping: Mapping,
    /// Spare erase blocks, wear leveling, endurance.
    pub wear: Wear,
    /// Mechanisms that only some cards have.
    pub refinements: Refinements,
}

/// The shortest time that an array can take for an operation.
const T_MIN: Duration = Duration::from_ns(1);

impl CardParameters {
    /// Returns true if the array of the card takes time. Cards that exist to compare command logs use the shortest
    /// possible times, so their performance means nothing.
    pub fn has_timing(&self) -> bool {
        self.nand.t_read > T_MIN || self.nand.t_prog > T_MIN
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Returns the first parameter that no card can have.
    pub fn check(&self) -> Result<(), Impossible> {
        self.check_flash()?;
        if self.capacity > 128 << 40 {
            return Err(Impossible::new("card.capacity", "is above 128 TiB, the maximum of SDUC"));
        }
        if !self.modes.contains(&Mode::DefaultSpeed) {
            return Err(Impossible::new("card.modes", "lacks \"default-speed\", which every card offers"));
        }
        Ok(())
    }

    /// Checks the parameters of the flash and of its controller, which do not depend on the bus. Flash that is not on
    /// the wires of a card has no bus modes.
    ///
    /// # Errors
    /// Returns the first parameter that is impossible.
    pub fn check_flash(&self) -> Result<(), Impossible> {
        self.nand.check()?;
        self.mapping.check(&self.nand)?;
        self.refinements.check(&self.nand, &self.mapping)?;
        if self.capacity == 0 || !self.capacity.is_multiple_of(self.nand.page) {
            return Err(Impossible::new(
                "card.capacity",
                format!("is not a whole number of pages of {} B", self.nand.page),
            ));
        }
        if self.capacity < self.mapping.rewrite_unit {
            return Err(Impossible::new(
                "card.capacity",
                format!("is less than one rewrite unit of {} B", self.mapping.rewrite_unit),
            ));
        }
        Translation::check_wear(self.capacity, &self.nand, &self.mapping, &self.wear)
    }
}

/// The write in service, recorded in case the power is cut.
#[derive(Clone, Copy, Debug)]
struct Writing {
    offset: u64,
    length: u64,
    start: Instant,
    /// Bytes of the range that were mapped before the write.
    mapped: u64,
    /// Time from the start of the data to the end of the commit. The commit follows the last program, and
    /// wear leveling follows the commit.
    committed: Duration,
    command: Duration,
}

/// Time that the bus mode adds to the access time of a read.
#[derive(Clone, Copy, Debug)]
struct BusAccess {
    /// Time of the mode in use: zero until a mode is set, and then its time in `by_mode`.
    of_mode: Duration,
    /// Time of each mode, by [`Mode::index`].
    by_mode: [Option<Duration>; Mode::COUNT],
}

impl BusAccess {
    fn set_mode(&mut self, mode: Mode) {
        self.of_mode = self.by_mode[mode.index()].unwrap_or_default();
    }
}

/// Timed model of an SD card.
#[derive(Clone, Debug)]
pub struct CardModel {
    capacity: u64,
    wire: Wires,
    access: BusAccess,
    /// Bytes that the card reads ahead.
    read_ahead: Option<u64>,
    /// Processing time of a read command.
    t_command: Duration,
    /// Processing time of a write command whose data is in the cache.
    t_command_write: Duration,
    /// True if the array programs several pages in parallel.
    is_striped: bool,
    array: Array,
    /// True if the card has modes of eMMC.
    is_emmc: bool,
    cache: Option<Box<WriteCache>>,
    /// The request in service, while it waits for the cache.
    in_cache: Option<InCache>,
    queue_limits: QueueLimits,
    /// The command queue, if the host uses it.
    tasks: Option<Box<CommandQueue>>,
    /// Waiting requests in order of arrival, without the one in service.
    queue: VecDeque<(Instant, Request)>,
    served: Option<Completion>,
    /// The write in service.
    writing: Option<Writing>,
}

impl CardModel {
    /// Creates a fresh card, or other flash that is timed like a card, behind `wires`. The caller has checked
    /// `parameters`. The medium is drawn from `seed`.
    pub fn new(parameters: CardParameters, wires: impl Into<Wires>, seed: u64) -> Self {
        CardModel {
            capacity: parameters.capacity,
            wire: wires.into(),
            access: BusAccess { of_mode: Duration::ZERO, by_mode: parameters.refinements.access },
            read_ahead: parameters.refinements.read_ahead,
            t_command: parameters.refinements.t_command.unwrap_or_default(),
            t_command_write: parameters.refinements.t_command_write.unwrap_or_default(),
            is_striped: parameters.refinements.ways(&parameters.nand) > 1,
            is_emmc: parameters.modes.iter().any(|mode| mode.is_emmc()),
            cache: parameters.refinements.cache.map(|bytes| {
                Box::new(WriteCache::new(bytes, parameters.nand.page, parameters.refinements.drain))
            }),
            in_cache: None,
            queue_limits: QueueLimits::new(&parameters.refinements),
            tasks: None,
            array: Array::new(parameters, seed),
            queue: VecDeque::new(),
            served: None,
            writing: None,
        }
    }

    /// Returns this card on a link in `mode`, with the access time of that mode.
    pub fn in_mode(mut self, mode: Mode) -> Self {
        self.access.set_mode(mode);
        self
    }

    /// Returns the erase blocks and their wear.
    pub fn blocks(&self) -> &Blocks {
        self.array.flash.blocks()
    }

    /// Checks the consistency of the whole translation layer.
    ///
    /// # Panics
    /// Panics with a description of the inconsistency.
    pub fn check(&self) {
        self.array.flash.check();
    }

    /// Serves `request` from `start` on. Without a cache, all state changes of the request happen here.
    fn serve(&mut self, arrived: Instant, start: Instant, request: &Request) {
        let admits = self.geometry().admits(request);
        if admits && request.op == Op::Read {
            self.serve_read(arrived, start, request);
        } else {
            self.serve_other(arrived, start, request, admits);
        }
    }

    /// Adds a request to the waiting requests.
    #[inline(never)]
    fn enqueue(&mut self, now: Instant, request: Request) {
        self.queue.push_back((now, request));
    }

    /// Serves, from `start` on, the request that has waited longest.
    #[inline(never)]
    fn serve_waiting(&mut self, start: Instant) {
        if let Some((arrived, request)) = self.queue.pop_front() {
            self.serve(arrived, start, &request);
        }
    }

    /// Serves a request that is not a read, or that the card does not admit.
    #[inline(never)]
    fn serve_other(&mut self, arrived: Instant, start: Instant, request: &Request, admits: bool) {
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = start.since(arrived);
        self.array.ahead = None;
        let command = self.transfer_commands(request.length);
        let status = if !admits {
            Status::OutOfRange
        } else if self.cache.is_some() {
            return self.begin_in_cache(arrived, start, command, request, spent);
        } else {
            match request.op {
                // The card is busy until a write is programmed, so every completed write is durable.
                Op::Write | Op::WriteFua => self.write(start, command, request, &mut spent),
                Op::Trim => self.erase(request, &mut spent),
                Op::Read | Op::Flush | Op::FlushData => Status::Ok,
            }
        };
        let at = arrived + spent.total();
        self.served = Some(Completion { id: request.id, at, status, spent });
    }

    /// Serves a read from `start` on.
    #[inline]
    fn serve_read(&mut self, arrived: Instant, start: Instant, request: &Request) {
        let command = self.transfer_commands(request.length);
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = start.since(arrived);
        spent[Mechanism::Bus] = command;
        self.read(start + command, request, &mut spent);
        let at = arrived + spent.total();
        self.served = Some(Completion { id: request.id, at, status: Status::Ok, spent });
    }

    /// Returns the time of the commands of a transfer of `bytes`. A transfer of several blocks needs a stop command.
    fn transfer_commands(&self, bytes: u64) -> Duration {
        self.wire.command + if bytes > BLOCK { self.wire.stop } else { Duration::ZERO }
    }

    /// Reads the data of `request`, whose command the card received at `began`. Returns the time until the first data is
    /// ready.
    #[inline(always)]
    fn read(&mut self, began: Instant, request: &Request, spent: &mut Spent) -> Duration {
        let blocks = request.length / BLOCK;
        spent[Mechanism::Bus] += self.wire.read_block * blocks;
        spent[Mechanism::Host] += self.wire.host_block * blocks;
        let Some(wait) = self.wait_of_read(began, request) else {
            self.array.ahead = None;
            return Duration::ZERO;
        };
        spent[Mechanism::Cache] += wait;
        let began = began + wait;
        spent[Mechanism::Firmware] += self.t_command;
        let ahead = self.read_ahead.and_then(|bytes| self.streamed_ahead(bytes, began, request.offset));
        let stream = Stream::new(self.access.of_mode, ahead);
        let block = self.wire.read_block + self.wire.host_block;
        let mut transfer = ReadTransfer::new(stream, self.t_command, block);
        let at = transfer.next(&mut self.array.flash, request.offset, request.end());
        let first = transfer.stream.ready;
        if at < request.end() {
            transfer = transfer.rest(&mut self.array.flash, at, request.end());
        }
        spent[Mechanism::Map] += transfer.for_map;
        spent[Mechanism::Read] += transfer.for_data;
        let ready = transfer.stream.ready;
        if self.read_ahead.is_some() {
            let since = (began + ready.min(transfer.wires)).saturating_sub(transfer.stream.buffered);
            self.array.ahead = Some(Ahead { offset: request.end(), since });
        }
        if let Some(cache) = &mut self.cache {
            cache.hold(began + ready);
        }
        wait + first
    }

    /// If a read at `offset` continues the previous command, which was a read, returns the time for which the
    /// array had streamed its data before the card received the command at `began`. The card reads up to
    /// `bytes` ahead.
    #[inline(never)]
    fn streamed_ahead(&mut self, bytes: u64, began: Instant, offset: u64) -> Option<Duration> {
        let flash = &self.array.flash;
        match self.array.ahead.take() {
            Some(ahead) if ahead.offset == offset && flash.is_mapped(offset) => {
                Some(began.saturating_since(ahead.since).min(flash.stream(bytes)))
            }
            _ => None,
        }
    }

    /// Serves a write: CMD24, or CMD25 with its stop command. The commands take `command`.
    fn write(&mut self, start: Instant, command: Duration, request: &Request, spent: &mut Spent) -> Status {
        let range = request.offset..request.end();
        let page = self.array.flash.page();
        let mapped = self.array.flash.mapped_bytes(&range);
        spent[Mechanism::Bus] += command;
        let Ok(work) = self.array.flash.write_command(range.clone()) else { return Status::ReadOnly };
        let page = work.page.unwrap_or(page);

        // Times are relative to the moment when the card received the command. The array copies while the first page
        // arrives.
        let block = self.wire.write_block + self.wire.host_block;
        let end = self.array.buffer.write(work, &range, page, block);
        let program = work.runs.iter().fold(Duration::ZERO, |sum, run| sum + run.time());
        let merge = work.runs.iter().fold(work.merge, |sum, run| sum + run.merge);
        let (read_modify_write, leveling, fold) = (work.read_modify_write, work.leveling, work.fold);
        let commit = self.array.flash.commit(&range);

        // Programs that run in parallel are charged at most the time in which no data was on the wires.
        let copies = read_modify_write + merge + fold;
        let on_wires = block * (request.length / BLOCK);
        let program =
            if self.is_striped { program.min(end.saturating_sub(copies + on_wires)) } else { program };
        spent[Mechanism::Program] += program;
        spent[Mechanism::Fold] += fold;
        spent[Mechanism::ReadModifyWrite] += read_modify_write;
        spent[Mechanism::Merge] += merge + leveling;
        spent[Mechanism::Map] += commit.map;
        spent[Mechanism::Busy] += commit.busy;
        spent[Mechanism::Housekeeping] += commit.housekeeping;
        // The array was idle while it waited for the wires.
        let exposed = end - (program + copies);
        let host = exposed.scale(self.wire.host_block.as_ns(), block.as_ns());
        spent[Mechanism::Host] += host;
        spent[Mechanism::Bus] += exposed - host;
        let (offset, length) = (request.offset, request.length);
        self.writing = Some(Writing { offset, length, start, mapped, committed: end + commit.map, command });
        Status::Ok
    }

    /// Returns what a power cut at `now` leaves of the write in service.
    fn torn_write(&mut self, writing: &Writing, now: Instant) -> PowerCut {
        let range = writing.offset..writing.offset + writing.length;
        let block = self.wire.write_block + self.wire.host_block;
        let since = now.saturating_since(writing.start).saturating_sub(writing.command);
        let mut torn = self.array.torn_write(now, since >= writing.committed);
        let work = self.array.flash.work().clone();
        let page = work.page.unwrap_or(self.array.flash.page());
        self.array.buffer.pages(&work, &range, page, block, |bytes, start, end| {
            torn.page(bytes, start, end, since);
        });
        if writing.mapped == 0
            && let Some(not_begun) = torn.not_begun
        {
            self.array.flash.trim(not_begun..range.end);
        }
        torn.cut
    }

    /// Serves an erase: CMD32, CMD33 and CMD38. The map is written at once. The array erases when it needs
    /// the space.
    fn erase(&mut self, request: &Request, spent: &mut Spent) -> Status {
        spent[Mechanism::Bus] += self.wire.command * 3;
        spent[Mechanism::Map] += self.array.flash.t_commit();
        self.array.flash.trim(request.offset..request.end());
        Status::Ok
    }
}

impl Model for CardModel {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, block: BLOCK, request_max: TRANSFER_BLOCKS_MAX * BLOCK }
    }

    fn hint(&self, _file: FileId, offsets: &[u64]) {
        for offset in offsets {
            self.array.flash.prefetch((*offset).min(self.capacity - BLOCK));
        }
    }

    fn submit(&mut self, now: Instant, request: Request) {
        if self.tasks.is_some() {
            self.submit_task(now, request);
        } else if self.served.is_some() || self.in_cache.is_some() {
            self.enqueue(now, request);
        } else {
            self.end_idle(now);
            self.serve(now, now, &request);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        let service = self.service_due();
        match &self.tasks {
            Some(tasks) => service.into_iter().chain(tasks.next_event(service.is_some())).min(),
            None => service,
        }
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        if self.tasks.is_some() {
            return self.complete_task(limit);
        }
        while self.in_cache.as_ref().is_some_and(|waiting| waiting.at <= limit) {
            self.step_in_cache();
        }
        let done = self.served.take_if(|completion| completion.at <= limit);
        if let Some(completion) = &done {
            self.writing = None;
            self.array.idle_since = completion.at;
            if !self.queue.is_empty() {
                self.serve_waiting(completion.at);
            }
        }
        done
    }

    /// Cuts the power. Without a cache, completed writes are durable. A trim in service has taken effect.
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.queue.clear();
        self.served = None;
        if let Some(tasks) = &mut self.tasks {
            tasks.clear();
        }
        if self.cache.is_some() {
            return self.cut_cache(now);
        }
        self.writing.take().map(|writing| self.torn_write(&writing, now)).unwrap_or_default()
    }

    /// Restores the power. Returns the time when the array is ready, without the initialisation by the host.
    fn power_up(&mut self, now: Instant) -> Instant {
        self.array.power_up(now)
    }

    /// Returns true unless `range` overlaps the write in service, or data in the cache.
    fn is_durable(&self, range: &Range<u64>) -> bool {
        let apart = |w: &Writing| range.end <= w.offset || w.offset + w.length <= range.start;
        let lacks = |cache: &WriteCache| cache.lacks(range) || fault("cached-data-counts-as-durable");
        let waiting = self.in_cache.as_ref().is_some_and(|waiting| waiting.changes(range));
        !waiting && self.writing.as_ref().is_none_or(apart) && self.cache.as_deref().is_none_or(lacks)
    }

    /// Serialises the state. The data in the cache is drained first.
    fn save(&self) -> Option<Vec<u8>> {
        match &self.cache {
            Some(cache) if !cache.is_empty() => array::to_bytes(&self.drained().array.state()),
            _ => array::to_bytes(&self.array.state()),
        }
    }

    /// Restores a saved state. The state of a [`crate::Card`] is accepted too.
    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        let (state, _) = self.array.parse(state)?;
        self.array.restore(state)?;
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
        Ok(())
    }

    fn observe(&self, to: &mut dyn Observer) {
        self.array.flash.observe(to);
        if let Some(cache) = &self.cache {
            let (used, capacity) = cache.level();
            to.level("write cache", used, capacity);
        }
    }
}
