//! Host controllers as their Linux drivers describe them to the mmc core: voltages, clocks, widths, the largest transfer,
//! and how the end of busy is found out. Plain data: one description is one constant.
//!
//! The PL181 and the SDHCI controller are those of QEMU's boards, the VUB300 is the USB adapter, whose logs are in
//! `tests/traces`. Facts are taken from the drivers (`mmci`, `sdhci`, `vub300`, `atmel-mci`) and from those logs.

use crate::{Link, Mode, Timing};

/// A host controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Controller {
    /// As an argument names it.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// The device whose name stands before its driver's own lines in a log.
    pub device: &'static str,
    /// The voltages that it supplies, as bits of the OCR.
    pub ocr: u32,
    /// The slowest clock.
    pub f_min: u32,
    /// The fastest.
    pub f_max: u32,
    /// Four data lines, or one.
    pub four_lines: bool,
    /// Whether it drives high speed.
    pub high_speed: bool,
    /// The UHS-I modes that it drives; empty: it cannot switch to 1.8 V.
    pub uhs: &'static [Timing],
    /// What it can supply at 3.3 V; 0: it does not say.
    pub current_max_ma: u32,
    /// The most blocks of a transfer.
    pub blocks_max: u32,
    /// The most bytes of a transfer.
    pub bytes_max: u32,
    /// Whether it sends CMD23 before a transfer where the card knows it.
    pub set_block_count: bool,
    /// Whether it lets CMD48 and CMD49 through; one that does not hides that the card knows them.
    pub extension_registers: bool,
    /// The longest busy that it waits for by itself, in ms; 0: it does not say.
    pub busy_limit_ms: u32,
    /// Whether the core relies on that, and does not ask behind an R1b.
    pub trusts_r1b: bool,
    /// Whether the hardware waits for the end of busy behind a write and behind an R1b.
    pub hardware_waits: bool,
    /// Whether the driver can look at DAT0, so that the core need not send CMD13.
    pub senses_busy: bool,
    /// Whether CMD13 asks behind every write if the card takes data again: Linux does, FreeBSD 8 does not.
    pub asks_behind_write: bool,
    /// Whether the slot has power before the first scan.
    pub powered_before_scan: bool,
    /// Whether the slot tells if there is a card.
    pub detects_card: bool,
    /// Whether the core asks once a second if the card is still there.
    pub polls: bool,
}

const V3_2_TO_3_4: u32 = 0x0030_0000;
const V2_7_TO_3_6: u32 = 0x00ff_8000;

impl Controller {
    /// ARM PrimeCell PL181 as QEMU's vexpress-a9 has it: 31 blocks a transfer, one line, 12 MHz.
    pub const PL181: Controller = Controller {
        name: "pl181",
        title: "ARM PrimeCell PL181 (vexpress-a9)",
        device: "mmci-pl18x 10005000.mmci",
        ocr: V3_2_TO_3_4,
        f_min: 46_875,
        f_max: 12_000_000,
        four_lines: false,
        high_speed: false,
        uhs: &[],
        current_max_ma: 0,
        // 16 bits of length; the driver counts in blocks of 2 KiB: 65,535 / 2,048.
        blocks_max: 31,
        bytes_max: 65_535,
        set_block_count: false,
        extension_registers: true,
        busy_limit_ms: 0,
        trusts_r1b: false,
        hardware_waits: false,
        senses_busy: false,
        asks_behind_write: true,
        powered_before_scan: true,
        detects_card: true,
        polls: true,
    };

    /// SDHCI 2.0 as QEMU has it on PCI: 1024 blocks a transfer, high speed on four lines.
    pub const SDHCI: Controller = Controller {
        name: "sdhci",
        title: "SD host controller, SDHCI 2.0 on PCI",
        device: "sdhci-pci 0000:00:01.0",
        ocr: V3_2_TO_3_4,
        f_min: 203_125,
        f_max: 52_000_000,
        four_lines: true,
        high_speed: true,
        uhs: &[],
        current_max_ma: 0,
        blocks_max: 65_535,
        bytes_max: 512 << 10,
        set_block_count: true,
        extension_registers: true,
        // 2^27 clocks of 52 MHz.
        busy_limit_ms: 2_581,
        trusts_r1b: false,
        hardware_waits: true,
        senses_busy: true,
        asks_behind_write: true,
        powered_before_scan: false,
        detects_card: true,
        polls: false,
    };

    /// SDHCI 3.0 with all UHS-I modes, 800 mA.
    pub const SDHCI_UHS: Controller = Controller {
        name: "sdhci-uhs",
        title: "SD host controller, SDHCI 3.0 with UHS-I",
        f_min: 101_660,
        f_max: 208_000_000,
        uhs: &[Timing::Sdr12, Timing::Sdr25, Timing::Sdr50, Timing::Ddr50, Timing::Sdr104],
        current_max_ma: 800,
        // 2^27 clocks of 208 MHz, by the SDHCI formula.
        busy_limit_ms: 645,
        ..Controller::SDHCI
    };

    /// The card slot of a Raspberry Pi 4: UHS-I up to DDR50.
    pub const BCM2711: Controller = Controller {
        name: "bcm2711",
        title: "BCM2711 (Raspberry Pi 4), SDHCI with DDR50",
        device: "sdhci-iproc fe340000.mmc",
        f_min: 100_000,
        f_max: 50_000_000,
        uhs: &[Timing::Sdr12, Timing::Sdr25, Timing::Ddr50],
        busy_limit_ms: 1_342,
        ..Controller::SDHCI
    };

    /// Elan VUB300, a USB adapter that runs the commands itself: 256 blocks a transfer.
    pub const VUB300: Controller = Controller {
        name: "vub300",
        title: "Elan VUB300 (USB)",
        device: "usb 1-1",
        ocr: V2_7_TO_3_6,
        f_min: 200_000,
        f_max: 48_000_000,
        four_lines: true,
        high_speed: true,
        uhs: &[],
        current_max_ma: 0,
        blocks_max: 511,
        bytes_max: 128 << 10,
        set_block_count: false,
        extension_registers: false,
        busy_limit_ms: 0,
        trusts_r1b: false,
        hardware_waits: true,
        senses_busy: false,
        asks_behind_write: true,
        powered_before_scan: true,
        detects_card: true,
        polls: false,
    };

    /// The MCI of an AT91RM9200, with transfers of several blocks: 64.
    pub const AT91RM9200: Controller = Controller {
        name: "at91rm9200",
        title: "AT91RM9200 MCI, 64 blocks a transfer",
        device: "atmel_mci fffb4000.mmc",
        ocr: V3_2_TO_3_4,
        f_min: 117_188,
        f_max: 30_000_000,
        four_lines: true,
        high_speed: false,
        uhs: &[],
        current_max_ma: 0,
        blocks_max: 64,
        bytes_max: 64 * 512,
        set_block_count: false,
        extension_registers: true,
        busy_limit_ms: 0,
        trusts_r1b: false,
        hardware_waits: true,
        senses_busy: false,
        asks_behind_write: true,
        powered_before_scan: true,
        detects_card: false,
        polls: true,
    };

    /// The same with one block a transfer, as the first drivers had it.
    pub const AT91RM9200_ONE_BLOCK: Controller = Controller {
        name: "at91rm9200-1-block",
        title: "AT91RM9200 MCI, one block a transfer",
        blocks_max: 1,
        bytes_max: 512,
        ..Controller::AT91RM9200
    };

    /// All of them.
    pub const ALL: [Controller; 7] = [
        Controller::PL181,
        Controller::SDHCI,
        Controller::SDHCI_UHS,
        Controller::BCM2711,
        Controller::VUB300,
        Controller::AT91RM9200,
        Controller::AT91RM9200_ONE_BLOCK,
    ];

    /// A slot that is driven as a [`Link`] is: its width, up to its clock, in one of `modes`, with transfers of `bytes_max`
    /// bytes, and a driver that waits for the end of busy and asks for nothing.
    pub fn of_link(link: &Link, modes: &[Mode], bytes_max: u32) -> Controller {
        let has = |mode| modes.contains(&mode);
        Controller {
            name: "link",
            title: "a slot on a given bus",
            f_max: u32::try_from(link.bus.clock_hz).unwrap_or(u32::MAX),
            f_min: 100_000,
            four_lines: link.bus.width == 4,
            high_speed: has(Mode::HighSpeed),
            uhs: if link.bus.ddr {
                &[Timing::Ddr50]
            } else if has(Mode::Sdr104) {
                &[Timing::Sdr104, Timing::Sdr50]
            } else if has(Mode::Sdr50) {
                &[Timing::Sdr50]
            } else {
                &[]
            },
            blocks_max: u32::MAX,
            bytes_max,
            set_block_count: false,
            busy_limit_ms: 0,
            trusts_r1b: true,
            asks_behind_write: false,
            ..Controller::SDHCI
        }
    }

    /// The controller of that name.
    pub fn named(name: &str) -> Option<Controller> {
        Controller::ALL.into_iter().find(|controller| controller.name == name)
    }

    /// Blocks of 512 bytes of the largest transfer.
    pub fn transfer_blocks(&self) -> u32 {
        self.blocks_max.min(self.bytes_max / 512).max(1)
    }
}
