//! A card in a slot as a timed block device that is driven command by command. It corresponds to
//! [`CardModel`](flashlab_sd::CardModel), which works at the level of blocks.
//!
//! The host stack initialises the card and translates every request into commands: CMD17, or CMD18 with
//! CMD12; CMD24, or CMD25 with CMD12; CMD32, CMD33 and CMD38. A request takes the time of its commands. The
//! time during which the array works is charged to the mechanisms of the array. The wires and the host share
//! the remaining time, as in the block-level model.
//!
//! A request is executed transfer by transfer, so transfers after a power cut never start. For the transfer that a
//! power cut interrupts, the card reports the fate of each page ([`Card::power_off`](flashlab_sd::Card::power_off)).
//!
//! Simplification: if bit errors on the wires make the host repeat a write, the data that precedes the last try counts
//! as written.

use super::{Controller, Kernel, Mmc};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sd::BLOCK;
use flashlab_sd::{Card, Ios, Link, Mode, Native};
use flashlab_sim::{
    Completion, Duration, Fate, Geometry, Instant, Mechanism, Model, Observer, Op, PowerCut, Request,
    RestoreError, Spent, Status, fault,
};

/// Timed block device with a card behind a host stack.
pub struct MmcModel {
    mmc: Mmc,
    link: Link,
    geometry: Geometry,
    /// Time of the slot at time zero of the model. The card is initialised before this time.
    origin: Instant,
    /// Waiting requests in order of arrival, without the one in service.
    queue: VecDeque<(Instant, Request)>,
    served: Option<RequestInService>,
    /// Number of transfers during initialisation.
    transfers_before: u64,
}

/// A request in service.
#[derive(Clone)]
struct RequestInService {
    request: Request,
    arrived: Instant,
    start: Instant,
    /// Time of the slot at the start.
    begun: Instant,
    /// Byte range of the current transfer.
    transfer: Range<u64>,
    /// Time when the current transfer ends.
    ends: Instant,
    /// Completion of the request, if the current transfer is the last one.
    done: Option<Completion>,
}

impl RequestInService {
    /// Returns true if the request writes and its first transfer has started.
    fn writes(&self) -> bool {
        matches!(self.request.op, Op::Write | Op::WriteFua) && !self.transfer.is_empty()
    }
}

impl MmcModel {
    /// Puts a copy of `card`, without its stored bytes, on a link. Initialises the copy in the best of
    /// `modes` that card and link support, with transfers of up to `bytes_max` bytes. The clock of the link
    /// is used even if it is not the clock of any mode.
    ///
    /// # Panics
    /// Panics if the initialisation fails. It succeeds with every card that responds and has correct registers.
    pub fn new(card: &Card, link: Link, modes: &[Mode], bytes_max: u64) -> Self {
        let bytes_max = u32::try_from(bytes_max).unwrap_or(u32::MAX);
        let controller = Controller::of_link(&link, modes, bytes_max);
        let mut mmc = Mmc::new(Native::new(Some(card.without_bytes())), controller, Kernel::V6_13);
        mmc.start_host();
        let sectors = mmc.card().expect("a card with correct registers is initialised").csd.sectors;
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

    /// Sets the clock and the time per block of the link, after the initialisation has selected the mode.
    fn drive(&mut self) {
        let clock_hz = u32::try_from(self.link.bus.clock_hz).unwrap_or(u32::MAX);
        let ios = Ios { clock_hz, ..*self.mmc.ios() };
        let native = self.mmc.native_mut();
        native.set_ios(&ios);
        native.set_t_block_host(self.link.t_block_host);
        if let Some(card) = native.card_mut() {
            // The time of the initialisation is not charged to any request.
            card.take_spent();
        }
    }

    /// Cuts the power of the card at `now`, which may lie before the end of its last command.
    fn cut_card(&mut self, now: Instant) -> PowerCut {
        let at = self.origin + now.since(Instant::ZERO);
        self.mmc.native_mut().card_mut().map(|card| card.power_off(at)).unwrap_or_default()
    }

    /// Advances the slot to the model's time `now`.
    fn advance_to(&mut self, now: Instant) {
        let at = self.origin + now.since(Instant::ZERO);
        let wait = at.saturating_since(self.mmc.now());
        self.mmc.native_mut().advance(wait);
    }

    /// Starts to serve `request` at `start`.
    fn serve(&mut self, arrived: Instant, start: Instant, request: Request) {
        let transfer = request.offset..request.offset;
        let mut serving = RequestInService {
            request,
            arrived,
            start,
            begun: self.mmc.now(),
            transfer,
            ends: start,
            done: None,
        };
        if !self.geometry.admits(&request) {
            self.end(&mut serving, Status::OutOfRange);
        } else if request.op.is_flush() && !self.mmc.caches() {
            self.end(&mut serving, Status::Ok);
        } else {
            self.advance_to(start);
            serving.begun = self.mmc.now();
            if request.op.is_flush() {
                self.flush(&mut serving);
            } else {
                self.next_transfer(&mut serving);
            }
        }
        self.served = Some(serving);
    }

    /// Executes the commands of the next transfer. All of its state changes happen here.
    fn next_transfer(&mut self, serving: &mut RequestInService) {
        let (op, at, end) = (serving.request.op, serving.transfer.end, serving.request.end());
        // The host splits the request. A discard is not split here, since it transfers no data.
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
            // SD cards have no FUA. Linux flushes the cache after the write.
            self.flush(serving);
        } else if sent.is_err() || serving.transfer.end == end {
            self.end(serving, if sent.is_ok() { Status::Ok } else { failed });
        }
    }

    /// Flushes the card's cache. A card without a cache receives no command.
    fn flush(&mut self, serving: &mut RequestInService) {
        let flushed = self.mmc.flush();
        serving.ends = serving.start + self.mmc.now().since(serving.begun);
        self.end(serving, if flushed.is_ok() { Status::Ok } else { Status::ReadOnly });
    }

    /// Ends the request after its last transfer.
    fn end(&mut self, serving: &mut RequestInService, status: Status) {
        let RequestInService { request, arrived, start, .. } = *serving;
        let mut spent = Spent::default();
        spent[Mechanism::Queue] = start.since(arrived);
        if serving.ends > start {
            self.account(&request, serving.ends.since(start), &mut spent);
        }
        serving.done = Some(Completion { id: request.id, at: serving.ends, status, spent });
    }

    /// Divides the time of a request among the mechanisms.
    fn account(&mut self, request: &Request, took: Duration, spent: &mut Spent) {
        let array = self.mmc.native_mut().card_mut().map(Card::take_spent).unwrap_or_default();
        let mut wires = took;
        for (mechanism, time) in array.iter() {
            // After a time-out, the array has worked for less time than it reported.
            let part = time.min(wires);
            spent[mechanism] += part;
            wires -= part;
        }
        let bus = self.mmc.native().bus();
        let blocks = request.length / BLOCK;
        let t_block_host = self.link.t_block_host;
        let host = match request.op {
            Op::Read => (t_block_host * blocks).min(wires),
            Op::Write | Op::WriteFua => {
                // The array was idle while it waited for the wires and the host. The idle time is divided between the
                // two in proportion to their times per block.
                let transfers = blocks.div_ceil(self.geometry.request_max / BLOCK);
                let commands = bus.command() * if blocks > 1 { 2 * transfers } else { 1 };
                let block = bus.write_block() + t_block_host;
                wires.saturating_sub(commands).scale(t_block_host.as_ns(), block.as_ns())
            }
            _ => Duration::ZERO,
        };
        spent[Mechanism::Host] += host;
        spent[Mechanism::Bus] += wires - host;
    }
}

/// Adds the parts of `range` that `cut` does not contain, as new data.
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
            self.next_transfer(&mut serving);
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

    /// Cuts the power. By then, a trim in service has taken effect.
    fn power_cut(&mut self, now: Instant) -> PowerCut {
        self.queue.clear();
        let mut cut = PowerCut::default();
        if let Some(mut serving) = self.served.take() {
            while serving.done.is_none() && serving.ends <= now {
                self.next_transfer(&mut serving);
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
        self.advance_to(now);
        self.mmc.cut_power();
        cut
    }

    /// Restores the power. Returns the time when the card is initialised again.
    fn power_up(&mut self, now: Instant) -> Instant {
        // If a request was cut, the time of the slot is ahead of the model's time.
        self.advance_to(now);
        let begun = self.mmc.now();
        self.mmc.native_mut().set_t_block_host(Duration::ZERO);
        self.mmc.rescan();
        self.drive();
        let ready = now + self.mmc.now().since(begun);
        self.origin = Instant::ZERO + self.mmc.now().since(ready);
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
