//! Reads the stored bytes of whole extents, which background work moves unchanged, and finds units without a
//! good copy.
//!
//! An extent that is not compressed has a checksum or a tag for each unit, so each unit can come from another copy.

use super::Inner;
use super::rearrange::shift;
use crate::encode::{Compression, decode_units, is_sound};
use crate::extent::{Extent, Pointer};
use crate::layout::Layout;
use flashlab_block::{Context, IoError};
use flashlab_sim::fault;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// The reason why stored bytes of an extent, or of one copy of it, are not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unread {
    /// Every copy was read, and none agrees with its checks.
    Bad,
    /// A read failed, or a bucket was reused meanwhile, so a copy may still be good.
    Failed,
}

impl Inner {
    /// Returns the units that contain the blocks `wanted` of a stored extent that is not compressed.
    pub(super) fn units(&self, wanted: &Range<u32>) -> Range<u32> {
        let Layout { block, unit, .. } = self.layout;
        wanted.start * block / unit..(wanted.end * block).div_ceil(unit)
    }

    /// Returns the place of a unit within the stored bytes of an extent that is not compressed.
    pub(super) fn unit_range(&self, extent: &Extent, unit: u32) -> Range<u32> {
        let start = unit * self.layout.unit;
        start..(start + self.layout.unit).min(extent.stored())
    }

    /// Reads and verifies the stored bytes of an extent, with their padding: from its first good copy, or unit by unit
    /// if no copy is good. Counts bad copies if `counts` is set.
    pub(super) async fn read_stored(
        &self,
        cx: &Context,
        extent: &Extent,
        counts: bool,
    ) -> Result<Vec<u8>, Unread> {
        let mut why = Unread::Bad;
        for pointer in self.in_reading_order(cx, cx.random(), extent) {
            match self.read_stored_copy(cx, extent, &pointer, counts).await {
                Ok(stored) => return Ok(stored),
                Err(Unread::Failed) => why = Unread::Failed,
                Err(Unread::Bad) => {}
            }
        }
        if is_divisible(extent)
            && let Ok(stored) = self.read_units(cx, extent, 0..extent.units() as u32).await
        {
            return Ok(stored);
        }
        Err(why)
    }

    /// Reads and verifies the stored bytes of one copy of an extent, with their padding. Counts a bad copy if `counts`
    /// is set.
    pub(super) async fn read_stored_copy(
        &self,
        cx: &Context,
        extent: &Extent,
        pointer: &Pointer,
        counts: bool,
    ) -> Result<Vec<u8>, Unread> {
        let length = (extent.stored_blocks(self.layout.block) * self.layout.block) as usize;
        let read = self.read_from(cx, pointer.member, self.layout.offset(pointer), vec![0; length]).await;
        let stored = read.map_err(|_| Unread::Failed)?;
        let (bytes, identity) = (&stored[..extent.stored() as usize], self.identity(extent));
        if is_sound(bytes, extent.compression(), &extent.check(), &identity, &self.encoding) {
            return Ok(stored);
        }
        if !self.lock().allocator.is_current(pointer) {
            return Err(Unread::Failed);
        }
        if counts {
            self.checksum_failed(pointer.member);
        }
        Err(Unread::Bad)
    }

    /// Reads blocks `wanted` of a stored extent unit by unit, because no copy is good as a whole. Returns a
    /// copy and the bytes, or `None` if the map no longer has the extent.
    pub(super) async fn read_by_unit(
        &self,
        cx: &Context,
        extent: &Extent,
        wanted: Range<u32>,
    ) -> Result<Option<(Pointer, Vec<u8>)>, IoError> {
        let units = self.units(&wanted);
        if !is_divisible(extent) || units.len() == 1 {
            return Err(IoError::Medium);
        }
        let Ok(bytes) = self.read_units(cx, extent, units.clone()).await else {
            return self.unreadable(extent);
        };
        let (check, identity) = (extent.check(), self.identity(extent));
        let decoded = decode_units(bytes, units.start, &check, &identity, &self.encoding);
        let decoded = decoded.map_err(|_| IoError::Medium)?;
        let at = |block: u32| (block * self.layout.block - units.start * self.layout.unit) as usize;
        let bytes = decoded[at(wanted.start)..at(wanted.end)].to_vec();
        Ok(Some((extent.pointers()[0], bytes)))
    }

    /// Reads the stored bytes of units of an extent that is not compressed. Each unit comes from a copy in
    /// which the unit is good. Ends at the first unit without a good copy, because a member that fails may
    /// take long to answer.
    async fn read_units(&self, cx: &Context, extent: &Extent, units: Range<u32>) -> Result<Vec<u8>, Unread> {
        let pointers = self.in_reading_order(cx, cx.random(), extent);
        let mut bytes = Vec::new();
        for unit in units {
            bytes.extend(self.read_unit(cx, extent, &pointers, unit).await?);
        }
        Ok(bytes)
    }

    /// Reads and verifies the stored bytes of a unit of an extent that is not compressed, from the first of
    /// these copies in which the unit is good. Bad copies were counted before.
    async fn read_unit(
        &self,
        cx: &Context,
        extent: &Extent,
        pointers: &[Pointer],
        unit: u32,
    ) -> Result<Vec<u8>, Unread> {
        let (range, check, identity) = (self.unit_range(extent, unit), extent.check(), self.identity(extent));
        let mut why = Unread::Bad;
        for pointer in pointers {
            let offset = self.layout.offset(pointer) + u64::from(range.start);
            let read = self.read_from(cx, pointer.member, offset, vec![0; range.len()]).await;
            let is_good = |bytes: &Vec<u8>| {
                decode_units(bytes.clone(), unit, &check, &identity, &self.encoding).is_ok()
            };
            match read {
                Ok(bytes) if is_good(&bytes) => return Ok(bytes),
                Ok(_) if self.lock().allocator.is_current(pointer) => {}
                Ok(_) | Err(_) => why = Unread::Failed,
            }
        }
        Err(why)
    }

    /// Returns the live blocks of the bad units of an extent without a good copy. A unit is bad if all of its
    /// copies were read and none is good. A compressed extent is a single unit.
    pub(super) async fn bad_units(&self, cx: &Context, extent: &Extent) -> Vec<Range<u64>> {
        if extent.compression() != Compression::None || extent.units() == 1 {
            return vec![extent.live()];
        }
        let per_unit = u64::from(self.layout.unit / self.layout.block);
        let first = extent.start() - u64::from(extent.skip());
        let pointers = self.in_reading_order(cx, cx.random(), extent);
        let mut bad = Vec::new();
        for unit in 0..extent.units() as u32 {
            if self.read_unit(cx, extent, &pointers, unit).await == Err(Unread::Bad) {
                let start = first + u64::from(unit) * per_unit;
                bad.push(start.max(extent.start())..(start + per_unit).min(extent.end()));
            }
        }
        bad
    }

    /// Poisons the blocks `bad` of an extent in every part that the map still has with the same copies. All
    /// copies of these blocks are bad.
    pub(super) fn poison(&self, extent: &Extent, bad: &[Range<u64>]) -> Result<(), IoError> {
        let Layout { block, unit, .. } = self.layout;
        let mut state = self.lock();
        let position = state.changes.begin()?;
        let parts: Vec<Extent> = state.map.overlapping(extent.live()).cloned().collect();
        for part in parts.iter().filter(|part| shift(extent, part, block).is_some()) {
            let in_part = |range: &Range<u64>| range.start.max(part.start())..range.end.min(part.end());
            for range in bad.iter().map(in_part).filter(|range| !range.is_empty()) {
                self.lost_blocks.fetch_add(range.end - range.start, Ordering::Relaxed);
                if !fault("volume-forgets-poison") {
                    state.remap(part.cut(range, block, unit).poison(), position, block);
                }
            }
        }
        state.changes.end();
        Ok(())
    }
}

/// Returns true if units of an extent can come from different copies.
fn is_divisible(extent: &Extent) -> bool {
    extent.compression() == Compression::None && extent.units() > 1 && extent.pointers().len() > 1
}
