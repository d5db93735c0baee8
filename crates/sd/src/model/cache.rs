//! The volatile write cache of the timed card, and its drain to the array.
//!
//! Source: JESD84-B51, section 6.6.34 (cache); SD Physical Layer Specification 6.00, section 5.8.2.3 (cache).
//! A write is complete when its data is in the cache. The card drains the cache while the bus works or idles.
//! The specifications define neither the size of a drain nor its order. This model makes the following
//! choices:
//!
//! - The card drains the oldest range together with the contiguous data that follows it, at most half of the cache at a
//!   time. A range is programmed and committed like one write command of that range, but without time on the bus.
//! - With [`super::Refinements::drain`], a drain also takes the next ranges in the order of their arrival, up
//!   to this number of bytes in whole granules, as long as the translation layer can pack them together. The
//!   layer packs such a batch into as few pages as possible, and commits the batch once. A drain does not
//!   wait until its batch is full.
//! - Data that is overwritten before its drain needs no further room, and is programmed only once. The new
//!   data takes the place of the old data in the order, so it may reach the array before data that was
//!   written earlier.
//! - A page program is not interrupted. A read of the array waits for the page in progress, and the drain continues
//!   after the read.
//! - The space of a range is free again when its drain ends.

use super::array::Array;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_flash::ftl::card::Work;
use flashlab_sim::{Duration, Fate, Instant, fault};

/// Data that waits for its drain.
#[derive(Clone, Copy, Debug)]
struct Dirty {
    end: u64,
    /// Position in the order of the drains.
    number: u64,
    /// Time when all of the data is in the cache.
    since: Instant,
}

/// A part of a drain.
#[derive(Clone, Debug)]
struct Part {
    range: Range<u64>,
    /// Bytes of the range that were mapped before.
    mapped: u64,
}

/// A drain in progress. Durations are relative to `origin`.
#[derive(Clone, Debug)]
struct Drain {
    /// Ranges, in the order of their addresses. There is more than one range only if the layer packs them.
    parts: Vec<Part>,
    /// Start of the drain, postponed by the time for which reads held it up.
    origin: Instant,
    /// Part of the drain that was done when a read last held it up.
    reached: Duration,
    /// Time when the last program ends.
    programmed: Duration,
    /// Time when the map on the medium records the data.
    committed: Duration,
    /// Time when the drain ends.
    ends: Duration,
}

impl Drain {
    fn ends_at(&self) -> Instant {
        self.origin + self.ends
    }

    fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.range.end - part.range.start).sum()
    }

    /// Returns the range that contains `offset`.
    fn part_at(&self, offset: u64) -> Option<&Range<u64>> {
        self.parts.iter().map(|part| &part.range).find(|range| range.contains(&offset))
    }

    /// Returns the part of the drain that is done at `now`.
    fn done(&self, now: Instant) -> Duration {
        now.saturating_since(self.origin).max(self.reached)
    }
}

/// The cache.
#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    size: u64,
    /// Longest range that is drained at once.
    drain_max: u64,
    /// Largest number of bytes in a batch of ranges that lie apart, or `None` if a drain takes one range.
    batch_max: Option<u64>,
    /// Ranges without overlap, by their first byte.
    dirty: BTreeMap<u64, Dirty>,
    /// Numbers and first bytes of the ranges, oldest first. Entries of ranges that no longer exist remain until they
    /// are the oldest.
    order: VecDeque<(u64, u64)>,
    numbers: u64,
    /// Bytes of the ranges in `dirty`, without those of the drain in progress.
    bytes: u64,
    drain: Option<Drain>,
    /// Time when the last drain ended.
    drained: Instant,
    /// Time until which the array has other work.
    held_until: Instant,
    /// True while a command waits for the array, so that no further drain starts.
    pub(super) paused: bool,
    /// True if the array has rejected a drain.
    failed: bool,
}

impl WriteCache {
    /// Returns the number of bytes that wait for their drain, and the size of the cache.
    pub(super) fn level(&self) -> (u64, u64) {
        (self.bytes, self.size)
    }

    /// Creates an empty cache of `size` bytes in front of an array with pages of `page` bytes. A drain takes up to
    /// `batch_max` bytes of ranges that lie apart.
    pub(super) fn new(size: u64, page: u64, batch_max: Option<u64>) -> Self {
        WriteCache {
            size,
            drain_max: size / 2 / page * page,
            batch_max: batch_max.map(|bytes| bytes / page * page),
            dirty: BTreeMap::new(),
            order: VecDeque::new(),
            numbers: 0,
            bytes: 0,
            drain: None,
            drained: Instant::ZERO,
            held_until: Instant::ZERO,
            paused: false,
            failed: false,
        }
    }

    /// Returns the first piece of `range`. A piece fits into the cache as a whole.
    pub(super) fn first_piece(&self, range: Range<u64>) -> Range<u64> {
        range.start..range.end.min((range.start / self.drain_max + 1) * self.drain_max)
    }

    /// Returns true if no data waits for the array and no drain is in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.dirty.is_empty() && (self.drain.is_none() || fault("flush-forgets-the-drain-in-progress"))
    }

    /// Returns true if the array has rejected a drain. Its data stays in the cache.
    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    /// Returns the time when the last drain ended, or `None` if a drain is in progress.
    pub(super) fn drained(&self) -> Option<Instant> {
        self.drain.is_none().then_some(self.drained)
    }

    /// Returns the time when the drain in progress ends.
    pub(super) fn drain_ends(&self) -> Option<Instant> {
        self.drain.as_ref().map(Drain::ends_at)
    }

    /// Returns the time of the next event: the end of the drain in progress, or the start of the next one.
    pub(super) fn next_event(&mut self) -> Option<Instant> {
        self.drain_ends().or_else(|| self.next_start())
    }

    /// Returns true if there is room for `range`, which is at most one piece. The room of data that `range` overwrites
    /// counts as free.
    pub(super) fn has_room(&self, range: &Range<u64>) -> bool {
        let draining = self.drain.as_ref().map_or(0, Drain::bytes);
        let new = range.end - range.start - self.parts(range).map(|part| part.end - part.start).sum::<u64>();
        self.bytes + draining + new <= self.size
    }

    /// Adds `range`, for which there is room and whose data has arrived at `since`. Returns the number of bytes that it
    /// overwrites.
    pub(super) fn insert(&mut self, range: &Range<u64>, since: Instant) -> u64 {
        let mut at = range.start;
        let mut overwritten = 0;
        while at < range.end {
            let before = self.dirty.range_mut(..=at).next_back().filter(|(_, dirty)| dirty.end > at);
            if let Some((_, dirty)) = before {
                dirty.since = dirty.since.max(since);
                let end = dirty.end.min(range.end);
                overwritten += end - at;
                at = end;
                continue;
            }
            let next = self.dirty.range(at..range.end).next().map_or(range.end, |(start, _)| *start);
            self.add(at..next, since);
            at = next;
        }
        overwritten
    }

    fn add(&mut self, range: Range<u64>, since: Instant) {
        let number = self.numbers;
        self.numbers += 1;
        self.bytes += range.end - range.start;
        self.order.push_back((number, range.start));
        self.dirty.insert(range.start, Dirty { end: range.end, number, since });
    }

    /// Removes `range`, which a request is about to write or erase in the array.
    pub(super) fn remove(&mut self, range: &Range<u64>) {
        loop {
            let Some(part) = self.parts(range).next() else { return };
            let Some((start, dirty)) =
                self.dirty.range(..=part.start).next_back().map(|(at, dirty)| (*at, *dirty))
            else {
                return;
            };
            self.dirty.remove(&start);
            self.bytes -= dirty.end - start;
            if start < part.start {
                self.add(start..part.start, dirty.since);
            }
            if part.end < dirty.end {
                self.add(part.end..dirty.end, dirty.since);
            }
        }
    }

    /// Returns the parts of `range` that wait for their drain.
    fn parts(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let (from, to) = (range.start, range.end);
        let first = self.dirty.range(..from).next_back().filter(move |(_, dirty)| dirty.end > from);
        let all = first.into_iter().chain(self.dirty.range(from..to.max(from)));
        all.map(move |(start, dirty)| (*start).max(from)..dirty.end.min(to))
    }

    /// Returns true if all of `range` is in the cache.
    pub(super) fn holds(&self, range: &Range<u64>) -> bool {
        let mut at = range.start;
        while at < range.end {
            let drain = self.drain.as_ref().and_then(|drain| drain.part_at(at));
            let part = || self.parts(&(at..range.end)).next().filter(|part| part.start == at);
            match drain.map(|range| range.end).or_else(|| part().map(|part| part.end)) {
                Some(end) => at = end,
                None => return false,
            }
        }
        true
    }

    /// Returns true if no byte of `range` is in the cache.
    pub(super) fn lacks(&self, range: &Range<u64>) -> bool {
        let meets = |part: &Part| part.range.start < range.end && range.start < part.range.end;
        self.parts(range).next().is_none() && !self.drain.iter().flat_map(|drain| &drain.parts).any(meets)
    }

    /// Advances the drains to `now`.
    pub(super) fn advance(&mut self, now: Instant, array: &mut Array) {
        loop {
            if let Some(ends) = self.drain_ends() {
                if ends > now {
                    return;
                }
                self.drained = ends;
                self.drain = None;
            }
            match self.next_start() {
                Some(start) if start <= now => self.start(start, array),
                _ => return,
            }
        }
    }

    /// Returns the time when the next drain starts, if no drain is in progress.
    fn next_start(&mut self) -> Option<Instant> {
        if self.paused || self.failed {
            return None;
        }
        let of = |dirty: &BTreeMap<u64, Dirty>, (number, start): (u64, u64)| {
            dirty.get(&start).filter(|dirty| dirty.number == number).copied()
        };
        while let Some(oldest) = self.order.front() {
            match of(&self.dirty, *oldest) {
                Some(dirty) => return Some(dirty.since.max(self.drained).max(self.held_until)),
                None => self.order.pop_front(),
            };
        }
        None
    }

    /// Returns the contiguous data that is in the cache at `now` and begins at `start`. The result consists
    /// of the range that begins there and of the ranges that continue it, up to `limit` bytes and without
    /// data of `taken`.
    fn contiguous(&self, start: u64, now: Instant, limit: u64, taken: &[Range<u64>]) -> Range<u64> {
        let mut end = self.dirty[&start].end;
        while let Some(next) = self.dirty.get(&end)
            && next.since <= now
            && next.end - start <= limit
            && !taken.iter().any(|range| range.contains(&end))
        {
            end = next.end;
        }
        start..end
    }

    /// Returns the ranges of the drain that starts at `now`, in the order of their addresses.
    fn next_ranges(&self, now: Instant, array: &Array) -> Vec<Range<u64>> {
        let (_, oldest) = *self.order.front().expect("a range is to be drained");
        let first = self.contiguous(oldest, now, self.drain_max, &[]);
        let mut ranges = vec![first.clone()];
        let granule = array.flash.granule();
        let occupied =
            |range: &Range<u64>| range.end.next_multiple_of(granule) - range.start / granule * granule;
        let mut left = self.batch_max.unwrap_or_default().saturating_sub(occupied(&first));
        for (number, start) in self.order.iter().skip(1) {
            if left == 0 {
                break;
            }
            let Some(dirty) = self.dirty.get(start).filter(|dirty| dirty.number == *number) else { continue };
            if ranges.iter().any(|range| range.contains(start)) {
                continue;
            }
            let next = self.contiguous(*start, now, left - *start % granule, &ranges);
            if dirty.since > now || occupied(&next) > left || !array.flash.packs(&first, &next) {
                break;
            }
            left -= occupied(&next);
            ranges.push(next);
        }
        ranges.sort_unstable_by_key(|range| range.start);
        ranges.dedup_by(|next, last| {
            let continues = last.end == next.start;
            if continues {
                last.end = next.end;
            }
            continues
        });
        ranges
    }

    /// Starts the next drain at `now`: the oldest range, with its batch if there is one.
    fn start(&mut self, now: Instant, array: &mut Array) {
        let ranges = self.next_ranges(now, array);
        let mapped = |range| Part { mapped: array.flash.mapped_bytes(&range), range };
        let parts: Vec<Part> = ranges.iter().cloned().map(mapped).collect();
        let page = array.flash.page();
        let written = match &ranges[..] {
            [range] => array.flash.write_command(range.clone()),
            ranges => array.flash.write_batch(ranges),
        };
        let Ok(work) = written else {
            self.failed = true;
            return;
        };
        let leveling = work.leveling;
        let of_pages = programmed_range(work, &ranges[0]);
        let programmed = array.buffer.write(work, &of_pages, work.page.unwrap_or(page), Duration::ZERO);
        let commit = array.flash.commit_batch(&ranges);
        for range in &ranges {
            let mut at = range.start;
            while at < range.end {
                let dirty = self.dirty.remove(&at).expect("the range is dirty");
                self.bytes -= dirty.end - at;
                at = dirty.end;
            }
        }
        self.drain = Some(Drain {
            parts,
            origin: now,
            reached: Duration::ZERO,
            programmed,
            committed: programmed + commit.map,
            ends: programmed + leveling + commit.total(),
        });
    }

    /// Returns the time from which a read that arrives at `at` can use the array. The caller must then call
    /// [`WriteCache::hold`] with the end of the read.
    pub(super) fn begin_read(&mut self, at: Instant, array: &mut Array) -> Instant {
        let Some(drain) = &mut self.drain else { return at };
        let done = drain.done(at);
        if at.saturating_since(drain.origin) < drain.reached || done >= drain.ends {
            return at;
        }
        let mut free = drain.ends;
        if done < drain.programmed {
            // Programs of several pages may be in progress. Copies before the first page are not interrupted.
            let (mut in_progress, mut next) = (None, drain.programmed);
            pages(array, &drain.parts, |_, start, end| {
                if start <= done && done < end {
                    in_progress = in_progress.max(Some(end));
                } else if start > done {
                    next = next.min(start);
                }
            });
            free = in_progress.unwrap_or(next);
        }
        drain.reached = free;
        drain.origin + free
    }

    /// Holds up the drain until `until`, because the array has other work.
    pub(super) fn hold(&mut self, until: Instant) {
        self.held_until = self.held_until.max(until);
        if let Some(drain) = &mut self.drain
            && drain.reached < drain.ends
        {
            drain.origin = drain.origin + until.saturating_since(drain.origin + drain.reached);
        }
    }

    /// Drops the cached data in a power cut at `now`. Calls `each` with the ranges whose drain has not
    /// started, which hold their old data. Also calls `each` with the pages of the drain in progress and
    /// their fates.
    pub(super) fn cut(&mut self, now: Instant, array: &mut Array, mut each: impl FnMut(Range<u64>, Fate)) {
        if let Some(drain) = self.drain.take() {
            let since = drain.done(now);
            let mut torn = array.torn_write(now, since >= drain.committed);
            let mut not_begun = Vec::new();
            pages(array, &drain.parts, |held, start, end| {
                if !torn.page_of_parts(held, start, end, since) {
                    not_begun.extend_from_slice(held);
                }
            });
            let was_mapped = |bytes: &Range<u64>| {
                drain.parts.iter().any(|part| part.mapped > 0 && part.range.contains(&bytes.start))
            };
            not_begun.retain(|bytes| !was_mapped(bytes));
            not_begun.into_iter().for_each(|bytes| array.flash.trim(bytes));
            torn.cut.undecided.into_iter().for_each(|(range, fate)| each(range, fate));
        }
        if !fault("cut-forgets-the-cache") {
            self.dirty.iter().for_each(|(start, dirty)| each(*start..dirty.end, Fate::Old));
        }
        self.clear();
    }

    /// Empties the cache without a drain.
    pub(super) fn clear(&mut self) {
        self.dirty.clear();
        self.order.clear();
        (self.bytes, self.paused, self.failed) = (0, false, false);
        (self.drain, self.drained, self.held_until) = (None, Instant::ZERO, Instant::ZERO);
    }
}

/// Returns the range whose pages the operations of `work` program: `range` itself, or the packed granules of
/// a batch, counted from 0.
fn programmed_range(work: &Work, range: &Range<u64>) -> Range<u64> {
    if work.packed.is_empty() {
        return range.clone();
    }
    0..work.packed.iter().map(|granules| granules.end - granules.start).sum()
}

/// Calls `each` for every page of a drain of `parts`, with the ranges in the page and the times when its
/// program starts and ends. The drain must be the last write of the array.
fn pages(array: &mut Array, parts: &[Part], mut each: impl FnMut(&[Range<u64>], Duration, Duration)) {
    let work = array.flash.work();
    let page = work.page.unwrap_or(array.flash.page());
    let programmed = programmed_range(work, &parts[0].range);
    if work.packed.is_empty() {
        array
            .buffer
            .pages(work, &programmed, page, Duration::ZERO, |bytes, start, end| each(&[bytes], start, end));
        return;
    }
    let mut granules = work.packed.iter().cloned();
    let (mut next, mut held) = (0..0, Vec::new());
    array.buffer.pages(work, &programmed, page, Duration::ZERO, |bytes, start, end| {
        held.clear();
        let mut left = bytes.end - bytes.start;
        while left > 0 {
            if next.is_empty() {
                next = granules.next().expect("the pages hold the packed granules");
            }
            let piece = next.start..next.end.min(next.start + left);
            left -= piece.end - piece.start;
            next.start = piece.end;
            let within =
                parts.iter().map(|part| part.range.start.max(piece.start)..part.range.end.min(piece.end));
            held.extend(within.filter(|range| !range.is_empty()));
        }
        each(&held, start, end);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn kib(from: u64, to: u64) -> Range<u64> {
        from * KIB..to * KIB
    }

    #[test]
    fn ranges_are_overwritten_in_place_and_removed_in_part() {
        let mut cache = WriteCache::new(64 * KIB, 4 * KIB, None);
        assert_eq!(cache.insert(&kib(8, 16), Instant::ZERO), 0);
        assert_eq!(cache.insert(&kib(4, 20), Instant::ZERO), 8 * KIB);
        assert!(cache.holds(&kib(4, 20)) && !cache.holds(&kib(4, 21)) && !cache.holds(&kib(3, 5)));
        cache.remove(&kib(10, 12));
        assert!(cache.lacks(&kib(10, 12)) && cache.holds(&kib(4, 10)) && cache.holds(&kib(12, 20)));
        assert_eq!(cache.bytes, 14 * KIB);
        assert!(cache.has_room(&kib(0, 32)), "50 KiB are free");
        assert_eq!(cache.first_piece(kib(40, 100)), kib(40, 64));
    }
}
