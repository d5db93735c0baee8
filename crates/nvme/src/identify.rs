//! The Identify Controller data structure (NVM Express Base Specification 1.4, figure 247): 4096 bytes, little endian.
//!
//! This module covers the fields that name the drive, and those that a driver needs to size requests, to
//! detect caches and to grant host memory. Of the other bytes, SQES and CQES have fixed values and the rest
//! is zero when built; all of them are ignored when parsed. Any 4096 bytes can be parsed; [`Identify::check`]
//! reports contradictions.

use crate::hmb::PAGE;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use core::fmt;
use serde::{Deserialize, Serialize};

/// Size of the structure in bytes.
pub const BYTES: usize = 4096;

mod at {
    //! Offset of each field in bytes.
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

/// ONCS bit: the controller supports Dataset Management, a command that can deallocate (unmap) ranges.
pub const ONCS_DATASET_MANAGEMENT: u16 = 1 << 2;
/// VWC bit: a volatile write cache is present.
pub const VWC_PRESENT: u8 = 1;

/// The modelled fields.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Identify {
    /// VID: PCI vendor ID.
    pub vendor: u16,
    /// SSVID: PCI subsystem vendor ID.
    pub subsystem_vendor: u16,
    /// SN: serial number, at most 20 characters.
    pub serial: String,
    /// MN: model number, at most 40 characters.
    pub model: String,
    /// FR: firmware revision, at most 8 characters.
    pub firmware: String,
    /// MDTS: the largest transfer is 2^MDTS memory pages; 0 means no limit.
    pub mdts: u8,
    /// VER: version of the specification, for example 0x00010300 for 1.3.
    pub version: u32,
    /// HMPRE: preferred size of the host memory buffer in units of 4 KiB; 0 means no support.
    pub hmpre: u32,
    /// HMMIN: minimum size of the host memory buffer in units of 4 KiB.
    pub hmmin: u32,
    /// HMMINDS: minimum size of one descriptor in units of 4 KiB; 0 means no limit.
    pub hmminds: u32,
    /// HMMAXD: maximum number of descriptors; 0 means no limit.
    pub hmmaxd: u16,
    /// NN: number of namespaces.
    pub namespaces: u32,
    /// ONCS: bit field of optional commands.
    pub oncs: u16,
    /// VWC: bit field of the volatile write cache.
    pub vwc: u8,
}

impl Identify {
    /// Returns the structure as bytes. Texts are truncated to their fields, and characters other than printable ASCII
    /// become `?`.
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
        // Submission queue entries have 64 bytes, and completion queue entries have 16. These are both the
        // required and the maximum sizes.
        put(at::SQES, &[0x66]);
        put(at::CQES, &[0x44]);
        put(at::NN, &self.namespaces.to_le_bytes());
        put(at::ONCS, &self.oncs.to_le_bytes());
        put(at::VWC, &[self.vwc]);
        bytes
    }

    /// Parses the structure.
    ///
    /// # Errors
    /// Returns an error if the length is not 4096 bytes.
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

    /// Checks the fields for contradictions: HMMIN must not exceed HMPRE.
    ///
    /// # Errors
    /// Returns both values if HMMIN exceeds HMPRE.
    pub fn check(&self) -> Result<(), IdentifyError> {
        if self.hmmin > self.hmpre {
            return Err(IdentifyError::MinimumAbovePreferred { hmmin: self.hmmin, hmpre: self.hmpre });
        }
        Ok(())
    }

    /// Returns the size of the largest transfer in bytes, or `None` if there is no limit.
    pub fn transfer_max(&self) -> Option<u64> {
        (self.mdts > 0).then(|| PAGE.checked_shl(self.mdts.into()).unwrap_or(u64::MAX))
    }
    /// Returns the preferred size of the host memory buffer in bytes.
    pub fn preferred(&self) -> u64 {
        u64::from(self.hmpre) * PAGE
    }
    /// Returns the minimum size of the host memory buffer in bytes.
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

/// Error in an Identify Controller data structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdentifyError {
    /// The length is not 4096 bytes.
    WrongLength {
        /// Actual length.
        bytes: usize,
    },
    /// HMMIN exceeds HMPRE.
    MinimumAbovePreferred {
        /// HMMIN in units of 4 KiB.
        hmmin: u32,
        /// HMPRE in units of 4 KiB.
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
    fn host_memory_fields_have_their_specified_positions() {
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
    fn contradictions_are_reported_with_their_numbers() {
        let wrong = Identify { hmmin: 70_000, ..p32a80() };
        let text = wrong.check().expect_err("above HMPRE").to_string();
        assert!(text.contains("70000") && text.contains("61440") && text.contains("279:276"), "{text}");
        assert_eq!(Identify::parse(&[0; 12]), Err(IdentifyError::WrongLength { bytes: 12 }));
        assert_eq!(Identify { mdts: 255, ..p32a80() }.transfer_max(), Some(u64::MAX));
    }

    proptest! {
        #[test]
        fn any_bytes_parse_and_built_bytes_parse_back(changes in prop::collection::vec((0..BYTES, any::<u8>()), 0..200)) {
            let mut bytes = p32a80().to_bytes();
            for (place, byte) in changes {
                bytes[place] = byte;
            }
            let parsed = Identify::parse(&bytes[..]).expect("4096 bytes");
            let again = Identify::parse(&parsed.to_bytes()[..]).expect("4096 bytes");
            prop_assert_eq!(&again, &parsed);
            let _ = (parsed.check(), parsed.transfer_max(), parsed.preferred());
        }
    }
}
