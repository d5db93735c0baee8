//! Garbage collection: moves the extents out of buckets that are partly unreferenced.
//!
//! A collection selects the buckets and finds their extents; [`super::moves`] moves the copies.

use super::moves::{MovePurpose, Moved, copy_in};
use super::rearrange::Rearranged;
use super::{Inner, State};
use crate::allocate::{Stream, Want};
use crate::extent::{Extent, Pointer};
use crate::layout::Layout;
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::{Pin, pin};

/// Maximum number of buckets that a collection considers at a time.
const VICTIMS_MAX: usize = 256;
/// Number of words of the filter that tells which buckets a pass over the map looks for.
const FILTER_WORDS: usize = 64;
/// Smallest number of buckets for which one pass over the map finds the extents.
pub(super) const PASS_MIN: usize = 8;

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
    pub(super) fn durability_needed(&self, extent: &Extent, source: &Pointer) -> usize {
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

    /// Returns the target to which a member belongs. Garbage collection keeps the data of the member within
    /// this target.
    pub(super) fn tier(&self, member: u8) -> MemberSet {
        let Layout { foreground, background, .. } = self.layout;
        let mut targets = [background, foreground].into_iter();
        targets.find(|target| target.contains(member)).unwrap_or_default()
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
