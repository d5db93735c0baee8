//! The operation conditions register (OCR): section 5.1.

/// A supply voltage.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Voltage {
    /// Voltage in millivolts.
    pub millivolts: u16,
}

impl Voltage {
    /// 3.3 V, which every card supports.
    pub const V3_3: Voltage = Voltage { millivolts: 3_300 };

    /// Returns the middle of the voltage window of bit `bit` of the OCR. The bits from 15 on are the windows of 0.1 V
    /// from 2.7 to 3.6 V. Bit 7 is the low voltage range, 1.8 V. Returns `None` for other bits.
    pub const fn of_vdd(bit: u8) -> Option<Voltage> {
        match bit {
            7 => Some(Voltage { millivolts: 1_800 }),
            15..=23 => Some(Voltage { millivolts: 2_750 + 100 * (bit as u16 - 15) }),
            _ => None,
        }
    }
}

/// The operation conditions: the supply voltages that the card supports, its power-up status and, after initialisation,
/// its capacity class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ocr(pub u32);

impl Ocr {
    /// Power-up status: 1 after initialisation, 0 ("busy") before.
    pub const POWERED_UP: u32 = 1 << 31;
    /// CCS: addresses count blocks (SDHC and above). In ACMD41, HCS: the host supports such cards.
    pub const HIGH_CAPACITY: u32 = 1 << 30;
    /// In ACMD41, XPC: the host supplies the power for maximum performance.
    pub const MAX_POWER: u32 = 1 << 28;
    /// CO2T: the capacity is over 2 TB (SDUC). In ACMD41, HO2T: the host supports such cards.
    pub const OVER_2TB: u32 = 1 << 27;
    /// S18A: the card accepts a switch to 1.8 V signals. In ACMD41, S18R: the host requests this switch.
    pub const LOW_VOLTAGE_SIGNALS: u32 = 1 << 24;
    /// All voltage bits.
    pub const WINDOW: u32 = 0x00ff_ff80;
    /// Voltage bits of 2.7 to 3.6 V.
    pub const WINDOW_2_7_TO_3_6: u32 = 0x00ff_8000;

    /// Returns true if the card supports a supply of `voltage`.
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
