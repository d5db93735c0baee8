//! Quirks of a stick: faults, and deviations of real sticks that break hosts.
//!
//! [`StickQuirk`] lists the quirks. [`PlannedStickQuirk`] is a quirk with its trigger, and can be
//! parsed from text: `needs-reset`, `appears-after=8s`, `write-protected@block1000`, `disconnect=2s@30s`. Nothing here
//! is random, so a run can be repeated exactly.
//!
//! Sources of the deviations: the flags of Linux's `drivers/usb/storage/unusual_devs.h` (`FIX_CAPACITY`,
//! `CAPACITY_HEURISTICS`) and `drivers/usb/core/quirks.c` (`RESET`, `DELAY_INIT`), and reports of sticks that U-Boot
//! finds only after a pause and `usb reset`.

mod active;
mod text;

pub(super) use active::StickQuirks;

use flashlab_sd::quirk::Operand;
use flashlab_sim::{Duration, Instant};

/// A fault or deviation of a stick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StickQuirk {
    /// The stick is on the bus, but ignores all requests until the host resets the port at least this long
    /// after the last request. The controller of such a stick hangs if a request comes too early, and
    /// recovers only during a pause.
    NeedsReset(Duration),
    /// The stick appears on the bus this long after power-up.
    AppearsAfter(Duration),
    /// The medium becomes ready this long after power-up.
    ReadyAfter(Duration),
    /// The stick reports this capacity in bytes. Accesses beyond its true end fail.
    Capacity(u64),
    /// The stick refuses writes, like a stick with a write-protect switch or with worn-out flash.
    WriteProtected,
    /// The stick loses its power, drops off the bus even in the middle of a transfer, and returns after this
    /// time.
    Disconnect(Duration),
}

/// Event that activates a quirk of a stick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StickTrigger {
    /// The quirk is active from the start.
    Always,
    /// The quirk becomes active at this instant of the stick's time.
    At(Instant),
    /// The quirk becomes active once this many blocks of 512 bytes have been read or written.
    Block(u64),
}

/// A quirk and its trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedStickQuirk {
    /// The quirk.
    pub quirk: StickQuirk,
    /// The event that activates the quirk.
    pub trigger: StickTrigger,
}

impl From<StickQuirk> for PlannedStickQuirk {
    fn from(quirk: StickQuirk) -> PlannedStickQuirk {
        PlannedStickQuirk { quirk, trigger: StickTrigger::Always }
    }
}

/// Entry of the table of quirks.
#[derive(Clone, Copy, Debug)]
pub struct StickQuirkEntry {
    /// Name of the quirk.
    pub name: &'static str,
    /// Kind of value that the quirk expects.
    pub operand: Operand,
    /// Value in nanoseconds of a quirk that is given without `=`. `None` if the quirk needs a value, or takes
    /// none.
    pub default: Option<u64>,
    /// Description in one line.
    pub about: &'static str,
    make: fn(u64) -> StickQuirk,
}

const SECOND: u64 = 1_000_000_000;

/// All quirks by name, used for parsing and for lists.
#[rustfmt::skip]
pub const STICK_QUIRKS: &[StickQuirkEntry] = &[
    StickQuirkEntry { name: "needs-reset", operand: Operand::Time, default: Some(3 * SECOND), about: "ignores all requests until the port is reset at least TIME after the last request", make: |ns| StickQuirk::NeedsReset(Duration::from_ns(ns)) },
    StickQuirkEntry { name: "appears-after", operand: Operand::Time, default: None, about: "appears on the bus TIME after power-up", make: |ns| StickQuirk::AppearsAfter(Duration::from_ns(ns)) },
    StickQuirkEntry { name: "ready-after", operand: Operand::Time, default: None, about: "has no ready medium for TIME after power-up", make: |ns| StickQuirk::ReadyAfter(Duration::from_ns(ns)) },
    StickQuirkEntry { name: "capacity", operand: Operand::Size, default: None, about: "reports this capacity; accesses beyond the true end fail", make: StickQuirk::Capacity },
    StickQuirkEntry { name: "write-protected", operand: Operand::None, default: None, about: "refuses writes", make: |_| StickQuirk::WriteProtected },
    StickQuirkEntry { name: "disconnect", operand: Operand::Time, default: Some(SECOND), about: "drops off the bus, and returns after TIME", make: |ns| StickQuirk::Disconnect(Duration::from_ns(ns)) },
];

impl StickQuirk {
    /// Returns the table entry of this quirk.
    pub fn entry(&self) -> &'static StickQuirkEntry {
        let of = |entry: &&StickQuirkEntry| {
            core::mem::discriminant(&(entry.make)(1)) == core::mem::discriminant(self)
        };
        STICK_QUIRKS.iter().find(of).expect("every quirk has an entry")
    }

    /// Returns the value of this quirk as a number: nanoseconds for times, bytes for sizes.
    fn operand(&self) -> u64 {
        match *self {
            StickQuirk::NeedsReset(time) | StickQuirk::AppearsAfter(time) => time.as_ns(),
            StickQuirk::ReadyAfter(time) | StickQuirk::Disconnect(time) => time.as_ns(),
            StickQuirk::Capacity(bytes) => bytes,
            StickQuirk::WriteProtected => 0,
        }
    }
}
