//! Log-structured data placement: a card that fills erase blocks in write order.
//!
//! The layer records the location of each granule (erase block and slot) and the content of each block, so it counts
//! valid data by granule. A block without valid data is free. Sequential streams, random writes and data that wear
//! leveling moves go to separate blocks, so that data that is overwritten together is in the same blocks.
//!
//! When almost no blocks are free, garbage collection takes the closed block with the least valid data and
//! appends its valid granules, packed, to the block for random writes. A card also collects ahead of need
//! where this costs little, provided that at least an eighth of the victim is invalid data. While the card is
//! idle, it collects one stripe at a time until all spare blocks are free. A stripe begins only if the
//! remaining idle time is at least the mean time to read and program the stripe. For each block that a stream
//! fills, the card collects up to two victims until three quarters of the spare blocks are free. Small writes
//! then find free blocks.
//!
//! # Guarantees
//! [`LogStructured::validate`] checks that the location of a granule holds that granule, that each block's valid count
//! is the number of such locations, and that a closed block without valid data is free.

mod idle_victim;
mod open_blocks;
mod pack;
mod uses;
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
use idle_victim::IdleVictim;
use open_blocks::OpenBlocks;
use serde::{Deserialize, Serialize};

crate::index::wide_index! {
    /// Number of a granule.
    struct Granule;
}
crate::index::wide_index! {
    /// Location of a granule: the low [`LogStructured::slot_bits`] bits are the slot, and the bits above are
    /// the block.
    struct Location;
}

/// Free blocks reserved for garbage collection: one to collect into, one for data that wear leveling moves.
const RESERVE: u32 = 2;
/// Greatest number of blocks that are collected ahead of need for each block that a stream fills.
const VICTIMS_AHEAD_MAX: u32 = 2;
/// Granules in a chunk of the map. A chunk is allocated when a granule in it is first written.
const CHUNK: usize = 1024;

/// The kind of data in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Stream {
    /// Sequential writes.
    Sequential,
    /// Random writes, data that is rewritten because of them, and data from garbage collection.
    Random,
}

/// The locations of all granules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LogStructured {
    granule: u64,
    page: u64,
    /// Slots of an erase block; a slot holds one granule.
    slots: u32,
    /// Number of low bits of a location that hold the slot; the bits above hold the block.
    slot_bits: u32,
    /// The location of each granule, by chunk.
    locations: Vec<Option<Box<[Option<Location>]>>>,
    /// The granule that was written to each slot of a block that is not free.
    reverse_map: Vec<Box<[Option<Granule>]>>,
    /// Number of valid granules in each block.
    valid: Vec<u32>,
    /// The closed blocks, by their number of valid granules.
    candidates: Candidates,
    /// True for each closed block.
    closed: Vec<bool>,
    /// Victim that is collected ahead of need: while the card is idle, or in steps before writes.
    idle_victim: IdleVictim,
    /// Number of blocks that the capacity occupies.
    data_blocks: u32,
    open_blocks: OpenBlocks,
    /// The stream of the last write.
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
            idle_victim: IdleVictim::default(),
            data_blocks: capacity.div_ceil(medium.nand.erase_block) as u32,
            open_blocks: OpenBlocks::new(medium.blocks.pool_count() as usize),
            latest: Stream::Random,
        }
    }

    /// Returns the number of good blocks that the layer needs: the blocks for the capacity, half a per cent
    /// more, the open blocks, and the reserve. With the half per cent, garbage collection always gains space.
    pub(super) fn needed(capacity: u64, erase_block: u64, pools: u32) -> u64 {
        let data = capacity.div_ceil(erase_block);
        data + data / 200 + 2 + u64::from(pools) + u64::from(RESERVE)
    }

    /// Returns true if the locations in `blocks` blocks fit into 32 bits.
    pub(super) fn can_index(blocks: u64, erase_block: u64, granule: u64) -> bool {
        blocks.saturating_mul((erase_block / granule).next_power_of_two()) < u64::from(u32::MAX)
    }

    /// Returns the number of open blocks.
    pub(super) fn open_count(&self) -> usize {
        self.open_blocks.iter().count()
    }

    /// Returns the block of the last write.
    pub(super) fn last_block(&self) -> u32 {
        self.open_blocks.of(self.latest).map_or(0, |open_block| open_block.block.index())
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
            // Programs whole pages up to the end of the block, or else one partial page.
            let whole = if at.is_multiple_of(page) { (range.end - at) / page } else { 0 };
            let pages = whole.min(medium.room(&open_block) / page).max(1);
            let end = range.end.min((at / page + pages) * page);
            let slot = (open_block.filled / self.granule) as u32;
            self.map_granules(open_block.block, slot, at / self.granule..end.div_ceil(self.granule), medium);
            let run = medium.program(&mut open_block, pages);
            *self.open_blocks.of_mut(stream) = Some(open_block);
            work.push(Run { merge, ..run });
            at = end;
        }
        work.leveling += self.level_wear(medium);
        Ok(())
    }

    /// Returns true if the granule that begins at `offset` has a location.
    pub(super) fn is_stored(&self, offset: u64) -> bool {
        self.location_of((offset / self.granule) as u32).is_some()
    }

    /// Unmaps whole granules.
    pub(super) fn trim(&mut self, range: &Range<u64>, medium: &mut Medium) {
        for granule in range.start / self.granule..range.end / self.granule {
            let (chunk, index) = (granule as usize / CHUNK, granule as usize % CHUNK);
            if let Some(locations) = &mut self.locations[chunk] {
                let old = locations[index].take();
                self.invalidate(old, 1, medium);
            }
        }
    }

    /// Returns the number of good blocks beyond those that the capacity occupies.
    fn spare(&self, medium: &Medium) -> u32 {
        medium.blocks.usable_count().saturating_sub(self.data_blocks)
    }

    /// Returns the greatest number of valid granules in a victim that is collected ahead of need.
    fn valid_max_ahead_of_need(&self) -> u32 {
        self.slots / 8 * 7
    }

    /// Collects garbage while the card is idle for `gap`, a stripe at a time. Returns the idle time that is left.
    pub(super) fn collect_while_idle(&mut self, mut gap: Duration, medium: &mut Medium) -> Duration {
        let (read, t_prog) = (medium.stream(medium.stripe()), medium.nand.t_prog);
        let of_stripe = (medium.stripe() / self.granule) as usize;
        let mut granules = Vec::new();
        while gap >= read + t_prog {
            let Some(victim) = self.idle_victim(medium) else { return gap };
            let most = of_stripe * self.stripes_in(gap - read - t_prog, read, medium) as usize;
            self.remaining_in(victim, most, &mut granules);
            if granules.is_empty() {
                continue;
            }
            let Ok(time) = self.move_out(victim, &granules, medium) else {
                // The granules stay in the victim.
                self.idle_victim.abandon();
                return gap;
            };
            medium.counters.gc_bytes += granules.len() as u64 * self.granule;
            gap = gap.saturating_sub(read * granules.len().div_ceil(of_stripe) as u64 + time);
        }
        gap
    }

    /// Collects garbage ahead of a write while fewer than half of the spare blocks are free: moves at most `bytes` of
    /// valid data, but at least a page. Returns the time.
    pub(super) fn collect_step(&mut self, bytes: u64, medium: &mut Medium) -> Duration {
        if self.idle_victim.current().is_none() && medium.blocks.free_count_total() >= self.spare(medium) / 2
        {
            return Duration::ZERO;
        }
        let Some(victim) = self.idle_victim(medium) else { return Duration::ZERO };
        let mut granules = Vec::new();
        self.remaining_in(victim, (bytes.max(self.page) / self.granule) as usize, &mut granules);
        let moved = granules.len() as u64 * self.granule;
        let Ok(time) = self.move_out(victim, &granules, medium) else {
            self.idle_victim.abandon();
            return Duration::ZERO;
        };
        medium.counters.gc_bytes += moved;
        medium.stream(moved) + time
    }

    /// Fills `granules` with up to `most` of the valid granules that remain in the victim, and removes them from
    /// `idle_victim`.
    fn remaining_in(&mut self, victim: EraseBlock, most: usize, granules: &mut Vec<u32>) {
        granules.clear();
        let remaining = &mut self.idle_victim.remaining;
        if remaining.len() == self.valid[victim.index() as usize] as usize {
            let kept = remaining.len().saturating_sub(most);
            granules.extend(remaining.drain(kept..).rev());
        }
        // Some of the remaining granules have been overwritten since.
        while granules.len() < most
            && let Some(granule) = self.idle_victim.remaining.pop()
        {
            if self.block_of(self.location_of(granule)) == Some(victim.index()) {
                granules.push(granule);
            }
        }
    }

    /// Returns the victim of garbage collection during idle time. Once the current victim has no granules left, selects
    /// the next one, unless enough blocks are free.
    fn idle_victim(&mut self, medium: &mut Medium) -> Option<EraseBlock> {
        if let Some(victim) = self.idle_victim.current() {
            return Some(victim);
        }
        if medium.blocks.free_count_total() >= self.spare(medium) {
            return None;
        }
        let victim = self.victim(self.valid_max_ahead_of_need())?;
        let granules = self.valid_granules_in(victim);
        self.idle_victim.select(victim, granules);
        medium.counters.gc_blocks += 1;
        Some(victim)
    }

    /// Returns the number of stripes, at least one, that fit into the open block and whose move begins before
    /// the end of `gap`. A move is a read and then a program.
    fn stripes_in(&self, gap: Duration, read: Duration, medium: &mut Medium) -> u64 {
        let Some(mut open_block) = self.open_blocks.random.filter(|open_block| open_block.filled > 0) else {
            return 1;
        };
        let each = read + medium.program(&mut open_block, 0).each;
        let room = medium.room(&open_block) / medium.stripe();
        (gap.as_ns() / each.as_ns() + 1).min(room).max(1)
    }

    /// Returns the open block of a stream, with room for at least a page. Takes a new block if necessary, and collects
    /// garbage if too few blocks are free.
    fn open(
        &mut self,
        stream: Stream,
        medium: &mut Medium,
        time: &mut Duration,
    ) -> Result<OpenBlock, ReadOnly> {
        if let Some(open_block) = self.open_blocks.of(stream) {
            if medium.room(&open_block) > 0 {
                return Ok(open_block);
            }
            *self.open_blocks.of_mut(stream) = None;
            self.close_block(open_block.block, medium);
        }
        let open_block = self.take_block(medium)?;
        *self.open_blocks.of_mut(stream) = Some(open_block);
        let of_page = (self.page / self.granule) as u32;
        while medium.blocks.free_count_total() < RESERVE {
            let victim = self.victim(self.slots - of_page).ok_or(ReadOnly)?;
            *time += self.collect_victim(victim, medium)?;
        }
        if stream == Stream::Sequential && medium.collect_step.is_none() {
            for _ in 0..VICTIMS_AHEAD_MAX {
                if medium.blocks.free_count_total() >= self.spare(medium) / 4 * 3 {
                    break;
                }
                let Some(victim) = self.victim(self.valid_max_ahead_of_need()) else { break };
                *time += self.collect_victim(victim, medium)?;
            }
        }
        // Garbage collection may have filled the block.
        match self.open_blocks.of(stream) {
            Some(open_block) if medium.room(&open_block) > 0 => Ok(open_block),
            _ => self.open(stream, medium, time),
        }
    }

    fn take_block(&mut self, medium: &mut Medium) -> Result<OpenBlock, ReadOnly> {
        let open_block = medium.take(false)?;
        self.reverse_map[open_block.block.index() as usize] =
            vec![None; self.slots as usize].into_boxed_slice();
        Ok(open_block)
    }

    /// Returns the closed block with the least valid data if at most `most` granules in it are valid.
    fn victim(&mut self, most: u32) -> Option<EraseBlock> {
        let least = self.candidates.choose(0, 0)?;
        (self.valid[least as usize] <= most).then_some(EraseBlock::new(least))
    }

    /// Returns the valid granules of a block.
    fn valid_granules_in(&self, block: EraseBlock) -> Vec<u32> {
        let reverse_map = &self.reverse_map[block.index() as usize];
        let (mut valid, mut count) = (vec![0; reverse_map.len() + 1], 0);
        let mut location = self.location(block, 0);
        let chunk_of = |granule: Option<Granule>| granule.map(|granule| granule.index() as usize / CHUNK);
        // Granules that were written together are often in one chunk of the map.
        for of_chunk in reverse_map.chunk_by(|a, b| chunk_of(*a) == chunk_of(*b)) {
            let chunk = chunk_of(of_chunk[0]).and_then(|chunk| self.locations.get(chunk)?.as_deref());
            if let Some(locations) =
                chunk.and_then(|chunk| <&[Option<Location>; CHUNK]>::try_from(chunk).ok())
            {
                for (location, granule) in (location..).zip(of_chunk) {
                    // No branch here, because the processor could not predict it.
                    let granule = granule.map_or(0, Granule::index);
                    valid[count] = granule;
                    count += usize::from(locations[granule as usize % CHUNK] == Location::new(location));
                }
            }
            location += of_chunk.len() as u32;
        }
        valid.truncate(count);
        valid
    }

    /// Moves the valid data of a block to another block and releases the block.
    fn collect_victim(&mut self, block: EraseBlock, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let granules = self.valid_granules_in(block);
        medium.counters.gc_blocks += 1;
        medium.counters.gc_bytes += granules.len() as u64 * self.granule;
        let read = medium.stream(granules.len() as u64 * self.granule);
        Ok(read + self.move_out(block, &granules, medium)?)
    }

    /// Packs granules of block `from` into the block for random data; returns the time to program them.
    fn move_out(
        &mut self,
        from: EraseBlock,
        mut granules: &[u32],
        medium: &mut Medium,
    ) -> Result<Duration, ReadOnly> {
        let mut time = Duration::ZERO;
        while !granules.is_empty() {
            let mut open_block = match self.open_blocks.random {
                Some(open_block) if medium.room(&open_block) > 0 => open_block,
                full => {
                    self.open_blocks.random = None;
                    full.inspect(|full| self.close_block(full.block, medium));
                    self.take_block(medium)?
                }
            };
            let (now, rest) = granules.split_at(granules.len().min(self.room(&open_block, medium)));
            time += self.move_into(&mut open_block, from, now, medium);
            self.open_blocks.random = Some(open_block);
            granules = rest;
        }
        Ok(time)
    }

    /// Returns the number of granules that fit into an open block.
    fn room(&self, open_block: &OpenBlock, medium: &Medium) -> usize {
        (medium.room(open_block) / self.granule) as usize
    }

    /// Packs granules of block `from` into `open_block`, which must have room. Returns the time to program them.
    fn move_into(
        &mut self,
        open_block: &mut OpenBlock,
        from: EraseBlock,
        granules: &[u32],
        medium: &mut Medium,
    ) -> Duration {
        let slot = (open_block.filled / self.granule) as usize;
        let reverse_map = &mut self.reverse_map[open_block.block.index() as usize];
        for (content, granule) in reverse_map[slot..slot + granules.len()].iter_mut().zip(granules) {
            *content = Granule::new(*granule);
        }
        let first = self.location(open_block.block, slot as u32);
        let mut location = first;
        for of_chunk in granules.chunk_by(|a, b| *a as usize / CHUNK == *b as usize / CHUNK) {
            let chunk = of_chunk[0] as usize / CHUNK;
            let locations = self.locations[chunk].as_mut().expect("a valid granule has a location");
            for granule in of_chunk {
                locations[*granule as usize % CHUNK] = Location::new(location);
                location += 1;
            }
        }
        self.valid[open_block.block.index() as usize] += granules.len() as u32;
        self.invalidate(Location::new(self.location(from, 0)), granules.len() as u32, medium);
        let pages = (granules.len() as u64 * self.granule).div_ceil(self.page);
        let run = medium.program(open_block, pages);
        medium.time_of_copied(&run)
    }

    /// Moves the valid data of the least worn blocks for wear leveling: one block per pool, and more if the policy
    /// demands it.
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
                    let mut open_block = match self.open_blocks.leveled[pool as usize] {
                        Some(open_block) if medium.room(&open_block) > 0 => open_block,
                        full => {
                            self.open_blocks.leveled[pool as usize] = None;
                            full.inspect(|full| self.close_block(full.block, medium));
                            let Ok(open_block) = medium.take_worn(pool) else { return time };
                            self.reverse_map[open_block.block.index() as usize] =
                                vec![None; self.slots as usize].into_boxed_slice();
                            open_block
                        }
                    };
                    let (now, rest) = left.split_at(left.len().min(self.room(&open_block, medium)));
                    time += self.move_into(&mut open_block, from, now, medium);
                    self.open_blocks.leveled[pool as usize] = Some(open_block);
                    left = rest;
                }
                if !medium.blocks.must_relocate(pool) {
                    break;
                }
            }
        }
        time
    }

    /// Returns the index of the location of a slot. Consecutive slots have consecutive indices.
    fn location(&self, block: EraseBlock, slot: u32) -> u32 {
        block.index() << self.slot_bits | slot
    }

    fn location_of(&self, granule: u32) -> Option<Location> {
        self.locations[granule as usize / CHUNK].as_ref()?[granule as usize % CHUNK]
    }

    fn block_of(&self, location: Option<Location>) -> Option<u32> {
        location.map(|location| location.index() >> self.slot_bits)
    }

    /// Maps `granule` to `slot` of `block`.
    #[inline]
    fn map_granule(&mut self, block: EraseBlock, slot: u32, granule: u64, medium: &mut Medium) {
        self.map_granules(block, slot, granule..granule + 1, medium);
    }

    /// Maps `granules` to consecutive slots of `block`, starting at `slot`.
    #[inline]
    fn map_granules(&mut self, block: EraseBlock, slot: u32, granules: Range<u64>, medium: &mut Medium) {
        let count = (granules.end - granules.start) as u32;
        self.valid[block.index() as usize] += count;
        let reverse_map =
            &mut self.reverse_map[block.index() as usize][slot as usize..(slot + count) as usize];
        for (content, granule) in reverse_map.iter_mut().zip(granules.start as u32..) {
            *content = Granule::new(granule);
        }
        let mut location = self.location(block, slot);
        let bits = self.slot_bits;
        let (mut at, end) = (granules.start as usize, granules.end as usize);
        while at < end {
            let within = at % CHUNK..CHUNK.min(at % CHUNK + end - at);
            at += within.len();
            let chunk = (at - 1) / CHUNK;
            let mut locations =
                self.locations[chunk].take().unwrap_or_else(|| vec![None; CHUNK].into_boxed_slice());
            // Granules whose old locations are in the same block are counted together.
            let mut rest = &mut locations[within];
            while let Some(old) = rest.first().copied() {
                let together;
                (together, rest) = rest.split_at_mut(run_in_one_block(rest, bits));
                for (entry, location) in together.iter_mut().zip(location..) {
                    *entry = Location::new(location);
                }
                location += together.len() as u32;
                self.invalidate(old, together.len() as u32, medium);
            }
            self.locations[chunk] = Some(locations);
        }
    }

    /// Counts `count` granules in the block of `location` as invalid. Does nothing if they had no location.
    fn invalidate(&mut self, location: Option<Location>, count: u32, medium: &mut Medium) {
        let Some(block) = self.block_of(location).filter(|_| count > 0) else { return };
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

    /// Closes a full block: makes it a candidate for garbage collection, or releases it if nothing in it is valid.
    fn close_block(&mut self, block: EraseBlock, medium: &mut Medium) {
        let valid = self.valid[block.index() as usize];
        if valid == 0 {
            return self.release_block(block, medium);
        }
        self.closed[block.index() as usize] = true;
        self.candidates.insert(0, block.index(), valid, 0);
    }

    fn release_block(&mut self, block: EraseBlock, medium: &mut Medium) {
        self.idle_victim.released(block);
        self.reverse_map[block.index() as usize] = Box::default();
        medium.blocks.release(block);
    }
}

/// Returns the length of the run at the start of `locations` in which all entries refer to one block, or none
/// refers to a block. `bits` is the number of slot bits.
fn run_in_one_block(locations: &[Option<Location>], bits: u32) -> usize {
    const TOGETHER: usize = 16;
    // No block number is all ones: see `can_index`.
    let number = |location: Option<Location>| location.map_or(u32::MAX, Location::index);
    let first = number(locations[0]);
    let differs = |location: &Option<Location>| (number(*location) ^ first) >> bits != 0;
    // No branch per location, so that the compiler vectorizes the comparison.
    let any_differs = |chunk: &[Option<Location>]| {
        chunk.iter().fold(0, |all, location| all | (number(*location) ^ first)) >> bits != 0
    };
    let run = locations.chunks(TOGETHER).take_while(|chunk| !any_differs(chunk)).count() * TOGETHER;
    let rest = locations.get(run..).unwrap_or_default();
    rest.iter().position(differs).map_or(locations.len(), |at| run + at)
}
