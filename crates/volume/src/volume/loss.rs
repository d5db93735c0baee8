//! The loss of a member while the volume is open.
//!
//! A failed flush leaves the new data of its member in doubt: the data of the batch, of requests that were
//! answered meanwhile, and of writes in flight. The extents then lose their new copies on the member, both in
//! the journal entry and in the map. The extents get other copies if members are left for them. A write in
//! flight counts as failed. A member whose journal failed is marked in the superblocks of the other members,
//! before the volume acknowledges anything that the journal lacks.

use super::commit::Journal;
use super::rearrange::Rearranged;
use super::{Inner, State};
use crate::extent::{Extent, ExtentState, Pointer};
use crate::format::{Record, Seen, Superblock};
use crate::map::Map;
use crate::member;
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Inner {
    /// Flushes members. Returns those that failed.
    pub(super) async fn flush_members(&self, cx: &Context, members: MemberSet) -> MemberSet {
        let members: Vec<u8> = (members & self.present()).iter().collect();
        let results = join_all(members.iter().map(|n| self.flush_member(cx, *n))).await;
        let failed = members.iter().zip(results).filter(|(_, result)| result.is_err());
        failed.map(|(n, _)| *n).collect()
    }

    /// Removes the copies on the `lost` members that were written since the last flush, and notes that other
    /// copies may take their place. The commit is about to store `entries` and the map of the snapshot, so
    /// the copies also disappear from these.
    ///
    /// # Errors
    /// Fails if an extent has no other copy.
    pub(super) fn lose_copies(
        &self,
        lost: MemberSet,
        unflushed: &[(MemberSet, Range<u64>)],
        (entries, snapshot): (&mut [Vec<u8>], Option<&mut Map>),
    ) -> Result<(), IoError> {
        if fault("volume-keeps-unflushed-copies") {
            return Ok(());
        }
        let doubt = Doubt::new(lost, unflushed, self.present());
        for records in entries {
            *records = doubt.remaining_records(records)?;
        }
        if let Some(map) = snapshot {
            for (members, range) in &doubt.ranges {
                let parts: Vec<Extent> = map.overlapping(range.clone()).cloned().collect();
                for part in parts {
                    if let Some(rest) = doubt.remaining(&part, *members)? {
                        map.insert(rest, |_, _| {});
                    }
                }
            }
        }
        let mut state = self.lock();
        let position = state.changes.begin()?;
        for (members, range) in &doubt.ranges {
            let parts: Vec<Extent> = state.map.overlapping(range.clone()).cloned().collect();
            // A newer extent without another copy is left to the next commit.
            let parts = parts.iter().filter_map(|part| doubt.remaining(part, *members).ok().flatten());
            parts.for_each(|rest| state.remap(rest, position, self.layout.block));
        }
        state.changes.end();
        state.lost_copies.extend(doubt.ranges.into_iter().map(|(_, range)| range));
        state.losses += 1;
        Ok(())
    }

    /// Notes a failed flush of a member.
    pub(super) fn flush_failed(&self, member: u8) {
        let mut state = self.lock();
        let count = self.flush_failures.fetch_add(1, Ordering::SeqCst) + 1;
        state.unflushed.flush_failed(member, count);
    }

    /// Returns the number of flushes of members, and of writes of superblocks, that failed.
    pub(super) fn flush_failures(&self) -> u64 {
        self.flush_failures.load(Ordering::SeqCst)
    }

    /// Returns the members whose devices are present.
    pub(super) fn present(&self) -> MemberSet {
        (0..self.members.len()).filter(|n| self.members[*n].present).collect()
    }

    /// Writes copies to other members, in place of those that the commit removed. Returns true if there are changes for
    /// another commit.
    pub(super) async fn replace_lost_copies(&self, cx: &Context) -> Result<bool, IoError> {
        let ranges = std::mem::take(&mut self.lock().lost_copies);
        for range in &ranges {
            let parts: Vec<Extent> = self.lock().map.overlapping(range.clone()).cloned().collect();
            for part in parts {
                let replicated = self.replicate(cx, &part).await?;
                let mut state = self.lock();
                if replicated == Rearranged::NoSpace && state.evict(0) {
                    // The next commit frees the space of cached copies.
                    state.lost_copies.push(part.live());
                }
            }
        }
        Ok(!ranges.is_empty())
    }

    /// Writes the superblocks of members, with the present table and the knowledge about the others. Returns the results
    /// in the same order.
    pub(super) async fn write_superblocks(
        &self,
        cx: &Context,
        journal: &mut Journal,
        members: &[u8],
    ) -> Vec<Result<(), IoError>> {
        if members.is_empty() {
            return Vec::new();
        }
        let health = {
            let mut state = self.lock();
            for health in &mut state.health {
                let is_new = std::mem::take(&mut health.unrecorded);
                journal.changes += u64::from(is_new);
            }
            state.health.clone()
        };
        let (seen, newest_checkpoint) = (self.seen(journal), journal.newest_checkpoint());
        for n in members {
            let superblock = &mut journal.superblocks[usize::from(*n)];
            superblock.sequence += 1;
            superblock.changes = journal.changes;
            superblock.newest_checkpoint = newest_checkpoint;
            superblock.seen.clone_from(&seen);
            for (entry, health) in superblock.members.iter_mut().zip(&health) {
                (entry.state, entry.errors, entry.metadata) = (health.state, health.errors, health.metadata);
            }
        }
        let write = |n: &u8| self.write_superblock(cx, &journal.superblocks[usize::from(*n)]);
        let results = join_all(members.iter().map(write)).await;
        for (n, result) in members.iter().zip(&results) {
            if self.note_write(cx, *n, false, *result).is_ok() {
                journal.seen[usize::from(*n)].clock = journal.superblocks[usize::from(*n)].clock;
            }
        }
        results
    }

    /// Writes the superblock of a member.
    pub(super) async fn write_superblock(
        &self,
        cx: &Context,
        superblock: &Superblock,
    ) -> Result<(), IoError> {
        let device = &*self.members[usize::from(superblock.member)].device;
        let keyring = self.encoding.keyring.as_ref();
        let written = member::write_superblock(device, cx, superblock, keyring).await;
        if written.is_err() && !fault("volume-trusts-data-before-a-superblock") {
            // A superblock is written with flushes, one of which may have failed.
            self.flush_failed(superblock.member);
        }
        written
    }

    /// Returns the knowledge about all members.
    pub(super) fn seen(&self, journal: &Journal) -> Vec<Seen> {
        let seen = |(n, seen): (usize, &Seen)| Seen {
            absent: n < self.members.len() && self.is_missing(n) || journal.lost.contains(n),
            ..*seen
        };
        journal.seen.iter().enumerate().map(seen).collect()
    }

    /// Records, in the superblocks of all working members, that the volume goes on without the others, and which
    /// members became read-only.
    ///
    /// Fails if no member with a current journal is left. The superblocks then say nothing about the lost members,
    /// because the volume cannot go on without them: once they work again, their journals count.
    pub(super) async fn record_members(&self, cx: &Context, journal: &mut Journal) -> Result<(), IoError> {
        loop {
            let lost = journal.lost;
            let is_certain = !fault("volume-records-the-loss-of-all-journals");
            if is_certain && self.journal_members(journal).is_empty() {
                return Err(IoError::Medium);
            }
            let members: Vec<u8> = {
                let state = self.lock();
                let works = |n: &usize| self.members[*n].present && !state.health[*n].is_failing();
                let current = (0..self.members.len()).filter(works).map(|n| n as u8);
                current.filter(|n| !lost.contains(*n)).collect()
            };
            journal.tick(&members);
            let results = self.write_superblocks(cx, journal, &members).await;
            journal.lose(&members, &results)?;
            if journal.lost == lost {
                return Ok(());
            }
        }
    }
}

impl State {
    /// Maps an extent as a part of the change `position`, and counts references to its copies, some of which may be in
    /// use already.
    pub(super) fn remap(&mut self, extent: Extent, position: u64, block: u32) {
        for pointer in &*extent.pointers() {
            self.allocator.add_reference(pointer, extent.held_blocks(block));
        }
        self.map_extent(extent, position, block);
    }
}

/// Copies that a failed flush leaves in doubt.
struct Doubt {
    /// Ranges of blocks in ascending order, each with the members whose new copies are in doubt.
    ranges: Vec<(MemberSet, Range<u64>)>,
    /// Length of the longest range.
    longest: u64,
    /// Members whose devices are present.
    present: MemberSet,
}

impl Doubt {
    fn new(lost: MemberSet, unflushed: &[(MemberSet, Range<u64>)], present: MemberSet) -> Doubt {
        let in_doubt = unflushed.iter().map(|(members, range)| (*members & lost, range.clone()));
        let mut ranges: Vec<_> = in_doubt.filter(|(members, _)| !members.is_empty()).collect();
        ranges.sort_unstable_by_key(|(_, range)| range.start);
        let longest = ranges.iter().map(|(_, range)| range.end - range.start).max().unwrap_or(0);
        Doubt { ranges, longest, present }
    }

    /// Returns the members whose copies of a range are in doubt.
    fn members(&self, live: &Range<u64>) -> MemberSet {
        let first = self.ranges.partition_point(|(_, range)| range.start + self.longest <= live.start);
        let near = self.ranges[first..].iter().take_while(|(_, range)| range.start < live.end);
        near.filter(|(_, range)| range.end > live.start)
            .fold(MemberSet::EMPTY, |members, (more, _)| members | *more)
    }

    /// Returns the extent without its copies on `lost` members, or `None` if it has no copies there. Fails if
    /// no present member has another copy.
    fn remaining(&self, extent: &Extent, lost: MemberSet) -> Result<Option<Extent>, IoError> {
        let is_kept = |pointer: &&Pointer| !lost.contains(pointer.member);
        let kept: Vec<Pointer> = extent.pointers().iter().filter(is_kept).copied().collect();
        if kept.len() == extent.pointers().len() || extent.state() == ExtentState::Poisoned {
            return Ok(None);
        }
        let is_safe = kept.iter().any(|pointer| !pointer.cached && self.present.contains(pointer.member));
        if is_safe { Ok(Some(extent.with_pointers(&kept))) } else { Err(IoError::Medium) }
    }

    /// Returns records without the copies that are in doubt.
    fn remaining_records(&self, records: &[u8]) -> Result<Vec<u8>, IoError> {
        let (mut rest, mut error) = (Vec::with_capacity(records.len()), None);
        let decoded = Record::decode_all(records, |record| {
            match record {
                Record::Map(extent) => match self.remaining(&extent, self.members(&extent.live())) {
                    Ok(changed) => Record::encode_map(&changed.unwrap_or(extent), &mut rest),
                    Err(why) => error = Some(why),
                },
                record => record.encode(&mut rest),
            }
            Ok(())
        });
        decoded.expect("the engine encoded these records");
        error.map_or(Ok(rest), Err)
    }
}
