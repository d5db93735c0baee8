//! Set Features with feature identifier 0Dh, and its descriptor list.

use super::PAGE;
use serde::{Deserialize, Serialize};

/// Parameters of the command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct SetFeatures {
    /// EHM: enables the use of the memory.
    pub enable: bool,
    /// MR: memory, list and contents are unchanged since the host disabled the buffer.
    pub memory_return: bool,
    /// HSIZE: total number of memory pages.
    pub size: u32,
    /// HMDLUA and HMDLLA: address of the list, a multiple of 16.
    pub list: u64,
    /// HMDLEC: number of entries in the list.
    pub entries: u32,
}

impl SetFeatures {
    const ENABLE: u32 = 1 << 0;
    const MEMORY_RETURN: u32 = 1 << 1;

    /// Returns the command that disables the use of the memory.
    pub const DISABLE: SetFeatures =
        SetFeatures { enable: false, memory_return: false, size: 0, list: 0, entries: 0 };

    /// Returns dwords 11 to 15.
    pub fn to_dwords(&self) -> [u32; 5] {
        let flags =
            u32::from(self.enable) * Self::ENABLE + u32::from(self.memory_return) * Self::MEMORY_RETURN;
        [flags, self.size, self.list as u32, (self.list >> 32) as u32, self.entries]
    }

    /// Parses dwords 11 to 15 and ignores reserved bits, including those of the list's address.
    pub fn from_dwords(dwords: [u32; 5]) -> Self {
        let [flags, size, lower, upper, entries] = dwords;
        SetFeatures {
            enable: flags & Self::ENABLE != 0,
            memory_return: flags & Self::MEMORY_RETURN != 0,
            size,
            list: u64::from(upper) << 32 | u64::from(lower & !0xf),
            entries,
        }
    }
}

/// An entry of the list: contiguous pages of host memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Descriptor {
    /// BADD: address of the first page, a multiple of the page size.
    pub address: u64,
    /// BSIZE: number of pages.
    pub size: u32,
}

impl Descriptor {
    /// Size of an entry in bytes.
    pub const BYTES: usize = 16;

    /// Returns the entry as bytes.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    /// Parses an entry. The last four bytes are reserved.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let [a0, a1, a2, a3, a4, a5, a6, a7, s0, s1, s2, s3, ..] = *bytes;
        Descriptor {
            address: u64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
            size: u32::from_le_bytes([s0, s1, s2, s3]),
        }
    }

    /// Returns the size of the memory in bytes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.size) * PAGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_command_has_the_specified_layout() {
        let command =
            SetFeatures { enable: true, memory_return: true, size: 32_768, list: 0x1_2345_6780, entries: 32 };
        assert_eq!(command.to_dwords(), [0b11, 32_768, 0x2345_6780, 1, 32]);
        assert_eq!(SetFeatures::DISABLE.to_dwords(), [0; 5]);
        let bytes = Descriptor { address: 0x1_0000_1000, size: 1_024 }.to_bytes();
        assert_eq!(bytes, [0, 0x10, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0]);
    }

    proptest! {
        #[test]
        fn any_words_parse_and_round_trip(dwords in any::<[u32; 5]>(), entry in any::<[u8; 16]>()) {
            let command = SetFeatures::from_dwords(dwords);
            prop_assert_eq!(SetFeatures::from_dwords(command.to_dwords()), command);
            let descriptor = Descriptor::from_bytes(&entry);
            prop_assert_eq!(Descriptor::from_bytes(&descriptor.to_bytes()), descriptor);
            prop_assert_eq!(&descriptor.to_bytes()[..12], &entry[..12]);
        }
    }
}
