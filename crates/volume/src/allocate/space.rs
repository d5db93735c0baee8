//! The space of one member: its buckets, and the streams that fill them.

use super::{CACHED_LEAVES, STREAMS, Stream};
use crate::extent::Pointer;
use crate::format::{MemberEntry, MemberState};
use crate::layout::{COLLECT_RESERVE, Layout};
use std::collections::VecDeque;

/// The space of a member.
#[derive(Debug)]
pub(super) struct MemberSpace {
    pub(super) buckets: Vec<Bucket>,
    pub(super) free: VecDeque<u32>,
    pub(super) open: [Option<OpenBucket>; STREAMS],
    /// Free buckets that new data leaves.
    pub(super) reserve: u32,
    /// Credit for the distribution by weight.
    pub(super) credit: i64,
    /// The member takes new data.
    pub(super) writable: bool,
    /// Number of copies that a copy on the member counts for.
    pub(super) durability: u8,
    /// Full buckets with cached copies, the oldest first.
    pub(super) cached: VecDeque<u32>,
    /// Writes of cached copies in flight. Their buckets must not be reused.
    pub(super) cached_in_flight: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// Blocks to which extents refer, and blocks of writes in flight.
    pub(super) live: u32,
    pub(super) generation: u32,
    pub(super) state: State,
    /// All copies in the bucket are cached.
    pub(super) cached: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Free,
    Open,
    Full,
    Releasing,
    /// Journal and checkpoints.
    Metadata,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct OpenBucket {
    pub(super) bucket: u32,
    pub(super) used: u32,
}

impl MemberSpace {
    /// Creates the space of an empty member. Its free buckets are not collected yet.
    pub(super) fn new(layout: &Layout, entry: &MemberEntry) -> MemberSpace {
        let bucket = |n: u32| {
            let state = if n < layout.journal_buckets { State::Metadata } else { State::Free };
            Bucket { live: 0, generation: 0, state, cached: false }
        };
        let buckets = if entry.state == MemberState::Removed { 0 } else { entry.buckets };
        MemberSpace {
            buckets: (0..buckets).map(bucket).collect(),
            free: VecDeque::new(),
            open: [None; STREAMS],
            reserve: layout.reserve(entry.metadata),
            credit: 0,
            writable: true,
            durability: entry.durability,
            cached: VecDeque::new(),
            cached_in_flight: 0,
        }
    }

    /// Collects the free buckets, and those with cached copies.
    pub(super) fn find_free(&mut self) {
        let buckets = || self.buckets.iter().zip(0..);
        let free = buckets().filter(|(bucket, _)| bucket.state == State::Free).map(|(_, n)| n).collect();
        let cached = buckets().filter(|(bucket, _)| bucket.cached).map(|(_, n)| n).collect();
        (self.free, self.cached) = (free, cached);
    }

    /// Returns the free blocks, by which new data is distributed.
    pub(super) fn weight(&self, bucket_blocks: u32) -> i64 {
        (self.free.len() as i64 + 1) * i64::from(bucket_blocks)
    }

    /// Returns the room in the open bucket of the stream.
    pub(super) fn room(&self, stream: Stream, bucket_blocks: u32) -> u32 {
        self.open[stream as usize].map_or(0, |open| bucket_blocks - open.used)
    }

    pub(super) fn may_open(&self, stream: Stream) -> bool {
        let reserve = match stream {
            Stream::Foreground => self.reserve,
            Stream::Collect => self.reserve - COLLECT_RESERVE,
            Stream::Cached => self.reserve + CACHED_LEAVES,
        };
        self.free.len() > reserve as usize || self.has_evictable()
    }

    /// Returns true if a bucket with cached copies can be emptied.
    pub(super) fn has_evictable(&self) -> bool {
        let any = !self.cached.is_empty() || self.open[Stream::Cached as usize].is_some();
        any && self.cached_in_flight == 0
    }

    /// Empties the oldest bucket with cached copies: a new generation makes them void.
    pub(super) fn evict(&mut self) {
        if !self.has_evictable() {
            return;
        }
        let open = &mut self.open[Stream::Cached as usize];
        let oldest = self.cached.pop_front().or_else(|| open.take().map(|open| open.bucket));
        let Some(oldest) = oldest else { return };
        let bucket = &mut self.buckets[oldest as usize];
        *bucket = Bucket { live: 0, generation: bucket.generation + 1, state: State::Free, cached: false };
        self.free.push_back(oldest);
    }

    pub(super) fn has_room(&self, stream: Stream, least: u32, layout: &Layout) -> bool {
        self.writable && (self.room(stream, layout.bucket_blocks()) >= least || self.may_open(stream))
    }

    /// Opens another bucket if the open one has less room than `least`. Returns the new one with its generation, and the
    /// old one if nothing refers to it any more.
    pub(super) fn open(
        &mut self,
        stream: Stream,
        least: u32,
        layout: &Layout,
    ) -> Option<(u32, u32, Option<u32>)> {
        if self.room(stream, layout.bucket_blocks()) >= least {
            return None;
        }
        let reserve = match stream {
            Stream::Foreground => self.reserve,
            Stream::Collect => 0,
            Stream::Cached => self.reserve + CACHED_LEAVES,
        };
        if self.free.len() <= reserve as usize {
            self.evict();
        }
        let bucket = self.free.pop_front().expect("the caller checked that the stream may open a bucket");
        let mut unused = None;
        if let Some(full) = self.open[stream as usize].replace(OpenBucket { bucket, used: 0 }) {
            let (n, full) = (full.bucket, &mut self.buckets[full.bucket as usize]);
            if full.live == 0 {
                (full.state, full.cached) = (State::Releasing, false);
                unused = Some(n);
            } else {
                full.state = State::Full;
                self.cached.extend(full.cached.then_some(n));
            }
        }
        let opened = &mut self.buckets[bucket as usize];
        (opened.state, opened.cached) = (State::Open, stream == Stream::Cached);
        opened.generation += 1;
        Some((bucket, opened.generation, unused))
    }

    pub(super) fn take(&mut self, stream: Stream, member: u8, blocks: u32) -> Pointer {
        let open = self.open[stream as usize].as_mut().expect("a bucket was opened for this allocation");
        let bucket = &mut self.buckets[open.bucket as usize];
        self.cached_in_flight += u32::from(stream == Stream::Cached);
        let (offset, generation) = (open.used, bucket.generation);
        open.used += blocks;
        bucket.live += blocks;
        Pointer { member, cached: stream == Stream::Cached, bucket: open.bucket, offset, generation }
    }
}
