//! The quirks of one card, as predicates for the card and its bus interfaces.

use super::{Planned, Quirk, T_STUCK_BUSY, Trigger};
use crate::opcode;
use alloc::vec::Vec;
use flashlab_sim::Instant;

/// Event that happens to a card at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QuirkEvent {
    /// The card is removed.
    Remove,
    /// The power fails and is restored.
    PowerCut,
}

/// How a card handles a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CommandHandling {
    /// The card handles the command normally.
    Normal,
    /// The card ignores the command.
    Ignored,
    /// The card responds that the command is illegal.
    Illegal,
}

/// Location at which a counterfeit stores the data of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Location {
    /// The data is at this address.
    At(u64),
    /// The data is not stored.
    Nowhere,
}

/// The quirks of a card, and the event counts that they depend on.
#[derive(Clone, Debug, Default)]
pub struct Quirks {
    /// Quirks whose trigger has not fired.
    planned: Vec<Planned>,
    active: Vec<Quirk>,
    /// For each command index, how often the card received it.
    received: Vec<u32>,
    blocks_written: u64,
    responses: u32,
    blocks_sent: u32,
    blocks_received: u32,
    resets: u32,
    op_conds: u32,
    last: Option<u8>,
    /// End of the busy time after CMD55.
    busy_until: Instant,
    /// Latest time that the card has processed.
    seen: Instant,
    stuck: bool,
    removed: bool,
}

impl Quirks {
    /// Adds a quirk, which is active from its trigger on.
    pub fn add(&mut self, planned: impl Into<Planned>) {
        let planned = planned.into();
        match (planned.trigger, planned.quirk) {
            (Trigger::Always, quirk @ (Quirk::Remove | Quirk::PowerCut)) => {
                self.planned.push(Planned { quirk, trigger: Trigger::At(Instant::ZERO) });
            }
            (Trigger::Always, quirk) => self.active.push(quirk),
            _ => self.planned.push(planned),
        }
    }

    /// Removes all quirks. A removed card is back in its slot.
    pub fn clear(&mut self) {
        *self = Quirks::default();
    }

    /// Returns the active quirks.
    pub fn active(&self) -> &[Quirk] {
        &self.active
    }

    /// Returns the quirks whose trigger has not fired.
    pub fn planned(&self) -> &[Planned] {
        &self.planned
    }

    /// Returns true if the card was removed.
    pub fn is_removed(&self) -> bool {
        self.removed
    }

    /// Returns true if the card has no active or planned quirks, and is neither removed nor busy forever.
    pub(crate) fn is_empty(&self) -> bool {
        self.active.is_empty() && self.planned.is_empty() && !self.stuck && !self.removed
    }

    fn find<T>(&self, what: impl Fn(&Quirk) -> Option<T>) -> Option<T> {
        self.active.iter().find_map(what)
    }
    fn has(&self, quirk: Quirk) -> bool {
        self.active.contains(&quirk)
    }

    /// Activates the planned quirks whose trigger satisfies `fires`, up to the first removal or power cut.
    /// Returns this event with its time.
    fn activate(&mut self, now: Instant, fires: impl Fn(Trigger) -> bool) -> Option<(Instant, QuirkEvent)> {
        let mut event = None;
        let mut left = Vec::new();
        for planned in core::mem::take(&mut self.planned) {
            if event.is_some() || !fires(planned.trigger) {
                left.push(planned);
                continue;
            }
            let at = if let Trigger::At(at) = planned.trigger { at } else { now };
            match planned.quirk {
                Quirk::Remove => {
                    self.removed = true;
                    event = Some((at, QuirkEvent::Remove));
                }
                Quirk::PowerCut => event = Some((at, QuirkEvent::PowerCut)),
                quirk => self.active.push(quirk),
            }
        }
        self.planned = left;
        event
    }

    /// Advances the time to `now`. Returns the earliest event until then. The caller repeats the call until
    /// the result is `None`.
    pub(crate) fn time(&mut self, now: Instant) -> Option<(Instant, QuirkEvent)> {
        loop {
            let due = self.planned.iter().filter_map(|planned| match planned.trigger {
                Trigger::At(at) if at <= now => Some(at),
                _ => None,
            });
            let Some(next) = due.min() else {
                self.seen = self.seen.max(now);
                return None;
            };
            if let Some((at, event)) = self.activate(now, |trigger| trigger == Trigger::At(next)) {
                // An event that was planned for the past happens now.
                self.seen = self.seen.max(at);
                return Some((self.seen, event));
            }
        }
    }

    /// Counts a command before the card executes it.
    pub(crate) fn count_command(&mut self, index: u8) {
        self.received.resize(64, 0);
        let count = &mut self.received[usize::from(index & 63)];
        *count = count.saturating_add(1);
    }

    /// Returns the next event that happens before the command that was counted last. The caller repeats the call until
    /// the result is `None`.
    pub(crate) fn event_before_command(&mut self, now: Instant, index: u8) -> Option<QuirkEvent> {
        let this = Trigger::Command { index, nth: self.received[usize::from(index & 63)] };
        self.activate(now, |trigger| trigger == this).map(|(_, event)| event)
    }

    /// Returns how the card handles a command.
    pub(crate) fn command(&mut self, now: Instant, index: u8, argument: u32) -> CommandHandling {
        let before = self.last.replace(index);
        if self.removed || self.has(Quirk::Silent) || now < self.busy_until {
            return CommandHandling::Ignored;
        }
        match index {
            opcode::GO_IDLE_STATE => {
                let accepts = self.accepts_reset();
                self.resets = self.resets.saturating_add(1);
                if !accepts {
                    return CommandHandling::Ignored;
                }
            }
            opcode::SEND_OP_COND => {
                self.op_conds = self.op_conds.saturating_add(1);
                if self.op_conds > 1 && self.has(Quirk::OneOpCond) {
                    return CommandHandling::Ignored;
                }
            }
            opcode::SEND_IF_COND
                if before != Some(opcode::GO_IDLE_STATE) && self.has(Quirk::ResetBeforeIfCond) =>
            {
                return CommandHandling::Ignored;
            }
            opcode::APP_CMD => {
                if let Some(busy) = self.find(|quirk| match quirk {
                    Quirk::BusyAfterApp(busy) => Some(*busy),
                    _ => None,
                }) {
                    self.busy_until = now.saturating_add(busy);
                }
            }
            opcode::CRC_ON_OFF if argument & 1 == 1 && self.has(Quirk::NoCrcMode) => {
                return CommandHandling::Illegal;
            }
            _ => {}
        }
        CommandHandling::Normal
    }

    /// Returns true if the data that the last command requested arrives.
    pub(crate) fn sends_data(&self) -> bool {
        let extension = self.last == Some(opcode::READ_EXTR_SINGLE) && self.has(Quirk::NoExtensionData);
        !extension && !self.has(Quirk::NoData)
    }

    /// Returns true if the card accepts the next CMD0.
    pub(crate) fn accepts_reset(&self) -> bool {
        let ignores = |quirk: &Quirk| matches!(quirk, Quirk::ResetRetries(n) if self.resets < *n);
        !self.active.iter().any(ignores)
    }

    /// Returns the end of the busy time after CMD55, or [`Instant::MAX`] if the card is busy forever.
    pub(crate) fn busy_until(&self) -> Instant {
        if self.stuck { Instant::MAX } else { self.busy_until }
    }

    /// Returns the end of the busy time of a write that ended at `now`. Without quirks the card is busy until `until`.
    pub(crate) fn write_ended(&mut self, now: Instant, until: Instant) -> Instant {
        if self.has(Quirk::StuckBusy) {
            self.stuck = true;
            return now.saturating_add(T_STUCK_BUSY);
        }
        let least = self.find(|quirk| match quirk {
            Quirk::Busy(least) => Some(*least),
            _ => None,
        });
        least.map_or(until, |least| until.max(now.saturating_add(least)))
    }

    /// Returns true if the card is busy forever after a cache flush.
    pub(crate) fn hangs_on_flush(&mut self) -> bool {
        self.stuck |= self.has(Quirk::NoCacheFlush);
        self.stuck
    }

    /// Returns true if the card rejects all writes.
    pub(crate) fn is_read_only(&self) -> bool {
        self.has(Quirk::ReadOnly)
    }

    /// Counts a written block.
    pub(crate) fn count_block(&mut self) {
        self.blocks_written += 1;
    }

    /// Returns the next event that happens after the block that was written last. The caller repeats the call until the
    /// result is `None`.
    pub(crate) fn event_after_block(&mut self, now: Instant) -> Option<QuirkEvent> {
        let written = self.blocks_written;
        self.activate(now, |trigger| matches!(trigger, Trigger::Block(n) if n <= written))
            .map(|(_, event)| event)
    }

    /// Changes the bytes of the block that is being written if [`Quirk::StoresWrongBytes`] affects it.
    pub(crate) fn corrupt_stored(&self, block: &mut [u8]) {
        let every = self.find(|quirk| match quirk {
            Quirk::StoresWrongBytes(n) => Some(u64::from(*n)),
            _ => None,
        });
        if every.is_some_and(|every| (self.blocks_written + 1).is_multiple_of(every)) {
            block.iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
    }

    /// Returns the location of the block at this byte address.
    #[inline]
    pub(crate) fn location(&self, address: u64) -> Location {
        let found = self.find(|quirk| match *quirk {
            Quirk::Wraps(size) => Some(Location::At(address % size)),
            Quirk::Drops(size) if address >= size => Some(Location::Nowhere),
            _ => None,
        });
        found.unwrap_or(Location::At(address))
    }

    /// SPI: returns the level of the data line before the card has received a CMD0.
    pub(crate) fn data_line_before_reset(&self) -> u8 {
        if self.has(Quirk::LowBeforeReset) { 0x00 } else { 0xff }
    }
    /// SPI: returns true if a byte of garbage precedes each response.
    pub(crate) fn has_garbage(&self) -> bool {
        self.has(Quirk::GarbageBeforeResponse)
    }
    /// SPI: returns true if the next response reports an illegal command once more.
    pub(crate) fn repeats_illegal_command(&self) -> bool {
        self.has(Quirk::LateIllegal)
    }

    /// Returns true if the current response is damaged on the wires.
    #[inline]
    pub(crate) fn damages_response(&mut self) -> bool {
        if self.active.is_empty() {
            return false;
        }
        self.responses = self.responses.wrapping_add(1);
        let every = self.find(|quirk| if let Quirk::ResponseCrc(n) = quirk { Some(*n) } else { None });
        every.is_some_and(|every| self.responses.is_multiple_of(every))
    }
    /// Returns true if the current block is damaged on its way to the host.
    #[inline]
    pub(crate) fn damages_read(&mut self) -> bool {
        if self.active.is_empty() {
            return false;
        }
        self.blocks_sent = self.blocks_sent.wrapping_add(1);
        let every = self.find(|quirk| if let Quirk::ReadCrc(n) = quirk { Some(*n) } else { None });
        every.is_some_and(|every| self.blocks_sent.is_multiple_of(every))
    }
    /// Returns true if the current block is damaged on its way to the card.
    #[inline]
    pub(crate) fn damages_write(&mut self) -> bool {
        if self.active.is_empty() {
            return false;
        }
        self.blocks_received = self.blocks_received.wrapping_add(1);
        let every = self.find(|quirk| if let Quirk::WriteCrc(n) = quirk { Some(*n) } else { None });
        every.is_some_and(|every| self.blocks_received.is_multiple_of(every))
    }

    /// Restores the power: resets the state that the card loses with the power. The quirks remain.
    pub(crate) fn power_on(&mut self) {
        (self.resets, self.op_conds, self.last) = (0, 0, None);
        (self.busy_until, self.stuck) = (Instant::ZERO, false);
    }
}
