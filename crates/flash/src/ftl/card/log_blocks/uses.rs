//! The use of each erase block, for observers.

use super::{LogBlocks, OpenUnit};
use crate::ftl::card::medium::{Medium, OpenBlock};
use crate::nand::EraseBlock;
use flashlab_sim::{BlockState, BlockUse, DataStream};

impl LogBlocks {
    /// Returns the use of a block. The filled part of a log block counts as valid.
    pub(in crate::ftl::card) fn use_of(&self, block: u32, medium: &Medium) -> BlockUse {
        let number = EraseBlock::new(block);
        if medium.blocks.is_bad(number) {
            return BlockUse::BAD;
        }
        if !medium.blocks.is_used(number) {
            return BlockUse::FREE;
        }
        let bytes = self.bytes.bytes();
        let ppm = |valid: u64| (valid.min(bytes) * 1_000_000 / bytes) as u32;
        if let Some(unit) = self.owner[block as usize] {
            let start = u64::from(unit.index()) * bytes;
            let valid = self.mapped.bytes(&(start..(start + bytes).min(self.capacity)));
            return BlockUse {
                state: BlockState::Closed,
                stream: Some(DataStream::Host),
                valid_ppm: ppm(valid),
            };
        }
        let open_blocks = self.open.iter().map(|unit: &OpenUnit| &unit.open_block).chain(&self.partial);
        let open: Option<&OpenBlock> = open_blocks.into_iter().find(|open| open.block == number);
        let is_slc = |copy: &super::SlcCopy| copy.blocks.contains(&number);
        let stream = if open.is_some_and(OpenBlock::is_slc) || self.slc_copy.as_ref().is_some_and(is_slc) {
            DataStream::Slc
        } else {
            DataStream::Log
        };
        let (state, valid_ppm) = match open {
            Some(open) => (BlockState::Open, ppm(open.filled)),
            None => (BlockState::Closed, 1_000_000),
        };
        BlockUse { state, stream: Some(stream), valid_ppm }
    }
}
