//! The operation conditions register: section 5.1.

/// A supply voltage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Voltage {
    /// Thousandths of a volt.
    pub millivolts: u16,
}

impl Voltage {
    /// 3.3 V, which every card takes.
    pub const V3_3: Voltage = Voltage { millivolts: 3_300 };

    /// The middle of the window that bit `bit` of the OCR stands for: 2.7 to 3.6 V in tenths from bit 15 on; bit 7 is the
    /// low range, 1.8 V. Other bits stand for none.
    pub const fn of_vdd(bit: u8) -> Option<Voltage> {
        match bit {
            7 => Some(Voltage { millivolts: 1_800 }),
            15..=23 => Some(Voltage { millivolts: 2_750 + 100 * (bit as u16 - 15) }),
            _ => None,
        }
    }
}

/// The operation conditions: what voltages the card works at, and what it is, once it has been initialised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ocr(pub u32);

impl Ocr {
    /// The card is initialised (and 0 while it is not: "busy").
    pub const POWERED_UP: u32 = 1 << 31;
    /// CCS: addresses count blocks (SDHC and above). In ACMD41, HCS: the host knows that.
    pub const HIGH_CAPACITY: u32 = 1 << 30;
    /// UHS-II.
    pub const UHS_II: u32 = 1 << 29;
    /// In ACMD41, XPC: the host allows the power of the maximum-performance mode.
    pub const MAX_POWER: u32 = 1 << 28;
    /// CO2T: over 2 TB (SDUC). In ACMD41, HO2T.
    pub const OVER_2TB: u32 = 1 << 27;
    /// S18A: the card will switch to 1.8 V signals. In ACMD41, S18R.
    pub const LOW_VOLTAGE_SIGNALS: u32 = 1 << 24;
    /// Bits of voltages.
    pub const WINDOW: u32 = 0x00ff_ff80;
    /// 2.7 to 3.6 V.
    pub const WINDOW_2_7_TO_3_6: u32 = 0x00ff_8000;

    /// Whether the card works at a supply of `voltage`.
    pub const fn works_at(self, voltage: Voltage) -> bool {
        let bit = match voltage.millivolts {
            1_650..=1_950 => 7,
            2_700..=3_600 => {
                let tenth = 15 + (voltage.millivolts - 2_700) / 100;
                if tenth > 23 { 23 } else { tenth }
            }
            _ => return false,
        };
        self.0 >> bit & 1 == 1
    }
}
