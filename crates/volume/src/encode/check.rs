//! Checksums and authentication tags of stored bytes.

use super::DecodeError;
use crate::keys::Tag;
use twox_hash::XxHash3_64;

/// Algorithm for the checksums of a volume without encryption. The number is the byte on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Checksum {
    /// CRC-32C (Castagnoli), as iSCSI, ext4 and btrfs use it: 4 bytes per unit.
    #[default]
    Crc32c = 1,
    /// XXH3 with 64 bits and seed 0: 8 bytes per unit, and fewer undetected errors.
    Xxh3 = 2,
}

impl Checksum {
    /// Returns the algorithm with this number, or `None` if the number is unknown.
    pub fn from_byte(byte: u8) -> Option<Checksum> {
        match byte {
            1 => Some(Checksum::Crc32c),
            2 => Some(Checksum::Xxh3),
            _ => None,
        }
    }

    /// Returns the algorithm with this name, or `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<Checksum> {
        [Checksum::Crc32c, Checksum::Xxh3].into_iter().find(|checksum| checksum.name() == name)
    }

    /// Returns the name of the algorithm, as options give it.
    pub fn name(self) -> &'static str {
        match self {
            Checksum::Crc32c => "crc32c",
            Checksum::Xxh3 => "xxh3",
        }
    }

    /// Computes the checksums of bytes, one per unit.
    pub fn of(self, bytes: &[u8], unit: u32) -> Check {
        let units = bytes.chunks(unit as usize);
        match self {
            Checksum::Crc32c => Check::Crc32c(units.map(crc32c::crc32c).collect()),
            Checksum::Xxh3 => Check::Xxh3(units.map(XxHash3_64::oneshot).collect()),
        }
    }
}

/// Checksums or authentication tags of stored bytes: one for each unit of an uncompressed extent, or a single
/// one for a compressed extent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// CRC-32C of each unit.
    Crc32c(Vec<u32>),
    /// XXH3 of each unit.
    Xxh3(Vec<u64>),
    /// Authentication tag of each encrypted unit.
    Tags(Vec<Tag>),
}

impl Check {
    /// Returns the number of units.
    pub fn units(&self) -> usize {
        match self {
            Check::Crc32c(sums) => sums.len(),
            Check::Xxh3(sums) => sums.len(),
            Check::Tags(tags) => tags.len(),
        }
    }

    /// Verifies checksums; `stored` begins with the unit `first`. The caller has checked that the units exist.
    pub(super) fn verify(&self, stored: &[u8], first: usize, unit: u32) -> Result<(), DecodeError> {
        let units = stored.chunks(unit as usize);
        let agree = match self {
            Check::Crc32c(sums) => units.zip(&sums[first..]).all(|(unit, sum)| crc32c::crc32c(unit) == *sum),
            Check::Xxh3(sums) => {
                units.zip(&sums[first..]).all(|(unit, sum)| XxHash3_64::oneshot(unit) == *sum)
            }
            Check::Tags(_) => return Err(DecodeError::KeyNotAvailable),
        };
        if agree { Ok(()) } else { Err(DecodeError::Mismatch) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_agree_with_published_values() {
        // CRC-32C: RFC 3720, appendix B.4, and the usual check value of "123456789".
        assert_eq!(Checksum::Crc32c.of(&[0; 32], 32), Check::Crc32c(vec![0x8a91_36aa]));
        assert_eq!(Checksum::Crc32c.of(&[0xff; 32], 32), Check::Crc32c(vec![0x62a8_ab43]));
        assert_eq!(Checksum::Crc32c.of(b"123456789", 32), Check::Crc32c(vec![0xe306_9283]));
        // XXH3: the sanity check of the reference implementation for the empty input.
        assert_eq!(XxHash3_64::oneshot(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(Checksum::Xxh3.of(b"unit", 4), Check::Xxh3(vec![XxHash3_64::oneshot(b"unit")]));
    }

    #[test]
    fn names_and_numbers_are_unique() {
        for checksum in [Checksum::Crc32c, Checksum::Xxh3] {
            assert_eq!(Checksum::from_byte(checksum as u8), Some(checksum));
            assert_eq!(Checksum::from_name(checksum.name()), Some(checksum));
        }
        assert_eq!((Checksum::from_byte(0), Checksum::from_name("md5")), (None, None));
    }
}
