//! A card in a slot, driven command by command, as a timed block device: what [`CardModel`](crate::CardModel) is, by commands.
//!
//! The host stack brings the card up, and every request becomes the commands that it sends: CMD17 or CMD18 with CMD12, CMD24 or CMD25
//! with CMD12, CMD32, CMD33 and CMD38. The card takes the time that its commands take. Time that the array worked is the
//! array's; the wires and the host's pace share the rest as they do in the block-level model.
//!
//! Left out: of a power cut in the middle of a write, what was not yet written: the write is then as if done, and named
//! so (new). The block-level model and [`Card::power_off`](crate::Card::power_off) tell it block by block.

use super::{Controller, Kernel, Mmc};
use crate::bus::BLOCK;
use crate::{Card, Ios, Link, Mode, Native};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{
    Completion, Duration, Fate, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request,
    RestoreError, Spent, Status,
};

/// The device.
pub struct MmcModel {
    mmc: Mmc,
    link: Link,
    geometry: Geometry,
    /// The slot's time when the model's began: the card was brought up before.
    origin: Instant,
    /// In order of arrival, without the one that is served.
    queue: VecDeque<(Instant, Request)>,
    served: Option<Completion>,
    /// What the request that is served writes.
    writing: Option<Range<u64>>,
    /// Transfers of bring-up.
    transfers_before: u64,
}

impl MmcModel {
    /// `card` on a link, brought up in the best of `modes` that it knows and the link has, with transfers of up to `bytes_max`
    /// bytes. A clock of the link's that no mode has is driven all the same. Its bytes are left out.
    ///
    /// # Panics
    /// Where the card cannot be brought up: one that answers and does not lie about itself can.
    pub fn new(card: &Card, link: Link, modes: &[Mode], bytes_max: u64) -> Self {
        let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX);
        let controller = Controller::of_link(&link, modes, bytes_max);
        let mut mmc = Mmc::new(Native::new(Some(card.without_bytes())), controller, Kernel::V6_1);
        mmc.start_host();
        let sectors = mmc.card().expect("a card that follows the specification is brought up").csd.sectors;
        let geometry = Geometry {
            capacity: sectors * BLOCK,
            block: BLOCK,
            request_max: u64::from(controller.transfer_blocks()) * BLOCK,
        };
        let mut model = MmcModel {
            mmc,
            link,
            geometry,
            origin: Instant::ZERO,
            queue: VecDeque::new(),
            served: None,
            writing: None,
            transfers_before: 0,
        };
        model.drive();
        model.origin = model.mmc.now();
        model.transfers_before = model.mmc.transfers();
        model
    }

    /// The link's clock and pace, now that the card is in its mode.
    fn drive(&mut self) {
        let clock_hz = u32::try_from(self.link.bus.clock_hz).unwrap_or(u32::MAX);
        let ios = Ios { clock_hz, ..*self.mmc.ios() };
        let native = self.mmc.native_mut();
        native.set_ios(&ios);
        native.set_pace(self.link.t_block_host);
        if let Some(card) = native.card_mut() {
            // What bring-up took is nobody's.
            card.take_spent();
        }
    }

    /// The model's time in the slot.
    fn reach(&mut self, now: Instant) {
        let at = self.origin + now.since(Instant::ZERO);
        let wait = at.saturating_since(self.mmc.now());
        self.mmc.native_mut().advance(wait);
    }

    /// Takes `request` up at `start`; all of its state changes happen here.
    fn serve(&mut self, arrived: Instant, start: Instant, request: &Request) {
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = start.since(arrived);
        let mut status = Status::Ok;
        if !self.geometry.admits(request) {
            status = Status::OutOfRange;
        } else if !request.op.is_flush() {
            self.reach(start);
            let begun = self.mmc.now();
            status = self.send(request);
            self.account(request, self.mmc.now().since(begun), &mut spent);
        }
        self.served = Some(Completion { id: request.id, at: arrived + spent.total(), status, spent });
    }

    /// The commands of a request.
    fn send(&mut self, request: &Request) -> Status {
        let (sector, blocks) = (request.offset / BLOCK, request.length / BLOCK);
        let count = u32::try_from(blocks).unwrap_or(u32::MAX);
        let (sent, failed) = match request.op {
            Op::Read => (self.mmc.read(sector, count, &mut []), Status::Unreadable),
            Op::Trim => (self.mmc.discard(sector, blocks), Status::Unsupported),
            _ => {
                self.writing = Some(request.offset..request.end());
                (self.mmc.write(sector, count, &[]), Status::ReadOnly)
            }
        };
        if sent.is_ok() { Status::Ok } else { failed }
    }

    /// Where the time went that a request took.
    fn account(&mut self, request: &Request, took: Duration, spent: &mut Spent) {
        let array = self.mmc.native_mut().card_mut().map(Card::take_spent).unwrap_or_default();
        *spent += array;
        let wires = took.saturating_sub(array.total());
        let bus = self.mmc.native().bus();
        let blocks = request.length / BLOCK;
        let pace = self.link.t_block_host;
        let host = match request.op {
            Op::Read => (pace * blocks).min(wires),
            Op::Write | Op::WriteFua => {
                // While the array was idle, it waited for the wires and the host, in proportion.
                let transfers = blocks.div_ceil(self.geometry.request_max / BLOCK);
                let commands = bus.command() * if blocks > 1 { 2 * transfers } else { 1 };
                let block = bus.write_block() + pace;
                wires.saturating_sub(commands).scale(pace.as_ns(), block.as_ns())
            }
            _ => Duration::ZERO,
        };
        spent[Mechanism::Host] += host;
        spent[Mechanism::Bus] += wires - host;
    }
}

impl Clone for MmcModel {
    fn clone(&self) -> Self {
        MmcModel {
            mmc: self.mmc.without_bytes(),
            queue: self.queue.clone(),
            writing: self.writing.clone(),
            served: self.served,
            ..*self
        }
    }
}

impl Model for MmcModel {
    fn geometry(&self) -> Geometry {
        self.geometry
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
        if let Some(completion) = &done {
            self.writing = None;
            if let Some((arrived, next)) = self.queue.pop_front() {
                self.serve(arrived, completion.at, &next);
            }
        }
        done
    }

    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.queue.clear();
        self.served = None;
        self.reach(now);
        self.mmc.cut_power();
        let mut cut = PowerCut::default();
        if let Some(range) = self.writing.take() {
            cut.push(range, Fate::New);
        }
        cut
    }

    /// Until the card is brought up again.
    fn power_up(&mut self, now: Instant) -> Instant {
        // Where a request was cut, the slot's time is ahead.
        self.reach(now);
        let begun = self.mmc.now();
        self.mmc.native_mut().set_pace(Duration::ZERO);
        self.mmc.rescan();
        self.drive();
        let ready = now + self.mmc.now().since(begun);
        self.origin = Instant::ZERO + self.mmc.now().since(Instant::ZERO + ready.since(Instant::ZERO));
        ready
    }

    fn is_durable(&self, range: &Range<u64>) -> bool {
        self.writing.as_ref().is_none_or(|w| range.end <= w.start || w.end <= range.start)
    }

    fn save(&self) -> Option<Vec<u8>> {
        self.mmc.native().card().and_then(Card::save)
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), RestoreError> {
        match self.mmc.native_mut().card_mut() {
            Some(card) => card.restore(state),
            None => Err(RestoreError::new("there is no card in the slot")),
        }
    }

    fn observe(&self, to: &mut dyn Observer) {
        to.count("transfer_count", self.mmc.transfers() - self.transfers_before);
        if let Some(card) = self.mmc.native().card() {
            card.observe(to);
        }
    }
}
