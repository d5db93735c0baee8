//! Checkpoints: the whole map in runs, on every member that is chosen for the journal and the checkpoints.
//!
//! A member whose requests fail is left out, as long as another one remains. A chosen member that was absent,
//! or that failed earlier, has a current journal again after a checkpoint.

use super::commit::{Journal, Snapshot};
use super::{Inner, State};
use crate::allocate::{Allocator, Opened};
use crate::encode::Encoding;
use crate::format::{EPOCH_LEN, OPEN_LEN, Place, RUN_HEADER, Record, Root, Run, SealWith};
use crate::layout::Layout;
use crate::member_set::MemberSet;
use flashlab_block::{Context, IoError, Payload};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::collections::{BTreeSet, VecDeque};

/// Estimated time in nanoseconds that a pass over the map takes to measure an extent.
const MEASURE_NS: u64 = 30;

/// Bytes of a journal that one write clears.
const CLEAR_PART: u64 = 64 << 10;

impl Inner {
    /// Stores a checkpoint, and makes the superblocks refer to it. The buckets of the previous checkpoint are
    /// free afterwards.
    ///
    /// Returns false and stores nothing if a member with a current journal has too few free buckets. If the
    /// checkpoint `replaces` entries of the journal, one member with enough free buckets suffices.
    pub(super) async fn write_checkpoint(
        &self,
        cx: &Context,
        journal: &mut Journal,
        snapshot: Snapshot,
        replaces: bool,
    ) -> Result<bool, IoError> {
        let had_journal = self.journal_members(journal);
        let needs = journal.checkpoint_needs;
        let (members, _) = self.choose_metadata(&had_journal, needs);
        if !replaces && !has_room(&mut self.lock().allocator, &members, &had_journal, needs) {
            return Ok(false);
        }
        let contents = self.measure(journal.mount, &snapshot).await;
        let (members, metadata) = self.choose_metadata(&had_journal, contents.buckets);
        journal.checkpoint_needs = contents.buckets;
        let needed: &[u8] = if replaces { &[] } else { &had_journal };
        let Some(spare) = self.take_buckets(&members, needed, contents.buckets) else { return Ok(false) };
        let number = journal.newest_checkpoint() + 1;
        let mut writer = RunWriter::new(self, number, (&members, spare));
        self.set_metadata(metadata);
        let first = writer.places.clone();
        writer.write_state(cx, &contents.mounts, snapshot).await?;
        let gain: Vec<u8> = members.iter().copied().filter(|n| !had_journal.contains(n)).collect();
        let cleared = join_all(gain.iter().map(|n| self.clear_ring(cx, *n))).await;
        writer.note(&gain, &cleared)?;
        if !fault("volume-skips-the-checkpoint-flush") {
            let flushed = join_all(members.iter().map(|n| self.flush_member(cx, *n))).await;
            writer.note(&members, &flushed)?;
        }
        let RunWriter { index: runs, buckets, spare, failed, .. } = writer;
        let works = |n: &u8| !failed.contains(*n);
        // A member that lost its journal earlier stays marked as lost until its superblock no longer refers
        // to an old checkpoint.
        journal.lost = if fault("volume-forgets-a-lost-journal") { MemberSet::EMPTY } else { journal.lost };
        for (n, first) in members.iter().zip(first).filter(|(n, _)| works(n)) {
            journal.lost.remove(*n);
            journal.superblocks[usize::from(*n)].root = Root {
                checkpoint: number,
                sequence: journal.sequence,
                previous: journal.previous,
                mount: journal.mount,
                first: Some(first),
                runs,
                journal_at: journal.at,
            };
        }
        journal.lost |= failed;
        let metadata: Vec<bool> = self.lock().health.iter().map(|health| health.metadata).collect();
        let lacking = (0u8..).zip(metadata).filter(|(n, metadata)| *metadata && !members.contains(n));
        lacking.for_each(|(n, _)| journal.lost.insert(n));
        let spare: Vec<(u8, u32)> = (members.iter().zip(spare))
            .flat_map(|(n, spare)| spare.into_iter().map(|bucket| (*n, bucket)))
            .collect();
        let members: Vec<u8> = members.into_iter().filter(works).collect();
        let results = self.write_superblocks(cx, journal, &members).await;
        let lost = journal.lost;
        journal.lose(&members, &results)?;
        self.forget_checkpoints(cx, journal, &members).await;
        if journal.lost != lost {
            self.record_members(cx, journal).await?;
        }
        let mut state = self.lock();
        // The other members with metadata keep their old journals, and members without metadata have none.
        let State { faults, health, .. } = &mut *state;
        faults.retain(|fault| !members.contains(&(fault.member as u8)) && health[fault.member].metadata);
        let old = std::mem::replace(&mut journal.checkpoint_buckets, buckets);
        for (member, bucket) in spare.into_iter().chain(old) {
            state.allocator.release_metadata(member, bucket);
        }
        (journal.used, journal.checkpoint_needs) = (0, 0);
        Ok(true)
    }

    /// Takes the buckets for a checkpoint and returns them for each member. The list of a member with too few
    /// free buckets is empty. Returns `None` and takes nothing if no member has enough, or if one of the
    /// `needed` members has too few.
    fn take_buckets(&self, members: &[u8], needed: &[u8], buckets: u32) -> Option<Vec<VecDeque<u32>>> {
        // The check and the allocation share one lock, because a garbage collection on another thread may
        // also take buckets.
        let allocator = &mut self.lock().allocator;
        if !has_room(allocator, members, needed, buckets) {
            return None;
        }
        let take = |n: &u8| allocator.allocate_metadata(*n, buckets).unwrap_or_default();
        Some(members.iter().map(take).collect())
    }

    /// Returns the number of buckets that a checkpoint of the present map needs on a member.
    pub(super) async fn buckets_of_checkpoint(&self) -> u32 {
        let snapshot = Snapshot::of(&self.lock());
        self.measure(self.numbers.mount(), &snapshot).await.buckets
    }

    /// Determines the mounts whose salts a checkpoint contains, and the number of its buckets.
    async fn measure(&self, mount: u32, snapshot: &Snapshot) -> Contents {
        let (map, ns) = (snapshot.map.clone(), snapshot.map.len() as u64 * MEASURE_NS);
        let measure = move |_: &Encoding| {
            let (mut mounts, mut record, mut length) = (BTreeSet::from([mount]), Vec::new(), 0);
            for extent in map.iter() {
                mounts.insert(extent.writer().epoch);
                record.clear();
                Record::encode_map(extent, &mut record);
                length += record.len() as u64;
            }
            (mounts, length)
        };
        let (mounts, extents) = self.compute(ns, measure).await;
        let (salts, opened) = (mounts.len() * EPOCH_LEN, snapshot.generations.len() * OPEN_LEN);
        let buckets = self.layout.buckets_for(extents + (salts + opened) as u64);
        Contents { mounts, buckets }
    }

    /// Overwrites the ring of a member that gets the journal. The ring may contain entries of another history
    /// of the volume, which a recovery could take for later entries.
    async fn clear_ring(&self, cx: &Context, member: u8) -> Result<(), IoError> {
        let length = self.layout.journal_len();
        let part = CLEAR_PART.min(length);
        let zeroes = Payload::from(vec![0; part as usize]);
        for at in (0..length).step_by(part as usize) {
            let zeroes = zeroes.part(0..part.min(length - at) as usize);
            self.write_to(cx, member, self.layout.bucket_offset(0) + at, zeroes).await?;
        }
        Ok(())
    }

    /// Removes the old checkpoint from the superblocks of present members, so that it never counts as
    /// current. The same applies to a journal that began without a checkpoint, as in a new volume. The
    /// members in `except` have the new checkpoint and are left out. A member whose superblock cannot be
    /// written is lost: the other members know it as absent.
    async fn forget_checkpoints(&self, cx: &Context, journal: &mut Journal, except: &[u8]) {
        let has_old = |n: &u8| {
            let superblock = &journal.superblocks[usize::from(*n)];
            let had_journal = superblock.members[usize::from(*n)].metadata;
            let is_old =
                superblock.root.first.is_some() || had_journal && !fault("volume-forgets-only-checkpoints");
            let is_lost = journal.lost.contains(*n);
            (is_old || is_lost) && !except.contains(n) && self.members[usize::from(*n)].present
        };
        let members: Vec<u8> = (0..self.members.len() as u8).filter(has_old).collect();
        for n in &members {
            let root = &mut journal.superblocks[usize::from(*n)].root;
            (root.checkpoint, root.first, root.runs) = (0, None, 0);
        }
        let results = self.write_superblocks(cx, journal, &members).await;
        let state = self.lock();
        for (n, result) in members.iter().zip(results) {
            // A member that is to have a journal gets it with the next checkpoint.
            let is_lost = result.is_err() || state.health[usize::from(*n)].metadata;
            journal.lost.remove(*n);
            if is_lost && !fault("volume-forgets-a-lost-journal") {
                journal.lost.insert(*n);
            }
        }
    }
}

/// Returns true if at least one of the members, and each of the `needed` ones among them, has enough free buckets for a
/// checkpoint. All of the members keep this number of buckets free for it.
fn has_room(allocator: &mut Allocator, members: &[u8], needed: &[u8], buckets: u32) -> bool {
    members.iter().for_each(|n| allocator.keep_for_checkpoint(*n, buckets));
    let has_room = |n: &u8| allocator.has_free(*n, buckets);
    members.iter().any(has_room) && members.iter().filter(|n| needed.contains(n)).all(has_room)
}

/// Properties of a checkpoint that follow from a pass over the map.
struct Contents {
    /// This mount, and all mounts that an extent of the map names as its writer. Other mounts have no data
    /// left.
    mounts: BTreeSet<u32>,
    /// Number of buckets that all runs need on each member.
    buckets: u32,
}

/// Writes the runs of a checkpoint to each of its members. A run contains the place of the next run, so a run
/// is written when this place is known.
struct RunWriter<'a> {
    inner: &'a Inner,
    members: &'a [u8],
    checkpoint: u64,
    index: u32,
    records: Vec<u8>,
    /// Place of the current run on each member.
    places: Vec<Place>,
    buckets: Vec<(u8, u32)>,
    /// Remaining buckets of each member, for further runs.
    spare: Vec<VecDeque<u32>>,
    /// Members with too few free buckets, and members whose requests failed.
    failed: MemberSet,
}

impl<'a> RunWriter<'a> {
    /// Prepares to write a checkpoint to the buckets `spare` of each member. A member without buckets fails.
    fn new(
        inner: &'a Inner,
        checkpoint: u64,
        (members, spare): (&'a [u8], Vec<VecDeque<u32>>),
    ) -> RunWriter<'a> {
        let without = members.iter().zip(&spare).filter(|(_, spare)| spare.is_empty());
        let failed = without.map(|(n, _)| *n).collect();
        let mut writer = RunWriter {
            inner,
            members,
            checkpoint,
            index: 0,
            records: Vec::new(),
            places: Vec::new(),
            buckets: Vec::new(),
            spare,
            failed,
        };
        writer.places = writer.next_places();
        writer
    }

    /// Writes all runs.
    async fn write_state(
        &mut self,
        cx: &Context,
        mounts: &BTreeSet<u32>,
        snapshot: Snapshot,
    ) -> Result<(), IoError> {
        for (mount, salt) in snapshot.salts.into_iter().filter(|(mount, _)| mounts.contains(mount)) {
            Record::Epoch { mount, salt }.encode(&mut self.records);
            self.write_if_full(cx).await?;
        }
        for Opened { member, bucket, generation } in &snapshot.generations {
            Record::Open { member: *member, bucket: *bucket, generation: *generation }
                .encode(&mut self.records);
            self.write_if_full(cx).await?;
        }
        for extent in snapshot.map.iter() {
            Record::encode_map(extent, &mut self.records);
            self.write_if_full(cx).await?;
        }
        self.write(cx, None).await
    }

    /// Returns the place of the next run on each member.
    fn next_places(&mut self) -> Vec<Place> {
        let layout = &self.inner.layout;
        let blocks = layout.run_len() / layout.block;
        let mut places = Vec::new();
        for (n, member) in self.members.iter().enumerate() {
            let next = self.places.get(n).map(|place| Place { offset: place.offset + blocks, ..*place });
            let next = next.filter(|place| place.offset + blocks <= layout.bucket_blocks());
            places.push(match next {
                Some(place) => place,
                None if self.failed.contains(*member) => Place { bucket: 0, offset: 0 },
                None => {
                    let bucket = self.spare[n].pop_front().expect("the buckets of all runs were counted");
                    self.buckets.push((*member, bucket));
                    Place { bucket, offset: 0 }
                }
            });
        }
        places
    }

    /// Notes the members that failed. Fails if no member is left.
    fn note(&mut self, members: &[u8], results: &[Result<(), IoError>]) -> Result<(), IoError> {
        for (member, _) in members.iter().zip(results).filter(|(_, result)| result.is_err()) {
            self.failed.insert(*member);
        }
        let works = |member: &u8| !self.failed.contains(*member);
        if self.members.iter().any(works) { Ok(()) } else { Err(IoError::Medium) }
    }

    /// Writes the run if another record might not fit into it.
    async fn write_if_full(&mut self, cx: &Context) -> Result<(), IoError> {
        let layout = &self.inner.layout;
        if self.records.len() + layout.record_max() as usize + RUN_HEADER <= layout.run_len() as usize {
            return Ok(());
        }
        let next = self.next_places();
        self.write(cx, Some(next)).await
    }

    /// Encodes a run. Other requests of the same thread continue meanwhile, so a long checkpoint does not
    /// delay them.
    async fn encode(&self, run: Run) -> Payload {
        let Layout { volume, block, .. } = self.inner.layout;
        let (mount, number) = (self.inner.numbers.mount(), self.inner.numbers.next_seal());
        let encode = move |how: &Encoding| {
            let seal = how.keyring.as_ref().map(|keyring| SealWith { keyring, mount, number });
            run.encode(&volume, block as usize, seal)
        };
        let ns = self.inner.structure_ns(self.inner.layout.run_len() as usize);
        self.inner.compute(ns, encode).await.into()
    }

    async fn write(&mut self, cx: &Context, next: Option<Vec<Place>>) -> Result<(), IoError> {
        let layout = &self.inner.layout;
        let mut run = Run {
            checkpoint: self.checkpoint,
            index: self.index,
            next: None,
            records: std::mem::take(&mut self.records),
        };
        let mut writes = Vec::new();
        let failed = self.failed;
        let works = |member: &&u8| !failed.contains(**member);
        let members: Vec<u8> = self.members.iter().filter(works).copied().collect();
        for member in &members {
            let n =
                self.members.iter().position(|other| other == member).expect("a member of the checkpoint");
            run.next = next.as_ref().map(|places| places[n]);
            let Place { bucket, offset } = self.places[n];
            let offset = layout.bucket_offset(bucket) + u64::from(offset) * u64::from(layout.block);
            let bytes = self.encode(run.clone()).await;
            writes.push(self.inner.write_to(cx, *member, offset, bytes));
        }
        let results = join_all(writes).await;
        self.note(&members, &results)?;
        self.index += 1;
        if let Some(next) = next {
            self.places = next;
        }
        Ok(())
    }
}
