//! What a card may do wrong: faults, and the habits of real cards that broke a driver, each with a name, from the start or
//! from some moment on.
//!
//! [`Quirk`] is the list; [`Planned`] is one with its moment, and can be read from text: `busy=400ms`,
//! `stuck-busy@CMD25#3`, `power-cut@2s`, `remove@block100`. [`Quirks`] is what the card and its fronts consult, in the
//! words of what they want to know. Nothing here draws lots: what happens to every n-th block happens to the n-th.
//!
//! Sources of the habits: SdFat, ChaN's notes on MMC/SD, Linux' `mmc/core/quirks.h` and cards that users of
//! OpenWrt and embedded-sdmmc reported; the counterfeits are those that F3 tells apart.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use flashlab_sim::{Duration, Instant};

/// What a card that is busy for ever works on: a year.
pub(crate) const STUCK: Duration = Duration::from_secs(365 * 86_400);

/// One thing that a card does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Quirk {
    /// The first so many CMD0 after power-up are not heard.
    ResetRetries(u32),
    /// SPI: the card holds its data line low until it has heard a CMD0.
    LowBeforeReset,
    /// SPI: a byte that is not the response comes before each response. Its first bit is set, so it is no R1.
    GarbageBeforeResponse,
    /// The card is busy for so long behind CMD55, so that the command which follows at once is not heard.
    BusyAfterApp(Duration),
    /// SPI: CMD59 that switches checksums on is refused.
    NoCrcMode,
    /// CMD8 is answered only as the first command behind a CMD0.
    ResetBeforeIfCond,
    /// SPI: of the CMD1 that ask for its initialisation, only the first is answered.
    OneOpCond,
    /// The data of CMD48 never come.
    NoExtensionData,
    /// SPI: that a command is illegal is told in the response to the next one too.
    LateIllegal,
    /// A cache that is told to flush through the extension registers is busy for ever.
    NoCacheFlush,
    /// A counterfeit: there are only so many bytes, and addresses beyond begin again at 0.
    Wraps(u64),
    /// A counterfeit: there are only so many bytes; what is written beyond is dropped, and reads as zeroes.
    Drops(u64),
    /// Every n-th block that is written is acknowledged and other bytes are kept.
    KeepsOther(u32),
    /// Nothing can be written any more, as on a card that is worn out.
    ReadOnly,
    /// Behind every write the card is busy for at least so long.
    Busy(Duration),
    /// From the next write on the card is busy until its power is cut.
    StuckBusy,
    /// The card answers no command.
    Silent,
    /// The data that a read asks for never come.
    NoData,
    /// Every n-th response is damaged on the wires.
    ResponseCrc(u32),
    /// Every n-th block is damaged on its way to the host.
    ReadCrc(u32),
    /// Every n-th block is damaged on its way to the card.
    WriteCrc(u32),
    /// The card is pulled out, whatever it is doing.
    Remove,
    /// The power fails for an instant, whatever the card is doing: it comes back as after power-up.
    PowerCut,
}

/// What stands behind the `=` of a quirk's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// Nothing.
    None,
    /// How many, or every how many.
    Count,
    /// How long: `400ms`.
    Time,
    /// How many bytes: `16MiB`.
    Size,
}

/// A row of the table of quirks.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name.
    pub name: &'static str,
    /// What it wants to be told.
    pub operand: Operand,
    /// What it is, in a line.
    pub about: &'static str,
    make: fn(u64) -> Quirk,
}

/// All quirks by name: whoever reads them or lists them asks here.
#[rustfmt::skip]
pub const TABLE: &[Entry] = &[
    Entry { name: "reset-retries", operand: Operand::Count, about: "the first N CMD0 are not heard", make: |n| Quirk::ResetRetries(count(n)) },
    Entry { name: "low-before-reset", operand: Operand::None, about: "SPI: data line low before the first CMD0", make: |_| Quirk::LowBeforeReset },
    Entry { name: "garbage-before-response", operand: Operand::None, about: "SPI: a byte of garbage before each response", make: |_| Quirk::GarbageBeforeResponse },
    Entry { name: "busy-after-app", operand: Operand::Time, about: "busy behind CMD55", make: |ns| Quirk::BusyAfterApp(Duration::from_ns(ns)) },
    Entry { name: "no-crc-mode", operand: Operand::None, about: "SPI: CMD59 is refused", make: |_| Quirk::NoCrcMode },
    Entry { name: "reset-before-if-cond", operand: Operand::None, about: "CMD8 only directly behind CMD0", make: |_| Quirk::ResetBeforeIfCond },
    Entry { name: "one-op-cond", operand: Operand::None, about: "SPI: a second CMD1 is not answered", make: |_| Quirk::OneOpCond },
    Entry { name: "no-extension-data", operand: Operand::None, about: "the data of CMD48 never come", make: |_| Quirk::NoExtensionData },
    Entry { name: "late-illegal", operand: Operand::None, about: "SPI: illegal command told once more in the next response", make: |_| Quirk::LateIllegal },
    Entry { name: "no-cache-flush", operand: Operand::None, about: "a cache flush never ends", make: |_| Quirk::NoCacheFlush },
    Entry { name: "wraps", operand: Operand::Size, about: "counterfeit: addresses beyond SIZE begin again at 0", make: Quirk::Wraps },
    Entry { name: "drops", operand: Operand::Size, about: "counterfeit: what is written beyond SIZE is dropped", make: Quirk::Drops },
    Entry { name: "keeps-other", operand: Operand::Count, about: "every N-th block written keeps other bytes", make: |n| Quirk::KeepsOther(count(n)) },
    Entry { name: "read-only", operand: Operand::None, about: "refuses writes, as when worn out", make: |_| Quirk::ReadOnly },
    Entry { name: "busy", operand: Operand::Time, about: "busy at least so long behind every write", make: |ns| Quirk::Busy(Duration::from_ns(ns)) },
    Entry { name: "stuck-busy", operand: Operand::None, about: "busy for ever behind the next write", make: |_| Quirk::StuckBusy },
    Entry { name: "silent", operand: Operand::None, about: "answers no command", make: |_| Quirk::Silent },
    Entry { name: "no-data", operand: Operand::None, about: "the data of reads never come", make: |_| Quirk::NoData },
    Entry { name: "response-crc", operand: Operand::Count, about: "every N-th response is damaged", make: |n| Quirk::ResponseCrc(count(n)) },
    Entry { name: "read-crc", operand: Operand::Count, about: "every N-th block to the host is damaged", make: |n| Quirk::ReadCrc(count(n)) },
    Entry { name: "write-crc", operand: Operand::Count, about: "every N-th block to the card is damaged", make: |n| Quirk::WriteCrc(count(n)) },
    Entry { name: "remove", operand: Operand::None, about: "the card is pulled out", make: |_| Quirk::Remove },
    Entry { name: "power-cut", operand: Operand::None, about: "the power fails for an instant", make: |_| Quirk::PowerCut },
];

fn count(n: u64) -> u32 {
    n.min(u64::from(u32::MAX)) as u32
}

/// From when on something is wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// From the start.
    Always,
    /// From this instant of the card's time on.
    At(Instant),
    /// When the card hears this command for the n-th time, the first being 1; before it acts on it.
    Command {
        /// Its index.
        index: u8,
        /// Which one.
        nth: u32,
    },
    /// When so many blocks have been written.
    Block(u64),
}

/// A quirk and its moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// What.
    pub quirk: Quirk,
    /// From when on.
    pub when: When,
}

impl From<Quirk> for Planned {
    fn from(quirk: Quirk) -> Planned {
        Planned { quirk, when: When::Always }
    }
}

/// Why a text is no quirk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum QuirkError {
    /// No quirk has this name.
    Unknown(String),
    /// What stands behind `=` is missing, superfluous or no such thing.
    Operand {
        /// The quirk.
        name: &'static str,
        /// What it wants.
        expected: Operand,
    },
    /// What stands behind `@` is no moment.
    When(String),
}

impl fmt::Display for QuirkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuirkError::Unknown(name) => {
                write!(f, "no quirk is called {name:?}; there are ")?;
                for (n, entry) in TABLE.iter().enumerate() {
                    write!(f, "{}{}", if n == 0 { "" } else { ", " }, entry.name)?;
                }
                Ok(())
            }
            QuirkError::Operand { name, expected } => match expected {
                Operand::None => write!(f, "{name} takes no value"),
                Operand::Count => write!(f, "{name} wants a number of at least 1, such as {name}=3"),
                Operand::Time => write!(f, "{name} wants a time, such as {name}=400ms"),
                Operand::Size => write!(f, "{name} wants a size in blocks of 512B, such as {name}=16MiB"),
            },
            QuirkError::When(when) => write!(
                f,
                "{when:?} is no moment; a moment is a time (2s), a command (CMD25, CMD25#3 for the third), or a number of \
                 blocks written (block100)"
            ),
        }
    }
}

impl core::error::Error for QuirkError {}

impl FromStr for Planned {
    type Err = QuirkError;

    /// `NAME[=VALUE][@WHEN]`.
    fn from_str(text: &str) -> Result<Planned, QuirkError> {
        let (what, when) = match text.split_once('@') {
            Some((what, when)) => (what, moment(when).ok_or_else(|| QuirkError::When(when.to_string()))?),
            None => (text, When::Always),
        };
        let (name, operand) = match what.split_once('=') {
            Some((name, operand)) => (name, Some(operand)),
            None => (what, None),
        };
        let entry = TABLE.iter().find(|entry| entry.name == name);
        let entry = entry.ok_or_else(|| QuirkError::Unknown(name.to_string()))?;
        let value = match (entry.operand, operand) {
            (Operand::None, None) => Some(0),
            (Operand::Count, Some(text)) => {
                number(text, &[]).filter(|n| (1..=u64::from(u32::MAX)).contains(n))
            }
            (Operand::Time, Some(text)) => time(text),
            (Operand::Size, Some(text)) => {
                number(text, SIZES).filter(|size| *size > 0 && size.is_multiple_of(512))
            }
            _ => None,
        };
        let wrong = QuirkError::Operand { name: entry.name, expected: entry.operand };
        Ok(Planned { quirk: (entry.make)(value.ok_or(wrong)?), when })
    }
}

const SIZES: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
    ("T", 1 << 40),
    ("B", 1),
];
const TIMES: &[(&str, u64)] = &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];

fn number(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let stripped = units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)));
    let (digits, factor) = stripped.unwrap_or((text, 1));
    // `parse` would take a sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| plain)?.checked_mul(factor)
}

/// A day at most: what waits longer waits for ever.
fn time(text: &str) -> Option<u64> {
    let has_unit = TIMES.iter().any(|(unit, _)| text.ends_with(unit));
    number(text, TIMES).filter(|ns| has_unit && *ns <= 86_400_000_000_000)
}

fn moment(text: &str) -> Option<When> {
    if let Some(count) = text.strip_prefix("block") {
        return number(count, &[]).map(When::Block);
    }
    if let Some(command) = text.strip_prefix("CMD") {
        let (index, nth) = command.split_once('#').unwrap_or((command, "1"));
        let index = number(index, &[]).filter(|index| *index < 64)? as u8;
        let nth = number(nth, &[]).filter(|nth| (1..=u64::from(u32::MAX)).contains(nth))? as u32;
        return Some(When::Command { index, nth });
    }
    time(text).map(|ns| When::At(Instant::from_ns(ns)))
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Planned, QuirkError> {
        text.parse()
    }

    #[test]
    fn quirks_are_read_with_value_and_moment() {
        assert_eq!(read("no-crc-mode"), Ok(Quirk::NoCrcMode.into()));
        assert_eq!(read("busy=400ms"), Ok(Quirk::Busy(Duration::from_ms(400)).into()));
        assert_eq!(read("wraps=16MiB"), Ok(Quirk::Wraps(16 << 20).into()));
        let third = When::Command { index: 25, nth: 3 };
        assert_eq!(read("stuck-busy@CMD25#3"), Ok(Planned { quirk: Quirk::StuckBusy, when: third }));
        assert_eq!(read("remove@block100"), Ok(Planned { quirk: Quirk::Remove, when: When::Block(100) }));
        let later = When::At(Instant::from_ns(2_000_000_000));
        assert_eq!(read("power-cut@2s"), Ok(Planned { quirk: Quirk::PowerCut, when: later }));
    }

    #[test]
    fn what_is_none_is_refused_with_what_would_be() {
        for wrong in
            ["busy", "busy=4", "busy=-1s", "no-crc-mode=1", "wraps=100", "keeps-other=0", "busy=9999999999s"]
        {
            assert!(matches!(read(wrong), Err(QuirkError::Operand { .. })), "{wrong}");
        }
        for wrong in ["remove@", "remove@CMD64", "remove@CMD1#0", "remove@blocks", "remove@5"] {
            assert!(matches!(read(wrong), Err(QuirkError::When(_))), "{wrong}");
        }
        let error = read("slow").expect_err("there is none").to_string();
        assert!(error.contains("\"slow\"") && error.contains("stuck-busy"), "{error}");
    }

    #[test]
    fn every_quirk_of_the_table_can_be_read() {
        for entry in TABLE {
            let operand = match entry.operand {
                Operand::None => "",
                Operand::Count => "=3",
                Operand::Time => "=3ms",
                Operand::Size => "=3MiB",
            };
            let text = [entry.name, operand].concat();
            assert!(read(&text).is_ok(), "{text}");
        }
    }
}
