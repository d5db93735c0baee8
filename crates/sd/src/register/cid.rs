//! The card identification (CID): section 5.2.

use super::{bits, set_bits};
use crate::crc::crc7;

/// The card identification, without its CRC7, which [`Cid::with_crc`] computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cid(pub [u8; 16]);

impl Cid {
    /// Creates a CID from the manufacturer ID, OEM ID, product name, product revision (major number in the upper half
    /// byte), serial number, and the year (from 2000 on) and month of manufacture.
    pub fn new(
        manufacturer: u8,
        oem: [u8; 2],
        name: [u8; 5],
        revision: u8,
        serial: u32,
        (year, month): (u16, u8),
    ) -> Self {
        let mut cid = Cid([0; 16]);
        cid.0[0] = manufacturer;
        cid.0[1..3].copy_from_slice(&oem);
        cid.0[3..8].copy_from_slice(&name);
        cid.0[8] = revision;
        cid.0[9..13].copy_from_slice(&serial.to_be_bytes());
        set_bits(&mut cid.0, 19, 12, u64::from(year.saturating_sub(2000)));
        set_bits(&mut cid.0, 11, 8, u64::from(month));
        cid
    }

    /// Returns the manufacturer ID.
    pub fn manufacturer(&self) -> u8 {
        self.0[0]
    }
    /// Returns the OEM ID: two letters.
    pub fn oem(&self) -> [u8; 2] {
        [self.0[1], self.0[2]]
    }
    /// Returns the product name: five letters.
    pub fn name(&self) -> [u8; 5] {
        core::array::from_fn(|n| self.0[3 + n])
    }
    /// Returns the product revision: major and minor number.
    pub fn revision(&self) -> (u8, u8) {
        (self.0[8] >> 4, self.0[8] & 0xf)
    }
    /// Returns the serial number.
    pub fn serial(&self) -> u32 {
        bits(&self.0, 55, 24) as u32
    }
    /// Returns the year and month of manufacture.
    pub fn date(&self) -> (u16, u8) {
        (2000 + bits(&self.0, 19, 12) as u16, bits(&self.0, 11, 8) as u8)
    }
    /// Returns the register as sent over the wires, with CRC7 and end bit.
    pub fn with_crc(&self) -> [u8; 16] {
        with_crc(self.0)
    }
}

pub(super) fn with_crc(mut register: [u8; 16]) -> [u8; 16] {
    register[15] = crc7(&register[..15]) << 1 | 1;
    register
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cid_of_a_logged_card_is_encoded_and_decoded() {
        let cid = Cid::new(0xaa, *b"XY", *b"QEMU!", 1, 0xdead_beef, (2006, 2));
        assert_eq!(u128::from_be_bytes(cid.with_crc()), 0xaa58_5951_454d_5521_01de_adbe_ef00_6219);
        assert_eq!((cid.manufacturer(), cid.oem(), cid.name()), (0xaa, *b"XY", *b"QEMU!"));
        assert_eq!((cid.revision(), cid.serial(), cid.date()), ((0, 1), 0xdead_beef, (2006, 2)));
    }
}
