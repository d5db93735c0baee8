//! Changes of the copies of an extent: additional copies, moves and removals.
//!
//! A change commits only in the parts of the extent that the map still has with the same copies: data that was
//! overwritten meanwhile never returns.

use super::{Inner, State};
use crate::allocate::{NoRoom, Stream, Want};
use crate::extent::{Extent, ExtentState, POINTERS_MAX, Pointer, Pointers, members_of};
use crate::member_set::MemberSet;
use crate::reconcile::Reason;
use flashlab_block::{Context, IoError};
use flashlab_sim::fault;

/// Result of a change of copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rearranged {
    /// The map has the new copies, in the parts of the extent that were still there.
    Done,
    /// No good copy can be read.
    Unreadable,
    /// There is no room for the new copies.
    NoSpace,
    /// A write of the new copies failed, or a flush failed and puts them in doubt.
    Failed,
}

impl Rearranged {
    /// Returns the reason why the work is pending if nothing changed.
    pub(super) fn done_or_reason(self) -> Result<(), Reason> {
        match self {
            Rearranged::Done => Ok(()),
            Rearranged::NoSpace => Err(Reason::NoSpace),
            Rearranged::Unreadable => Err(Reason::Unreadable),
            Rearranged::Failed => Err(Reason::WriteFailed),
        }
    }
}

impl Inner {
    /// Gives an extent as many copies as the writable members permit, within a commit.
    pub(super) async fn replicate(&self, cx: &Context, extent: &Extent) -> Result<Rearranged, IoError> {
        let pointers = extent.pointers();
        let durable = pointers.iter().filter(|pointer| !pointer.cached);
        let taken: Vec<u8> = durable.map(|pointer| pointer.member).collect();
        let missing = {
            let state = self.lock();
            let copies = usize::from(self.layout.replicas);
            let missing = copies.saturating_sub(state.allocator.durability(&extent.pointers()));
            state.allocator.reachable(missing, &taken)
        };
        if missing == 0 || extent.state() == ExtentState::Poisoned {
            return Ok(Rearranged::Done);
        }
        let want = Want {
            stream: Stream::Collect,
            blocks: extent.stored_blocks(self.layout.block),
            exact: true,
            copies: missing,
            copies_min: 1,
            taken: &taken,
            prefer: self.layout.foreground,
            only: false,
            within: MemberSet::EMPTY,
            from: None,
            durability: 0,
            evict: false,
        };
        let Ok(stored) = self.read_stored(cx, extent, true).await else { return Ok(Rearranged::Unreadable) };
        match self.allocate_now(&want) {
            Ok((places, _)) => {
                self.copy_to(cx, extent, (&extent.pointers(), missing), (&places, stored)).await
            }
            Err(_) => Ok(Rearranged::NoSpace),
        }
    }

    /// Gives an extent the copies `keep`, which are some of its present ones, and further copies at places that `want`
    /// describes. Also returns the number of bytes written, or zero if the change is not complete.
    pub(super) async fn rearrange(
        &self,
        cx: &Context,
        extent: &Extent,
        keep: &[Pointer],
        want: Option<Want<'_>>,
    ) -> Result<(Rearranged, u64), IoError> {
        let Some(want) = want else {
            self.swap_copies(extent, keep, (&[], 0))?;
            return Ok((Rearranged::Done, 0));
        };
        let Ok(stored) = self.read_stored(cx, extent, true).await else {
            return Ok((Rearranged::Unreadable, 0));
        };
        let Some((places, _)) = self.take_space(cx, &want).await? else {
            return Ok((Rearranged::NoSpace, 0));
        };
        let bytes = stored.len() as u64 * places.len() as u64;
        let done = self.copy_to(cx, extent, (keep, want.copies), (&places, stored)).await?;
        Ok((done, if done == Rearranged::Done { bytes } else { 0 }))
    }

    /// Writes copies of an extent to `places`, and maps the extent with these and the copies `keep`. If the new copies are
    /// less durable than `wanted`, because the allocator found fewer members or writes failed, no old copy is
    /// dropped, apart from cached ones.
    pub(super) async fn copy_to(
        &self,
        cx: &Context,
        extent: &Extent,
        (keep, wanted): (&[Pointer], usize),
        (places, stored): (&[Pointer], Vec<u8>),
    ) -> Result<Rearranged, IoError> {
        let (copy, blocks) = (extent.with_pointers(places), extent.stored_blocks(self.layout.block));
        let since = self.flush_failures();
        let failed = self.write_copies(cx, &copy, &stored.into()).await;
        let is_complete = {
            let mut state = self.lock();
            state.allocator.cached_written(places, blocks);
            failed.is_empty() && (places[0].cached || state.allocator.durability(places) >= wanted)
        };
        let is_good = |pointer: &&Pointer| !failed.contains(pointer.member);
        let good: Vec<Pointer> = places.iter().filter(is_good).copied().collect();
        let keep = match is_complete || fault("volume-trades-copies-for-fewer") {
            true => keep.to_vec(),
            false => extent.pointers().iter().filter(|pointer| !pointer.cached).copied().collect(),
        };
        let fits = !good.is_empty() && keep.len() + good.len() <= POINTERS_MAX;
        let is_swapped = if fits { self.swap_copies(extent, &keep, (&good, since)) } else { Ok(false) };
        self.remove_references(places, blocks);
        let is_swapped = is_swapped?;
        Ok(match () {
            () if is_swapped && is_complete => Rearranged::Done,
            // A write failed, or a flush failed and puts a copy in doubt.
            () if !failed.is_empty() || fits && !is_swapped => Rearranged::Failed,
            () => Rearranged::NoSpace,
        })
    }

    /// Takes space for the copies of an extent. Evicts cached copies if `want` permits it. Returns `None` if there is
    /// no space.
    pub(super) async fn take_space(
        &self,
        cx: &Context,
        want: &Want<'_>,
    ) -> Result<Option<(Pointers, u32)>, IoError> {
        loop {
            match self.allocate_now(want) {
                Ok(space) => return Ok(Some(space)),
                Err(NoRoom::Cached) => self.evict(cx).await?,
                Err(NoRoom::Full) => return Ok(None),
            }
        }
    }

    /// Takes free space for the copies of an extent, without an eviction.
    pub(super) fn allocate_now(&self, want: &Want<'_>) -> Result<(Pointers, u32), NoRoom> {
        let mut state = self.lock();
        let State { allocator, changes, .. } = &mut *state;
        allocator.allocate(want, changes.position(), |opened| changes.record_opened(opened))
    }

    /// Frees buckets of cached copies, which takes a commit.
    pub(super) async fn evict(&self, cx: &Context) -> Result<(), IoError> {
        let position = {
            let mut state = self.lock();
            state.evict(0);
            state.changes.position()
        };
        self.commit(cx, position).await
    }

    /// Removes the references of an allocation.
    pub(super) fn remove_references(&self, places: &[Pointer], blocks: u32) {
        let mut state = self.lock();
        let position = state.changes.position();
        places.iter().for_each(|place| state.allocator.remove_reference(place, blocks, position));
    }

    /// Replaces the copies of an extent by `keep` and `added`, in every part of the extent that the map still
    /// has. If a flush of a member with an added copy failed after flush failure number `since`, returns
    /// false and changes nothing.
    fn swap_copies(
        &self,
        extent: &Extent,
        keep: &[Pointer],
        (added, since): (&[Pointer], u64),
    ) -> Result<bool, IoError> {
        let mut state = self.lock();
        if !(state.unflushed.doubtful_since(since) & members_of(added)).is_empty() {
            return Ok(false);
        }
        let parts: Vec<Extent> = state.map.overlapping(extent.live()).cloned().collect();
        let position = state.changes.begin()?;
        for part in parts {
            let revives = fault("volume-reconcile-revives-old-data");
            let shift = shift(extent, &part, self.layout.block).or(revives.then_some(0));
            let Some(shift) = shift else { continue };
            let place = |pointer: &Pointer| Pointer { offset: pointer.offset + shift, ..*pointer };
            // A member has at most one copy of an extent, so a new copy takes the place of a cached one.
            let is_kept = |kept: &&Pointer| !kept.cached || added.iter().all(|new| new.member != kept.member);
            let pointers: Vec<Pointer> = keep.iter().filter(is_kept).chain(added).map(place).collect();
            let same = if revives { extent } else { &part };
            let changed = same.with_pointers(&pointers);
            state.unflushed.add(&changed, members_of(added));
            state.remap(changed, position, self.layout.block);
        }
        state.changes.end();
        Ok(true)
    }
}

/// Returns the distance in blocks from the stored bytes of `extent` to those of `part`, if `part` is what later writes
/// left of `extent`, with the same copies. Newer data may follow the extent in the same bucket, so the bytes of the
/// part have to lie within those of the extent.
pub(super) fn shift(extent: &Extent, part: &Extent, block: u32) -> Option<u32> {
    let (before, after) = (extent.pointers(), part.pointers());
    let shift = after.first()?.offset.checked_sub(before.first()?.offset)?;
    let is_same = |(old, new): (&Pointer, &Pointer)| Pointer { offset: old.offset + shift, ..*old } == *new;
    let is_part = part.start() >= extent.start()
        && part.end() <= extent.end()
        && shift + part.stored_blocks(block) <= extent.stored_blocks(block);
    (before.len() == after.len() && before.iter().zip(&*after).all(is_same) && is_part).then_some(shift)
}
