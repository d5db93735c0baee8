//! Registers of a card, as decoded by the host: the fields that Linux uses. The host decodes the raw bits with its own
//! code, independently of the card's [`register`](flashlab_sd::register) module.

use flashlab_sim::Duration;

/// Returns `length` bits of a register from bit `start` on, where bit 0 is the lowest bit of the last byte.
fn bits(register: &[u8], start: usize, length: usize) -> u32 {
    debug_assert!(length <= 32 && start + length <= register.len() * 8);
    (start..start + length).rev().fold(0, |value, bit| {
        let byte = register[register.len() - 1 - bit / 8];
        value << 1 | u32::from(byte >> (bit % 8) & 1)
    })
}

/// Fields of the CID.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CidFields {
    /// Manufacturer ID.
    pub manufacturer: u8,
    /// OEM and application ID.
    pub oem: u16,
    /// Product name.
    pub name: [u8; 5],
    /// Hardware and firmware revision.
    pub revision: (u8, u8),
    /// Serial number.
    pub serial: u32,
    /// Year and month of manufacture.
    pub date: (u16, u8),
}

impl CidFields {
    /// Decodes the register.
    pub fn of(raw: &[u8; 16]) -> Self {
        CidFields {
            manufacturer: raw[0],
            oem: bits(raw, 104, 16) as u16,
            name: core::array::from_fn(|n| raw[3 + n]),
            revision: (bits(raw, 60, 4) as u8, bits(raw, 56, 4) as u8),
            serial: bits(raw, 24, 32),
            date: (2000 + bits(raw, 12, 8) as u16, bits(raw, 8, 4) as u8),
        }
    }
}

/// Fields of the CSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CsdFields {
    /// True if addresses count blocks instead of bytes.
    pub block_addressed: bool,
    /// True if the capacity is above 32 GiB.
    pub extended_capacity: bool,
    /// True for CSD version 3, which SDUC cards have.
    pub ultra_structure: bool,
    /// Capacity in blocks of 512 bytes.
    pub sectors: u64,
    /// Access time in ns (TAAC).
    pub taac_ns: u64,
    /// Clock-dependent part of the access time, in clocks (NSAC).
    pub nsac_clocks: u64,
    /// Binary logarithm of the ratio of write time to read time (R2W_FACTOR).
    pub write_factor: u32,
    /// Maximum clock rate in default speed, in Hz (TRAN_SPEED).
    pub clock_max: u32,
    /// Command classes.
    pub classes: u16,
    /// Erase granularity in blocks of 512 bytes.
    pub erase_sectors: u32,
    /// True if the card has a DSR.
    pub has_dsr: bool,
}

impl CsdFields {
    /// Class 8: application commands.
    pub const APPLICATION: u16 = 1 << 8;
    /// Class 10: CMD6.
    pub const SWITCH: u16 = 1 << 10;
    /// Class 5: erase.
    pub const ERASE: u16 = 1 << 5;

    /// Decodes the register. Returns `None` if its structure version is unknown.
    pub fn of(raw: &[u8; 16]) -> Option<Self> {
        const TENTHS: [u32; 16] = [0, 10, 12, 13, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80];
        let common = CsdFields {
            clock_max: match bits(raw, 96, 3) {
                exponent @ 0..=3 => 10_000 * 10_u32.pow(exponent) * TENTHS[bits(raw, 99, 4) as usize],
                _ => 0,
            },
            classes: bits(raw, 84, 12) as u16,
            has_dsr: bits(raw, 76, 1) == 1,
            ..CsdFields::default()
        };
        match bits(raw, 126, 2) {
            0 => {
                let block_bits = bits(raw, 80, 4);
                let write_bits = bits(raw, 22, 4);
                let blocks = u64::from(1 + bits(raw, 62, 12)) << (bits(raw, 47, 3) + 2);
                let erase_sectors = if bits(raw, 46, 1) == 1 {
                    1
                } else {
                    (bits(raw, 39, 7) + 1) << write_bits.saturating_sub(9)
                };
                let taac = u64::from(TENTHS[bits(raw, 115, 4) as usize]) * 10_u64.pow(bits(raw, 112, 3));
                Some(CsdFields {
                    sectors: blocks << block_bits >> 9,
                    taac_ns: taac.div_ceil(10),
                    nsac_clocks: u64::from(bits(raw, 104, 8)) * 100,
                    write_factor: bits(raw, 26, 3),
                    erase_sectors,
                    ..common
                })
            }
            structure @ (1 | 2) => {
                let ultra_structure = structure == 2;
                let size = bits(raw, 48, if ultra_structure { 28 } else { 22 });
                Some(CsdFields {
                    block_addressed: true,
                    extended_capacity: size >= 0xffff,
                    ultra_structure,
                    sectors: (u64::from(size) + 1) << 10,
                    write_factor: 4,
                    erase_sectors: 1,
                    ..common
                })
            }
            _ => None,
        }
    }

    /// Returns how long a host waits for a block: a hundred times the access time that the card reports,
    /// times the write factor for a write, but at most 100 ms for a read and 3 s for a write. For
    /// block-addressed cards, the limit is always this maximum.
    pub fn limit(&self, write: bool, clock_hz: u32) -> Duration {
        let longest = if write { Duration::from_secs(3) } else { Duration::from_ms(100) };
        let times = if write { 100 << self.write_factor } else { 100 };
        let ns = self.taac_ns * times;
        let clocks = self.nsac_clocks * times * 1_000_000 / u64::from(clock_hz / 1_000).max(1);
        match Duration::from_ns(ns + clocks) {
            limit if limit > longest || limit == Duration::ZERO || self.block_addressed => longest,
            limit => limit,
        }
    }
}

/// Fields of the SCR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScrFields {
    /// SD_SPEC: 0, 1 or 2.
    pub version: u8,
    /// True for specification 3.0 or later.
    pub version_3: bool,
    /// SD_SPECX, which is above 0 for specification 5.0 or later.
    pub version_x: u8,
    /// True if the card supports four data lines.
    pub four_lines: bool,
    /// True if the card supports the two mandatory widths, one and four data lines.
    pub widths_are_legal: bool,
    /// CMD_SUPPORT: bit 0 CMD20, 1 CMD23, 2 CMD48 and 49, 3 CMD58 and 59.
    pub commands: u8,
}

impl ScrFields {
    /// Decodes the register. Returns `None` if its structure version is unknown.
    pub fn of(raw: &[u8; 8]) -> Option<Self> {
        if bits(raw, 60, 4) != 0 {
            return None;
        }
        let version = bits(raw, 56, 4) as u8;
        let version_3 = version == 2 && bits(raw, 47, 1) == 1;
        let version_4 = version_3 && bits(raw, 42, 1) == 1;
        let commands = match (version_4, version_3) {
            (true, _) => bits(raw, 32, 4),
            (false, true) => bits(raw, 32, 2),
            (false, false) => 0,
        };
        let widths = bits(raw, 48, 4);
        Some(ScrFields {
            version,
            version_3,
            version_x: if version_3 { bits(raw, 38, 4) as u8 } else { 0 },
            four_lines: widths & 0b100 != 0,
            widths_are_legal: widths & 0b101 == 0b101,
            commands: commands as u8,
        })
    }
    /// Returns true if the card supports CMD23.
    pub fn has_set_block_count(&self) -> bool {
        self.commands & 0b10 != 0
    }
    /// Returns true if the card supports CMD48 and CMD49.
    pub fn has_extension_registers(&self) -> bool {
        self.commands & 0b100 != 0
    }
}

/// Fields of the SD Status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SsrFields {
    /// Size of an allocation unit in blocks of 512 bytes; 0 if not specified.
    pub unit_sectors: u32,
    /// Time to erase one allocation unit, in ms; 0 if not specified.
    pub erase_ms: u32,
    /// Constant part of the erase time, in ms.
    pub erase_offset_ms: u32,
    /// True if CMD38 supports discard.
    pub has_discard: bool,
}

impl SsrFields {
    /// Decodes the register.
    pub fn of(raw: &[u8; 64], scr: &ScrFields) -> Self {
        const SIZES_KIB: [u32; 16] =
            [0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 12_288, 16_384, 24_576, 32_768, 65_536];
        let mut fields =
            SsrFields { has_discard: scr.version_x > 0 && bits(raw, 313, 1) == 1, ..SsrFields::default() };
        let unit = bits(raw, 428, 4) as usize;
        if unit == 0 || (unit > 9 && !scr.version_3) {
            return fields;
        }
        fields.unit_sectors = SIZES_KIB[unit] * 2;
        let (size, timeout) = (bits(raw, 408, 16), bits(raw, 402, 6));
        if size != 0 && timeout != 0 {
            fields.erase_ms = timeout * 1000 / size;
            fields.erase_offset_ms = bits(raw, 400, 2) * 1000;
        }
        fields
    }
}

/// Fields of the switch function status from CMD6.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SwitchFields {
    /// Group 1: bus modes (bit 1 high speed or SDR25, 2 SDR50, 3 SDR104, 4 DDR50).
    pub modes: u16,
    /// Group 4: current limits.
    pub currents: u16,
    /// Selected functions, group 1 first.
    pub chosen: [u8; 6],
}

impl SwitchFields {
    /// Decodes the 64 bytes.
    pub fn of(raw: &[u8; 64]) -> Self {
        let chosen = [raw[16] & 15, raw[16] >> 4, raw[15] & 15, raw[15] >> 4, raw[14] & 15, raw[14] >> 4];
        SwitchFields {
            modes: u16::from_be_bytes([raw[12], raw[13]]),
            currents: u16::from_be_bytes([raw[6], raw[7]]),
            chosen,
        }
    }
    /// Returns true if group 1 supports function `n`.
    pub fn has_mode(&self, n: u8) -> bool {
        self.modes >> n & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex<const N: usize>(text: &str) -> [u8; N] {
        core::array::from_fn(|n| u8::from_str_radix(&text[2 * n..2 * n + 2], 16).unwrap())
    }

    #[test]
    fn the_limit_includes_the_clocks() {
        let csd = CsdFields { nsac_clocks: 100, ..CsdFields::default() };
        assert_eq!(csd.limit(false, 25_000_000), Duration::from_us(400), "100 times 100 clocks of 40 ns");
        let both = CsdFields { taac_ns: 1_000, ..csd };
        assert_eq!(both.limit(false, 25_000_000), Duration::from_us(500));
    }

    /// The registers that Linux printed in the logs of `crates/lab/tests/traces`, and the values that it decoded.
    #[test]
    fn registers_decode_as_in_linux() {
        let cid = CidFields::of(&hex("aa585951454d552101deadbeef006218"));
        assert_eq!((cid.manufacturer, cid.oem, &cid.name), (0xaa, 0x5859, b"QEMU!"));
        assert_eq!((cid.revision, cid.serial, cid.date), ((0, 1), 0xdead_beef, (2006, 2)));
        let csd = CsdFields::of(&hex("002600325f59e03fffffdfff926000d4")).unwrap();
        assert_eq!((csd.sectors * 512, csd.clock_max, csd.erase_sectors), (64 << 20, 25_000_000, 1));
        assert!(!csd.block_addressed);
        assert_eq!(csd.limit(true, 400_000), Duration::from_ms(2400));
        assert_eq!(csd.limit(false, 400_000), Duration::from_ms(100));
        let scr = ScrFields::of(&hex("0225000000000000")).unwrap();
        assert!(scr.four_lines && scr.version == 2 && !scr.version_3 && scr.commands == 0);

        let csd = CsdFields::of(&hex("400e00325b590000007f7f800a400001")).unwrap();
        assert_eq!((csd.sectors * 512, csd.block_addressed), (64 << 20, true));
        assert_eq!(csd.limit(true, 400_000), Duration::from_secs(3));
        let scr = ScrFields::of(&hex("0235800000000000")).unwrap();
        assert!(scr.version_3 && scr.commands == 0);
        let mut raw = [0; 64];
        raw[8..14].copy_from_slice(&[0x04, 0x00, 0x90, 0x00, 0x08, 0x05]);
        let ssr = SsrFields::of(&raw, &scr);
        assert_eq!((ssr.unit_sectors, ssr.erase_ms, ssr.erase_offset_ms), (8192, 125, 1000));
    }

    #[test]
    fn an_unknown_structure_is_refused() {
        let mut csd: [u8; 16] = hex("400e00325b590000007f7f800a400001");
        csd[0] = 0xc0;
        assert_eq!(CsdFields::of(&csd), None);
        assert_eq!(ScrFields::of(&hex("1225000000000000")), None);
    }
}
