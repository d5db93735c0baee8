//! The loss of a member while the volume is open.
//!
//! A flush that fails leaves the new data of its member in doubt. The extents of the batch then lose their copies on
//! the member, in the journal entry and in the map, and get other copies if members are left for them. A member whose
//! journal failed is marked in the superblocks of the others, before the volume acknowledges anything that its journal
//! lacks.

use super::commit::Journal;
use super::rearrange::Rearranged;
use super::{Inner, State};
use crate::extent::{Extent, ExtentState, Pointer};
use crate::format::{Record, Seen};
use crate::map::Map;
use crate::member;
use flashlab_block::{Context, IoError};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::ops::Range;

impl Inner {
    /// Flushes members, given as bits. Returns those that failed.
    pub(super) async fn flush_members(&self, cx: &Context, members: u32) -> u32 {
        let members: Vec<u8> = (0..self.members.len() as u8).filter(|n| members >> n & 1 == 1).collect();
        let results = join_all(members.iter().map(|n| self.flush_member(cx, *n))).await;
        let failed = members.iter().zip(results).filter(|(_, result)| result.is_err());
        failed.fold(0, |failed, (n, _)| failed | 1 << n)
    }

    /// Removes the copies on the `lost` members from the extents that were written since the last flush, and notes
    /// that others may take their place. `entries` and the map of a snapshot are what the commit is about to store.
    ///
    /// # Errors
    /// Fails if an extent has no other copy.
    pub(super) fn lose_copies(
        &self,
        lost: u32,
        unflushed: &[(u32, Range<u64>)],
        (entries, snapshot): (&mut [Vec<u8>], Option<&mut Map>),
    ) -> Result<(), IoError> {
        if fault("volume-keeps-unflushed-copies") {
            return Ok(());
        }
        for records in entries {
            *records = remaining_records(records, lost)?;
        }
        let ranges = || unflushed.iter().filter(|(members, _)| members & lost != 0).map(|(_, range)| range);
        if let Some(map) = snapshot {
            for range in ranges() {
                let parts: Vec<Extent> = map.overlapping(range.clone()).cloned().collect();
                for part in parts {
                    if let Some(rest) = remaining(&part, lost)? {
                        map.insert(rest, |_, _| {});
                    }
                }
            }
        }
        {
            let mut state = self.lock();
            let position = state.change()?;
            for range in ranges() {
                let parts: Vec<Extent> = state.map.overlapping(range.clone()).cloned().collect();
                // A newer extent without another copy is left to the next flush.
                let parts = parts.iter().filter_map(|part| remaining(part, lost).ok().flatten());
                parts.for_each(|rest| state.remap(rest, position, self.layout.block));
            }
            state.end_group();
            state.lost_copies.extend(ranges().cloned());
            state.losses += 1;
        }
        Ok(())
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
        let write = |n: &u8| {
            let superblock = &journal.superblocks[usize::from(*n)];
            let device = &*self.members[usize::from(*n)].device;
            member::write_superblock(device, cx, superblock, self.encoding.keyring.as_ref())
        };
        let results = join_all(members.iter().map(write)).await;
        for (n, result) in members.iter().zip(&results) {
            if self.note_write(cx, *n, false, *result).is_ok() {
                journal.seen[usize::from(*n)].clock = journal.superblocks[usize::from(*n)].clock;
            }
        }
        results
    }

    /// Returns the knowledge about all members.
    pub(super) fn seen(&self, journal: &Journal) -> Vec<Seen> {
        let seen = |(n, seen): (usize, &Seen)| Seen {
            absent: n < self.members.len() && self.is_missing(n) || journal.lost >> n & 1 == 1,
            ..*seen
        };
        journal.seen.iter().enumerate().map(seen).collect()
    }

    /// Records, in the superblocks of all working members, that the volume goes on without the others, and which
    /// members became read-only. Fails if no member with a current journal is left.
    pub(super) async fn record_members(&self, cx: &Context, journal: &mut Journal) -> Result<(), IoError> {
        loop {
            let lost = journal.lost;
            let members: Vec<u8> = {
                let state = self.lock();
                let works = |n: &usize| self.members[*n].present && !state.health[*n].is_failing();
                let current = (0..self.members.len()).filter(works).map(|n| n as u8);
                current.filter(|n| lost >> n & 1 == 0).collect()
            };
            journal.tick(&members);
            let results = self.write_superblocks(cx, journal, &members).await;
            journal.lose(&members, &results)?;
            if self.journal_members(journal).is_empty() {
                return Err(IoError::Medium);
            }
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
            self.allocator.refer(pointer, extent.stored_blocks(block));
        }
        self.map_extent(extent, position, block);
    }
}

/// Returns the extent without its copies on `lost` members, or `None` if it has none there.
fn remaining(extent: &Extent, lost: u32) -> Result<Option<Extent>, IoError> {
    let is_kept = |pointer: &&Pointer| lost >> pointer.member & 1 == 0;
    let kept: Vec<Pointer> = extent.pointers().iter().filter(is_kept).copied().collect();
    if kept.len() == extent.pointers().len() || extent.state() == ExtentState::Poisoned {
        return Ok(None);
    }
    let is_safe = kept.iter().any(|pointer| !pointer.cached);
    if is_safe { Ok(Some(extent.with_pointers(&kept))) } else { Err(IoError::Medium) }
}

/// Returns records without the copies on `lost` members.
fn remaining_records(records: &[u8], lost: u32) -> Result<Vec<u8>, IoError> {
    let (mut rest, mut error) = (Vec::with_capacity(records.len()), None);
    let decoded = Record::decode_all(records, |record| {
        match record {
            Record::Map(extent) => match remaining(&extent, lost) {
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
