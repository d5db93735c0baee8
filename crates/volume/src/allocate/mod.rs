//! Space: buckets, their generations, and the streams that fill them.
//!
//! - A bucket is filled from its start to its end by one stream, and never written in place.
//! - A bucket becomes free when no extent refers to it any more. The bucket is reused only after the journal
//!   entry that removed the last reference is durable: until then, a power loss may bring the reference back.
//! - A bucket may hold cached copies beside replicas: when background work moves data elsewhere, it can leave the old
//!   copy behind as a cached one. A bucket that holds only cached copies is evicted when other data needs space: a new
//!   generation invalidates the copies.
//! - An evicted bucket is reused only after the journal entry with its new generation is durable. That entry
//!   does not precede the change that turned the last replica in the bucket into a cached copy. A power loss
//!   therefore never restores a reference, of a replica or of a cached copy, to a reused bucket, whose
//!   contents would not match the checksum of the copy.
//! - Each reuse has a new generation. A read is repeated if the generation has changed when the data arrives.

mod buckets;
mod space;
#[cfg(test)]
mod tests;
mod victims;

use crate::extent::{POINTERS_MAX, Pointer, Pointers};
use crate::format::{MemberEntry, MemberState};
use crate::layout::{COLLECT_RESERVE, Layout};
use crate::member_set::MemberSet;
use flashlab_sim::fault;
use smallvec::SmallVec;
use space::{MemberSpace, State};
use std::collections::{BTreeMap, VecDeque};

/// Kinds of data that fill different buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stream {
    /// New data.
    Foreground,
    /// Data that garbage collection moves. It also takes the buckets of the reserve.
    Collect,
    /// Cached copies.
    Cached,
}

const STREAMS: usize = 3;
/// Number of free buckets, in addition to the reserve, that cached copies leave to other data.
const CACHED_LEAVES: u32 = 2;

/// Largest credit of a member, in multiples of the total weight of the competing members. Each allocation costs one
/// multiple, so a member that was full is preferred for the next one or two thousand extents. With a smaller limit, the
/// members of a full volume take turns, and garbage collection moves more data: with a limit of 2, a full two-member
/// stripe wrote 6 % more in simulation.
const CREDIT_MAX: i64 = 1024;

/// Space that an extent needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) stream: Stream,
    /// Largest number of blocks.
    pub(crate) blocks: u32,
    /// True if fewer blocks are useless, because the stored extent cannot be split.
    pub(crate) exact: bool,
    /// Sum of the durabilities of the copies. The sum is smaller if too few members take data.
    pub(crate) copies: usize,
    /// Smallest sum of the durabilities with which the space is still useful.
    pub(crate) copies_min: usize,
    /// Members that already have a copy.
    pub(crate) taken: &'a [u8],
    /// Members to use first; an empty set stands for all.
    pub(crate) prefer: MemberSet,
    /// True if only the members in `prefer` may be used.
    pub(crate) only: bool,
    /// Members whose reserve the allocation may also use, except for their last free bucket.
    pub(crate) within: MemberSet,
    /// Member on which garbage collection frees a bucket. The data may take all free buckets of this member.
    pub(crate) from: Option<u8>,
    /// Smallest durability of a member that takes a copy.
    pub(crate) durability: usize,
    /// True if cached copies may be evicted. False during a commit, because their space becomes free only with a later
    /// commit.
    pub(crate) evict: bool,
}

/// The reason why an allocation finds no space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoRoom {
    /// Cached copies occupy the space: [`Allocator::evict`] and a commit free it.
    Cached,
    /// The members are full.
    Full,
}

/// The space of all members.
#[derive(Debug)]
pub(crate) struct Allocator {
    layout: Layout,
    members: Vec<MemberSpace>,
    /// Buckets that become free once a change is durable: position of the change, member and bucket. The change removed
    /// the last reference to the bucket, or invalidated all of its copies.
    releasing: VecDeque<(u64, u8, u32)>,
}

/// A bucket that a stream began to fill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    pub(crate) member: u8,
    pub(crate) bucket: u32,
    pub(crate) generation: u32,
}

/// Use of a member's buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketUsage {
    /// Buckets without data.
    pub free: u32,
    /// Buckets with copies that are not cached or with writes in flight, and buckets that are being filled or
    /// released.
    pub used: u32,
    /// Buckets with nothing but cached copies.
    pub cached: u32,
    /// Buckets of checkpoints, and those that are reserved for a journal.
    pub metadata: u32,
    /// Blocks to which the map refers, and those of writes in flight.
    pub live_blocks: u64,
}

impl Allocator {
    /// Creates the space of empty members.
    pub(crate) fn new<'a>(layout: Layout, members: impl Iterator<Item = &'a MemberEntry>) -> Allocator {
        let members = members.map(|entry| MemberSpace::new(&layout, entry)).collect();
        Allocator { layout, members, releasing: VecDeque::new() }
    }

    /// Adapts to a changed table of members while no request is in flight. No extent refers to a removed
    /// member. A member is empty if its place in the table is new or belonged to a removed member.
    pub(crate) fn reconfigure(&mut self, layout: Layout, entries: &[MemberEntry]) {
        self.layout = layout;
        for (n, entry) in entries.iter().enumerate() {
            let is_removed = entry.state == MemberState::Removed;
            match self.members.get_mut(n) {
                Some(member) if (member.buckets.len() == 0) == is_removed => {
                    member.reserve = layout.reserve(entry.metadata);
                    member.durability = entry.durability;
                }
                Some(member) => {
                    *member = MemberSpace::new(&layout, entry);
                    member.find_free();
                    self.releasing.retain(|(_, other, _)| usize::from(*other) != n);
                }
                None => {
                    self.members.push(MemberSpace::new(&layout, entry));
                    self.members[n].find_free();
                }
            }
        }
    }

    /// Returns true if `pointer` with `blocks` blocks lies within a bucket for data.
    pub(crate) fn contains(&self, pointer: &Pointer, blocks: u32) -> bool {
        let bucket = self.members.get(usize::from(pointer.member));
        let bucket = bucket.and_then(|member| member.buckets.get(pointer.bucket));
        let fits = pointer.offset.checked_add(blocks).is_some_and(|end| end <= self.layout.bucket_blocks());
        fits && bucket.is_some_and(|bucket| bucket.state != State::Metadata)
    }

    /// Sets the generation of a bucket, read from the journal or a checkpoint. Ignores buckets that a removed member had.
    /// Returns false if there is no such member.
    pub(crate) fn set_generation(&mut self, member: u8, bucket: u32, generation: u32) -> bool {
        let Some(member) = self.members.get_mut(usize::from(member)) else { return false };
        if let Some(bucket) = member.buckets.get_mut(bucket) {
            bucket.generation = generation;
        }
        true
    }

    /// Returns the generations of all buckets that were used at least once.
    pub(crate) fn generations(&self) -> impl Iterator<Item = Opened> {
        self.members.iter().zip(0..).flat_map(|(member, number)| {
            let used = member.buckets.changed().filter(|(_, bucket)| bucket.generation > 0);
            used.map(move |(n, bucket)| Opened { member: number, bucket: n, generation: bucket.generation })
        })
    }

    /// Returns true if the bucket of `pointer` has been neither reused nor evicted since the copy was
    /// written.
    pub(crate) fn is_current(&self, pointer: &Pointer) -> bool {
        let bucket = self.members[usize::from(pointer.member)].buckets.get(pointer.bucket);
        bucket.is_some_and(|bucket| bucket.generation == pointer.generation)
    }

    /// Returns the generation of a bucket.
    pub(crate) fn generation(&self, member: u8, bucket: u32) -> u32 {
        self.members[usize::from(member)].buckets[bucket].generation
    }

    /// Adds the references of a recovered extent. Returns false if the counts exceed those of any valid volume.
    pub(crate) fn count(&mut self, pointer: &Pointer, blocks: u32) -> bool {
        self.members[usize::from(pointer.member)].count(pointer, blocks)
    }

    /// Marks a bucket as part of a checkpoint.
    pub(crate) fn mark_metadata(&mut self, member: u8, bucket: u32) {
        self.members[usize::from(member)].buckets[bucket].state = State::Metadata;
    }

    /// Collects the free buckets of the members for which `is_present` returns true, after all references have been
    /// counted.
    pub(crate) fn find_free(&mut self, is_present: impl Fn(usize) -> bool) {
        let present = self.members.iter_mut().enumerate().filter(|(n, _)| is_present(*n));
        present.for_each(|(_, member)| member.find_free());
    }

    /// Sets whether a member takes new data.
    pub(crate) fn set_writable(&mut self, member: u8, writable: bool) {
        self.members[usize::from(member)].writable = writable;
    }

    /// Returns the members that take new data.
    pub(crate) fn writable(&self) -> MemberSet {
        self.those(|member| member.writable)
    }

    /// Sets whether a member has checkpoints, for which it needs a larger reserve.
    pub(crate) fn set_metadata(&mut self, member: u8, metadata: bool) {
        let space = &mut self.members[usize::from(member)];
        space.reserve = self.layout.reserve(metadata);
        if !metadata {
            space.checkpoint = 0;
        }
    }

    /// Keeps this number of buckets of a member free for the next checkpoint.
    pub(crate) fn keep_for_checkpoint(&mut self, member: u8, buckets: u32) {
        self.members[usize::from(member)].checkpoint = buckets;
    }

    /// Returns true if a member has this number of free buckets.
    pub(crate) fn has_free(&self, member: u8, buckets: u32) -> bool {
        self.members[usize::from(member)].free.len() >= buckets as usize
    }

    /// Returns the sum of the durabilities of the copies at these places, without cached copies.
    pub(crate) fn durability(&self, pointers: &[Pointer]) -> usize {
        let durable =
            pointers.iter().filter(|pointer| !pointer.cached || fault("volume-counts-cached-copies"));
        durable.map(|pointer| usize::from(self.members[usize::from(pointer.member)].durability)).sum()
    }

    /// Returns the sum of the durabilities that copies on writable members other than `taken` can have, up to
    /// `copies`.
    pub(crate) fn reachable(&self, copies: usize, taken: &[u8]) -> usize {
        let members = self.members.iter().zip(0u8..);
        let usable = members.filter(|(member, n)| member.writable && !taken.contains(n));
        copies.min(usable.map(|(member, _)| usize::from(member.durability)).sum())
    }

    /// Returns the members that take data and have more free or evictable buckets than cached copies leave to
    /// other data.
    pub(crate) fn roomy(&self) -> MemberSet {
        self.those(|member| member.writable && member.durability > 0 && member.may_open(Stream::Cached, true))
    }

    /// Returns the members for which `is` returns true.
    fn those(&self, is: impl Fn(&MemberSpace) -> bool) -> MemberSet {
        self.members.iter().zip(0u8..).filter(|(member, _)| is(member)).map(|(_, n)| n).collect()
    }

    /// Returns the members of a set.
    fn of(&self, members: MemberSet) -> impl Iterator<Item = &MemberSpace> {
        self.members.iter().zip(0u8..).filter(move |(_, n)| members.contains(*n)).map(|(member, _)| member)
    }

    /// Returns the number of buckets of these members that are free, or that an eviction can free.
    pub(crate) fn available(&self, members: MemberSet) -> usize {
        self.of(members).map(MemberSpace::available).sum()
    }

    /// Returns the number of blocks in the buckets of these members that new data may take, apart from the reserve.
    pub(crate) fn room(&self, members: MemberSet) -> u64 {
        let members = self.of(members);
        let free = members.map(|member| member.available().saturating_sub(member.leaves(Stream::Foreground)));
        free.sum::<usize>() as u64 * u64::from(self.layout.bucket_blocks())
    }

    /// Divides the members that take data into those with room for new data and those without.
    pub(crate) fn with_room(&self) -> (MemberSet, MemberSet) {
        let takes_data = self.those(|member| member.writable && member.durability > 0);
        let roomy = takes_data & self.those(|member| member.may_open(Stream::Foreground, true));
        (roomy, takes_data - roomy)
    }

    /// Allocates space for the copies of an extent on different members, the same number of blocks in each. Calls
    /// `opened` for each bucket that the stream begins to fill. `position` is the position of the last change
    /// of the map. Allocates fewer copies if too few members take data.
    pub(crate) fn allocate(
        &mut self,
        want: &Want<'_>,
        position: u64,
        mut opened: impl FnMut(Opened),
    ) -> Result<(Pointers, u32), NoRoom> {
        let Want { stream, blocks: wanted, exact, .. } = *want;
        let least = if exact { wanted } else { 1 };
        let chosen = self.choose(want, least)?;
        for n in &chosen {
            let member = &mut self.members[usize::from(*n)];
            if let Some((bucket, generation, full)) = member.open(stream, least, &self.layout) {
                opened(Opened { member: *n, bucket, generation });
                self.releasing.extend(full.map(|full| (position, *n, full)));
            }
        }
        let blocks = self.layout.bucket_blocks();
        let room = chosen.iter().map(|n| self.members[usize::from(*n)].room(stream, blocks)).min();
        let room = room.expect("a member was chosen");
        let got = wanted.min(room);
        let pointers =
            chosen.into_iter().map(|n| self.members[usize::from(n)].take(stream, n, got)).collect();
        Ok((pointers, got))
    }

    /// Chooses the members for the copies of an extent. Members of the target come first; members with more
    /// free space are chosen more often.
    fn choose(&mut self, want: &Want<'_>, least: u32) -> Result<SmallVec<[u8; POINTERS_MAX]>, NoRoom> {
        let Want { stream, copies, copies_min, taken, prefer, only, within, from, durability, evict, .. } =
            *want;
        let blocks = self.layout.bucket_blocks();
        let in_target = |n: u8| prefer.prefers(n);
        let counts =
            |member: &MemberSpace| if stream == Stream::Cached { 1 } else { usize::from(member.durability) };
        let is_usable = |member: &MemberSpace, n: u8| {
            let is_durable = counts(member) >= durability.max(1);
            member.writable && is_durable && !taken.contains(&n) && (!only || in_target(n))
        };
        // Each of the other members keeps a free bucket, so that a collection can move data within the
        // member.
        let is_within = |member: &MemberSpace, n: u8| {
            let is_source = from == Some(n) && !member.free.is_empty();
            is_source || within.contains(n) && member.free.len() > 1
        };
        let usable = || self.members.iter().zip(0u8..).filter(|(member, n)| is_usable(member, *n));
        let needed = copies.min(usable().map(|(member, _)| counts(member)).sum());
        let (mut chosen, mut have) = (SmallVec::new(), 0);
        if needed == 0 || needed < copies_min {
            return Err(NoRoom::Full);
        }
        while have < needed {
            let has_room = |member: &MemberSpace| member.has_room(stream, least, evict, &self.layout);
            let candidates = usable()
                .filter(|(member, n)| !chosen.contains(n) && (has_room(member) || is_within(member, *n)));
            // Within the target, and outside of it, a member that would give away its reserve comes last.
            let best = candidates.max_by_key(|(member, n)| {
                let weight = member.credit + member.weight(blocks);
                (in_target(*n), has_room(member), weight, std::cmp::Reverse(*n))
            });
            let (member, n) = best.ok_or(NoRoom::Full)?;
            have += counts(member);
            chosen.push(n);
        }
        let has_room = |n: &u8| {
            let member = &self.members[usize::from(*n)];
            member.has_room(stream, least, false, &self.layout) || is_within(member, *n)
        };
        if !chosen.iter().all(has_room) {
            return Err(NoRoom::Cached);
        }
        self.update_credits(&chosen, |member, n| member.writable && counts(member) > 0 && in_target(n));
        Ok(chosen)
    }

    /// Adds credit to each competing member in proportion to its weight, and charges the chosen members (weighted round
    /// robin). A member that is never chosen, because it is full, accumulates credit up to [`CREDIT_MAX`].
    fn update_credits(&mut self, chosen: &[u8], competes: impl Fn(&MemberSpace, u8) -> bool) {
        let blocks = self.layout.bucket_blocks();
        let (mut total, mut payers) = (0, 0);
        for (member, n) in self.members.iter().zip(0u8..).filter(|(member, n)| competes(member, *n)) {
            total += member.weight(blocks);
            payers += i64::from(chosen.contains(&n));
        }
        if payers == 0 {
            return;
        }
        let mut earned = 0;
        for (member, n) in self.members.iter_mut().zip(0u8..) {
            if competes(member, n) && member.credit < CREDIT_MAX * total {
                let weight = member.weight(blocks);
                (member.credit, earned) = (member.credit + weight, earned + weight);
            }
        }
        for n in chosen {
            let member = &mut self.members[usize::from(*n)];
            if competes(member, *n) {
                member.credit -= earned / payers;
            }
        }
    }

    /// Takes `buckets` free buckets of a member for a checkpoint, or returns `None` if the member has fewer.
    /// Evicts no cached copies, because their space would be free only after the commit, which has already
    /// begun. Each bucket gets a new generation, so that reads of its old data look the data up again. No
    /// journal entry records this generation, because no extent refers to a checkpoint.
    pub(crate) fn allocate_metadata(&mut self, member: u8, buckets: u32) -> Option<VecDeque<u32>> {
        let member = &mut self.members[usize::from(member)];
        if member.free.len() < buckets as usize {
            return None;
        }
        let taken: VecDeque<u32> = member.free.drain(..buckets as usize).collect();
        taken.iter().for_each(|bucket| member.reuse(*bucket, State::Metadata));
        Some(taken)
    }

    /// Releases a bucket of a checkpoint to which no superblock refers any more.
    pub(crate) fn release_metadata(&mut self, member: u8, bucket: u32) {
        let member = &mut self.members[usize::from(member)];
        member.release(bucket);
    }

    /// Adds a reference to blocks to which another extent already refers.
    pub(crate) fn add_reference(&mut self, pointer: &Pointer, blocks: u32) {
        self.members[usize::from(pointer.member)].add_reference(pointer, blocks);
    }

    /// Records that the writes of the cached copies among `places`, `blocks` blocks each, have completed.
    pub(crate) fn cached_written(&mut self, places: &[Pointer], blocks: u32) {
        for place in places.iter().filter(|place| place.cached) {
            self.members[usize::from(place.member)].cached_written(place, blocks);
        }
    }

    /// Removes a reference. `position` is the position of the change in the journal.
    pub(crate) fn remove_reference(&mut self, pointer: &Pointer, blocks: u32, position: u64) {
        let member = &mut self.members[usize::from(pointer.member)];
        if member.remove_reference(pointer, blocks) {
            if fault("volume-reuses-a-bucket-early") {
                member.release_early(pointer.bucket);
                return;
            }
            self.releasing.push_back((position, pointer.member, pointer.bucket));
        }
    }

    /// Evicts buckets of cached copies on members that are short of free buckets, so that every member also has space
    /// for a checkpoint of `checkpoint` buckets. Calls `evicted` with each evicted bucket and its new generation, which
    /// belongs to the change at `position`. The bucket becomes free once this change is durable. Returns true if any
    /// evicted bucket, including those of earlier calls, is not free yet.
    pub(crate) fn evict(&mut self, position: u64, checkpoint: u32, mut evicted: impl FnMut(Opened)) -> bool {
        let mut buckets = Vec::new();
        for (member, number) in self.members.iter_mut().zip(0u8..).filter(|(member, _)| member.writable) {
            let kept = member.leaves(Stream::Foreground) as u32 - COLLECT_RESERVE;
            member.evict(number, checkpoint.saturating_sub(kept), |bucket| buckets.push(bucket));
        }
        for bucket in buckets {
            if fault("volume-reuses-an-evicted-bucket-early") {
                self.members[usize::from(bucket.member)].release_early(bucket.bucket);
            } else {
                self.releasing.push_back((position, bucket.member, bucket.bucket));
            }
            evicted(bucket);
        }
        self.members.iter().any(|member| member.evicted > 0)
    }

    /// Frees the buckets that waited for changes up to `durable`, which are durable now.
    pub(crate) fn release(&mut self, durable: u64) {
        while let Some((position, member, bucket)) = self.releasing.front().copied()
            && position <= durable
        {
            self.releasing.pop_front();
            self.members[usize::from(member)].release(bucket);
        }
    }

    /// Closes open buckets that contain written blocks, but to which nothing refers any more. `position` is
    /// the position of the last change.
    pub(crate) fn close_empty(&mut self, position: u64) {
        for (member, number) in self.members.iter_mut().zip(0u8..) {
            for stream in 0..STREAMS {
                let Some(open) = member.open[stream] else { continue };
                if open.used > 0 && member.buckets[open.bucket].is_empty() {
                    member.close(stream);
                    self.releasing.push_back((position, number, open.bucket));
                }
            }
        }
    }

    /// Returns true if buckets wait for a change to become durable.
    pub(crate) fn is_releasing(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Returns true if enough members have space for this number of copies of new data. A member counts if,
    /// apart from the buckets that new data leaves to others, more than `spare` of its buckets are free or
    /// can be evicted.
    pub(crate) fn has_space(&self, copies: usize, spare: usize) -> bool {
        let may_open = |member: &&MemberSpace| {
            member.writable && member.available() > spare + member.leaves(Stream::Foreground)
        };
        let room: usize =
            self.members.iter().filter(may_open).map(|member| usize::from(member.durability)).sum();
        let needed = self.reachable(copies, &[]);
        needed > 0 && room >= needed
    }

    /// Returns true if a member other than those in `except` may open a bucket for new data.
    pub(crate) fn takes_data(&self, except: MemberSet) -> bool {
        let may_open = self.those(|member| {
            member.writable && member.durability > 0 && member.may_open(Stream::Foreground, false)
        });
        !(may_open - except).is_empty()
    }

    /// Returns the use of each member's buckets.
    pub(crate) fn usage(&self) -> Vec<BucketUsage> {
        let usage = |member: &MemberSpace| {
            let mut usage = BucketUsage::default();
            for (_, bucket) in member.buckets.changed() {
                match bucket.state {
                    State::Free => {}
                    State::Metadata => usage.metadata += 1,
                    State::Open | State::Full if bucket.is_cached() => usage.cached += 1,
                    State::Open | State::Full | State::Releasing | State::Evicted => usage.used += 1,
                }
                usage.live_blocks += u64::from(bucket.held) + u64::from(bucket.cached);
            }
            usage.free = member.buckets.len() - usage.used - usage.cached - usage.metadata;
            usage
        };
        self.members.iter().map(usage).collect()
    }

    /// Returns the held and the cached blocks of each bucket with data, by member and bucket number.
    pub(crate) fn live(&self) -> BTreeMap<(u8, u32), [u32; 2]> {
        let live = |(member, number): (&MemberSpace, u8)| {
            let used = member.buckets.changed().filter(|(_, bucket)| !bucket.is_empty());
            used.map(|(n, bucket)| ((number, n), [bucket.held, bucket.cached])).collect::<Vec<_>>()
        };
        self.members.iter().zip(0..).flat_map(live).collect()
    }
}
