//! What is wrong with a card, in the words of those who ask: the card and its fronts.

use super::{Planned, Quirk, STUCK, When};
use alloc::vec::Vec;
use flashlab_sim::Instant;

/// What happens to a card at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Blow {
    /// It is gone.
    Remove,
    /// Its power fails and comes back.
    PowerCut,
}

/// How a card takes a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Heard {
    /// As it should.
    Well,
    /// Not at all.
    Not,
    /// It answers that it does not know it.
    Illegal,
}

/// Where a counterfeit keeps what is written to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// There.
    At(u64),
    /// Nowhere.
    Nowhere,
}

/// What is wrong with a card, and what it has seen so far of what that depends on.
#[derive(Clone, Debug, Default)]
pub struct Quirks {
    /// Those whose moment has not come.
    planned: Vec<Planned>,
    active: Vec<Quirk>,
    /// How often each command was heard.
    heard: Vec<u32>,
    blocks_written: u64,
    responses: u32,
    blocks_sent: u32,
    blocks_received: u32,
    resets: u32,
    op_conds: u32,
    last: Option<u8>,
    /// Busy behind CMD55 until then.
    busy_until: Instant,
    /// Until when time is known to have come.
    seen: Instant,
    stuck: bool,
    removed: bool,
}

impl Quirks {
    /// Adds what goes wrong, from now on or from its moment on.
    pub fn add(&mut self, planned: impl Into<Planned>) {
        let planned = planned.into();
        match (planned.when, planned.quirk) {
            (When::Always, quirk @ (Quirk::Remove | Quirk::PowerCut)) => {
                self.planned.push(Planned { quirk, when: When::At(Instant::ZERO) });
            }
            (When::Always, quirk) => self.active.push(quirk),
            _ => self.planned.push(planned),
        }
    }

    /// All is well from now on; a card that was pulled out is back in.
    pub fn clear(&mut self) {
        *self = Quirks::default();
    }

    /// What is wrong at the moment.
    pub fn active(&self) -> &[Quirk] {
        &self.active
    }

    /// What is still to come.
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// Whether the card was pulled out.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// Whether nothing is wrong and nothing will be.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.planned.is_empty() && !self.stuck && !self.removed
    }

    fn find<T>(&self, what: impl Fn(&Quirk) -> Option<T>) -> Option<T> {
        self.active.iter().find_map(what)
    }
    fn has(&self, quirk: Quirk) -> bool {
        self.active.contains(&quirk)
    }

    /// Moments that `has_come` says of become the present; what happens at once is returned, with when.
    fn arrive(&mut self, now: Instant, has_come: impl Fn(When) -> bool) -> Option<(Instant, Blow)> {
        let mut blow = None;
        let mut left = Vec::new();
        for planned in core::mem::take(&mut self.planned) {
            if blow.is_some() || !has_come(planned.when) {
                left.push(planned);
                continue;
            }
            let at = if let When::At(at) = planned.when { at } else { now };
            match planned.quirk {
                Quirk::Remove => {
                    self.removed = true;
                    blow = Some((at, Blow::Remove));
                }
                Quirk::PowerCut => blow = Some((at, Blow::PowerCut)),
                quirk => self.active.push(quirk),
            }
        }
        self.planned = left;
        blow
    }

    /// Time has come to `now`: what happens until then, the earliest first. To be asked until there is nothing more.
    pub(crate) fn time(&mut self, now: Instant) -> Option<(Instant, Blow)> {
        loop {
            let due = self.planned.iter().filter_map(|planned| match planned.when {
                When::At(at) if at <= now => Some(at),
                _ => None,
            });
            let Some(next) = due.min() else {
                self.seen = self.seen.max(now);
                return None;
            };
            if let Some((at, blow)) = self.arrive(now, |when| when == When::At(next)) {
                // What was planned for the past happens now.
                self.seen = self.seen.max(at);
                return Some((self.seen, blow));
            }
        }
    }

    /// A command is about to be acted on. What happens at once happens before it.
    pub(crate) fn count_command(&mut self, now: Instant, index: u8) -> Option<Blow> {
        self.heard.resize(64, 0);
        let heard = &mut self.heard[usize::from(index & 63)];
        *heard = heard.saturating_add(1);
        let this = When::Command { index, nth: *heard };
        self.arrive(now, |when| when == this).map(|(_, blow)| blow)
    }

    /// How a command is taken.
    pub(crate) fn command(&mut self, now: Instant, index: u8, argument: u32) -> Heard {
        let before = self.last.replace(index);
        if self.removed || self.has(Quirk::Silent) || now < self.busy_until {
            return Heard::Not;
        }
        match index {
            0 => {
                let hears = self.hears_reset();
                self.resets = self.resets.saturating_add(1);
                if !hears {
                    return Heard::Not;
                }
            }
            1 => {
                self.op_conds = self.op_conds.saturating_add(1);
                if self.op_conds > 1 && self.has(Quirk::OneOpCond) {
                    return Heard::Not;
                }
            }
            8 if before != Some(0) && self.has(Quirk::ResetBeforeIfCond) => return Heard::Not,
            55 => {
                if let Some(busy) = self.find(|quirk| match quirk {
                    Quirk::BusyAfterApp(busy) => Some(*busy),
                    _ => None,
                }) {
                    self.busy_until = now.saturating_add(busy);
                }
            }
            59 if argument & 1 == 1 && self.has(Quirk::NoCrcMode) => return Heard::Illegal,
            _ => {}
        }
        Heard::Well
    }

    /// Whether the data that the last command asked for come.
    pub(crate) fn sends_data(&self) -> bool {
        let extension = self.last == Some(48) && self.has(Quirk::NoExtensionData);
        !extension && !self.has(Quirk::NoData)
    }

    /// Whether the next CMD0 is heard.
    pub(crate) fn hears_reset(&self) -> bool {
        let deaf = |quirk: &Quirk| matches!(quirk, Quirk::ResetRetries(n) if self.resets < *n);
        !self.active.iter().any(deaf)
    }

    /// Until when the card is busy, for a reason that is here.
    pub(crate) fn busy_until(&self) -> Instant {
        if self.stuck { Instant::MAX } else { self.busy_until }
    }

    /// A write has ended at `now`, and the card is busy until `until`: until when it really is.
    pub(crate) fn write_ended(&mut self, now: Instant, until: Instant) -> Instant {
        if self.has(Quirk::StuckBusy) {
            self.stuck = true;
            return now.saturating_add(STUCK);
        }
        let least = self.find(|quirk| match quirk {
            Quirk::Busy(least) => Some(*least),
            _ => None,
        });
        least.map_or(until, |least| until.max(now.saturating_add(least)))
    }

    /// Whether a cache that is told to flush is busy for ever.
    pub(crate) fn flush_sticks(&mut self) -> bool {
        self.stuck |= self.has(Quirk::NoCacheFlush);
        self.stuck
    }

    /// Whether nothing can be written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.has(Quirk::ReadOnly)
    }

    /// A block has been written. What happens at once happens behind it.
    pub(crate) fn block_written(&mut self, now: Instant) -> Option<Blow> {
        self.blocks_written += 1;
        let written = self.blocks_written;
        self.arrive(now, |when| matches!(when, When::Block(n) if n <= written)).map(|(_, blow)| blow)
    }

    /// Changes the bytes of the block that is being written, if it is one of those.
    pub(crate) fn keep(&self, block: &mut [u8]) {
        let every = self.find(|quirk| match quirk {
            Quirk::KeepsOther(n) => Some(u64::from(*n)),
            _ => None,
        });
        if every.is_some_and(|every| (self.blocks_written + 1).is_multiple_of(every)) {
            block.iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
    }

    /// Where the card keeps the block at this byte address.
    #[inline]
    pub(crate) fn place(&self, address: u64) -> Place {
        let found = self.find(|quirk| match *quirk {
            Quirk::Wraps(size) => Some(Place::At(address % size)),
            Quirk::Drops(size) if address >= size => Some(Place::Nowhere),
            _ => None,
        });
        found.unwrap_or(Place::At(address))
    }

    /// SPI: what the card holds its data line at before it has heard a CMD0.
    pub(crate) fn line_before_reset(&self) -> u8 {
        if self.has(Quirk::LowBeforeReset) { 0x00 } else { 0xff }
    }
    /// SPI: whether garbage comes before a response.
    pub(crate) fn has_garbage(&self) -> bool {
        self.has(Quirk::GarbageBeforeResponse)
    }
    /// SPI: whether an illegal command is told in the next response too.
    pub(crate) fn is_late(&self) -> bool {
        self.has(Quirk::LateIllegal)
    }

    /// Whether the response that is sent now is damaged on the wires.
    #[inline]
    pub(crate) fn damages_response(&mut self) -> bool {
        if self.active.is_empty() {
            return false;
        }
        self.responses = self.responses.wrapping_add(1);
        let every = self.find(|quirk| if let Quirk::ResponseCrc(n) = quirk { Some(*n) } else { None });
        every.is_some_and(|every| self.responses.is_multiple_of(every))
    }
    /// Whether the block that is sent to the host now is.
    #[inline]
    pub(crate) fn damages_read(&mut self) -> bool {
        if self.active.is_empty() {
            return false;
        }
        self.blocks_sent = self.blocks_sent.wrapping_add(1);
        let every = self.find(|quirk| if let Quirk::ReadCrc(n) = quirk { Some(*n) } else { None });
        every.is_some_and(|every| self.blocks_sent.is_multiple_of(every))
    }
    /// Whether the block that arrives now is.
    #[inline]
    pub(crate) fn damages_write(&mut self) -> bool {
        if self.active.is_empty() {
            return false;
        }
        self.blocks_received = self.blocks_received.wrapping_add(1);
        let every = self.find(|quirk| if let Quirk::WriteCrc(n) = quirk { Some(*n) } else { None });
        every.is_some_and(|every| self.blocks_received.is_multiple_of(every))
    }

    /// The power is back: what the card remembered of its own is forgotten, what is wrong with it stays.
    pub(crate) fn power_on(&mut self) {
        (self.resets, self.op_conds, self.last) = (0, 0, None);
        (self.busy_until, self.stuck) = (Instant::ZERO, false);
    }
}
