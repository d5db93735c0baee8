//! Commands as Linux' mmc core orders them from a controller: with the response that it expects, and the `flags` that its
//! log prints. The bits are those of `include/linux/mmc/core.h`; the log of a kernel is told from another by them.

use crate::Command;
use flashlab_sim::Duration;

/// The response that a command expects, by the name that the mmc core has for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// None.
    Nothing,
    /// The card status.
    R1,
    /// The card status, and busy behind it.
    R1b,
    /// CID or CSD: 136 bits.
    R2,
    /// The OCR, without a checksum.
    R3,
    /// An SDIO card's OCR.
    R4,
    /// An SDIO card's register.
    R5,
    /// A relative address.
    R6,
    /// Voltage and check pattern.
    R7,
}

impl Answer {
    const PRESENT: u32 = 1 << 0;
    const LONG: u32 = 1 << 1;
    const CHECKSUM: u32 = 1 << 2;
    const BUSY: u32 = 1 << 3;
    const INDEX: u32 = 1 << 4;

    const fn bits(self) -> u32 {
        match self {
            Answer::Nothing => 0,
            Answer::R1 | Answer::R5 | Answer::R6 | Answer::R7 => {
                Answer::PRESENT | Answer::CHECKSUM | Answer::INDEX
            }
            Answer::R1b => Answer::PRESENT | Answer::CHECKSUM | Answer::INDEX | Answer::BUSY,
            Answer::R2 => Answer::PRESENT | Answer::LONG | Answer::CHECKSUM,
            Answer::R3 | Answer::R4 => Answer::PRESENT,
        }
    }
}

/// Whom a command addresses and whether data goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Addressed, without data (ac).
    Addressed,
    /// Addressed, with data (adtc).
    Data,
    /// Broadcast (bc).
    Broadcast,
    /// Broadcast, answered (bcr).
    BroadcastAnswered,
}

impl Reach {
    const fn bits(self) -> u32 {
        (match self {
            Reach::Addressed => 0,
            Reach::Data => 1,
            Reach::Broadcast => 2,
            Reach::BroadcastAnswered => 3,
        }) << 5
    }
}

/// What an SPI host would expect instead; a native host carries the bits along in `flags`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpiAnswer {
    /// The command is not sent over SPI.
    Nothing,
    /// One status byte.
    R1,
    /// One status byte, and busy behind it.
    R1b,
    /// Two status bytes.
    R2,
    /// A status byte and four more.
    Five,
}

impl SpiAnswer {
    const fn bits(self) -> u32 {
        const S1: u32 = 1 << 7;
        const S2: u32 = 1 << 8;
        const B4: u32 = 1 << 9;
        const BUSY: u32 = 1 << 10;
        match self {
            SpiAnswer::Nothing => 0,
            SpiAnswer::R1 => S1,
            SpiAnswer::R1b => S1 | BUSY,
            SpiAnswer::R2 => S1 | S2,
            SpiAnswer::Five => S1 | B4,
        }
    }
}

/// A command and what is expected of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The command.
    pub command: Command,
    /// The response.
    pub answer: Answer,
    /// Its kind.
    pub reach: Reach,
    /// The response over SPI.
    pub spi: SpiAnswer,
}

impl Order {
    /// CMD`index` with `argument`.
    pub const fn new(index: u8, argument: u32, answer: Answer, reach: Reach, spi: SpiAnswer) -> Order {
        Order { command: Command::new(index, argument), answer, reach, spi }
    }

    /// As `flags` of Linux' log.
    pub const fn flags(&self) -> u32 {
        self.answer.bits() | self.reach.bits() | self.spi.bits()
    }
}

/// Which way data goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the card.
    Read,
    /// To the card.
    Write,
}

impl Direction {
    /// As `flags` of the log's `blksz` line.
    pub const fn flags(self) -> u32 {
        match self {
            Direction::Read => 1 << 9,
            Direction::Write => 1 << 8,
        }
    }
}

/// The data that goes with a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Which way.
    pub direction: Direction,
    /// Bytes of a block.
    pub block: u32,
    /// Blocks.
    pub blocks: u32,
    /// How long the host waits for each block.
    pub limit: Duration,
}

impl Data {
    /// All of its bytes.
    pub const fn bytes(&self) -> u64 {
        self.block as u64 * self.blocks as u64
    }
}

/// What the core hands to a controller as one: a command, its data, and what goes before and after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MmcRequest {
    /// CMD23, sent before.
    pub count: Option<Order>,
    /// The command.
    pub order: Order,
    /// Its data.
    pub data: Option<Data>,
    /// CMD12, sent behind the data; with a count only where something went wrong.
    pub stop: Option<Order>,
    /// How long busy may last behind an R1b.
    pub busy_limit: Duration,
}

impl MmcRequest {
    /// `order` alone.
    pub const fn bare(order: Order) -> MmcRequest {
        MmcRequest { count: None, order, data: None, stop: None, busy_limit: BUSY_LIMIT }
    }
    /// `order` with `data`.
    pub const fn with_data(order: Order, data: Data) -> MmcRequest {
        MmcRequest { data: Some(data), ..MmcRequest::bare(order) }
    }
}

/// How long a card may be busy behind an R1b where nothing else is said; Linux' block layer gives up after 10 s.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::*;
    use Reach::*;

    /// Printed by Linux 5.15 and 6.1 for these commands.
    #[test]
    fn flags_are_those_that_linux_prints() {
        for (index, answer, reach, spi, flags) in [
            (0, Nothing, Broadcast, SpiAnswer::R1, 0xc0),
            (2, R2, Addressed, SpiAnswer::Nothing, 0x07),
            (3, R6, BroadcastAnswered, SpiAnswer::Nothing, 0x75),
            (5, R4, BroadcastAnswered, SpiAnswer::Five, 0x2e1),
            (6, R1, Data, SpiAnswer::R1, 0xb5),
            (7, R1, Addressed, SpiAnswer::Nothing, 0x15),
            (7, Nothing, Addressed, SpiAnswer::Nothing, 0x00),
            (8, R7, BroadcastAnswered, SpiAnswer::Five, 0x2f5),
            (12, R1b, Addressed, SpiAnswer::R1b, 0x49d),
            (13, R1, Addressed, SpiAnswer::R2, 0x195),
            (13, R1, Data, SpiAnswer::R2, 0x1b5),
            (41, R3, BroadcastAnswered, SpiAnswer::R1, 0xe1),
            (52, R5, Addressed, SpiAnswer::R2, 0x195),
            (55, R1, BroadcastAnswered, SpiAnswer::R1, 0xf5),
            (55, R1, Addressed, SpiAnswer::R1, 0x95),
        ] {
            assert_eq!(Order::new(index, 0, answer, reach, spi).flags(), flags, "CMD{index}");
        }
    }
}
