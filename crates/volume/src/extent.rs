//! An extent of the map: a range of the volume and the places that store it.

use crate::encode::{Check, Compression};
use std::borrow::Cow;
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

/// Result of work on an extent. The number is the byte on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ExtentState {
    /// Nothing special is known.
    #[default]
    Normal = 0,
    /// All copies were found to be bad. Reads fail until the range is overwritten.
    Poisoned = 1,
    /// Background compression does not save a block.
    Incompressible = 2,
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
    /// Result of work on the extent.
    pub state: ExtentState,
    /// Stored bytes, without padding.
    pub stored: u32,
    first: Pointer,
    sum: u32,
    more: Option<Box<More>>,
}

/// Pointers and checks of an extent that is not stored once under one CRC-32C.
#[derive(Clone, PartialEq, Eq, Debug)]
struct More {
    pointers: Box<[Pointer]>,
    check: Check,
    writer: Writer,
}

/// The write that stored an extent: it determines key and nonce of an encrypted extent, and is zero otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Writer {
    /// Number of the mount.
    pub epoch: u32,
    /// Number of the write within the mount.
    pub write: u64,
}

impl Extent {
    /// Creates an extent whose live range is all of it, and which ends at block `end`.
    pub fn new(
        (end, whole): (u64, u16),
        stored: u32,
        compression: Compression,
        check: Check,
        writer: Writer,
        pointers: &[Pointer],
    ) -> Extent {
        let mut extent = Extent {
            end,
            length: whole,
            skip: 0,
            whole,
            compression,
            state: ExtentState::Normal,
            stored,
            first: Pointer { member: 0, cached: false, bucket: 0, offset: 0, generation: 0 },
            sum: 0,
            more: None,
        };
        extent.set(pointers, Cow::Owned(check), writer);
        extent
    }

    fn set(&mut self, pointers: &[Pointer], check: Cow<'_, Check>, writer: Writer) {
        self.more = match (pointers, &*check) {
            ([pointer], Check::Crc32c(sums)) if sums.len() == 1 => {
                (self.first, self.sum) = (*pointer, sums[0]);
                None
            }
            _ => Some(Box::new(More { pointers: pointers.into(), check: check.into_owned(), writer })),
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

    /// Returns the only checksum if the extent has one CRC-32C.
    pub fn single_sum(&self) -> Option<u32> {
        self.more.is_none().then_some(self.sum)
    }

    /// Returns the checksums or tags of the units of the stored bytes.
    pub fn check(&self) -> Cow<'_, Check> {
        match &self.more {
            Some(more) => Cow::Borrowed(&more.check),
            None => Cow::Owned(Check::Crc32c(vec![self.sum])),
        }
    }

    /// Returns the write that stored the extent.
    pub fn writer(&self) -> Writer {
        self.more.as_ref().map_or(Writer::default(), |more| more.writer)
    }

    /// Returns the same extent with other copies.
    #[must_use]
    pub fn with_pointers(&self, pointers: &[Pointer]) -> Extent {
        let mut extent = self.clone();
        extent.set(pointers, self.check(), self.writer());
        extent
    }

    /// Returns the extent without its copies, all of which are bad.
    #[must_use]
    pub fn poison(&self) -> Extent {
        Extent { state: ExtentState::Poisoned, ..self.with_pointers(&[]) }
    }

    /// Returns the extent with the mark that compression saves nothing.
    #[must_use]
    pub fn incompressible(&self) -> Extent {
        Extent { state: ExtentState::Incompressible, ..self.clone() }
    }

    /// Returns the number of blocks that each copy occupies.
    pub fn stored_blocks(&self, block: u32) -> u32 {
        self.stored.div_ceil(block)
    }

    /// Returns the part of the extent whose live range is `keep`, a part of the present one. An extent that is not
    /// compressed loses the units outside of `keep`, so that their space becomes free.
    #[must_use]
    pub fn cut(&self, keep: Range<u64>, block: u32, unit: u32) -> Extent {
        let mut extent = self.clone();
        extent.skip += (keep.start - self.start()) as u16;
        (extent.end, extent.length) = (keep.end, (keep.end - keep.start) as u16);
        if self.compression != Compression::None || self.state == ExtentState::Poisoned {
            return extent;
        }
        let per_unit = unit / block;
        let first = u32::from(extent.skip) / per_unit;
        let last = (u32::from(extent.skip) + u32::from(extent.length)).div_ceil(per_unit);
        let (lead, end) = (first * per_unit, (last * per_unit).min(u32::from(self.whole)));
        if (lead, end) == (0, u32::from(self.whole)) {
            return extent;
        }
        let check = match &*self.check() {
            Check::Crc32c(sums) => Check::Crc32c(slice(sums, first, last)),
            Check::Xxh3(sums) => Check::Xxh3(slice(sums, first, last)),
            // A tag covers the address of its unit and no other unit.
            Check::Tags(tags) => Check::Tags(slice(tags, first, last)),
        };
        extent.skip -= lead as u16;
        extent.whole = (end - lead) as u16;
        extent.stored = (end - lead) * block;
        let advance = |pointer: &Pointer| Pointer { offset: pointer.offset + lead, ..*pointer };
        let pointers: Vec<Pointer> = self.pointers().iter().map(advance).collect();
        extent.set(&pointers, Cow::Owned(check), self.writer());
        extent
    }
}

/// Returns the checksums of some units.
fn slice<T: Clone>(sums: &[T], first: u32, last: u32) -> Vec<T> {
    sums.get(first as usize..last as usize).unwrap_or_default().to_vec()
}
