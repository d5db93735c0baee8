//! How a host drives its slot: clock, lines, edges, voltages.

/// The voltage of the signals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// 3.3 V.
    V3_3,
    /// 1.8 V: UHS-I.
    V1_8,
}

/// How the host times the wires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timing {
    /// Default speed.
    Legacy,
    /// High speed.
    HighSpeed,
    /// UHS-I at default speed's clock.
    Sdr12,
    /// UHS-I at high speed's clock.
    Sdr25,
    /// UHS-I, up to 100 MHz.
    Sdr50,
    /// UHS-I, both edges of up to 50 MHz.
    Ddr50,
    /// UHS-I, up to 208 MHz, the sampling point tuned.
    Sdr104,
}

impl Timing {
    /// The function of the access mode group that goes with it.
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

/// The supply of the slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Power {
    /// None.
    Off,
    /// Ramping up, without a clock.
    Up,
    /// On.
    On,
}

/// How the host drives its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ios {
    /// Clocks a second; 0: the clock stands.
    pub clock_hz: u32,
    /// Data lines: 1 or 4.
    pub width: u8,
    /// Edges and sampling.
    pub timing: Timing,
    /// Voltage of the signals.
    pub signal: Signal,
    /// The supply.
    pub power: Power,
    /// Its voltage, as a bit of the OCR.
    pub vdd: u8,
    /// Whether the command line is driven both ways, as SD cards always do.
    pub push_pull: bool,
    /// Chip select: 0 does not matter, 1 high, 2 low, with which CMD0 begins SPI mode.
    pub chip_select: u8,
}

impl Ios {
    /// A slot without power.
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
