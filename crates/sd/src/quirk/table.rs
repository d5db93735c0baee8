//! Table of all quirks with their names and the kind of value that each expects.

use super::Quirk;
use flashlab_sim::Duration;

/// Kind of the value after the `=` of a quirk's name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operand {
    /// No value.
    None,
    /// A whole number of at least 1: a count, or the N of "every N-th".
    Count,
    /// A time: `400ms`.
    Time,
    /// A size: `16MiB`.
    Size,
}

/// Entry of the table of quirks.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name of the quirk.
    pub name: &'static str,
    /// Kind of value that the quirk expects.
    pub operand: Operand,
    /// Description in one line.
    pub about: &'static str,
    pub(super) make: fn(u64) -> Quirk,
}

/// All quirks by name. The parser and its error for an unknown name use this table.
#[rustfmt::skip]
pub const TABLE: &[Entry] = &[
    Entry { name: "reset-retries", operand: Operand::Count, about: "ignores the first N CMD0", make: |n| Quirk::ResetRetries(count(n)) },
    Entry { name: "low-before-reset", operand: Operand::None, about: "SPI: holds the data line low until the first CMD0", make: |_| Quirk::LowBeforeReset },
    Entry { name: "garbage-before-response", operand: Operand::None, about: "SPI: sends a byte of garbage before each response", make: |_| Quirk::GarbageBeforeResponse },
    Entry { name: "busy-after-app", operand: Operand::Time, about: "busy for TIME after CMD55", make: |ns| Quirk::BusyAfterApp(Duration::from_ns(ns)) },
    Entry { name: "no-crc-mode", operand: Operand::None, about: "SPI: rejects a CMD59 that enables checksums", make: |_| Quirk::NoCrcMode },
    Entry { name: "reset-before-if-cond", operand: Operand::None, about: "responds to CMD8 only directly after CMD0", make: |_| Quirk::ResetBeforeIfCond },
    Entry { name: "one-op-cond", operand: Operand::None, about: "SPI: responds only to the first CMD1 after power-up", make: |_| Quirk::OneOpCond },
    Entry { name: "no-extension-data", operand: Operand::None, about: "the data of CMD48 never arrives", make: |_| Quirk::NoExtensionData },
    Entry { name: "late-illegal", operand: Operand::None, about: "SPI: after an illegal command, the next response also has the illegal-command bit set", make: |_| Quirk::LateIllegal },
    Entry { name: "no-cache-flush", operand: Operand::None, about: "a cache flush never ends", make: |_| Quirk::NoCacheFlush },
    Entry { name: "wraps", operand: Operand::Size, about: "counterfeit: addresses beyond SIZE wrap around to 0", make: Quirk::Wraps },
    Entry { name: "drops", operand: Operand::Size, about: "counterfeit: drops writes beyond SIZE", make: Quirk::Drops },
    Entry { name: "keeps-other", operand: Operand::Count, about: "stores wrong bytes for every N-th written block", make: |n| Quirk::StoresWrongBytes(count(n)) },
    Entry { name: "read-only", operand: Operand::None, about: "rejects writes, like a worn-out card", make: |_| Quirk::ReadOnly },
    Entry { name: "busy", operand: Operand::Time, about: "busy for at least TIME after every write", make: |ns| Quirk::Busy(Duration::from_ns(ns)) },
    Entry { name: "stuck-busy", operand: Operand::None, about: "busy forever after the next write", make: |_| Quirk::StuckBusy },
    Entry { name: "silent", operand: Operand::None, about: "responds to no command", make: |_| Quirk::Silent },
    Entry { name: "no-data", operand: Operand::None, about: "the data of reads never arrives", make: |_| Quirk::NoData },
    Entry { name: "response-crc", operand: Operand::Count, about: "native mode: every N-th response with a checksum is damaged", make: |n| Quirk::ResponseCrc(count(n)) },
    Entry { name: "read-crc", operand: Operand::Count, about: "every N-th block to the host is damaged", make: |n| Quirk::ReadCrc(count(n)) },
    Entry { name: "write-crc", operand: Operand::Count, about: "every N-th block to the card is damaged", make: |n| Quirk::WriteCrc(count(n)) },
    Entry { name: "remove", operand: Operand::None, about: "the card is removed", make: |_| Quirk::Remove },
    Entry { name: "power-cut", operand: Operand::None, about: "the power fails for an instant", make: |_| Quirk::PowerCut },
];

fn count(n: u64) -> u32 {
    n.min(u64::from(u32::MAX)) as u32
}

impl Quirk {
    /// Returns the table entry of this quirk.
    pub fn entry(&self) -> &'static Entry {
        let of = |entry: &&Entry| core::mem::discriminant(&(entry.make)(1)) == core::mem::discriminant(self);
        TABLE.iter().find(of).expect("every quirk has an entry")
    }

    /// Returns the value of this quirk as a number: nanoseconds for times, bytes for sizes.
    pub(super) fn operand(&self) -> u64 {
        match *self {
            Quirk::ResetRetries(n) | Quirk::StoresWrongBytes(n) => n.into(),
            Quirk::ResponseCrc(n) | Quirk::ReadCrc(n) | Quirk::WriteCrc(n) => n.into(),
            Quirk::BusyAfterApp(time) | Quirk::Busy(time) => time.as_ns(),
            Quirk::Wraps(size) | Quirk::Drops(size) => size,
            _ => 0,
        }
    }
}
