//! What a controller says of itself: the Identify Controller data structure (NVM Express Base Specification 1.4, figure
//! 247), 4096 bytes, little endian.
//!
//! The fields that a driver needs to size requests, to know of caches and to lend memory are taken apart; all other
//! bytes are zero when built and ignored when parsed. Any 4096 bytes parse; what contradicts itself, [`Identify::check`]
//! names.

use crate::hmb::PAGE;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Bytes of the structure.
pub const BYTES: usize = 4096;

mod at {
    //! First byte of each field.
    pub(super) const VID: usize = 0;
    pub(super) const SSVID: usize = 2;
    pub(super) const SN: usize = 4;
    pub(super) const MN: usize = 24;
    pub(super) const FR: usize = 64;
    pub(super) const MDTS: usize = 77;
    pub(super) const VER: usize = 80;
    pub(super) const HMPRE: usize = 272;
    pub(super) const HMMIN: usize = 276;
    pub(super) const HMMINDS: usize = 332;
    pub(super) const HMMAXD: usize = 336;
    pub(super) const SQES: usize = 512;
    pub(super) const CQES: usize = 513;
    pub(super) const NN: usize = 516;
    pub(super) const ONCS: usize = 520;
    pub(super) const VWC: usize = 525;
}

/// ONCS: the controller knows Dataset Management, whose Deallocate unmaps.
pub const ONCS_DATASET_MANAGEMENT: u16 = 1 << 2;
/// ONCS: the controller knows Write Zeroes.
pub const ONCS_WRITE_ZEROES: u16 = 1 << 3;
/// VWC: there is a volatile write cache.
pub const VWC_PRESENT: u8 = 1;

/// The fields that are modelled.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Identify {
    /// VID: the PCI vendor.
    pub vendor: u16,
    /// SSVID: the PCI subsystem vendor.
    pub subsystem_vendor: u16,
    /// SN: at most 20 characters.
    pub serial: String,
    /// MN: at most 40 characters.
    pub model: String,
    /// FR: at most 8 characters.
    pub firmware: String,
    /// MDTS: the largest transfer is 2^MDTS memory pages; 0: no limit.
    pub mdts: u8,
    /// VER: the version of the specification, 0x00010300 for 1.3.
    pub version: u32,
    /// HMPRE: the host memory that it would like, in units of 4 KiB; 0: it borrows none.
    pub hmpre: u32,
    /// HMMIN: the least with which it can do anything, in units of 4 KiB.
    pub hmmin: u32,
    /// HMMINDS: the least that one descriptor may lend, in units of 4 KiB; 0: no limit.
    pub hmminds: u32,
    /// HMMAXD: the most descriptors; 0: no limit.
    pub hmmaxd: u16,
    /// NN: namespaces.
    pub namespaces: u32,
    /// ONCS: optional commands, as bits.
    pub oncs: u16,
    /// VWC: the volatile write cache, as bits.
    pub vwc: u8,
}

impl Identify {
    /// The structure as the controller sends it. Texts are cut at their field's end; what is not printable ASCII
    /// becomes `?`.
    pub fn to_bytes(&self) -> Box<[u8; BYTES]> {
        let mut bytes: Box<[u8; BYTES]> =
            vec![0; BYTES].into_boxed_slice().try_into().expect("as many bytes as asked for");
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(at::VID, &self.vendor.to_le_bytes());
        put(at::SSVID, &self.subsystem_vendor.to_le_bytes());
        put(at::SN, &text::<20>(&self.serial));
        put(at::MN, &text::<40>(&self.model));
        put(at::FR, &text::<8>(&self.firmware));
        put(at::MDTS, &[self.mdts]);
        put(at::VER, &self.version.to_le_bytes());
        put(at::HMPRE, &self.hmpre.to_le_bytes());
        put(at::HMMIN, &self.hmmin.to_le_bytes());
        put(at::HMMINDS, &self.hmminds.to_le_bytes());
        put(at::HMMAXD, &self.hmmaxd.to_le_bytes());
        // Entries of 64 and 16 bytes, required and largest.
        put(at::SQES, &[0x66]);
        put(at::CQES, &[0x44]);
        put(at::NN, &self.namespaces.to_le_bytes());
        put(at::ONCS, &self.oncs.to_le_bytes());
        put(at::VWC, &[self.vwc]);
        bytes
    }

    /// Takes the structure apart.
    ///
    /// # Errors
    /// Where it is not 4096 bytes long.
    pub fn parse(bytes: &[u8]) -> Result<Identify, IdentifyError> {
        let bytes: &[u8; BYTES] =
            bytes.try_into().map_err(|_| IdentifyError::WrongLength { bytes: bytes.len() })?;
        let two = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let four = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Ok(Identify {
            vendor: two(at::VID),
            subsystem_vendor: two(at::SSVID),
            serial: read_text(&bytes[at::SN..at::SN + 20]),
            model: read_text(&bytes[at::MN..at::MN + 40]),
            firmware: read_text(&bytes[at::FR..at::FR + 8]),
            mdts: bytes[at::MDTS],
            version: four(at::VER),
            hmpre: four(at::HMPRE),
            hmmin: four(at::HMMIN),
            hmminds: four(at::HMMINDS),
            hmmaxd: two(at::HMMAXD),
            namespaces: four(at::NN),
            oncs: two(at::ONCS),
            vwc: bytes[at::VWC],
        })
    }

    /// Refuses what contradicts itself: the specification wants HMMIN not above HMPRE.
    ///
    /// # Errors
    /// With both numbers.
    pub fn check(&self) -> Result<(), IdentifyError> {
        if self.hmmin > self.hmpre {
            return Err(IdentifyError::MinimumAbovePreferred { hmmin: self.hmmin, hmpre: self.hmpre });
        }
        Ok(())
    }

    /// Bytes of the largest transfer; `None`: no limit.
    pub fn transfer_max(&self) -> Option<u64> {
        (self.mdts > 0).then(|| PAGE.checked_shl(self.mdts.into()).unwrap_or(u64::MAX))
    }
    /// Bytes of host memory that it would like.
    pub fn preferred(&self) -> u64 {
        u64::from(self.hmpre) * PAGE
    }
    /// The least bytes of host memory with which it can do anything.
    pub fn minimum(&self) -> u64 {
        u64::from(self.hmmin) * PAGE
    }
}

fn text<const N: usize>(from: &str) -> [u8; N] {
    let mut field = [b' '; N];
    for (place, c) in field.iter_mut().zip(from.chars()) {
        *place = if matches!(c, ' '..='~') { c as u8 } else { b'?' };
    }
    field
}

fn read_text(field: &[u8]) -> String {
    let text: String =
        field.iter().map(|b| if matches!(b, b' '..=b'~') { char::from(*b) } else { '?' }).collect();
    text.trim_end().into()
}

/// Why a structure is not understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentifyError {
    /// It is not 4096 bytes long.
    WrongLength {
        /// As long as it is.
        bytes: usize,
    },
    /// It needs more than it would like.
    MinimumAbovePreferred {
        /// In units of 4 KiB.
        hmmin: u32,
        /// In units of 4 KiB.
        hmpre: u32,
    },
}

impl fmt::Display for IdentifyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdentifyError::WrongLength { bytes } => {
                write!(f, "the Identify Controller data has {bytes} bytes instead of {BYTES}")
            }
            IdentifyError::MinimumAbovePreferred { hmmin, hmpre } => write!(
                f,
                "HMMIN (bytes 279:276) is {hmmin} x 4 KiB, above HMPRE (bytes 275:272), {hmpre} x 4 KiB: a controller \
                 cannot need more host memory than it would like"
            ),
        }
    }
}

impl core::error::Error for IdentifyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use proptest::prelude::*;

    fn p32a80() -> Identify {
        Identify {
            vendor: 0x1b4b,
            subsystem_vendor: 0x1b4b,
            serial: "A1".into(),
            model: "SPCC M.2 PCIe SSD".into(),
            firmware: "1.0".into(),
            mdts: 5,
            version: 0x0001_0300,
            hmpre: 61_440,
            hmmin: 2_048,
            hmminds: 0,
            hmmaxd: 0,
            namespaces: 1,
            oncs: ONCS_DATASET_MANAGEMENT,
            vwc: VWC_PRESENT,
        }
    }

    #[test]
    fn host_memory_lies_where_the_specification_puts_it() {
        let bytes = p32a80().to_bytes();
        assert_eq!(bytes[272..276], [0x00, 0xf0, 0, 0], "61440 = 0xf000");
        assert_eq!(bytes[276..280], [0x00, 0x08, 0, 0]);
        assert_eq!(&bytes[24..41], b"SPCC M.2 PCIe SSD");
        assert!(bytes[41..64].iter().all(|b| *b == b' '), "padded with spaces");
        let parsed = Identify::parse(&bytes[..]).expect("4096 bytes");
        assert_eq!(parsed, p32a80());
        assert_eq!((parsed.preferred(), parsed.minimum()), (240 << 20, 8 << 20));
        assert_eq!(parsed.transfer_max(), Some(128 << 10));
    }

    #[test]
    fn what_contradicts_itself_is_named_with_its_numbers() {
        let wrong = Identify { hmmin: 70_000, ..p32a80() };
        let text = wrong.check().expect_err("above HMPRE").to_string();
        assert!(text.contains("70000") && text.contains("61440") && text.contains("279:276"), "{text}");
        assert_eq!(Identify::parse(&[0; 12]), Err(IdentifyError::WrongLength { bytes: 12 }));
        assert_eq!(Identify { mdts: 255, ..p32a80() }.transfer_max(), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_and_what_was_built_parses_back(places in prop::collection::vec((0..BYTES, any::<u8>()), 0..200)) {
            let mut bytes = p32a80().to_bytes();
            for (place, byte) in places {
                bytes[place] = byte;
            }
            let parsed = Identify::parse(&bytes[..]).expect("4096 bytes");
            let again = Identify::parse(&parsed.to_bytes()[..]).expect("4096 bytes");
            prop_assert_eq!(&again, &parsed);
            let _ = (parsed.check(), parsed.transfer_max(), parsed.preferred());
        }
    }
}
