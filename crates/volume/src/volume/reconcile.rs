//! Reconciliation: background work that brings every extent into the state that the options specify.
//!
//! [`crate::reconcile`] determines the work that each extent needs, and [`Reconciliation`] runs it in passes.
//! A change commits only if the map still contains the extent that was read. If the context has an executor,
//! the work yields to the requests of clients, and observes a limit of bytes per second.

use super::rearrange::Rearranged;
use super::reconciliation::Reconciliation;
use super::{Inner, State, Volume};
use crate::allocate::{Stream, Want};
use crate::extent::Extent;
use crate::format::MemberState;
use crate::map::{Leaf, Map};
use crate::member_set::MemberSet;
use crate::reconcile::{Goal, Reason, View, Wanted, Work, want};
use flashlab_block::{Context, IoError};
use flashlab_sim::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Longest wait for the requests of clients.
const YIELD_MAX: Duration = Duration::from_ms(20);
/// Work between two such waits: this number of bytes or this time, whichever comes first. With a wait before each
/// extent, a volume of small extents would move 0.2 MB/s under the load of a busy client.
const TURN_BYTES: u64 = 64 << 10;
const TURN_TIME: Duration = Duration::from_ms(2);

/// Smallest pause between two searches for background work.
const PAUSE: Duration = Duration::from_ms(500);
/// Smallest pause for each extent of the map: twenty times the time in which a search passes over it.
const PAUSE_PER_EXTENT_NS: u64 = 200;

/// Amount of work, in extents and in logical bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Amount {
    /// Number of extents.
    pub extents: u64,
    /// Logical bytes of these extents.
    pub bytes: u64,
}

impl Amount {
    pub(super) fn add(&mut self, bytes: u64) {
        *self = Amount { extents: self.extents + 1, bytes: self.bytes + bytes };
    }
}

/// Remaining background work.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Backlog {
    /// Work that can be done now.
    pub current: BTreeMap<Work, Amount>,
    /// Work that waits for a change of options, members or free space, with its reason.
    pub pending: BTreeMap<(Work, Reason), Amount>,
}

impl Backlog {
    /// Returns the logical bytes of the work that can be done.
    pub fn current_bytes(&self) -> u64 {
        self.current.values().map(|amount| amount.bytes).sum()
    }
}

/// Result of background work.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reconciled {
    /// Stored bytes that were written.
    pub moved_bytes: u64,
    /// Work that was done.
    pub done: BTreeMap<Work, Amount>,
    /// Work that is pending, with its reason.
    pub pending: BTreeMap<(Work, Reason), Amount>,
}

impl Reconciled {
    /// Returns the logical bytes of the copies that wait for space on other members.
    pub(super) fn waiting_for_space(&self) -> u64 {
        let waits = |(work, reason): &(Work, Reason)| {
            *reason == Reason::NoSpace && matches!(work, Work::Replicate | Work::Evacuate)
        };
        self.pending.iter().filter(|(key, _)| waits(key)).map(|(_, amount)| amount.bytes).sum()
    }
}

impl Volume {
    /// Returns the remaining background work. Reads only the map.
    pub fn backlog(&self) -> Backlog {
        let inner = self.gate.current();
        let (map, view) = inner.view();
        inner.backlog(&map, &view)
    }

    /// Does all background work that can be done, and calls `progress` with the result so far after each extent. `rate`
    /// limits the stored bytes that are written per second; zero means no limit. `progress` is also called a few times
    /// per second while the work waits for its rate. The work ends after the current extent, or ends its wait, if
    /// `progress` returns false.
    ///
    /// # Errors
    /// Returns [`IoError::ReadOnly`] on a read-only volume, and the error of a volume that failed.
    pub async fn reconcile(
        &self,
        cx: &Context,
        rate: u64,
        progress: impl FnMut(&Reconciled) -> bool + Send,
    ) -> Result<Reconciled, IoError> {
        if self.gate.current().read_only {
            return Err(IoError::ReadOnly);
        }
        Reconciliation::new(self, cx, rate, progress).run().await
    }

    /// Does background work in [`Rounds`] until `is_stopped` returns true. The context needs an executor.
    ///
    /// # Errors
    /// Returns the error of a volume that failed or is read-only.
    pub async fn background(
        &self,
        cx: &Context,
        rate: u64,
        is_stopped: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), IoError> {
        let mut rounds = Rounds::default();
        while !is_stopped() {
            let next = rounds.round(self, cx, rate, |_| !is_stopped()).await?;
            self.pause(cx, next).await?;
        }
        Ok(())
    }
}

/// Background work in rounds: each round promotes extents, probes failing and idle members, and reconciles if the map
/// or the members that answer have changed. While work is pending, a round also reconciles if a failing member is due
/// for another attempt.
#[derive(Debug, Default)]
pub struct Rounds {
    /// State of the volume before the last reconciliation.
    seen: Option<(u64, MemberSet)>,
    /// True if the last reconciliation left work that waits for a change.
    is_pending: bool,
}

impl Rounds {
    /// Does a round. Returns the instant at which the next one is due. `rate` and `progress` are those of
    /// [`Volume::reconcile`].
    ///
    /// # Errors
    /// Returns the error of a volume that failed or is read-only.
    pub async fn round(
        &mut self,
        volume: &Volume,
        cx: &Context,
        rate: u64,
        mut progress: impl FnMut(&Reconciled) -> bool + Send,
    ) -> Result<Instant, IoError> {
        volume.promote(cx).await?;
        volume.probe(cx).await;
        let (now, extents, is_due) = {
            let inner = volume.gate.current();
            let is_due = inner.is_attempt_due(cx.now());
            let state = inner.lock();
            ((state.changes.position(), inner.answering(&state)), state.map.len() as u64, is_due)
        };
        // Pending work may wait for a member whose writes or flushes fail.
        if self.seen != Some(now) || self.is_pending && is_due {
            let mut goes_on = true;
            let report = |done: &Reconciled| {
                goes_on = progress(done);
                goes_on
            };
            let done = volume.reconcile(cx, rate, report).await?;
            self.is_pending = !done.pending.is_empty();
            // Reconciliation changes the map itself, so the next round searches once more and finds nothing to do. The
            // next round also continues a reconciliation that `progress` ended.
            self.seen = goes_on.then_some(now);
        }
        Ok(cx.now() + PAUSE.max(Duration::from_ns(extents * PAUSE_PER_EXTENT_NS)))
    }
}

impl Inner {
    fn goal(&self) -> Goal {
        Goal {
            replicas: self.layout.replicas.into(),
            foreground: self.layout.foreground,
            background: self.layout.background,
            promote: self.layout.promote,
            compression: self.layout.background_compression,
        }
    }

    /// Returns the logical bytes of an extent.
    pub(super) fn bytes(&self, extent: &Extent) -> u64 {
        u64::from(extent.length()) * u64::from(self.layout.block)
    }

    /// Returns the map and the state of the members.
    pub(super) fn view(&self) -> (Map, View) {
        let state = self.lock();
        (state.map.clone(), self.view_of(&state))
    }

    /// Returns the work that the extents of a map need.
    pub(super) fn backlog(&self, map: &Map, view: &View) -> Backlog {
        let mut backlog = Backlog::default();
        for extent in map.iter() {
            let amount = match self.next_step(view, extent) {
                Wanted::Pending(work, reason) => backlog.pending.entry((work, reason)).or_default(),
                wanted => match wanted.work() {
                    Some(work) => backlog.current.entry(work).or_default(),
                    None => continue,
                },
            };
            amount.add(self.bytes(extent));
        }
        backlog
    }

    /// Returns the state of the members.
    fn view_of(&self, state: &State) -> View {
        let mask = |is: &dyn Fn(usize) -> bool| (0..self.members.len()).filter(|n| is(*n)).collect();
        View {
            present: self.answering(state),
            writable: state.allocator.writable(),
            roomy: state.allocator.roomy(),
            roomy_for_copies: state.allocator.with_room().0,
            failing: mask(&|n| state.health[n].is_failing()),
            evacuating: mask(&|n| state.health[n].state == MemberState::Evacuating),
            durability: self.members.iter().map(|member| member.entry.durability).collect(),
        }
    }

    /// Returns the extents of a frozen map that need work of these kinds, in the order of the kinds. Holds the extents
    /// of one leaf at a time, so that the memory does not grow with the map.
    pub(super) fn extents_with(
        &self,
        works: BTreeSet<Work>,
        view: &View,
        map: Map,
    ) -> impl Iterator<Item = (Work, Extent)> {
        let maps = repeat_n(map, works.len());
        let of_leaf = move |work, leaf: Arc<Leaf>| {
            let is_wanted = |extent: &&Extent| self.next_step(view, extent).work() == Some(work);
            let extents = leaf.extents().iter().filter(is_wanted).map(|extent| (work, extent.clone()));
            extents.collect::<Vec<_>>()
        };
        works
            .into_iter()
            .zip(maps)
            .flat_map(move |(work, map)| map.into_leaves().flat_map(move |leaf| of_leaf(work, leaf)))
    }

    /// Returns the next step for an extent.
    fn next_step(&self, view: &View, extent: &Extent) -> Wanted {
        want(&self.goal(), view, extent)
    }

    /// Does the next step for an extent, if it is still in the map. Returns the reason if the step is not possible.
    pub(super) async fn reconcile_extent(
        &self,
        cx: &Context,
        extent: &Extent,
        result: &mut Reconciled,
    ) -> Result<Result<(), Reason>, IoError> {
        let view = {
            let state = self.lock();
            if !state.map.overlapping(extent.live()).any(|other| other == extent) {
                return Ok(Ok(()));
            }
            self.view_of(&state)
        };
        let blocks = extent.stored_blocks(self.layout.block);
        match self.next_step(&view, extent) {
            Wanted::Nothing => Ok(Ok(())),
            Wanted::Pending(_, reason) => Ok(Err(reason)),
            Wanted::Recompress => {
                let (done, written) = self.recompress(cx, extent).await?;
                result.moved_bytes += written;
                Ok(done)
            }
            Wanted::Copies { keep, add, prefer, only, .. } => {
                let is_shed = add > 0 && extent.is_wasteful(self.layout.block);
                if is_shed {
                    let (shed, written) = self.shed(cx, extent, (prefer, None)).await?;
                    result.moved_bytes += written;
                    if shed == Rearranged::Done {
                        return Ok(Ok(()));
                    }
                }
                let pointers = extent.pointers();
                let durable = pointers.iter().filter(|pointer| !pointer.cached);
                let taken: Vec<u8> = durable.map(|pointer| pointer.member).collect();
                let stream = Stream::Collect;
                let taken = &taken;
                let want = Want {
                    stream,
                    blocks,
                    exact: true,
                    copies: add,
                    copies_min: 1,
                    taken,
                    prefer,
                    only,
                    within: MemberSet::EMPTY,
                    from: None,
                    durability: 0,
                    evict: true,
                };
                let (done, written) = self.rearrange(cx, extent, &keep, (add > 0).then_some(want)).await?;
                result.moved_bytes += written;
                Ok(done.done_or_reason())
            }
        }
    }

    /// Waits while clients have requests in flight, but at most for [`YIELD_MAX`].
    pub(super) async fn give_way(&self, cx: &Context) {
        if !cx.has_executor() {
            return;
        }
        let until = cx.now() + YIELD_MAX;
        while self.requests.load(Ordering::Relaxed) > 0 && cx.now() < until {
            cx.sleep_until(cx.now() + Duration::from_ms(1)).await;
        }
    }
}

/// Background work since the last wait for clients.
pub(super) struct Turn {
    began: Instant,
    bytes: u64,
}

impl Turn {
    pub(super) fn new(cx: &Context) -> Turn {
        Turn { began: cx.now(), bytes: 0 }
    }

    /// Gives way to clients before an extent of `bytes` bytes, if enough work was done since the last time.
    pub(super) async fn begin_extent(&mut self, inner: &Inner, cx: &Context, bytes: u64) {
        if self.bytes >= TURN_BYTES || cx.now() >= self.began + TURN_TIME {
            inner.give_way(cx).await;
            *self = Turn::new(cx);
        }
        self.bytes += bytes;
    }
}
