//! The space of one member: its buckets, and the streams that fill them.

use super::buckets::Buckets;
use super::{CACHED_LEAVES, Opened, STREAMS, Stream};
use crate::extent::Pointer;
use crate::format::{MemberEntry, MemberState};
use crate::layout::{COLLECT_RESERVE, Layout};
use std::collections::VecDeque;

/// Largest number of buckets that an eviction frees in addition to those that are needed at once.
const EVICT_MAX: usize = 64;

/// The space of a member.
#[derive(Debug)]
pub(super) struct MemberSpace {
    pub(super) buckets: Buckets,
    /// Free buckets, in the order of their next use. Empty for a member that was absent when the volume was
    /// opened.
    pub(super) free: VecDeque<u32>,
    pub(super) open: [Option<OpenBucket>; STREAMS],
    /// Number of buckets that are reserved for a checkpoint.
    pub(super) reserve: u32,
    /// Number of buckets that the next checkpoint needs; it matters only if it exceeds `reserve`.
    pub(super) checkpoint: u32,
    /// Credit in the distribution of new data by weight.
    pub(super) credit: i64,
    /// True if the member takes new data.
    pub(super) writable: bool,
    /// Number of copies that one copy on the member counts as.
    pub(super) durability: u8,
    /// Full buckets with nothing but cached copies, in the order in which they lost their other copies.
    evictable: VecDeque<u32>,
    /// Number of evicted buckets whose new generation is not durable yet.
    pub(super) evicted: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Blocks that must stay: those of copies that are not cached, and those of writes in flight.
    pub(super) held: u32,
    /// Blocks of cached copies.
    pub(super) cached: u32,
    pub(super) generation: u32,
    pub(super) state: State,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Free,
    Open,
    Full,
    /// Nothing refers to the bucket, but the removal of its last reference is not durable yet.
    Releasing,
    /// The cached copies in the bucket are void, but its new generation is not durable yet.
    Evicted,
    /// Journal and checkpoints.
    Metadata,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OpenBucket {
    pub(super) bucket: u32,
    pub(super) used: u32,
}

impl Bucket {
    /// Returns true if nothing refers to the bucket.
    pub(super) fn is_empty(&self) -> bool {
        self.held == 0 && self.cached == 0
    }

    /// Returns true if there is a further generation for the bucket.
    fn is_reusable(&self) -> bool {
        self.generation < u32::MAX
    }

    /// Returns true if all copies in the bucket are cached.
    pub(super) fn is_cached(&self) -> bool {
        self.held == 0 && self.cached > 0
    }

    /// Returns the number of blocks to which copies of the same kind as `pointer` refer.
    fn count(&mut self, pointer: &Pointer) -> &mut u32 {
        if pointer.cached { &mut self.cached } else { &mut self.held }
    }
}

impl MemberSpace {
    /// Creates the space of an empty member. Its free buckets are not collected yet.
    pub(super) fn new(layout: &Layout, entry: &MemberEntry) -> MemberSpace {
        let buckets = if entry.state == MemberState::Removed { 0 } else { entry.buckets };
        MemberSpace {
            buckets: Buckets::new(buckets, layout.journal_buckets),
            free: VecDeque::new(),
            open: [None; STREAMS],
            reserve: layout.reserve(entry.metadata),
            checkpoint: 0,
            credit: 0,
            writable: true,
            durability: entry.durability,
            evictable: VecDeque::new(),
            evicted: 0,
        }
    }

    /// Collects the free buckets, and those with nothing but cached copies.
    pub(super) fn find_free(&mut self) {
        let numbers = |wanted: &dyn Fn(&Bucket) -> bool| {
            self.buckets.iter().filter(|(_, bucket)| wanted(bucket)).map(|(n, _)| n).collect()
        };
        let free = numbers(&|bucket| bucket.state == State::Free && bucket.is_reusable());
        let evictable = numbers(&|bucket| bucket.state == State::Full && bucket.is_cached());
        (self.free, self.evictable) = (free, evictable);
    }

    /// Adds a reference.
    pub(super) fn add_reference(&mut self, pointer: &Pointer, blocks: u32) {
        let bucket = &mut self.buckets[pointer.bucket];
        if bucket.generation == pointer.generation {
            *bucket.count(pointer) += blocks;
        }
    }

    /// Adds a reference of a recovered extent. Returns false if the counts exceed those of any valid volume.
    pub(super) fn count(&mut self, pointer: &Pointer, blocks: u32) -> bool {
        let bucket = &mut self.buckets[pointer.bucket];
        bucket.state = State::Full;
        let is_possible = bucket.held.checked_add(bucket.cached).is_some_and(|all| all < u32::MAX / 2);
        self.add_reference(pointer, blocks);
        is_possible
    }

    /// Removes a reference. Returns true if the bucket is full and nothing refers to it any more.
    pub(super) fn remove_reference(&mut self, pointer: &Pointer, blocks: u32) -> bool {
        let bucket = &mut self.buckets[pointer.bucket];
        if bucket.generation != pointer.generation {
            return false;
        }
        let was_cached = bucket.is_cached();
        *bucket.count(pointer) -= blocks;
        bucket.state == State::Full && self.settle(pointer.bucket, was_cached)
    }

    /// Records that the write of a cached copy has completed. Until then, its blocks count as held.
    pub(super) fn cached_written(&mut self, place: &Pointer, blocks: u32) {
        let bucket = &mut self.buckets[place.bucket];
        (bucket.held, bucket.cached) = (bucket.held - blocks, bucket.cached + blocks);
        if bucket.state == State::Full {
            self.settle(place.bucket, false);
        }
    }

    /// Marks a full bucket as releasing if nothing refers to it, or as evictable if all of its copies are cached.
    /// `was_cached` is true if the bucket is evictable already. Returns true if the bucket is releasing.
    fn settle(&mut self, number: u32, was_cached: bool) -> bool {
        let bucket = &mut self.buckets[number];
        bucket.state = if bucket.is_empty() { State::Releasing } else { State::Full };
        match (was_cached, bucket.is_cached()) {
            (false, true) => self.evictable.push_back(number),
            (true, false) => self.evictable.retain(|evictable| *evictable != number),
            _ => {}
        }
        bucket.state == State::Releasing
    }

    /// Closes the bucket of a stream. Returns the number of the bucket if nothing refers to the bucket.
    pub(super) fn close(&mut self, stream: usize) -> Option<u32> {
        let closed = self.open[stream].take()?.bucket;
        self.settle(closed, false).then_some(closed)
    }

    /// Returns true if the bucket of a stream has been written to, and its remaining copies are all cached.
    fn is_open_cached(&self, stream: usize) -> bool {
        self.open[stream].is_some_and(|open| self.buckets[open.bucket].is_cached())
    }

    /// Frees a bucket that waited for a durable change.
    pub(super) fn release(&mut self, number: u32) {
        let bucket = &mut self.buckets[number];
        self.evicted -= u32::from(bucket.state == State::Evicted);
        bucket.state = State::Free;
        if bucket.is_reusable() {
            self.free.push_back(number);
        }
    }

    /// Frees a bucket and makes it the next one to be reused. Only injected faults call this function, before
    /// the change is durable.
    pub(super) fn release_early(&mut self, number: u32) {
        self.release(number);
        self.free.rotate_right(1);
    }

    /// Returns the weight of the member in the distribution of new data: the blocks of its free and evictable
    /// buckets, and of one bucket more.
    pub(super) fn weight(&self, bucket_blocks: u32) -> i64 {
        (self.available() as i64 + 1) * i64::from(bucket_blocks)
    }

    /// Returns the room in the open bucket of the stream.
    pub(super) fn room(&self, stream: Stream, bucket_blocks: u32) -> u32 {
        self.open[stream as usize].map_or(0, |open| bucket_blocks - open.used)
    }

    /// Returns the number of free buckets that a stream leaves to others.
    pub(super) fn leaves(&self, stream: Stream) -> usize {
        let beside = match stream {
            Stream::Foreground => COLLECT_RESERVE,
            Stream::Collect => 0,
            Stream::Cached => COLLECT_RESERVE + CACHED_LEAVES,
        };
        (self.reserve.max(self.checkpoint) + beside) as usize
    }

    /// Returns true if the stream may take a free bucket or, if `evict` is set, one that an eviction can free.
    pub(super) fn may_open(&self, stream: Stream, evict: bool) -> bool {
        let buckets = if evict { self.available() } else { self.free.len() };
        buckets > self.leaves(stream)
    }

    /// Returns the number of buckets that are free, or that an eviction can free.
    pub(super) fn available(&self) -> usize {
        let open = (0..STREAMS).filter(|stream| self.is_open_cached(*stream)).count();
        self.free.len() + self.evicted as usize + self.evictable.len() + open
    }

    /// Invalidates the cached copies in the oldest buckets until there are enough free buckets for all
    /// streams, and `further` more. An evicted bucket counts as free, although it becomes free only when its
    /// new generation is durable. Calls `evicted` for each evicted bucket.
    pub(super) fn evict(&mut self, member: u8, further: u32, mut evicted: impl FnMut(Opened)) {
        // One eviction frees several buckets, so that a full cache does not cost a commit for each bucket.
        let at_once = (self.buckets.len() as usize / 64).clamp(1, EVICT_MAX);
        let wanted = self.leaves(Stream::Cached) + at_once + further as usize;
        while self.free.len() + (self.evicted as usize) < wanted {
            let open = (0..STREAMS).rev().find(|stream| self.is_open_cached(*stream));
            if let Some(stream) = open.filter(|_| self.evictable.is_empty()) {
                self.close(stream);
            }
            let Some(oldest) = self.evictable.pop_front() else { return };
            let bucket = &mut self.buckets[oldest];
            let Some(generation) = bucket.generation.checked_add(1) else { continue };
            *bucket = Bucket { held: 0, cached: 0, generation, state: State::Evicted };
            self.evicted += 1;
            evicted(Opened { member, bucket: oldest, generation });
        }
    }

    /// Returns true if the stream finds room for `least` blocks: at once, or after an eviction if `evict` is set.
    pub(super) fn has_room(&self, stream: Stream, least: u32, evict: bool, layout: &Layout) -> bool {
        self.room(stream, layout.bucket_blocks()) >= least || self.may_open(stream, evict)
    }

    /// Opens another bucket if the open bucket has less room than `least`. Returns the new bucket with its
    /// generation, and the old bucket if nothing refers to it any more.
    pub(super) fn open(
        &mut self,
        stream: Stream,
        least: u32,
        layout: &Layout,
    ) -> Option<(u32, u32, Option<u32>)> {
        if self.room(stream, layout.bucket_blocks()) >= least {
            return None;
        }
        let bucket = self.free.pop_front().expect("the caller checked that the stream may open a bucket");
        let unused = self.close(stream as usize);
        self.open[stream as usize] = Some(OpenBucket { bucket, used: 0 });
        self.reuse(bucket, State::Open);
        Some((bucket, self.buckets[bucket].generation, unused))
    }

    /// Begins another use of a free bucket under its next generation. A bucket whose generations are used up
    /// is never free.
    pub(super) fn reuse(&mut self, number: u32, state: State) {
        let bucket = &mut self.buckets[number];
        bucket.state = state;
        bucket.generation += 1;
    }

    /// Takes blocks of the open bucket of a stream, and holds them.
    pub(super) fn take(&mut self, stream: Stream, member: u8, blocks: u32) -> Pointer {
        let open = self.open[stream as usize].as_mut().expect("a bucket was opened for this allocation");
        let bucket = &mut self.buckets[open.bucket];
        let (offset, generation) = (open.used, bucket.generation);
        open.used += blocks;
        bucket.held += blocks;
        Pointer { member, cached: stream == Stream::Cached, bucket: open.bucket, offset, generation }
    }
}
