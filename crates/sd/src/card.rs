//! The card as a timed device: one command at a time, as an SD bus serves them.
//!
//! A read command looks the data up (loading map pages that are not in memory), accesses the array, and moves blocks
//! over the wires while the array streams what follows. A write command fills a buffer of one program unit over the wires
//! while pages before it are programmed; the card is busy until the last page is, and until a
//! write that leaves a unit open or begins a new run has been committed. What an overwrite costs, [`flashlab_flash::ftl`] decides. Unmapped data is answered without the array.
//!
//! Time that the array works is the array's (program, read-modify-write, merge, map); the wires and the host's pace get
//! what is left, in proportion. The card has no volatile cache: flush takes no time.
//!
//! Left out: the commands themselves, their states and registers; the scatter of data that was written piecemeal, which a
//! long read streams like any other.

use crate::bus::BLOCK;
use crate::{Link, Mode};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use flashlab_flash::{
    Impossible,
    ftl::{Mapping, Translation},
    nand::Nand,
};
use flashlab_sim::{
    Completion, Duration, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request, Spent, Status,
};

/// Blocks of the largest transfer: CMD23 carries 16 bits.
const TRANSFER_BLOCKS_MAX: u64 = 65_535;

/// What a card is made of.
#[derive(Clone, PartialEq, Debug)]
pub struct CardParameters {
    /// Bytes that can be addressed.
    pub capacity: u64,
    /// Bus modes the card offers.
    pub modes: Vec<Mode>,
    /// The array.
    pub nand: Nand,
    /// The translation layer.
    pub mapping: Mapping,
}

impl CardParameters {
    /// Refuses what no card can have.
    pub fn check(&self) -> Result<(), Impossible> {
        self.nand.check()?;
        self.mapping.check(self.nand.page)?;
        if self.capacity == 0 || !self.capacity.is_multiple_of(self.nand.page) {
            return Err(Impossible::new(
                "card.capacity",
                format!("is not a whole number of pages of {} B", self.nand.page),
            ));
        }
        if self.capacity > 128 << 40 {
            return Err(Impossible::new("card.capacity", "is above 128 TiB, the most that SDUC addresses"));
        }
        if self.capacity < self.mapping.superblock {
            return Err(Impossible::new(
                "card.capacity",
                format!("is less than one superblock of {} B", self.mapping.superblock),
            ));
        }
        if !self.modes.contains(&Mode::DefaultSpeed) {
            return Err(Impossible::new("card.modes", "lacks \"default-speed\", which every card offers"));
        }
        Ok(())
    }
}

/// The wires' times, worked out once.
#[derive(Clone, Copy, Debug)]
struct Wire {
    command: Duration,
    read_block: Duration,
    write_block: Duration,
    /// The host's share of each block's time.
    host_block: Duration,
}

/// The card.
#[derive(Clone, Debug)]
pub struct Card {
    capacity: u64,
    wire: Wire,
    flash: Translation,
    /// For each page of the buffer, when its program starts and the place is free again, since the command was accepted.
    buffer: Box<[Duration]>,
    /// In order of arrival, without the one that is served.
    queue: VecDeque<(Instant, Request)>,
    served: Option<Completion>,
}

impl Card {
    /// A fresh card of these parameters (which have been checked) on a link, with the medium of `seed`.
    pub fn new(parameters: CardParameters, link: Link, seed: u64) -> Self {
        let wire = Wire {
            command: link.bus.command(),
            read_block: link.bus.read_block(),
            write_block: link.bus.write_block(),
            host_block: link.t_block_host,
        };
        let CardParameters { capacity, nand, mapping, .. } = parameters;
        let buffered_pages = (mapping.program_unit / nand.page) as usize;
        Card {
            capacity,
            wire,
            flash: Translation::new(capacity, nand, mapping, seed),
            buffer: vec![Duration::ZERO; buffered_pages].into_boxed_slice(),
            queue: VecDeque::new(),
            served: None,
        }
    }

    /// Takes `request` up at `start`; all of its state changes happen here.
    fn serve(&mut self, arrived: Instant, start: Instant, request: &Request) {
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = start.since(arrived);
        let status = if self.geometry().admits(request) {
            match request.op {
                Op::Read => self.read(request, &mut spent),
                Op::Write => self.write(request, &mut spent),
                Op::Trim => self.erase(request, &mut spent),
                Op::Flush | Op::FlushData => {}
            }
            Status::Ok
        } else {
            Status::OutOfRange
        };
        self.served = Some(Completion { id: request.id, at: arrived + spent.total(), status, spent });
    }

    /// CMD17, or CMD18 with CMD12.
    fn read(&mut self, request: &Request, spent: &mut Spent) {
        let blocks = request.length / BLOCK;
        spent[Mechanism::Bus] += self.wire.command * commands(request.length) + self.wire.read_block * blocks;
        spent[Mechanism::Host] += self.wire.host_block * blocks;
        let block = self.wire.read_block + self.wire.host_block;
        let granule = self.flash.granule();
        // Times since the command was accepted: when the array has the next piece, when the wires are free.
        let (mut array, mut wires) = (Duration::ZERO, Duration::ZERO);
        let mut accessed = false;
        let mut at = request.offset;
        while at < request.end() {
            let unit_end = request.end().min(self.flash.unit_end(at));
            let mut loading = self.flash.look_up(at);
            array += loading;
            let mut granule_end = self.flash.granule_end(at);
            while at < unit_end {
                let end = granule_end.min(unit_end);
                if self.flash.is_mapped(at) {
                    // The first access is exposed; behind it the array streams.
                    array += if accessed { self.flash.stream(end - at) } else { self.flash.access(at) };
                    accessed = true;
                }
                let waited = array.saturating_sub(wires);
                if waited > Duration::ZERO {
                    let for_map = waited.min(loading);
                    spent[Mechanism::Map] += for_map;
                    spent[Mechanism::Read] += waited - for_map;
                }
                wires = wires.max(array) + block * ((end - at) / BLOCK);
                loading = Duration::ZERO;
                at = end;
                granule_end += granule;
            }
        }
    }

    /// CMD24, or CMD25 with its stop.
    fn write(&mut self, request: &Request, spent: &mut Spent) {
        let command = self.wire.command * commands(request.length);
        let range = request.offset..request.end();
        let partly = self.flash.read_partly_overwritten(&range);
        let copies = self.flash.write(range.clone());
        let read_modify_write = partly
            + if copies.read_modify_write > 0 {
                self.flash.copy(copies.read_modify_write)
            } else {
                Duration::ZERO
            };
        let merge = if copies.merge > 0 { self.flash.copy(copies.merge) } else { Duration::ZERO };

        // Times since the command was accepted. The array copies while the first page is on its way.
        let (page, block) = (self.flash.page(), self.wire.write_block + self.wire.host_block);
        let mut wires = Duration::ZERO;
        self.buffer.fill(Duration::ZERO);
        let mut slot = 0;
        let mut array = read_modify_write + merge;
        let mut program = Duration::ZERO;
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / page + 1) * page);
            wires = wires.max(self.buffer[slot]) + block * ((end - at) / BLOCK);
            let programming = self.flash.program_page();
            let start = wires.max(array);
            self.buffer[slot] = start;
            slot = (slot + 1) % self.buffer.len();
            array = start + programming;
            program += programming;
            at = end;
        }
        let commit = self.flash.commit(&range);

        spent[Mechanism::Program] += program;
        spent[Mechanism::ReadModifyWrite] += read_modify_write;
        spent[Mechanism::Merge] += merge;
        spent[Mechanism::Map] += commit;
        // While the array was idle, it waited for the wires.
        let exposed = array - (program + read_modify_write + merge);
        let host = exposed.scale(self.wire.host_block.as_ns(), block.as_ns());
        spent[Mechanism::Host] += host;
        spent[Mechanism::Bus] += command + (exposed - host);
    }

    /// CMD32, CMD33 and CMD38; the array erases when it needs the space, the map is written now.
    fn erase(&mut self, request: &Request, spent: &mut Spent) {
        spent[Mechanism::Bus] += self.wire.command * 3;
        spent[Mechanism::Map] += self.flash.t_commit();
        self.flash.trim(request.offset..request.end());
    }
}

/// Commands that a transfer of `bytes` takes: more than one block needs a stop.
fn commands(bytes: u64) -> u64 {
    if bytes > BLOCK { 2 } else { 1 }
}

impl Model for Card {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: self.capacity, block: BLOCK, request_max: TRANSFER_BLOCKS_MAX * BLOCK }
    }

    fn hint(&self, request: &Request) {
        self.flash.prefetch(request.offset.min(self.capacity - BLOCK));
    }

    fn submit(&mut self, now: Instant, request: Request) {
        if self.served.is_some() {
            self.queue.push_back((now, request));
        } else {
            self.serve(now, now, &request);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.served.as_ref().map(|completion| completion.at)
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let done = self.served.take_if(|completion| completion.at <= limit);
        if let Some(completion) = &done
            && let Some((arrived, next)) = self.queue.pop_front()
        {
            self.serve(arrived, completion.at, &next);
        }
        done
    }

    fn power_cut(&mut self, _: Instant) -> PowerCut {
        self.queue.clear();
        self.served = None;
        PowerCut::default()
    }

    fn power_up(&mut self, now: Instant) -> Instant {
        now
    }

    fn observe(&self, to: &mut dyn Observer) {
        self.flash.observe(to);
    }
}
