//! The event log of the host stack, and its output in the format of Linux.
//!
//! The lines are those of `dmesg` in Linux 5.15 and 6.1 with dynamic debug enabled for `mmc_core`: opcode, argument and
//! `flags` of each command, its block count and its stop command, the card's response, the clock, and the card found. A
//! command that was repeated is printed once, as in Linux. If logging is off, no events are recorded.

use super::{Capacity, Error, MmcRequest};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use flashlab_sd::{Ios, Power, Signal, Timing};
use flashlab_sim::{Duration, Instant};

/// Activity of the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Power-up of the slot, before the first command.
    StartHost,
    /// Detection of a card and of its type.
    Rescan,
    /// Identification of an SD card, and its relative address.
    Identify,
    /// Selection of the card, and reading of its registers.
    Setup,
    /// Bus mode, clock and width.
    BusMode,
    /// Extension registers and cache.
    Extensions,
    /// Creation of the block device.
    BlockDevice,
    /// Block requests.
    Transfer,
    /// Recovery from an error.
    Recovery,
    /// Erase of a range.
    Erase,
    /// Flush of the cache.
    Flush,
    /// Check that the card is still present.
    Detect,
    /// Suspend of the machine.
    Suspend,
    /// Resume of the machine.
    Resume,
    /// Shutdown of the machine.
    Shutdown,
}

impl Phase {
    /// Returns the phase in words.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::StartHost => "power up",
            Phase::Rescan => "which kind of card",
            Phase::Identify => "identify",
            Phase::Setup => "read registers",
            Phase::BusMode => "bus mode",
            Phase::Extensions => "extension registers",
            Phase::BlockDevice => "block device",
            Phase::Transfer => "transfer",
            Phase::Recovery => "recovery",
            Phase::Erase => "erase",
            Phase::Flush => "flush",
            Phase::Detect => "detect",
            Phase::Suspend => "suspend",
            Phase::Resume => "resume",
            Phase::Shutdown => "shutdown",
        }
    }
}

/// Result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Outcome {
    /// Error of the command.
    pub error: Option<Error>,
    /// Response: 32 or 128 bits.
    pub response: [u32; 4],
}

/// Result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Result of CMD23.
    pub count: Outcome,
    /// Result of the command.
    pub cmd: Outcome,
    /// Bytes of data transferred.
    pub bytes: u64,
    /// Error of the data transfer.
    pub data_error: Option<Error>,
    /// Result of CMD12.
    pub stop: Outcome,
}

impl Done {
    /// Returns the first error.
    pub fn error(&self) -> Option<Error> {
        self.count.error.or(self.cmd.error).or(self.data_error).or(self.stop.error)
    }
}

/// Event on the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// The host set clock, voltage, width and timing.
    Ios(Ios),
    /// The host set the signal voltage.
    Signal(Signal),
    /// The host scans for a card at this clock rate.
    Trying {
        /// Clock rate in Hz.
        hz: u32,
    },
    /// A request started.
    Started(MmcRequest),
    /// The command of a request failed and is repeated.
    Retried {
        /// Command index.
        index: u8,
        /// Error of the command.
        error: Error,
    },
    /// A request completed.
    Done(MmcRequest, Done),
    /// The controller's driver sent tuning blocks, which the core does not log.
    Tuned {
        /// Total time of the tuning.
        took: Duration,
        /// Number of tuning blocks.
        blocks: u32,
        /// True if a sampling point was found.
        found: bool,
    },
    /// A card was initialised.
    New {
        /// Bus timing.
        timing: Timing,
        /// Capacity class: SD, SDHC, SDXC or SDUC.
        capacity: Capacity,
        /// Relative address.
        address: u16,
    },
    /// The maximum size of a discard was computed.
    DiscardMax {
        /// Maximum size in blocks of 512 bytes.
        sectors: u32,
        /// Time limit of the computation in ms.
        limit_ms: u32,
    },
    /// The block device was created.
    Disk {
        /// Relative address of the card.
        address: u16,
        /// Product name of the card.
        name: [u8; 5],
        /// Capacity in blocks of 512 bytes.
        sectors: u64,
        /// True if the device is read-only.
        read_only: bool,
    },
    /// The card no longer responds.
    RemoveDetected,
    /// The card was removed.
    Removed {
        /// Relative address of the card.
        address: u16,
    },
    /// Error message in which the error number replaces `{}`.
    Failure(&'static str, Error),
    /// Warning without an error number.
    Warning(&'static str),
    /// A request of the block layer failed.
    BlockError {
        /// First block of 512 bytes that was not transferred.
        sector: u64,
        /// True if the request was a write.
        write: bool,
    },
}

/// An event with its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Time of the event.
    pub at: Instant,
    /// Phase of the host.
    pub phase: Phase,
    /// The event.
    pub event: Event,
}

const HOST: &str = "mmc0";

impl Entry {
    /// Returns the lines that Linux prints for the event, each with the time of the event in seconds and
    /// microseconds. `device` is the controller's device name. Returns no lines for an event that Linux does
    /// not print.
    pub fn linux(&self, device: &str) -> Vec<String> {
        let us = self.at.as_ns() / 1000;
        let stamp = format!("[{:5}.{:06}] ", us / 1_000_000, us % 1_000_000);
        let mut lines = self.words(device);
        lines.iter_mut().for_each(|line| line.insert_str(0, &stamp));
        lines
    }

    fn words(&self, device: &str) -> Vec<String> {
        let one = |line: String| alloc::vec![line];
        match &self.event {
            Event::Ios(ios) => one(ios_line(ios)),
            Event::Signal(signal) if self.phase == Phase::StartHost || self.phase == Phase::Rescan => {
                one(format!("{device}: Initial signal voltage of {}v", volts(*signal)))
            }
            Event::Signal(_) | Event::Tuned { .. } => Vec::new(),
            Event::Trying { hz } => {
                one(format!("{HOST}: mmc_rescan_try_freq: trying to init card at {hz} Hz"))
            }
            Event::Started(request) => started(request),
            Event::Retried { index, error } => {
                one(format!("{HOST}: req failed (CMD{index}): {}, retrying...", error.number()))
            }
            Event::Done(request, done) => finished(request, done),
            Event::New { timing, capacity, address } => one(format!(
                "{HOST}: new {}{} card at address {address:04x}",
                speed(*timing),
                capacity.name()
            )),
            Event::DiscardMax { sectors, limit_ms } => {
                one(format!("{HOST}: calculated max. discard sectors {sectors} for timeout {limit_ms} ms"))
            }
            Event::Disk { address, name, sectors, read_only } => one(format!(
                "mmcblk0: {HOST}:{address:04x} {} {} {}",
                name_of(name),
                size(*sectors),
                if *read_only { "(ro)" } else { "" }
            )),
            Event::RemoveDetected => one(format!("{HOST}: card remove detected")),
            Event::Removed { address } => one(format!("{HOST}: card {address:04x} removed")),
            Event::Failure(what, error) => {
                one(format!("{HOST}: {}", what.replace("{}", &format!("{}", error.number()))))
            }
            Event::Warning(what) => one(format!("{HOST}: {what}")),
            Event::BlockError { sector, write } => one(format!(
                "I/O error, dev mmcblk0, sector {sector} op {}",
                if *write { "0x1:(WRITE)" } else { "0x0:(READ)" }
            )),
        }
    }
}

fn volts(signal: Signal) -> &'static str {
    match signal {
        Signal::V3_3 => "3.3",
        Signal::V1_8 => "1.8",
    }
}

fn ios_line(ios: &Ios) -> String {
    let power = match ios.power {
        Power::Off => 0,
        Power::Up => 1,
        Power::On => 2,
    };
    let timing = match ios.timing {
        Timing::Legacy => 0,
        Timing::HighSpeed => 2,
        Timing::Sdr12 => 3,
        Timing::Sdr25 => 4,
        Timing::Sdr50 => 5,
        Timing::Sdr104 => 6,
        Timing::Ddr50 => 7,
    };
    format!(
        "{HOST}: clock {}Hz busmode {} powermode {power} cs {} Vdd {} width {} timing {timing}",
        ios.clock_hz,
        if ios.push_pull { 2 } else { 1 },
        ios.chip_select,
        ios.vdd,
        ios.width
    )
}

fn started(request: &MmcRequest) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(count) = &request.count {
        lines.push(format!(
            "<{HOST}: starting CMD{} arg {:08x} flags {:08x}>",
            count.command.index,
            count.command.argument,
            count.flags()
        ));
    }
    let cmd = &request.cmd;
    lines.push(format!(
        "{HOST}: starting CMD{} arg {:08x} flags {:08x}",
        cmd.command.index,
        cmd.command.argument,
        cmd.flags()
    ));
    if let Some(data) = &request.data {
        lines.push(format!(
            "{HOST}:     blksz {} blocks {} flags {:08x} tsac {} ms nsac 0",
            data.block,
            data.blocks,
            data.direction.flags(),
            data.limit.as_ns() / 1_000_000
        ));
    }
    if let Some(stop) = &request.stop {
        lines.push(format!(
            "{HOST}:     CMD{} arg {:08x} flags {:08x}",
            stop.command.index,
            stop.command.argument,
            stop.flags()
        ));
    }
    lines
}

fn finished(request: &MmcRequest, done: &Done) -> Vec<String> {
    let number = |error: Option<Error>| error.map_or(0, Error::number);
    let words = |outcome: &Outcome| {
        let mut text = format!("{}:", number(outcome.error));
        for word in outcome.response {
            write!(text, " {word:08x}").expect("writing to a string cannot fail");
        }
        text
    };
    let mut lines = Vec::new();
    if let Some(count) = &request.count {
        lines.push(format!("{HOST}: req done <CMD{}>: {}", count.command.index, words(&done.count)));
    }
    lines.push(format!("{HOST}: req done (CMD{}): {}", request.cmd.command.index, words(&done.cmd)));
    if request.data.is_some() {
        lines.push(format!("{HOST}:     {} bytes transferred: {}", done.bytes, number(done.data_error)));
    }
    if let Some(stop) = &request.stop {
        lines.push(format!("{HOST}:     (CMD{}): {}", stop.command.index, words(&done.stop)));
    }
    lines
}

fn speed(timing: Timing) -> &'static str {
    match timing {
        Timing::Legacy => "",
        Timing::HighSpeed => "high speed ",
        Timing::Sdr12 => "ultra high speed SDR12 ",
        Timing::Sdr25 => "ultra high speed SDR25 ",
        Timing::Sdr50 => "ultra high speed SDR50 ",
        Timing::Ddr50 => "ultra high speed DDR50 ",
        Timing::Sdr104 => "ultra high speed SDR104 ",
    }
}

/// Returns a card's name without unprintable characters.
pub fn name_of(name: &[u8; 5]) -> String {
    name.iter().filter(|c| c.is_ascii_graphic() || **c == b' ').map(|c| char::from(*c)).collect()
}

/// Formats a capacity with three digits and a binary unit, as Linux does.
pub fn size(sectors: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let bytes = sectors * 512;
    let unit = bytes.checked_ilog2().map_or(0, |bits| (bits / 10) as usize);
    // Thousandths of the unit, rounded to three digits.
    let scaled = (u128::from(bytes) * 1000) >> (10 * unit);
    let (round, digits) = match scaled {
        0..10_000 => (5, 2),
        10_000..100_000 => (50, 1),
        _ => (500, 0),
    };
    let scaled = scaled + round;
    let (whole, rest) = (scaled / 1000, scaled % 1000);
    match digits {
        _ if unit == 0 => format!("{bytes} B"),
        2 => format!("{whole}.{:02} {}", rest / 10, UNITS[unit]),
        1 => format!("{whole}.{} {}", rest / 100, UNITS[unit]),
        _ => format!("{whole} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_have_three_digits() {
        for (bytes, text) in [
            (64 << 20, "64.0 MiB"),
            (30_517 << 20, "29.8 GiB"),
            (488 << 20, "488 MiB"),
            (2 << 40, "2.00 TiB"),
            (512, "512 B"),
        ] {
            assert_eq!(size(bytes / 512), text);
        }
    }

    #[test]
    fn an_entry_is_printed_as_linux_does() {
        let ios = Ios {
            clock_hz: 400_000,
            width: 1,
            timing: Timing::Legacy,
            signal: Signal::V3_3,
            power: Power::On,
            vdd: 21,
            push_pull: true,
            chip_select: 0,
        };
        let entry =
            Entry { at: Instant::from_ns(4_174_281_000), phase: Phase::StartHost, event: Event::Ios(ios) };
        assert_eq!(
            entry.linux("")[0],
            "[    4.174281] mmc0: clock 400000Hz busmode 2 powermode 2 cs 0 Vdd 21 width 1 timing 0"
        );
    }
}
