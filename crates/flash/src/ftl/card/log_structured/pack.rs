//! Packing: the layer fills pages with the granules of several ranges, one behind the other.

use super::{LogStructured, Stream};
use crate::ftl::ReadOnly;
use crate::ftl::card::medium::{Medium, Run, Work};
use core::ops::Range;
use flashlab_sim::Duration;

/// Bytes and times of packing granules into blocks.
#[derive(Default)]
struct Packed {
    /// Bytes of the granules.
    bytes: u64,
    /// Time of the garbage collection that made room.
    collection: Duration,
    /// Time to erase the blocks that were opened.
    erases: Duration,
    /// Time to program the pages.
    programs: Duration,
}

impl Packed {
    /// Adds the pages in one block.
    fn add(&mut self, run: &Run, medium: &Medium) {
        self.collection += run.merge;
        self.erases += run.erase;
        self.programs += medium.time_of_copied(run) - run.erase;
    }
}

impl LogStructured {
    /// Copies `ranges`, which consist of whole granules, and packs them; returns the time.
    pub(in crate::ftl::card) fn copy(
        &mut self,
        stream: Stream,
        ranges: &[Range<u64>],
        medium: &mut Medium,
    ) -> Result<Duration, ReadOnly> {
        let Packed { bytes, collection, erases, programs } = self.pack_in_all(stream, ranges, medium)?;
        // The time of a copy inside the array does not include the erases of the blocks that the copy opens.
        let moved = medium.copied_inside(bytes).unwrap_or_else(|| programs + medium.stream(bytes));
        Ok(collection + erases + moved)
    }

    /// Writes `ranges`, whose data comes from the area for small writes, and packs them; returns the time. The ranges
    /// consist of whole granules.
    pub(in crate::ftl::card) fn fold(
        &mut self,
        stream: Stream,
        ranges: &[Range<u64>],
        medium: &mut Medium,
    ) -> Result<Duration, ReadOnly> {
        let Packed { bytes, collection, erases, programs } = self.pack_in_all(stream, ranges, medium)?;
        self.latest = stream;
        Ok(collection + medium.stream(bytes) + erases + programs + self.level_wear(medium))
    }

    /// Writes `ranges`, the whole granules of a batch of host data, and packs them into the block for random data.
    pub(in crate::ftl::card) fn write_packed(
        &mut self,
        ranges: &[Range<u64>],
        medium: &mut Medium,
        work: &mut Work,
    ) -> Result<(), ReadOnly> {
        self.latest = Stream::Random;
        self.pack(Stream::Random, ranges, medium, |run, _| work.push(run))?;
        work.leveling += self.level_wear(medium);
        Ok(())
    }

    /// Programs the granules of `ranges` one behind the other, and returns the sums of the work.
    fn pack_in_all(
        &mut self,
        stream: Stream,
        ranges: &[Range<u64>],
        medium: &mut Medium,
    ) -> Result<Packed, ReadOnly> {
        let mut packed = Packed::default();
        packed.bytes = self.pack(stream, ranges, medium, |run, medium| packed.add(&run, medium))?;
        Ok(packed)
    }

    /// Programs the granules of `ranges` one behind the other, and calls `each` for the pages in each block. Returns the
    /// number of bytes of the granules.
    fn pack(
        &mut self,
        stream: Stream,
        ranges: &[Range<u64>],
        medium: &mut Medium,
        mut each: impl FnMut(Run, &Medium),
    ) -> Result<u64, ReadOnly> {
        let granule = self.granule;
        let mut granules = ranges.iter().flat_map(|r| r.start / granule..r.end.div_ceil(granule)).peekable();
        let mut bytes = 0;
        let of_page = self.page / granule;
        while granules.peek().is_some() {
            let mut merge = Duration::ZERO;
            let mut open_block = self.open(stream, medium, &mut merge)?;
            let mut programs = 0;
            while medium.room(&open_block) > programs * self.page && granules.peek().is_some() {
                let slot = ((open_block.filled + programs * self.page) / granule) as u32;
                for (slot, at) in (slot..).zip(granules.by_ref().take(of_page as usize)) {
                    self.map_granule(open_block.block, slot, at, medium);
                    bytes += granule;
                }
                programs += 1;
            }
            let run = medium.program(&mut open_block, programs);
            each(Run { merge, ..run }, medium);
            *self.open_blocks.of_mut(stream) = Some(open_block);
        }
        Ok(bytes)
    }
}
