//! The translation layer of a card: rewrite units, map cache and the timing of the array.
//!
//! The functions return durations and change the state; the card decides *when* the operations happen.
//!
//! There are two ways to place data. If each rewrite unit is an erase block and overwrites are logged, a
//! rewrite unit is in one block (and, while it is open, in its log blocks). Otherwise blocks are filled in
//! write order, and invalid data is garbage collected.

mod batch;

use super::log_blocks::LogBlocks;
use super::log_structured::LogStructured;
use super::medium::{Medium, Run, Work};
use super::placement::Placement;
use super::refinements::{Commit, LayerRefinements, RefinementState};
use super::sequential_streams::SequentialStreams;
use super::small_writes::SmallArea;
use super::{Form, MapCache, Mapping, RewriteUnits};
use crate::Impossible;
use crate::ftl::inconsistent::{COUNT_MAX, ensure};
use crate::ftl::{Blocks, Ftl, Inconsistent, MapPage, ReadOnly, Wear};
use crate::nand::{EraseBlock, Nand};
use crate::stride::Stride;
use alloc::format;
use core::ops::Range;
use core::slice;
use flashlab_sim::{Duration, Observer};
use serde::{Deserialize, Serialize};

/// Bytes of a map entry.
const ENTRY: u64 = 4;

/// The translation layer of a card, with its array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Translation {
    capacity: u64,
    medium: Medium,
    mapping: Mapping,
    granule: Stride,
    unit: Stride,
    granule_stream: Duration,
    placement: Placement,
    streams: SequentialStreams,
    /// Cache of the map pages that have one entry per map unit.
    map_cache: Option<MapCache>,
    /// The last loaded map page with one entry per granule. Such pages share a single buffer, so that they do
    /// not evict pages with one entry per map unit.
    granule_map_page_loaded: u64,
    granule_loads: u64,
    unit_map_page: Stride,
    granule_map_page: Stride,
    /// Operations of the last write.
    #[serde(skip)]
    work: Work,
    #[serde(skip)]
    refinements: LayerRefinements,
    /// State of the active refinements, which is saved separately.
    #[serde(skip)]
    refined: RefinementState,
}

impl Translation {
    /// Creates the translation layer of a card of `capacity` bytes, over an empty array; `seed` selects the medium.
    pub fn new(capacity: u64, nand: Nand, mapping: Mapping, wear: &Wear, seed: u64) -> Self {
        let granule = super::granule(&nand);
        let entries = mapping.map_page / ENTRY;
        let unit_map_page = Stride::new(entries * mapping.map_unit);
        let pages = capacity.div_ceil(unit_map_page.bytes()) as u32;
        let map_cache = mapping.map_cache.map(|bytes| MapCache::new(bytes / mapping.map_page, pages));
        let granule_stream = Duration::from_ratio_secs(granule, nand.read_rate);
        let needed = needed(capacity, &nand, &mapping, wear.pools());
        let medium = Medium::new(capacity, nand, wear, needed, seed);
        let placement = if mapping.is_block_mapped(&medium.nand) {
            Placement::BlockMapped(LogBlocks::new(capacity, granule, mapping.open_units, &medium))
        } else {
            let rewrite_units = RewriteUnits::new(capacity, granule, &mapping);
            Placement::LogStructured { rewrite_units, log: LogStructured::new(capacity, granule, &medium) }
        };
        Translation {
            capacity,
            placement,
            streams: SequentialStreams::new(mapping.open_units as usize),
            granule: Stride::new(granule),
            unit: Stride::new(mapping.map_unit),
            granule_stream,
            map_cache,
            granule_map_page_loaded: u64::MAX,
            granule_loads: 0,
            unit_map_page,
            granule_map_page: Stride::new(entries * granule),
            medium,
            mapping,
            work: Work::default(),
            refinements: LayerRefinements::default(),
            refined: RefinementState::default(),
        }
    }

    /// Returns this new layer with the mechanisms of `refinements`. The caller has checked `refinements`.
    pub fn with(mut self, refinements: LayerRefinements) -> Self {
        let small = refinements.small;
        self.refined.small = small.max.map(|_| {
            let page = small.page.unwrap_or(self.medium.nand.page);
            SmallArea::new(self.capacity, self.granule.bytes(), page, small.size)
        });
        self.medium.refine(&refinements, self.mapping.rewrite_unit);
        self.refinements = refinements;
        self
    }

    /// Checks that the wear parameters are possible together with the other parameters.
    pub fn check_wear(capacity: u64, nand: &Nand, mapping: &Mapping, wear: &Wear) -> Result<(), Impossible> {
        let needed = needed(capacity, nand, mapping, wear.pools());
        wear.check(capacity, nand.erase_block, needed)?;
        let blocks = wear.raw_blocks(capacity, nand.erase_block, needed);
        let granule = super::granule(nand);
        if !mapping.is_block_mapped(nand) && !LogStructured::can_index(blocks, nand.erase_block, granule) {
            return Err(Impossible::new(
                "card.capacity",
                format!(
                    "and the spare blocks have too many granules of {granule} B: \
                     their locations do not fit into 32 bits"
                ),
            ));
        }
        Ok(())
    }

    /// Returns the size in bytes of a page of the array.
    pub fn page(&self) -> u64 {
        self.medium.nand.page
    }
    /// Returns the number of bytes that the finest map entry covers.
    pub fn granule(&self) -> u64 {
        self.granule.bytes()
    }
    /// Returns the end of the granule that contains `offset`.
    #[inline]
    pub fn granule_end(&self, offset: u64) -> u64 {
        self.granule.end(offset)
    }
    /// Returns the end of the map unit that contains `offset`. One look-up is enough up to this end.
    #[inline]
    pub fn unit_end(&self, offset: u64) -> u64 {
        self.unit.end(offset)
    }
    /// Prefetches the state of `offset`.
    pub fn prefetch(&self, offset: u64) {
        self.placement.prefetch(offset);
    }

    /// Looks up the data at `offset`; returns the time to load the missing map pages. Each load is a read of the array.
    #[inline]
    pub fn look_up(&mut self, offset: u64) -> Duration {
        let Some(cache) = &mut self.map_cache else { return Duration::ZERO };
        let (form, block) = self.placement.form_and_block(offset);
        let unit_page = MapPage(self.unit_map_page.index(offset) as u32);
        let mut loads = u64::from(!cache.look_up(unit_page));
        if form == Form::PageMapped {
            let granule_page = self.granule_map_page.index(offset);
            let other = core::mem::replace(&mut self.granule_map_page_loaded, granule_page) != granule_page;
            self.granule_loads += u64::from(other);
            loads += u64::from(other);
        }
        if loads == 0 { Duration::ZERO } else { self.read_time(block) * loads }
    }

    /// Returns the time of a read of the array in erase block `block`.
    #[inline(never)]
    fn read_time(&self, block: u32) -> Duration {
        self.medium.factor(EraseBlock::new(block)).of(self.medium.nand.t_read)
    }

    /// Returns true if the granule at `offset` is mapped. Unmapped granules are not read from the array.
    #[inline]
    pub fn is_mapped(&self, offset: u64) -> bool {
        if self.refined.small.as_ref().is_some_and(|area| area.contains(offset)) {
            return true;
        }
        self.placement.mapped().contains(offset)
    }

    /// Returns the number of consecutive mapped granules at the beginning of `range`, which must begin at a
    /// granule boundary. Counts whole granules only, and no granules that are mapped only in the area for
    /// small writes.
    #[inline]
    pub fn mapped_run(&self, range: Range<u64>) -> u64 {
        self.placement.mapped().run(range)
    }

    /// Returns the time from a look-up to the first byte of the granule at `offset`.
    #[inline]
    pub fn access(&self, offset: u64) -> Duration {
        let (_, block) = self.placement.form_and_block(offset);
        self.read_time(block)
    }

    /// Returns the time to stream `bytes` out of the array after the access.
    #[inline]
    pub fn stream(&self, bytes: u64) -> Duration {
        if bytes == self.granule.bytes() { self.granule_stream } else { self.medium.stream(bytes) }
    }

    /// Writes `range`: maps it to the pages that are programmed. Returns the operations of the array. After an error,
    /// all data that was written before is still there.
    pub fn write(&mut self, range: Range<u64>) -> Result<&Work, ReadOnly> {
        self.medium.admits_writes()?;
        self.work.clear();
        self.work.read_modify_write = self.read_partly_overwritten(&range);
        if self.refinements.t_switch.is_some() {
            self.work.merge = self.switch(&range);
        }
        let continues = self.streams.continues(&range);
        self.placement.write(&range, continues, &mut self.medium, &mut self.work)?;
        if let Some(area) = &mut self.refined.small {
            area.remove(&range);
        }
        self.medium.counters.host_written_bytes += range.end - range.start;
        Ok(&self.work)
    }

    /// Writes `range`, the data of a whole command. A short command that does not continue a run goes to the
    /// area for small writes; any other command is handled by [`Translation::write`].
    pub fn write_command(&mut self, range: Range<u64>) -> Result<&Work, ReadOnly> {
        if !self.is_small(&range) {
            return self.write(range);
        }
        self.medium.admits_writes()?;
        let partly_overwritten = self.read_partly_overwritten(&range);
        let pages = self.refined.small.as_ref().map_or(0, |area| area.pages(&range));
        self.write_small(slice::from_ref(&range), pages)?;
        self.work.read_modify_write = partly_overwritten;
        self.medium.counters.host_written_bytes += range.end - range.start;
        Ok(&self.work)
    }

    /// Returns true if a write command of `range` goes to the area for small writes.
    fn is_small(&self, range: &Range<u64>) -> bool {
        self.refinements.small.max.is_some_and(|max| range.end - range.start <= max)
            && !self.streams.continues(range)
    }

    /// Writes `ranges` to `pages` pages of the area for small writes, after making room in it.
    fn write_small(&mut self, ranges: &[Range<u64>], pages: u64) -> Result<(), ReadOnly> {
        let fold = self.fold_until(|area| !area.lacks_room(pages))?;
        let area = self.refined.small.as_mut().expect("small.max is set");
        let page = self.refinements.small.page.unwrap_or(self.medium.nand.page);
        area.insert(ranges, pages);
        self.refined.previous_end = ranges.last().map_or(0, |range| range.end);
        self.refined.small_programmed += pages * page;
        let each = self.refinements.small.t_prog.unwrap_or(self.medium.nand.t_prog);
        self.work.clear();
        self.work.fold = fold;
        self.work.runs.push(Run { merge: Duration::ZERO, erase: Duration::ZERO, pages, each });
        self.work.page = Some(page);
        Ok(())
    }

    /// Moves the oldest data of the area for small writes to its place, one rewrite unit at a time, until `done`
    /// returns true or the area is empty. Returns the time.
    fn fold_until(&mut self, done: impl Fn(&SmallArea) -> bool) -> Result<Duration, ReadOnly> {
        let mut time = Duration::ZERO;
        while let Some(area) = &mut self.refined.small
            && !area.is_empty()
            && !done(area)
        {
            let Some(offset) = area.oldest() else { continue };
            let start = offset - offset % self.mapping.rewrite_unit;
            let unit = start..(start + self.mapping.rewrite_unit).min(self.capacity);
            let moved = area.joined_ranges(&unit);
            self.work.clear();
            time += self.placement.fold(&moved, &mut self.medium, &mut self.work)?;
            if let Some(area) = &mut self.refined.small {
                area.remove(&unit);
            }
        }
        Ok(time)
    }

    /// Returns the time to switch to the rewrite unit of `range`. The time is zero if the write continues the
    /// previous one, stays in the same rewrite unit, or covers whole rewrite units.
    fn switch(&mut self, range: &Range<u64>) -> Duration {
        let unit = self.mapping.rewrite_unit;
        let previous_end = core::mem::replace(&mut self.refined.previous_end, range.end);
        let stays =
            range.start == previous_end || range.start / unit == previous_end.saturating_sub(1) / unit;
        let whole = range.start.is_multiple_of(unit) && range.end.is_multiple_of(unit);
        if stays || whole { Duration::ZERO } else { self.refinements.t_switch.unwrap_or_default() }
    }

    /// Returns the times that follow the last program of the last write, which wrote `range`. The map part is
    /// `t_commit` if the write begins a new stream, which needs a map update, or leaves a program unit partly
    /// filled. The map part is zero if the write continues a stream in whole program units. It is also zero
    /// for the area for small writes, whose pages store the addresses of their data.
    pub fn commit(&mut self, range: &Range<u64>) -> Commit {
        self.commit_batch(slice::from_ref(range))
    }

    /// Counts written bytes; returns the time of the housekeeping that is due.
    fn housekeeping(&mut self, bytes: u64) -> Duration {
        let LayerRefinements { housekeeping_every: Some(every), t_housekeeping: Some(time), .. } =
            self.refinements
        else {
            return Duration::ZERO;
        };
        let due = &mut self.refined.since_housekeeping;
        *due += bytes;
        let pauses = *due / every;
        *due %= every;
        time * pauses
    }

    /// Returns the time to write the log record and the map pages that make a write durable.
    pub fn t_commit(&self) -> Duration {
        self.medium.factor(EraseBlock::new(self.placement.last_block())).of(self.mapping.t_commit)
    }

    /// Returns the time to read the old content of granules that `range` overwrites only in part; zero if the ends are
    /// on granule boundaries or not mapped.
    fn read_partly_overwritten(&self, range: &Range<u64>) -> Duration {
        let torn = |offset: u64| {
            let granule = offset - offset % self.granule.bytes();
            (granule != offset && self.is_mapped(granule)).then(|| self.access(granule))
        };
        let (head, tail) = (torn(range.start), torn(range.end));
        let same = self.granule.index(range.start) == self.granule.index(range.end);
        head.unwrap_or_default()
            + if same && head.is_some() { Duration::ZERO } else { tail.unwrap_or_default() }
    }

    /// Advances background work after an idle period of `gap`: garbage collection, and then, in the remaining
    /// time, folding.
    #[inline]
    pub fn idle(&mut self, gap: Duration) {
        if gap > self.medium.nand.t_prog || self.refinements.small.t_idle.is_some_and(|t_idle| gap > t_idle) {
            self.work_while_idle(gap);
        }
    }

    /// Continues [`Translation::idle`] if the gap is long enough for background work.
    #[inline(never)]
    fn work_while_idle(&mut self, gap: Duration) {
        let mut left = gap;
        if let Placement::LogStructured { log, .. } = &mut self.placement
            && gap > self.medium.nand.t_prog
        {
            left = log.collect_while_idle(gap, &mut self.medium);
        }
        if let Some(t_idle) = self.refinements.small.t_idle
            && gap > t_idle
        {
            self.fold_while_idle(left.min(gap - t_idle));
        }
    }

    /// Folds data out of the area for small writes for as long as `left` is long enough to read and program a page. The
    /// fold of a rewrite unit that has begun does not delay the next command.
    fn fold_while_idle(&mut self, mut left: Duration) {
        let of_page = self.medium.stream(self.medium.nand.page) + self.medium.nand.t_prog;
        while left >= of_page
            && let Some(slots) = self.refined.small.as_ref().map(SmallArea::slots).filter(|slots| *slots > 0)
        {
            let Ok(time) = self.fold_until(|area| area.slots() < slots) else { return };
            left = left.saturating_sub(time);
        }
    }

    /// Unmaps the whole granules of `range`.
    pub fn trim(&mut self, range: Range<u64>) {
        let range = self.placement.mapped().whole(&range);
        if let Some(area) = &mut self.refined.small {
            area.remove(&range);
        }
        self.placement.trim(&range, &mut self.medium);
    }

    /// Counts `bytes` that the host wrote and that never reach the layer, because a cache overwrote them.
    pub fn count_absorbed(&mut self, bytes: u64) {
        self.medium.counters.host_written_bytes += bytes;
    }

    /// Returns the operations of the last write.
    pub fn work(&self) -> &Work {
        &self.work
    }
    /// Returns the number of mapped bytes in `range`.
    pub fn mapped_bytes(&self, range: &Range<u64>) -> u64 {
        let in_area = self.refined.small.as_ref().map_or(0, |area| {
            // Data that is also mapped outside the area counts once.
            let only_here = area.ranges(range).filter(|range| self.placement.mapped().bytes(range) == 0);
            only_here.map(|range| range.end - range.start).sum()
        });
        in_area + self.placement.mapped().bytes(range)
    }

    /// Restarts the controller after a power cycle, with empty memory. Returns the time to find the ends of
    /// the open blocks by binary search. The search takes one read for the root and, for each open block, one
    /// read per bit of the number of pages of a block.
    pub fn power_up(&mut self) -> Duration {
        if let Some(cache) = &mut self.map_cache {
            cache.clear();
        }
        self.granule_map_page_loaded = u64::MAX;
        self.streams.clear();
        let open = self.placement.open_count() as u64;
        let pages = (self.medium.nand.erase_block / self.medium.nand.page).max(2);
        self.medium.nand.t_read * (1 + open * u64::from((pages - 1).ilog2() + 1))
    }

    /// Returns the erase blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.medium.blocks
    }
    /// Returns the number of bytes that the host has written and the number of bytes that were programmed.
    pub fn written_and_programmed(&self) -> (u64, u64) {
        let c = &self.medium.counters;
        (c.host_written_bytes, c.programs * self.medium.nand.page + self.refined.small_programmed)
    }
    /// Returns true if the card is read-only: it has rejected a write because too many blocks are bad, and rejects
    /// every later write.
    pub fn is_read_only(&self) -> bool {
        self.medium.is_read_only()
    }
    /// Returns the effective spare in millionths of the capacity: the good bytes beyond the capacity, without the
    /// blocks that must stay free or partly filled.
    fn effective_spare_ppm(&self) -> u64 {
        let blocks = &self.medium.blocks;
        let needed = needed(self.capacity, &self.medium.nand, &self.mapping, blocks.pool_count());
        let kept = needed - self.capacity.div_ceil(self.medium.nand.erase_block);
        let good = u64::from(blocks.usable_count()).saturating_sub(kept) * self.medium.nand.erase_block;
        (u128::from(good.saturating_sub(self.capacity)) * 1_000_000 / u128::from(self.capacity)) as u64
    }

    /// Reports the counters.
    pub fn observe(&self, to: &mut dyn Observer) {
        self.medium.observe(to);
        to.count("programmed_bytes", self.written_and_programmed().1);
        to.count("effective_spare_ppm", self.effective_spare_ppm());
        match &self.placement {
            Placement::BlockMapped(log_blocks) => {
                to.count("mapped_bytes", log_blocks.mapped.bytes_total());
                to.count("page_mapped_unit_count", 0);
                to.count("open_rewrite_unit_count", log_blocks.open_count() as u64);
                let use_of = |block| log_blocks.use_of(block, &self.medium);
                to.block_uses(self.medium.blocks.count(), &use_of);
            }
            Placement::LogStructured { rewrite_units, log } => {
                to.block_uses(self.medium.blocks.count(), &|block| log.use_of(block, &self.medium));
                to.count("mapped_bytes", rewrite_units.mapped_bytes_total());
                to.count("page_mapped_unit_count", rewrite_units.page_mapped_count() as u64);
                to.count("open_rewrite_unit_count", rewrite_units.open_count() as u64);
            }
        }
        if let Some(cache) = &self.map_cache {
            let (hits, misses) = cache.hits_and_misses();
            to.count("map_hit_count", hits);
            to.count("map_miss_count", misses);
            to.count("granule_map_load_count", self.granule_loads);
            let (used, capacity) = cache.level();
            let bytes = |pages: u32| u64::from(pages) * self.mapping.map_page;
            to.level("map cache", bytes(used), bytes(capacity));
        }
    }

    /// Validates the complete state.
    ///
    /// # Panics
    /// Panics if the state is inconsistent.
    pub fn check(&self) {
        if let Err(inconsistent) = self.validate_as(self) {
            panic!("{inconsistent}");
        }
    }

    /// Returns the state of the refinements; `None` if no active refinement has a state.
    pub fn refinement_state(&self) -> Option<&RefinementState> {
        self.refinements.keep_state().then_some(&self.refined)
    }

    /// Replaces the state with `state`, which was read from a state file, if `state` is consistent and has the same
    /// array and the same parameters.
    ///
    /// # Errors
    /// Returns the first inconsistency; the old state stays unchanged.
    pub fn restore(
        &mut self,
        state: Translation,
        refined: Option<RefinementState>,
    ) -> Result<(), Inconsistent> {
        state.validate_as(self)?;
        let mut refined = refined.unwrap_or_default();
        refined.small = match (refined.small, &self.refined.small) {
            (Some(area), Some(like)) => Some(area.restored(like, self.capacity)?),
            (area, like) => {
                ensure!(
                    area.is_none() && like.is_none(),
                    "the state and the profile differ: only one of them has an area for small writes"
                );
                None
            }
        };
        ensure!(
            refined.previous_end <= self.capacity
                && refined.since_housekeeping < self.refinements.housekeeping_every.unwrap_or(1),
            "the end of the last write or the bytes since the last housekeeping are out of range"
        );
        ensure!(
            refined.small_programmed < COUNT_MAX,
            "the counter of bytes programmed by small writes exceeds its limit"
        );
        let refinements = self.refinements;
        *self = Translation { refined, refinements, ..state };
        self.medium.refine(&refinements, self.mapping.rewrite_unit);
        Ok(())
    }

    /// Validates the complete state, and compares its parameters with those of `like`.
    fn validate_as(&self, like: &Translation) -> Result<(), Inconsistent> {
        let made = |t: &Translation| {
            (t.capacity, t.granule, t.unit, t.granule_stream, t.unit_map_page, t.granule_map_page)
        };
        ensure!(
            made(self) == made(like) && self.mapping == like.mapping,
            "the layer was saved with other parameters"
        );
        self.medium.validate(&like.medium)?;
        match (&self.placement, &like.placement) {
            (Placement::BlockMapped(log_blocks), Placement::BlockMapped(like)) => {
                log_blocks.validate(like, &self.medium)?
            }
            (
                Placement::LogStructured { rewrite_units, log },
                Placement::LogStructured { rewrite_units: like, log: log_like },
            ) => {
                rewrite_units.validate(like, self.medium.blocks.count())?;
                log.validate(log_like, rewrite_units.mapped(), &self.medium)?;
            }
            _ => ensure!(false, "the layer was saved with the other data placement"),
        }
        match (&self.map_cache, &like.map_cache) {
            (Some(cache), Some(like)) => cache.validate(like)?,
            (cache, like) => {
                ensure!(
                    cache.is_none() && like.is_none(),
                    "the state and the profile differ: only one of them has a map cache"
                )
            }
        }
        ensure!(
            self.streams.is_like(&like.streams),
            "more runs of writes are tracked than ftl.open_units allows"
        );
        ensure!(self.granule_loads < COUNT_MAX, "the counter of map page loads exceeds its limit");
        Ok(())
    }
}

impl Ftl for Translation {
    fn unit_bytes(&self) -> u64 {
        self.granule()
    }
    fn unit_count(&self) -> u64 {
        self.capacity / self.granule()
    }
    fn write(&mut self, first: u64, count: u64) -> Result<(), ReadOnly> {
        let unit = self.granule();
        Translation::write(self, first * unit..(first + count) * unit).map(|_| ())
    }
    fn trim(&mut self, first: u64, count: u64) {
        let unit = self.granule();
        Translation::trim(self, first * unit..(first + count) * unit);
    }
    /// Does nothing: there is no volatile buffer.
    fn flush(&mut self) {}
    fn blocks(&self) -> &Blocks {
        Translation::blocks(self)
    }
    fn check(&self) {
        Translation::check(self);
    }
    fn observe(&self, to: &mut dyn Observer) {
        Translation::observe(self, to);
    }
}

/// Returns the number of good blocks that the layer needs.
fn needed(capacity: u64, nand: &Nand, mapping: &Mapping, pools: u32) -> u64 {
    if mapping.is_block_mapped(nand) {
        let bits = nand.t_prog_slc.map(|_| nand.cell_bits());
        LogBlocks::needed(capacity, nand.erase_block, mapping.open_units, bits)
    } else {
        LogStructured::needed(capacity, nand.erase_block, pools)
    }
}
