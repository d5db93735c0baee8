//! Writes of a batch of ranges, which comes from the drain of a cache.
//!
//! If data may be stored anywhere, a page of the array can hold granules of any addresses. The layer then
//! fills pages with the granules of a batch, one behind the other, so that n granules take n / (granules of a
//! page) programs, rounded up. Without a batch, each range has pages of its own. A block-mapped layer packs
//! nothing outside of its area for small writes, because the address of a page determines its place in the
//! block.

use super::super::placement::Placement;
use super::super::refinements::Commit;
use super::{Translation, Work};
use crate::ftl::ReadOnly;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::Duration;

impl Translation {
    /// Returns true if the layer can program `range` and `other` in the same page, although they lie apart: both go to
    /// the area for small writes, or both to blocks that are filled in write order.
    pub fn packs(&self, range: &Range<u64>, other: &Range<u64>) -> bool {
        let is_small = self.is_small(range);
        is_small == self.is_small(other)
            && (is_small || matches!(self.placement, Placement::LogStructured { .. }))
    }

    /// Writes a batch of `ranges`, which are in the order of their addresses. The layer must be able to pack
    /// each range with the first one ([`Translation::packs`]). The granules fill one page after the other,
    /// whatever their addresses are. Returns the operations of the array. After an error, all data that was
    /// written before is still there.
    pub fn write_batch(&mut self, ranges: &[Range<u64>]) -> Result<&Work, ReadOnly> {
        self.medium.admits_writes()?;
        let packed = self.whole_granules(ranges);
        let partly = |sum, range| sum + self.read_partly_overwritten(range);
        let partly_overwritten = ranges.iter().fold(Duration::ZERO, partly);
        if ranges.first().is_some_and(|first| self.is_small(first)) {
            let pages = self.refined.small.as_ref().map_or(0, |area| area.pages_of_packed(&packed));
            self.write_small(&packed, pages)?;
            self.refined.previous_end = ranges.last().map_or(0, |range| range.end);
            self.work.read_modify_write = partly_overwritten;
        } else {
            self.work.clear();
            self.work.read_modify_write = partly_overwritten;
            if self.refinements.t_switch.is_some() {
                self.work.merge = ranges.iter().fold(Duration::ZERO, |sum, range| sum + self.switch(range));
            }
            self.placement.write_packed(ranges, &packed, &mut self.medium, &mut self.work)?;
            if let Some(area) = &mut self.refined.small {
                ranges.iter().for_each(|range| area.remove(range));
            }
        }
        self.work.packed = packed;
        self.medium.counters.host_written_bytes += ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        Ok(&self.work)
    }

    /// Returns the granules that `ranges` touch, as byte ranges without overlap. A granule that two ranges touch is
    /// programmed once.
    fn whole_granules(&self, ranges: &[Range<u64>]) -> Vec<Range<u64>> {
        let granule = self.granule.bytes();
        let mut whole: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
        for range in ranges {
            let (start, end) = (range.start - range.start % granule, range.end.next_multiple_of(granule));
            match whole.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(end),
                _ => whole.push(start..end),
            }
        }
        whole
    }

    /// Returns the times that follow the last program of the last write, a batch of `ranges`. One log record
    /// and one update of the map make all ranges durable.
    pub fn commit_batch(&mut self, ranges: &[Range<u64>]) -> Commit {
        let housekeeping = self.housekeeping(ranges.iter().map(|range| range.end - range.start).sum());
        let whole = |offset: u64| offset.is_multiple_of(self.mapping.program_unit);
        let mut continues = true;
        for range in ranges {
            continues &= self.streams.write(range) && whole(range.start) && whole(range.end);
        }
        if self.work.page.is_some() {
            return Commit { housekeeping, ..Commit::default() };
        }
        let map = if continues { Duration::ZERO } else { self.t_commit() };
        Commit { map, busy: self.refinements.t_write.unwrap_or_default(), housekeeping }
    }
}
