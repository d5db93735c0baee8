//! Reads and the list of mapped ranges.

mod parts;

use super::Inner;
use super::codec::Work;
use super::threads::decompress_ns;
use crate::encode::{Check, Compression, Encoding, Identity, decode, decode_units};
use crate::extent::{Extent, Pointer, Writer};
use flashlab_block::{Context, Extent as Part, IoError};
use std::ops::Range;

/// Maximum number of attempts at a read whose buckets are reused meanwhile.
const ATTEMPTS_MAX: u32 = 100;

/// The reason why a copy of an extent cannot be read.
enum CopyError {
    /// The bucket was reused after the extent was looked up, or the copy is bad and the map no longer has the extent.
    Moved,
    /// The copy is bad.
    Bad,
}

/// The extents of a range.
enum Found {
    /// One extent covers the range.
    One(Extent),
    Parts(Vec<Extent>),
}

/// Stored bytes on a member.
struct Fetch {
    /// First byte on the member.
    offset: u64,
    /// Bytes to read, with padding.
    length: usize,
    /// The same range without padding, relative to the beginning of the extent's stored bytes.
    range: Range<u32>,
}

/// Stored bytes of one copy of an extent, without their padding.
struct Fetched {
    stored: Vec<u8>,
    compression: Compression,
    how: Opening,
    /// True if the stored bytes are those of the whole extent, which is to get a cached copy.
    is_kept: bool,
}

/// Verified and decoded bytes of a copy of an extent.
struct Opened {
    bytes: Vec<u8>,
    /// The stored bytes, if they are kept.
    stored: Option<Vec<u8>>,
}

/// The result of a read of an extent.
pub(super) struct Reading {
    /// A copy that was read.
    from: Pointer,
    /// The bytes that the read needs.
    pub(super) bytes: Vec<u8>,
    /// The stored bytes of the whole extent, if they were read and the extent is to get a cached copy.
    stored: Option<Vec<u8>>,
}

/// Method of verifying stored bytes.
enum Opening {
    /// One checksum for all bytes.
    Sum(u32),
    /// Checks of the units of the extent. The bytes begin with the unit `first`.
    Checks { first: u32, check: Check, identity: Identity },
}

impl Fetched {
    /// Verifies and decodes the bytes. Returns `None` if they are bad.
    fn open(self, encoding: &Encoding) -> Option<Opened> {
        let Fetched { stored: bytes, compression, how, is_kept } = self;
        let stored = is_kept.then(|| bytes.clone());
        let bytes = match how {
            Opening::Sum(sum) => (crc32c::crc32c(&bytes) == sum).then_some(bytes),
            Opening::Checks { first, check, identity } => match compression {
                Compression::None => decode_units(bytes, first, &check, &identity, encoding).ok(),
                _ => decode(bytes, compression, &check, &identity, encoding).ok(),
            },
        };
        bytes.map(|bytes| Opened { bytes, stored })
    }
}

/// Returns the position of `blocks` within the extent as it was stored. Parts of that extent may have been overwritten
/// since.
fn stored(extent: &Extent, blocks: &Range<u64>) -> Range<u32> {
    let from = u32::from(extent.skip()) + (blocks.start - extent.start()) as u32;
    from..from + (blocks.end - blocks.start) as u32
}

/// Draws one of several members at random, with odds in proportion to the squares of their speeds. `times_ns`
/// contains the times of their reads in nanoseconds, shortest first. Returns the index of the drawn member.
/// `random` is compared with the cumulative odds, which begin with the slowest member.
fn drawn(times_ns: &[u64], random: u64) -> usize {
    let squares: Vec<u128> = times_ns.iter().map(|ns| square(*ns)).collect();
    let is_at_or_behind = |n: &usize| is_drawn(combined(&squares[*n..]), combined(&squares[..*n]), random);
    (1..squares.len()).rev().find(is_at_or_behind).unwrap_or(0)
}

/// Returns the square of a time in units of 64 ns, with at most 64 bits. The time is rounded down to a
/// multiple of 1024 ns; the smaller unit adds precision in [`combined`].
fn square(ns: u64) -> u128 {
    u128::from((ns >> 10).min((1 << 28) - 1) << 4).pow(2)
}

/// Returns the squared time of a single member that has the combined odds of several members. The reciprocals
/// of their squared times add up.
fn combined(squares: &[u128]) -> u128 {
    squares.iter().copied().reduce(|a, b| a * b / (a + b).max(1)).unwrap_or(0)
}

/// Returns true if the slower of two members is drawn. `slow` and `fast` are the squares of the times of
/// their reads.
fn is_drawn(slow: u128, fast: u128, random: u64) -> bool {
    u128::from(random >> 32) * (slow + fast) < fast << 32
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
            let length = buffer.len();
            let read = match self.look_up(&blocks) {
                Found::One(extent) => {
                    let read = self.read_extent(cx, &extent, blocks.clone(), buffer).await?;
                    read.map(|reading| self.noted(&extent, reading))
                }
                Found::Parts(extents) => self.read_parts(cx, &extents, blocks.clone(), buffer).await?,
            };
            match read {
                Some(filled) => return Ok(filled),
                None => buffer = vec![0; length],
            }
        }
        Err(IoError::Medium)
    }

    /// Looks up a range in the map.
    fn look_up(&self, blocks: &Range<u64>) -> Found {
        let state = self.lock();
        let mut extents = state.map.overlapping(blocks.clone());
        match extents.next() {
            Some(extent) if extent.start() <= blocks.start && extent.end() >= blocks.end => {
                Found::One(extent.clone())
            }
            first => Found::Parts(first.into_iter().chain(extents).cloned().collect()),
        }
    }

    /// Reads `blocks`, a part of the live range of an extent, into a buffer of that length: from one of its copies, or
    /// unit by unit if no copy is good. Returns `None` if the extent was moved meanwhile.
    pub(super) async fn read_extent(
        &self,
        cx: &Context,
        extent: &Extent,
        blocks: Range<u64>,
        buffer: Vec<u8>,
    ) -> Result<Option<Reading>, IoError> {
        let wanted = stored(extent, &blocks);
        match self.read_one_copy(cx, extent, blocks, buffer).await {
            Err(_) => {
                let read = self.read_by_unit(cx, extent, wanted).await?;
                Ok(read.map(|(from, bytes)| Reading { from, bytes, stored: None }))
            }
            read => read,
        }
    }

    /// Reads as [`Inner::read_extent`] does, but all blocks from the same copy.
    pub(super) async fn read_one_copy(
        &self,
        cx: &Context,
        extent: &Extent,
        blocks: Range<u64>,
        buffer: Vec<u8>,
    ) -> Result<Option<Reading>, IoError> {
        let wanted = stored(extent, &blocks);
        let mut buffer = Some(buffer);
        if let [pointer] = &*extent.pointers() {
            return match self.read_copy(cx, extent, pointer, wanted, buffer.take()).await {
                Ok(reading) => Ok(Some(reading)),
                Err(CopyError::Moved) => Ok(None),
                Err(CopyError::Bad) => self.unreadable(extent),
            };
        }
        for pointer in self.in_reading_order(cx, cx.random(), extent) {
            match self.read_copy(cx, extent, &pointer, wanted.clone(), buffer.take()).await {
                Ok(reading) => return Ok(Some(reading)),
                Err(CopyError::Moved) if !pointer.cached => return Ok(None),
                Err(CopyError::Moved | CopyError::Bad) => {}
            }
        }
        self.unreadable(extent)
    }

    /// Returns the error for an extent without a good copy, or `None` if the map no longer has the extent: its data may
    /// have moved away from a member that fails.
    pub(super) fn unreadable<T>(&self, extent: &Extent) -> Result<Option<T>, IoError> {
        if self.has(extent) { Err(IoError::Medium) } else { Ok(None) }
    }

    /// Notes that a request read an extent. Returns the bytes.
    fn noted(&self, extent: &Extent, reading: Reading) -> Vec<u8> {
        let Reading { from, bytes, stored } = reading;
        self.note_read(extent, &from, stored);
        bytes
    }

    /// Counts the read of an extent by a request, and queues the extent for promotion, if there may be cached copies.
    fn note_read(&self, extent: &Extent, from: &Pointer, stored: Option<Vec<u8>>) {
        if !self.layout.promote.is_empty() {
            self.cache_reads.add(from.cached);
            self.note_promotion(extent, stored);
        }
    }

    /// Returns true if a read is to keep the stored bytes for a cached copy.
    fn is_kept(&self, extent: &Extent, fetch: &Fetch) -> bool {
        fetch.range == (0..extent.stored()) && self.is_promoted(extent)
    }

    /// Returns the copies of an extent that exist, in the order in which a read tries them. The first one is drawn with
    /// `random`, as in bcachefs: a member that takes twice as long as another one is first in one of five reads, so
    /// that its average stays current. Members that are absent, or whose last read failed, are last.
    pub(super) fn in_reading_order(&self, cx: &Context, random: u64, extent: &Extent) -> Vec<Pointer> {
        let mut pointers: Vec<Pointer> = {
            let state = self.lock();
            let is_current = |pointer: &&Pointer| state.allocator.is_current(pointer) || !pointer.cached;
            extent.pointers().iter().filter(is_current).copied().collect()
        };
        let now = cx.now();
        let statistics = |pointer: &Pointer| &self.statistics[usize::from(pointer.member)];
        let ns = |pointer: &Pointer| statistics(pointer).read_ns();
        let is_absent = |pointer: &Pointer| !self.members[usize::from(pointer.member)].present;
        let is_last = |pointer: &Pointer| is_absent(pointer) || !statistics(pointer).reads_work(now);
        pointers.sort_by_key(|pointer| (is_absent(pointer), is_last(pointer), ns(pointer), !pointer.cached));
        let times_ns: Vec<u64> = pointers.iter().filter(|pointer| !is_last(pointer)).map(ns).collect();
        let first = drawn(&times_ns, random);
        if let Some(tried) = pointers.get_mut(..=first) {
            tried.rotate_right(1);
        }
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
    ) -> Result<Reading, CopyError> {
        let fetch = self.fetch(extent, pointer, wanted.clone());
        let buffer =
            buffer.filter(|buffer| buffer.len() == fetch.length).unwrap_or_else(|| vec![0; fetch.length]);
        let read = self.read_from(cx, pointer.member, fetch.offset, buffer).await;
        if read.is_err() && !self.lock().allocator.is_current(pointer) {
            return Err(CopyError::Moved);
        }
        let read = read.map_err(|_| CopyError::Bad)?;
        self.verify(cx, extent, (*pointer, fetch), wanted, read).await
    }

    /// Returns the place of the stored bytes that a read of blocks `wanted` of a stored extent needs: a
    /// compressed extent is read whole, and any other extent in units of its checksums.
    fn fetch(&self, extent: &Extent, pointer: &Pointer, wanted: Range<u32>) -> Fetch {
        let block = self.layout.block;
        let range = match extent.compression() {
            Compression::None => {
                let units = self.units(&wanted);
                self.unit_range(extent, units.start).start..self.unit_range(extent, units.end - 1).end
            }
            _ => 0..extent.stored(),
        };
        Fetch {
            offset: self.layout.offset(pointer) + u64::from(range.start),
            length: (range.end - range.start).next_multiple_of(block) as usize,
            range,
        }
    }

    /// Verifies stored bytes that were read from one copy, and returns blocks `wanted` of them.
    async fn verify(
        &self,
        cx: &Context,
        extent: &Extent,
        (pointer, fetch): (Pointer, Fetch),
        wanted: Range<u32>,
        stored: Vec<u8>,
    ) -> Result<Reading, CopyError> {
        let fetched = self.prepare(extent, &pointer, &fetch, stored)?;
        let opened = self.compute(self.open_ns(&fetched), move |how| fetched.open(how)).await;
        self.finish(cx, extent, &(pointer, fetch), wanted, opened).await
    }

    /// Prepares bytes that were read from one copy for their verification. Fails if the bucket was reused meanwhile.
    fn prepare(
        &self,
        extent: &Extent,
        pointer: &Pointer,
        fetch: &Fetch,
        mut stored: Vec<u8>,
    ) -> Result<Fetched, CopyError> {
        if !self.lock().allocator.is_current(pointer) {
            return Err(CopyError::Moved);
        }
        stored.truncate((fetch.range.end - fetch.range.start) as usize);
        let (compression, how) = (extent.compression(), self.opening(extent, fetch));
        Ok(Fetched { stored, compression, how, is_kept: self.is_kept(extent, fetch) })
    }

    /// Returns the method of verifying stored bytes of an extent.
    fn opening(&self, extent: &Extent, fetch: &Fetch) -> Opening {
        match extent.single_sum() {
            // Checksums do not authenticate, so the data of an encrypted volume needs tags.
            Some(sum) if extent.compression() == Compression::None && !self.layout.is_encrypted => {
                Opening::Sum(sum)
            }
            _ => {
                let first = fetch.range.start / self.layout.unit;
                Opening::Checks { first, check: extent.check(), identity: self.identity(extent) }
            }
        }
    }

    /// Estimates the time of the verification and decoding of stored bytes.
    fn open_ns(&self, fetched: &Fetched) -> u64 {
        match &fetched.how {
            Opening::Sum(_) => 0,
            Opening::Checks { identity, .. } => {
                self.cipher_ns(fetched.stored.len())
                    + decompress_ns(fetched.compression, u64::from(identity.length))
            }
        }
    }

    /// Returns the blocks `wanted` of the decoded bytes. `opened` is `None` if the bytes are bad, which
    /// counts as an error of the member only if the map still has the extent.
    async fn finish(
        &self,
        cx: &Context,
        extent: &Extent,
        (pointer, fetch): &(Pointer, Fetch),
        wanted: Range<u32>,
        opened: Option<Opened>,
    ) -> Result<Reading, CopyError> {
        let Some(Opened { bytes: decoded, stored }) = opened else {
            if !self.has(extent) {
                return Err(CopyError::Moved);
            }
            self.checksum_failed(pointer.member);
            return Err(CopyError::Bad);
        };
        let (block, range) = (self.layout.block, &fetch.range);
        let work = Work::Decode {
            compression: extent.compression(),
            logical: decoded.len() as u64,
            stored: u64::from(range.end - range.start),
        };
        self.spend(cx, work).await;
        let base = if extent.compression() == Compression::None { range.start } else { 0 };
        let wanted = (wanted.start * block - base) as usize..(wanted.end * block - base) as usize;
        let bytes = match wanted == (0..decoded.len()) {
            true => decoded,
            false => decoded.get(wanted).ok_or(CopyError::Bad)?.to_vec(),
        };
        Ok(Reading { from: *pointer, bytes, stored })
    }

    /// Returns the identity under which an extent was encoded.
    pub(super) fn identity(&self, extent: &Extent) -> Identity {
        let Writer { epoch, write } = extent.writer();
        let start = extent.start().saturating_sub(u64::from(extent.skip()));
        Identity {
            volume: self.layout.volume,
            address: start * u64::from(self.layout.block),
            length: u32::from(extent.whole()) * self.layout.block,
            epoch,
            write,
        }
    }

    /// Returns the mapped parts and the holes of a range.
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
            let (start, end) = (extent.start().max(blocks.start), extent.end().min(blocks.end));
            part(start - at, true);
            part(end - start, false);
            at = end;
        }
        part(blocks.end - at, true);
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::drawn;
    use flashlab_sim::Rng;

    /// Returns the share of the draws that selects each member.
    fn shares<const N: usize>(times_ns: [u64; N]) -> [f64; N] {
        let (mut rng, mut shares) = (Rng::new(1), [0.0; N]);
        (0..10_000).for_each(|_| shares[drawn(&times_ns, rng.next_u64())] += 1e-4);
        shares
    }

    #[test]
    fn a_slow_member_is_drawn_by_the_square_of_its_speed_and_an_unknown_one_first() {
        let share = |slow: u64, fast: u64| shares([fast, slow])[1];
        assert!((share(2 << 20, 1 << 20) - 0.2).abs() < 0.02);
        assert!((share(1 << 20, 1 << 20) - 0.5).abs() < 0.02);
        assert!((share(30 << 20, 1 << 20) - 1.0 / 901.0).abs() < 0.002);
        assert_eq!((share(1 << 20, 0), share(0, 0), share(u64::MAX, 1 << 20)), (0.0, 0.0, 0.0));
    }

    #[test]
    fn each_of_several_members_is_drawn_by_the_square_of_its_speed() {
        let ms = |n: u64| n << 20;
        for times_ns in [[1, 1, 1, 1], [1, 2, 3, 4], [1, 1, 4, 4], [2, 3, 3, 50]] {
            let odds = times_ns.map(|n| 1.0 / (n * n) as f64);
            // A member that takes microseconds is drawn with the same odds.
            for shares in [shares(times_ns.map(ms)), shares(times_ns.map(|n| n << 10))] {
                for (share, odds_of) in shares.iter().zip(odds) {
                    let expected = odds_of / odds.iter().sum::<f64>();
                    assert!((share - expected).abs() < 0.02, "{times_ns:?}: {shares:?}");
                }
            }
        }
        assert_eq!(shares([0, 0, ms(1)])[1..], [0.0, 0.0]);
        assert_eq!((drawn(&[], 0), drawn(&[7], 0), drawn(&[u64::MAX; 4], u64::MAX)), (0, 0, 0));
    }

    /// Checks the closed form for two members, because the results of simulated mirrors depend on these
    /// draws.
    #[test]
    fn the_slower_one_of_two_members_is_drawn_below_its_part_of_all_random_numbers() {
        let mut rng = Rng::new(2);
        for _ in 0..10_000 {
            let [a, b] = [rng.next_u64() >> 30, rng.next_u64() >> 30].map(|ns| ns >> rng.below(34));
            let (fast, slow, random) = (a.min(b), a.max(b), rng.next_u64());
            let [fast_units, slow_units] = [fast, slow].map(|ns| u128::from(ns >> 10).pow(2));
            let below = u128::from(random >> 32) * (fast_units + slow_units) < fast_units << 32;
            assert_eq!(drawn(&[fast, slow], random) == 1, below, "{fast} ns and {slow} ns");
        }
    }
}
