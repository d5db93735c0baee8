//! Timing of the wires: bus speed modes, and the number of clocks that a block and a command take.
//!
//! Source: SD Physical Layer Simplified Specification. A data block has 512 bytes; each line also carries a CRC16, a
//! start bit and a stop bit. The gap between blocks (about 8 clocks) and the CRC status token of a write (about 9
//! clocks) follow section 4.12 (timings). A command with its response and gaps takes about 150 clocks.

use flashlab_sim::Duration;

/// Size of a data block in bytes.
pub const BLOCK: u64 = 512;

/// A bus speed mode of the specification.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Mode {
    /// Default speed: up to 25 MHz, 3.3 V.
    DefaultSpeed,
    /// High speed: up to 50 MHz, 3.3 V, after CMD6.
    HighSpeed,
    /// UHS-I SDR50: up to 100 MHz, 1.8 V.
    Sdr50,
    /// UHS-I DDR50: up to 50 MHz on both edges, 1.8 V.
    Ddr50,
    /// UHS-I SDR104: up to 208 MHz, 1.8 V.
    Sdr104,
    /// eMMC high speed: up to 52 MHz.
    Hs52,
    /// eMMC high speed DDR: up to 52 MHz on both edges.
    Ddr52,
    /// eMMC HS200: up to 200 MHz, 1.8 V.
    Hs200,
    /// eMMC HS400: up to 200 MHz on both edges, 1.8 V.
    Hs400,
}

impl Mode {
    /// Number of modes of cards and eMMC.
    pub const COUNT: usize = 9;
    /// The modes of cards, slowest first.
    pub const ALL: [Mode; 5] = [Mode::DefaultSpeed, Mode::HighSpeed, Mode::Sdr50, Mode::Ddr50, Mode::Sdr104];
    /// The modes that only eMMC has, slowest first. An eMMC device starts in default speed, which its specification
    /// (JESD84-B51) calls backward compatible timing and limits to 26 MHz.
    pub const EMMC: [Mode; 4] = [Mode::Hs52, Mode::Ddr52, Mode::Hs200, Mode::Hs400];

    /// Returns the modes of cards, and then the modes that only eMMC has.
    pub fn every() -> impl Iterator<Item = Mode> {
        Mode::ALL.into_iter().chain(Mode::EMMC)
    }

    /// Returns the position of the mode in [`Mode::every`].
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns true if only eMMC has this mode.
    pub const fn is_emmc(self) -> bool {
        matches!(self, Mode::Hs52 | Mode::Ddr52 | Mode::Hs200 | Mode::Hs400)
    }

    /// Returns the name of the mode in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::DefaultSpeed => "default-speed",
            Mode::HighSpeed => "high-speed",
            Mode::Sdr50 => "sdr50",
            Mode::Ddr50 => "ddr50",
            Mode::Sdr104 => "sdr104",
            Mode::Hs52 => "hs52",
            Mode::Ddr52 => "ddr52",
            Mode::Hs200 => "hs200",
            Mode::Hs400 => "hs400",
        }
    }

    /// Returns true if this is a UHS-I mode: 1.8 V signals on four data lines.
    pub const fn is_uhs(self) -> bool {
        matches!(self, Mode::Sdr50 | Mode::Ddr50 | Mode::Sdr104)
    }

    /// Returns a bus at the mode's highest clock, with four data lines, or eight for eMMC.
    pub const fn bus(self) -> Bus {
        let (clock_hz, ddr) = match self {
            Mode::DefaultSpeed => (25_000_000, false),
            Mode::HighSpeed => (50_000_000, false),
            Mode::Sdr50 => (100_000_000, false),
            Mode::Ddr50 => (50_000_000, true),
            Mode::Sdr104 => (208_000_000, false),
            Mode::Hs52 => (52_000_000, false),
            Mode::Ddr52 => (52_000_000, true),
            Mode::Hs200 => (200_000_000, false),
            Mode::Hs400 => (200_000_000, true),
        };
        Bus { clock_hz, width: if self.is_emmc() { 8 } else { 4 }, ddr }
    }
}

/// Clock rate, width and clock edges of the bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bus {
    /// Clock rate in Hz.
    pub clock_hz: u64,
    /// Number of data lines: 1, 4 or 8.
    pub width: u32,
    /// True if data moves on both clock edges.
    pub ddr: bool,
}

impl Bus {
    const CRC_AND_FRAME_CLOCKS: u64 = 18;
    const GAP_CLOCKS: u64 = 8;
    const CRC_STATUS_CLOCKS: u64 = 9;
    const COMMAND_CLOCKS: u64 = 150;

    pub(crate) fn clocks(&self, clocks: u64) -> Duration {
        Duration::from_ratio_secs(clocks, self.clock_hz)
    }
    fn block_clocks(&self, bytes: u64) -> u64 {
        bytes * 8 / u64::from(self.width) / if self.ddr { 2 } else { 1 } + Self::CRC_AND_FRAME_CLOCKS
    }
    /// Returns the time of one block of `bytes` from card to host.
    pub fn read(&self, bytes: u64) -> Duration {
        self.clocks(self.block_clocks(bytes) + Self::GAP_CLOCKS)
    }
    /// Returns the time of one block of `bytes` from host to card.
    pub fn write(&self, bytes: u64) -> Duration {
        self.clocks(self.block_clocks(bytes) + Self::GAP_CLOCKS + Self::CRC_STATUS_CLOCKS)
    }
    /// Returns the time of one data block of 512 bytes from card to host.
    pub fn read_block(&self) -> Duration {
        self.read(BLOCK)
    }
    /// Returns the time of one data block of 512 bytes from host to card.
    pub fn write_block(&self) -> Duration {
        self.write(BLOCK)
    }
    /// Returns the time of one command with its response.
    pub fn command(&self) -> Duration {
        self.clocks(Self::COMMAND_CLOCKS)
    }
}

/// The bus, and the time that the host adds to each block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// The bus.
    pub bus: Bus,
    /// Time that the host spends on each block while data moves, for example for a copy or an interrupt.
    pub t_block_host: Duration,
}

/// Times of the connection between a host and a device: the wires of a card, or the USB link of a device that
/// is modelled like a card.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wires {
    /// Time of a command with its response.
    pub command: Duration,
    /// Time to end a transfer of several blocks. On the wires of a card, this is the time of CMD12.
    pub stop: Duration,
    /// Time of a block of 512 bytes to the host.
    pub read_block: Duration,
    /// Time of a block of 512 bytes from the host.
    pub write_block: Duration,
    /// Time that the host adds to each block.
    pub host_block: Duration,
}

impl From<Link> for Wires {
    fn from(link: Link) -> Wires {
        Wires {
            command: link.bus.command(),
            stop: link.bus.command(),
            read_block: link.bus.read_block(),
            write_block: link.bus.write_block(),
            host_block: link.t_block_host,
        }
    }
}
