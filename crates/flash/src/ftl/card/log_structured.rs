//! Where data lies on a card that fills erase blocks in the order of its writes.
//!
//! Each granule's place is known (erase block and slot), and what each block holds, so that live data is counted to the
//! granule. A block of which nothing lives is free. SequentialStreams, what is written piecemeal, and what leveling moves go to
//! blocks of their own, so that what is overwritten together dies together.
//!
//! When next to no blocks are free, the closed one with the least live data is collected: its live granules are written,
//! packed, behind what is written piecemeal. A card collects ahead of that where it does not hurt, as long as an eighth of
//! the victim is dead: while it is idle, page by page, until as many blocks are free as it has to spare (a page that would
//! not be done when the next command comes is not begun); and up to two victims for each block that a stream fills, until
//! three quarters as many are free, so that small writes find free blocks.
//!
//! # Guarantees
//! [`LogStructured::validate`]: a granule's place holds that granule, each block's live count is the number of such places, a
//! closed block without any is free.

mod validate;

use super::medium::{Medium, OpenBlock, Run, Work};
use crate::ftl::ReadOnly;
use crate::ftl::gc::{Candidates, VictimPolicy};
use crate::nand::EraseBlock;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

/// Location of a granule that lies nowhere, and granule of a slot that holds none. Not an `Option`: whole runs of locations
/// are compared and shifted together.
const UNMAPPED: u32 = u32::MAX;
/// Free blocks that collection keeps: one to collect into, one for what leveling moves.
const RESERVE: u32 = 2;
/// The most blocks that are collected for each one that a stream fills.
const VICTIMS_AHEAD_MAX: u32 = 2;
/// Granules in a chunk of the map; chunks are made when something in them is written.
const CHUNK: usize = 1024;

/// What a block is filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Stream {
    /// What is written in sequence.
    Sequential,
    /// What is written piecemeal, rewritten because of that, or collected.
    Random,
}

/// The places of all granules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LogStructured {
    granule: u64,
    page: u64,
    /// Slots of an erase block; one granule each.
    slots: u32,
    /// Bits of a place that say the slot; above them is the block.
    slot_bits: u32,
    /// Each granule's place.
    locations: Vec<Option<Box<[u32]>>>,
    /// The granule that was written to each slot of a block that is not free.
    reverse_map: Vec<Box<[u32]>>,
    /// How many granules live in each block.
    valid: Vec<u32>,
    /// The blocks that are full, by how many live in them.
    candidates: Candidates,
    /// Blocks that are full.
    closed: Vec<bool>,
    /// What is left of the block that is collected while the card is idle.
    idle_victim: Option<EraseBlock>,
    idle_remaining: Vec<u32>,
    /// Blocks that the capacity takes.
    data_blocks: u32,
    /// The blocks being filled, by what they are filled with; with what leveling moves, one a pool.
    sequential: Option<OpenBlock>,
    random: Option<OpenBlock>,
    leveled: Vec<Option<OpenBlock>>,
    /// What was written last.
    latest: Stream,
}

impl LogStructured {
    pub(super) fn new(capacity: u64, granule: u64, medium: &Medium) -> Self {
        let blocks = medium.blocks.count() as usize;
        let slots = (medium.nand.erase_block / granule) as u32;
        LogStructured {
            granule,
            page: medium.nand.page,
            slots,
            slot_bits: slots.next_power_of_two().trailing_zeros(),
            locations: vec![None; (capacity.div_ceil(granule) as usize).div_ceil(CHUNK)],
            reverse_map: vec![Box::default(); blocks],
            valid: vec![0; blocks],
            candidates: Candidates::new(VictimPolicy::Greedy, 1, blocks as u32, slots, 0),
            closed: vec![false; blocks],
            idle_victim: None,
            idle_remaining: Vec::new(),
            data_blocks: capacity.div_ceil(medium.nand.erase_block) as u32,
            sequential: None,
            random: None,
            latest: Stream::Random,
            leveled: vec![None; medium.blocks.pool_count() as usize],
        }
    }

    /// Good blocks without which it cannot go on: for the capacity, half a per cent more so that collection always gains
    /// something, those that are filled, and the reserve.
    pub(super) fn needed(capacity: u64, erase_block: u64, pools: u32) -> u64 {
        let data = capacity.div_ceil(erase_block);
        data + data / 200 + 2 + u64::from(pools) + u64::from(RESERVE)
    }

    /// Whether places of that many blocks and granules can be numbered.
    pub(super) fn can_index(blocks: u64, erase_block: u64, granule: u64) -> bool {
        blocks.saturating_mul((erase_block / granule).next_power_of_two()) < u64::from(UNMAPPED)
    }

    /// The block that was written last.
    pub(super) fn last_block(&self) -> u32 {
        self.open_block(self.latest).map_or(0, |open_block| open_block.block.index())
    }

    fn open_block(&self, stream: Stream) -> Option<OpenBlock> {
        match stream {
            Stream::Sequential => self.sequential,
            Stream::Random => self.random,
        }
    }

    fn open_block_mut(&mut self, stream: Stream) -> &mut Option<OpenBlock> {
        match stream {
            Stream::Sequential => &mut self.sequential,
            Stream::Random => &mut self.random,
        }
    }

    /// Copies `ranges` of whole granules, packed; returns the time.
    pub(super) fn copy(
        &mut self,
        stream: Stream,
        ranges: &[Range<u64>],
        medium: &mut Medium,
    ) -> Result<Duration, ReadOnly> {
        let granule = self.granule;
        let mut granules = ranges.iter().flat_map(|r| r.start / granule..r.end.div_ceil(granule)).peekable();
        let (mut time, mut bytes) = (Duration::ZERO, 0);
        let of_page = self.page / granule;
        while granules.peek().is_some() {
            let mut open_block = self.open(stream, medium, &mut time)?;
            let mut programs = 0;
            while medium.room(&open_block) > programs * self.page && granules.peek().is_some() {
                let slot = ((open_block.filled + programs * self.page) / granule) as u32;
                for (slot, at) in (slot..).zip(granules.by_ref().take(of_page as usize)) {
                    self.map_granule(open_block.block, slot, at, medium);
                    bytes += granule;
                }
                programs += 1;
            }
            time += medium.program(&mut open_block, programs).time();
            *self.open_block_mut(stream) = Some(open_block);
        }
        Ok(time + medium.stream(bytes))
    }

    /// Writes `range`, page by page.
    pub(super) fn write(
        &mut self,
        stream: Stream,
        range: &Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let page = self.page;
        self.latest = stream;
        let mut at = range.start;
        while at < range.end {
            let mut merge = Duration::ZERO;
            let mut open_block = self.open(stream, medium, &mut merge)?;
            // Whole pages at once, up to the end of the block; else one that is written in part.
            let whole = if at.is_multiple_of(page) { (range.end - at) / page } else { 0 };
            let pages = whole.min(medium.room(&open_block) / page).max(1);
            let end = range.end.min((at / page + pages) * page);
            let slot = (open_block.filled / self.granule) as u32;
            self.map_granules(open_block.block, slot, at / self.granule..end.div_ceil(self.granule), medium);
            let run = medium.program(&mut open_block, pages);
            *self.open_block_mut(stream) = Some(open_block);
            match work.runs.last_mut() {
                // Pages that continue the run before it, of which only the last may be partial.
                Some(last)
                    if last.each == run.each && run.erase == Duration::ZERO && merge == Duration::ZERO =>
                {
                    last.pages += pages;
                }
                _ => work.runs.push(Run { merge, ..run }),
            }
            at = end;
        }
        work.leveling += self.level_wear(medium);
        Ok(())
    }

    /// Whether the granule that begins at `offset` lies anywhere.
    pub(super) fn is_stored(&self, offset: u64) -> bool {
        self.location_of((offset / self.granule) as u32) != UNMAPPED
    }

    /// Unmaps whole granules.
    pub(super) fn trim(&mut self, range: &Range<u64>, medium: &mut Medium) {
        for granule in range.start / self.granule..range.end / self.granule {
            let (chunk, index) = (granule as usize / CHUNK, granule as usize % CHUNK);
            if let Some(locations) = &mut self.locations[chunk] {
                let old = core::mem::replace(&mut locations[index], UNMAPPED);
                self.invalidate(old >> self.slot_bits, 1, medium);
            }
        }
    }

    /// Good blocks beyond those that the capacity takes.
    fn spare(&self, medium: &Medium) -> u32 {
        medium.blocks.usable_count().saturating_sub(self.data_blocks)
    }

    /// The most live granules of a block that is collected ahead of need.
    fn valid_max_ahead_of_need(&self) -> u32 {
        self.slots / 8 * 7
    }

    /// Collects while the card is idle for `gap`.
    pub(super) fn collect_while_idle(&mut self, mut gap: Duration, medium: &mut Medium) {
        let (read, t_prog) = (medium.stream(self.page), medium.nand.t_prog);
        let of_page = (self.page / self.granule) as usize;
        let mut granules = Vec::new();
        while gap >= read + t_prog {
            let Some(victim) = self.idle_victim(medium) else { return };
            let most = of_page * self.pages_in(gap - read - t_prog, read, medium) as usize;
            granules.clear();
            if self.idle_remaining.len() == self.valid[victim.index() as usize] as usize {
                let kept = self.idle_remaining.len().saturating_sub(most);
                granules.extend(self.idle_remaining.drain(kept..).rev());
            }
            // Some have been overwritten since.
            while granules.len() < most
                && let Some(granule) = self.idle_remaining.pop()
            {
                if self.location_of(granule) >> self.slot_bits == victim.index() {
                    granules.push(granule);
                }
            }
            if granules.is_empty() {
                continue;
            }
            let Ok(time) = self.move_out(victim, &granules, medium) else { return };
            medium.counters.gc_bytes += granules.len() as u64 * self.granule;
            gap = gap.saturating_sub(read * granules.len().div_ceil(of_page) as u64 + time);
        }
    }

    /// Returns the block that is collected while the card is idle. After its last granule, the next one is chosen, unless
    /// enough blocks are free.
    fn idle_victim(&mut self, medium: &mut Medium) -> Option<EraseBlock> {
        if !self.idle_remaining.is_empty() {
            return self.idle_victim;
        }
        if medium.blocks.free_count_total() >= self.spare(medium) {
            return None;
        }
        let victim = self.victim(self.valid_max_ahead_of_need())?;
        self.idle_remaining = self.valid_granules_in(victim);
        self.idle_victim = Some(victim);
        medium.counters.gc_blocks += 1;
        self.idle_victim
    }

    /// How many pages that are each read first are begun by the end of `gap`, without another block to fill: at least
    /// one.
    fn pages_in(&self, gap: Duration, read: Duration, medium: &mut Medium) -> u64 {
        let Some(mut open_block) = self.random.filter(|open_block| open_block.filled > 0) else { return 1 };
        let each = read + medium.program(&mut open_block, 0).each;
        let room = medium.room(&open_block) / self.page;
        (gap.as_ns() / each.as_ns() + 1).min(room).max(1)
    }

    /// The block to go on in, with room for a page; a new one is taken, and others collected, where that is needed.
    fn open(
        &mut self,
        stream: Stream,
        medium: &mut Medium,
        time: &mut Duration,
    ) -> Result<OpenBlock, ReadOnly> {
        if let Some(open_block) = self.open_block(stream) {
            if medium.room(&open_block) > 0 {
                return Ok(open_block);
            }
            *self.open_block_mut(stream) = None;
            self.close_block(open_block.block, medium);
        }
        let open_block = self.take_block(medium)?;
        *self.open_block_mut(stream) = Some(open_block);
        let of_page = (self.page / self.granule) as u32;
        while medium.blocks.free_count_total() < RESERVE {
            let victim = self.victim(self.slots - of_page).ok_or(ReadOnly)?;
            *time += self.collect_victim(victim, medium)?;
        }
        if stream == Stream::Sequential {
            for _ in 0..VICTIMS_AHEAD_MAX {
                if medium.blocks.free_count_total() >= self.spare(medium) / 4 * 3 {
                    break;
                }
                let Some(victim) = self.victim(self.valid_max_ahead_of_need()) else { break };
                *time += self.collect_victim(victim, medium)?;
            }
        }
        // Collecting may have filled it.
        match self.open_block(stream) {
            Some(open_block) if medium.room(&open_block) > 0 => Ok(open_block),
            _ => self.open(stream, medium, time),
        }
    }

    fn take_block(&mut self, medium: &mut Medium) -> Result<OpenBlock, ReadOnly> {
        let open_block = medium.take(false)?;
        self.reverse_map[open_block.block.index() as usize] =
            vec![UNMAPPED; self.slots as usize].into_boxed_slice();
        Ok(open_block)
    }

    /// The closed block with the least live data, if no more than `most` granules live in it.
    fn victim(&mut self, most: u32) -> Option<EraseBlock> {
        let least = self.candidates.choose(0, 0)?;
        (self.valid[least as usize] <= most).then_some(EraseBlock::new(least))
    }

    /// The live granules of a block.
    fn valid_granules_in(&self, block: EraseBlock) -> Vec<u32> {
        let reverse_map = &self.reverse_map[block.index() as usize];
        let (mut valid, mut count) = (vec![UNMAPPED; reverse_map.len() + 1], 0);
        let mut location = self.location(block, 0);
        // What was written together lies in one chunk of the map.
        for of_chunk in reverse_map.chunk_by(|a, b| *a as usize / CHUNK == *b as usize / CHUNK) {
            let locations = self.locations.get(of_chunk[0] as usize / CHUNK).and_then(Option::as_deref);
            if let Some(locations) = locations.and_then(|locations| <&[u32; CHUNK]>::try_from(locations).ok())
            {
                for (location, granule) in (location..).zip(of_chunk) {
                    // Without a branch, which could not be foretold.
                    valid[count] = *granule;
                    count += usize::from(locations[*granule as usize % CHUNK] == location);
                }
            }
            location += of_chunk.len() as u32;
        }
        valid.truncate(count);
        valid
    }

    /// Writes what lives in a block to another; the block is free then.
    fn collect_victim(&mut self, block: EraseBlock, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let granules = self.valid_granules_in(block);
        medium.counters.gc_blocks += 1;
        medium.counters.gc_bytes += granules.len() as u64 * self.granule;
        let read = medium.stream(granules.len() as u64 * self.granule);
        Ok(read + self.move_out(block, &granules, medium)?)
    }

    /// Writes granules that lie in `from` behind what is written piecemeal, packed; returns the time to program them.
    fn move_out(
        &mut self,
        from: EraseBlock,
        mut granules: &[u32],
        medium: &mut Medium,
    ) -> Result<Duration, ReadOnly> {
        let mut time = Duration::ZERO;
        while !granules.is_empty() {
            let mut open_block = match self.random {
                Some(open_block) if medium.room(&open_block) > 0 => open_block,
                full => {
                    self.random = None;
                    full.inspect(|full| self.close_block(full.block, medium));
                    self.take_block(medium)?
                }
            };
            let (now, rest) = granules.split_at(granules.len().min(self.room(&open_block, medium)));
            time += self.move_into(&mut open_block, from, now, medium);
            self.random = Some(open_block);
            granules = rest;
        }
        Ok(time)
    }

    /// Granules for which there is room.
    fn room(&self, open_block: &OpenBlock, medium: &Medium) -> usize {
        (medium.room(open_block) / self.granule) as usize
    }

    /// Writes granules that lie in `from` to `filling`, which has room, packed.
    fn move_into(
        &mut self,
        open_block: &mut OpenBlock,
        from: EraseBlock,
        granules: &[u32],
        medium: &mut Medium,
    ) -> Duration {
        let slot = (open_block.filled / self.granule) as usize;
        self.reverse_map[open_block.block.index() as usize][slot..slot + granules.len()]
            .copy_from_slice(granules);
        let first = self.location(open_block.block, slot as u32);
        let mut location = first;
        for of_chunk in granules.chunk_by(|a, b| *a as usize / CHUNK == *b as usize / CHUNK) {
            let chunk = of_chunk[0] as usize / CHUNK;
            let locations = self.locations[chunk].as_mut().expect("what lives lies somewhere");
            for granule in of_chunk {
                locations[*granule as usize % CHUNK] = location;
                location += 1;
            }
        }
        self.valid[open_block.block.index() as usize] += granules.len() as u32;
        self.invalidate(from.index(), granules.len() as u32, medium);
        let pages = (granules.len() as u64 * self.granule).div_ceil(self.page);
        medium.program(open_block, pages).time()
    }

    /// Moves what lives in little worn blocks, for leveling's sake: of one block a pool, and of more where the policy
    /// cannot wait.
    fn level_wear(&mut self, medium: &mut Medium) -> Duration {
        let mut time = Duration::ZERO;
        for pool in 0..medium.blocks.pool_count() {
            while let Some(from) =
                medium.blocks.relocate_among(pool, &|block| self.closed[block.index() as usize])
            {
                let granules = self.valid_granules_in(from);
                medium.counters.leveling_bytes += granules.len() as u64 * self.granule;
                time += medium.stream(granules.len() as u64 * self.granule);
                let mut left = &granules[..];
                while !left.is_empty() {
                    let mut open_block = match self.leveled[pool as usize] {
                        Some(open_block) if medium.room(&open_block) > 0 => open_block,
                        full => {
                            self.leveled[pool as usize] = None;
                            full.inspect(|full| self.close_block(full.block, medium));
                            let Ok(open_block) = medium.take_worn(pool) else { return time };
                            self.reverse_map[open_block.block.index() as usize] =
                                vec![UNMAPPED; self.slots as usize].into_boxed_slice();
                            open_block
                        }
                    };
                    let (now, rest) = left.split_at(left.len().min(self.room(&open_block, medium)));
                    time += self.move_into(&mut open_block, from, now, medium);
                    self.leveled[pool as usize] = Some(open_block);
                    left = rest;
                }
                if !medium.blocks.must_relocate(pool) {
                    break;
                }
            }
        }
        time
    }

    fn location(&self, block: EraseBlock, slot: u32) -> u32 {
        block.index() << self.slot_bits | slot
    }

    fn location_of(&self, granule: u32) -> u32 {
        self.locations[granule as usize / CHUNK]
            .as_ref()
            .map_or(UNMAPPED, |locations| locations[granule as usize % CHUNK])
    }

    /// `granule` lies in `slot` of `block` from now on.
    #[inline]
    fn map_granule(&mut self, block: EraseBlock, slot: u32, granule: u64, medium: &mut Medium) {
        self.map_granules(block, slot, granule..granule + 1, medium);
    }

    /// `granules` lie in `block` from `slot` on.
    #[inline]
    fn map_granules(&mut self, block: EraseBlock, slot: u32, granules: Range<u64>, medium: &mut Medium) {
        let count = (granules.end - granules.start) as u32;
        self.valid[block.index() as usize] += count;
        let reverse_map =
            &mut self.reverse_map[block.index() as usize][slot as usize..(slot + count) as usize];
        for (content, granule) in reverse_map.iter_mut().zip(granules.start as u32..) {
            *content = granule;
        }
        let mut location = self.location(block, slot);
        let bits = self.slot_bits;
        let (mut at, end) = (granules.start as usize, granules.end as usize);
        while at < end {
            let within = at % CHUNK..CHUNK.min(at % CHUNK + end - at);
            at += within.len();
            let chunk = (at - 1) / CHUNK;
            let mut locations =
                self.locations[chunk].take().unwrap_or_else(|| vec![UNMAPPED; CHUNK].into_boxed_slice());
            // The granules that lay in one block are counted together.
            let mut rest = &mut locations[within];
            while let Some(old) = rest.first().map(|location| *location >> bits) {
                let together;
                (together, rest) = rest.split_at_mut(run_in_one_block(rest, bits));
                for (entry, location) in together.iter_mut().zip(location..) {
                    *entry = location;
                }
                location += together.len() as u32;
                self.invalidate(old, together.len() as u32, medium);
            }
            self.locations[chunk] = Some(locations);
        }
    }

    /// `count` granules do not live in a block any more; [`UNMAPPED`]'s: they lay nowhere.
    fn invalidate(&mut self, block: u32, count: u32, medium: &mut Medium) {
        if block == UNMAPPED >> self.slot_bits || count == 0 {
            return;
        }
        let valid = &mut self.valid[block as usize];
        *valid -= count;
        if !self.closed[block as usize] {
            return;
        }
        if *valid > 0 {
            self.candidates.invalidate_units(block, count);
        } else {
            self.candidates.remove(0, block);
            self.closed[block as usize] = false;
            self.release_block(EraseBlock::new(block), medium);
        }
    }

    /// A block is full.
    fn close_block(&mut self, block: EraseBlock, medium: &mut Medium) {
        let valid = self.valid[block.index() as usize];
        if valid == 0 {
            return self.release_block(block, medium);
        }
        self.closed[block.index() as usize] = true;
        self.candidates.insert(0, block.index(), valid, 0);
    }

    fn release_block(&mut self, block: EraseBlock, medium: &mut Medium) {
        if Some(block) == self.idle_victim {
            self.idle_remaining.clear();
        }
        self.reverse_map[block.index() as usize] = Box::default();
        medium.blocks.release(block);
    }
}

/// Returns how many of `places`, from the first on, are in the same block; `bits` is the number of bits of a slot.
fn run_in_one_block(locations: &[u32], bits: u32) -> usize {
    const TOGETHER: usize = 16;
    let first = locations[0];
    let differs = |location: &u32| (*location ^ first) >> bits != 0;
    // Without a branch a place, so that the compiler compares several at once.
    let any_differs =
        |chunk: &[u32]| chunk.iter().fold(0, |all, location| all | (*location ^ first)) >> bits != 0;
    let run = locations.chunks(TOGETHER).take_while(|chunk| !any_differs(chunk)).count() * TOGETHER;
    let rest = locations.get(run..).unwrap_or_default();
    rest.iter().position(differs).map_or(locations.len(), |at| run + at)
}
