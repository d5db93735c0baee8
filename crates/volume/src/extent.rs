//! An extent of the map: a range of the volume and the places that store it.

use crate::encode::{Check, Compression};
use std::ops::Range;

/// Place of a copy of an extent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pointer {
    /// Number of the member.
    pub member: u8,
    /// The copy is cached: it may vanish at any time, and does not count as a replica.
    pub cached: bool,
    /// Number of the bucket.
    pub bucket: u32,
    /// First block within the bucket.
    pub offset: u32,
    /// Generation of the bucket when the copy was written.
    pub generation: u32,
}

/// A range of blocks of the volume that is stored together, or the part of one that later writes left over.
///
/// The stored extent covers `whole` blocks; the live range are the `length` blocks from block `skip` of it on. The
/// struct has 48 bytes; further pointers and checksums are on the heap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First block of the volume behind the live range.
    pub end: u64,
    /// Blocks of the live range.
    pub length: u16,
    /// Blocks of the stored extent before the live range.
    pub skip: u16,
    /// Logical blocks of the stored extent.
    pub whole: u16,
    /// Algorithm that compressed the stored bytes.
    pub compression: Compression,
    /// All copies were found to be bad. Reads fail until the range is overwritten.
    pub poisoned: bool,
    /// Stored bytes, without padding.
    pub stored: u32,
    first: Pointer,
    sum: u32,
    more: Option<Box<More>>,
}

/// Pointers and checksums of an extent that has more than one of either, or no pointer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct More {
    pointers: Box<[Pointer]>,
    sums: Box<[u32]>,
}

impl Extent {
    /// Creates an extent whose live range is all of it, and which ends at block `end`.
    pub fn new(
        end: u64,
        whole: u16,
        stored: u32,
        compression: Compression,
        check: Check,
        pointers: &[Pointer],
    ) -> Extent {
        let Check::Crc32c(sums) = check;
        let mut extent = Extent {
            end,
            length: whole,
            skip: 0,
            whole,
            compression,
            poisoned: false,
            stored,
            first: Pointer { member: 0, cached: false, bucket: 0, offset: 0, generation: 0 },
            sum: 0,
            more: None,
        };
        extent.set(pointers.into(), sums.into());
        extent
    }

    fn set(&mut self, pointers: Box<[Pointer]>, sums: Box<[u32]>) {
        self.more = match (&*pointers, &*sums) {
            ([pointer], [sum]) => {
                (self.first, self.sum) = (*pointer, *sum);
                None
            }
            _ => Some(Box::new(More { pointers, sums })),
        };
    }

    /// Returns the first block of the live range.
    pub fn start(&self) -> u64 {
        self.end - u64::from(self.length)
    }

    /// Returns the live range in blocks.
    pub fn live(&self) -> Range<u64> {
        self.start()..self.end
    }

    /// Returns the copies.
    pub fn pointers(&self) -> &[Pointer] {
        self.more.as_ref().map_or(std::slice::from_ref(&self.first), |more| &more.pointers)
    }

    /// Returns the checksums of the units of the stored bytes.
    pub fn sums(&self) -> &[u32] {
        self.more.as_ref().map_or(std::slice::from_ref(&self.sum), |more| &more.sums)
    }

    /// Returns the same extent with other copies.
    #[must_use]
    pub fn with_pointers(&self, pointers: &[Pointer]) -> Extent {
        let mut extent = self.clone();
        extent.set(pointers.into(), self.sums().into());
        extent
    }

    /// Returns the extent without its copies, all of which are bad.
    #[must_use]
    pub fn poison(&self) -> Extent {
        Extent { poisoned: true, ..self.with_pointers(&[]) }
    }

    /// Returns true if a part of the stored bytes can be read and verified on its own.
    pub fn is_plain(&self) -> bool {
        self.compression == Compression::None
    }

    /// Returns the number of blocks that each copy occupies.
    pub fn stored_blocks(&self, block: u32) -> u32 {
        self.stored.div_ceil(block)
    }

    /// Returns the part of the extent whose live range is `keep`, a part of the present one. A plain extent loses the
    /// checksum units outside of `keep`, so that their space becomes free.
    #[must_use]
    pub fn cut(&self, keep: Range<u64>, block: u32, unit: u32) -> Extent {
        let mut extent = self.clone();
        extent.skip += (keep.start - self.start()) as u16;
        (extent.end, extent.length) = (keep.end, (keep.end - keep.start) as u16);
        let per_unit = unit / block;
        if self.is_plain() && !self.poisoned {
            let first = u32::from(extent.skip) / per_unit;
            let last = (u32::from(extent.skip) + u32::from(extent.length)).div_ceil(per_unit);
            let end = (last * per_unit).min(u32::from(self.whole));
            if first > 0 || end < u32::from(self.whole) {
                let lead = first * per_unit;
                extent.skip -= lead as u16;
                extent.whole = (end - lead) as u16;
                extent.stored = (end - lead) * block;
                let advance = |pointer: &Pointer| Pointer { offset: pointer.offset + lead, ..*pointer };
                let pointers = self.pointers().iter().map(advance).collect();
                let sums = self.sums().get(first as usize..last as usize).unwrap_or_default();
                extent.set(pointers, sums.into());
            }
        }
        extent
    }
}
