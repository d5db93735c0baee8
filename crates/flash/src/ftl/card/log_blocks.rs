//! Block mapping with log blocks (BAST, block-associative sector translation). Each rewrite unit is as large
//! as an erase block, and its overwrites are logged. The literature calls the merges "switch", "partial" and
//! "full" merge.
//!
//! Every rewrite unit has at most one data block: none while nothing in it is mapped, while it is written for
//! the first time, and while its data is in SLC blocks. A write opens the rewrite unit, which then gets
//! another block. A write that starts at the first byte *streams* into that block, in place. When the stream
//! reaches the end, its block becomes the data block, and the old data block is released without a copy
//! (switch merge). Any other write is *logged*: its pages are appended to the log block. A full log is
//! merged: the valid data is copied to a new block. If more than [`Mapping::open_units`](super::Mapping)
//! rewrite units would be open, the least recently used one is closed. Closing a stream copies the rest of
//! the old data behind the stream (partial merge); closing a log copies all valid data (full merge).
//!
//! If a sequential run ends inside a page, that page is programmed in a separate block for partial pages. The
//! page is programmed again, in its final place, once the run has filled it.
//!
//! A stream that is abandoned and restarted costs no copies. The new stream begins in a new block. The block
//! of the abandoned stream is invalid as soon as the new stream reaches the end of the abandoned stream. A
//! stream that is at most one page long or in SLC blocks is not restarted, and neither is a stream after two
//! abandoned streams: the new write is logged. When a logged run that starts at the first byte has
//! overwritten everything that is mapped, all older blocks are invalid and are released.
//!
//! An open rewrite unit outside SLC blocks has at most two blocks besides its data block, or three if its
//! stream was restarted or a run of its log starts at the first byte.
//!
//! With a fast (SLC) mode ([`Nand::t_prog_slc`](crate::nand::Nand)), SLC blocks take a rewrite unit that is
//! written again from its first byte, with no write to another rewrite unit in between. The rewrite unit then
//! occupies one SLC block per bit of a full-density cell. The data stays there until another rewrite unit is
//! opened, and is then folded into a block of full-density cells.
//!
//! # Guarantees
//! [`LogBlocks::validate`] checks that every used block has one use: the data block of one rewrite unit, a block of one
//! open rewrite unit, or the block for partial pages. If no block is available, the write fails. Data that was mapped
//! before stays stored; the part of the write before the failure may be stored too.

mod uses;
mod validate;

use super::mapped_granules::MappedGranules;
use super::medium::{Medium, OpenBlock, Run, Work};
use crate::ftl::ReadOnly;
use crate::nand::EraseBlock;
use crate::stride::Stride;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::Duration;
use serde::{Deserialize, Serialize};

crate::index::index! {
    /// Number of a rewrite unit.
    struct UnitIndex;
}

/// Greatest number of abandoned streams of a rewrite unit that still hold valid data.
const ABANDONED_MAX: usize = 2;

/// A rewrite unit that is being written.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct OpenUnit {
    rewrite_unit: u32,
    /// Device offset at which the stream continues; `None` once the rewrite unit is logged.
    next: Option<u64>,
    /// The current sequential run in the log.
    run: Option<LoggedRun>,
    /// Full blocks: SLC blocks, or the log blocks before the last one.
    full: Vec<EraseBlock>,
    open_block: OpenBlock,
    /// Streams that were abandoned before the current one began.
    abandoned: Vec<AbandonedStream>,
}

impl OpenUnit {
    fn blocks(&self) -> impl Iterator<Item = EraseBlock> + '_ {
        let abandoned = self.abandoned.iter().map(|abandoned| abandoned.block);
        self.full.iter().copied().chain(abandoned).chain([self.open_block.block])
    }
}

/// A stream that was abandoned because a write restarted at the first byte.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct AbandonedStream {
    block: EraseBlock,
    end: u64,
}

/// A sequential run of logged writes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct LoggedRun {
    start: u64,
    end: u64,
    /// Number of full blocks that were written before the run began.
    before: usize,
}

/// A rewrite unit whose data is in SLC blocks.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SlcCopy {
    rewrite_unit: u32,
    blocks: Vec<EraseBlock>,
}

/// The rewrite units of a card and the erase blocks that hold them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct LogBlocks {
    capacity: u64,
    bytes: Stride,
    page: u64,
    open_max: usize,
    pub(super) mapped: MappedGranules,
    /// The data block of each rewrite unit.
    data: Vec<Option<EraseBlock>>,
    /// The rewrite unit of each erase block that is a data block.
    owner: Vec<Option<UnitIndex>>,
    /// The erase block of each rewrite unit's last write.
    last_block: Vec<u32>,
    /// Open rewrite units, least recently used first.
    open: Vec<OpenUnit>,
    partial: Option<OpenBlock>,
    slc_copy: Option<SlcCopy>,
    /// The rewrite unit that was written last.
    latest: Option<UnitIndex>,
    /// True if a rewrite unit was merged since the last wear leveling.
    has_merged: bool,
}

impl LogBlocks {
    pub(super) fn new(capacity: u64, granule: u64, open_units: u32, medium: &Medium) -> Self {
        let bytes = medium.nand.erase_block;
        let count = capacity.div_ceil(bytes) as usize;
        LogBlocks {
            capacity,
            bytes: Stride::new(bytes),
            page: medium.nand.page,
            open_max: open_units as usize,
            mapped: MappedGranules::new(capacity, granule),
            data: vec![None; count],
            owner: vec![None; medium.blocks.count() as usize],
            last_block: vec![0; count],
            open: Vec::new(),
            partial: None,
            slc_copy: None,
            latest: None,
            has_merged: false,
        }
    }

    /// Returns the number of good blocks that the layer needs: one per rewrite unit, three per open rewrite
    /// unit, one to copy to and one for partial pages. If the array has an SLC mode, two rewrite units may be
    /// in SLC blocks. Each of these then needs one block per bit of a full-density cell instead of one block.
    pub(super) fn needed(capacity: u64, erase_block: u64, open_units: u32, slc_bits: Option<u32>) -> u64 {
        let slc_blocks = slc_bits.map_or(0, |bits| 2 * u64::from(bits.saturating_sub(1)));
        capacity.div_ceil(erase_block) + 3 * u64::from(open_units) + 2 + slc_blocks
    }

    /// Returns the erase block of the last write to the rewrite unit of `offset`.
    #[inline]
    pub(super) fn last_block(&self, offset: u64) -> u32 {
        self.last_block[self.bytes.index(offset) as usize]
    }

    pub(super) fn prefetch(&self, offset: u64) {
        self.mapped.prefetch(offset);
        flashlab_sim::prefetch(&self.last_block, self.bytes.index(offset) as usize);
    }

    /// Writes `range`, and adds the operations of the array to `work`.
    pub(super) fn write(
        &mut self,
        range: &Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let mut at = range.start;
        while at < range.end {
            let rewrite_unit = self.bytes.index(at) as u32;
            let end = range.end.min(self.span(rewrite_unit).end);
            self.mapped.set(at..end, true);
            let done = self.write_in_unit(rewrite_unit, at..end, medium, work);
            if done.is_err() && !self.is_stored(rewrite_unit) {
                self.mapped.set(self.span(rewrite_unit), false);
            }
            done?;
            at = end;
        }
        if core::mem::take(&mut self.has_merged) {
            work.leveling += self.level_wear(medium);
        }
        Ok(())
    }

    /// Unmaps the whole granules of `range`; releases the blocks of a rewrite unit in which nothing stays mapped.
    pub(super) fn trim(&mut self, range: &Range<u64>, medium: &mut Medium) {
        let range = self.mapped.whole(range);
        if range.is_empty() {
            return;
        }
        self.mapped.set(range.clone(), false);
        for rewrite_unit in self.bytes.index(range.start)..range.end.div_ceil(self.bytes.bytes()) {
            let rewrite_unit = rewrite_unit as u32;
            if self.mapped.bytes(&self.span(rewrite_unit)) == 0 {
                self.release_data_blocks(rewrite_unit, medium);
                if let Some(i) = self.open_index(rewrite_unit) {
                    let open = self.open.remove(i);
                    release_open(&open, medium);
                }
            }
        }
    }

    /// Returns the erase block of the last write.
    pub(super) fn latest_block(&self) -> u32 {
        self.latest.map_or(0, |latest| self.last_block[latest.index() as usize])
    }

    pub(super) fn open_count(&self) -> usize {
        self.open.len()
    }

    fn span(&self, rewrite_unit: u32) -> Range<u64> {
        let start = u64::from(rewrite_unit) * self.bytes.bytes();
        start..(start + self.bytes.bytes()).min(self.capacity)
    }

    /// Returns true if any block holds data of a rewrite unit.
    fn is_stored(&self, rewrite_unit: u32) -> bool {
        let slc_copy = self.slc_copy.as_ref().is_some_and(|slc_copy| slc_copy.rewrite_unit == rewrite_unit);
        slc_copy || self.data[rewrite_unit as usize].is_some() || self.open_index(rewrite_unit).is_some()
    }

    fn open_index(&self, rewrite_unit: u32) -> Option<usize> {
        self.open.iter().position(|open| open.rewrite_unit == rewrite_unit)
    }

    /// Writes `range`, which must lie in one rewrite unit.
    fn write_in_unit(
        &mut self,
        rewrite_unit: u32,
        range: Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let span = self.span(rewrite_unit);
        let mut open = match self.open_index(rewrite_unit) {
            Some(i) => self.open.remove(i),
            None => self.open_unit(rewrite_unit, &range, medium, work)?,
        };
        let streams = open.next == Some(range.start);
        let done = if streams {
            open.next = Some(range.end);
            open.run = None;
            self.write_stream(&mut open, &range, medium, work)
        } else if range.start == span.start && self.may_restart_stream(&open) {
            self.restart_stream(&mut open, &range, medium, work)
        } else {
            open.next = None;
            self.write_to_log(&mut open, &range, medium, work)
        };
        self.release_overwritten(&mut open, medium);
        self.latest = Some(UnitIndex::new(rewrite_unit));
        self.last_block[rewrite_unit as usize] = open.open_block.block.index();
        if done.is_ok() && open.next == Some(span.end) {
            self.switch_merge(open, medium);
        } else if self.open.len() < self.open_max {
            self.open.push(open);
        } else {
            // The failed write covers the whole rewrite unit, so no other rewrite unit was closed for it.
            release_open(&open, medium);
        }
        done
    }

    /// Opens a rewrite unit for a first write to `range`.
    fn open_unit(
        &mut self,
        rewrite_unit: u32,
        range: &Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<OpenUnit, ReadOnly> {
        let span = self.span(rewrite_unit);
        let again = self.latest == Some(UnitIndex::new(rewrite_unit)) && range.start == span.start;
        if self.slc_copy.as_ref().is_some_and(|slc_copy| slc_copy.rewrite_unit != rewrite_unit) {
            work.merge += self.fold(medium)?;
        }
        if *range != span && self.open.len() >= self.open_max {
            work.merge += self.merge_least_recently_used(medium)?;
        }
        let open_block = medium.take(again && medium.nand.t_prog_slc.is_some())?;
        let next = (range.start == span.start).then_some(range.start);
        Ok(OpenUnit { rewrite_unit, next, run: None, full: Vec::new(), open_block, abandoned: Vec::new() })
    }

    /// Returns true if a restarted stream gets a new block. The old stream must be longer than a page and not
    /// be in SLC blocks, and the list of abandoned streams must have room.
    fn may_restart_stream(&self, open: &OpenUnit) -> bool {
        let written = open.next.map_or(0, |next| next - self.span(open.rewrite_unit).start);
        written > self.page && !open.open_block.is_slc() && open.abandoned.len() < ABANDONED_MAX
    }

    /// Restarts the stream: writes `range`, which starts at the first byte, into a new block.
    fn restart_stream(
        &mut self,
        open: &mut OpenUnit,
        range: &Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let fresh = medium.take(false)?;
        let block = core::mem::replace(&mut open.open_block, fresh).block;
        let end = open.next.replace(range.end).unwrap_or(range.start);
        open.abandoned.push(AbandonedStream { block, end });
        self.write_stream(open, range, medium, work)
    }

    /// Programs the pages of `range` in place.
    fn write_stream(
        &mut self,
        open: &mut OpenUnit,
        range: &Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let mut pages = range.end / self.page - range.start / self.page;
        while pages > 0 {
            if medium.room(&open.open_block) == 0 {
                let next = medium.take(open.open_block.is_slc())?;
                open.full.push(core::mem::replace(&mut open.open_block, next).block);
            }
            let now = pages.min(medium.room(&open.open_block) / self.page);
            work.runs.push(medium.program(&mut open.open_block, now));
            pages -= now;
        }
        if !range.end.is_multiple_of(self.page) {
            work.runs.push(self.program_partial(medium)?);
        }
        Ok(())
    }

    /// Appends the pages of `range` to the log.
    fn write_to_log(
        &mut self,
        open: &mut OpenUnit,
        range: &Range<u64>,
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        let goes_on = open.run.is_some_and(|run| run.end == range.start);
        let last = if goes_on { range.end / self.page } else { range.end.div_ceil(self.page) };
        let mut pages = last - range.start / self.page;
        if !goes_on {
            open.run = Some(LoggedRun { start: range.start, end: range.start, before: open.full.len() });
        }
        let mut merge = Duration::ZERO;
        while pages > 0 {
            if medium.room(&open.open_block) == 0 {
                merge += self.extend_log(open, medium)?;
                continue;
            }
            let now = pages.min(medium.room(&open.open_block) / self.page);
            let run = medium.program(&mut open.open_block, now);
            work.runs.push(Run { merge: core::mem::take(&mut merge), ..run });
            pages -= now;
        }
        if goes_on && !range.end.is_multiple_of(self.page) {
            work.runs.push(self.program_partial(medium)?);
        }
        if let Some(run) = &mut open.run {
            run.end = range.end;
        }
        Ok(())
    }

    /// Makes room in the log: adds another block, or merges the log if it already has two blocks (three for a run that
    /// starts at the first byte).
    fn extend_log(&mut self, open: &mut OpenUnit, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let start = self.span(open.rewrite_unit).start;
        let most = if open.run.is_some_and(|run| run.start == start) { 2 } else { 1 };
        if open.full.len() + open.abandoned.len() >= most || open.open_block.is_slc() {
            return self.merge_log(open, medium);
        }
        let next = medium.take(false)?;
        open.full.push(core::mem::replace(&mut open.open_block, next).block);
        Ok(Duration::ZERO)
    }

    /// Releases the blocks whose content is overwritten by a stream, or by a run from the first byte on.
    /// Such blocks are those of abandoned streams that end at or before the current end, and all older blocks
    /// if nothing behind the current end is mapped.
    fn release_overwritten(&mut self, open: &mut OpenUnit, medium: &mut Medium) {
        let span = self.span(open.rewrite_unit);
        let run_end = open.run.and_then(|run| (run.start == span.start).then_some(run.end));
        let Some(end) = open.next.or(run_end) else { return };
        if open.open_block.is_slc() {
            return;
        }
        let is_all =
            (!open.abandoned.is_empty() || open.run.is_some()) && self.mapped.bytes(&(end..span.end)) == 0;
        open.abandoned.retain(|abandoned| {
            let dead = is_all || abandoned.end <= end;
            if dead {
                medium.blocks.release(abandoned.block);
            }
            !dead
        });
        if is_all {
            let before = open.run.as_mut().map_or(0, |run| core::mem::take(&mut run.before));
            open.full.drain(..before).for_each(|block| medium.blocks.release(block));
            self.release_data_blocks(open.rewrite_unit, medium);
        }
    }

    /// Programs a partly filled page in the block for partial pages. The earlier pages of that block are superseded by
    /// the time the block is full.
    fn program_partial(&mut self, medium: &mut Medium) -> Result<Run, ReadOnly> {
        let mut open_block = match self.partial {
            Some(open_block) if medium.room(&open_block) > 0 => open_block,
            full => {
                let next = medium.take(false)?;
                if let Some(full) = full {
                    medium.blocks.release(full.block);
                }
                next
            }
        };
        let run = medium.program(&mut open_block, 1);
        self.partial = Some(open_block);
        Ok(run)
    }

    /// Completes a stream that has reached the end of its rewrite unit: its block becomes the data block.
    fn switch_merge(&mut self, open: OpenUnit, medium: &mut Medium) {
        let rewrite_unit = open.rewrite_unit;
        self.release_data_blocks(rewrite_unit, medium);
        open.abandoned.iter().for_each(|abandoned| medium.blocks.release(abandoned.block));
        if open.open_block.is_slc() {
            let mut blocks = open.full;
            blocks.push(open.open_block.block);
            self.slc_copy = Some(SlcCopy { rewrite_unit, blocks });
        } else {
            self.set_data_block(rewrite_unit, open.open_block.block);
        }
        self.has_merged = true;
    }

    /// Closes the least recently used rewrite unit. Returns the time of the copies.
    fn merge_least_recently_used(&mut self, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let oldest = &self.open[0];
        let (rewrite_unit, span) = (oldest.rewrite_unit, self.span(oldest.rewrite_unit));
        let (bytes, in_place) = match oldest.next {
            // The copy of the rest also completes the partial page.
            Some(next) if !oldest.open_block.is_slc() => {
                (self.mapped.bytes(&(next..span.end)) + next % self.page, true)
            }
            _ => (self.mapped.bytes(&span), false),
        };
        let is_slc = oldest.open_block.is_slc();
        let mut open_block = if in_place { oldest.open_block } else { medium.take(false)? };
        let time =
            if is_slc { medium.fold(&mut open_block, bytes) } else { medium.copy(&mut open_block, bytes) };
        medium.counters.merge_bytes += bytes;
        let mut open = self.open.remove(0);
        if in_place {
            open.open_block = open_block;
            self.switch_merge(open, medium);
        } else {
            release_open(&open, medium);
            self.release_data_blocks(rewrite_unit, medium);
            self.set_data_block(rewrite_unit, open_block.block);
            self.has_merged = true;
        }
        Ok(time)
    }

    /// Copies the valid data of a rewrite unit whose log is full to a new block. The log continues behind
    /// that data, or in another block if the new block has no room.
    fn merge_log(&mut self, open: &mut OpenUnit, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let (rewrite_unit, span) = (open.rewrite_unit, self.span(open.rewrite_unit));
        let bytes = self.mapped.bytes(&span);
        let mut to = medium.take(false)?;
        let mut log_block = None;
        if medium.room(&to) < bytes + self.page {
            let taken = medium.take(false);
            if taken.is_err() {
                medium.blocks.release(to.block);
            }
            log_block = Some(taken?);
        }
        let time = medium.copy(&mut to, bytes);
        medium.counters.merge_bytes += bytes;
        release_open(open, medium);
        self.release_data_blocks(rewrite_unit, medium);
        open.full.clear();
        open.abandoned.clear();
        open.run = None;
        open.open_block = match log_block {
            Some(log_block) => {
                self.set_data_block(rewrite_unit, to.block);
                log_block
            }
            None => to,
        };
        self.has_merged = true;
        Ok(time)
    }

    /// Copies the rewrite unit in the SLC blocks to a block of full-density cells.
    fn fold(&mut self, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        let Some(SlcCopy { rewrite_unit, .. }) = self.slc_copy else { return Ok(Duration::ZERO) };
        let bytes = self.mapped.bytes(&self.span(rewrite_unit));
        let mut to = medium.take(false)?;
        let time = medium.fold(&mut to, bytes);
        medium.counters.fold_bytes += bytes;
        self.release_data_blocks(rewrite_unit, medium);
        self.set_data_block(rewrite_unit, to.block);
        Ok(time)
    }

    /// Moves data for wear leveling: one rewrite unit per pool, and more if the policy demands it.
    fn level_wear(&mut self, medium: &mut Medium) -> Duration {
        let mut time = Duration::ZERO;
        for pool in 0..medium.blocks.pool_count() {
            while let Some(from) = medium.blocks.relocate(pool) {
                let Ok(moved) = self.relocate(from, pool, medium) else { return time };
                time += moved;
                if !medium.blocks.must_relocate(pool) {
                    break;
                }
            }
        }
        time
    }

    /// Copies the data of a block to another block. A rewrite unit that is open, or in SLC blocks, is closed by the
    /// copy.
    fn relocate(&mut self, from: EraseBlock, pool: u32, medium: &mut Medium) -> Result<Duration, ReadOnly> {
        if self.partial.is_some_and(|partial| partial.block == from) {
            // Of the pages in this block, only the last page of each open run has not been programmed in its final
            // place.
            let mut to = medium.take_worn(pool)?;
            let ends = self.open.iter().filter_map(|open| open.next.or(open.run.as_ref().map(|run| run.end)));
            let bytes = ends.filter(|end| !end.is_multiple_of(self.page)).count().max(1) as u64 * self.page;
            let time = medium.fold(&mut to, bytes);
            medium.counters.leveling_bytes += bytes;
            self.partial = Some(to);
            medium.blocks.release(from);
            return Ok(time);
        }
        let holds = |open: &OpenUnit| open.blocks().any(|block| block == from);
        let open = self.open.iter().position(holds);
        let slc_copy = self.slc_copy.as_ref().filter(|slc_copy| slc_copy.blocks.contains(&from));
        let rewrite_unit = match (open, slc_copy) {
            (Some(i), _) => self.open[i].rewrite_unit,
            (_, Some(slc_copy)) => slc_copy.rewrite_unit,
            _ => self.owner[from.index() as usize]
                .expect("a used block is open, an SLC copy or a data block")
                .index(),
        };
        let bytes = self.mapped.bytes(&self.span(rewrite_unit));
        let mut to = medium.take_worn(pool)?;
        let time = if slc_copy.is_some() { medium.fold(&mut to, bytes) } else { medium.copy(&mut to, bytes) };
        medium.counters.leveling_bytes += bytes;
        if let Some(i) = open {
            let open = self.open.remove(i);
            release_open(&open, medium);
        }
        self.release_data_blocks(rewrite_unit, medium);
        self.set_data_block(rewrite_unit, to.block);
        Ok(time)
    }

    fn set_data_block(&mut self, rewrite_unit: u32, block: EraseBlock) {
        self.data[rewrite_unit as usize] = Some(block);
        self.owner[block.index() as usize] = Some(UnitIndex::new(rewrite_unit));
        if self.open_index(rewrite_unit).is_none() {
            self.last_block[rewrite_unit as usize] = block.index();
        }
    }

    /// Releases the data block and the SLC blocks of a rewrite unit, but not its open blocks.
    fn release_data_blocks(&mut self, rewrite_unit: u32, medium: &mut Medium) {
        if let Some(block) = self.data[rewrite_unit as usize].take() {
            self.owner[block.index() as usize] = None;
            medium.blocks.release(block);
        }
        if let Some(slc_copy) = self.slc_copy.take_if(|slc_copy| slc_copy.rewrite_unit == rewrite_unit) {
            slc_copy.blocks.into_iter().for_each(|block| medium.blocks.release(block));
        }
    }
}

fn release_open(open: &OpenUnit, medium: &mut Medium) {
    open.blocks().for_each(|block| medium.blocks.release(block));
}
