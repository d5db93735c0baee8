//! The use of each erase block, for observers.

use super::{LogStructured, OpenBlock};
use crate::ftl::card::medium::Medium;
use crate::nand::EraseBlock;
use flashlab_sim::{BlockState, BlockUse, DataStream};

impl LogStructured {
    /// Returns the use of a block. The layer no longer knows the stream of a closed block, so such a block
    /// counts as host data.
    pub(in crate::ftl::card) fn use_of(&self, block: u32, medium: &Medium) -> BlockUse {
        let number = EraseBlock::new(block);
        if medium.blocks.is_bad(number) {
            return BlockUse::BAD;
        }
        if !medium.blocks.is_used(number) {
            return BlockUse::FREE;
        }
        let is_open = |open: &Option<OpenBlock>| open.is_some_and(|open| open.block == number);
        let (state, stream) = if is_open(&self.open_blocks.sequential) {
            (BlockState::Open, DataStream::Sequential)
        } else if is_open(&self.open_blocks.random) {
            (BlockState::Open, DataStream::Host)
        } else if self.open_blocks.leveled.iter().any(is_open) {
            (BlockState::Open, DataStream::Leveled)
        } else if self.idle_victim.current() == Some(number) {
            (BlockState::Victim, DataStream::Host)
        } else {
            (BlockState::Closed, DataStream::Host)
        };
        let valid = u64::from(self.valid[block as usize]) * 1_000_000 / u64::from(self.slots);
        BlockUse { state, stream: Some(stream), valid_ppm: valid as u32 }
    }
}
