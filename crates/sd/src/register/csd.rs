//! The card-specific data (CSD): section 5.3. SDSC cards use version 1, SDHC and SDXC version 2, SDUC version 3.

use super::cid::with_crc;
use super::{bits, set_bits};

/// CSD structure version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CsdVersion {
    /// Up to 2 GiB; addresses count bytes.
    V1,
    /// Up to 2 TiB; addresses count blocks.
    V2,
    /// Up to 128 TiB; addresses count blocks, and CMD22 supplies their upper bits.
    V3,
}

/// The card-specific data, without its CRC7, which [`Csd::with_crc`] computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Csd(pub [u8; 16]);

impl Csd {
    /// The largest capacity of version 1: 4096 units of 512 blocks of 1 KiB.
    pub const V1_MAX: u64 = 2 << 30;
    /// The largest capacity of version 2.
    pub const V2_MAX: u64 = 2 << 40;
    /// TRAN_SPEED: 25 MHz.
    pub const TRAN_SPEED_25_MHZ: u8 = 0x32;
    /// TRAN_SPEED: 50 MHz, in high speed.
    pub const TRAN_SPEED_50_MHZ: u8 = 0x5a;

    /// Creates the CSD of a card of `capacity` bytes, rounded down to a value that the CSD version can represent. The
    /// command classes are 0, 2, 4, 5, 7, 8 and 10. Version 1 also has class 6 (write protection groups).
    pub fn new(capacity: u64) -> Self {
        let mut csd = Csd([0; 16]);
        let mut set = |high, low, value| set_bits(&mut csd.0, high, low, value);
        set(119, 112, 0x0e);
        set(103, 96, u64::from(Csd::TRAN_SPEED_25_MHZ));
        set(46, 46, 1);
        set(45, 39, 0x7f);
        set(28, 26, 2);
        if capacity <= Csd::V1_MAX {
            set(119, 112, 0x26);
            set(95, 84, 0x5f5);
            // READ_BL_LEN is 512 B up to 1 GiB, and 1 KiB above.
            let length = if capacity > 1 << 30 { 10 } else { 9 };
            let mut mult = 0;
            while capacity >> (length + 2 + mult) > 4096 {
                mult += 1;
            }
            set(83, 80, length);
            set(79, 79, 1);
            set(73, 62, (capacity >> (length + 2 + mult)).saturating_sub(1));
            set(61, 50, 0xfff);
            set(49, 47, mult);
            // The write protection groups have 64 sectors of 64 KiB.
            set(38, 32, 0x3f);
            set(31, 31, 1);
            set(25, 22, length);
        } else {
            set(95, 84, 0x5b5);
            set(83, 80, 9);
            set(25, 22, 9);
            let size = (capacity >> 19) - 1;
            if capacity <= Csd::V2_MAX {
                set(127, 126, 1);
                set(69, 48, size);
            } else {
                set(127, 126, 2);
                set(75, 48, size);
            }
        }
        csd
    }

    /// Returns the CSD version, or `None` if it is reserved.
    pub fn version(&self) -> Option<CsdVersion> {
        match bits(&self.0, 127, 126) {
            0 => Some(CsdVersion::V1),
            1 => Some(CsdVersion::V2),
            2 => Some(CsdVersion::V3),
            _ => None,
        }
    }
    /// Returns the capacity in bytes.
    pub fn capacity(&self) -> Option<u64> {
        Some(match self.version()? {
            CsdVersion::V1 => {
                (bits(&self.0, 73, 62) + 1) << (bits(&self.0, 49, 47) + 2 + bits(&self.0, 83, 80))
            }
            CsdVersion::V2 => (bits(&self.0, 69, 48) + 1) << 19,
            CsdVersion::V3 => (bits(&self.0, 75, 48) + 1) << 19,
        })
    }
    /// Returns TRAN_SPEED.
    pub fn tran_speed(&self) -> u8 {
        bits(&self.0, 103, 96) as u8
    }
    /// Sets TRAN_SPEED, which changes with the access mode.
    pub fn set_tran_speed(&mut self, code: u8) {
        set_bits(&mut self.0, 103, 96, u64::from(code));
    }
    /// Returns CCC: a bit for each command class.
    pub fn classes(&self) -> u16 {
        bits(&self.0, 95, 84) as u16
    }
    /// Returns the size of the largest block in bytes: 2^READ_BL_LEN.
    pub fn block(&self) -> u32 {
        1 << bits(&self.0, 83, 80)
    }
    /// Returns true if the host may read partial blocks (READ_BL_PARTIAL).
    pub fn reads_parts(&self) -> bool {
        bits(&self.0, 79, 79) == 1
    }
    /// Returns true if a read block may cross a physical block boundary (READ_BLK_MISALIGN).
    pub fn reads_misaligned(&self) -> bool {
        bits(&self.0, 77, 77) == 1
    }
    /// Returns true if the card has a driver stage register (DSR).
    pub fn has_dsr(&self) -> bool {
        bits(&self.0, 76, 76) == 1
    }
    /// Returns the erase granularity in bytes: a block if ERASE_BLK_EN is set, a sector otherwise.
    pub fn erase_bytes(&self) -> u64 {
        if bits(&self.0, 46, 46) == 1 { 512 } else { self.sector_bytes() }
    }
    fn sector_bytes(&self) -> u64 {
        ((bits(&self.0, 45, 39) + 1) << bits(&self.0, 25, 22)).next_multiple_of(512)
    }
    /// Returns the size of a write protection group in bytes, if the card has such groups.
    pub fn write_protect_group(&self) -> Option<u64> {
        (bits(&self.0, 31, 31) == 1).then(|| self.sector_bytes() * (bits(&self.0, 38, 32) + 1))
    }
    /// Returns PERM_WRITE_PROTECT.
    pub fn is_permanently_protected(&self) -> bool {
        bits(&self.0, 13, 13) == 1
    }
    /// Returns TMP_WRITE_PROTECT.
    pub fn is_temporarily_protected(&self) -> bool {
        bits(&self.0, 12, 12) == 1
    }
    /// Sets PERM_WRITE_PROTECT and TMP_WRITE_PROTECT.
    pub fn set_protected(&mut self, permanently: bool, temporarily: bool) {
        set_bits(&mut self.0, 13, 13, u64::from(permanently));
        set_bits(&mut self.0, 12, 12, u64::from(temporarily));
    }

    /// Returns the CSD after CMD27 with the data `new`. Returns `None` if the CRC7 of `new` is wrong, if `new` changes
    /// bits other than the writable bits 15 to 8, or if it clears COPY or PERM_WRITE_PROTECT.
    pub fn programmed(&self, new: &[u8; 16]) -> Option<Csd> {
        let turned_back = |bit| bits(&self.0, bit, bit) == 1 && bits(new, bit, bit) == 0;
        let mut other = Csd(*new);
        let right = other.with_crc()[15] == new[15] && other.0[..14] == self.0[..14];
        other.0[15] = self.0[15];
        (right && !turned_back(14) && !turned_back(13)).then_some(other)
    }

    /// Returns the register as sent over the wires, with CRC7 and end bit.
    pub fn with_crc(&self) -> [u8; 16] {
        with_crc(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_encodes_the_exact_capacity() {
        const GIB: u64 = 1 << 30;
        for capacity in [64 << 20, 488 << 20, GIB, 2 * GIB, 30_517 << 20, 64 * GIB, 2048 * GIB, 8192 * GIB] {
            let csd = Csd::new(capacity);
            assert_eq!(csd.capacity(), Some(capacity), "{:?}", csd.version());
        }
        assert_eq!(Csd::new(2 * GIB).version(), Some(CsdVersion::V1));
        assert_eq!(Csd::new(2 * GIB).block(), 1024);
        assert_eq!(Csd::new(4096 * GIB).version(), Some(CsdVersion::V3));
    }

    #[test]
    fn the_csds_of_logged_cards_are_decoded() {
        let csd = Csd(0x0026_0032_5f59_e03f_ffff_dfff_9260_0000_u128.to_be_bytes());
        assert_eq!((csd.version(), csd.capacity()), (Some(CsdVersion::V1), Some(64 << 20)));
        assert_eq!(csd.with_crc()[15], 0xd5);
        assert_eq!(csd.classes(), 0x5f5);
        assert_eq!(csd.erase_bytes(), 512);
        let csd = Csd(0x400e_0032_5b59_0000_007f_7f80_0a40_0001_u128.to_be_bytes());
        assert_eq!((csd.version(), csd.capacity()), (Some(CsdVersion::V2), Some(64 << 20)));
    }

    #[test]
    fn cmd27_changes_only_writable_bits() {
        let csd = Csd::new(64 << 20);
        let mut protected = csd;
        protected.set_protected(true, true);
        let programmed = csd.programmed(&protected.with_crc()).expect("the changed bits are writable");
        assert!(programmed.is_permanently_protected());
        assert_eq!(programmed.programmed(&csd.with_crc()), None, "permanent protection cannot be removed");
        let mut larger = csd.with_crc();
        larger[8] ^= 1;
        assert_eq!(csd.programmed(&larger), None, "the capacity is read-only");
    }
}
