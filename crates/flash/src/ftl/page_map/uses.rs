//! The use of each erase block, for observers.

use super::PageMap;
use super::block_states::{Phase, Stream};
use flashlab_sim::{BlockState, BlockUse, DataStream};

impl PageMap {
    /// Returns the use of a block.
    pub(super) fn use_of(&self, block: u32) -> BlockUse {
        let state = self.blocks.get(block);
        let phase = match state.phase {
            Phase::Free => return BlockUse::FREE,
            Phase::Bad => return BlockUse::BAD,
            Phase::Open => BlockState::Open,
            Phase::Closed => BlockState::Closed,
            Phase::Failed | Phase::Victim | Phase::Drained | Phase::Erasing => BlockState::Victim,
        };
        let stream = match state.stream {
            _ if state.slc => DataStream::Slc,
            Stream::Host => DataStream::Host,
            Stream::GarbageCollection | Stream::Cold => DataStream::Collected,
            Stream::WearLeveling => DataStream::Leveled,
            Stream::Map => DataStream::Map,
        };
        let units = self.layout.pages_of(state.slc) * self.layout.units_per_page;
        let valid_ppm = u64::from(self.valid_in(block)) * 1_000_000 / u64::from(units);
        BlockUse { state: phase, stream: Some(stream), valid_ppm: valid_ppm as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::page_map::{Accepted, PageMapParameters};
    use alloc::vec::Vec;

    #[test]
    fn the_uses_of_all_blocks_agree_with_the_counts_of_the_layer() {
        let mut layer = PageMap::new(&PageMapParameters::tiny(), 1);
        let units = layer.units();
        for n in 0..units * 3 {
            while layer.write(n * 7 % units) == Accepted::Full {
                layer.settle();
            }
        }
        layer.flush();
        layer.settle();
        let uses: Vec<BlockUse> = (0..layer.layout.blocks).map(|block| layer.use_of(block)).collect();
        let per_block = u64::from(layer.layout.units_per_block);
        let rounded_down = |of: &BlockUse| u64::from(of.valid_ppm) * per_block / 1_000_000;
        let valid: u64 = uses.iter().map(rounded_down).sum();
        assert!(valid <= layer.valid_units(), "{valid}");
        assert!(valid + uses.len() as u64 >= layer.valid_units(), "{valid} of {}", layer.valid_units());
        let free = uses.iter().filter(|of| **of == BlockUse::FREE).count() as u32;
        assert_eq!(free, layer.blocks().free_count_total());
        let open = uses.iter().filter(|of| of.state == BlockState::Open).count() as u32;
        assert_eq!(open, layer.blocks.count(Phase::Open));
        assert!(uses.iter().any(|of| of.stream == Some(DataStream::Host)), "{uses:?}");
    }
}
