//! The erase blocks of a device as a picture of limited size.

use crate::statistics::in_use;
use flashlab_sim::{BlockState, BlockUse, DataStream, EraseBlocks, Model, Observer};
use serde::Serialize;

/// Largest number of cells in a picture. A device with more blocks shows several blocks per cell.
const CELLS_MAX: usize = 4_096;

/// The erase blocks, one or several per cell.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct BlockPicture {
    /// Number of blocks.
    pub count: usize,
    /// Bytes of a block.
    pub block_bytes: u64,
    /// Blocks per cell.
    pub per_cell: usize,
    /// Greatest erase count in each cell.
    pub erases: Vec<u32>,
    /// Share of valid data in each cell, as a letter: `a` for none up to `z` for all; empty if unknown.
    pub valid: String,
    /// State or stream of one block of each cell, as a character; empty if unknown. `.` is free, `x` bad, and
    /// `v` being emptied. Other letters state the stream, in upper case for open blocks and in lower case for
    /// closed blocks: `h` host, `s` sequential, `g` garbage collection, `w` wear leveling, `m` map, `l` log,
    /// `c` one bit per cell.
    pub uses: String,
    /// Smallest, mean and greatest erase count of the blocks that are not bad.
    pub wear: (u32, f64, u32),
    /// Number of bad blocks.
    pub bad: usize,
    /// Erases that a block is rated for.
    pub rated_cycles: Option<u32>,
}

/// Counters, fill levels and blocks of a device.
#[derive(Default)]
pub struct Observed {
    /// Counters since the device was new.
    pub counters: Vec<(&'static str, u64)>,
    /// Fill levels of caches and buffers: name, used bytes, capacity.
    pub levels: Vec<(&'static str, u64, u64)>,
    /// The erase blocks, if the device models them.
    pub blocks: Option<BlockPicture>,
}

impl Observed {
    /// Observes a device.
    pub fn of(model: &dyn Model) -> Observed {
        let mut observed = Observed::default();
        model.observe(&mut observed);
        observed
    }
}

impl Observer for Observed {
    fn count(&mut self, name: &'static str, value: u64) {
        match self.counters.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += value,
            None => self.counters.push((name, value)),
        }
    }

    fn erase_blocks(&mut self, blocks: &EraseBlocks<'_>) {
        let picture = self.blocks.get_or_insert_default();
        let counts = blocks.erase_counts;
        picture.count = counts.len();
        picture.block_bytes = blocks.bytes;
        picture.per_cell = counts.len().div_ceil(CELLS_MAX).max(1);
        picture.erases =
            counts.chunks(picture.per_cell).map(|cell| cell.iter().copied().max().unwrap_or(0)).collect();
        picture.bad = blocks.bad.len();
        picture.rated_cycles = blocks.rated_cycles;
        let (mut min, mut max, mut sum, mut number) = (u32::MAX, 0, 0_u64, 0_u64);
        for count in in_use(counts, blocks.bad) {
            (min, max) = (min.min(count), max.max(count));
            sum += u64::from(count);
            number += 1;
        }
        picture.wear = (min.min(max), sum as f64 / number.max(1) as f64, max);
    }

    fn block_uses(&mut self, count: u32, use_of: &dyn Fn(u32) -> BlockUse) {
        let picture = self.blocks.get_or_insert_default();
        let per_cell = (count as usize).div_ceil(CELLS_MAX).max(1);
        let mut block = 0;
        while block < count {
            let end = (block + per_cell as u32).min(count);
            let uses = || (block..end).map(use_of);
            let valid: u64 = uses().map(|of| u64::from(of.valid_ppm)).sum();
            let mean_ppm = valid / u64::from(end - block);
            picture.valid.push(char::from(b'a' + (mean_ppm * 25 / 1_000_000).min(25) as u8));
            // The block with the highest rank represents the cell.
            let representative = uses().max_by_key(rank).unwrap_or(BlockUse::FREE);
            picture.uses.push(letter(&representative));
            block = end;
        }
    }

    fn level(&mut self, name: &'static str, used: u64, capacity: u64) {
        self.levels.push((name, used, capacity));
    }
}

/// Returns the rank of a block among those of its cell, by its state.
fn rank(of: &BlockUse) -> u8 {
    match of.state {
        BlockState::Free => 0,
        BlockState::Closed => 1,
        BlockState::Bad => 2,
        BlockState::Victim => 3,
        BlockState::Open => 4,
    }
}

fn letter(of: &BlockUse) -> char {
    let stream = match of.stream {
        None | Some(DataStream::Host) => 'h',
        Some(DataStream::Sequential) => 's',
        Some(DataStream::Collected) => 'g',
        Some(DataStream::Leveled) => 'w',
        Some(DataStream::Map) => 'm',
        Some(DataStream::Log) => 'l',
        Some(DataStream::Slc) => 'c',
    };
    match of.state {
        BlockState::Free => '.',
        BlockState::Bad => 'x',
        BlockState::Victim => 'v',
        BlockState::Open => stream.to_ascii_uppercase(),
        BlockState::Closed => stream,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_device_shows_several_blocks_per_cell() {
        let counts: Vec<u32> = (0..10_000).collect();
        let mut observed = Observed::default();
        observed.erase_blocks(&EraseBlocks {
            bytes: 4 << 20,
            erase_counts: &counts,
            bad: &[0, 9_999],
            rated_cycles: Some(3_000),
            limit: &|_| None,
        });
        observed.block_uses(10_000, &|block| match block {
            4 => BlockUse { state: BlockState::Open, stream: Some(DataStream::Map), valid_ppm: 0 },
            0..=5 => BlockUse { state: BlockState::Closed, stream: None, valid_ppm: 1_000_000 },
            9_999 => BlockUse::BAD,
            _ => BlockUse::FREE,
        });
        let picture = observed.blocks.expect("blocks were reported");
        assert_eq!((picture.per_cell, picture.erases.len()), (3, 3_334));
        assert_eq!(picture.erases[..2], [2, 5]);
        assert_eq!((&picture.uses[..3], &picture.valid[..3]), ("hM.", "zqa"));
        assert!(picture.uses.ends_with('x'));
        assert_eq!(picture.wear, (1, 4_999.5, 9_998), "without the bad blocks");
    }
}
