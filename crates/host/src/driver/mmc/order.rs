//! Commands as the mmc core of Linux passes them to a controller: with the expected response, and the `flags` that its
//! log prints. The bits are those of `include/linux/mmc/core.h`, and they distinguish the logs of kernel versions.

use flashlab_sd::Command;
use flashlab_sim::Duration;

/// Expected response of a command, named as in the mmc core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// No response.
    Nothing,
    /// The card status.
    R1,
    /// The card status, followed by a busy signal.
    R1b,
    /// CID or CSD: 136 bits.
    R2,
    /// The OCR, which has no CRC7.
    R3,
    /// The OCR of an SDIO card.
    R4,
    /// A register of an SDIO card.
    R5,
    /// The relative address.
    R6,
    /// The accepted voltage and the check pattern.
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

/// Command type: addressed or broadcast, with or without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reach {
    /// Addressed, without data (ac).
    Addressed,
    /// Addressed, with data (adtc).
    Data,
    /// Broadcast (bc).
    Broadcast,
    /// Broadcast, with response (bcr).
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

/// Expected response in SPI mode. A native host includes these bits in `flags` too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpiAnswer {
    /// The command is not sent over SPI.
    Nothing,
    /// One status byte.
    R1,
    /// One status byte, followed by a busy signal.
    R1b,
    /// Two status bytes.
    R2,
    /// One status byte and four more bytes.
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

/// A command with its expected response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Order {
    /// The command.
    pub command: Command,
    /// The expected response.
    pub answer: Answer,
    /// The command type.
    pub reach: Reach,
    /// The expected response in SPI mode.
    pub spi: SpiAnswer,
}

impl Order {
    /// Creates CMD`index` with `argument`.
    pub const fn new(index: u8, argument: u32, answer: Answer, reach: Reach, spi: SpiAnswer) -> Order {
        Order { command: Command::new(index, argument), answer, reach, spi }
    }

    /// Returns the `flags` of Linux's log.
    pub const fn flags(&self) -> u32 {
        self.answer.bits() | self.reach.bits() | self.spi.bits()
    }
}

/// Direction of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// From the card to the host.
    Read,
    /// From the host to the card.
    Write,
}

impl Direction {
    /// Returns the `flags` of the `blksz` line in the log.
    pub const fn flags(self) -> u32 {
        match self {
            Direction::Read => 1 << 9,
            Direction::Write => 1 << 8,
        }
    }
}

/// Data of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Direction of the data.
    pub direction: Direction,
    /// Block length in bytes.
    pub block: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Time that the host waits for each block.
    pub limit: Duration,
}

impl Data {
    /// Returns the number of bytes.
    pub const fn bytes(&self) -> u64 {
        self.block as u64 * self.blocks as u64
    }
}

/// A request that the core passes to a controller: a command with its data, its block count and its stop command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MmcRequest {
    /// CMD23, sent before the command.
    pub count: Option<Order>,
    /// The command.
    pub order: Order,
    /// Data of the command.
    pub data: Option<Data>,
    /// CMD12, sent after the data. With a block count, it is sent only after an error.
    pub stop: Option<Order>,
    /// Maximum busy time after an R1b.
    pub busy_limit: Duration,
}

impl MmcRequest {
    /// Creates a request with `order` only.
    pub const fn bare(order: Order) -> MmcRequest {
        MmcRequest { count: None, order, data: None, stop: None, busy_limit: BUSY_LIMIT }
    }
    /// Creates a request with `order` and `data`.
    pub const fn with_data(order: Order, data: Data) -> MmcRequest {
        MmcRequest { data: Some(data), ..MmcRequest::bare(order) }
    }
}

/// Default for the maximum busy time after an R1b. The block layer of Linux gives up after 10 s.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use Answer::*;
    use Reach::*;

    /// Flags that Linux 5.15 and 6.1 print for these commands.
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
