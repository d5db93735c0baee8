//! Quirks of a card: faults, and deviations of real cards that broke a driver. Each quirk has a name, and is
//! active from the start or from its trigger on.
//!
//! [`Quirk`] lists the quirks. [`Planned`] is a quirk with its trigger, and can be parsed from text:
//! `busy=400ms`, `stuck-busy@CMD25#3`, `power-cut@2s`, `remove@block100`. [`Quirks`] applies the active
//! quirks to the card and its buses. Nothing here is random: a quirk that affects every n-th block affects
//! exactly these blocks.
//!
//! Sources of the deviations: SdFat, ChaN's notes on MMC/SD, Linux's `mmc/core/quirks.h`, and cards that
//! users of OpenWrt and embedded-sdmmc reported. The counterfeits are the kinds that F3, a test for
//! counterfeit flash, distinguishes.

mod quirks;
mod table;
mod text;
mod value;

pub use quirks::Quirks;
pub(crate) use quirks::{CommandHandling, Location, QuirkEvent};
pub use table::{Entry, Operand, TABLE};
pub use text::{QuirkError, QuirkText};
pub use value::LargestUnit;

use flashlab_sim::{Duration, Instant};

/// Busy time of a card that is busy forever: a year.
pub(crate) const T_STUCK_BUSY: Duration = Duration::from_secs(365 * 86_400);

/// A fault or deviation of a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Quirk {
    /// The card ignores the first n CMD0 after power-up.
    ResetRetries(u32),
    /// SPI: the card holds its data line low until it has received a CMD0.
    LowBeforeReset,
    /// SPI: a byte that is not part of the response precedes each response. Its first bit is set, so it is not an R1.
    GarbageBeforeResponse,
    /// The card is busy for this time after CMD55, so it misses a command that follows immediately.
    BusyAfterApp(Duration),
    /// SPI: the card rejects a CMD59 that enables checksums.
    NoCrcMode,
    /// The card responds to CMD8 only directly after a CMD0.
    ResetBeforeIfCond,
    /// SPI: the card responds only to the first CMD1 after power-up.
    OneOpCond,
    /// The data of CMD48 never arrives.
    NoExtensionData,
    /// SPI: after an illegal command, the next response also has the illegal-command bit set.
    LateIllegal,
    /// The card is busy forever after a cache flush through the extension registers.
    NoCacheFlush,
    /// Counterfeit: the card has only this many bytes, and higher addresses wrap around to 0.
    Wraps(u64),
    /// Counterfeit: the card has only this many bytes. It drops writes to higher addresses, which read as zeroes.
    Drops(u64),
    /// The card acknowledges every n-th written block but stores wrong bytes.
    StoresWrongBytes(u32),
    /// The card rejects all writes, like a card that is worn out.
    ReadOnly,
    /// The card is busy for at least this time after every write.
    Busy(Duration),
    /// From the next write on, the card is busy until its power is cut.
    StuckBusy,
    /// The card responds to no command.
    Silent,
    /// The data of reads never arrives.
    NoData,
    /// Native mode: every n-th response with a checksum is damaged on the wires.
    ResponseCrc(u32),
    /// Every n-th block is damaged on its way to the host.
    ReadCrc(u32),
    /// Every n-th block is damaged on its way to the card.
    WriteCrc(u32),
    /// The card is removed, even in the middle of an operation.
    Remove,
    /// The power fails for an instant, even in the middle of an operation. The card is then in its state after
    /// power-up.
    PowerCut,
}

/// Event that activates a quirk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// The quirk is active from the start.
    Always,
    /// The quirk becomes active at this instant of the card's time.
    At(Instant),
    /// The quirk becomes active when the card receives this command for the n-th time, before the card
    /// handles the command.
    Command {
        /// Command index.
        index: u8,
        /// Occurrence of the command, counted from 1.
        nth: u32,
    },
    /// The quirk becomes active once this many blocks have been written.
    Block(u64),
}

/// A quirk and its trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Planned {
    /// The quirk.
    pub quirk: Quirk,
    /// The event that activates the quirk.
    pub trigger: Trigger,
}

impl From<Quirk> for Planned {
    fn from(quirk: Quirk) -> Planned {
        Planned { quirk, trigger: Trigger::Always }
    }
}
