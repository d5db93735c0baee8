//! An extent of the map: a range of the volume and the places that store it.
//!
//! A map has many millions of extents, so an extent is packed into 56 bytes. Numbers are little-endian, and
//! only as long as the limits of the format require. An extent with one copy and one checksum or tag, or with
//! two copies and one checksum, uses no memory on the heap. An extent with two copies and one tag has a block of 24 bytes
//! there, for which common allocators need 32 bytes; one byte more would cost 48. Any other extent has a block for its
//! further pointers and its checksums or tags.

use crate::encode::{Check, Compression};
use crate::format::MEMBERS_MAX;
use crate::keys::{TAG_LEN, Tag};
use crate::member_set::MemberSet;
use flashlab_sim::fault;
use std::fmt;
use std::ops::{Deref, Range};

/// Exclusive limit on the number of blocks of a volume.
pub(crate) const BLOCKS_MAX: u64 = 1 << 48;
/// Largest number of logical blocks of an extent.
pub(crate) const LENGTH_MAX: u16 = (1 << 10) - 1;
/// Exclusive limit on the number of stored bytes of an extent.
pub(crate) const STORED_MAX: u32 = 1 << 24;
/// Largest number of copies of an extent.
pub(crate) const POINTERS_MAX: usize = 4;

/// Place of a copy of an extent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Pointer {
    /// Number of the member.
    pub member: u8,
    /// True if the copy is cached: it may vanish at any time, and does not count as a replica.
    pub cached: bool,
    /// Number of the bucket.
    pub bucket: u32,
    /// First block within the bucket.
    pub offset: u32,
    /// Generation of the bucket when the copy was written.
    pub generation: u32,
}

/// State of an extent, as found by earlier work on it. The number is the byte on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ExtentState {
    /// Nothing special is known.
    #[default]
    Normal = 0,
    /// All copies were found to be bad. Reads fail until the range is overwritten.
    Poisoned = 1,
    /// Background compression does not save a block. A change of the background compression removes this mark.
    Incompressible = 2,
}

/// The copies of an extent.
#[derive(Clone, Copy, Debug)]
pub struct Pointers {
    array: [Pointer; POINTERS_MAX],
    count: u8,
}

impl Deref for Pointers {
    type Target = [Pointer];
    fn deref(&self) -> &[Pointer] {
        &self.array[..usize::from(self.count)]
    }
}

impl FromIterator<Pointer> for Pointers {
    /// Collects at most four copies.
    fn from_iter<T: IntoIterator<Item = Pointer>>(pointers: T) -> Pointers {
        let mut collected = Pointers { array: [Packed::default().pointer(); POINTERS_MAX], count: 0 };
        for pointer in pointers {
            collected.array[usize::from(collected.count)] = pointer;
            collected.count += 1;
        }
        collected
    }
}

/// The write that stored an extent: it determines key and nonce of an encrypted extent, and is zero otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Writer {
    /// Number of the mount.
    pub epoch: u32,
    /// Number of the write within the mount.
    pub write: u64,
}

/// A pointer in 13 bytes: the member in bits 0 to 4 of the first byte and the cached mark in bit 5, then bucket, offset
/// and generation.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Packed([u8; PACKED_LEN]);

const PACKED_LEN: usize = 13;
const CACHED: u8 = 1 << 5;

/// Number of bytes of the second pointer that an extent with a tag has inline: the member and the bucket.
const INLINE_LEN: usize = 5;

/// The rest of the second pointer and the tag of an extent with two copies and one tag.
#[derive(Clone, PartialEq, Eq)]
struct Rest {
    place: [u8; PACKED_LEN - INLINE_LEN],
    tag: Tag,
}

impl Packed {
    /// Divides the pointer into the part that is inline and the part on the heap.
    fn divide(&self) -> ([u8; INLINE_LEN], [u8; PACKED_LEN - INLINE_LEN]) {
        let (mut inline, mut place) = ([0; INLINE_LEN], [0; PACKED_LEN - INLINE_LEN]);
        inline.copy_from_slice(&self.0[..INLINE_LEN]);
        place.copy_from_slice(&self.0[INLINE_LEN..]);
        (inline, place)
    }

    /// Returns the pointer with these parts.
    fn join(inline: &[u8; INLINE_LEN], place: &[u8; PACKED_LEN - INLINE_LEN]) -> Packed {
        let mut bytes = [0; PACKED_LEN];
        bytes[..INLINE_LEN].copy_from_slice(inline);
        bytes[INLINE_LEN..].copy_from_slice(place);
        Packed(bytes)
    }

    fn of(pointer: &Pointer) -> Packed {
        let mut bytes = [0; PACKED_LEN];
        assert!(usize::from(pointer.member) < MEMBERS_MAX, "the format has {MEMBERS_MAX} members");
        bytes[0] = pointer.member | if pointer.cached { CACHED } else { 0 };
        bytes[1..5].copy_from_slice(&pointer.bucket.to_le_bytes());
        bytes[5..9].copy_from_slice(&pointer.offset.to_le_bytes());
        bytes[9..].copy_from_slice(&pointer.generation.to_le_bytes());
        Packed(bytes)
    }

    fn pointer(&self) -> Pointer {
        let [first, numbers @ ..] = self.0;
        let number = |n: usize| u32::from_le_bytes(numbers.as_chunks().0[n]);
        let (bucket, offset, generation) = (number(0), number(1), number(2));
        Pointer { member: first & (CACHED - 1), cached: first & CACHED != 0, bucket, offset, generation }
    }
}

/// The checks of an extent, and its further pointers. The number of stored bytes is a field of the variants,
/// because they have room for it.
#[derive(Clone, PartialEq, Eq)]
enum Body {
    /// One CRC-32C, and a second pointer if there are two.
    Crc32c { stored: [u8; 3], sum: [u8; 4], second: Packed },
    /// One XXH3, and a second pointer if there are two.
    Xxh3 { stored: [u8; 3], sum: [u8; 8], second: Packed },
    /// One authentication tag.
    Tag { stored: [u8; 3], epoch: [u8; 4], write: [u8; 8], tag: Tag },
    /// One authentication tag and a second pointer.
    TagOfTwo { stored: [u8; 3], epoch: [u8; 4], write: [u8; 8], second: [u8; INLINE_LEN], rest: Box<Rest> },
    /// All pointers but the first, and the checksums or tags, of the kind that `Extent::kinds` states.
    Heap { stored: [u8; 3], epoch: [u8; 4], write: [u8; 8], bytes: Box<[u8]> },
}

/// A range of blocks of the volume that is stored together, or the part of such a range that no later write
/// has replaced.
///
/// The stored extent covers [`whole`](Extent::whole) blocks; the live range consists of [`length`](Extent::length) of
/// these, from block [`skip`](Extent::skip) on.
#[derive(Clone, PartialEq, Eq)]
pub struct Extent {
    /// First block after the live range.
    end: [u8; 6],
    /// From bit 0 on: length, skip and whole with 10 bits each, and the state.
    lengths: [u8; 4],
    /// Number of pointers in bits 0 to 2, compression in bits 3 and 4, kind of the checks in bits 5 and 6.
    kinds: u8,
    /// The first pointer.
    first: Packed,
    body: Body,
}

/// Kinds of checks, in `Extent::kinds`.
const CRC32C: u8 = 0;
const XXH3: u8 = 1;
const TAGS: u8 = 2;

impl Extent {
    /// Creates an extent that ends at block `end` and is live as a whole.
    ///
    /// # Panics
    /// Panics if a number exceeds the limits of the format.
    pub fn new(
        (end, whole): (u64, u16),
        stored: u32,
        compression: Compression,
        check: &Check,
        writer: Writer,
        pointers: &[Pointer],
    ) -> Extent {
        assert!(end < BLOCKS_MAX && whole <= LENGTH_MAX && stored < STORED_MAX, "the limits of the format");
        let mut extent = Extent {
            end: [0; 6],
            lengths: [0; 4],
            kinds: (compression as u8) << 3,
            first: Packed::default(),
            body: Body::Crc32c { stored: [0; 3], sum: [0; 4], second: Packed::default() },
        };
        extent.set_end(end);
        extent.set_lengths(whole, 0, whole, ExtentState::Normal);
        extent.set(stored, pointers, check, writer);
        extent
    }

    fn set_end(&mut self, end: u64) {
        self.end.copy_from_slice(&end.to_le_bytes()[..6]);
    }

    fn set_lengths(&mut self, length: u16, skip: u16, whole: u16, state: ExtentState) {
        let bits = u32::from(length) | u32::from(skip) << 10 | u32::from(whole) << 20 | (state as u32) << 30;
        self.lengths = bits.to_le_bytes();
    }

    /// Returns 10 bits of `lengths`, from bit `at` on.
    fn ten_bits(&self, at: u32) -> u16 {
        (u32::from_le_bytes(self.lengths) >> at & 0x3ff) as u16
    }

    fn set(&mut self, stored: u32, pointers: &[Pointer], check: &Check, writer: Writer) {
        assert!(pointers.len() <= POINTERS_MAX, "the format has {POINTERS_MAX} copies");
        let kind = match check {
            Check::Crc32c(_) => CRC32C,
            Check::Xxh3(_) => XXH3,
            Check::Tags(_) => TAGS,
        };
        self.kinds = self.kinds & 3 << 3 | pointers.len() as u8 | kind << 5;
        self.first = pointers.first().map_or(Packed::default(), Packed::of);
        let second = pointers.get(1).map_or(Packed::default(), Packed::of);
        let [a, b, c, _] = stored.to_le_bytes();
        let stored = [a, b, c];
        let writer = if kind == TAGS { writer } else { Writer::default() };
        let (epoch, write) = (writer.epoch.to_le_bytes(), writer.write.to_le_bytes());
        self.body = match (check, pointers.len()) {
            (Check::Crc32c(sums), 0..=2) if sums.len() == 1 => {
                Body::Crc32c { stored, sum: sums[0].to_le_bytes(), second }
            }
            (Check::Xxh3(sums), 0..=2) if sums.len() == 1 => {
                Body::Xxh3 { stored, sum: sums[0].to_le_bytes(), second }
            }
            (Check::Tags(tags), 0..=1) if tags.len() == 1 => Body::Tag { stored, epoch, write, tag: tags[0] },
            (Check::Tags(tags), 2) if tags.len() == 1 => {
                let (second, place) = second.divide();
                Body::TagOfTwo { stored, epoch, write, second, rest: Box::new(Rest { place, tag: tags[0] }) }
            }
            _ => {
                let further = pointers.iter().skip(1).map(Packed::of);
                let mut bytes: Vec<u8> = further.flat_map(|packed| packed.0).collect();
                match check {
                    Check::Crc32c(sums) => bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes())),
                    Check::Xxh3(sums) => bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes())),
                    Check::Tags(tags) => bytes.extend_from_slice(tags.as_flattened()),
                }
                Body::Heap { stored, epoch, write, bytes: bytes.into() }
            }
        };
    }

    /// Returns the first block of the volume after the live range.
    pub fn end(&self) -> u64 {
        let [a, b, c, d, e, f] = self.end;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }

    /// Returns the number of blocks of the live range.
    pub fn length(&self) -> u16 {
        self.ten_bits(0)
    }

    /// Returns the number of blocks of the stored extent before the live range.
    pub fn skip(&self) -> u16 {
        self.ten_bits(10)
    }

    /// Returns the number of logical blocks of the stored extent.
    pub fn whole(&self) -> u16 {
        self.ten_bits(20)
    }

    /// Returns the state of the extent.
    pub fn state(&self) -> ExtentState {
        match self.lengths[3] >> 6 {
            0 => ExtentState::Normal,
            1 => ExtentState::Poisoned,
            _ => ExtentState::Incompressible,
        }
    }

    /// Returns the algorithm that compressed the stored bytes.
    pub fn compression(&self) -> Compression {
        Compression::from_byte(self.kinds >> 3 & 3).expect("a compression was stored")
    }

    /// Returns the number of stored bytes, without padding.
    pub fn stored(&self) -> u32 {
        let (Body::Crc32c { stored, .. }
        | Body::Xxh3 { stored, .. }
        | Body::Tag { stored, .. }
        | Body::TagOfTwo { stored, .. }
        | Body::Heap { stored, .. }) = &self.body;
        let [a, b, c] = *stored;
        u32::from_le_bytes([a, b, c, 0])
    }

    /// Returns the first block of the live range.
    pub fn start(&self) -> u64 {
        self.end() - u64::from(self.length())
    }

    /// Returns the live range in blocks.
    pub fn live(&self) -> Range<u64> {
        self.start()..self.end()
    }

    /// Returns the number of copies.
    fn copies(&self) -> usize {
        usize::from(self.kinds & 7)
    }

    /// Returns the copies.
    pub fn pointers(&self) -> Pointers {
        let first = self.first.pointer();
        let mut array = [first; POINTERS_MAX];
        match &self.body {
            Body::Crc32c { second, .. } | Body::Xxh3 { second, .. } => array[1] = second.pointer(),
            Body::Tag { .. } => {}
            Body::TagOfTwo { second, rest, .. } => array[1] = Packed::join(second, &rest.place).pointer(),
            Body::Heap { bytes, .. } => {
                let further = bytes.as_chunks().0.iter().take(self.copies().saturating_sub(1));
                array[1..].iter_mut().zip(further).for_each(|(to, from)| *to = Packed(*from).pointer());
            }
        }
        Pointers { array, count: self.copies() as u8 }
    }

    /// Calls `visit` with each copy. A search of the whole map is fast in this way, because most extents have one copy.
    pub(crate) fn visit_pointers(&self, mut visit: impl FnMut(&Pointer)) {
        match self.copies() {
            1 => visit(&self.first.pointer()),
            _ => self.pointers().iter().for_each(visit),
        }
    }

    /// Returns the members with at least one copy.
    pub(crate) fn members(&self) -> MemberSet {
        let mut members = MemberSet::EMPTY;
        self.visit_pointers(|pointer| members.insert(pointer.member));
        members
    }

    /// Returns the checksum of an extent with a single CRC-32C and at most two copies; `None` for any other
    /// extent.
    pub fn single_sum(&self) -> Option<u32> {
        match &self.body {
            Body::Crc32c { sum, .. } => Some(u32::from_le_bytes(*sum)),
            _ => None,
        }
    }

    /// Returns the bytes of the checksums or tags on the heap.
    fn heap_checks<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[self.copies().saturating_sub(1) * PACKED_LEN..]
    }

    /// Returns the number of units that have a checksum or a tag.
    pub fn units(&self) -> usize {
        let Body::Heap { bytes, .. } = &self.body else { return 1 };
        let length = match self.kinds >> 5 {
            CRC32C => 4,
            XXH3 => 8,
            _ => TAG_LEN,
        };
        self.heap_checks(bytes).len() / length
    }

    /// Returns the checksums or tags of the units of the stored bytes.
    pub fn check(&self) -> Check {
        match &self.body {
            Body::Crc32c { sum, .. } => Check::Crc32c(vec![u32::from_le_bytes(*sum)]),
            Body::Xxh3 { sum, .. } => Check::Xxh3(vec![u64::from_le_bytes(*sum)]),
            Body::Tag { tag, .. } => Check::Tags(vec![*tag]),
            Body::TagOfTwo { rest, .. } => Check::Tags(vec![rest.tag]),
            Body::Heap { bytes, .. } => {
                let bytes = self.heap_checks(bytes);
                match self.kinds >> 5 {
                    CRC32C => {
                        Check::Crc32c(bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes).collect())
                    }
                    XXH3 => {
                        Check::Xxh3(bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes).collect())
                    }
                    _ => Check::Tags(bytes.as_chunks().0.to_vec()),
                }
            }
        }
    }

    /// Returns the write that stored the extent.
    pub fn writer(&self) -> Writer {
        match &self.body {
            Body::Crc32c { .. } | Body::Xxh3 { .. } => Writer::default(),
            Body::Tag { epoch, write, .. }
            | Body::TagOfTwo { epoch, write, .. }
            | Body::Heap { epoch, write, .. } => {
                Writer { epoch: u32::from_le_bytes(*epoch), write: u64::from_le_bytes(*write) }
            }
        }
    }

    /// Returns the number of bytes that the extent occupies on the heap.
    pub(crate) fn heap(&self) -> usize {
        match &self.body {
            Body::Heap { bytes, .. } => bytes.len(),
            Body::TagOfTwo { .. } => size_of::<Rest>(),
            Body::Crc32c { .. } | Body::Xxh3 { .. } | Body::Tag { .. } => 0,
        }
    }

    /// Returns the same extent with other copies.
    #[must_use]
    pub fn with_pointers(&self, pointers: &[Pointer]) -> Extent {
        let mut extent = self.clone();
        extent.set(self.stored(), pointers, &self.check(), self.writer());
        extent
    }

    /// Returns the extent in the poisoned state, without its copies, because all copies are bad.
    #[must_use]
    pub fn poison(&self) -> Extent {
        self.with_pointers(&[]).with_live(self.length(), self.skip(), ExtentState::Poisoned)
    }

    /// Returns the extent, marked to show that background compression saves no block.
    #[must_use]
    pub fn incompressible(&self) -> Extent {
        self.clone().with_live(self.length(), self.skip(), ExtentState::Incompressible)
    }

    /// Returns the extent with a live range of `length` blocks after the first `skip` blocks, and with a state.
    #[must_use]
    pub(crate) fn with_live(mut self, length: u16, skip: u16, state: ExtentState) -> Extent {
        self.set_lengths(length, skip, self.whole(), state);
        self
    }

    /// Returns the number of blocks that each copy occupies.
    pub fn stored_blocks(&self, block: u32) -> u32 {
        self.stored().div_ceil(block)
    }

    /// Returns the number of blocks of each copy that count as used. A compressed extent counts as no more
    /// than its live blocks, because garbage collection encodes the live range anew. The used blocks
    /// therefore never exceed the mapped blocks, and there is always a bucket whose collection frees space.
    pub fn held_blocks(&self, block: u32) -> u32 {
        match fault("volume-counts-dead-blocks") {
            true => self.stored_blocks(block),
            false => self.stored_blocks(block).min(self.length().into()),
        }
    }

    /// Returns true if each copy occupies more blocks than the live range.
    pub fn is_wasteful(&self, block: u32) -> bool {
        self.stored_blocks(block) > self.length().into()
    }

    /// Returns the extent with its live range reduced to `keep`. An extent that is not compressed loses the units
    /// outside of `keep`, so that their space becomes free.
    #[must_use]
    pub fn cut(&self, keep: Range<u64>, block: u32, unit: u32) -> Extent {
        let mut extent = self.clone();
        let (skip, whole) = (self.skip() + (keep.start - self.start()) as u16, self.whole());
        let length = (keep.end - keep.start) as u16;
        extent.set_end(keep.end);
        extent.set_lengths(length, skip, whole, self.state());
        if self.compression() != Compression::None || self.state() == ExtentState::Poisoned {
            return extent;
        }
        let per_unit = unit / block;
        let first = u32::from(skip) / per_unit;
        let last = (u32::from(skip) + u32::from(length)).div_ceil(per_unit);
        let (lead, end) = (first * per_unit, (last * per_unit).min(u32::from(whole)));
        if (lead, end) == (0, u32::from(whole)) {
            return extent;
        }
        let check = match self.check() {
            Check::Crc32c(sums) => Check::Crc32c(slice(&sums, first, last)),
            Check::Xxh3(sums) => Check::Xxh3(slice(&sums, first, last)),
            // A tag covers the address of its unit and no other unit.
            Check::Tags(tags) => Check::Tags(slice(&tags, first, last)),
        };
        let mut pointers = self.pointers();
        pointers.array.iter_mut().for_each(|pointer| pointer.offset = pointer.offset.wrapping_add(lead));
        extent.set_lengths(length, skip - lead as u16, (end - lead) as u16, self.state());
        extent.set((end - lead) * block, &pointers, &check, self.writer());
        extent
    }
}

impl fmt::Debug for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extent")
            .field("live", &self.live())
            .field("skip", &self.skip())
            .field("whole", &self.whole())
            .field("compression", &self.compression())
            .field("state", &self.state())
            .field("stored", &self.stored())
            .field("pointers", &&*self.pointers())
            .field("check", &self.check())
            .field("writer", &self.writer())
            .finish()
    }
}

/// Returns the members with at least one of the copies.
pub(crate) fn members_of(pointers: &[Pointer]) -> MemberSet {
    pointers.iter().map(|pointer| pointer.member).collect()
}

/// Returns the checksums of some units.
fn slice<T: Clone>(sums: &[T], first: u32, last: u32) -> Vec<T> {
    sums.get(first as usize..last as usize).unwrap_or_default().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pointer() -> impl Strategy<Value = Pointer> {
        (0u8..32, any::<bool>(), any::<[u32; 3]>()).prop_map(
            |(member, cached, [bucket, offset, generation])| Pointer {
                member,
                cached,
                bucket,
                offset,
                generation,
            },
        )
    }

    fn check() -> impl Strategy<Value = Check> {
        prop_oneof![
            prop::collection::vec(any::<u32>(), 1..9).prop_map(Check::Crc32c),
            prop::collection::vec(any::<u64>(), 1..9).prop_map(Check::Xxh3),
            prop::collection::vec(any::<Tag>(), 1..9).prop_map(Check::Tags),
        ]
    }

    #[test]
    fn an_extent_takes_56_bytes_and_its_further_pointers_and_tags_on_the_heap() {
        assert_eq!(size_of::<Extent>(), 56);
        let pointer = Pointer { member: 31, cached: false, bucket: u32::MAX, offset: 7, generation: 9 };
        let heap = |check: &Check, copies| {
            let pointers = vec![pointer; copies];
            Extent::new((8, 1), 4096, Compression::None, check, Writer::default(), &pointers).heap()
        };
        let tags = |units| Check::Tags(vec![[7; TAG_LEN]; units]);
        assert_eq!([1, 2].map(|copies| heap(&Check::Crc32c(vec![1]), copies)), [0, 0]);
        assert_eq!([1, 2].map(|copies| heap(&Check::Xxh3(vec![1]), copies)), [0, 0]);
        assert_eq!([1, 2, 3].map(|copies| heap(&tags(1), copies)), [0, 24, 2 * PACKED_LEN + TAG_LEN]);
        assert_eq!(heap(&tags(16), 1), 16 * TAG_LEN);
    }

    proptest! {
        #[test]
        fn an_extent_returns_the_values_that_it_was_given(
            (end, whole, stored) in (1024..BLOCKS_MAX, 1..=LENGTH_MAX, 0..STORED_MAX),
            (compression, state) in (0u8..3, 0u8..3),
            pointers in prop::collection::vec(pointer(), 0..5),
            (check, epoch, write) in (check(), any::<u32>(), any::<u64>()),
            (length, skip) in (0..=LENGTH_MAX, 0..=LENGTH_MAX),
        ) {
            let compression = Compression::from_byte(compression).expect("known");
            let state = [ExtentState::Normal, ExtentState::Poisoned, ExtentState::Incompressible][usize::from(state)];
            let writer = match &check {
                Check::Tags(_) => Writer { epoch, write },
                _ => Writer::default(),
            };
            let new = Extent::new((end, whole), stored, compression, &check, writer, &pointers);
            prop_assert_eq!((new.length(), new.skip(), new.state()), (whole, 0, ExtentState::Normal));
            let extent = new.with_live(length, skip, state);
            prop_assert_eq!((extent.end(), extent.whole(), extent.stored()), (end, whole, stored));
            prop_assert_eq!((extent.length(), extent.skip(), extent.state()), (length, skip, state));
            prop_assert_eq!((extent.compression(), extent.writer()), (compression, writer));
            prop_assert_eq!(&*extent.pointers(), &pointers[..]);
            let mut visited = Vec::new();
            extent.visit_pointers(|pointer| visited.push(*pointer));
            prop_assert_eq!(&visited, &pointers);
            prop_assert_eq!(extent.units(), check.units());
            prop_assert_eq!(extent.check(), check);
            prop_assert_eq!(extent.with_pointers(&pointers), extent);
        }
    }
}
