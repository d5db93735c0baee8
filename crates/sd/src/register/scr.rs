//! The SD configuration register (SCR): section 5.6.

use super::{bits, set_bits};

/// Optional features that the card supports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scr(pub [u8; 8]);

impl Scr {
    /// Creates the SCR of a card that follows major version `major` of the specification, 2 or later, and supports one
    /// and four data lines.
    pub fn new(major: u8) -> Self {
        let mut scr = Scr([0; 8]);
        let set = |scr: &mut Scr, high, low, value| set_bits(&mut scr.0, high, low, value);
        set(&mut scr, 59, 56, 2);
        set(&mut scr, 50, 48, 0b101);
        set(&mut scr, 47, 47, u64::from(major >= 3));
        set(&mut scr, 42, 42, u64::from(major >= 4));
        set(&mut scr, 41, 38, u64::from(major.saturating_sub(4)));
        scr
    }

    /// Returns the major version of the specification: 1 to 9. Version 1.10 counts as 1.
    pub fn version(&self) -> u8 {
        let (spec, spec3, spec4, spec_x) = (
            bits(&self.0, 59, 56),
            bits(&self.0, 47, 47),
            bits(&self.0, 42, 42),
            bits(&self.0, 41, 38) as u8,
        );
        match (spec, spec3, spec4, spec_x) {
            (_, 1, _, 1..) => 4 + spec_x,
            (_, 1, 1, _) => 4,
            (_, 1, ..) => 3,
            (2.., ..) => 2,
            _ => 1,
        }
    }
    /// Returns true if erased data reads as ones, and false if it reads as zeroes.
    pub fn erased_are_ones(&self) -> bool {
        bits(&self.0, 55, 55) == 1
    }
    /// Sets whether erased data reads as ones.
    pub fn set_erased_are_ones(&mut self, ones: bool) {
        set_bits(&mut self.0, 55, 55, u64::from(ones));
    }
    /// Sets the version of the security specification: 0 none, 2 SDSC, 3 SDHC, 4 SDXC.
    pub fn set_security(&mut self, version: u8) {
        set_bits(&mut self.0, 54, 52, u64::from(version));
    }
    /// Returns true if the card supports four data lines.
    pub fn has_four_lines(&self) -> bool {
        bits(&self.0, 50, 50) == 1
    }
    /// Returns true if the card supports CMD20 (speed class control).
    pub fn has_speed_class_control(&self) -> bool {
        bits(&self.0, 32, 32) == 1
    }
    /// Returns true if the card supports CMD23 (set block count).
    pub fn has_set_block_count(&self) -> bool {
        bits(&self.0, 33, 33) == 1
    }
    /// Returns true if the card supports CMD48 and CMD49 (extension registers).
    pub fn has_extension_registers(&self) -> bool {
        bits(&self.0, 34, 34) == 1
    }
    /// Sets the support bits. From bit 0 on: CMD20; CMD23; CMD48 and CMD49; CMD58 and CMD59.
    pub fn set_commands(&mut self, commands: u8) {
        set_bits(&mut self.0, 35, 32, u64::from(commands));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_fields_distinguish_the_versions() {
        for version in 2..=9 {
            assert_eq!(Scr::new(version).version(), version);
        }
        assert_eq!(Scr([0x02, 0x25, 0, 0, 0, 0, 0, 0]).version(), 2);
        assert_eq!(Scr([0x02, 0x35, 0x80, 0, 0, 0, 0, 0]).version(), 3);
        assert_eq!(Scr([0x01, 0x25, 0, 0, 0, 0, 0, 0]).version(), 1);
    }
}
