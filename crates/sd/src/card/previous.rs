//! Previous contents of the blocks that a write has overwritten, which a power cut or an error brings back.
//!
//! The blocks are in ascending order of their addresses, since a write proceeds upwards.

use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{Store, StoreError, fault};

/// Previous content of a block.
#[derive(Clone, Debug)]
struct Block {
    /// Address of the block.
    offset: u64,
    /// Location of the block in the store.
    place: u64,
    length: usize,
    /// Position of the bytes in the preserved data; `None` if the block was zeroes.
    at: Option<usize>,
}

/// Previous contents of the blocks of a write.
#[derive(Clone, Debug, Default)]
pub(super) struct PreviousContents {
    blocks: Vec<Block>,
    /// Preserved data of all blocks that were not zeroes.
    bytes: Vec<u8>,
}

impl PreviousContents {
    /// Forgets all blocks. The memory remains allocated for the next write.
    pub(super) fn clear(&mut self) {
        self.blocks.clear();
        self.bytes.clear();
    }

    /// Preserves the block at the address `offset`, which is at `place` in the store.
    pub(super) fn save(
        &mut self,
        offset: u64,
        place: u64,
        length: usize,
        store: &dyn Store,
    ) -> Result<(), StoreError> {
        let held = store.data_in(place..place + length as u64)?.is_some();
        let at = self.bytes.len();
        if held {
            self.bytes.resize(at + length, 0);
            store.read(place, &mut self.bytes[at..])?;
        }
        self.blocks.push(Block { offset, place, length, at: held.then_some(at) });
        Ok(())
    }

    /// Restores the blocks of `range`.
    pub(super) fn restore(&self, range: &Range<u64>, store: &dyn Store) -> Result<(), StoreError> {
        let first = self.blocks.partition_point(|block| block.offset < range.start);
        let end = self.blocks.partition_point(|block| block.offset < range.end);
        // The newest block is restored first, because two addresses of a counterfeit card may share a
        // location in the store.
        let skipped = usize::from(fault("undo-forgets-a-block"));
        for block in self.blocks[first..end.max(first)].iter().rev().skip(skipped) {
            self.restore_block(block, store)?;
        }
        Ok(())
    }

    /// Restores the block at the address `offset`, if it was preserved.
    pub(super) fn restore_at(&self, offset: u64, store: &dyn Store) -> Result<(), StoreError> {
        let at = self.blocks.partition_point(|block| block.offset < offset);
        match self.blocks.get(at).filter(|block| block.offset == offset) {
            Some(block) => self.restore_block(block, store),
            None => Ok(()),
        }
    }

    fn restore_block(&self, block: &Block, store: &dyn Store) -> Result<(), StoreError> {
        match block.at {
            Some(at) => store.write(block.place, &self.bytes[at..at + block.length]),
            None => store.discard(block.place, block.length as u64),
        }
    }
}
