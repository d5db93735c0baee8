//! Settings of the host's slot: clock, data lines, clock edges, voltages.

/// Signal voltage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// 3.3 V.
    V3_3,
    /// 1.8 V: UHS-I.
    V1_8,
}

/// Bus timing of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// Default speed.
    Legacy,
    /// High speed.
    HighSpeed,
    /// UHS-I at the clock rate of default speed.
    Sdr12,
    /// UHS-I at the clock rate of high speed.
    Sdr25,
    /// UHS-I, up to 100 MHz.
    Sdr50,
    /// UHS-I, up to 50 MHz, data on both edges.
    Ddr50,
    /// UHS-I, up to 208 MHz, with a tuned sampling point.
    Sdr104,
}

impl Timing {
    /// Returns the corresponding function of the access mode group.
    pub const fn access_mode(self) -> u8 {
        match self {
            Timing::Legacy | Timing::Sdr12 => 0,
            Timing::HighSpeed | Timing::Sdr25 => 1,
            Timing::Sdr50 => 2,
            Timing::Sdr104 => 3,
            Timing::Ddr50 => 4,
        }
    }
}

/// Power supply of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    /// No power.
    Off,
    /// Ramping up, without a clock.
    Up,
    /// On.
    On,
}

/// Settings of the host's slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ios {
    /// Clock rate in Hz; 0 if the clock is stopped.
    pub clock_hz: u32,
    /// Number of data lines: 1 or 4.
    pub width: u8,
    /// Clock edges and sampling.
    pub timing: Timing,
    /// Signal voltage.
    pub signal: Signal,
    /// Power supply.
    pub power: Power,
    /// Supply voltage, as a bit number of the OCR.
    pub vdd: u8,
    /// True if the command line is push-pull, as SD cards always drive it; false for open-drain.
    pub push_pull: bool,
    /// Chip select: 0 don't care, 1 high, 2 low. CMD0 with chip select low begins SPI mode.
    pub chip_select: u8,
}

impl Ios {
    /// Settings of a slot without power.
    pub const OFF: Ios = Ios {
        clock_hz: 0,
        width: 1,
        timing: Timing::Legacy,
        signal: Signal::V3_3,
        power: Power::Off,
        vdd: 21,
        push_pull: true,
        chip_select: 0,
    };
}
