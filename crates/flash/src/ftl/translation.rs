//! A card's firmware as one thing: superblocks, map cache and the array's clock-work.
//!
//! It answers in durations and changes state; *when* that happens is the card's business.

use super::streams::Streams;
use super::{Copies, Form, MapCache, MapPage, Mapping, Superblocks};
use crate::nand::{Factor, Nand, Variation};
use crate::stride::Stride;
use core::ops::Range;
use flashlab_sim::{Duration, Observer};

/// Bytes of a map entry.
const ENTRY: u64 = 4;
/// Bytes that the finest map entry covers, where the array's page is not smaller.
const GRANULE_MAX: u64 = 4 << 10;

/// Physical erase blocks are numbered modulo this: 31 bits are kept for each map unit.
const PLACES: u32 = 1 << 31;

/// Work of the array that a request causes, counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    host_written_bytes: u64,
    programs: u64,
    erases: u64,
    read_modify_write_bytes: u64,
    merge_bytes: u64,
}

/// The translation layer of a card, with its array.
#[derive(Clone, Debug)]
pub struct Translation {
    nand: Nand,
    mapping: Mapping,
    granule: Stride,
    unit: Stride,
    granule_stream: Duration,
    superblocks: Superblocks,
    streams: Streams,
    /// Map pages with one entry a map unit.
    map_cache: Option<MapCache>,
    /// The map page with one entry a granule that was loaded last: there is one buffer for them, so that they do not
    /// push out the others.
    granule_map_page_loaded: u64,
    granule_loads: u64,
    unit_map_page: Stride,
    granule_map_page: Stride,
    variation: Variation,
    /// The erase block being filled, its factor, and bytes programmed into it.
    place: u32,
    factor: Factor,
    filled: u64,
    counters: Counters,
}

impl Translation {
    /// A card's firmware over an empty array of `capacity` bytes, on the medium of `seed`.
    pub fn new(capacity: u64, nand: Nand, mapping: Mapping, seed: u64) -> Self {
        let granule = GRANULE_MAX.min(nand.page);
        let entries = mapping.map_page / ENTRY;
        let unit_map_page = Stride::new(entries * mapping.map_unit);
        let pages = capacity.div_ceil(unit_map_page.bytes()) as usize;
        let map_cache =
            mapping.map_cache.map(|bytes| MapCache::new((bytes / mapping.map_page) as usize, pages));
        let variation = Variation::new(seed, nand.spread_ppm);
        Translation {
            superblocks: Superblocks::new(capacity, granule, &mapping),
            streams: Streams::new(mapping.open_units as usize),
            granule: Stride::new(granule),
            unit: Stride::new(mapping.map_unit),
            granule_stream: Duration::from_ratio_secs(granule, nand.read_rate),
            map_cache,
            granule_map_page_loaded: u64::MAX,
            granule_loads: 0,
            unit_map_page,
            granule_map_page: Stride::new(entries * granule),
            variation,
            place: 0,
            factor: variation.factor(0),
            filled: 0,
            counters: Counters::default(),
            nand,
            mapping,
        }
    }

    /// Bytes of a page of the array.
    pub fn page(&self) -> u64 {
        self.nand.page
    }
    /// Bytes that the finest map entry covers.
    pub fn granule(&self) -> u64 {
        self.granule.bytes()
    }
    /// Where the granule of `offset` ends.
    #[inline]
    pub fn granule_end(&self, offset: u64) -> u64 {
        self.granule.end(offset)
    }
    /// Where the map unit of `offset` ends: one look-up is enough up to there.
    #[inline]
    pub fn unit_end(&self, offset: u64) -> u64 {
        self.unit.end(offset)
    }
    /// Prefetches the state of `offset`.
    pub fn prefetch(&self, offset: u64) {
        self.superblocks.prefetch(offset);
    }

    /// Finds the data at `offset`; returns the time to load the map pages that were not there. Each is a read of the
    /// array.
    #[inline]
    pub fn look_up(&mut self, offset: u64) -> Duration {
        let Some(cache) = &mut self.map_cache else { return Duration::ZERO };
        let (form, place) = self.superblocks.form_and_place(offset);
        let unit_page = MapPage(self.unit_map_page.index(offset) as u32);
        let mut loads = u64::from(!cache.look_up(unit_page));
        if form == Form::PageMapped {
            let granule_page = self.granule_map_page.index(offset);
            let other = core::mem::replace(&mut self.granule_map_page_loaded, granule_page) != granule_page;
            self.granule_loads += u64::from(other);
            loads += u64::from(other);
        }
        if loads == 0 {
            Duration::ZERO
        } else {
            self.variation.factor(u64::from(place)).of(self.nand.t_read) * loads
        }
    }

    /// Whether something was written to the granule at `offset`; if not, the array is not asked for it.
    #[inline]
    pub fn is_mapped(&self, offset: u64) -> bool {
        self.superblocks.is_mapped(offset)
    }

    /// Time from a look-up to the first byte of the granule at `offset`.
    #[inline]
    pub fn access(&self, offset: u64) -> Duration {
        let (_, place) = self.superblocks.form_and_place(offset);
        self.variation.factor(u64::from(place)).of(self.nand.t_read)
    }

    /// Time in which `bytes` stream out of the array once it has been accessed.
    #[inline]
    pub fn stream(&self, bytes: u64) -> Duration {
        if bytes == self.granule.bytes() {
            self.granule_stream
        } else {
            Duration::from_ratio_secs(bytes, self.nand.read_rate)
        }
    }

    /// Maps `range` to where the next pages are programmed; returns what must be copied for that.
    pub fn write(&mut self, range: Range<u64>) -> Copies {
        self.counters.host_written_bytes += range.end - range.start;
        let copies = self.superblocks.write(range, self.place);
        self.counters.read_modify_write_bytes += copies.read_modify_write;
        self.counters.merge_bytes += copies.merge;
        copies
    }

    /// The time to make a write to `range` durable beyond its programs: t_commit where it begins a run of writes, which
    /// the map must be told, or leaves a program unit open; nothing where it goes on with a run in whole units.
    pub fn commit(&mut self, range: &Range<u64>) -> Duration {
        let whole = |offset: u64| offset.is_multiple_of(self.mapping.program_unit);
        if self.streams.write(range) && whole(range.start) && whole(range.end) {
            return Duration::ZERO;
        }
        self.factor.of(self.mapping.t_commit)
    }
    /// The time to write map pages alone.
    pub fn t_commit(&self) -> Duration {
        self.factor.of(self.mapping.t_commit)
    }

    /// Time to read the old content of granules of which `range` overwrites only a part: nothing where the ends are
    /// whole granules or not mapped.
    pub fn read_partly_overwritten(&self, range: &Range<u64>) -> Duration {
        let torn = |offset: u64| {
            let granule = offset - offset % self.granule.bytes();
            (granule != offset && self.is_mapped(granule)).then(|| self.access(granule))
        };
        let (head, tail) = (torn(range.start), torn(range.end));
        let same = self.granule.index(range.start) == self.granule.index(range.end);
        head.unwrap_or_default()
            + if same && head.is_some() { Duration::ZERO } else { tail.unwrap_or_default() }
    }

    /// Programs one page; returns its time, with the erasure of the next erase block where this one begins it.
    #[inline]
    pub fn program_page(&mut self) -> Duration {
        let mut time = Duration::ZERO;
        if self.filled == 0 {
            time += self.nand.t_bers;
            self.counters.erases += 1;
        }
        time += self.factor.of(self.nand.t_prog);
        self.counters.programs += 1;
        self.filled += self.nand.page;
        if self.filled == self.nand.erase_block {
            self.filled = 0;
            self.place = (self.place + 1) % PLACES;
            self.factor = self.variation.factor(u64::from(self.place));
        }
        time
    }

    /// Reads and programs `bytes` again; returns the time.
    pub fn copy(&mut self, bytes: u64) -> Duration {
        let mut time = self.stream(bytes);
        for _ in 0..bytes.div_ceil(self.nand.page) {
            time += self.program_page();
        }
        time
    }

    /// Unmaps `range`.
    pub fn trim(&mut self, range: Range<u64>) {
        self.superblocks.trim(range);
    }

    /// Reports what was counted.
    pub fn observe(&self, to: &mut dyn Observer) {
        let c = &self.counters;
        to.count("host_written_bytes", c.host_written_bytes);
        to.count("programmed_bytes", c.programs * self.nand.page);
        to.count("erase_count", c.erases);
        to.count("read_modify_write_bytes", c.read_modify_write_bytes);
        to.count("merge_bytes", c.merge_bytes);
        to.count("mapped_bytes", self.superblocks.mapped_bytes_total());
        to.count("page_mapped_unit_count", self.superblocks.page_mapped_count() as u64);
        to.count("open_superblock_count", self.superblocks.open_count() as u64);
        if let Some(cache) = &self.map_cache {
            let (hits, misses) = cache.hits_and_misses();
            to.count("map_hit_count", hits);
            to.count("map_miss_count", misses);
            to.count("granule_map_load_count", self.granule_loads);
        }
    }
}
