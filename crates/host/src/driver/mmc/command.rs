//! Commands as the mmc core of Linux passes them to a controller: with the expected response, and the `flags`
//! that its log prints. The bits are those of `include/linux/mmc/core.h`.

use flashlab_sd::Command;
use flashlab_sim::Duration;

/// Expected response of a command, named as in the mmc core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MmcResponseType {
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

impl MmcResponseType {
    const PRESENT: u32 = 1 << 0;
    const LONG: u32 = 1 << 1;
    const CHECKSUM: u32 = 1 << 2;
    const BUSY: u32 = 1 << 3;
    const INDEX: u32 = 1 << 4;

    const fn bits(self) -> u32 {
        match self {
            MmcResponseType::Nothing => 0,
            MmcResponseType::R1 | MmcResponseType::R5 | MmcResponseType::R6 | MmcResponseType::R7 => {
                MmcResponseType::PRESENT | MmcResponseType::CHECKSUM | MmcResponseType::INDEX
            }
            MmcResponseType::R1b => {
                MmcResponseType::PRESENT
                    | MmcResponseType::CHECKSUM
                    | MmcResponseType::INDEX
                    | MmcResponseType::BUSY
            }
            MmcResponseType::R2 => {
                MmcResponseType::PRESENT | MmcResponseType::LONG | MmcResponseType::CHECKSUM
            }
            MmcResponseType::R3 | MmcResponseType::R4 => MmcResponseType::PRESENT,
        }
    }
}

/// Command type: addressed or broadcast, with or without data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommandType {
    /// Addressed, without data (ac).
    Addressed,
    /// Addressed, with data (adtc).
    Data,
    /// Broadcast (bc).
    Broadcast,
    /// Broadcast, with response (bcr).
    BroadcastWithResponse,
}

impl CommandType {
    const fn bits(self) -> u32 {
        (match self {
            CommandType::Addressed => 0,
            CommandType::Data => 1,
            CommandType::Broadcast => 2,
            CommandType::BroadcastWithResponse => 3,
        }) << 5
    }
}

/// Expected response in SPI mode. A native host includes these bits in `flags` too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SpiResponseType {
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

impl SpiResponseType {
    const fn bits(self) -> u32 {
        const S1: u32 = 1 << 7;
        const S2: u32 = 1 << 8;
        const B4: u32 = 1 << 9;
        const BUSY: u32 = 1 << 10;
        match self {
            SpiResponseType::Nothing => 0,
            SpiResponseType::R1 => S1,
            SpiResponseType::R1b => S1 | BUSY,
            SpiResponseType::R2 => S1 | S2,
            SpiResponseType::Five => S1 | B4,
        }
    }
}

/// A command with its expected response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MmcCommand {
    /// The command.
    pub command: Command,
    /// The expected response.
    pub response: MmcResponseType,
    /// The command type.
    pub command_type: CommandType,
    /// The expected response in SPI mode.
    pub spi: SpiResponseType,
}

impl MmcCommand {
    /// Creates CMD`index` with `argument`.
    pub const fn new(
        index: u8,
        argument: u32,
        response: MmcResponseType,
        command_type: CommandType,
        spi: SpiResponseType,
    ) -> MmcCommand {
        MmcCommand { command: Command::new(index, argument), response, command_type, spi }
    }

    /// Returns the `flags` of Linux's log.
    pub const fn flags(&self) -> u32 {
        self.response.bits() | self.command_type.bits() | self.spi.bits()
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
    pub count: Option<MmcCommand>,
    /// The command.
    pub cmd: MmcCommand,
    /// Data of the command.
    pub data: Option<Data>,
    /// CMD12, sent after the data. With a block count, it is sent only after an error.
    pub stop: Option<MmcCommand>,
    /// Maximum busy time after an R1b.
    pub busy_limit: Duration,
}

impl MmcRequest {
    /// Creates a request with `cmd` only.
    pub const fn bare(cmd: MmcCommand) -> MmcRequest {
        MmcRequest { count: None, cmd, data: None, stop: None, busy_limit: BUSY_LIMIT }
    }
    /// Creates a request with `cmd` and `data`.
    pub const fn with_data(cmd: MmcCommand, data: Data) -> MmcRequest {
        MmcRequest { data: Some(data), ..MmcRequest::bare(cmd) }
    }
}

/// Maximum busy time after a write, and by default after an R1b. The block layer of Linux gives up after 10 s.
pub(crate) const BUSY_LIMIT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use CommandType::*;
    use MmcResponseType::*;

    /// Flags that Linux 5.15 and 6.1 print for these commands.
    #[test]
    fn flags_are_those_that_linux_prints() {
        for (index, answer, reach, spi, flags) in [
            (0, Nothing, Broadcast, SpiResponseType::R1, 0xc0),
            (2, R2, Addressed, SpiResponseType::Nothing, 0x07),
            (3, R6, BroadcastWithResponse, SpiResponseType::Nothing, 0x75),
            (5, R4, BroadcastWithResponse, SpiResponseType::Five, 0x2e1),
            (6, R1, Data, SpiResponseType::R1, 0xb5),
            (7, R1, Addressed, SpiResponseType::Nothing, 0x15),
            (7, Nothing, Addressed, SpiResponseType::Nothing, 0x00),
            (8, R7, BroadcastWithResponse, SpiResponseType::Five, 0x2f5),
            (12, R1b, Addressed, SpiResponseType::R1b, 0x49d),
            (13, R1, Addressed, SpiResponseType::R2, 0x195),
            (13, R1, Data, SpiResponseType::R2, 0x1b5),
            (41, R3, BroadcastWithResponse, SpiResponseType::R1, 0xe1),
            (52, R5, Addressed, SpiResponseType::R2, 0x195),
            (55, R1, BroadcastWithResponse, SpiResponseType::R1, 0xf5),
            (55, R1, Addressed, SpiResponseType::R1, 0x95),
        ] {
            assert_eq!(MmcCommand::new(index, 0, answer, reach, spi).flags(), flags, "CMD{index}");
        }
    }
}
