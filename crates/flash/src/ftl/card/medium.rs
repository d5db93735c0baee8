//! The NAND array of a card: the allocation, programming and release of its erase blocks, with times and counters.
//!
//! A block is erased when it is allocated; the time of the erase (t_BERS) is charged with its first page. If
//! the card has a fast (SLC) mode ([`Nand::t_prog_slc`]), a block in this mode stores one bit per cell. Such
//! a block therefore holds only a part of the bytes and is programmed faster. Unless the array copies data
//! internally, such a card copies data in full-density cells by way of SLC blocks, because the controller
//! cannot buffer all the data that full-density cells take at once. These SLC blocks belong to the
//! controller. The model omits their wear, because they endure many times the cycles of full-density blocks.

use super::LayerRefinements;
use crate::ftl::inconsistent::{COUNT_MAX, ensure};
use crate::ftl::{Blocks, Inconsistent, ReadOnly, Wear};
use crate::nand::{EraseBlock, Factor, Nand, Variation};
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{Duration, Observer};
use serde::{Deserialize, Serialize};

/// Pages that are programmed one after the other in one erase block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Time of the copies that free space before the first page.
    pub merge: Duration,
    /// Time to erase the block before the first page.
    pub erase: Duration,
    /// Number of pages.
    pub pages: u64,
    /// Time to program one page.
    pub each: Duration,
}

/// Operations of the array for one write. The copies (`read_modify_write`, `merge` and `fold`) precede the first page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Time of the copies and reads that a partial overwrite of rewrite units and granules requires.
    pub read_modify_write: Duration,
    /// Time to merge rewrite units that are closed to make room, to switch to another rewrite unit, and to
    /// collect garbage ahead of the write.
    pub merge: Duration,
    /// Programs of the write itself.
    pub runs: Vec<Run>,
    /// Time to move data for wear leveling, after the last page.
    pub leveling: Duration,
    /// Time to move data out of the area for small writes, to make room for this write.
    pub fold: Duration,
    /// Size in bytes of the pages of `runs` in the area for small writes; `None` if they are pages of the array.
    pub page: Option<u64>,
    /// Whole granules of a batch of ranges, in the order in which the pages of `runs` contain them. Empty if
    /// the write has a single range, whose pages follow its addresses.
    pub packed: Vec<Range<u64>>,
}

impl Work {
    pub(super) fn clear(&mut self) {
        self.read_modify_write = Duration::ZERO;
        self.merge = Duration::ZERO;
        self.leveling = Duration::ZERO;
        self.runs.clear();
        self.fold = Duration::ZERO;
        self.page = None;
        self.packed.clear();
    }

    /// Adds `run`. Its pages extend the last run if they take the same time and no copy or erase precedes
    /// them. Only the last page of a run may be partial.
    pub(super) fn push(&mut self, run: Run) {
        match self.runs.last_mut() {
            Some(last)
                if last.each == run.each && run.erase == Duration::ZERO && run.merge == Duration::ZERO =>
            {
                last.pages += run.pages;
            }
            _ => self.runs.push(run),
        }
    }

    /// Returns the time of all operations, one after the other.
    pub(super) fn time(&self) -> Duration {
        let runs = self.runs.iter().fold(Duration::ZERO, |sum, run| sum + run.merge + run.time());
        self.read_modify_write + self.merge + self.leveling + self.fold + runs
    }

    /// Returns the time of the copies before the first run, without the copies that precede single runs.
    pub fn copies(&self) -> Duration {
        self.read_modify_write + self.merge + self.fold
    }
}

/// Counters of the array's operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Counters {
    pub(super) host_written_bytes: u64,
    pub(super) programs: u64,
    pub(super) read_modify_write_bytes: u64,
    pub(super) merge_bytes: u64,
    pub(super) fold_bytes: u64,
    pub(super) staged_bytes: u64,
    pub(super) gc_blocks: u64,
    pub(super) gc_bytes: u64,
    pub(super) leveling_bytes: u64,
}

/// An erase block that is being filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct OpenBlock {
    pub(super) block: EraseBlock,
    factor: Factor,
    /// Bytes programmed.
    pub(super) filled: u64,
    slc: bool,
}

impl OpenBlock {
    pub(super) fn is_slc(&self) -> bool {
        self.slc
    }
}

/// The array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Medium {
    pub(super) nand: Nand,
    pub(super) blocks: Blocks,
    variation: Variation,
    /// Number of good blocks that the translation layer needs.
    needed: u32,
    read_only: bool,
    pub(super) counters: Counters,
    /// Time of a copy inside the array and the number of bytes that it moves; `None` if the controller reads and
    /// programs the data of a copy.
    #[serde(skip)]
    pub(super) t_copy: Option<(Duration, u64)>,
    /// Maximum number of bytes that garbage collection moves ahead of a write; `None` if it collects whole
    /// blocks.
    #[serde(skip)]
    pub(super) collect_step: Option<u64>,
    /// Bytes of the pages that are programmed in parallel; `None` means one page.
    #[serde(skip)]
    stripe: Option<u64>,
}

impl Medium {
    pub(super) fn new(capacity: u64, nand: Nand, wear: &Wear, needed: u64, seed: u64) -> Self {
        let count = wear.raw_blocks(capacity, nand.erase_block, needed) as u32;
        Medium {
            blocks: Blocks::new(count, wear.pools(), wear.policy(), wear.endurance().as_ref(), seed),
            variation: Variation::new(seed, nand.spread_ppm),
            needed: needed as u32,
            read_only: false,
            counters: Counters::default(),
            t_copy: None,
            collect_step: None,
            stripe: None,
            nand,
        }
    }

    /// Sets the mechanisms of copies and of garbage collection. These mechanisms are parameters of the card,
    /// not part of its state.
    pub(super) fn refine(&mut self, refinements: &LayerRefinements, rewrite_unit: u64) {
        self.t_copy = refinements.t_copy.map(|time| (time, rewrite_unit));
        self.collect_step = refinements.collect_step;
        self.stripe = refinements.stripe;
    }

    /// Returns the number of bytes of the pages that are programmed in parallel.
    pub(super) fn stripe(&self) -> u64 {
        self.stripe.unwrap_or(self.nand.page)
    }

    /// Checks that the array has the parameters and the seed of `like`, and validates its blocks.
    pub(super) fn validate(&self, like: &Medium) -> Result<(), Inconsistent> {
        let made = |m: &Medium| {
            (m.blocks.count(), m.blocks.pool_count(), m.blocks.policy(), m.blocks.seed(), m.needed)
        };
        ensure!(
            self.nand == like.nand
                && made(self) == made(like)
                && self.variation == like.variation
                && self.blocks.endurance() == like.blocks.endurance(),
            "the array was saved with other parameters or another seed"
        );
        let Counters {
            host_written_bytes,
            programs,
            read_modify_write_bytes,
            merge_bytes,
            fold_bytes,
            staged_bytes,
            gc_blocks,
            gc_bytes,
            leveling_bytes,
        } = self.counters;
        let moved = read_modify_write_bytes.max(merge_bytes).max(fold_bytes).max(staged_bytes);
        let most = moved.max(host_written_bytes).max(gc_blocks).max(gc_bytes).max(leveling_bytes);
        ensure!(
            most.max(programs.saturating_mul(self.nand.page)) < COUNT_MAX,
            "a counter of the array exceeds its limit"
        );
        self.blocks.validate()
    }

    /// Returns true if `open_block` refers to a used block and its fill level and mode are possible.
    pub(super) fn can_write_to(&self, open_block: &OpenBlock) -> bool {
        let OpenBlock { block, factor, filled, slc } = *open_block;
        block.index() < self.blocks.count()
            && self.blocks.is_used(block)
            && factor == self.factor(block)
            && (!slc || self.nand.t_prog_slc.is_some())
            && filled.is_multiple_of(self.nand.page)
            && filled <= if slc { self.slc_bytes() } else { self.nand.erase_block }
    }

    /// Returns an error if the card is read-only, because too many blocks are bad.
    pub(super) fn admits_writes(&mut self) -> Result<(), ReadOnly> {
        self.read_only |= self.blocks.usable_count() < self.needed;
        if self.read_only { Err(ReadOnly) } else { Ok(()) }
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(super) fn factor(&self, block: EraseBlock) -> Factor {
        self.variation.factor(u64::from(block.index()))
    }

    /// Allocates an erased block.
    pub(super) fn take(&mut self, slc: bool) -> Result<OpenBlock, ReadOnly> {
        match self.blocks.take_erased_of_any() {
            Some(block) => Ok(self.open_block(block, slc)),
            None => {
                self.read_only = true;
                Err(ReadOnly)
            }
        }
    }

    /// Allocates an erased block for data that wear leveling moves.
    pub(super) fn take_worn(&mut self, pool: u32) -> Result<OpenBlock, ReadOnly> {
        match self.blocks.take_worn_erased(pool) {
            Some(block) => Ok(self.open_block(block, false)),
            None => self.take(false),
        }
    }

    fn open_block(&self, block: EraseBlock, slc: bool) -> OpenBlock {
        OpenBlock { block, factor: self.factor(block), filled: 0, slc }
    }

    /// Returns the number of bytes that still fit into a block.
    pub(super) fn room(&self, open_block: &OpenBlock) -> u64 {
        let bytes = if open_block.slc { self.slc_bytes() } else { self.nand.erase_block };
        bytes - open_block.filled
    }

    /// Returns the number of bytes that a block in SLC mode holds.
    fn slc_bytes(&self) -> u64 {
        let pages = self.nand.erase_block / self.nand.page;
        pages.div_ceil(u64::from(self.nand.cell_bits())) * self.nand.page
    }

    fn page_time(&self, open_block: &OpenBlock) -> Duration {
        let t_prog = match self.nand.t_prog_slc {
            Some(fast) if open_block.slc => fast,
            _ => self.nand.t_prog,
        };
        open_block.factor.of(t_prog)
    }

    /// Programs `pages` pages, for which the block must have room.
    #[inline]
    pub(super) fn program(&mut self, open_block: &mut OpenBlock, pages: u64) -> Run {
        let erase = if open_block.filled == 0 { self.nand.t_bers } else { Duration::ZERO };
        open_block.filled += pages * self.nand.page;
        self.counters.programs += pages;
        Run { merge: Duration::ZERO, erase, pages, each: self.page_time(open_block) }
    }

    /// Returns the time to stream `bytes` out of the array.
    pub(super) fn stream(&self, bytes: u64) -> Duration {
        Duration::from_ratio_secs(bytes, self.nand.read_rate)
    }

    /// Copies `bytes` of full-density cells to whole pages behind the content of `to`, which must have room. Returns
    /// the time.
    pub(super) fn copy(&mut self, to: &mut OpenBlock, bytes: u64) -> Duration {
        if bytes == 0 {
            return Duration::ZERO;
        }
        if let Some(inside) = self.copied_inside(bytes) {
            return inside + self.program(to, bytes.div_ceil(self.nand.page)).erase;
        }
        self.stage(bytes) + self.fold(to, bytes)
    }

    /// Returns the time to copy `bytes` inside the array; `None` if the controller reads and programs the data of a
    /// copy.
    pub(super) fn copied_inside(&self, bytes: u64) -> Option<Duration> {
        self.t_copy.map(|(time, of)| time.scale(bytes, of))
    }

    /// Copies `bytes` to `to` from the SLC blocks that hold or stage them, or from any blocks of an array without SLC
    /// mode. Returns the time.
    pub(super) fn fold(&mut self, to: &mut OpenBlock, bytes: u64) -> Duration {
        let run = self.program(to, bytes.div_ceil(self.nand.page));
        self.stream(bytes) + self.time_of_copied(&run)
    }

    /// Returns the time to erase the block and to program the pages of a copy. All data of a copy is
    /// available at once, so the pages of a stripe are programmed in parallel.
    pub(super) fn time_of_copied(&self, run: &Run) -> Duration {
        run.erase + run.each * self.programs(run.pages)
    }

    /// Returns the number of successive programs of `pages` pages whose data is available at once.
    fn programs(&self, pages: u64) -> u64 {
        pages.div_ceil(self.stripe() / self.nand.page)
    }

    /// Returns the time to stage `bytes` of full-density cells in SLC blocks; zero for an array without SLC mode.
    fn stage(&mut self, bytes: u64) -> Duration {
        let Some(t_prog) = self.nand.t_prog_slc else { return Duration::ZERO };
        self.counters.staged_bytes += bytes;
        t_prog * self.programs(bytes.div_ceil(self.nand.page))
    }

    pub(super) fn observe(&self, to: &mut dyn Observer) {
        let c = &self.counters;
        to.count("host_written_bytes", c.host_written_bytes);
        to.count("read_modify_write_bytes", c.read_modify_write_bytes);
        to.count("merge_bytes", c.merge_bytes);
        to.count("fold_moved_bytes", c.fold_bytes);
        to.count("staged_bytes", c.staged_bytes);
        to.count("collection_count", c.gc_blocks);
        to.count("collection_moved_bytes", c.gc_bytes);
        to.count("leveling_moved_bytes", c.leveling_bytes);
        to.count("read_only", u64::from(self.read_only));
        self.blocks.observe(self.nand.erase_block, to);
    }
}

impl Run {
    /// Returns the time to erase the block and to program all pages, without the copies before them.
    pub fn time(&self) -> Duration {
        self.erase + self.each * self.pages
    }
}
