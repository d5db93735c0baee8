//! Log of trims and of units that became unreadable, which makes trims durable.
//!
//! A trim changes the map at once. The old copies are still on the medium, so a record with the number of the
//! trim has to be programmed before the trim is durable. The layer programs records at a flush, when a page
//! of records is full, and before it erases a block from which a unit was trimmed without a record.
//! Without this record, an even older copy elsewhere would be taken for the newest copy after a power cut. A
//! programmed record stays. Not modelled: real controllers merge records into their map and then drop them.

use super::PageMap;
use super::block_states::Phase;
use super::place::{Entry, Mapped};
use crate::ftl::Inconsistent;
use crate::ftl::inconsistent::ensure;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use flashlab_sim::fault;
use serde::{Deserialize, Serialize};

/// Bytes of a record.
const RECORD_BYTES: u64 = 8;

/// Range of units that was trimmed, or a unit that was lost.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct TrimRecord {
    first: u32,
    count: u32,
    number: u64,
    /// True if the unit was not trimmed but could not be read when it was moved.
    unreadable: bool,
}

/// Trim of which some records are not durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Trim {
    number: u64,
    /// The trim changed no unit before `first`, and none at or after `end`.
    first: u32,
    end: u32,
}

/// Records that are not durable yet, and the state of their programs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct TrimLog {
    /// Number of records that fit in a page.
    page: usize,
    /// Pending records in the order of their numbers. Records of one trim are in the order of their units and do not
    /// overlap.
    pending: VecDeque<TrimRecord>,
    /// Trims of the pending records, in order.
    trims: VecDeque<Trim>,
    /// Number of pending records in the page that is being written.
    writing: Option<usize>,
    /// Records up to this number are to be written soon.
    wanted: u64,
    /// Empty blocks that wait for records.
    waiting: Vec<u32>,
}

impl TrimLog {
    pub(super) fn new(unit: u64) -> Self {
        TrimLog {
            page: (unit / RECORD_BYTES) as usize,
            pending: VecDeque::new(),
            trims: VecDeque::new(),
            writing: None,
            wanted: 0,
            waiting: Vec::new(),
        }
    }
    /// Returns the number of the oldest trim that is not durable.
    pub(super) fn oldest(&self) -> Option<u64> {
        let written = if fault("record-is-durable-when-issued") { self.writing.unwrap_or(0) } else { 0 };
        self.pending.get(written).map(|record| record.number)
    }
    /// Returns true if blocks wait for records before they are erased.
    pub(super) fn holds_blocks(&self) -> bool {
        !self.waiting.is_empty()
    }
    /// Returns true if the trim with this number is durable.
    pub(super) fn is_durable(&self, number: u64) -> bool {
        self.oldest().is_none_or(|oldest| number < oldest)
    }
    /// Returns true if a trim of `unit` with a number in `numbers` is not durable.
    fn covers(&self, unit: u32, numbers: Range<u64>) -> bool {
        let trims = self.trims.iter().filter(|trim| numbers.contains(&trim.number));
        trims.filter(|trim| trim.first <= unit && unit < trim.end).any(|trim| {
            let behind = self.pending.partition_point(|r| (r.number, r.first) <= (trim.number, unit));
            let record = behind.checked_sub(1).and_then(|at| self.pending.get(at));
            record.is_some_and(|r| r.number == trim.number && unit < r.first + r.count && !r.unreadable)
        })
    }
    fn push(&mut self, record: TrimRecord) {
        self.pending.push_back(record);
        let end = record.first + record.count;
        match self.trims.back_mut() {
            Some(trim) if trim.number == record.number => trim.end = end,
            _ => self.trims.push_back(Trim { number: record.number, first: record.first, end }),
        }
    }
    /// Removes the oldest record, which is durable.
    fn pop(&mut self) -> Option<TrimRecord> {
        let record = self.pending.pop_front()?;
        while self.trims.front().is_some_and(|trim| self.oldest().is_none_or(|oldest| trim.number < oldest)) {
            self.trims.pop_front();
        }
        Some(record)
    }
    /// Handles a power cut: drops the records that were not durable, except those of units that became
    /// unreadable.
    pub(super) fn cut(&mut self) {
        self.pending.retain(|record| record.unreadable);
        self.trims.clear();
        let kept = core::mem::take(&mut self.pending);
        kept.into_iter().for_each(|record| self.push(record));
        self.writing = None;
        self.wanted = 0;
        self.waiting.clear();
    }
}

impl PageMap {
    /// Unmaps `count` units from `first`. Until a flush, a power cut may bring their old content back.
    ///
    /// # Panics
    /// Panics if the range is not within the capacity.
    pub fn trim(&mut self, first: u32, count: u32) {
        self.trim_all([(first, count)]);
    }

    /// Unmaps several ranges as one trim. Each range is a first unit and a number of units. The ranges are in ascending
    /// order and do not overlap.
    ///
    /// # Panics
    /// Panics if a range is not within the capacity.
    pub fn trim_all(&mut self, ranges: impl IntoIterator<Item = (u32, u32)>) {
        let number = self.buffers.accepted() + 1;
        ranges.into_iter().for_each(|(first, count)| self.trim_range(first, count, number));
    }

    fn trim_range(&mut self, first: u32, count: u32, number: u64) {
        assert!(
            first.checked_add(count).is_some_and(|end| end <= self.layout.units),
            "{count} units from {first} of {}",
            self.layout.units
        );
        // Units that were trimmed before are in an older record. The new record names only the units that this trim
        // changed.
        let mut start = None;
        for unit in first..first + count {
            match (self.trim_unit(unit, number), start) {
                (true, None) => start = Some(unit),
                (false, Some(from)) => {
                    self.append_to_trim_log(TrimRecord {
                        first: from,
                        count: unit - from,
                        number,
                        unreadable: false,
                    });
                    start = None;
                }
                _ => {}
            }
        }
        if let Some(from) = start {
            self.append_to_trim_log(TrimRecord {
                first: from,
                count: first + count - from,
                number,
                unreadable: false,
            });
        }
        self.counters.trimmed += u64::from(count);
    }

    fn trim_unit(&mut self, unit: u32, number: u64) -> bool {
        match self.map.entry(unit).decode() {
            Mapped::Nowhere | Mapped::Trimmed(_) => false,
            Mapped::Unreadable => {
                self.map.set(unit, Entry::NOWHERE);
                true
            }
            Mapped::At(place) => {
                let entry = self.trim_place(place, number);
                self.map.set(unit, entry);
                true
            }
            Mapped::Slot(slot) => {
                if self.buffers.data.slot(slot).trimmed > 0 {
                    return false;
                }
                if let Some(place) = self.buffers.data.slot(slot).committed.place() {
                    self.buffers.data.slot_mut(slot).committed = self.trim_place(place, number);
                    self.buffers.data.slot_mut(slot).committed_is_trimmed = true;
                }
                self.buffers.data.slot_mut(slot).trimmed = number;
                true
            }
        }
    }

    /// Invalidates the copy at `place`, whose unit the trim `number` unmaps. Returns the unit's new entry.
    pub(super) fn trim_place(&mut self, place: u32, number: u64) -> Entry {
        self.invalidate(place);
        self.mark_trimmed(place, number)
    }

    /// Records that `place` holds an invalid copy of a unit that the trim `number` unmapped. Returns the unit's new
    /// entry.
    pub(super) fn mark_trimmed(&mut self, place: u32, number: u64) -> Entry {
        self.blocks.trimmed(self.layout.block_of(place), number);
        Entry::trimmed(place)
    }

    /// Returns true if the trim `number` covers `unit` and its record is not durable.
    pub(super) fn is_pending(&self, unit: u32, number: u64) -> bool {
        self.trim_log.covers(unit, number..number + 1)
    }

    /// Marks the content of the unit at `place` as lost, because its copy there cannot be read.
    pub(super) fn mark_unreadable(&mut self, place: u32) {
        let (block, page, index) = self.layout.parts(place);
        let unit = self.map.reverse().unit(block, page, index);
        self.counters.lost += 1;
        let number = self.buffers.accepted() + 1;
        match self.map.entry(unit).decode() {
            Mapped::Slot(slot) => self.buffers.of_mut(unit).slot_mut(slot).committed = Entry::UNREADABLE,
            _ => self.map.set(unit, Entry::UNREADABLE),
        }
        self.invalidate(place);
        self.blocks.trimmed(block, number);
        self.append_to_trim_log(TrimRecord { first: unit, count: 1, number, unreadable: true });
    }

    fn append_to_trim_log(&mut self, record: TrimRecord) {
        self.buffers.accept_trim(record.number);
        self.trim_log.push(record);
        if self.trim_log.pending.len() >= self.trim_log.page {
            self.log_trims_up_to(record.number);
        }
    }

    /// Requests that the records up to `number` be programmed soon.
    pub(super) fn log_trims_up_to(&mut self, number: u64) {
        self.trim_log.wanted = self.trim_log.wanted.max(number);
        self.start_log_page();
    }

    fn start_log_page(&mut self) {
        let wanted = self.trim_log.oldest().is_some_and(|oldest| oldest <= self.trim_log.wanted);
        if self.trim_log.writing.is_some() || !wanted || self.buffers.map.is_full() {
            return;
        }
        self.trim_log.writing = Some(self.trim_log.pending.len().min(self.trim_log.page));
        self.accept_map(self.layout.log_unit());
        self.buffers.map.flush_to = self.buffers.accepted();
        self.operations.request_dispatch();
    }

    /// Records that the page of records is durable.
    pub(super) fn log_page_written(&mut self) {
        let mut written = self.trim_log.writing.take().expect("a page of records was being written");
        if fault("record-covers-later-trims") {
            written = self.trim_log.pending.len().min(self.trim_log.page);
        }
        for _ in 0..written {
            let record = self.trim_log.pop().expect("as many as written");
            let last = self.trim_log.trims.iter().all(|trim| trim.number == record.number);
            for unit in record.first..record.first + record.count {
                self.forget_trimmed(unit, last);
            }
        }
        let mut waiting = core::mem::take(&mut self.trim_log.waiting);
        waiting.retain(|block| !self.erase_or_retire_if_logged(*block));
        debug_assert!(self.trim_log.waiting.is_empty(), "an erase made a block wait for a record");
        self.trim_log.waiting = waiting;
        self.start_log_page();
    }

    /// Drops the old place of a trimmed unit, unless the unit was written and trimmed again since. If this
    /// trim is the `last` pending trim, there was no such later trim.
    fn forget_trimmed(&mut self, unit: u32, last: bool) {
        let slot = match self.map.entry(unit).decode() {
            Mapped::Slot(slot) => Some(slot),
            _ => None,
        };
        let entry = slot.map_or(self.map.entry(unit), |slot| self.buffers.of(unit).slot(slot).committed);
        let Mapped::Trimmed(place) = entry.decode() else { return };
        // Only trims that changed the map are pending. Such a trim either precedes the unit's oldest write in the
        // buffer, or is the first trim of a copy there.
        let by = match slot {
            Some(slot) => {
                let buffer = self.buffers.of(unit);
                let (written, trimmed) = buffer.first_changes(slot);
                if buffer.slot(slot).committed_is_trimmed { trimmed..trimmed + 1 } else { 0..written }
            }
            None => 0..u64::MAX,
        };
        let newest = self.blocks.history(self.layout.block_of(place)).trimmed;
        let pending = !last && !self.trim_log.is_durable(newest) && self.trim_log.covers(unit, by);
        match slot {
            _ if pending => {}
            Some(slot) => self.buffers.of_mut(unit).slot_mut(slot).committed = Entry::NOWHERE,
            None => self.map.set(unit, Entry::NOWHERE),
        }
    }

    /// Erases an empty block, or retires a failed one, after the trims in it are on record.
    pub(super) fn erase_or_retire(&mut self, block: u32) {
        self.blocks.begin_erase(block);
        if !self.erase_or_retire_if_logged(block) {
            self.trim_log.waiting.push(block);
            let number = self.blocks.history(block).trimmed;
            self.log_trims_up_to(number);
        }
    }

    fn erase_or_retire_if_logged(&mut self, block: u32) -> bool {
        let is_logged = self.trim_log.is_durable(self.blocks.history(block).trimmed)
            || fault("block-is-erased-before-the-record");
        if is_logged && self.blocks.get(block).must_retire {
            self.retire(block);
        } else if is_logged {
            self.issue_erase(block);
        }
        is_logged
    }

    /// Returns the trimmed ranges that would come back after a power cut at this instant.
    pub(super) fn pending_trims(&self) -> Vec<(u32, u32)> {
        let trims = self.trim_log.pending.iter().filter(|record| !record.unreadable);
        trims.map(|record| (record.first, record.count)).collect()
    }

    /// Checks the records.
    pub(super) fn check_trim_log(&self) -> Result<(), Inconsistent> {
        let TrimLog { page, pending, trims, writing, wanted, waiting } = &self.trim_log;
        ensure!(
            *page == TrimLog::new(self.parameters.unit).page,
            "a page has room for {page} records, expected the number for this mapping unit"
        );
        let mut again = TrimLog::new(self.parameters.unit);
        for record in pending {
            let end = record.first.checked_add(record.count);
            ensure!(
                record.count > 0
                    && end.is_some_and(|end| end <= self.layout.logical())
                    && record.number <= self.buffers.accepted(),
                "{record:?} has units that do not exist, or is newer than the last accepted request"
            );
            again.push(*record);
        }
        ensure!(pending.iter().map(|r| (r.number, r.first)).is_sorted(), "the records are not in order");
        ensure!(*trims == again.trims, "the list of trims differs from the records");
        ensure!(
            writing.is_none_or(|writing| writing <= pending.len()) && *wanted <= self.buffers.accepted(),
            "more records are being written than exist, or the wanted number was never accepted"
        );
        let record = self.layout.log_unit();
        let slots = self.buffers.map.iter().map(|slot| self.buffers.map.slot(slot));
        let slots = slots.filter(|slot| slot.unit == record && !slot.overtaken).count();
        let expected = usize::from(writing.is_some());
        ensure!(slots == expected, "{slots} pages of records are in the write buffer, expected {expected}");
        let mut seen = BTreeSet::new();
        for block in waiting {
            let erasing = *block < self.layout.blocks && self.blocks.get(*block).phase == Phase::Erasing;
            ensure!(
                erasing && seen.insert(*block),
                "block {block} is listed as waiting for a record, but is not being erased or is listed twice"
            );
        }
        Ok(())
    }

    /// Checks a layer at rest: all `erasing` blocks wait for records, and each trim without a durable record is in a
    /// pending record.
    pub(super) fn check_trim_log_at_rest(&self, erasing: u32) -> Result<(), Inconsistent> {
        let waiting = self.trim_log.waiting.len();
        ensure!(
            waiting == erasing as usize,
            "{erasing} blocks are being erased, but {waiting} wait for a record"
        );
        let mut pending = vec![false; self.layout.logical() as usize];
        for (first, count) in self.pending_trims() {
            pending[first as usize..(first + count) as usize].fill(true);
        }
        for unit in 0..self.layout.logical() {
            let entry = match self.map.entry(unit).decode() {
                Mapped::Slot(slot) => self.buffers.of(unit).slot(slot).committed,
                _ => self.map.entry(unit),
            };
            let trimmed = matches!(entry.decode(), Mapped::Trimmed(_));
            ensure!(
                !trimmed || pending[unit as usize],
                "unit {unit} was trimmed, but no pending record covers it"
            );
        }
        Ok(())
    }
}
