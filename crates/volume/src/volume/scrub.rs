//! Scrub: reads every copy, replaces bad copies with good ones, and poisons units whose copies are all bad.

use super::limiter::Limiter;
use super::moves::{MovePurpose, Moved};
use super::reconcile::Turn;
use super::{Inner, Volume};
use crate::extent::{Extent, Pointer};
use flashlab_block::{Context, IoError};
use std::fmt;

/// Number of times that a scrub examines blocks again because their extent changed.
const AGAIN_MAX: u32 = 16;

/// Result of a scrub.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Scrubbed {
    /// Number of copies that were examined.
    pub copies: u64,
    /// Number of copies that remain because no copy of their extent can be read. They may be good.
    pub unreadable: u64,
    /// Number of bad copies that were replaced from a good one, and of bad cached copies that were dropped.
    pub repaired: u64,
    /// Number of extents with at least one unit whose copies are all bad. Reads of such units fail until they
    /// are overwritten.
    pub poisoned: u64,
    /// Number of bad copies that remain because there is no space for another copy, or because its write
    /// failed.
    pub pending: u64,
}

impl fmt::Display for Scrubbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scrubbed { copies, unreadable, repaired, poisoned, pending } = self;
        write!(
            f,
            "{copies} copies examined, {unreadable} cannot be read, {repaired} repaired, {poisoned} extents lost, \
             {pending} bad copies remain"
        )
    }
}

impl Scrubbed {
    /// Returns the number of changes of the map.
    fn changes(&self) -> u64 {
        self.repaired + self.poisoned
    }
}

impl Volume {
    /// Reads and verifies every copy of every extent, and repairs what can be repaired. Requests may run at the same
    /// time.
    ///
    /// # Errors
    /// Returns [`IoError::ReadOnly`] on a read-only volume, and the error of a volume that failed.
    pub async fn scrub(&self, cx: &Context) -> Result<Scrubbed, IoError> {
        let mut scrub = Scrub::default();
        scrub.run(self, cx, 0, |_| true).await?;
        Ok(scrub.result())
    }
}

/// A scrub that can be interrupted and continued, so that more urgent background work comes first.
///
/// The scrub continues after the last extent that it examined. It never examines an extent that was written behind
/// this place meanwhile.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scrub {
    /// First block that was not examined yet.
    at: u64,
    /// Number of times that the blocks at this place were examined again.
    again: u32,
    /// Number of stored bytes that were read.
    read: u64,
    result: Scrubbed,
}

impl Scrub {
    /// Returns the result so far.
    pub fn result(&self) -> Scrubbed {
        self.result
    }

    /// Continues the scrub until it is complete or `progress` returns false, and makes the repairs durable. Calls
    /// `progress` with the number of stored bytes read since the beginning of the scrub. If the context has an
    /// executor, the scrub gives way to requests and reads at most `rate` stored bytes per second; zero means no
    /// limit. Returns true if the scrub is complete.
    ///
    /// # Errors
    /// Returns the errors of [`Volume::scrub`].
    pub async fn run(
        &mut self,
        volume: &Volume,
        cx: &Context,
        rate: u64,
        mut progress: impl FnMut(u64) -> bool + Send,
    ) -> Result<bool, IoError> {
        if volume.gate.current().read_only {
            return Err(IoError::ReadOnly);
        }
        // The turn counts each extent when the next one begins.
        let (mut turn, mut bytes, mut is_complete) = (Turn::new(cx), 0, false);
        let limiter = Limiter::new(cx, rate);
        let before = self.result.changes();
        while progress(self.read) {
            turn.begin_extent(&volume.gate.current(), cx, bytes).await;
            let inner = volume.gate.pass().await;
            // The extents may change meanwhile, so each one is looked up in the present map.
            let Some(extent) = inner.next_extent(self.at) else {
                is_complete = true;
                break;
            };
            let read = self.read;
            self.examine(&inner, cx, &extent).await?;
            bytes = inner.bytes(&extent);
            drop(inner);
            let (so_far, read) = (self.read, self.read - read);
            limiter.wait(cx, read, &mut || progress(so_far)).await;
        }
        // Between the parts of a scrub, a commit without a repair would only delay the requests of clients.
        if is_complete || self.result.changes() != before {
            let inner = volume.gate.pass().await;
            let position = inner.lock().changes.position();
            inner.commit(cx, position).await?;
        }
        Ok(is_complete)
    }

    /// Verifies every copy of an extent, repairs the bad ones, and moves on to the next place to examine.
    async fn examine(&mut self, inner: &Inner, cx: &Context, extent: &Extent) -> Result<(), IoError> {
        let (mut there, mut bad) = (0, Vec::new());
        for pointer in &*extent.pointers() {
            let is_void = pointer.cached && !inner.lock().allocator.is_current(pointer);
            if is_void || !inner.members[usize::from(pointer.member)].present {
                continue;
            }
            there += 1;
            self.result.copies += 1;
            self.read += u64::from(extent.stored());
            if inner.read_stored_copy(cx, extent, pointer, true).await.is_err() {
                bad.push(*pointer);
            }
        }
        let has_changed = !bad.is_empty() && !inner.has(extent) && self.again < AGAIN_MAX;
        let is_repaired = !bad.is_empty() && !has_changed;
        let is_divided = is_repaired && self.repair(inner, cx, extent, there, bad).await?;
        // The units of a divided extent that are not poisoned are extents of their own, and may have other bad copies.
        (self.at, self.again) = match has_changed || is_divided && self.again < AGAIN_MAX {
            true => (extent.start(), self.again + 1),
            false => (extent.end(), 0),
        };
        Ok(())
    }

    /// Replaces the bad copies of an extent that has `there` copies. Returns true if units of the extent were poisoned,
    /// which divides it.
    async fn repair(
        &mut self,
        inner: &Inner,
        cx: &Context,
        extent: &Extent,
        there: usize,
        bad: Vec<Pointer>,
    ) -> Result<bool, IoError> {
        let has_good = bad.len() < there;
        // Bad cached copies are dropped first, while the map still has the extent as it was read.
        let (cached, bad): (Vec<Pointer>, Vec<Pointer>) =
            bad.into_iter().partition(|pointer| pointer.cached && has_good);
        let (extent, dropped) = inner.drop_cached(cx, extent.clone(), &cached).await?;
        self.result.repaired += dropped;
        for pointer in bad {
            match inner.repair(cx, &extent, &pointer).await? {
                Moved::Done => self.result.repaired += 1,
                Moved::Unreadable => self.result.unreadable += 1,
                Moved::NoSpace | Moved::Failed(_) => self.result.pending += 1,
                Moved::Poisoned => {
                    self.result.poisoned += 1;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

impl Inner {
    /// Replaces a bad copy of an extent in every part of the extent that the map still has: an earlier repair
    /// may have replaced another copy.
    async fn repair(&self, cx: &Context, extent: &Extent, bad: &Pointer) -> Result<Moved, IoError> {
        let from = (bad.member, bad.bucket);
        let mut repaired = Moved::Done;
        for part in self.parts_in(extent, bad) {
            let mut moved = self.move_extent(cx, &part, from, MovePurpose::Repair).await?;
            if moved == Moved::NoSpace && self.make_space_beside(cx, &part, bad.member).await {
                moved = self.move_extent(cx, &part, from, MovePurpose::Repair).await?;
            }
            if repaired == Moved::Done || moved == Moved::Poisoned {
                repaired = moved;
            }
        }
        Ok(repaired)
    }

    /// Removes cached copies of an extent. Returns the extent without them, and the number of copies that the map lost.
    async fn drop_cached(
        &self,
        cx: &Context,
        extent: Extent,
        cached: &[Pointer],
    ) -> Result<(Extent, u64), IoError> {
        if cached.is_empty() {
            return Ok((extent, 0));
        }
        let is_kept = |pointer: &&Pointer| !cached.contains(pointer);
        let keep: Vec<Pointer> = extent.pointers().iter().filter(is_kept).copied().collect();
        self.rearrange(cx, &extent, &keep, None).await?;
        let rest = extent.with_pointers(&keep);
        let dropped = if self.has(&rest) { cached.len() as u64 } else { 0 };
        Ok((rest, dropped))
    }

    /// Returns the first extent of the map that ends after a block.
    fn next_extent(&self, block: u64) -> Option<Extent> {
        self.lock().map.overlapping(block..u64::MAX).next().cloned()
    }
}
