//! Garbage collection: moves the extents out of buckets that are partly unreferenced.
//!
//! A collection changes an extent only if the map still refers to the copy that was read, so it never revives data that
//! was overwritten meanwhile. If every copy of a unit was read and is bad, the unit becomes poisoned: reads
//! of the unit fail until it is overwritten. Errors of reads and writes change no extent, because they may be
//! temporary.

use super::rearrange::Rearranged;
use super::stored::Unread;
use super::{Inner, State};
use crate::allocate::{Stream, Want};
use crate::extent::{Extent, Pointer};
use crate::layout::Layout;
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError, Payload};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};

/// Maximum number of buckets that a collection considers at a time.
const VICTIMS_MAX: usize = 256;
/// Maximum number of extents that move together. With blocks of 4 KiB, their buffer stays below the size from which glibc
/// tidies its heap whenever one is freed.
const TOGETHER_MAX: usize = 14;
/// Maximum number of stored bytes of extents that move together, unless a single extent is larger. With 1 MiB, other
/// requests waited up to five times as long for a USB stick (`run tiering`).
const TOGETHER_BYTES: u64 = 64 << 10;
/// Number of words of the filter that tells which buckets a pass over the map looks for.
const FILTER_WORDS: usize = 64;
/// Smallest number of buckets for which one pass over the map finds the extents.
pub(super) const PASS_MIN: usize = 8;

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

/// Result of [`Inner::balance`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Balanced {
    /// The space that was needed was taken.
    Taken,
    /// Data has moved, so a collection may free space.
    Moved,
    /// No data can move.
    Nothing,
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

/// The search of a collection for buckets that it can empty.
struct Search {
    purpose: MovePurpose,
    tried: BTreeSet<(u8, u32)>,
    /// Buckets that the first round tried, in which an extent with replaced blocks moves only if it can be
    /// encoded anew.
    encoded_anew: BTreeSet<(u8, u32)>,
}

impl Search {
    fn new() -> Search {
        Search { purpose: MovePurpose::Collect, tried: BTreeSet::new(), encoded_anew: BTreeSet::new() }
    }

    /// Begins the search again after space became free or data moved.
    fn restart(&mut self) {
        (self.purpose, self.tried) = (MovePurpose::Collect, BTreeSet::new());
    }

    /// Returns the next buckets to empty. When all buckets have been tried, the search begins a second round,
    /// in which extents may also move whole. Returns none after the second round.
    fn next(&mut self, state: &mut State) -> Vec<(u8, u32)> {
        let victims = state.victims(VICTIMS_MAX, &self.tried);
        if !victims.is_empty() || self.purpose == MovePurpose::CollectWhole {
            return victims;
        }
        self.purpose = MovePurpose::CollectWhole;
        self.encoded_anew = std::mem::take(&mut self.tried);
        // Blocks that could not be read earlier may be readable now.
        state.stuck = BTreeSet::new();
        state.victims(VICTIMS_MAX, &self.tried)
    }

    /// Returns true if moving whole extents is the only way left to empty this bucket.
    fn moves_whole(&self, victim: (u8, u32)) -> bool {
        self.purpose == MovePurpose::CollectWhole && self.encoded_anew.contains(&victim)
    }
}

/// Result of [`Inner::empty`].
pub(super) struct Emptied {
    /// Stored bytes that were moved.
    pub(super) moved: u64,
    /// Error of a write that failed on every member that could take the copy.
    failed: Option<IoError>,
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

/// Extents with a copy in a bucket that is not cached, for each of some buckets.
pub(super) type Residents = BTreeMap<(u8, u32), Vec<Extent>>;

impl Inner {
    /// Frees buckets until `take` succeeds, or fails if no further bucket can be freed. `take` takes the
    /// space that the caller needs, and is called after each bucket, so that requests that arrive meanwhile
    /// do not take all of the freed buckets. Requests that wait for space share one collection.
    pub(super) async fn make_space(
        &self,
        cx: &Context,
        mut take: impl FnMut() -> Result<bool, IoError>,
    ) -> Result<(), IoError> {
        let _guard = self.space.lock().await;
        let copies = usize::from(self.layout.replicas);
        let at_once = self.lock().allocator.collect_at_once();
        let has_enough = || self.lock().allocator.has_space(copies, at_once.saturating_sub(1));
        let (mut search, mut is_taken) = (Search::new(), false);
        let (mut is_restored, mut balances, mut without) = (false, 0, IoError::NoSpace);
        if take()? || self.release(cx).await? && take()? {
            return Ok(());
        }
        loop {
            let victims = search.next(&mut self.lock());
            if victims.is_empty() {
                let mut stored = pin!(self.writes.stored());
                stored.as_mut().enable();
                let is_storing = self.writes.are_storing();
                if is_taken || take()? || self.release(cx).await? && take()? {
                    return Ok(());
                }
                // Without a limit, data could move to and fro between members that are nearly full.
                if balances < self.members.len() && !is_storing {
                    match self.balance(cx, &mut take).await? {
                        Balanced::Taken => return Ok(()),
                        Balanced::Moved => {
                            (balances, is_restored) = (balances + 1, false);
                            search.restart();
                            continue;
                        }
                        Balanced::Nothing => {}
                    }
                }
                if !is_storing && !self.writes.are_storing() {
                    return Err(without);
                }
                // A write in flight frees the space of the data that it replaces.
                stored.await;
                search.restart();
                continue;
            }
            for victims in victims.chunks(PASS_MIN.max(2 * at_once)) {
                let mut residents = self.residents(victims);
                for victim in victims {
                    // Each move adds to the journal, which must not fill up while its checkpoint lacks room.
                    let (needs, is_filling) = self.room_for_checkpoint().await;
                    if needs > 0 && is_filling {
                        return if is_taken { Ok(()) } else { Err(IoError::NoSpace) };
                    }
                    if needs > 0 && !std::mem::replace(&mut is_restored, true) {
                        self.restore_checkpoint_room(cx, needs).await?;
                        break;
                    }
                    search.tried.insert(*victim);
                    let extents = residents.remove(victim).unwrap_or_default();
                    if search.moves_whole(*victim) && !self.is_worth_a_move(&extents) {
                        continue;
                    }
                    let emptied = self.empty(cx, *victim, extents, search.purpose).await?;
                    without = emptied.failed.unwrap_or(without);
                    is_taken = is_taken || take()?;
                    if is_taken && has_enough() {
                        return Ok(());
                    }
                }
                if is_taken {
                    return Ok(());
                }
            }
        }
    }

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

    /// Moves some data from members that are full to members with room, until `take` succeeds or a collection
    /// can free a bucket. Without such moves, writes of several copies would fail as soon as the first
    /// members are full, although others have room.
    async fn balance(
        &self,
        cx: &Context,
        take: &mut impl FnMut() -> Result<bool, IoError>,
    ) -> Result<Balanced, IoError> {
        let (mut tried, mut moved) = (BTreeSet::new(), 0);
        // When two buckets' worth of blocks have moved, a collection can free a bucket, even if each bucket keeps data
        // that cannot move.
        'balance: while moved < 2 * self.layout.bucket_blocks() && tried.len() < VICTIMS_MAX {
            let victims = {
                let allocator = &self.lock().allocator;
                let (roomy, crowded) = allocator.with_room();
                let is_tried = |member, bucket| tried.contains(&(member, bucket));
                if roomy.is_empty() { Vec::new() } else { allocator.occupied(PASS_MIN, crowded, &is_tried) }
            };
            if victims.is_empty() {
                break;
            }
            let mut residents = self.residents(&victims);
            for victim in victims {
                tried.insert(victim);
                for extent in residents.remove(&victim).unwrap_or_default() {
                    let (roomy, _) = self.lock().allocator.with_room();
                    let pointers = extent.pointers();
                    let is_free =
                        |n: u8| pointers.iter().all(|pointer| pointer.cached || pointer.member != n);
                    // Each part of an extent would take the space of the whole extent.
                    if !roomy.iter().any(is_free) || extent.is_wasteful(self.layout.block) {
                        continue;
                    }
                    let (done, _) = self.move_out(cx, &extent, victim, Stream::Foreground).await?;
                    if done == Rearranged::Done {
                        moved += extent.held_blocks(self.layout.block);
                    }
                }
                if self.release(cx).await? && take()? {
                    return Ok(Balanced::Taken);
                }
                if self.room_for_checkpoint().await.0 > 0 {
                    break 'balance;
                }
            }
        }
        // If nothing moved, a request may still have freed space meanwhile.
        Ok(match moved {
            0 if take()? || self.release(cx).await? && take()? => Balanced::Taken,
            0 => Balanced::Nothing,
            _ => Balanced::Moved,
        })
    }

    /// Makes space for a copy of an extent that replaces its copy on `member`. Returns false if there is no
    /// space.
    pub(super) async fn make_space_beside(&self, cx: &Context, extent: &Extent, member: u8) -> bool {
        let others = extent.members() - MemberSet::of(member);
        self.make_space(cx, || Ok(self.lock().allocator.takes_data(others))).await.is_ok()
    }

    /// Frees buckets until each member with a journal has the `buckets` that a checkpoint needs: cached copies give
    /// way, and data moves out of buckets that are partly unreferenced. Each commit on the way stores the checkpoint
    /// if there is room for it.
    pub(super) fn make_checkpoint_room<'a>(
        &'a self,
        cx: &'a Context,
        buckets: u32,
    ) -> Pin<Box<dyn Future<Output = Result<(), IoError>> + Send + 'a>> {
        Box::pin(async move {
            // While another collection runs, the checkpoint waits: the next commit tries again.
            let Ok(_guard) = self.space.try_lock() else { return Ok(()) };
            self.restore_checkpoint_room(cx, buckets).await
        })
    }

    /// Returns the number of buckets that a waiting checkpoint needs on each member, or zero if no checkpoint
    /// waits for room. Also returns true if the journal is nearly full, including the changes that wait for a
    /// commit.
    pub(super) async fn room_for_checkpoint(&self) -> (u32, bool) {
        let journal = self.journal.lock().await;
        let pending = self.lock().changes.pending_bytes() as u64;
        (journal.checkpoint_needs, journal.used + pending > self.layout.journal_len() / 8 * 7)
    }

    /// Frees buckets as [`Inner::make_checkpoint_room`] does. The caller holds the lock of space.
    pub(super) fn restore_checkpoint_room<'a>(
        &'a self,
        cx: &'a Context,
        buckets: u32,
    ) -> Pin<Box<dyn Future<Output = Result<(), IoError>> + Send + 'a>> {
        Box::pin(async move {
            self.lock().evict(buckets);
            let lacking = || {
                let state = self.lock();
                let lacks = |n: &u8| !state.allocator.has_free(*n, buckets);
                let writable = state.allocator.writable();
                let metadata = (0u8..).zip(&state.health);
                let metadata = metadata.filter(|(n, health)| health.metadata && writable.contains(*n));
                metadata.map(|(n, _)| n).filter(lacks).collect::<MemberSet>()
            };
            let _ = self.release(cx).await?;
            // Data is first consolidated, and then moved to other members.
            for is_out in [false, true] {
                let mut tried = BTreeSet::new();
                loop {
                    let members = lacking();
                    let is_tried =
                        |member, bucket| !members.contains(member) || tried.contains(&(member, bucket));
                    let victims = match is_out {
                        false => self.lock().allocator.victims(PASS_MIN, &is_tried),
                        true => self.lock().allocator.occupied(PASS_MIN, members, &is_tried),
                    };
                    if victims.is_empty() {
                        break;
                    }
                    let mut residents = self.residents(&victims);
                    for victim in victims {
                        if self.room_for_checkpoint().await.1 {
                            return Ok(());
                        }
                        tried.insert(victim);
                        for extent in residents.remove(&victim).unwrap_or_default() {
                            match is_out {
                                false => {
                                    // A copy that finds no space stays where it is.
                                    let _: Moved =
                                        self.move_extent(cx, &extent, victim, MovePurpose::Collect).await?;
                                }
                                true => {
                                    let _: (Rearranged, u64) =
                                        self.move_out(cx, &extent, victim, Stream::Collect).await?;
                                }
                            }
                        }
                        let _ = self.release(cx).await?;
                    }
                }
            }
            // The next commit measures again.
            self.journal.lock().await.checkpoint_needs = 0;
            Ok(())
        })
    }

    /// Moves the copy of an extent in a bucket to another member, if one has room for it. `stream` determines the number of
    /// free buckets that the other member keeps. Also returns the number of bytes written.
    async fn move_out(
        &self,
        cx: &Context,
        extent: &Extent,
        from: (u8, u32),
        stream: Stream,
    ) -> Result<(Rearranged, u64), IoError> {
        let pointers = extent.pointers();
        let is_kept = |pointer: &&Pointer| (pointer.member, pointer.bucket) != from;
        let keep: Vec<Pointer> = pointers.iter().filter(is_kept).copied().collect();
        // A cached copy gives way to a copy that counts.
        let counting = pointers.iter().filter(|pointer| !pointer.cached);
        let taken: Vec<u8> = counting.map(|pointer| pointer.member).collect();
        let Some(source) = copy_in(extent, from) else { return Ok((Rearranged::Done, 0)) };
        let want = Want {
            stream,
            blocks: extent.stored_blocks(self.layout.block),
            exact: true,
            copies: 1,
            copies_min: 1,
            taken: &taken,
            prefer: self.tier(from.0),
            only: false,
            within: MemberSet::EMPTY,
            from: None,
            durability: self.durability_needed(extent, &source),
            evict: true,
        };
        self.rearrange(cx, extent, &keep, Some(want)).await
    }

    /// Commits, so that buckets without references become free. Returns true if there were any.
    pub(super) async fn release(&self, cx: &Context) -> Result<bool, IoError> {
        let position = {
            let mut state = self.lock();
            let State { allocator, changes, .. } = &mut *state;
            allocator.close_empty(changes.position());
            if !allocator.is_releasing() {
                return Ok(false);
            }
            changes.position()
        };
        self.commit(cx, position).await?;
        let mut state = self.lock();
        let durable = state.changes.durable();
        state.allocator.release(durable);
        Ok(true)
    }

    /// Returns true if the stored bytes of these extents fill at most three quarters of a bucket. Each part
    /// of an extent moves with all stored bytes of the extent.
    fn is_worth_a_move(&self, extents: &[Extent]) -> bool {
        let stored: u32 = extents.iter().map(|extent| extent.stored_blocks(self.layout.block)).sum();
        stored <= self.layout.bucket_blocks() / 4 * 3
    }

    /// Returns the smallest durability of a member that may take the copy of an extent at `source`, so that its copies stay as
    /// durable as they have to be.
    fn durability_needed(&self, extent: &Extent, source: &Pointer) -> usize {
        let state = self.lock();
        let others: Vec<Pointer> = extent.pointers().iter().filter(|p| *p != source).copied().collect();
        let missing = usize::from(self.layout.replicas).saturating_sub(state.allocator.durability(&others));
        missing.min(state.allocator.durability(&[*source]))
    }

    /// Returns the extents with copies in these buckets. Cached copies do not count: they stay until they are evicted.
    pub(super) fn residents(&self, victims: &[(u8, u32)]) -> Residents {
        let mut residents: Residents = victims.iter().map(|victim| (*victim, Vec::new())).collect();
        // Few extents pass this filter, so most of them cost no search.
        let mut filter = [0u64; FILTER_WORDS];
        let bit = |bucket: u32| (bucket as usize / 64 % FILTER_WORDS, 1 << (bucket % 64));
        for (word, mask) in victims.iter().map(|(_, bucket)| bit(*bucket)) {
            filter[word] |= mask;
        }
        let map = self.lock().map.clone();
        for extent in map.iter() {
            extent.visit_pointers(|pointer| {
                let (word, mask) = bit(pointer.bucket);
                if filter[word] & mask != 0
                    && !pointer.cached
                    && let Some(list) = residents.get_mut(&(pointer.member, pointer.bucket))
                {
                    list.push(extent.clone());
                }
            });
        }
        residents
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

    /// Returns the target to which a member belongs. Garbage collection keeps the data of the member within
    /// this target.
    fn tier(&self, member: u8) -> MemberSet {
        let Layout { foreground, background, .. } = self.layout;
        let mut targets = [background, foreground].into_iter();
        targets.find(|target| target.contains(member)).unwrap_or_default()
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

impl State {
    /// Returns buckets to collect, as [`Allocator::victims`](crate::allocate::Allocator::victims) does,
    /// except for buckets that were `tried` and buckets with data that a collection could not read.
    fn victims(&self, count: usize, tried: &BTreeSet<(u8, u32)>) -> Vec<(u8, u32)> {
        let is_tried = |member, bucket| tried.contains(&(member, bucket)) || self.is_stuck((member, bucket));
        self.allocator.victims(count, &is_tried)
    }

    /// Returns true if a collection could not read data in the bucket, and the bucket was not reused since.
    pub(super) fn is_stuck(&self, (member, bucket): (u8, u32)) -> bool {
        self.stuck.contains(&(member, bucket, self.allocator.generation(member, bucket)))
    }

    /// Notes that a bucket has data that cannot be read, so that the next collections begin with other
    /// buckets.
    pub(super) fn set_stuck(&mut self, (member, bucket): (u8, u32)) {
        let generation = self.allocator.generation(member, bucket);
        self.stuck.insert((member, bucket, generation));
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
