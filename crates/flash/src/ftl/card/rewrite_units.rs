//! The mapping state of map units and rewrite units, and the bytes that a write to them copies.
//!
//! A map unit that was written sequentially is *sequential* and has one map entry. A map unit that was written in
//! random order is *page-mapped* and has one entry per granule. The state is exact: a granule is mapped only if a write
//! mapped it.
//!
//! A rewrite unit is a group of map units that is rewritten together. A write that starts at the first byte
//! of a rewrite unit, or continues where the last write ended, streams. The rewrite unit is then *open*, and
//! none of its data is copied. The rewrite unit is sequential once its end is reached. Any other write to
//! sequential data either converts the rewrite unit or is logged. A conversion ([`Overwrite::Convert`]) reads
//! the rest of the sequential data of the rewrite unit and rewrites it in page-mapped form at once. A logged
//! write ([`Overwrite::Log`]) goes to an open rewrite unit. If more than [`Mapping::open_units`] rewrite
//! units would be open, the least recently used one is merged: the rest of its old data is copied.
//!
//! The rewrite units of this module share erase blocks that are filled in write order; `log_structured.rs` knows the
//! location of their data. If overwrites are logged and a rewrite unit is as large as an erase block, the card uses
//! `log_blocks.rs` instead.

use super::mapped_granules::MappedGranules;
use super::{Mapping, Overwrite};
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use crate::stride::Stride;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Bytes that a write causes to be read and programmed again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copies {
    /// Bytes copied to rewrite a rewrite unit of which a part was overwritten.
    pub read_modify_write: u64,
    /// Bytes copied to complete a rewrite unit that had to be closed.
    pub merge: u64,
}

/// Granularity of a map unit's entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One entry for the map unit (also if nothing is mapped).
    Sequential,
    /// One entry per granule.
    PageMapped,
}

/// State of a map unit in four bytes, because random reads miss the processor's caches here. The lowest bit holds the
/// form; the bits above it hold the physical erase block of the last write.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct MapUnit(u32);

impl MapUnit {
    const BLANK: MapUnit = MapUnit(0);

    fn form(self) -> Form {
        if self.0 & 1 == 0 { Form::Sequential } else { Form::PageMapped }
    }
    fn set_form(&mut self, form: Form) {
        self.0 = self.0 & !1 | u32::from(form == Form::PageMapped);
    }
    fn last_block(self) -> u32 {
        self.0 >> 1
    }
    fn set_last_block(&mut self, block: u32) {
        self.0 = block << 1 | self.0 & 1;
    }
}

/// A rewrite unit that is being written.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct OpenUnit {
    rewrite_unit: usize,
    /// Device offset at which the stream continues; `None` once the rewrite unit was written out of order.
    next: Option<u64>,
}

/// The state of every rewrite unit of a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RewriteUnits {
    capacity: u64,
    bytes: u64,
    unit: Stride,
    overwrite: Overwrite,
    open_max: usize,
    units: Vec<MapUnit>,
    mapped: MappedGranules,
    /// Open rewrite units, least recently used first.
    open: Vec<OpenUnit>,
    /// True if the last write continued a stream, began one, or wrote a whole rewrite unit, in the last
    /// rewrite unit that it touched.
    is_sequential: bool,
    /// Byte ranges that the last write rewrote.
    #[serde(skip)]
    rewritten: Vec<Range<u64>>,
    /// Byte ranges that the last write merged.
    #[serde(skip)]
    merged: Vec<Range<u64>>,
}

impl RewriteUnits {
    /// Creates the state of an unmapped device of `capacity` bytes whose finest map entry covers `granule` bytes.
    pub fn new(capacity: u64, granule: u64, mapping: &Mapping) -> Self {
        let count = capacity.div_ceil(mapping.map_unit) as usize;
        RewriteUnits {
            capacity,
            bytes: mapping.rewrite_unit,
            unit: Stride::new(mapping.map_unit),
            overwrite: mapping.overwrite,
            open_max: mapping.open_units as usize,
            units: vec![MapUnit::BLANK; count],
            mapped: MappedGranules::new(capacity, granule),
            open: Vec::with_capacity(mapping.open_units as usize),
            is_sequential: false,
            rewritten: Vec::new(),
            merged: Vec::new(),
        }
    }

    /// Returns the form of the map unit at byte `offset`, and the erase block of its last write.
    #[inline]
    pub(crate) fn form_and_block(&self, offset: u64) -> (Form, u32) {
        let unit = &self.units[self.unit.index(offset) as usize];
        (unit.form(), unit.last_block())
    }

    /// Prefetches the state of `offset` into the processor's cache.
    pub(crate) fn prefetch(&self, offset: u64) {
        self.mapped.prefetch(offset);
        flashlab_sim::prefetch(&self.units, self.unit.index(offset) as usize);
    }

    /// Writes `range` of device bytes; returns the bytes that the write copied. `block` is the physical erase block in
    /// which programming begins: all written and copied data is recorded in this block.
    pub fn write(&mut self, range: Range<u64>, block: u32) -> Copies {
        let mut copies = Copies::default();
        self.rewritten.clear();
        self.merged.clear();
        // If a write covers only a part of a granule, the layer reads the rest, so that the whole granule is
        // written.
        let range = if self.are_granules() { self.whole_units(&range) } else { range };
        let mut at = range.start;
        while at < range.end {
            let rewrite_unit = (at / self.bytes) as usize;
            let end = range.end.min(self.span(rewrite_unit).end);
            self.write_in_unit(rewrite_unit, at..end, block, &mut copies);
            at = end;
        }
        self.mapped.set(range.clone(), true);
        self.set_last_block(range, block);
        copies
    }

    /// Handles the failure of the last write, which covered `range`. Only granules for whose first byte
    /// `is_stored` returns true stay mapped.
    pub(super) fn write_failed(&mut self, range: &Range<u64>, is_stored: impl Fn(u64) -> bool) {
        self.mapped.retain(range, is_stored);
    }

    /// Returns true if the last write continued a stream, began one, or wrote a whole rewrite unit, in the
    /// last rewrite unit that it touched.
    pub fn is_sequential(&self) -> bool {
        self.is_sequential
    }
    /// Returns true if each granule is a rewrite unit, so that no write copies anything: the layer is page-mapped.
    pub(super) fn are_granules(&self) -> bool {
        self.bytes == self.mapped.granule()
    }
    /// Returns the byte ranges that the last write rewrote; [`Copies::read_modify_write`] counts their bytes.
    pub fn rewritten(&self) -> &[Range<u64>] {
        &self.rewritten
    }
    /// Returns the byte ranges that the last write merged; [`Copies::merge`] counts their bytes.
    pub fn merged(&self) -> &[Range<u64>] {
        &self.merged
    }

    /// Unmaps `range`, rounded inwards to whole granules. A map unit that `range` covers completely is sequential
    /// again.
    pub fn trim(&mut self, range: Range<u64>) {
        let unit_bytes = self.unit.bytes();
        let Range { start, end } = self.mapped.whole(&range);
        if start == end {
            return;
        }
        self.mapped.set(start..end, false);
        for unit in self.units_of(&(start..end)) {
            let unit_start = unit as u64 * unit_bytes;
            if start <= unit_start && (unit_start + unit_bytes).min(self.capacity) <= end {
                self.units[unit].set_form(Form::Sequential);
            }
        }
        let (bytes, capacity) = (self.bytes, self.capacity);
        self.open.retain(|o| {
            let first = o.rewrite_unit as u64 * bytes;
            first < start || end < (first + bytes).min(capacity)
        });
    }

    /// Calls `each` with the part of `range` in each map unit; skips page-mapped map units if `sequential_only` is set.
    fn parts(&self, range: &Range<u64>, sequential_only: bool, mut each: impl FnMut(Range<u64>)) {
        let unit_bytes = self.unit.bytes();
        for unit in self.units_of(range) {
            if sequential_only && self.units[unit].form() == Form::PageMapped {
                continue;
            }
            let start = unit as u64 * unit_bytes;
            each(range.start.max(start)..range.end.min(start + unit_bytes));
        }
    }

    /// Returns the mapped bytes of `range`; if `sequential_only` is set, only those in sequential form.
    fn mapped_bytes(&self, range: Range<u64>, sequential_only: bool) -> u64 {
        let mut bytes = 0;
        self.parts(&range, sequential_only, |part| bytes += self.mapped.bytes(&part));
        bytes
    }

    /// Adds the mapped parts of `range` to `to`.
    fn collect(&self, range: Range<u64>, sequential_only: bool, to: &mut Vec<Range<u64>>) {
        self.parts(&range, sequential_only, |part| self.mapped.collect(&part, to));
    }

    /// Returns the byte range of a rewrite unit. The last one ends at the device's capacity.
    fn span(&self, rewrite_unit: usize) -> Range<u64> {
        let start = rewrite_unit as u64 * self.bytes;
        start..(start + self.bytes).min(self.capacity)
    }

    fn units_of(&self, range: &Range<u64>) -> Range<usize> {
        self.unit.index(range.start) as usize..range.end.div_ceil(self.unit.bytes()) as usize
    }

    fn set_form(&mut self, range: Range<u64>, form: Form) {
        let units = self.units_of(&range);
        self.units[units].iter_mut().for_each(|unit| unit.set_form(form));
    }

    fn set_last_block(&mut self, range: Range<u64>, block: u32) {
        let units = self.units_of(&range);
        self.units[units].iter_mut().for_each(|unit| unit.set_last_block(block));
    }

    /// Writes `range`, which must lie in one rewrite unit.
    fn write_in_unit(&mut self, rewrite_unit: usize, range: Range<u64>, block: u32, copies: &mut Copies) {
        let span = self.span(rewrite_unit);
        self.is_sequential = true;
        if range == span {
            self.open.retain(|o| o.rewrite_unit != rewrite_unit);
            self.set_form(span, Form::Sequential);
            return;
        }
        if let Some(i) = self.open.iter().position(|o| o.rewrite_unit == rewrite_unit) {
            let mut open = self.open.remove(i);
            if open.next == Some(range.start) {
                if range.end == span.end {
                    self.set_form(span, Form::Sequential);
                } else {
                    open.next = Some(range.end);
                    self.open.push(open);
                }
                return;
            }
            if self.overwrite == Overwrite::Log {
                self.is_sequential = false;
                open.next = None;
                self.open.push(open);
                return;
            }
            if self.sequential_rest(&open) == 0 {
                self.set_form(span.start..open.next.unwrap_or(span.start), Form::PageMapped);
            }
        }
        let streams = range.start == span.start;
        self.is_sequential = streams;
        if streams || self.overwrite == Overwrite::Log {
            if self.open.len() == self.open_max {
                let oldest = self.open.remove(0);
                self.close(&oldest, block, copies);
            }
            self.open.push(OpenUnit { rewrite_unit, next: streams.then_some(range.end) });
            return;
        }
        if self.mapped_bytes(self.whole_units(&range), true) > 0 {
            let overwritten = self.mapped.whole(&range);
            let mut rewritten = core::mem::take(&mut self.rewritten);
            for left in [span.start..overwritten.start, overwritten.end..span.end] {
                copies.read_modify_write += self.mapped_bytes(left.clone(), true);
                self.collect(left, true, &mut rewritten);
            }
            self.rewritten = rewritten;
            self.set_form(span.clone(), Form::PageMapped);
            self.set_last_block(span, block);
        } else {
            self.set_form(range, Form::PageMapped);
        }
    }

    /// Extends `range` to whole map units.
    fn whole_units(&self, range: &Range<u64>) -> Range<u64> {
        let unit = self.unit.bytes();
        range.start - range.start % unit..range.end.next_multiple_of(unit).min(self.capacity)
    }

    /// Returns the bytes of old data in sequential form behind the end of an open rewrite unit's stream.
    fn sequential_rest(&self, open: &OpenUnit) -> u64 {
        let span = self.span(open.rewrite_unit);
        self.mapped_bytes(open.next.unwrap_or(span.start)..span.end, true)
    }

    /// Closes an open rewrite unit that is not full: copies the rest of the old data behind the new data. Page-mapped
    /// data stays in place unless the card logs overwrites. If nothing is copied, and the card does not log overwrites,
    /// the stream becomes page-mapped.
    fn close(&mut self, open: &OpenUnit, block: u32, copies: &mut Copies) {
        let span = self.span(open.rewrite_unit);
        let written = open.next.unwrap_or(span.start);
        let log = self.overwrite == Overwrite::Log;
        let rest = self.mapped_bytes(written..span.end, !log);
        copies.merge += rest;
        let mut merged = core::mem::take(&mut self.merged);
        self.collect(written..span.end, !log, &mut merged);
        self.merged = merged;
        if log || rest > 0 {
            self.set_form(span, Form::Sequential);
            self.set_last_block(self.span(open.rewrite_unit), block);
        } else {
            self.set_form(span.start..written, Form::PageMapped);
        }
    }

    /// Checks the state, and compares its sizes with those of `like`, which was created with the same parameters.
    /// `blocks` is the number of erase blocks that can hold data.
    pub(super) fn validate(&self, like: &RewriteUnits, blocks: u32) -> Result<(), Inconsistent> {
        let shape = |s: &RewriteUnits| {
            let RewriteUnits { capacity, bytes, unit, overwrite, open_max, .. } = *s;
            (capacity, bytes, unit, overwrite, open_max, s.units.len())
        };
        ensure!(shape(self) == shape(like), "the rewrite units were saved with other parameters");
        self.mapped.validate(self.capacity, &like.mapped)?;
        ensure!(
            self.units.iter().all(|unit| unit.last_block() < blocks),
            "the last block of a map unit does not exist"
        );
        ensure!(
            self.open.len() <= self.open_max,
            "{} rewrite units are open, expected at most {}",
            self.open.len(),
            self.open_max
        );
        for (at, open) in self.open.iter().enumerate() {
            let first = self.open.iter().position(|other| other.rewrite_unit == open.rewrite_unit);
            let known = (open.rewrite_unit as u64) < self.capacity.div_ceil(self.bytes);
            let in_order = |next| {
                let span = self.span(open.rewrite_unit);
                span.start < next && next < span.end
            };
            ensure!(
                known && first == Some(at) && open.next.is_none_or(in_order),
                "an open rewrite unit is inconsistent: {open:?}"
            );
        }
        Ok(())
    }

    pub(super) fn mapped(&self) -> &MappedGranules {
        &self.mapped
    }
    /// Returns the total of mapped bytes.
    pub(crate) fn mapped_bytes_total(&self) -> u64 {
        self.mapped.bytes_total()
    }
    /// Returns the number of open rewrite units.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }
    /// Returns the number of map units in page-mapped form.
    pub(crate) fn page_mapped_count(&self) -> usize {
        self.units.iter().filter(|unit| unit.form() == Form::PageMapped).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flashlab_sim::{Duration, Rng};
    use proptest::prelude::*;

    const UNIT: u64 = 128 << 10;
    const GRANULE: u64 = 4 << 10;

    fn rewrite_units(overwrite: Overwrite, open_units: u32, count: u64) -> RewriteUnits {
        let mapping = Mapping {
            program_unit: 8 << 10,
            t_commit: Duration::ZERO,
            map_unit: UNIT,
            rewrite_unit: UNIT,
            overwrite,
            open_units,
            map_cache: None,
            map_page: 4 << 10,
        };
        RewriteUnits::new(count * UNIT, GRANULE, &mapping)
    }

    fn fill(s: &mut RewriteUnits, rewrite_units: u64) {
        for at in (0..rewrite_units * UNIT).step_by(UNIT as usize / 4) {
            assert_eq!(s.write(at..at + UNIT / 4, 0), Copies::default(), "a sequential fill copied data");
        }
    }

    #[test]
    fn overwriting_in_sequence_copies_nothing() {
        let mut s = rewrite_units(Overwrite::Convert, 2, 8);
        fill(&mut s, 8);
        fill(&mut s, 8);
        assert_eq!(s.mapped_bytes_total(), 8 * UNIT);
        assert_eq!(s.page_mapped_count(), 0);
    }

    #[test]
    fn the_first_partial_overwrite_converts_and_later_ones_are_free() {
        let mut s = rewrite_units(Overwrite::Convert, 2, 8);
        fill(&mut s, 8);
        let first = s.write(UNIT + GRANULE..UNIT + 2 * GRANULE, 0);
        assert_eq!(
            first,
            Copies { read_modify_write: UNIT - GRANULE, merge: 0 },
            "all but what is overwritten"
        );
        let later = s.write(UNIT + 7 * GRANULE..UNIT + 8 * GRANULE, 0);
        assert_eq!(later, Copies::default());
    }

    #[test]
    fn random_writes_to_a_fresh_device_convert_nothing_in_any_pass() {
        let mut s = rewrite_units(Overwrite::Convert, 2, 64);
        for _ in 0..2 {
            for n in 0..500u64 {
                let at = (n * 7_919 % (64 * UNIT / GRANULE)) * GRANULE;
                assert_eq!(s.write(at..at + GRANULE, 0).read_modify_write, 0);
            }
        }
    }

    #[test]
    fn a_stream_that_stops_early_is_merged_when_its_place_is_needed() {
        let mut s = rewrite_units(Overwrite::Convert, 1, 8);
        fill(&mut s, 8);
        s.write(0..UNIT / 4, 0);
        let evicting = s.write(2 * UNIT..2 * UNIT + GRANULE, 0);
        assert_eq!(evicting, Copies { read_modify_write: 0, merge: UNIT * 3 / 4 });
    }

    #[test]
    fn only_data_that_is_not_overwritten_is_rewritten() {
        let mut s = rewrite_units(Overwrite::Convert, 2, 8);
        fill(&mut s, 8);
        let copies = s.write(GRANULE..UNIT - GRANULE, 0);
        assert_eq!(copies, Copies { read_modify_write: 2 * GRANULE, merge: 0 });
    }

    #[test]
    fn a_stream_that_rewrites_its_tail_is_converted_once_and_not_merged() {
        let mut s = rewrite_units(Overwrite::Convert, 2, 8);
        fill(&mut s, 8);
        s.write(0..UNIT / 4, 0);
        let copies = s.write(UNIT / 4 - GRANULE..UNIT / 4 + GRANULE, 0);
        assert_eq!(copies, Copies { read_modify_write: UNIT - 2 * GRANULE, merge: 0 });
    }

    #[test]
    fn a_rewritten_unit_is_in_the_block_of_its_rewrite() {
        let mut s = rewrite_units(Overwrite::Convert, 2, 8);
        s.bytes = 2 * UNIT;
        s.write(0..2 * UNIT, 1);
        s.write(GRANULE..2 * GRANULE, 9);
        assert_eq!(s.form_and_block(UNIT), (Form::PageMapped, 9));
    }

    #[test]
    fn a_shorter_last_rewrite_unit_is_written_and_trimmed_as_a_whole() {
        for overwrite in [Overwrite::Convert, Overwrite::Log] {
            let mut s = rewrite_units(overwrite, 1, 9);
            s.capacity = 8 * UNIT + UNIT / 2;
            s.write(0..s.capacity, 0);
            assert_eq!(s.open_count(), 0, "written whole");
            s.write(8 * UNIT..8 * UNIT + GRANULE, 0);
            s.write(GRANULE..2 * GRANULE, 0);
            s.write(8 * UNIT + GRANULE..8 * UNIT + 2 * GRANULE, 0);
            s.write(3 * UNIT..3 * UNIT + GRANULE, 0);
            s.write(8 * UNIT..8 * UNIT + GRANULE, 0);
            s.trim(8 * UNIT..s.capacity);
            assert!(!s.open.iter().any(|o| o.rewrite_unit == 8) && !s.mapped().contains(8 * UNIT));
        }
    }

    #[test]
    fn trimmed_rewrite_units_are_fresh_again() {
        let mut s = rewrite_units(Overwrite::Convert, 2, 8);
        fill(&mut s, 8);
        s.trim(UNIT..2 * UNIT);
        assert!(!s.mapped().contains(UNIT) && s.mapped().contains(0) && s.mapped().contains(2 * UNIT));
        assert_eq!(s.write(UNIT + GRANULE..UNIT + 2 * GRANULE, 0), Copies::default());
    }

    /// With N open units in LRU order and random writes over R rewrite units, a share of 1 - N/R of the writes costs a
    /// full copy.
    #[test]
    fn random_writes_to_more_units_than_can_be_open_cost_a_full_copy_per_miss() {
        for (open, over) in [(4u32, 4u64), (4, 8), (8, 32)] {
            let mut s = rewrite_units(Overwrite::Log, open, over);
            fill(&mut s, over);
            let (mut rng, mut copied, writes) = (Rng::new(5), 0, 40_000);
            for _ in 0..writes {
                let unit = rng.below(over);
                let at = unit * UNIT + (1 + rng.below(UNIT / GRANULE - 1)) * GRANULE;
                copied += s.write(at..at + GRANULE, 0).merge;
            }
            let share = copied as f64 / UNIT as f64 / f64::from(writes);
            let expected = 1.0 - f64::from(open) / over as f64;
            assert!((share - expected).abs() < 0.01, "{open} of {over}: {share}, expected {expected}");
        }
    }

    proptest! {
        #[test]
        fn written_granules_are_mapped_and_trimmed_granules_are_not(
            log in any::<bool>(),
            steps in prop::collection::vec((0u64..256, 1u64..80, any::<bool>()), 1..60),
        ) {
            let mut s = rewrite_units(if log { Overwrite::Log } else { Overwrite::Convert }, 2, 8);
            let mut reference = [false; 256];
            for (first, count, write) in steps {
                let last = (first + count).min(256);
                let range = first * GRANULE..last * GRANULE;
                if write {
                    let before = s.mapped_bytes_total();
                    let copies = s.write(range, 0);
                    prop_assert!(copies.read_modify_write + copies.merge <= before + 4 * UNIT);
                } else {
                    s.trim(range);
                }
                reference[first as usize..last as usize].fill(write);
                prop_assert!(s.open_count() <= 2);
            }
            for (granule, &mapped) in reference.iter().enumerate() {
                prop_assert_eq!(s.mapped().contains(granule as u64 * GRANULE), mapped);
            }
        }
    }
}
