//! Geometry of a flash array: channels, dies, planes, erase blocks, pages (the memory organisation of ONFI, JEDEC
//! JESD230).
//!
//! An [`EraseBlock`] is a *multi-plane* erase block: the blocks with the same number in all planes of a die.
//! These blocks are erased and programmed together, so one program writes `planes` pages. A read may use a
//! single plane. Blocks are striped over the dies, and dies over the channels, so that blocks with
//! consecutive numbers work in parallel. Not modelled: independent reads of planes, and several logical units
//! per die.

use crate::Impossible;
use alloc::format;
use serde::{Deserialize, Serialize};

/// Geometry of a flash array.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Geometry {
    /// Number of channels. A channel carries one transfer at a time.
    pub channels: u32,
    /// Dies per channel.
    pub dies: u32,
    /// Planes per die.
    pub planes: u32,
    /// Erase blocks per plane.
    pub blocks: u32,
    /// Pages per erase block.
    pub pages: u32,
    /// User data per page in bytes.
    pub page: u64,
}

crate::index::index! {
    /// A multi-plane erase block. Block `b` lies on die `b % die_count`.
    pub struct EraseBlock;
}

/// A die. Die `d` lies on channel `d % channels`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct Die(pub u32);

/// Upper bound for every count with a 32-bit index; leaves room for sums.
const COUNT_MAX: u64 = 1 << 31;
/// Upper bounds for channels and dies, which are searched linearly. No controller has more.
const CHANNELS_MAX: u32 = 256;
const DIES_MAX: u32 = 256;

impl Geometry {
    /// Checks the geometry.
    pub fn check(&self) -> Result<(), Impossible> {
        let counts = [
            ("nand.channels", self.channels, "channels"),
            ("nand.dies", self.dies, "dies on a channel"),
            ("nand.planes", self.planes, "planes in a die"),
            ("nand.blocks", self.blocks, "erase blocks in a plane"),
            ("nand.pages", self.pages, "pages in an erase block"),
        ];
        for (path, count, what) in counts {
            if count == 0 {
                return Err(Impossible::new(path, format!("is 0 {what}; expected at least 1")));
            }
        }
        for (path, count, most) in
            [("nand.channels", self.channels, CHANNELS_MAX), ("nand.dies", self.dies, DIES_MAX)]
        {
            if count > most {
                return Err(Impossible::new(path, format!("is {count}; expected at most {most}")));
            }
        }
        if self.page < 512 || !self.page.is_multiple_of(512) {
            return Err(Impossible::new(
                "nand.page",
                format!("is {} B; expected a whole number of 512 B, for example \"16KiB\"", self.page),
            ));
        }
        let program = u128::from(self.page) * u128::from(self.planes);
        if program >= u128::from(COUNT_MAX) {
            return Err(Impossible::new(
                "nand.page",
                format!("is {} B in {} planes: one program must be below 2 GiB", self.page, self.planes),
            ));
        }
        let dies = u64::from(self.channels) * u64::from(self.dies);
        let blocks = dies * u64::from(self.blocks);
        if blocks >= COUNT_MAX {
            return Err(Impossible::new(
                "nand.blocks",
                format!("is {} in each of {dies} dies; expected fewer than {COUNT_MAX} in all", self.blocks),
            ));
        }
        if u128::from(blocks) * u128::from(self.pages) * program >= 1 << 62 {
            return Err(Impossible::new(
                "nand.pages",
                format!("is {}: {blocks} erase blocks of this size exceed 4 EiB", self.pages),
            ));
        }
        Ok(())
    }

    /// Returns the number of dies on all channels.
    pub fn die_count(&self) -> u32 {
        self.channels * self.dies
    }
    /// Returns the number of multi-plane erase blocks on all dies.
    pub fn block_count(&self) -> u32 {
        self.die_count() * self.blocks
    }
    /// Returns the size in bytes of one program, a page in every plane.
    pub fn program_bytes(&self) -> u64 {
        u64::from(self.planes) * self.page
    }
    /// Returns the size in bytes of a multi-plane erase block.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.pages) * self.program_bytes()
    }
    /// Returns the raw size of the array in bytes.
    pub fn raw_bytes(&self) -> u64 {
        u64::from(self.block_count()) * self.block_bytes()
    }
    /// Returns the die of `block`.
    pub fn die_of(&self, block: EraseBlock) -> Die {
        Die(block.index() % self.die_count())
    }
    /// Returns the channel of `die`.
    pub fn channel_of(&self, die: Die) -> u32 {
        die.0 % self.channels
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    const ARRAY: Geometry =
        Geometry { channels: 8, dies: 4, planes: 2, blocks: 512, pages: 256, page: 16_384 };

    #[test]
    fn an_array_of_8_by_4_by_2_by_512_by_256_pages_of_16_kib_is_128_gib() {
        assert_eq!(ARRAY.check(), Ok(()));
        assert_eq!(ARRAY.die_count(), 32);
        assert_eq!(ARRAY.block_count(), 32 * 512);
        assert_eq!(ARRAY.program_bytes(), 32 << 10);
        assert_eq!(ARRAY.raw_bytes(), 128 << 30);
    }

    #[test]
    fn consecutive_blocks_lie_on_different_dies_and_consecutive_dies_on_different_channels() {
        assert_eq!(ARRAY.die_of(EraseBlock::new(31)), Die(31));
        assert_eq!(ARRAY.die_of(EraseBlock::new(32)), Die(0));
        assert_eq!(ARRAY.channel_of(Die(7)), 7);
        assert_eq!(ARRAY.channel_of(Die(8)), 0);
    }

    #[test]
    fn impossible_arrays_are_refused_with_the_number_and_its_place() {
        let wrong = [
            Geometry { dies: 0, ..ARRAY },
            Geometry { channels: 1_000, ..ARRAY },
            Geometry { page: 1_000, ..ARRAY },
            Geometry { planes: u32::MAX, ..ARRAY },
            Geometry { blocks: u32::MAX, ..ARRAY },
            Geometry { blocks: 1 << 20, pages: u32::MAX, ..ARRAY },
        ];
        let messages: alloc::vec::Vec<_> = wrong.iter().map(|g| g.check().unwrap_err().to_string()).collect();
        assert_eq!(
            messages,
            [
                "nand.dies is 0 dies on a channel; expected at least 1",
                "nand.channels is 1000; expected at most 256",
                "nand.page is 1000 B; expected a whole number of 512 B, for example \"16KiB\"",
                "nand.page is 16384 B in 4294967295 planes: one program must be below 2 GiB",
                "nand.blocks is 4294967295 in each of 32 dies; expected fewer than 2147483648 in all",
                "nand.pages is 4294967295: 33554432 erase blocks of this size exceed 4 EiB",
            ]
        );
    }
}
