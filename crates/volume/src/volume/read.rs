//! Reads and the list of mapped ranges.

use super::Inner;
use crate::encode::{Compression, Identity, decode, decode_units};
use crate::extent::{Extent, Pointer, Writer};
use flashlab_block::{Context, Extent as Part, IoError};
use futures_util::future::join_all;
use std::ops::Range;

/// Attempts of a read whose buckets were reused meanwhile.
const ATTEMPTS_MAX: u32 = 100;

/// The reason why a copy of an extent cannot be read.
enum CopyError {
    /// The bucket was reused after the extent was looked up.
    Moved,
    /// The copy is bad.
    Bad,
}

impl Inner {
    /// Fills `buffer` with the bytes from `offset` on.
    pub(super) async fn read(
        &self,
        cx: &Context,
        offset: u64,
        mut buffer: Vec<u8>,
    ) -> Result<Vec<u8>, IoError> {
        let blocks = self.blocks(offset, buffer.len() as u64);
        for _ in 0..ATTEMPTS_MAX {
            let extents: Vec<Extent> = self.lock().map.overlapping(blocks.clone()).cloned().collect();
            if self.layout.promote != 0 {
                extents.iter().for_each(|extent| self.note_promotion(extent));
            }
            if let [extent] = &*extents
                && extent.start() <= blocks.start
                && extent.end >= blocks.end
            {
                match self.read_extent(cx, extent, blocks.clone(), buffer).await? {
                    Some(filled) => return Ok(filled),
                    None => {
                        buffer =
                            vec![0; ((blocks.end - blocks.start) * u64::from(self.layout.block)) as usize]
                    }
                }
                continue;
            }
            if self.read_parts(cx, &extents, blocks.clone(), &mut buffer).await? {
                return Ok(buffer);
            }
        }
        Err(IoError::Medium)
    }

    /// Reads several extents, and zeroes between them. Returns false if one was moved meanwhile.
    async fn read_parts(
        &self,
        cx: &Context,
        extents: &[Extent],
        blocks: Range<u64>,
        buffer: &mut [u8],
    ) -> Result<bool, IoError> {
        let block = u64::from(self.layout.block);
        let part = |extent: &Extent| extent.start().max(blocks.start)..extent.end.min(blocks.end);
        let length = |part: &Range<u64>| ((part.end - part.start) * block) as usize;
        let reads = extents.iter().map(|extent| {
            let part = part(extent);
            let buffer = vec![0; length(&part)];
            self.read_extent(cx, extent, part, buffer)
        });
        buffer.fill(0);
        for (extent, read) in extents.iter().zip(join_all(reads).await) {
            let Some(bytes) = read? else { return Ok(false) };
            let at = ((part(extent).start - blocks.start) * block) as usize;
            buffer[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(true)
    }

    /// Reads `blocks`, a part of the live range of an extent, from one of its copies, into a buffer of that length.
    /// Returns `None` if the extent was moved meanwhile.
    pub(super) async fn read_extent(
        &self,
        cx: &Context,
        extent: &Extent,
        blocks: Range<u64>,
        buffer: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, IoError> {
        let from = u32::from(extent.skip) + (blocks.start - extent.start()) as u32;
        let wanted = from..from + (blocks.end - blocks.start) as u32;
        let mut buffer = Some(buffer);
        if let [pointer] = extent.pointers() {
            return match self.read_copy(cx, extent, pointer, wanted, buffer.take()).await {
                Ok(bytes) => Ok(Some(bytes)),
                Err(CopyError::Moved) => Ok(None),
                Err(CopyError::Bad) => Err(IoError::Medium),
            };
        }
        for pointer in self.by_expected_time(extent) {
            match self.read_copy(cx, extent, &pointer, wanted.clone(), buffer.take()).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(CopyError::Moved) if !pointer.cached => return Ok(None),
                Err(CopyError::Moved | CopyError::Bad) => {}
            }
        }
        Err(IoError::Medium)
    }

    /// Returns the copies of an extent that exist, those with the shortest expected read first.
    fn by_expected_time(&self, extent: &Extent) -> Vec<Pointer> {
        let mut pointers: Vec<Pointer> = {
            let state = self.lock();
            let is_current = |pointer: &&Pointer| state.allocator.is_current(pointer) || !pointer.cached;
            extent.pointers().iter().filter(is_current).copied().collect()
        };
        pointers.sort_by_key(|pointer| {
            let n = usize::from(pointer.member);
            (!self.members[n].present, self.statistics[n].read_ns(), !pointer.cached)
        });
        pointers
    }

    /// Reads blocks `wanted` of a stored extent from one copy, and verifies them. A buffer of the right length is
    /// reused.
    async fn read_copy(
        &self,
        cx: &Context,
        extent: &Extent,
        pointer: &Pointer,
        wanted: Range<u32>,
        buffer: Option<Vec<u8>>,
    ) -> Result<Vec<u8>, CopyError> {
        let (block, unit) = (self.layout.block, self.layout.unit);
        let wanted = wanted.start * block..wanted.end * block;
        let is_whole = extent.compression != Compression::None;
        let range = match is_whole {
            true => 0..extent.stored,
            false => wanted.start / unit * unit..wanted.end.next_multiple_of(unit).min(extent.stored),
        };
        let length = (range.end - range.start).next_multiple_of(block) as usize;
        let buffer = buffer.filter(|buffer| buffer.len() == length).unwrap_or_else(|| vec![0; length]);
        let offset = self.layout.offset(pointer) + u64::from(range.start);
        let read = self.read_from(cx, pointer.member, offset, buffer).await;
        if !self.lock().allocator.is_current(pointer) {
            return Err(CopyError::Moved);
        }
        let mut stored = read.map_err(|_| CopyError::Bad)?;
        stored.truncate((range.end - range.start) as usize);
        let (first, base) = (range.start / unit, if is_whole { 0 } else { range.start });
        let decoded = match extent.single_sum() {
            Some(sum) if !is_whole => (crc32c::crc32c(&stored) == sum).then_some(stored),
            _ if is_whole => self.decode(extent, stored),
            _ => {
                let identity = self.identity(extent);
                decode_units(stored, first, &extent.check(), &identity, &self.encoding).ok()
            }
        };
        let Some(decoded) = decoded else {
            self.checksum_failed(pointer.member);
            return Err(CopyError::Bad);
        };
        let lengths = (decoded.len() as u32, range.end - range.start);
        self.spend(cx, lengths, extent.compression, false).await;
        let wanted = (wanted.start - base) as usize..(wanted.end - base) as usize;
        if wanted == (0..decoded.len()) {
            return Ok(decoded);
        }
        Ok(decoded.get(wanted).ok_or(CopyError::Bad)?.to_vec())
    }

    /// Returns the identity under which an extent was encoded.
    fn identity(&self, extent: &Extent) -> Identity {
        let Writer { epoch, write } = extent.writer();
        let start = extent.start().saturating_sub(u64::from(extent.skip));
        Identity {
            volume: self.layout.volume,
            address: start * u64::from(self.layout.block),
            length: u32::from(extent.whole) * self.layout.block,
            epoch,
            write,
        }
    }

    /// Decodes the stored bytes of a whole extent, without their padding. Returns `None` if they are bad.
    fn decode(&self, extent: &Extent, stored: Vec<u8>) -> Option<Vec<u8>> {
        decode(stored, extent.compression, &extent.check(), &self.identity(extent), &self.encoding).ok()
    }

    /// Reads and verifies the stored bytes of an extent from its first good copy. Returns `None` if no copy that is there
    /// is good, or if the extent was moved meanwhile.
    pub(super) async fn read_stored(&self, cx: &Context, extent: &Extent) -> Option<Vec<u8>> {
        for pointer in self.by_expected_time(extent) {
            if let Some(bytes) = self.read_stored_copy(cx, extent, &pointer).await {
                return Some(bytes);
            }
        }
        None
    }

    /// Returns true if a copy of the extent is on a member that is not there.
    pub(super) fn may_return(&self, extent: &Extent) -> bool {
        extent.pointers().iter().any(|pointer| !self.members[usize::from(pointer.member)].present)
    }

    /// Reads and verifies the stored bytes of one copy of an extent, with their padding.
    pub(super) async fn read_stored_copy(
        &self,
        cx: &Context,
        extent: &Extent,
        pointer: &Pointer,
    ) -> Option<Vec<u8>> {
        let length = (extent.stored_blocks(self.layout.block) * self.layout.block) as usize;
        let read = self.read_from(cx, pointer.member, self.layout.offset(pointer), vec![0; length]).await;
        let stored = read.ok()?;
        let bytes = stored[..extent.stored as usize].to_vec();
        let decoded = self.decode(extent, bytes);
        if decoded.is_none() && self.lock().allocator.is_current(pointer) {
            self.checksum_failed(pointer.member);
        }
        decoded.map(|_| stored)
    }

    /// Returns which parts of a range are mapped.
    pub(super) fn extents(&self, offset: u64, length: u64) -> Vec<Part> {
        let blocks = self.blocks(offset, length);
        let block = u64::from(self.layout.block);
        let (mut parts, mut at) = (Vec::new(), blocks.start);
        let mut part = |blocks: u64, hole: bool| {
            if blocks > 0 {
                Part { length: blocks * block, hole, zero: hole }.append(&mut parts);
            }
        };
        let state = self.lock();
        for extent in state.map.overlapping(blocks.clone()) {
            let (start, end) = (extent.start().max(blocks.start), extent.end.min(blocks.end));
            part(start - at, true);
            part(end - start, false);
            at = end;
        }
        part(blocks.end - at, true);
        parts
    }
}
