//! The registers of a card: SD Physical Layer Specification, section 5.
//!
//! Each register is stored as its bytes, most significant first, as it is sent over the wires. Fields are read and
//! written by the bit numbers of the specification. No content is rejected: a card may report any values. A derived
//! value such as [`Csd::capacity`] is `None` if the register does not define it.

mod cid;
mod csd;
mod extension;
mod function;
mod identity;
mod ocr;
mod scr;
mod ssr;

pub use cid::Cid;
pub use csd::{Csd, CsdVersion};
pub(crate) use extension::Settings;
pub use extension::{Extensions, Health};
pub use function::{Functions, Group, Selection};
pub use identity::Identity;
pub use ocr::{Ocr, Voltage};
pub use scr::Scr;
pub use ssr::Ssr;

/// Tuning block that CMD19 sends on four lines: section 4.2.4.5.
pub const TUNING: [u8; 64] = [
    0xff, 0x0f, 0xff, 0x00, 0xff, 0xcc, 0xc3, 0xcc, 0xc3, 0x3c, 0xcc, 0xff, 0xfe, 0xff, 0xfe, 0xef, 0xff,
    0xdf, 0xff, 0xdd, 0xff, 0xfb, 0xff, 0xfb, 0xbf, 0xff, 0x7f, 0xff, 0x77, 0xf7, 0xbd, 0xef, 0xff, 0xf0,
    0xff, 0xf0, 0x0f, 0xfc, 0xcc, 0x3c, 0xcc, 0x33, 0xcc, 0xcf, 0xff, 0xef, 0xff, 0xee, 0xff, 0xfd, 0xff,
    0xfd, 0xdf, 0xff, 0xbf, 0xff, 0xbb, 0xff, 0xf7, 0xff, 0xf7, 0x7f, 0x7b, 0xde,
];

/// Returns the bits `high` to `low` of a register, at most 64 of them. Bit 0 is the lowest bit of the last byte.
pub(crate) fn bits(register: &[u8], high: u32, low: u32) -> u64 {
    (low..=high).rev().fold(0, |value, bit| {
        let byte = register[register.len() - 1 - bit as usize / 8];
        value << 1 | u64::from(byte >> (bit % 8) & 1)
    })
}

/// Sets the bits `high` to `low` to the lowest bits of `value`.
pub(crate) fn set_bits(register: &mut [u8], high: u32, low: u32, value: u64) {
    for bit in low..=high {
        let place = register.len() - 1 - bit as usize / 8;
        let mask = 1 << (bit % 8);
        register[place] = register[place] & !mask | if value >> (bit - low) & 1 == 1 { mask } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_from_the_last_bit() {
        let mut register = [0u8; 4];
        set_bits(&mut register, 19, 8, 0xabc);
        assert_eq!(register, [0, 0x0a, 0xbc, 0]);
        assert_eq!(bits(&register, 19, 8), 0xabc);
        assert_eq!(bits(&register, 31, 0), 0x000a_bc00);
    }
}
