//! Errors of members at run time.
//!
//! A member whose last write or flush failed takes no new data for one second. Then it takes data until one of its
//! writes or flushes fails again. When its writes or its flushes have failed for [`FAILING_MAX`] without a success, it
//! becomes read-only until its state is set. Errors are counted, and the counts persist.
//!
//! Background work also reads the start of each failing member once a second. A member that has answered none of these
//! reads for [`FAILING_MAX`] is unreachable: its copies do not count, so other members get copies of its
//! data. The copies count again as soon as a read succeeds. A member that has had no request for [`IDLE_MAX`] gets such a
//! read, too, unless it is simulated.

use super::{Inner, State, Volume};
use crate::MissingMember;
use crate::format::{ErrorCounts, MemberEntry, MemberState};
use crate::layout::COLLECT_RESERVE;
use crate::member::{self, Member};
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError};
use flashlab_sim::{Duration, Instant};
use futures_util::future::join_all;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Time for which the writes or flushes of a member have to fail before it becomes read-only. Also the time
/// for which its reads have to fail before it is unreachable.
const FAILING_MAX: Duration = Duration::from_secs(30);
/// Time between two attempts to write to a failing member.
pub(super) const ATTEMPT_EVERY: Duration = Duration::from_secs(1);

/// Time without a request after which background work reads the start of a member. A dead member is then unreachable
/// about 45 s after its last request, and one read in 15 s is no load for any device.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// A series of failures without a success.
#[derive(Clone, Copy, Debug)]
struct Series {
    /// Instant of the first failure.
    first: Instant,
    /// Instant of the next attempt.
    next: Instant,
}

impl Series {
    /// Continues `series`, or begins one at `began`, with a failure at `now`.
    fn with_failure(series: Option<Series>, began: Instant, now: Instant) -> Series {
        Series { first: series.map_or(began, |series| series.first), next: now + ATTEMPT_EVERY }
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Returns true if the series has lasted for [`FAILING_MAX`].
    fn is_long(&self, now: Instant) -> bool {
        now >= self.first + FAILING_MAX
    }
}

/// The last request to a member that background work noticed.
#[derive(Clone, Copy, Debug)]
struct Activity {
    /// Number of requests to the member.
    requests: u64,
    /// Instant at which the number was new, or at which a probe was answered since then.
    since: Instant,
}

impl Activity {
    /// Updates `before` when the member has had `requests` requests.
    fn at(before: Option<Activity>, requests: u64, now: Instant) -> Activity {
        before.filter(|before| before.requests == requests).unwrap_or(Activity { requests, since: now })
    }

    /// Returns true if the member has had no request for [`IDLE_MAX`].
    fn is_idle(&self, now: Instant) -> bool {
        now >= self.since + IDLE_MAX
    }
}

/// Health of a member.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// State of the member.
    pub(super) state: MemberState,
    /// Errors of the member.
    pub(super) errors: ErrorCounts,
    /// True if the member is to hold the journal and the checkpoints. They are not current if the member
    /// failed or was absent since the last checkpoint.
    pub(super) metadata: bool,
    /// Current series of failed writes, and of failed flushes.
    failing: [Option<Series>; 2],
    /// Current series of unanswered probes.
    silence: Option<Series>,
    /// Activity of the member, once background work has looked at it.
    activity: Option<Activity>,
    /// True if the member has answered no probe for [`FAILING_MAX`].
    pub(super) unreachable: bool,
    /// True if the state of the member changed and no superblock records the change yet.
    pub(super) unrecorded: bool,
}

impl Health {
    pub(super) fn new(entry: &MemberEntry) -> Health {
        Health { state: entry.state, errors: entry.errors, metadata: entry.metadata, ..Health::default() }
    }

    /// Returns true if the last write or the last flush failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing.iter().any(Option::is_some)
    }

    /// Forgets the failures of a device that another one replaces.
    pub(super) fn forget_failures(&mut self) {
        (self.failing, self.silence, self.activity, self.unreachable) = ([None; 2], None, None, false);
    }

    /// Returns true if the member left the last probe unanswered.
    pub(super) fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    /// Returns true if the member should be probed: a failing one once a second, and an idle one if the number of its
    /// requests so far is given.
    fn needs_probe(&mut self, reads_fail: bool, requests: Option<u64>, now: Instant) -> bool {
        self.activity = requests.map(|requests| Activity::at(self.activity, requests, now));
        let is_idle = self.activity.is_some_and(|activity| activity.is_idle(now));
        match self.silence {
            Some(silence) => silence.is_due(now),
            None => self.is_failing() || reads_fail || is_idle,
        }
    }

    /// Notes the result of a probe that began at `began`.
    fn note_probe(&mut self, began: Instant, now: Instant, is_good: bool) {
        if is_good {
            (self.silence, self.unreachable) = (None, false);
            self.activity = self.activity.map(|activity| Activity { since: now, ..activity });
            return;
        }
        let silence = Series::with_failure(self.silence, began, now);
        (self.silence, self.unreachable) = (Some(silence), silence.is_long(now));
    }

    /// Returns true if the member works, or if another attempt is due.
    fn works(&self, now: Option<Instant>) -> bool {
        self.failing.iter().flatten().all(|series| now.is_some_and(|now| series.is_due(now)))
    }
}

/// Errors of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberHealth {
    /// Number of the member.
    pub number: u8,
    /// Label of the member.
    pub label: String,
    /// True if the last read, write, flush or probe failed.
    pub failing: bool,
    /// True if the member has answered no probe for 30 s, so that other members get copies of its data.
    pub unreachable: bool,
    /// Errors since the device became a member.
    pub errors: ErrorCounts,
}

impl Volume {
    /// Returns the errors of the members whose devices are present. Reads neither the map nor the members.
    pub fn health(&self) -> Vec<MemberHealth> {
        let inner = self.gate.current();
        let state = inner.lock();
        let members = (0u8..).zip(&inner.members).filter(|(_, member)| member.present);
        let health = |(number, member): (u8, &Member)| {
            let n = usize::from(number);
            MemberHealth {
                number,
                label: member.entry.label.clone(),
                failing: state.health[n].is_failing()
                    || state.health[n].is_silent()
                    || inner.statistics[n].reads_fail(),
                unreachable: state.health[n].unreachable,
                errors: state.health[n].errors,
            }
        };
        members.map(health).collect()
    }

    /// Reads the start of each failing or idle member whose next probe is due. A probe does not pass the gate: a member
    /// that hangs would delay a change of the configuration, and the requests that wait behind it.
    pub(super) async fn probe(&self, cx: &Context) {
        let (inner, began) = (self.gate.current(), cx.now());
        let due = inner.due_probes(began);
        // A failed probe is not an error of a request, so it is not counted.
        let probe = |n: &usize| {
            let block = vec![0; inner.layout.block as usize];
            member::read(&*inner.members[*n].device, cx, 0, block)
        };
        let results = join_all(due.iter().map(probe)).await;
        let current = self.gate.current();
        let is_same = |n: &usize| {
            let device = |inner: &Inner| inner.members.get(*n).map(|member| member.device.clone());
            device(&inner).zip(device(&current)).is_some_and(|(a, b)| Arc::ptr_eq(&a, &b))
        };
        let mut state = current.lock();
        for (n, result) in due.into_iter().zip(results).filter(|(n, _)| is_same(n)) {
            state.health[n].note_probe(began, cx.now(), result.is_ok());
        }
    }
}

impl Inner {
    /// Notes the result of a write, or of a flush.
    pub(super) fn note_write(
        &self,
        cx: &Context,
        member: u8,
        is_flush: bool,
        result: Result<(), IoError>,
    ) -> Result<(), IoError> {
        if !self.members[usize::from(member)].present {
            return result;
        }
        let was_failing = self.failing_members().contains(member);
        if result.is_ok() && !was_failing {
            return result;
        }
        let (mut state, now) = (self.lock(), cx.now());
        let health = &mut state.health[usize::from(member)];
        let series = &mut health.failing[usize::from(is_flush)];
        if result.is_ok() {
            *series = None;
        } else {
            let failing = Series::with_failure(*series, now, now);
            *series = Some(failing);
            health.errors.write = health.errors.write.saturating_add(1);
            if failing.is_long(now) && matches!(health.state, MemberState::Rw | MemberState::Spare) {
                (health.state, health.unrecorded) = (MemberState::Ro, true);
            }
        }
        if health.is_failing() {
            self.failing.fetch_or(MemberSet::of(member).to_bits(), Ordering::Relaxed);
        } else {
            self.failing.fetch_and(!MemberSet::of(member).to_bits(), Ordering::Relaxed);
        }
        if is_flush && result.is_err() {
            state.unflushed.flush_failed(member, self.flush_failures.fetch_add(1, Ordering::SeqCst) + 1);
        }
        self.update_writable(&mut state, None);
        result
    }

    /// Counts a failed read.
    pub(super) fn read_failed(&self, member: u8) {
        if self.members[usize::from(member)].present {
            let count = &mut self.lock().health[usize::from(member)].errors.read;
            *count = count.saturating_add(1);
        }
    }

    /// Counts a copy that does not agree with its checksum or tag.
    pub(super) fn checksum_failed(&self, member: u8) {
        let count = &mut self.lock().health[usize::from(member)].errors.checksum;
        *count = count.saturating_add(1);
    }

    /// Lets a failing member take data again if an attempt is due. The caller does this before an allocation.
    pub(super) fn attempt_failing(&self, cx: &Context, state: &mut State) {
        if !self.failing_members().is_empty() {
            self.update_writable(state, Some(cx.now()));
        }
    }

    /// Flushes the members whose flushes fail, if an attempt is due. Background work does so before it looks for
    /// members with room: a move to a member whose flush then fails could lose the only copy of the data.
    pub(super) async fn attempt_flushes(&self, cx: &Context) {
        if self.failing_members().is_empty() {
            return;
        }
        let due = {
            let state = self.lock();
            let is_due = |health: &Health| health.failing[1].is_some_and(|series| series.is_due(cx.now()));
            let due =
                (0..).zip(&state.health).filter(|(n, health)| self.takes_data(health, *n) && is_due(health));
            due.map(|(n, _)| n).collect()
        };
        self.flush_members(cx, due).await;
    }

    /// Returns the members that should be probed.
    fn due_probes(&self, now: Instant) -> Vec<usize> {
        let mut state = self.lock();
        let is_due = |n: &usize| {
            let (Member { device, present, .. }, statistics) = (&self.members[*n], &self.statistics[*n]);
            // A simulated device fails on request only, and a probe would take simulated time.
            let requests = if device.features().timed { None } else { Some(statistics.requests().count()) };
            *present && state.health[*n].needs_probe(statistics.reads_fail(), requests, now)
        };
        (0..self.members.len()).filter(is_due).collect()
    }

    /// Returns the members whose last write or flush failed.
    fn failing_members(&self) -> MemberSet {
        MemberSet::from_bits(self.failing.load(Ordering::Relaxed))
    }

    /// Returns the members that answer.
    pub(super) fn answering(&self, state: &State) -> MemberSet {
        let answers = |n: &usize| self.members[*n].present && !state.health[*n].unreachable;
        (0..self.members.len()).filter(answers).collect()
    }

    /// Returns true if an attempt to write to a failing member, or to flush it, is due.
    pub(super) fn is_attempt_due(&self, now: Instant) -> bool {
        let state = self.lock();
        let is_due = |health: &Health| health.is_failing() && health.works(Some(now));
        (0..).zip(&state.health).any(|(n, health)| self.takes_data(health, n) && is_due(health))
    }

    /// Returns true if the device of a member is absent although the member was not removed.
    pub(super) fn is_missing(&self, member: usize) -> bool {
        let Member { present, entry, .. } = &self.members[member];
        !present && entry.state != MemberState::Removed
    }

    /// Returns the number of members that were not removed, and the missing ones among them.
    pub(super) fn missing(&self) -> (usize, Vec<MissingMember>) {
        let is_there = |member: &&Member| member.entry.state != MemberState::Removed;
        let missing = (0..self.members.len()).filter(|n| self.is_missing(*n));
        let missing =
            missing.map(|n| MissingMember { number: n as u8, label: self.members[n].entry.label.clone() });
        (self.members.iter().filter(is_there).count(), missing.collect())
    }

    /// Returns true if the member takes data and may hold a journal, regardless of write failures, which may be
    /// temporary.
    pub(super) fn takes_data(&self, health: &Health, member: usize) -> bool {
        let Member { present, entry, .. } = &self.members[member];
        *present && entry.takes_data_in(health.state)
    }

    /// Chooses members for the journal and the checkpoints, at most as many as there are replicas, before a
    /// checkpoint of `buckets` buckets. Working members that hold copies already, or are to hold one and have
    /// room, come first. Other working members with room follow, members of the target before the others.
    /// Returns the members to write to, and the set of all members that keep or receive a copy.
    pub(super) fn choose_metadata(&self, had_journal: &[u8], buckets: u32) -> (Vec<u8>, MemberSet) {
        let state = self.lock();
        let State { health, allocator, .. } = &*state;
        let roomy = allocator.roomy();
        let has_or_fits =
            |n: &usize| had_journal.contains(&(*n as u8)) || allocator.has_free(*n as u8, buckets);
        let fits = |n: &usize| allocator.has_free(*n as u8, buckets + COLLECT_RESERVE);
        let is_there = |n: &usize| self.members[*n].present && health[*n].state != MemberState::Removed;
        let works = |n: &usize| self.takes_data(&health[*n], *n) && !health[*n].is_failing();
        let keeps = |n: &usize| health[*n].metadata && works(n) && has_or_fits(n);
        let mut chosen: Vec<usize> = (0..health.len()).filter(keeps).collect();
        let is_free = |n: &usize| !health[*n].metadata && works(n) && (roomy.contains(*n) || fits(n));
        let mut others: Vec<usize> = (0..health.len()).filter(is_free).collect();
        others.sort_by_key(|n| {
            (health[*n].state == MemberState::Spare, !fits(n), !self.layout.metadata.prefers(*n))
        });
        chosen.extend(others);
        chosen.truncate(self.layout.replicas.into());
        // If too few members work and have room, other members that are to hold copies remain chosen.
        let may_keep = |n: &usize| !self.members[*n].present || self.takes_data(&health[*n], *n);
        let rest = (0..health.len()).filter(|n| health[*n].metadata && !chosen.contains(n) && may_keep(n));
        let rest: Vec<usize> = rest.take(usize::from(self.layout.replicas) - chosen.len()).collect();
        let tried = rest.iter().copied().filter(|n| self.takes_data(&health[*n], *n));
        let mut tried: Vec<usize> = chosen.iter().copied().chain(tried).collect();
        if tried.is_empty() {
            // A journal on a member in another state is better than no journal.
            let last = (0..health.len()).filter(is_there).max_by_key(|n| (health[*n].metadata, !n));
            tried.extend(last);
            chosen.extend(last.filter(|n| !rest.contains(n)));
        }
        let metadata = chosen.iter().chain(&rest).copied().collect();
        (tried.into_iter().map(|n| n as u8).collect(), metadata)
    }

    /// Sets the members that hold the journal and the checkpoints.
    pub(super) fn set_metadata(&self, metadata: MemberSet) {
        let mut state = self.lock();
        let State { health, allocator, .. } = &mut *state;
        for (n, health) in (0u8..).zip(health) {
            health.metadata = metadata.contains(n);
            allocator.set_metadata(n, health.metadata);
        }
    }

    /// Returns true if a member could take the place of one whose journal is lost.
    pub(super) fn can_replace_metadata(&self) -> bool {
        let state = self.lock();
        let roomy = state.allocator.roomy();
        let is_free = |(n, health): (usize, &Health)| {
            !health.metadata && self.takes_data(health, n) && !health.is_failing() && roomy.contains(n)
        };
        state.health.iter().enumerate().any(is_free)
    }

    /// Tells the allocator which members take data. Spare members take data only if the other members are too
    /// few for all copies.
    pub(super) fn update_writable(&self, state: &mut State, now: Option<Instant>) {
        let State { health, allocator, .. } = state;
        let works = |n: usize| self.members[n].present && health[n].works(now);
        let is = |n: &usize, wanted| health[*n].state == wanted && works(*n);
        let durability = |n: usize| u32::from(self.members[n].entry.durability);
        let members = 0..self.members.len();
        let copies: u32 = members.clone().filter(|n| is(n, MemberState::Rw)).map(durability).sum();
        let spares = copies < u32::from(self.layout.replicas);
        for n in members {
            let writable = is(&n, MemberState::Rw) || spares && is(&n, MemberState::Spare);
            allocator.set_writable(n as u8, writable);
        }
    }
}
