//! Garbage collection for background work: consolidates data on members that have no room for copies.
//!
//! A collection first takes buckets that hold less data than every bucket that it fills, so it never takes a
//! filled bucket again. If this frees too little space, the collection also takes fuller buckets, until it
//! gains nothing more. Work that still finds no room stays pending, and no data moves for it until data or
//! members change.

use super::collect::PASS_MIN;
use super::limiter::Limiter;
use super::moves::{MovePurpose, copy_in};
use super::{Inner, State, Volume};
use crate::extent::Extent;
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError};
use std::collections::BTreeSet;

/// Maximum number of buckets that one call collects for data that waits for its move to the background.
const ROOM_VICTIMS: usize = 16;

/// Use of the members when the collection of nearly full buckets gained nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exhausted {
    /// Members that took data.
    writable: MemberSet,
    /// Blocks in use on all members.
    live: u64,
}

/// A collection that frees buckets of some members.
pub(super) struct Collection<'a> {
    /// The members.
    pub(super) members: MemberSet,
    /// Limit of the stored bytes that are moved per second.
    pub(super) limiter: &'a Limiter,
    /// Condition that is true if enough buckets are free.
    pub(super) is_enough: &'a (dyn Fn(&State) -> bool + Sync),
    /// Function that is called with the stored bytes that were moved out of each bucket, and with zero a few
    /// times per second while the collection waits for its rate. The collection ends if the function returns
    /// false.
    pub(super) progress: &'a mut (dyn FnMut(u64) -> bool + Send),
}

impl Volume {
    /// Frees buckets of members where overwrites left unreferenced blocks, until enough buckets are free or
    /// the collection gains nothing more. The configuration may change between two buckets.
    pub(super) async fn consolidate(&self, cx: &Context, collection: Collection<'_>) -> Result<(), IoError> {
        let Collection { members, limiter, is_enough, progress } = collection;
        let mut tried = BTreeSet::new();
        loop {
            let inner = self.gate.current();
            let (available, (victims, are_nearly_full)) = {
                let state = inner.lock();
                if is_enough(&state) {
                    return Ok(());
                }
                (state.allocator.available(members), inner.victims_for(&state, members, &tried))
            };
            if victims.is_empty() {
                return Ok(());
            }
            let mut residents = inner.residents(&victims);
            for victim in victims {
                tried.insert(victim);
                // The pause precedes the lock of space, since a client may be waiting for the lock.
                self.gate.current().give_way(cx).await;
                let extents = residents.remove(&victim).unwrap_or_default();
                let moved = self.gate.pass().await.consolidate(cx, victim, extents).await?;
                let Some(moved) = moved.filter(|moved| progress(*moved)) else { return Ok(()) };
                let mut goes_on = true;
                let mut ask = || {
                    goes_on = progress(0);
                    goes_on
                };
                limiter.wait(cx, moved, &mut ask).await;
                if !goes_on {
                    return Ok(());
                }
            }
            let mut state = inner.lock();
            if are_nearly_full && state.allocator.available(members) <= available {
                state.exhausted = Some(Exhausted::of(&state));
                return Ok(());
            }
        }
    }

    /// Frees buckets on members without room for `wanted` bytes of copies that are missing or leave another member.
    /// Returns true if one of these members has room now.
    pub(super) async fn make_room_for_copies(
        &self,
        cx: &Context,
        (wanted, limiter): (u64, &Limiter),
        progress: &mut (dyn FnMut(u64) -> bool + Send),
    ) -> Result<bool, IoError> {
        let inner = self.gate.current();
        let (_, members) = inner.lock().allocator.with_room();
        let block = u64::from(inner.layout.block);
        let is_enough = |state: &State| state.allocator.room(members) * block >= wanted;
        self.consolidate(cx, Collection { members, limiter, is_enough: &is_enough, progress }).await?;
        Ok(!(inner.lock().allocator.with_room().0 & members).is_empty())
    }
}

impl Inner {
    /// Frees buckets on members of the background target that have no room for further data, if overwrites left enough
    /// unreferenced blocks there. Returns the number of stored bytes that were moved if there may be room now, and
    /// `None` if not.
    ///
    /// An extent is at most a quarter of a bucket, so a collection fills more than three quarters of each
    /// bucket that it writes to. Such a bucket is not worth another collection unless data changes.
    pub(super) async fn make_room_in_background(&self, cx: &Context) -> Result<Option<u64>, IoError> {
        let crowded = {
            let state = self.lock();
            (self.layout.background & state.allocator.writable()) - state.allocator.roomy()
        };
        if crowded.is_empty() {
            return Ok(Some(0));
        }
        let (mut tried, mut moved, mut is_freed) = (BTreeSet::new(), 0, false);
        while tried.len() < ROOM_VICTIMS {
            // The pause precedes the lock, since a client may be waiting for the lock.
            self.give_way(cx).await;
            let _guard = self.space.lock().await;
            let sparse = self.lock().allocator.sparse(crowded, self.layout.bucket_blocks() / 4 * 3);
            let mut sparse = sparse.into_iter().map(|(_, victim)| victim);
            let Some(victim) = sparse.find(|victim| !tried.contains(victim)) else { break };
            tried.insert(victim);
            let extents = self.residents(&[victim]).remove(&victim).unwrap_or_default();
            let emptied = self.empty(cx, victim, extents, MovePurpose::Background).await?;
            moved += emptied.moved;
            is_freed |= emptied.is_released;
            // A bucket with nothing but cached copies can be evicted.
            is_freed |= !(self.lock().allocator.roomy() & crowded).is_empty();
        }
        Ok(is_freed.then_some(moved))
    }

    /// Moves the extents out of a bucket, and commits. Returns the number of stored bytes that were moved, or `None` if
    /// the collection has to end.
    async fn consolidate(
        &self,
        cx: &Context,
        victim: (u8, u32),
        extents: Vec<Extent>,
    ) -> Result<Option<u64>, IoError> {
        let _guard = self.space.lock().await;
        let (needs, _) = self.room_for_checkpoint().await;
        if needs > 0 {
            // Each move adds to the journal, which must not fill up while its checkpoint lacks room.
            self.restore_checkpoint_room(cx, needs).await?;
            return Ok(None);
        }
        // The map may have changed since the extents were looked up, and the bucket may have other data.
        let sources = extents.iter().filter_map(|extent| Some((extent, copy_in(extent, victim)?)));
        let parts = sources.flat_map(|(extent, source)| self.parts_in(extent, &source)).collect();
        Ok(Some(self.empty(cx, victim, parts, MovePurpose::Background).await?.moved))
    }

    /// Returns the next buckets of a collection on some members, and true if they are nearly full.
    fn victims_for(
        &self,
        state: &State,
        members: MemberSet,
        tried: &BTreeSet<(u8, u32)>,
    ) -> (Vec<(u8, u32)>, bool) {
        let sparse = self.sparse(state, members, tried);
        match sparse.is_empty() {
            false => (sparse, false),
            true => (self.nearly_full(state, members, tried), true),
        }
    }

    /// Returns buckets of these members that hold less than the buckets that a collection fills. A filled
    /// bucket has no room for the largest extent.
    fn sparse(&self, state: &State, members: MemberSet, tried: &BTreeSet<(u8, u32)>) -> Vec<(u8, u32)> {
        let filled = self.layout.bucket_blocks() - self.layout.extent_max / self.layout.block;
        let count = PASS_MIN.max(2 * state.allocator.collect_at_once());
        let sparse = state.allocator.sparse(members, filled).into_iter().map(|(_, victim)| victim);
        sparse.filter(|victim| !tried.contains(victim) && !state.is_stuck(*victim)).take(count).collect()
    }

    /// Returns buckets of these members whose unreferenced blocks together fill two buckets, or at least one
    /// if there are no more. Returns none if their collection is known to gain nothing.
    fn nearly_full(&self, state: &State, members: MemberSet, tried: &BTreeSet<(u8, u32)>) -> Vec<(u8, u32)> {
        let bucket = self.layout.bucket_blocks();
        if state.exhausted.is_some_and(|before| before.is_still(&Exhausted::of(state), bucket)) {
            return Vec::new();
        }
        let (mut victims, mut garbage) = (Vec::new(), 0);
        for (held, victim) in state.allocator.sparse(members, bucket) {
            if garbage < 2 * bucket && !tried.contains(&victim) && !state.is_stuck(victim) {
                garbage += bucket - held;
                victims.push(victim);
            }
        }
        if garbage >= bucket { victims } else { Vec::new() }
    }
}

impl Exhausted {
    fn of(state: &State) -> Exhausted {
        let live = state.allocator.usage().iter().map(|usage| usage.live_blocks).sum();
        Exhausted { writable: state.allocator.writable(), live }
    }

    /// Returns true if, since this use was noted, no member began to take data and less than a bucket of
    /// blocks became unreferenced.
    fn is_still(&self, now: &Exhausted, bucket_blocks: u32) -> bool {
        (now.writable - self.writable).is_empty() && now.live + u64::from(bucket_blocks) > self.live
    }
}
