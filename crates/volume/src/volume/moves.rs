//! Moves of the copies of extents out of a bucket, for garbage collection and repairs.
//!
//! A move changes an extent only if the map still refers to the copy that was read, so it never revives data that
//! was overwritten meanwhile. If every copy of a unit was read and is bad, the unit becomes poisoned: reads
//! of the unit fail until it is overwritten. Errors of reads and writes change no extent, because they may be
//! temporary.

use super::Inner;
use super::rearrange::Rearranged;
use super::stored::Unread;
use crate::allocate::{Stream, Want};
use crate::extent::{Extent, Pointer};
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError, Payload};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::pin::Pin;

/// Maximum number of extents that move together. With blocks of 4 KiB, their buffer stays below the size from which glibc
/// tidies its heap whenever one is freed.
const TOGETHER_MAX: usize = 14;
/// Maximum number of stored bytes of extents that move together, unless a single extent is larger. With 1 MiB, other
/// requests waited up to five times as long for a USB stick (`run tiering`).
const TOGETHER_BYTES: u64 = 64 << 10;

/// Result of a move of a copy out of its bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moved {
    /// No extent of the map has the copy any more.
    Done,
    /// All copies of at least one unit are bad. Reads of such a unit fail from now on.
    Poisoned,
    /// No copy is known to be good, and at least one could not be read.
    Unreadable,
    /// There is no space for another copy.
    NoSpace,
    /// The write of another copy failed, and there is no further member for it.
    Failed(IoError),
}

/// Reason for a move of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum MovePurpose {
    /// A repair, which does not use the reserve of garbage collection.
    Repair,
    /// Garbage collection in the background. It moves one extent at a time, so that a request of a client waits for few
    /// other ones.
    Background,
    /// Garbage collection for a request, which encodes what is left of an extent anew.
    Collect,
    /// Garbage collection that also moves what is left of an extent whole, with all stored blocks, if there
    /// is no space to encode it anew.
    CollectWhole,
}

/// Result of [`Inner::empty`].
pub(super) struct Emptied {
    /// Stored bytes that were moved.
    pub(super) moved: u64,
    /// Error of a write that failed on every member that could take the copy.
    pub(super) failed: Option<IoError>,
    /// True if buckets became free.
    pub(super) is_released: bool,
}

/// A move of a copy to a place that was taken for it.
struct Move<'a> {
    extent: &'a Extent,
    source: Pointer,
    target: Pointer,
    /// The stored bytes, with their padding.
    stored: Vec<u8>,
}

impl Inner {
    /// Moves the copies of extents out of a bucket and commits. The bucket is free afterwards if no copy
    /// stays. A copy stays if it cannot be read, if there is no space for it elsewhere, or if its write fails
    /// on every member that could take it.
    pub(super) async fn empty(
        &self,
        cx: &Context,
        bucket: (u8, u32),
        extents: Vec<Extent>,
        purpose: MovePurpose,
    ) -> Result<Emptied, IoError> {
        let mut emptied = Emptied { moved: 0, failed: None, is_released: false };
        // Extents that have to be encoded anew need space on each member with a copy, so they go first. If
        // one of them stays, the bucket stays in use, and moving the others would take space without freeing
        // any.
        let is_wasteful = |extent: &Extent| extent.is_wasteful(self.layout.block);
        let (wasteful, others): (Vec<_>, Vec<_>) = extents.into_iter().partition(is_wasteful);
        if self.move_singly(cx, &wasteful, (bucket, purpose), &mut emptied).await? {
            let left = match purpose {
                MovePurpose::Background => others,
                _ => self.move_together(cx, others, bucket, &mut emptied).await?,
            };
            self.move_singly(cx, &left, (bucket, purpose), &mut emptied).await?;
        }
        emptied.is_released = self.release(cx).await?;
        Ok(emptied)
    }

    /// Moves the copies of extents out of a bucket one by one. Returns false if there is no space for one of them; those
    /// after it stay.
    async fn move_singly(
        &self,
        cx: &Context,
        extents: &[Extent],
        (bucket, purpose): ((u8, u32), MovePurpose),
        emptied: &mut Emptied,
    ) -> Result<bool, IoError> {
        for extent in extents {
            match self.move_extent(cx, extent, bucket, purpose).await? {
                Moved::NoSpace => return Ok(false),
                Moved::Failed(error) => emptied.failed = Some(error),
                Moved::Unreadable => self.lock().set_stuck(bucket),
                Moved::Done => emptied.moved += self.stored_bytes(extent),
                Moved::Poisoned => {}
            }
        }
        Ok(true)
    }

    /// Moves the copies of extents out of a bucket, many at a time: reads them concurrently, and writes those that get
    /// adjacent places with one request. Returns the extents that did not move; [`Inner::move_extent`] finds the reason.
    async fn move_together(
        &self,
        cx: &Context,
        extents: Vec<Extent>,
        bucket: (u8, u32),
        emptied: &mut Emptied,
    ) -> Result<Vec<Extent>, IoError> {
        let (mut left, mut rest) = (Vec::new(), &extents[..]);
        while !rest.is_empty() {
            let mut bytes = 0;
            let fits = |extent: &&Extent| {
                bytes += self.stored_bytes(extent);
                bytes <= TOGETHER_BYTES
            };
            let count = rest.iter().take(TOGETHER_MAX).take_while(fits).count().max(1);
            let (batch, after) = rest.split_at(count);
            rest = after;
            let since = self.flush_failures();
            let read = join_all(batch.iter().map(|extent| self.read_first_copy(cx, extent))).await;
            let mut moves = Vec::with_capacity(count);
            for (extent, stored) in batch.iter().zip(read) {
                let Some(source) = copy_in(extent, bucket) else { continue };
                let Some(taken) = self.members_beside(extent, &source) else { continue };
                let want = self.want_move(extent, &source, &taken, MovePurpose::Collect);
                match stored.and_then(|stored| Some((stored, self.allocate_now(&want).ok()?))) {
                    Some((stored, (places, _))) => {
                        moves.push(Move { extent, source, target: places[0], stored });
                    }
                    None => left.push(extent.clone()),
                }
            }
            let runs: Vec<&[Move]> = moves.chunk_by(|a, b| self.follows(a, b)).collect();
            let written = join_all(runs.iter().map(|run| self.write_run(cx, run))).await;
            for (run, written) in runs.into_iter().zip(written) {
                for Move { extent, source, target, .. } in run {
                    let blocks = extent.stored_blocks(self.layout.block);
                    let replaced = match written {
                        Ok(()) => self.replace_copy(extent, source, (*target, since), blocks)?,
                        Err(error) => Err(error),
                    };
                    match replaced {
                        Ok(()) => emptied.moved += self.stored_bytes(extent),
                        Err(_) => {
                            self.remove_references(&[*target], blocks);
                            left.push((*extent).clone());
                        }
                    }
                }
            }
        }
        Ok(left)
    }

    /// Reads and verifies the stored bytes of the copy of an extent that a read would try first. Returns `None` if they
    /// are not good.
    async fn read_first_copy(&self, cx: &Context, extent: &Extent) -> Option<Vec<u8>> {
        let first = *self.in_reading_order(cx, cx.random(), extent).first()?;
        self.read_stored_copy(cx, extent, &first, false).await.ok()
    }

    /// Returns true if the place of the second move is directly behind that of the first one.
    fn follows(&self, first: &Move, second: &Move) -> bool {
        let offset = first.target.offset + first.extent.stored_blocks(self.layout.block);
        second.target == Pointer { offset, ..first.target }
    }

    /// Writes the stored bytes of moves with adjacent places.
    async fn write_run(&self, cx: &Context, run: &[Move<'_>]) -> Result<(), IoError> {
        let target = run[0].target;
        let bytes = run.iter().map(|one| &one.stored[..]).collect::<Vec<_>>().concat();
        self.write_to(cx, target.member, self.layout.offset(&target), bytes.into()).await
    }

    /// Returns the number of stored bytes of each copy of an extent, with their padding.
    pub(super) fn stored_bytes(&self, extent: &Extent) -> u64 {
        u64::from(extent.stored_blocks(self.layout.block)) * u64::from(self.layout.block)
    }

    /// Moves the copy of an extent out of a bucket, and poisons each unit whose copies are all bad. Does
    /// nothing if the extent was overwritten meanwhile.
    ///
    /// A garbage collection may take all free buckets of the member. A repair leaves the reserve to garbage
    /// collection.
    pub(super) async fn move_extent(
        &self,
        cx: &Context,
        extent: &Extent,
        from: (u8, u32),
        purpose: MovePurpose,
    ) -> Result<Moved, IoError> {
        let Some(source) = copy_in(extent, from) else { return Ok(Moved::Done) };
        if !extent.is_wasteful(self.layout.block) {
            return self.move_stored(cx, extent, from, purpose).await;
        }
        if self.has(extent) {
            let collected = (purpose != MovePurpose::Repair).then_some(source.member);
            match self.shed(cx, extent, (self.tier(source.member), collected)).await?.0 {
                Rearranged::Done => {}
                Rearranged::NoSpace if matches!(purpose, MovePurpose::Collect | MovePurpose::Background) => {
                    return Ok(Moved::NoSpace);
                }
                _ => return self.move_stored(cx, extent, from, purpose).await,
            }
        }
        let mut moved = Moved::Done;
        for part in self.parts_in(extent, &source) {
            let of_part = self.move_stored(cx, &part, from, purpose).await?;
            moved = if moved == Moved::Done { of_part } else { moved };
        }
        Ok(moved)
    }

    /// Returns the extents of the map that are parts of an extent and still have its copy `source`.
    pub(super) fn parts_in(&self, extent: &Extent, source: &Pointer) -> Vec<Extent> {
        let blocks = extent.stored_blocks(self.layout.block);
        let state = self.lock();
        let is_in = |part: &&Extent| part.pointers().iter().any(|pointer| lies_in(pointer, source, blocks));
        state.map.overlapping(extent.live()).filter(is_in).cloned().collect()
    }

    /// Moves the copy of an extent, with all of its stored blocks, out of a bucket, as [`Inner::move_extent`] does.
    async fn move_stored(
        &self,
        cx: &Context,
        extent: &Extent,
        from: (u8, u32),
        purpose: MovePurpose,
    ) -> Result<Moved, IoError> {
        let Some(source) = copy_in(extent, from) else { return Ok(Moved::Done) };
        // A scrub has already counted the copies that it found to be bad.
        let mut stored = self.read_stored(cx, extent, purpose != MovePurpose::Repair).await;
        if matches!(stored, Err(Unread::Bad)) {
            // The fault may have occurred on a bus and not on the medium, so a second read may succeed.
            stored = self.read_stored(cx, extent, false).await;
        }
        let stored: Payload = match stored {
            Ok(stored) => stored.into(),
            Err(Unread::Failed) => return Ok(Moved::Unreadable),
            Err(Unread::Bad) => return self.poison_and_move(cx, extent, &source, purpose).await,
        };
        let blocks = extent.stored_blocks(self.layout.block);
        let (mut failed, mut without) = (Vec::new(), Moved::NoSpace);
        loop {
            // Another copy may have moved since the extent was looked up.
            let Some(mut taken) = self.members_beside(extent, &source) else { return Ok(Moved::Done) };
            taken.extend(&failed);
            let want = self.want_move(extent, &source, &taken, purpose);
            let Some((places, _)) = self.take_space(cx, &want).await? else { return Ok(without) };
            let (target, since) = (places[0], self.flush_failures());
            let written = self.write_to(cx, target.member, self.layout.offset(&target), stored.clone()).await;
            let replaced = match written {
                Ok(()) => self.replace_copy(extent, &source, (target, since), blocks)?,
                Err(error) => Err(error),
            };
            if let Err(error) = replaced {
                without = Moved::Failed(error);
                self.remove_references(&places, blocks);
                failed.push(target.member);
            }
        }
    }

    /// Describes the space for the copy of an extent that replaces the one at `source`.
    fn want_move<'a>(
        &self,
        extent: &Extent,
        source: &Pointer,
        taken: &'a [u8],
        purpose: MovePurpose,
    ) -> Want<'a> {
        Want {
            stream: if purpose == MovePurpose::Repair { Stream::Foreground } else { Stream::Collect },
            blocks: extent.stored_blocks(self.layout.block),
            exact: true,
            copies: 1,
            copies_min: 1,
            taken,
            prefer: self.tier(source.member),
            only: false,
            within: MemberSet::EMPTY,
            from: (purpose != MovePurpose::Repair).then_some(source.member),
            durability: self.durability_needed(extent, source),
            evict: true,
        }
    }

    /// Poisons each unit of an extent whose copies are all bad. A collection moves the copy `source` of the
    /// other units. A scrub examines the other units again.
    fn poison_and_move<'a>(
        &'a self,
        cx: &'a Context,
        extent: &'a Extent,
        source: &'a Pointer,
        purpose: MovePurpose,
    ) -> Pin<Box<dyn Future<Output = Result<Moved, IoError>> + Send + 'a>> {
        Box::pin(async move {
            let bad = self.bad_units(cx, extent).await;
            if bad.is_empty() {
                return Ok(Moved::Unreadable);
            }
            self.poison(extent, &bad)?;
            if purpose == MovePurpose::Repair {
                return Ok(Moved::Poisoned);
            }
            let mut moved = Moved::Poisoned;
            // A part that still has bad units changed meanwhile.
            let is_rest =
                |part: &Extent| bad.iter().all(|bad| bad.end <= part.start() || part.end() <= bad.start);
            for part in self.parts_in(extent, source).into_iter().filter(is_rest) {
                let of_part = self.move_stored(cx, &part, (source.member, source.bucket), purpose).await?;
                if matches!(of_part, Moved::Unreadable | Moved::Failed(_)) {
                    moved = of_part;
                }
            }
            Ok(moved)
        })
    }

    /// Returns the members with other copies of those parts of an extent that still have the copy `source`; `None` if the
    /// map has no such part.
    fn members_beside(&self, extent: &Extent, source: &Pointer) -> Option<Vec<u8>> {
        let blocks = extent.stored_blocks(self.layout.block);
        let state = self.lock();
        let mut beside = None;
        for part in state.map.overlapping(extent.live()) {
            if part.pointers().iter().any(|pointer| lies_in(pointer, source, blocks)) {
                let others = match fault("volume-moves-two-copies-together") {
                    true => extent.pointers(),
                    false => part.pointers(),
                };
                let others = others.iter().filter(|pointer| !lies_in(pointer, source, blocks));
                beside.get_or_insert_with(Vec::new).extend(others.map(|pointer| pointer.member));
            }
        }
        beside
    }

    /// Replaces the copy `source` of an extent by `target` in every part of the extent that the map still has, apart from parts
    /// with another copy on the same member as the target. If a flush of the target's member failed after
    /// flush failure number `since`, nothing changes and the inner result is an error.
    fn replace_copy(
        &self,
        extent: &Extent,
        source: &Pointer,
        (target, since): (Pointer, u64),
        blocks: u32,
    ) -> Result<Result<(), IoError>, IoError> {
        let block = self.layout.block;
        let mut state = self.lock();
        if state.unflushed.doubtful_since(since).contains(target.member) {
            return Ok(Err(IoError::Medium));
        }
        let position = state.changes.begin()?;
        let parts: Vec<Extent> = state.map.overlapping(extent.live()).cloned().collect();
        for part in parts {
            let is_same = |pointer: &Pointer| lies_in(pointer, source, blocks);
            let is_beside = |pointer: &Pointer| pointer.member == target.member && !is_same(pointer);
            let revives = fault("volume-mover-revives-old-data");
            let pointers = part.pointers();
            if !pointers.iter().any(is_same) && !revives
                || pointers.iter().any(is_beside) && !fault("volume-moves-two-copies-together")
            {
                continue;
            }
            let place = |pointer: &Pointer| match is_same(pointer) {
                true => Pointer { offset: target.offset + pointer.offset - source.offset, ..target },
                false => *pointer,
            };
            let moved = part.with_pointers(&part.pointers().iter().map(place).collect::<Vec<_>>());
            let moved = if revives && moved == part {
                let place = |p: &Pointer| if p == source { target } else { *p };
                extent.with_pointers(&extent.pointers().iter().map(place).collect::<Vec<_>>())
            } else {
                moved
            };
            state.unflushed.add(&moved, MemberSet::of(target.member));
            state.remap(moved, position, block);
        }
        state.allocator.remove_reference(&target, blocks, position);
        state.changes.end();
        Ok(Ok(()))
    }
}

/// Returns the copy of an extent in a bucket.
pub(super) fn copy_in(extent: &Extent, (member, bucket): (u8, u32)) -> Option<Pointer> {
    extent.pointers().iter().find(|pointer| (pointer.member, pointer.bucket) == (member, bucket)).copied()
}

/// Returns true if a pointer lies within the copy of `blocks` blocks at `copy`.
fn lies_in(pointer: &Pointer, copy: &Pointer, blocks: u32) -> bool {
    let bucket = |pointer: &Pointer| Pointer { offset: 0, ..*pointer };
    bucket(pointer) == bucket(copy) && pointer.offset.wrapping_sub(copy.offset) < blocks
}
