//! Where data lies on a card that fills erase blocks in the order of its writes.
//!
//! Each granule's place is known (erase block and slot), and what each block holds, so that live data is counted to the
//! granule. A block of which nothing lives is free. When few are free, the closed block with the least live data is
//! collected: its live granules are written behind everything else, packed. Data that levelling moves goes to blocks of
//! its own.
//!
//! # Guarantees
//! [`Appended::check`]: a granule's place holds that granule, each block's live count is the number of such places, a
//! closed block without any is free.

use super::ReadOnly;
use super::mapped::Mapped;
use super::medium::{Filling, Medium, Run, Work};
use crate::nand::Block;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

const NONE: u32 = u32::MAX;
/// Free blocks that collection keeps: one to collect into, one for what levelling moves.
const RESERVE: u32 = 2;
/// Granules in a chunk of the map; chunks are made when something in them is written.
const CHUNK: usize = 1024;

/// The places of all granules.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Appended {
    granule: u64,
    page: u64,
    /// Slots of an erase block; one granule each.
    slots: u32,
    /// Bits of a place that say the slot; above them is the block.
    slot_bits: u32,
    /// Each granule's place.
    places: Vec<Option<Box<[u32]>>>,
    /// The granule that was written to each slot of a block that is not free.
    contents: Vec<Box<[u32]>>,
    live: Vec<u32>,
    /// The block being filled; for each pool, the one being filled with what levelling moves.
    filling: Option<Filling>,
    moved: Vec<Option<Filling>>,
}

impl Appended {
    pub(super) fn new(capacity: u64, granule: u64, medium: &Medium) -> Self {
        let blocks = medium.blocks.count() as usize;
        let slots = (medium.nand.erase_block / granule) as u32;
        Appended {
            granule,
            page: medium.nand.page,
            slots,
            slot_bits: slots.next_power_of_two().trailing_zeros(),
            places: vec![None; (capacity.div_ceil(granule) as usize).div_ceil(CHUNK)],
            contents: vec![Box::default(); blocks],
            live: vec![0; blocks],
            filling: None,
            moved: vec![None; medium.blocks.pool_count() as usize],
        }
    }

    /// Good blocks without which it cannot go on: for the capacity, half a per cent more so that collection always gains
    /// something, those that are filled, and the reserve.
    pub(super) fn needed(capacity: u64, erase_block: u64, pools: u32) -> u64 {
        let data = capacity.div_ceil(erase_block);
        data + data / 200 + 1 + u64::from(pools) + u64::from(RESERVE)
    }

    /// Whether places of that many blocks and granules can be numbered.
    pub(super) fn can_number(blocks: u64, erase_block: u64, granule: u64) -> bool {
        blocks.saturating_mul((erase_block / granule).next_power_of_two()) < u64::from(NONE)
    }

    /// The block in which programming goes on.
    pub(super) fn place(&self) -> u32 {
        self.filling.map_or(0, |filling| filling.block.0)
    }

    /// Copies `ranges` of whole granules behind everything else, packed; returns the time.
    pub(super) fn copy(&mut self, ranges: &[Range<u64>], medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let granule = self.granule;
        let mut granules = ranges.iter().flat_map(|r| r.start / granule..r.end.div_ceil(granule)).peekable();
        let (mut time, mut bytes) = (Duration::ZERO, 0);
        let of_page = self.page / granule;
        while granules.peek().is_some() {
            let mut filling = self.open(medium, &mut time)?;
            let mut programs = 0;
            while medium.room(&filling) > programs * self.page && granules.peek().is_some() {
                let slot = ((filling.filled + programs * self.page) / granule) as u32;
                for (slot, at) in (slot..).zip(granules.by_ref().take(of_page as usize)) {
                    self.put(filling.block, slot, at, medium);
                    bytes += granule;
                }
                programs += 1;
            }
            time += medium.program(&mut filling, programs).time();
            self.filling = Some(filling);
        }
        Ok(time + medium.stream(bytes))
    }

    /// Writes `range`, page by page.
    pub(super) fn write(
        &mut self,
        range: &Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let page = self.page;
        let mut at = range.start;
        while at < range.end {
            let mut merge = Duration::ZERO;
            let mut filling = self.open(medium, &mut merge)?;
            // Whole pages at once, up to the end of the block; else one that is written in part.
            let whole = if at.is_multiple_of(page) { (range.end - at) / page } else { 0 };
            let pages = whole.min(medium.room(&filling) / page).max(1);
            let end = range.end.min((at / page + pages) * page);
            let slot = (filling.filled / self.granule) as u32;
            self.put_all(filling.block, slot, at / self.granule..end.div_ceil(self.granule), medium);
            let run = medium.program(&mut filling, pages);
            self.filling = Some(filling);
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
        work.levelling += self.level(medium);
        Ok(())
    }

    /// Unmaps whole granules.
    pub(super) fn trim(&mut self, range: &Range<u64>, medium: &mut Medium) {
        for granule in range.start / self.granule..range.end / self.granule {
            let (chunk, place) = (granule as usize / CHUNK, granule as usize % CHUNK);
            if let Some(places) = &mut self.places[chunk] {
                let old = core::mem::replace(&mut places[place], NONE);
                self.dead(old >> self.slot_bits, 1, medium);
            }
        }
    }

    /// The block to go on in, with room for a page; a new one is taken, and others collected, where that is needed.
    fn open(&mut self, medium: &mut Medium, time: &mut Duration) -> Result<Filling, ReadOnly> {
        if let Some(filling) = self.filling {
            if medium.room(&filling) > 0 {
                return Ok(filling);
            }
            self.filling = None;
            self.free_if_dead(filling.block, medium);
        }
        let filling = self.take(medium)?;
        self.filling = Some(filling);
        while medium.blocks.free_count_total() < RESERVE {
            let victim = self.victim().ok_or(ReadOnly)?;
            *time += self.collect(victim, medium)?;
        }
        // Collecting may have filled it.
        match self.filling {
            Some(filling) if medium.room(&filling) > 0 => Ok(filling),
            _ => self.open(medium, time),
        }
    }

    fn take(&mut self, medium: &mut Medium) -> Result<Filling, ReadOnly> {
        let filling = medium.take(false)?;
        self.contents[filling.block.0 as usize] = vec![NONE; self.slots as usize].into_boxed_slice();
        Ok(filling)
    }

    fn is_filling(&self, block: Block) -> bool {
        self.moved.iter().chain([&self.filling]).flatten().any(|filling| filling.block == block)
    }

    /// The closed block with the least live data, if collecting it gains a page.
    fn victim(&self) -> Option<Block> {
        let most = self.slots - (self.page / self.granule) as u32;
        let closed = (0..).zip(&self.contents).filter(|(block, contents)| {
            !contents.is_empty() && self.live[*block as usize] <= most && !self.is_filling(Block(*block))
        });
        closed.min_by_key(|(block, _)| self.live[*block as usize]).map(|(block, _)| Block(block))
    }

    /// The live granules of a block.
    fn live_in(&self, block: Block) -> Vec<u32> {
        let lives = |(slot, granule): (u32, &u32)| {
            let lives = *granule != NONE && self.place_of(*granule) == self.number(block, slot);
            lives.then_some(*granule)
        };
        (0..).zip(&self.contents[block.0 as usize]).filter_map(lives).collect()
    }

    /// Writes what lives in a block behind everything else; the block is free then.
    fn collect(&mut self, block: Block, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let granules = self.live_in(block);
        medium.counters.collections += 1;
        medium.counters.collection_bytes += granules.len() as u64 * self.granule;
        let mut time = medium.stream(granules.len() as u64 * self.granule);
        for page in granules.chunks((self.page / self.granule) as usize) {
            let mut filling = match self.filling {
                Some(filling) if medium.room(&filling) > 0 => filling,
                full => {
                    self.filling = None;
                    full.inspect(|full| self.free_if_dead(full.block, medium));
                    self.take(medium)?
                }
            };
            self.put_page(&filling, page, medium);
            time += medium.program(&mut filling, 1).time();
            self.filling = Some(filling);
        }
        Ok(time)
    }

    /// Moves what lives in little worn blocks, for levelling's sake: of one block a pool, and of more where the policy
    /// cannot wait.
    fn level(&mut self, medium: &mut Medium) -> Duration {
        let mut time = Duration::ZERO;
        for pool in 0..medium.blocks.pool_count() {
            while let Some(from) = medium.blocks.relocate_among(pool, &|block| !self.is_filling(block)) {
                let granules = self.live_in(from);
                medium.counters.levelling_bytes += granules.len() as u64 * self.granule;
                time += medium.stream(granules.len() as u64 * self.granule);
                for page in granules.chunks((self.page / self.granule) as usize) {
                    let mut filling = match self.moved[pool as usize] {
                        Some(filling) if medium.room(&filling) > 0 => filling,
                        full => {
                            self.moved[pool as usize] = None;
                            full.inspect(|full| self.free_if_dead(full.block, medium));
                            let Ok(filling) = medium.take_worn(pool) else { return time };
                            self.contents[filling.block.0 as usize] =
                                vec![NONE; self.slots as usize].into_boxed_slice();
                            filling
                        }
                    };
                    self.put_page(&filling, page, medium);
                    time += medium.program(&mut filling, 1).time();
                    self.moved[pool as usize] = Some(filling);
                }
                if !medium.blocks.must_relocate(pool) {
                    break;
                }
            }
        }
        time
    }

    fn put_page(&mut self, filling: &Filling, granules: &[u32], medium: &mut Medium) {
        let slot = (filling.filled / self.granule) as u32;
        for (slot, granule) in (slot..).zip(granules) {
            self.put(filling.block, slot, u64::from(*granule), medium);
        }
    }

    fn number(&self, block: Block, slot: u32) -> u32 {
        block.0 << self.slot_bits | slot
    }

    fn place_of(&self, granule: u32) -> u32 {
        self.places[granule as usize / CHUNK].as_ref().map_or(NONE, |places| places[granule as usize % CHUNK])
    }

    /// `granule` lies in `slot` of `block` from now on.
    #[inline]
    fn put(&mut self, block: Block, slot: u32, granule: u64, medium: &mut Medium) {
        self.put_all(block, slot, granule..granule + 1, medium);
    }

    /// `granules` lie in `block` from `slot` on.
    #[inline]
    fn put_all(&mut self, block: Block, slot: u32, granules: Range<u64>, medium: &mut Medium) {
        let count = (granules.end - granules.start) as u32;
        self.live[block.0 as usize] += count;
        let contents = &mut self.contents[block.0 as usize][slot as usize..(slot + count) as usize];
        for (content, granule) in contents.iter_mut().zip(granules.start as u32..) {
            *content = granule;
        }
        let mut number = self.number(block, slot);
        let bits = self.slot_bits;
        let (mut at, end) = (granules.start as usize, granules.end as usize);
        while at < end {
            let within = at % CHUNK..CHUNK.min(at % CHUNK + end - at);
            at += within.len();
            let chunk = (at - 1) / CHUNK;
            let mut places =
                self.places[chunk].take().unwrap_or_else(|| vec![NONE; CHUNK].into_boxed_slice());
            // Granules that lay in one block are told to it together.
            let (mut old_block, mut count) = (NONE >> bits, 0);
            for place in &mut places[within] {
                let old = core::mem::replace(place, number) >> bits;
                number += 1;
                if old != old_block {
                    self.dead(old_block, count, medium);
                    (old_block, count) = (old, 0);
                }
                count += 1;
            }
            self.places[chunk] = Some(places);
            self.dead(old_block, count, medium);
        }
    }

    /// `count` granules do not live in a block any more; `NONE`'s: they lay nowhere.
    fn dead(&mut self, block: u32, count: u32, medium: &mut Medium) {
        if block == NONE >> self.slot_bits || count == 0 {
            return;
        }
        self.live[block as usize] -= count;
        self.free_if_dead(Block(block), medium);
    }

    /// Gives a block back that is closed and of which nothing lives.
    fn free_if_dead(&mut self, block: Block, medium: &mut Medium) {
        if self.live[block.0 as usize] == 0 && !self.is_filling(block) {
            self.contents[block.0 as usize] = Box::default();
            medium.blocks.release(block);
        }
    }

    /// Walks all of it.
    ///
    /// # Panics
    /// With what is wrong.
    pub(super) fn check(&self, mapped: &Mapped, medium: &Medium) {
        let mut live = vec![0; self.live.len()];
        for granule in 0..self.places.len() * CHUNK {
            let place = self.place_of(granule as u32);
            let offset = granule as u64 * self.granule;
            if place == NONE {
                assert!(
                    mapped.bytes(&(offset..offset + 1)) == 0,
                    "granule {granule} is mapped and lies nowhere"
                );
                continue;
            }
            let (block, slot) = (place >> self.slot_bits, place & ((1 << self.slot_bits) - 1));
            assert!(mapped.holds(offset), "granule {granule} lies in block {block} and is not mapped");
            assert_eq!(
                self.contents[block as usize].get(slot as usize),
                Some(&(granule as u32)),
                "slot {slot} of block {block}"
            );
            live[block as usize] += 1;
        }
        assert_eq!(live, self.live, "live granules of each block");
        for (block, contents) in (0..).zip(&self.contents) {
            let used = medium.blocks.is_used(Block(block));
            assert_eq!(used, !contents.is_empty(), "block {block} is used, and holds something");
            let idle = live[block as usize] == 0 && !self.is_filling(Block(block));
            assert!(!used || !idle, "nothing lives in block {block}, and it is not free");
        }
        medium.blocks.check();
    }
}
