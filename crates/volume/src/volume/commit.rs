//! Commits: journal entries and checkpoints.

use super::{Inner, Pending, State};
use crate::allocate::Opened;
use crate::format::{ENTRY_HEADER, Entry, Place, RUN_HEADER, Record, Root, Run, Superblock};
use crate::map::Map;
use crate::member;
use flashlab_block::{Answer, Context, IoError, Outcome, Payload};
use flashlab_sim::fault;
use futures_util::future::join_all;
use std::collections::{BTreeMap, BTreeSet};

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
    /// Bytes since the last checkpoint, which a recovery reads.
    pub(super) used: u64,
    /// Superblock of each member.
    pub(super) superblocks: Vec<Superblock>,
    /// Buckets of the last checkpoint, with their members.
    pub(super) checkpoint_buckets: Vec<(u8, u32)>,
}

/// Changes that a commit makes durable.
struct Batch {
    entries: Vec<Vec<u8>>,
    position: u64,
    touched: u32,
    snapshot: Option<Snapshot>,
}

/// The state that a checkpoint stores.
struct Snapshot {
    map: Map,
    generations: Vec<Opened>,
    salts: BTreeMap<u32, [u8; 16]>,
}

impl Journal {
    /// Returns the offset of an entry of `len` bytes behind `at`, and the bytes used with it: an entry does not wrap
    /// around.
    fn place((at, used): (u64, u64), ring: u64, len: u64) -> (u64, u64) {
        if at + len <= ring { (at, used + len) } else { (0, used + ring - at + len) }
    }

    /// Returns the bytes used after further entries of these lengths.
    fn used_with(&self, ring: u64, lengths: impl Iterator<Item = u64>) -> u64 {
        let place = |before, len| {
            let (at, used) = Journal::place(before, ring, len);
            (at + len, used)
        };
        lengths.fold((self.at, self.used), place).1
    }
}

impl Inner {
    /// Makes all acknowledged changes durable.
    pub(super) async fn flush(&self, cx: &Context) -> Outcome {
        let target = {
            let state = self.lock();
            if let Some(error) = state.failed {
                return Err(error);
            }
            state.position
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
            if let Some(error) = state.failed {
                return Err(error);
            }
            if state.durable >= target {
                return Ok(());
            }
        }
        self.commit_batch(cx, &mut journal, false).await
    }

    /// Commits everything, and stores a checkpoint.
    pub(super) async fn checkpoint(&self, cx: &Context) -> Result<(), IoError> {
        let mut journal = self.journal.lock().await;
        self.commit_batch(cx, &mut journal, true).await
    }

    /// Commits the pending changes. An error is final, because nobody knows which part of them is durable.
    pub(super) async fn commit_batch(
        &self,
        cx: &Context,
        journal: &mut Journal,
        checkpoint: bool,
    ) -> Result<(), IoError> {
        let batch = self.take_batch(journal, checkpoint)?;
        let result = self.persist(cx, journal, batch).await;
        if let Err(error) = result {
            self.lock().failed = Some(error);
        }
        result
    }

    /// Takes the pending changes. If they fill the journal to more than a half, the batch has a snapshot for a
    /// checkpoint; if they do not fit at all, the checkpoint replaces the entries.
    fn take_batch(&self, journal: &Journal, checkpoint: bool) -> Result<Batch, IoError> {
        let mut state = self.lock();
        if let Some(error) = state.failed {
            return Err(error);
        }
        let State { pending, position, allocator, .. } = &mut *state;
        allocator.close_empty(*position);
        let mut entries = std::mem::take(pending).into_entries(match fault("volume-splits-a-write") {
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
        let snapshot = full.then(|| Snapshot {
            map: state.map.clone(),
            generations: state.allocator.generations().collect(),
            salts: state.salts.clone(),
        });
        let touched = std::mem::take(&mut state.touched);
        Ok(Batch { entries, position: state.position, touched, snapshot })
    }

    async fn persist(&self, cx: &Context, journal: &mut Journal, batch: Batch) -> Result<(), IoError> {
        let Batch { entries, position, touched, snapshot } = batch;
        let is_touched = |n: u32| touched >> n & 1 == 1;
        if !fault("volume-entry-before-its-data") {
            let data = self.members.iter().zip(0..).filter(|(_, n)| is_touched(*n));
            member::flush_all(data.map(|(member, _)| member), cx).await?;
        }
        let by_checkpoint = entries.is_empty();
        for records in entries {
            self.write_entry(cx, journal, &records).await?;
        }
        if !by_checkpoint {
            self.made_durable(position);
        }
        if let Some(snapshot) = snapshot {
            self.write_checkpoint(cx, journal, snapshot).await?;
        }
        self.made_durable(position);
        Ok(())
    }

    fn made_durable(&self, position: u64) {
        let mut state = self.lock();
        state.durable = position;
        state.allocator.release(position);
    }

    /// Writes an entry to every metadata member, and flushes them.
    async fn write_entry(&self, cx: &Context, journal: &mut Journal, records: &[u8]) -> Result<(), IoError> {
        let numbers = (journal.sequence + 1, journal.mount, journal.previous);
        let block = self.layout.block as usize;
        let (bytes, sum) = Entry::encode(&self.layout.volume, numbers, records, block, self.seal_with());
        let before = (journal.at, journal.used);
        let len = bytes.len() as u64;
        let (at, used) = Journal::place(before, self.layout.journal_len(), len);
        self.write_metadata(cx, self.layout.bucket_offset(0) + at, &bytes.into()).await?;
        if !fault("volume-skips-the-journal-flush") {
            self.flush_metadata(cx).await?;
        }
        (journal.sequence, journal.previous) = (numbers.0, sum);
        (journal.at, journal.used) = (at + len, used);
        Ok(())
    }

    fn metadata_members(&self) -> impl Iterator<Item = u8> + Clone {
        (0..).zip(&self.members).filter(|(_, member)| member.entry.metadata).map(|(n, _)| n)
    }

    async fn write_metadata(&self, cx: &Context, offset: u64, bytes: &Payload) -> Result<(), IoError> {
        let write = |n: u8| member::write(&*self.members[usize::from(n)].device, cx, offset, bytes.clone());
        join_all(self.metadata_members().map(write)).await.into_iter().collect()
    }

    async fn flush_metadata(&self, cx: &Context) -> Result<(), IoError> {
        member::flush_all(self.metadata_members().map(|n| &self.members[usize::from(n)]), cx).await
    }

    /// Stores a checkpoint, and lets the superblocks refer to it. The previous one is free afterwards.
    async fn write_checkpoint(
        &self,
        cx: &Context,
        journal: &mut Journal,
        snapshot: Snapshot,
    ) -> Result<(), IoError> {
        let members: Vec<u8> = self.metadata_members().collect();
        let number = members.iter().map(|n| journal.superblocks[usize::from(*n)].root.checkpoint).max();
        let number = number.expect("a volume has a metadata member") + 1;
        let mut writer = RunWriter::new(self, number, &members)?;
        let first = writer.places.clone();
        // Other mounts have no data left.
        let used: BTreeSet<u32> = snapshot.map.iter().map(|extent| extent.writer().epoch).collect();
        let is_used = |mount: &u32| *mount == journal.mount || used.contains(mount);
        for (mount, salt) in snapshot.salts.into_iter().filter(|(mount, _)| is_used(mount)) {
            Record::Epoch { mount, salt }.encode(&mut writer.records);
            writer.write_if_full(cx).await?;
        }
        for Opened { member, bucket, generation } in &snapshot.generations {
            Record::Open { member: *member, bucket: *bucket, generation: *generation }
                .encode(&mut writer.records);
            writer.write_if_full(cx).await?;
        }
        for extent in snapshot.map.iter() {
            Record::encode_map(extent, &mut writer.records);
            writer.write_if_full(cx).await?;
        }
        writer.write(cx, None).await?;
        let RunWriter { index: runs, buckets, .. } = writer;
        if !fault("volume-skips-the-checkpoint-flush") {
            self.flush_metadata(cx).await?;
        }
        for (n, first) in members.iter().zip(first) {
            let superblock = &mut journal.superblocks[usize::from(*n)];
            superblock.sequence += 1;
            superblock.root = Root {
                checkpoint: number,
                sequence: journal.sequence,
                previous: journal.previous,
                mount: journal.mount,
                first: Some(first),
                runs,
                journal_at: journal.at,
            };
        }
        let write = |n: &u8| {
            let superblock = &journal.superblocks[usize::from(*n)];
            let keyring = self.encoding.keyring.as_ref();
            member::write_superblock(&*self.members[usize::from(*n)].device, cx, superblock, keyring)
        };
        join_all(members.iter().map(write)).await.into_iter().collect::<Result<(), _>>()?;
        let mut state = self.lock();
        for (member, bucket) in std::mem::replace(&mut journal.checkpoint_buckets, buckets) {
            state.allocator.release_metadata(member, bucket);
        }
        journal.used = 0;
        Ok(())
    }
}

/// Writes the runs of a checkpoint to all metadata members. A run is written when the place of the next one is known.
struct RunWriter<'a> {
    inner: &'a Inner,
    members: &'a [u8],
    checkpoint: u64,
    index: u32,
    records: Vec<u8>,
    /// Place of the current run on each member.
    places: Vec<Place>,
    buckets: Vec<(u8, u32)>,
}

impl<'a> RunWriter<'a> {
    fn new(inner: &'a Inner, checkpoint: u64, members: &'a [u8]) -> Result<RunWriter<'a>, IoError> {
        let mut writer = RunWriter {
            inner,
            members,
            checkpoint,
            index: 0,
            records: Vec::new(),
            places: Vec::new(),
            buckets: Vec::new(),
        };
        writer.places = writer.next_places()?;
        Ok(writer)
    }

    /// Returns the place of the next run on each member.
    fn next_places(&mut self) -> Result<Vec<Place>, IoError> {
        let layout = &self.inner.layout;
        let blocks = layout.run_len() / layout.block;
        let mut places = Vec::new();
        for (n, member) in self.members.iter().enumerate() {
            let next = self.places.get(n).map(|place| Place { offset: place.offset + blocks, ..*place });
            let next = next.filter(|place| place.offset + blocks <= layout.bucket_blocks());
            places.push(match next {
                Some(place) => place,
                None => {
                    let bucket = self.inner.lock().allocator.allocate_metadata(*member);
                    let bucket = bucket.ok_or(IoError::NoSpace)?;
                    self.buckets.push((*member, bucket));
                    Place { bucket, offset: 0 }
                }
            });
        }
        Ok(places)
    }

    /// Writes the run if another record might not fit into it.
    async fn write_if_full(&mut self, cx: &Context) -> Result<(), IoError> {
        // The largest record maps an extent with one authentication tag of 16 bytes for each unit; checksums are shorter.
        let layout = &self.inner.layout;
        let record_max = 128 + 16 * (layout.extent_max / layout.unit) as usize;
        if self.records.len() + record_max + RUN_HEADER <= layout.run_len() as usize {
            return Ok(());
        }
        let next = self.next_places()?;
        self.write(cx, Some(next)).await
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
        for (n, member) in self.members.iter().enumerate() {
            run.next = next.as_ref().map(|places| places[n]);
            let Place { bucket, offset } = self.places[n];
            let offset = layout.bucket_offset(bucket) + u64::from(offset) * u64::from(layout.block);
            let bytes = run.encode(&layout.volume, layout.block as usize, self.inner.seal_with()).into();
            writes.push(member::write(&*self.inner.members[usize::from(*member)].device, cx, offset, bytes));
        }
        join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
        self.index += 1;
        if let Some(next) = next {
            self.places = next;
        }
        Ok(())
    }
}

impl Pending {
    /// Divides the records into entries of at most `max` bytes, which do not split a request.
    fn into_entries(self, max: usize) -> Vec<Vec<u8>> {
        let Pending { records, groups } = self;
        let end = groups.last().copied().unwrap_or(0);
        // The records behind the last request belong to buckets that were opened for writes in flight.
        let all = groups.into_iter().filter(|group| *group < end).chain([records.len()]);
        let (mut entries, mut start, mut last) = (Vec::new(), 0, 0);
        if records.is_empty() {
            return entries;
        }
        for group in all {
            if group - start > max && last > start {
                entries.push(records[start..last].to_vec());
                start = last;
            }
            last = group;
        }
        entries.push(records[start..].to_vec());
        entries
    }
}
