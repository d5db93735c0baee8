//! Recovers the state of a volume from its last checkpoint and the journal entries that follow it.
//!
//! Entries have consecutive numbers, and each contains the checksum of the previous entry. An entry is
//! written only after the previous one is durable, so at most the last entry is torn. If an entry is missing
//! and a later entry is valid, the missing entry is damaged, unless the later entry belongs to another
//! history. With several metadata members, each entry is taken from any member that has it.

use crate::allocate::Allocator;
use crate::encode::Compression;
use crate::extent::{Extent, ExtentState, Pointer};
use crate::format::{Fault, MemberState, Record, Root, Run};
use crate::journals::{End, Found, Journals, MemberFault};
use crate::keys::Keyring;
use crate::layout::Layout;
use crate::map::Map;
use crate::member::{self, Member};
use crate::{MissingMember, VolumeError};
use flashlab_block::Context;
use flashlab_sim::fault;
use std::collections::BTreeMap;

/// The state of a volume on its members.
pub(crate) struct Recovered {
    pub(crate) map: Map,
    pub(crate) allocator: Allocator,
    /// Salt of each mount.
    pub(crate) salts: BTreeMap<u32, [u8; 16]>,
    /// Number of the last mount.
    pub(crate) mount: u32,
    /// Number of the last journal entry.
    pub(crate) sequence: u64,
    /// Checksum of the last journal entry.
    pub(crate) previous: u32,
    /// Offset of the next entry.
    pub(crate) at: u64,
    /// Bytes of the journal after the checkpoint.
    pub(crate) used: u64,
    /// Buckets of the checkpoint.
    pub(crate) checkpoint_buckets: Vec<(u8, u32)>,
    /// True if a new checkpoint is due, because a journal or a checkpoint has a fault, or because a member that is no
    /// longer a metadata member still has them.
    pub(crate) incomplete: bool,
    /// True if the journal has entries after the checkpoint, so that the volume was not closed.
    pub(crate) has_entries: bool,
    /// Faults of checkpoints and journals. The other checkpoints and journals are sound.
    pub(crate) faults: Vec<MemberFault>,
    /// Blocks of the journals that cannot be read: the member, and the offset within the journal. None of them
    /// has an entry that is needed.
    pub(crate) unreadable: Vec<(usize, u64)>,
}

/// The part of the state that records change: the map, the generations of the buckets and the salts of the
/// mounts.
struct Replay {
    layout: Layout,
    map: Map,
    allocator: Allocator,
    salts: BTreeMap<u32, [u8; 16]>,
}

impl Replay {
    fn apply(&mut self, record: Record) -> Result<(), Fault> {
        let blocks = self.layout.size / u64::from(self.layout.block);
        match record {
            Record::Map(extent) => {
                self.check_extent(&extent)?;
                self.map.insert(extent, |_, _| {});
            }
            Record::Unmap { start, length } => {
                let end = start.checked_add(length).filter(|end| *end <= blocks && length > 0);
                self.map.remove(start..end.ok_or(Fault::Field("unmapped range"))?, |_, _| {});
            }
            Record::Open { member, bucket, generation } => {
                if !self.allocator.set_generation(member, bucket, generation) {
                    return Err(Fault::Field("bucket"));
                }
            }
            Record::Epoch { mount, salt } => drop(self.salts.insert(mount, salt)),
        }
        Ok(())
    }

    /// Checks that the extent is possible in the volume.
    fn check_extent(&self, extent: &Extent) -> Result<(), Fault> {
        let Layout { block, unit, extent_max, size, .. } = self.layout;
        let logical = u32::from(extent.whole()) * block;
        if extent.end() > size / u64::from(block) || logical > extent_max {
            return Err(Fault::Field("extent"));
        }
        if extent.state() == ExtentState::Poisoned && extent.pointers().is_empty() {
            return Ok(());
        }
        let (stored, units) = match extent.compression() {
            Compression::None => (logical, logical.div_ceil(unit) as usize),
            Compression::Lz4 | Compression::Zstd => (extent.stored().min(logical), 1),
        };
        if extent.stored() != stored || stored == 0 || extent.units() != units {
            return Err(Fault::Field("stored length"));
        }
        let blocks = extent.stored_blocks(block);
        if !extent.pointers().iter().all(|pointer| self.allocator.contains(pointer, blocks)) {
            return Err(Fault::Field("pointer"));
        }
        // A cached copy may vanish, so no extent consists of cached copies only.
        if extent.pointers().iter().all(|pointer| pointer.cached) {
            return Err(Fault::Field("cached"));
        }
        Ok(())
    }
}

/// Recovers the state of a volume. `roots` are the roots of the members whose journal and checkpoint may be
/// current, with the number of the newest checkpoint that any member knows. An encrypted volume needs its
/// `keyring`.
pub(crate) async fn recover(
    cx: &Context,
    layout: Layout,
    members: &[Member],
    (roots, newest_checkpoint): (&[Option<Root>], u64),
    keyring: Option<&Keyring>,
) -> Result<Recovered, VolumeError> {
    let newest = roots.iter().flatten().map(|root| root.checkpoint).max();
    let newest = newest.ok_or_else(|| VolumeError::Damaged("no member has a current journal".into()))?;
    let is_metadata = |n: &usize| members[*n].entry.metadata;
    let root_of = |n: usize| roots[n].filter(|root| root.checkpoint == newest);
    // A new volume has no checkpoint, and its first members with metadata have the journal.
    let is_current = |n: &usize| root_of(*n).is_some_and(|root| root.first.is_some() || is_metadata(n));
    let current: Vec<usize> = (0..members.len()).filter(is_current).collect();
    let metadata = (0..members.len()).filter(is_metadata);
    let old = metadata.into_iter().filter(|n| members[*n].present && !current.contains(n));
    let old: Vec<usize> = old.collect();
    let mut faults = Vec::new();
    let journals = current.clone();
    // Members with an older journal than the other members recorded were already left out as stale. This
    // check is a safeguard.
    if current.is_empty() || newest < newest_checkpoint {
        return Err(no_journal(members));
    }
    let mut incomplete = current.iter().any(|n| !is_metadata(n));
    let (mut loaded, mut checkpoint_buckets) = (None, Vec::new());
    for n in current {
        let root = root_of(n).expect("a current member has a root");
        match load(cx, (layout, keyring), members, n, &root).await {
            Ok((replay, buckets)) => {
                checkpoint_buckets.extend(buckets.into_iter().map(|bucket| (n as u8, bucket)));
                loaded.get_or_insert((replay, root));
            }
            Err(fault) => faults.push(MemberFault {
                member: n,
                text: format!("the checkpoint is damaged: {fault}"),
                is_of_a_stop: false,
            }),
        }
    }
    let why =
        || faults.last().map(|fault| format!("member {}: {}", fault.member, fault.text)).unwrap_or_default();
    let (mut replay, root) = loaded.ok_or_else(|| VolumeError::Damaged(why()))?;
    let mut journals = Journals::read(cx, (&layout, keyring), members, &journals, root.sequence).await;
    let mut recovered = Recovered {
        map: Map::new(layout.block, layout.unit),
        allocator: Allocator::new(layout, std::iter::empty()),
        salts: BTreeMap::new(),
        mount: root.mount,
        sequence: root.sequence,
        previous: root.previous,
        at: root.journal_at,
        used: 0,
        checkpoint_buckets,
        incomplete: false,
        has_entries: false,
        faults,
        unreadable: journals.unreadable(),
    };
    replay_entries(&layout, &mut journals, &mut replay, &mut recovered)?;
    if fault("volume-recovery-overwrites-the-journal") {
        (recovered.at, recovered.used) = (root.journal_at, 0);
    }
    recovered.has_entries = recovered.sequence > root.sequence;
    let is_last = |n: usize| roots[n].is_some_and(|own| own.checkpoint + 1 == root.checkpoint);
    recovered.faults.extend(old.into_iter().map(|n| MemberFault {
        member: n,
        text: "the journal and the checkpoint are old".to_owned(),
        // The superblocks of the members refer to a new checkpoint before the next entry is written.
        is_of_a_stop: is_last(n) && !recovered.has_entries,
    }));
    recovered.faults.extend(journals.faults());
    incomplete |= !recovered.faults.is_empty();
    recovered.incomplete = incomplete;
    finish(layout, members, replay, recovered)
}

/// Returns the error of a volume none of whose present members has a current journal.
fn no_journal(members: &[Member]) -> VolumeError {
    let has_it = |(_, member): &(usize, &Member)| {
        !member.present && member.entry.metadata && member.entry.state != MemberState::Removed
    };
    let missing: Vec<MissingMember> = (members.iter().enumerate().filter(has_it))
        .map(|(n, member)| MissingMember { number: n as u8, label: member.entry.label.clone() })
        .collect();
    match missing.is_empty() {
        true => VolumeError::Damaged("no present member has a current journal".into()),
        false => VolumeError::JournalMissing { missing },
    }
}

/// Applies the entries after the checkpoint in order.
fn replay_entries(
    layout: &Layout,
    journals: &mut Journals,
    replay: &mut Replay,
    recovered: &mut Recovered,
) -> Result<(), VolumeError> {
    let ring = layout.journal_len();
    journals.follow(recovered.end(), |Found { at, entry, .. }| {
        let applied = Record::decode_all(&entry.records, |record| replay.apply(record));
        applied
            .map_err(|fault| VolumeError::Damaged(format!("journal entry {}: {fault}", entry.sequence)))?;
        let len = entry.padded_len(layout.block as usize) as u64;
        recovered.mount = entry.mount;
        recovered.used += (at + ring - recovered.at % ring) % ring + len;
        (recovered.sequence, recovered.previous, recovered.at) = (entry.sequence, entry.sum, at + len);
        Ok(recovered.end())
    })
}

impl Recovered {
    /// Returns the end of the chain of entries so far.
    fn end(&self) -> End {
        End { sequence: self.sequence, previous: self.previous, mount: self.mount, at: self.at }
    }
}

/// Counts the references of the map, and finds the free buckets.
fn finish(
    layout: Layout,
    members: &[Member],
    replay: Replay,
    mut recovered: Recovered,
) -> Result<Recovered, VolumeError> {
    let Replay { mut map, mut allocator, salts, .. } = replay;
    for (member, bucket) in &recovered.checkpoint_buckets {
        allocator.mark_metadata(*member, *bucket);
    }
    let mut changed = Vec::new();
    for extent in map.iter() {
        let blocks = extent.stored_blocks(layout.block);
        let kept = kept(extent, &allocator, blocks).map_err(VolumeError::Damaged)?;
        for pointer in &kept {
            if !allocator.count(pointer, extent.held_blocks(layout.block)) {
                return Err(VolumeError::Damaged(format!("bucket {} has too many extents", pointer.bucket)));
            }
        }
        if kept.len() < extent.pointers().len() {
            changed.push(extent.with_pointers(&kept));
        }
    }
    for extent in changed {
        map.insert(extent, |_, _| {});
    }
    allocator.find_free(|n| members[n].present);
    (recovered.map, recovered.allocator, recovered.salts) = (map, allocator, salts);
    Ok(recovered)
}

/// Returns the copies of an extent, except for cached copies whose buckets were reused and for second copies
/// on the same member. Garbage collection of earlier versions could leave such second copies; reconcile
/// replaces them.
fn kept(extent: &Extent, allocator: &Allocator, blocks: u32) -> Result<Vec<Pointer>, String> {
    let pointers = extent.pointers();
    let mut kept = Vec::with_capacity(pointers.len());
    for (n, pointer) in pointers.iter().enumerate() {
        let is_before = |(m, other): (usize, &Pointer)| {
            other.member == pointer.member && (other.cached, m) < (pointer.cached, n)
        };
        let is_current = allocator.contains(pointer, blocks) && allocator.is_current(pointer);
        if pointers.iter().enumerate().any(is_before) || pointer.cached && !is_current {
            continue;
        }
        if !is_current {
            let start = extent.start();
            return Err(format!("the extent at block {start} refers to a bucket that holds other data"));
        }
        kept.push(*pointer);
    }
    Ok(kept)
}

/// Loads the checkpoint from a member. Returns its contents and its buckets.
async fn load(
    cx: &Context,
    (layout, keyring): (Layout, Option<&Keyring>),
    members: &[Member],
    member: usize,
    root: &Root,
) -> Result<(Replay, Vec<u32>), String> {
    let allocator = Allocator::new(layout, members.iter().map(|member| &member.entry));
    let mut replay =
        Replay { layout, map: Map::new(layout.block, layout.unit), allocator, salts: BTreeMap::new() };
    let (mut next, mut buckets) = (root.first, Vec::new());
    for index in 0..root.runs {
        let Some(place) = next else {
            return Err(format!("the place of run {index} of {} is missing", root.runs));
        };
        let at = layout.run_offset(place, members[member].entry.buckets);
        let at = at.ok_or_else(|| format!("run {index} lies outside of the member"))?;
        let bytes = member::read_run(&*members[member].device, cx, at, &layout).await;
        let bytes = bytes.map_err(|error| format!("run {index}: {error}"))?;
        let run = Run::decode(&bytes, &layout.volume, keyring);
        let run = run.map_err(|fault| format!("run {index}: {fault}"))?;
        if (run.checkpoint, run.index) != (root.checkpoint, index) {
            return Err(format!("run {index} belongs to another checkpoint"));
        }
        let mut end = replay.map.end();
        let applied = Record::decode_all(&run.records, |record| {
            if let Record::Map(extent) = &record {
                if extent.start() < end {
                    return Err(Fault::Field("order of the extents"));
                }
                end = extent.end();
            }
            replay.apply(record)
        });
        applied.map_err(|fault| format!("run {index}: {fault}"))?;
        if !buckets.contains(&place.bucket) {
            buckets.push(place.bucket);
        }
        next = run.next;
    }
    Ok((replay, buckets))
}
