//! Properties of host controllers, as their Linux drivers report them to the mmc core: voltages, clocks, widths, the
//! maximum transfer size, and the detection of the end of busy. Each controller is one constant.
//!
//! The PL181 and the SDHCI controller are those of QEMU's boards. The VUB300 is the USB adapter whose logs are in
//! `crates/lab/tests/traces`. The values are from the drivers (`mmci`, `sdhci`, `vub300`, `atmel-mci`) and from those
//! logs.

use flashlab_sd::{Link, Mode, Timing};

/// A host controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Controller {
    /// Name in command-line arguments.
    pub name: &'static str,
    /// Full name.
    pub title: &'static str,
    /// Device name that precedes the lines of the driver in a log.
    pub device: &'static str,
    /// Supply voltages, as bits of the OCR.
    pub ocr: u32,
    /// Minimum clock rate in Hz.
    pub f_min: u32,
    /// Maximum clock rate in Hz.
    pub f_max: u32,
    /// True for four data lines, false for one.
    pub four_lines: bool,
    /// True if the controller supports high speed.
    pub high_speed: bool,
    /// Supported UHS-I modes. If empty, the controller cannot switch to 1.8 V.
    pub uhs: &'static [Timing],
    /// Maximum current at 3.3 V in mA; 0 if not specified.
    pub current_max_ma: u32,
    /// Maximum number of blocks of a transfer.
    pub blocks_max: u32,
    /// Maximum number of bytes of a transfer.
    pub bytes_max: u32,
    /// True if the host sends CMD23 before a transfer to a card that supports it.
    pub set_block_count: bool,
    /// True if the controller supports CMD48 and CMD49. Otherwise the host ignores the card's support for
    /// these commands.
    pub extension_registers: bool,
    /// Maximum busy time in ms that the hardware waits for; 0 if not specified.
    pub busy_limit_ms: u32,
    /// True if the core relies on the hardware's wait and sends no CMD13 after an R1b.
    pub trusts_r1b: bool,
    /// True if the hardware waits for the end of busy after a write and after an R1b.
    pub hardware_waits: bool,
    /// True if the driver can sense DAT0, so that the core need not send CMD13.
    pub senses_busy: bool,
    /// True if the host sends CMD13 after every write until the card is ready for data. Linux does; FreeBSD 8
    /// does not.
    pub asks_behind_write: bool,
    /// True if the slot has power before the first scan.
    pub powered_before_scan: bool,
    /// True if the slot detects the presence of a card.
    pub detects_card: bool,
    /// True if the core checks once per second that the card is still present.
    pub polls: bool,
}

const V3_2_TO_3_4: u32 = 0x0030_0000;
const V2_7_TO_3_6: u32 = 0x00ff_8000;

impl Controller {
    /// ARM PrimeCell PL181 of QEMU's vexpress-a9 board: 31 blocks per transfer, one data line, 12 MHz.
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
        // The length has 16 bits, and the driver counts in blocks of 2 KiB: 65,535 / 2,048.
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

    /// SDHCI 2.0 of QEMU on PCI: 1024 blocks per transfer, high speed on four data lines.
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
        // 2^27 clocks at 52 MHz.
        busy_limit_ms: 2_581,
        trusts_r1b: false,
        hardware_waits: true,
        senses_busy: true,
        asks_behind_write: true,
        powered_before_scan: false,
        detects_card: true,
        polls: false,
    };

    /// SDHCI 3.0 with all UHS-I modes and 800 mA.
    pub const SDHCI_UHS: Controller = Controller {
        name: "sdhci-uhs",
        title: "SD host controller, SDHCI 3.0 with UHS-I",
        f_min: 101_660,
        f_max: 208_000_000,
        uhs: &[Timing::Sdr12, Timing::Sdr25, Timing::Sdr50, Timing::Ddr50, Timing::Sdr104],
        current_max_ma: 800,
        // 2^27 clocks at 208 MHz, by the SDHCI formula.
        busy_limit_ms: 645,
        ..Controller::SDHCI
    };

    /// Card slot of a Raspberry Pi 4: UHS-I up to DDR50.
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

    /// Elan VUB300, a USB adapter that executes the commands itself: 256 blocks per transfer.
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

    /// MCI of an AT91RM9200 with transfers of up to 64 blocks.
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

    /// MCI of an AT91RM9200 with one block per transfer, as in the first drivers.
    pub const AT91RM9200_ONE_BLOCK: Controller = Controller {
        name: "at91rm9200-1-block",
        title: "AT91RM9200 MCI, one block a transfer",
        blocks_max: 1,
        bytes_max: 512,
        ..Controller::AT91RM9200
    };

    /// All controllers.
    pub const ALL: [Controller; 7] = [
        Controller::PL181,
        Controller::SDHCI,
        Controller::SDHCI_UHS,
        Controller::BCM2711,
        Controller::VUB300,
        Controller::AT91RM9200,
        Controller::AT91RM9200_ONE_BLOCK,
    ];

    /// Creates a slot with the width and the maximum clock of `link`, the given `modes`, and transfers of at most
    /// `bytes_max` bytes. The driver waits for the end of busy, and sends no CMD13 after a write or an erase.
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

    /// Returns the controller with the given name.
    pub fn named(name: &str) -> Option<Controller> {
        Controller::ALL.into_iter().find(|controller| controller.name == name)
    }

    /// Returns the maximum transfer size in blocks of 512 bytes.
    pub fn transfer_blocks(&self) -> u32 {
        self.blocks_max.min(self.bytes_max / 512).max(1)
    }
}
