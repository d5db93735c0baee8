//! Requests to a card with a volatile cache.
//!
//! A write goes into the cache in pieces of at most half of the cache. Each piece waits until the cache has
//! room for it, and the card holds DAT0 low for that time. The write is complete when its last block is in
//! the cache and the card's processor has spent [`super::Refinements::t_command_write`] on it. The cache
//! drains meanwhile. Two requests bypass the cache: an erase, and a write with forced unit access, which eMMC
//! calls a reliable write. They wait for the drain in progress, and replace the cached data of their range. A
//! flush waits until the cache is empty. A read takes its data from the cache if all of it is there.
//!
//! A power cut loses the data whose drain has not started. The pages of the drain in progress hold their old
//! data, their new data, or are unreadable. If a byte is written again during its drain and the power is cut
//! before the drain ends, both versions count as lost, although the array may hold the older version.

use super::{CardModel, WriteCache};
use crate::bus::BLOCK;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::{
    Completion, Duration, Fate, Instant, Mechanism, Op, PowerCut, Request, Spent, Status, fault,
};

/// A request that waits for the cache, or moves its data into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InCache {
    request: Request,
    arrived: Instant,
    /// Time of the next step.
    pub(super) at: Instant,
    /// Time of the commands of a write that bypasses the cache.
    command: Duration,
    /// Number of bytes that are in the cache, or will have arrived there by `at`.
    moved: u64,
    spent: Spent,
}

impl CardModel {
    /// Starts to serve a write, an erase or a flush at `start`. `command` is the time of the commands of a
    /// write.
    pub(super) fn begin_in_cache(
        &mut self,
        arrived: Instant,
        start: Instant,
        command: Duration,
        request: &Request,
        mut spent: Spent,
    ) {
        let mut at = start;
        let before_data = match request.op {
            Op::Write => command,
            Op::Flush | Op::FlushData => self.flush_commands(),
            // The commands of these requests are part of the service that follows the drain in progress.
            Op::WriteFua | Op::Trim | Op::Read => Duration::ZERO,
        };
        spent[Mechanism::Bus] += before_data;
        at += before_data;
        if let Some(cache) = &mut self.cache {
            cache.paused = bypasses(request.op);
        }
        self.in_cache = Some(InCache { request: *request, arrived, at, command, moved: 0, spent });
    }

    /// Returns the time of the commands of a flush. An eMMC device needs CMD6, and CMD13 for the result. An
    /// SD card needs CMD49 with the block that sets the flush bit, and CMD48 with the block that reads this
    /// bit.
    fn flush_commands(&self) -> Duration {
        let blocks = self.wire.write_block + self.wire.read_block;
        self.wire.command * 2 + if self.is_emmc { Duration::ZERO } else { blocks }
    }

    /// Returns the time of the next step of the request in service.
    pub(super) fn service_due(&self) -> Option<Instant> {
        let in_cache = self.in_cache.as_ref().map(|waiting| waiting.at);
        in_cache.or(self.served.as_ref().map(|completion| completion.at))
    }

    /// Executes the next step of the request in service, which is due.
    #[inline(never)]
    pub(super) fn step_in_cache(&mut self) {
        let (Some(mut waiting), Some(cache)) = (self.in_cache.take(), self.cache.as_deref_mut()) else {
            return;
        };
        let InCache { request, at, .. } = waiting;
        cache.advance(at, &mut self.array);
        let status = match request.op {
            Op::Write if waiting.moved == request.length => {
                waiting.spent[Mechanism::Firmware] += self.t_command_write;
                Some(Status::Ok)
            }
            Op::Write if cache.has_failed() || self.array.flash.is_read_only() => Some(Status::ReadOnly),
            Op::Write => {
                let piece = cache.first_piece(request.offset + waiting.moved..request.end());
                if cache.has_room(&piece) {
                    let blocks = (piece.end - piece.start) / BLOCK;
                    waiting.spent[Mechanism::Bus] += self.wire.write_block * blocks;
                    waiting.spent[Mechanism::Host] += self.wire.host_block * blocks;
                    waiting.at += (self.wire.write_block + self.wire.host_block) * blocks;
                    let absorbed = cache.insert(&piece, waiting.at);
                    self.array.flash.count_absorbed(absorbed);
                    waiting.moved += piece.end - piece.start;
                } else {
                    waiting.wait(cache);
                }
                None
            }
            Op::Flush | Op::FlushData if cache.is_empty() || fault("flush-ends-before-the-drain") => {
                Some(Status::Ok)
            }
            Op::Flush | Op::FlushData if cache.has_failed() => Some(Status::ReadOnly),
            Op::Flush | Op::FlushData => {
                waiting.wait(cache);
                None
            }
            Op::WriteFua | Op::Trim | Op::Read if cache.drain_ends().is_some() => {
                waiting.wait(cache);
                None
            }
            Op::WriteFua | Op::Trim | Op::Read => Some(self.bypass_cache(&mut waiting)),
        };
        match status {
            Some(status) => {
                let InCache { request, arrived, spent, .. } = waiting;
                self.served = Some(Completion { id: request.id, at: arrived + spent.total(), status, spent });
            }
            None => self.in_cache = Some(waiting),
        }
    }

    /// Serves a write or an erase that bypasses the cache, now that no drain is in progress.
    fn bypass_cache(&mut self, waiting: &mut InCache) -> Status {
        let InCache { request, at, command, .. } = *waiting;
        let range = request.offset..request.end();
        if let Some(cache) = &mut self.cache
            && !fault("older-data-drains-after-fua")
        {
            cache.remove(&range);
        }
        let before = waiting.spent.total();
        let status = if request.op == Op::Trim {
            self.erase(&request, &mut waiting.spent)
        } else {
            self.write(at, command, &request, &mut waiting.spent)
        };
        let end = at + waiting.spent.total().saturating_sub(before);
        if let Some(cache) = &mut self.cache {
            cache.paused = false;
            cache.hold(end);
        }
        self.occupy_dies(at, end);
        status
    }

    /// Returns the time for which a read, whose command the card received at `began`, waits for the array.
    /// Returns `None` if all data of the read is in the cache.
    #[inline]
    pub(super) fn wait_of_read(&mut self, began: Instant, request: &Request) -> Option<Duration> {
        if self.cache.is_none() { Some(Duration::ZERO) } else { self.wait_for_cache(began, request) }
    }

    /// Continues [`CardModel::wait_of_read`] on a card with a cache.
    #[inline(never)]
    fn wait_for_cache(&mut self, began: Instant, request: &Request) -> Option<Duration> {
        let cache = self.cache.as_mut()?;
        if cache.holds(&(request.offset..request.end())) {
            return None;
        }
        Some(cache.begin_read(began, &mut self.array).since(began))
    }

    /// Advances the drains and accounts for the idle time of the array until `now`, when a request arrives.
    #[inline]
    pub(super) fn end_idle(&mut self, now: Instant) {
        if self.cache.is_none() || self.advance_drains(now) {
            self.array.end_idle(now);
        }
    }

    /// Advances the drains until `now`. Returns true if no drain is in progress, so that the array is idle.
    #[inline(never)]
    fn advance_drains(&mut self, now: Instant) -> bool {
        let Some(cache) = &mut self.cache else { return true };
        cache.advance(now, &mut self.array);
        let drained = cache.drained();
        self.array.idle_since = self.array.idle_since.max(drained.unwrap_or_default());
        drained.is_some()
    }

    /// Returns a copy of the card after the drain of its cache.
    pub(super) fn drained(&self) -> CardModel {
        let mut card = self.clone();
        if let Some(cache) = &mut card.cache {
            cache.advance(Instant::MAX, &mut card.array);
            card.array.idle_since = card.array.idle_since.max(cache.drained().unwrap_or_default());
        }
        card
    }

    /// Returns what a power cut at `now` leaves of the write in service and of the cached data.
    pub(super) fn cut_cache(&mut self, now: Instant) -> PowerCut {
        let in_service = self.in_cache.take();
        let mut parts: Vec<(Range<u64>, Fate)> = Vec::new();
        if let Some(writing) = self.writing.take() {
            let cut = self.torn_write(&writing, now);
            parts.extend(cut.undecided);
        }
        if let Some(cache) = &mut self.cache {
            cache.advance(now, &mut self.array);
            let mut cached: Vec<(Range<u64>, Fate)> = Vec::new();
            cache.cut(now, &mut self.array, |range, fate| cached.push((range, fate)));
            // Data of a write in service that is no longer in the cache is in the array.
            if let Some(InCache { request, moved, .. }) =
                in_service.filter(|waiting| waiting.request.op == Op::Write)
            {
                parts.push((request.offset..request.offset + moved, Fate::New));
            }
            parts.extend(cached);
        }
        merged(&parts)
    }
}

impl InCache {
    /// Returns true if the request has moved data of `range` into the cache.
    pub(super) fn changes(&self, range: &Range<u64>) -> bool {
        let end = self.request.offset + self.moved;
        self.moved > 0 && range.start < end && self.request.offset < range.end
    }

    /// Waits for the next event of the cache.
    fn wait(&mut self, cache: &mut WriteCache) {
        let next = cache.next_event().expect("a cache with data drains, unless the array has rejected it");
        self.spent[Mechanism::Cache] += next.since(self.at);
        self.at = next;
    }
}

/// Returns true if a request goes to the array without entering the cache.
fn bypasses(op: Op) -> bool {
    matches!(op, Op::WriteFua | Op::Trim)
}

/// Joins overlapping ranges and their fates. Unreadable data takes precedence over old and new data. Old data
/// takes precedence over new data, since a lost write hides the write before it.
fn merged(parts: &[(Range<u64>, Fate)]) -> PowerCut {
    /// Order of the fates of one byte: the greatest one counts.
    fn rank(fate: Fate) -> u8 {
        match fate {
            Fate::New => 0,
            Fate::Old => 1,
            Fate::Unreadable => 2,
        }
    }
    // For each offset and each fate: the number of parts that begin there, less the number of parts that end
    // there.
    let mut changes: BTreeMap<u64, [i64; 3]> = BTreeMap::new();
    for (range, fate) in parts.iter().filter(|(range, _)| !range.is_empty()) {
        changes.entry(range.start).or_default()[usize::from(rank(*fate))] += 1;
        changes.entry(range.end).or_default()[usize::from(rank(*fate))] -= 1;
    }
    let (mut cut, mut counts, mut from) = (PowerCut::default(), [0i64; 3], 0);
    for (at, change) in changes {
        let worst = counts.iter().rposition(|count| *count > 0);
        if let Some(worst) = worst {
            cut.push(from..at, [Fate::New, Fate::Old, Fate::Unreadable][worst]);
        }
        counts.iter_mut().zip(change).for_each(|(count, change)| *count += change);
        from = at;
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_fate_of_a_byte_counts() {
        let parts = [(0..10, Fate::New), (4..8, Fate::Old), (6..12, Fate::Unreadable), (20..21, Fate::Old)];
        let expected = [(0..4, Fate::New), (4..6, Fate::Old), (6..12, Fate::Unreadable), (20..21, Fate::Old)];
        assert_eq!(merged(&parts).undecided, expected);
    }
}
