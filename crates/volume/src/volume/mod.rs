//! The engine of an open volume.
//!
//! - A write goes to free space. When the members have stored its data, its extents enter the map, and their
//!   records enter the pending batch. Then the write is acknowledged. The order of the records is therefore
//!   the order of the acknowledgements.
//! - A flush commits the batch in four steps: flush the members with new data, write the journal entry, flush
//!   the members of the journal, answer. An entry holds the records of whole requests. After a power loss,
//!   the volume therefore shows a prefix of the requests, in the order of the records. The prefix includes
//!   all requests that were acknowledged before the last acknowledged flush began.
//! - After a failed flush of a member, it is unknown which of its new data is durable. The extents then lose
//!   their new copies on the member. If an extent has no other copy, or if no journal is left, the volume
//!   fails all further writes and flushes until it is opened again.

mod changes;
mod check;
mod checkpoint;
mod codec;
mod collect;
mod commit;
mod configure;
mod consolidate;
mod gate;
mod health;
mod limiter;
mod loss;
mod metadata;
mod moves;
mod numbers;
mod open;
mod promotions;
mod read;
mod rearrange;
mod reconcile;
mod reconciliation;
mod reencode;
mod rejoin;
mod rekey;
mod room;
mod scrub;
mod statistics;
mod stored;
mod storing;
mod threads;
mod unflushed;
mod unlock;
mod write;

pub use check::Report;
pub use codec::{CodecCosts, CodecTimes};
pub use configure::{Change, Growth, Leftover};
pub use health::MemberHealth;
pub use open::{Degraded, OpenOptions};
pub use reconcile::{Amount, Backlog, Reconciled, Rounds};
pub use scrub::{Scrub, Scrubbed};
pub use statistics::Requests;
pub use threads::Threads;

use crate::allocate::{Allocator, BucketUsage};
use crate::encode::{Compressor, Encoding};
use crate::extent::{Extent, ExtentState, Pointer};
use crate::format::{ErrorCounts, MemberEntry, MemberState, SealWith};
use crate::journals::MemberFault;
use crate::layout::Layout;
use crate::map::Map;
use crate::member::Member;
use changes::Changes;
use codec::Codec;
use commit::Journal;
use consolidate::Exhausted;
use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Outcome, Started};
use flashlab_sim::{Instant, fault};
use gate::Gate;
use health::Health;
use numbers::Numbers;
use promotions::Promotions;
use statistics::{CacheReads, Statistics};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Poll, Waker};
use storing::Writes;
use unflushed::Unflushed;

/// Largest read or write in bytes.
const REQUEST_MAX: u64 = 4 << 20;

/// An open volume. Clones share it.
#[derive(Clone)]
pub struct Volume {
    gate: Arc<Gate>,
}

/// An open volume in one configuration: the options and the members. A change of the configuration creates a
/// new value that shares the [`Core`].
struct Inner {
    layout: Layout,
    members: Vec<Member>,
    /// Encoding of new extents, with the keys of all extents.
    encoding: Arc<Encoding>,
    /// Requests and times of each member.
    statistics: Vec<Arc<Statistics>>,
    core: Arc<Core>,
}

/// The parts of an open volume that stay when its configuration changes.
struct Core {
    /// Threads for long computations; none in simulations.
    threads: OnceLock<Arc<dyn Threads>>,
    numbers: Numbers,
    /// Time of the codecs in a simulation.
    codec: Option<Codec>,
    read_only: bool,
    /// Members whose last write or flush failed.
    failing: AtomicU32,
    /// Members with a current journal and a current checkpoint.
    journals: AtomicU32,
    /// Number of blocks that were poisoned since the volume was opened.
    lost_blocks: AtomicU64,
    /// Number of requests of clients in flight.
    requests: AtomicU32,
    cache_reads: CacheReads,
    /// Number of flushes of members, and of writes of superblocks, that failed.
    flush_failures: AtomicU64,
    writes: Writes,
    /// Wakes background work when many extents wait for a cached copy.
    promotable: tokio::sync::Notify,
    state: Mutex<State>,
    /// The journal. Its lock is held during a commit. Requests get the lock in the order of their calls.
    journal: tokio::sync::Mutex<Journal>,
    /// Held by the request that collects garbage for all requests that wait for space, or by background work
    /// that collects.
    space: tokio::sync::Mutex<()>,
}

impl Deref for Inner {
    type Target = Core;
    fn deref(&self) -> &Core {
        &self.core
    }
}

/// The state that requests change without waiting.
struct State {
    map: Map,
    allocator: Allocator,
    changes: Changes,
    unflushed: Unflushed,
    /// Health of each member.
    health: Vec<Health>,
    /// Faults that the opening found in checkpoints and journals of members. The next checkpoint removes the
    /// faults of the members that it is stored on, and of members that no longer have a journal.
    faults: Vec<MemberFault>,
    /// True if the opening found entries in the journal, so that the volume had not been closed.
    had_entries: bool,
    /// Random salt of each mount.
    salts: BTreeMap<u32, [u8; 16]>,
    promotions: Promotions,
    /// Ranges of blocks whose extents lost copies in a commit, and may get other ones.
    lost_copies: Vec<Range<u64>>,
    /// Buckets with data that a garbage collection could not read, with their generations.
    stuck: BTreeSet<(u8, u32, u32)>,
    /// Use of the members when background work found no more space in nearly full buckets.
    exhausted: Option<Exhausted>,
    /// Number of commits in which extents lost copies.
    losses: u64,
}

/// Use of the space of a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Logical size in bytes.
    pub size: u64,
    /// Size of a bucket in bytes.
    pub bucket: u32,
    /// Number of extents in the map.
    pub extents: usize,
    /// Memory of the map in bytes.
    pub map_memory: usize,
    /// Logical bytes that are mapped.
    pub mapped: u64,
    /// Bytes stored for the mapped data, over all copies, without space that awaits garbage collection.
    pub stored: u64,
    /// Number of copies that each extent should have.
    pub replicas: u8,
    /// Number of members with a current journal and a current map.
    pub metadata_copies: u32,
    /// Compression of new extents.
    pub compression: Compressor,
    /// Compression that background work applies.
    pub background_compression: Compressor,
    /// Logical bytes of extents whose copies were all lost.
    pub poisoned: u64,
    /// Logical bytes of the extents, and stored bytes of one copy of each, by their compression.
    pub by_compression: BTreeMap<&'static str, (u64, u64)>,
    /// Numbers of extents that requests read from cached copies and from other copies since the volume was
    /// opened. Reads count only while the volume has a promote target.
    pub cache_reads: (u64, u64),
    /// Logical bytes by the number of their copies on members that are present and answer, without cached
    /// copies.
    pub by_copies: BTreeMap<usize, u64>,
    /// The members.
    pub members: Vec<MemberUsage>,
}

/// Use and state of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberUsage {
    /// Label of the member.
    pub label: String,
    /// State of the member.
    pub state: MemberState,
    /// Number of copies that one copy on the member counts as.
    pub durability: u8,
    /// True if the member is to hold the journal and the checkpoints. They are not current if the member failed or was
    /// absent since the last checkpoint.
    pub metadata: bool,
    /// True if the device is present.
    pub present: bool,
    /// True if the last write or flush of the member failed.
    pub failing: bool,
    /// True if the last read or probe of the member failed.
    pub reads_fail: bool,
    /// True if the member has answered no probe for 30 s, so that other members get copies of its data.
    pub unreachable: bool,
    /// Errors since the device became a member.
    pub errors: ErrorCounts,
    /// Requests since the volume was opened.
    pub requests: Requests,
    /// Buckets of the member.
    pub buckets: BucketUsage,
}

impl Volume {
    /// Returns the error after which the volume fails all changes until it is opened again; `None` if it works.
    pub fn failure(&self) -> Option<IoError> {
        self.gate.current().lock().changes.failure()
    }

    /// Returns the number of bytes whose copies were all found to be bad since the volume was opened. Reads
    /// of these bytes fail until they are overwritten.
    pub fn lost_bytes(&self) -> u64 {
        let inner = self.gate.current();
        inner.lost_blocks.load(Ordering::Relaxed) * u64::from(inner.layout.block)
    }

    /// Returns the number of a member, which is named by its number or by its label.
    pub fn member(&self, name: &str) -> Option<u8> {
        let inner = self.gate.current();
        let state = inner.lock();
        let is_there = |n: &usize| state.health[*n].state != MemberState::Removed;
        let is_meant = |n: &usize| is_there(n) && inner.members[*n].entry.label == name;
        let count = inner.members.len();
        let found = name.parse().ok().filter(|n| *n < count && is_there(n));
        found.or_else(|| (0..count).find(is_meant)).map(|n| n as u8)
    }

    /// Returns the number of bytes of the copies on a member to which the map refers.
    pub fn bytes_on(&self, member: u8) -> u64 {
        let inner = self.gate.current();
        let blocks = inner.lock().allocator.usage()[usize::from(member)].live_blocks;
        blocks * u64::from(inner.layout.block)
    }

    /// Returns the use of the space.
    pub fn usage(&self) -> Usage {
        let inner = self.gate.current();
        let Inner { layout, members, statistics, .. } = &*inner;
        let (map, buckets, health, answering) = {
            let state = inner.lock();
            (state.map.clone(), state.allocator.usage(), state.health.clone(), inner.answering(&state))
        };
        let block = u64::from(layout.block);
        let (mut by_compression, mut by_copies) = (BTreeMap::new(), BTreeMap::new());
        let (mut mapped, mut poisoned) = (0, 0);
        for extent in map.iter() {
            let logical = u64::from(extent.length()) * block;
            let one = u64::from(extent.held_blocks(layout.block)) * block;
            mapped += logical;
            poisoned += if extent.state() == ExtentState::Poisoned { logical } else { 0 };
            let sums: &mut (u64, u64) = by_compression.entry(extent.compression().name()).or_default();
            *sums = (sums.0 + logical, sums.1 + one);
            let is_there = |pointer: &&Pointer| !pointer.cached && answering.contains(pointer.member);
            *by_copies.entry(extent.pointers().iter().filter(is_there).count()).or_default() += logical;
        }
        let member = |n: usize| {
            let MemberEntry { label, durability, .. } = members[n].entry.clone();
            MemberUsage {
                label,
                state: health[n].state,
                durability,
                metadata: health[n].metadata,
                present: members[n].present,
                failing: health[n].is_failing(),
                reads_fail: statistics[n].reads_fail() || health[n].is_silent(),
                unreachable: health[n].unreachable,
                errors: health[n].errors,
                requests: statistics[n].requests(),
                buckets: buckets[n],
            }
        };
        Usage {
            size: layout.size,
            bucket: layout.bucket,
            extents: map.len(),
            map_memory: map.memory(),
            mapped,
            // The map may still have pointers to cached copies that are void.
            stored: buckets.iter().map(|usage| usage.live_blocks).sum::<u64>() * block,
            replicas: layout.replicas,
            metadata_copies: inner.members_with_journal().len(),
            compression: layout.compression,
            background_compression: layout.background_compression,
            poisoned,
            by_compression,
            cache_reads: inner.cache_reads.counts(),
            by_copies,
            members: (0..members.len()).map(member).collect(),
        }
    }
}

impl Core {
    /// Locks the state. No code panics while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Returns true if the map has this extent, with the same copies.
    fn has(&self, extent: &Extent) -> bool {
        self.lock().map.overlapping(extent.live()).any(|other| other == extent)
    }

    /// Returns the key and the number for the next structure of the journal; `None` without encryption.
    fn seal_with(&self) -> Option<SealWith<'_>> {
        let keyring = self.encoding.keyring.as_ref()?;
        Some(SealWith { keyring, mount: self.numbers.mount(), number: self.numbers.next_seal() })
    }

    /// Converts a range in bytes to blocks.
    fn blocks(&self, offset: u64, length: u64) -> Range<u64> {
        let block = u64::from(self.layout.block);
        offset / block..(offset + length) / block
    }

    fn geometry(&self) -> Geometry {
        let Layout { size, block, .. } = self.layout;
        Geometry { capacity: size, block: u64::from(block), request_max: REQUEST_MAX }
    }

    async fn execute(&self, cx: &Context, io: Io) -> Outcome {
        let _counted = Counted::new(&self.requests);
        io.check(&self.geometry())?;
        if self.read_only && io.is_write() {
            return Err(IoError::ReadOnly);
        }
        match io {
            Io::Read { offset, buffer } => self.read(cx, offset, buffer).await.map(Answer::Read),
            Io::Write { offset, data, durable } => self.write(cx, offset, data, durable).await,
            Io::Flush => self.flush(cx).await,
            Io::Discard { offset, length, durable } | Io::WriteZeroes { offset, length, durable, .. } => {
                self.unmap(cx, offset, length, durable).await
            }
            Io::Cache { .. } => Ok(Answer::Done),
            Io::Extents { offset, length } => Ok(Answer::Extents(self.extents(offset, length))),
        }
    }
}

/// A guard that adds one to a counter while it exists, such as the counter of requests in flight.
struct Counted<'a>(&'a AtomicU32);

impl Counted<'_> {
    fn new(count: &AtomicU32) -> Counted<'_> {
        count.fetch_add(1, Ordering::Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    /// Invalidates cached copies on members that are short of buckets, so that each member also gets room for
    /// a checkpoint of `checkpoint` buckets. A commit then frees the evicted buckets. Returns true if there
    /// are any.
    fn evict(&mut self, checkpoint: u32) -> bool {
        let State { allocator, changes, .. } = self;
        let (next, mut count) = (changes.position() + 1, 0);
        let is_evicted = allocator.evict(next, checkpoint, |evicted| {
            count += 1;
            if !fault("volume-forgets-an-eviction") {
                changes.record_opened(evicted);
            }
        });
        if count > 0 {
            changes.count();
            changes.end();
        }
        is_evicted
    }

    /// Maps an extent as a part of the change `position`. The allocation counted its own references already.
    fn map_extent(&mut self, extent: Extent, position: u64, block: u32) {
        self.changes.record_map(&extent);
        let State { map, allocator, .. } = self;
        map.insert(extent, |old, left| replace(allocator, old, left, position, block));
    }
}

/// Moves the references of an extent to the parts that remain of it.
fn replace(allocator: &mut Allocator, old: &Extent, left: &[Extent], position: u64, block: u32) {
    for part in left {
        part.visit_pointers(|pointer| allocator.add_reference(pointer, part.held_blocks(block)));
    }
    old.visit_pointers(|pointer| allocator.remove_reference(pointer, old.held_blocks(block), position));
}

impl BlockDevice for Volume {
    fn geometry(&self) -> Geometry {
        self.gate.current().geometry()
    }

    fn features(&self) -> Features {
        let inner = self.gate.current();
        let members = || inner.members.iter().map(|member| member.device.features());
        Features {
            read_only: inner.read_only,
            discard: true,
            write_zeroes: true,
            extents: true,
            cache: false,
            rotational: members().any(|features| features.rotational),
            timed: members().any(|features| features.timed),
        }
    }

    /// Starts a request. The request is polled once, so that it reaches the members at once. If they answer
    /// immediately, it is complete.
    fn start(&self, cx: &Context, io: Io) -> Started {
        let (gate, cx) = (self.gate.clone(), cx.clone());
        let mut future = Box::pin(async move { gate.pass().await.execute(&cx, io).await });
        match future.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Started::Done(outcome),
            Poll::Pending => Started::Pending(future),
        }
    }

    fn next_due(&self) -> Option<Instant> {
        self.gate.current().members.iter().filter_map(|member| member.device.next_due()).min()
    }

    fn advance(&self, now: Instant) {
        self.gate.current().members.iter().for_each(|member| member.device.advance(now));
    }

    fn power_losses(&self) -> u64 {
        self.gate.power_losses()
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").field("layout", &self.gate.current().layout).finish_non_exhaustive()
    }
}
