//! Commits, which write the journal entries.

use super::{Inner, State};
use crate::allocate::Opened;
use crate::format::{ENTRY_HEADER, Entry, Seen, Superblock};
use crate::map::Map;
use crate::member_set::MemberSet;
use flashlab_block::{Answer, Context, IoError, Outcome, Payload};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::collections::BTreeMap;
use std::ops::Range;
use tokio::sync::MutexGuard;

/// The journal and the last checkpoint.
pub(super) struct Journal {
    /// Number of the last entry.
    pub(super) sequence: u64,
    /// Checksum of the last entry.
    pub(super) previous: u32,
    /// Number of this mount.
    pub(super) mount: u32,
    /// Offset of the next entry within the journal.
    pub(super) at: u64,
    /// Bytes of the journal since the last checkpoint, which a recovery replays.
    pub(super) used: u64,
    /// Number of buckets that a member with a journal needs for the checkpoint that is due, if the last attempt found
    /// no room; otherwise zero.
    pub(super) checkpoint_needs: u32,
    /// True if a member lost its journal, and another one may take its place.
    pub(super) renew: bool,
    /// Superblock of each member; those of absent members have an old state.
    pub(super) superblocks: Vec<Superblock>,
    /// Number of changes of the options and of the table of members.
    pub(super) changes: u64,
    /// Knowledge about the members.
    pub(super) seen: Vec<Seen>,
    /// Members whose journal is not current, because they were absent or failed, or are to get a journal with
    /// the next checkpoint.
    pub(super) lost: MemberSet,
    /// Buckets of the last checkpoint, with their members.
    pub(super) checkpoint_buckets: Vec<(u8, u32)>,
}

/// A commit that has taken its batch and has not ended. If its future is dropped, the changes of the batch
/// are lost, so the volume fails until it is opened again.
struct Unfinished<'a>(&'a Inner);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.lock().changes.fail(IoError::ShuttingDown);
    }
}

/// Changes that a commit makes durable.
struct Batch {
    entries: Vec<Vec<u8>>,
    position: u64,
    unflushed: Vec<(MemberSet, Range<u64>)>,
    snapshot: Option<Snapshot>,
    /// True if the journal has no room for the entries, so that the checkpoint replaces them.
    replaces: bool,
}

/// The state that a checkpoint stores.
pub(super) struct Snapshot {
    pub(super) map: Map,
    pub(super) generations: Vec<Opened>,
    pub(super) salts: BTreeMap<u32, [u8; 16]>,
}

impl Snapshot {
    pub(super) fn of(state: &State) -> Snapshot {
        let generations = state.allocator.generations().collect();
        Snapshot { map: state.map.clone(), generations, salts: state.salts.clone() }
    }
}

impl Journal {
    /// Returns the offset of the next entry, which has `len` bytes, and the number of bytes in use after it.
    /// The entry begins at `at`, or at the start of the ring because an entry does not wrap around.
    fn place((at, used): (u64, u64), ring: u64, len: u64) -> (u64, u64) {
        if at + len <= ring { (at, used + len) } else { (0, used + ring - at + len) }
    }

    /// Returns the number of bytes in use after further entries of these lengths.
    fn used_with(&self, ring: u64, lengths: impl Iterator<Item = u64>) -> u64 {
        let place = |before, len| {
            let (at, used) = Journal::place(before, ring, len);
            (at + len, used)
        };
        lengths.fold((self.at, self.used), place).1
    }

    /// Returns the number of the newest checkpoint.
    pub(super) fn newest_checkpoint(&self) -> u64 {
        self.superblocks.iter().map(|superblock| superblock.root.checkpoint).max().unwrap_or(0)
    }

    /// Advances the clocks of members that take part in a change of the members.
    pub(super) fn tick(&mut self, members: &[u8]) {
        for n in members.iter().map(|n| usize::from(*n)) {
            self.superblocks[n].clock += 1;
            self.seen[n].shared = self.superblocks[n].clock;
        }
    }

    /// Notes the members whose requests failed. Fails if no member is left.
    pub(super) fn lose(&mut self, members: &[u8], results: &[Result<(), IoError>]) -> Result<(), IoError> {
        let mut last = Err(IoError::Medium);
        for (n, result) in members.iter().zip(results) {
            match result {
                Ok(()) => last = Ok(()),
                Err(error) => {
                    self.lost.insert(*n);
                    self.renew = true;
                    last = last.or(Err(*error));
                }
            }
        }
        last
    }
}

impl Inner {
    /// Makes all acknowledged changes durable.
    pub(super) async fn flush(&self, cx: &Context) -> Outcome {
        let target = {
            let state = self.lock();
            state.changes.check()?;
            state.changes.position()
        };
        if self.read_only {
            return Ok(Answer::Done);
        }
        self.commit(cx, target).await.map(|()| Answer::Done)
    }

    /// Makes all changes up to position `target` durable. Several requests that wait share one commit.
    pub(super) async fn commit(&self, cx: &Context, target: u64) -> Result<(), IoError> {
        if fault("volume-answers-flushes-early") {
            return Ok(());
        }
        let mut journal = self.journal.lock().await;
        {
            let state = self.lock();
            state.changes.check()?;
            if state.changes.durable() >= target {
                return Ok(());
            }
        }
        self.commit_batch(cx, &mut journal, false).await?;
        let needs = journal.checkpoint_needs;
        drop(journal);
        if needs > 0 {
            // The changes are durable already.
            let _ = self.make_checkpoint_room(cx, needs).await;
        }
        Ok(())
    }

    /// Commits everything, and stores a checkpoint if there is room for one. Returns the journal.
    pub(super) async fn checkpoint(&self, cx: &Context) -> Result<MutexGuard<'_, Journal>, IoError> {
        let mut journal = self.journal.lock().await;
        self.commit_batch(cx, &mut journal, true).await?;
        if journal.checkpoint_needs > 0 {
            let needs = journal.checkpoint_needs;
            drop(journal);
            self.make_checkpoint_room(cx, needs).await?;
            journal = self.journal.lock().await;
            self.commit_batch(cx, &mut journal, true).await?;
        }
        Ok(journal)
    }

    /// Commits the pending changes. Stores a checkpoint if `checkpoint` is set or the journal is long, and if
    /// there is room. An error is final, because it is unknown which part of the changes is durable.
    pub(super) async fn commit_batch(
        &self,
        cx: &Context,
        journal: &mut Journal,
        mut checkpoint: bool,
    ) -> Result<(), IoError> {
        loop {
            let batch = self.take_batch(journal, checkpoint)?;
            let unfinished = Unfinished(self);
            let result = self.persist(cx, journal, batch).await;
            std::mem::forget(unfinished);
            if let Err(error) = result {
                self.lock().changes.fail(error);
            }
            result?;
            self.note_journals(journal);
            // After the loss of copies, further changes replace them; after the loss of a journal, a checkpoint gives a
            // journal to another member.
            let renew = std::mem::take(&mut journal.renew) && self.can_replace_metadata();
            if !self.replace_lost_copies(cx).await? && !renew {
                return Ok(());
            }
            checkpoint = renew;
        }
    }

    /// Takes the pending changes. If `checkpoint` is set, or if the changes make the journal more than half
    /// full, the batch has a snapshot for a checkpoint. If the changes do not fit into the journal, the
    /// checkpoint replaces their entries.
    fn take_batch(&self, journal: &Journal, checkpoint: bool) -> Result<Batch, IoError> {
        // Another member may get the journal.
        let lacks_journals = self.journal_members(journal).len() < usize::from(self.layout.replicas);
        let mut state = self.lock();
        state.changes.check()?;
        // The commit frees the evicted buckets for the requests that follow, and for its own checkpoint.
        state.evict(if checkpoint && lacks_journals { self.layout.checkpoint_buckets } else { 0 });
        let State { changes, allocator, .. } = &mut *state;
        allocator.close_empty(changes.position());
        let mut entries = changes.take_entries(match fault("volume-splits-a-write") {
            true => 1,
            false => self.layout.records_max(),
        });
        let block = self.layout.block as usize;
        let length = |records: &Vec<u8>| (ENTRY_HEADER + records.len()).next_multiple_of(block) as u64;
        let ring = self.layout.journal_len();
        let used = journal.used_with(ring, entries.iter().map(length));
        let fits = used <= ring;
        if !fits {
            entries.clear();
        }
        let full = checkpoint || !fits || used > ring / 2;
        let snapshot = full.then(|| Snapshot::of(&state));
        let unflushed = state.unflushed.take_ranges();
        Ok(Batch { entries, position: state.changes.position(), unflushed, snapshot, replaces: !fits })
    }

    async fn persist(&self, cx: &Context, journal: &mut Journal, batch: Batch) -> Result<(), IoError> {
        let Batch { mut entries, position, unflushed, mut snapshot, mut replaces } = batch;
        let touched = unflushed.iter().fold(MemberSet::EMPTY, |members, (more, _)| members | *more);
        if !fault("volume-entry-before-its-data") {
            // A flush that fails from here on also puts later data in doubt. That data belongs to the next
            // batch.
            let doubt = self.lock().unflushed.take_doubt();
            let lost = self.flush_members(cx, touched).await | doubt & touched;
            if !lost.is_empty() {
                let map = snapshot.as_mut().map(|snapshot| &mut snapshot.map);
                self.lose_copies(lost, &unflushed, (&mut entries, map))?;
            }
        }
        if snapshot.is_some() && self.journal_members(journal).is_empty() {
            // No member has a current journal yet. The checkpoint gives a journal to some members.
            entries.clear();
            replaces = true;
        }
        let lost = journal.lost;
        for records in entries {
            self.write_entry(cx, journal, &records).await?;
        }
        let unrecorded = self.lock().health.iter().any(|health| health.unrecorded);
        if lost != journal.lost && !fault("volume-forgets-a-lost-member") || unrecorded {
            self.record_members(cx, journal).await?;
        }
        if !replaces {
            self.made_durable(position);
        }
        if let Some(snapshot) = snapshot {
            // If there is no room, the checkpoint can wait as long as the journal has the entries.
            let is_stored = self.write_checkpoint(cx, journal, snapshot, replaces).await?;
            if replaces && !is_stored {
                return Err(IoError::NoSpace);
            }
        }
        self.made_durable(position);
        Ok(())
    }

    fn made_durable(&self, position: u64) {
        let mut state = self.lock();
        state.changes.made_durable(position);
        state.allocator.release(position);
    }

    /// Writes an entry to every member with a current journal, and flushes these members.
    async fn write_entry(&self, cx: &Context, journal: &mut Journal, records: &[u8]) -> Result<(), IoError> {
        let numbers = (journal.sequence + 1, journal.mount, journal.previous);
        let block = self.layout.block as usize;
        let (bytes, sum) = Entry::encode(&self.layout.volume, numbers, records, block, self.seal_with());
        let before = (journal.at, journal.used);
        let len = bytes.len() as u64;
        let (at, used) = Journal::place(before, self.layout.journal_len(), len);
        let bytes = Payload::from(bytes);
        let offset = self.layout.bucket_offset(0) + at;
        let write = |n: u8| self.write_to(cx, n, offset, bytes.clone());
        let members = self.journal_members(journal);
        let written = join_all(members.iter().map(|n| write(*n))).await;
        journal.lose(&members, &written)?;
        if !fault("volume-skips-the-journal-flush") {
            let members = self.journal_members(journal);
            let flushed = join_all(members.iter().map(|n| self.flush_member(cx, *n))).await;
            journal.lose(&members, &flushed)?;
        }
        (journal.sequence, journal.previous) = (numbers.0, sum);
        (journal.at, journal.used) = (at + len, used);
        Ok(())
    }

    /// Returns the members with a current journal.
    pub(super) fn journal_members(&self, journal: &Journal) -> Vec<u8> {
        let state = self.lock();
        let is_current = |n: &u8| state.health[usize::from(*n)].metadata && !journal.lost.contains(*n);
        (0..self.members.len() as u8).filter(is_current).collect()
    }
}
