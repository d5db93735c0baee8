//! Scrub: reads every copy, replaces bad copies with good ones, and poisons units whose copies are all bad.

use super::collect::{MovePurpose, Moved};
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

impl Volume {
    /// Reads and verifies every copy of every extent, and repairs what can be repaired. Requests may run at the same
    /// time.
    ///
    /// # Errors
    /// Returns [`IoError::ReadOnly`] on a read-only volume, and the error of a volume that failed.
    pub async fn scrub(&self, cx: &Context) -> Result<Scrubbed, IoError> {
        self.scrub_with(cx, |_| true).await
    }

    /// Scrubs as [`Volume::scrub`] does, and calls `progress` with the number of stored bytes read so far. If
    /// `progress` returns false, the scrub ends after the current extent. The scrub gives way to requests if
    /// the context has an executor.
    ///
    /// # Errors
    /// Returns the errors of [`Volume::scrub`].
    pub async fn scrub_with(
        &self,
        cx: &Context,
        mut progress: impl FnMut(u64) -> bool + Send,
    ) -> Result<Scrubbed, IoError> {
        let mut read = 0;
        if self.gate.current().read_only {
            return Err(IoError::ReadOnly);
        }
        let mut scrubbed = Scrubbed::default();
        // The extents may change meanwhile, so each one is looked up in the present map.
        let (mut at, mut again, mut goes_on) = (0, 0, true);
        // The turn counts each extent when the next one begins.
        let (mut turn, mut bytes) = (Turn::new(cx), 0);
        while goes_on {
            turn.begin_extent(&self.gate.current(), cx, bytes).await;
            let inner = self.gate.pass().await;
            let Some(extent) = inner.next_extent(at) else { break };
            bytes = inner.bytes(&extent);
            at = extent.end();
            let (mut there, mut bad) = (0, Vec::new());
            for pointer in &*extent.pointers() {
                let is_void = pointer.cached && !inner.lock().allocator.is_current(pointer);
                if is_void || !inner.members[usize::from(pointer.member)].present {
                    continue;
                }
                there += 1;
                scrubbed.copies += 1;
                read += u64::from(extent.stored());
                goes_on &= progress(read);
                if inner.read_stored_copy(cx, &extent, pointer, true).await.is_err() {
                    bad.push(*pointer);
                }
            }
            if bad.is_empty() {
                again = 0;
                continue;
            }
            if !inner.has(&extent) && again < AGAIN_MAX {
                (at, again) = (extent.start(), again + 1);
                continue;
            }
            let has_good = bad.len() < there;
            // Bad cached copies are dropped first, while the map still has the extent as it was read.
            let (cached, bad): (Vec<Pointer>, Vec<Pointer>) =
                bad.into_iter().partition(|pointer| pointer.cached && has_good);
            let (extent, dropped) = inner.drop_cached(cx, extent, &cached).await?;
            scrubbed.repaired += dropped;
            let mut is_divided = false;
            for pointer in bad {
                match inner.repair(cx, &extent, &pointer).await? {
                    Moved::Done => scrubbed.repaired += 1,
                    Moved::Unreadable => scrubbed.unreadable += 1,
                    Moved::NoSpace | Moved::Failed(_) => scrubbed.pending += 1,
                    Moved::Poisoned => {
                        scrubbed.poisoned += 1;
                        is_divided = true;
                        break;
                    }
                }
            }
            // The units that are not poisoned are extents of their own now, and may have other bad copies.
            (at, again) = if is_divided && again < AGAIN_MAX { (extent.start(), again + 1) } else { (at, 0) };
        }
        let inner = self.gate.pass().await;
        let position = inner.lock().changes.position();
        inner.commit(cx, position).await?;
        Ok(scrubbed)
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
