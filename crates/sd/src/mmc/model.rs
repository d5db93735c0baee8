//! A card in a slot, driven command by command, as a timed block device: what [`CardModel`](crate::CardModel) is, by commands.
//!
//! The host stack brings the card up, and every request becomes the commands that it sends: CMD17 or CMD18 with CMD12, CMD24 or CMD25
//! with CMD12, CMD32, CMD33 and CMD38. The card takes the time that its commands take. Time that the array worked is the
//! array's; the wires and the host's pace share the rest as they do in the block-level model.
//!
//! A request goes on transfer by transfer, so that what would have been sent after a power cut never was. Of the transfer that it
//! meets the card tells page by page what is left ([`Card::power_off`](crate::Card::power_off)).
//!
//! Left out: where bits that were lost on the wires made the host send a write again, what lies before its last try counts as
//! written.

use super::{Controller, Kernel, Mmc};
use crate::bus::BLOCK;
use crate::{Card, Ios, Link, Mode, Native};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{
    Completion, Duration, Fate, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request,
    RestoreError, Spent, Status, fault,
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
    served: Option<Serving>,
    /// Transfers of bring-up.
    transfers_before: u64,
}

/// A request on its way.
#[derive(Clone)]
struct Serving {
    request: Request,
    arrived: Instant,
    start: Instant,
    /// The slot's time at the start.
    begun: Instant,
    /// The bytes of the transfer that is under way.
    transfer: Range<u64>,
    /// When that ends.
    ends: Instant,
    /// What there is to tell then, if it is the last.
    done: Option<Completion>,
}

impl Serving {
    /// Whether it writes, and has begun to.
    fn writes(&self) -> bool {
        matches!(self.request.op, Op::Write | Op::WriteFua) && !self.transfer.is_empty()
    }
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
        let mut mmc = Mmc::new(Native::new(Some(card.without_bytes())), controller, Kernel::V6_13);
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

    /// The card has no power from `now` on, which may lie before the end of what it was told.
    fn cut_card(&mut self, now: Instant) -> PowerCut {
        let at = self.origin + now.since(Instant::ZERO);
        self.mmc.native_mut().card_mut().map(|card| card.power_off(at)).unwrap_or_default()
    }

    /// The model's time in the slot.
    fn reach(&mut self, now: Instant) {
        let at = self.origin + now.since(Instant::ZERO);
        let wait = at.saturating_since(self.mmc.now());
        self.mmc.native_mut().advance(wait);
    }

    /// Takes `request` up at `start`.
    fn serve(&mut self, arrived: Instant, start: Instant, request: Request) {
        let transfer = request.offset..request.offset;
        let mut serving =
            Serving { request, arrived, start, begun: self.mmc.now(), transfer, ends: start, done: None };
        if !self.geometry.admits(&request) {
            self.end(&mut serving, Status::OutOfRange);
        } else if request.op.is_flush() && !self.mmc.caches() {
            self.end(&mut serving, Status::Ok);
        } else {
            self.reach(start);
            serving.begun = self.mmc.now();
            if request.op.is_flush() {
                self.flush(&mut serving);
            } else {
                self.go_on(&mut serving);
            }
        }
        self.served = Some(serving);
    }

    /// The commands of the next transfer; its state changes happen here.
    fn go_on(&mut self, serving: &mut Serving) {
        let (op, at, end) = (serving.request.op, serving.transfer.end, serving.request.end());
        // The host splits it, but for a discard, where the card has nothing to move.
        let length = if op == Op::Trim { end - at } else { self.geometry.request_max.min(end - at) };
        serving.transfer = at..at + length;
        let (sector, blocks) = (at / BLOCK, length / BLOCK);
        let count = u32::try_from(blocks).unwrap_or(u32::MAX);
        let (sent, failed) = match op {
            Op::Read => (self.mmc.read(sector, count, &mut []), Status::Unreadable),
            Op::Trim => (self.mmc.discard(sector, blocks), Status::Unsupported),
            _ => (self.mmc.write(sector, count, &[]), Status::ReadOnly),
        };
        serving.ends = serving.start + self.mmc.now().since(serving.begun);
        if sent.is_ok() && serving.transfer.end == end && op == Op::WriteFua && !fault("fua-is-a-plain-write")
        {
            // SD cards have no FUA; Linux flushes behind the write.
            self.flush(serving);
        } else if sent.is_err() || serving.transfer.end == end {
            self.end(serving, if sent.is_ok() { Status::Ok } else { failed });
        }
    }

    /// Flushes the card's cache; a card without one is not asked.
    fn flush(&mut self, serving: &mut Serving) {
        let flushed = self.mmc.flush();
        serving.ends = serving.start + self.mmc.now().since(serving.begun);
        self.end(serving, if flushed.is_ok() { Status::Ok } else { Status::ReadOnly });
    }

    /// Nothing more is sent.
    fn end(&mut self, serving: &mut Serving, status: Status) {
        let Serving { request, arrived, start, .. } = *serving;
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = start.since(arrived);
        if serving.ends > start {
            self.account(&request, serving.ends.since(start), &mut spent);
        }
        serving.done = Some(Completion { id: request.id, at: serving.ends, status, spent });
    }

    /// Where the time went that a request took.
    fn account(&mut self, request: &Request, took: Duration, spent: &mut Spent) {
        let array = self.mmc.native_mut().card_mut().map(Card::take_spent).unwrap_or_default();
        let mut wires = took;
        for (mechanism, time) in array.iter() {
            // A host that lost its patience has cut short what the array was about.
            let part = time.min(wires);
            spent[mechanism] += part;
            wires -= part;
        }
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

/// Adds what `cut` does not name of `range`, as new.
fn with_new(cut: PowerCut, range: Range<u64>) -> PowerCut {
    let (mut all, mut at) = (PowerCut::default(), range.start);
    for (named, fate) in cut.undecided {
        let gap = at..named.start.min(range.end);
        if !gap.is_empty() {
            all.push(gap, Fate::New);
        }
        at = at.max(named.end);
        all.push(named, fate);
    }
    if at < range.end {
        all.push(at..range.end, Fate::New);
    }
    all
}

impl Clone for MmcModel {
    fn clone(&self) -> Self {
        MmcModel {
            mmc: self.mmc.without_bytes(),
            queue: self.queue.clone(),
            served: self.served.clone(),
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
            self.serve(now, now, request);
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.served.as_ref().map(|serving| serving.ends)
    }

    fn complete(&mut self, limit: Instant) -> Option<Completion> {
        let mut serving = self.served.take_if(|serving| serving.ends <= limit)?;
        while serving.done.is_none() && serving.ends <= limit {
            self.go_on(&mut serving);
        }
        let Some(done) = serving.done.filter(|_| serving.ends <= limit) else {
            self.served = Some(serving);
            return None;
        };
        if let Some((arrived, next)) = self.queue.pop_front() {
            self.serve(arrived, done.at, next);
        }
        Some(done)
    }

    /// A trim that was being served has happened.
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.queue.clear();
        let mut cut = PowerCut::default();
        if let Some(mut serving) = self.served.take() {
            while serving.done.is_none() && serving.ends <= now {
                self.go_on(&mut serving);
            }
            cut = self.cut_card(now);
            if serving.writes() {
                let transfer = &serving.transfer;
                let meets = |range: &Range<u64>| range.start < transfer.end && transfer.start < range.end;
                let torn = cut.undecided.iter().find(|(range, _)| meets(range));
                let under_way = torn.map_or(transfer.end, |(range, _)| range.start.max(transfer.start));
                cut = with_new(cut, serving.request.offset..under_way);
            }
        } else if self.mmc.caches() {
            cut = self.cut_card(now);
        }
        self.reach(now);
        self.mmc.cut_power();
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
        let written = self.served.as_ref().filter(|serving| serving.writes()).map(|serving| &serving.request);
        let is_cached = self.mmc.native().card().is_some_and(|card| card.is_cached(range));
        !is_cached
            && written.is_none_or(|request| range.end <= request.offset || request.end() <= range.start)
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
