//! The open blocks: one per stream, and one per pool for data that wear leveling moves.
//!
//! Each open block is a different used block that is not closed.

use super::{OpenBlock, Stream};
use alloc::vec;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The blocks that are being filled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OpenBlocks {
    /// Block for sequential data.
    pub(super) sequential: Option<OpenBlock>,
    /// Block for random data.
    pub(super) random: Option<OpenBlock>,
    /// Block of each pool for data that wear leveling moves.
    pub(super) leveled: Vec<Option<OpenBlock>>,
}

impl OpenBlocks {
    /// Returns no open blocks, for `pools` pools.
    pub(super) fn new(pools: usize) -> Self {
        OpenBlocks { sequential: None, random: None, leveled: vec![None; pools] }
    }

    /// Returns all open blocks.
    pub(super) fn iter(&self) -> impl Iterator<Item = &OpenBlock> {
        self.leveled.iter().chain([&self.sequential, &self.random]).flatten()
    }

    #[inline]
    pub(super) fn of(&self, stream: Stream) -> Option<OpenBlock> {
        match stream {
            Stream::Sequential => self.sequential,
            Stream::Random => self.random,
        }
    }

    #[inline]
    pub(super) fn of_mut(&mut self, stream: Stream) -> &mut Option<OpenBlock> {
        match stream {
            Stream::Sequential => &mut self.sequential,
            Stream::Random => &mut self.random,
        }
    }
}
