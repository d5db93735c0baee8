//! What a card may do wrong: faults, and the habits of real cards that broke a driver, each with a name, from the start or
//! from some moment on.
//!
//! [`Quirk`] is the list; [`Planned`] is one with its moment, and can be read from text: `busy=400ms`,
//! `stuck-busy@CMD25#3`, `power-cut@2s`, `remove@block100`. [`Quirks`] is what the card and its fronts consult, in the
//! words of what they want to know. Nothing here draws lots: what happens to every n-th block happens to the n-th.
//!
//! Sources of the habits: SdFat, ChaN's notes on MMC/SD, Linux' `mmc/core/quirks.h` and cards that users of
//! OpenWrt and embedded-sdmmc reported; the counterfeits are those that F3 tells apart.

mod quirks;
mod table;
mod text;

pub use quirks::Quirks;
pub(crate) use quirks::{Blow, Heard, Place};
pub use table::{Entry, Operand, TABLE};
pub use text::QuirkError;

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
