//! The division of members into superblocks, journal and buckets, and the space that a volume offers.

use crate::encode::{Checksum, Compressor, Encoding};
use crate::error::shown;
use crate::extent::{BLOCKS_MAX, POINTERS_MAX, Pointer};
use crate::format::{
    ENTRY_HEADER, ErrorCounts, MEMBERS_MAX, MemberEntry, MemberState, OPEN_LEN, Place, RUN_HEADER, Record,
    SUPERBLOCK_SIZE, Superblock, TAG_WRITER_LEN,
};
use crate::keys::{Keyring, TAG_LEN};
use crate::limits;
use crate::member_set::MemberSet;
use crate::target;
use crate::{NewMember, Options, VolumeError};

/// Share of the space that garbage collection needs so that its cost stays bounded: one sixteenth.
const SPARE: u64 = 16;
/// Share of a checkpoint for the salts of mounts: one 64th.
const SALTS: u64 = 64;
/// Bytes that earlier versions reserved in a checkpoint for each block, in addition to its checksum or tag.
/// Earlier versions added an eighth to the sum.
const FORMER_BYTES: u64 = 44;
/// Largest number of buckets that is computed for a checkpoint; no member has that many.
const CHECKPOINT_MAX: u32 = u32::MAX / 2;
/// Number of free buckets of each member that new data leaves to garbage collection.
pub(crate) const COLLECT_RESERVE: u32 = 3;

/// Sizes that every part of the engine needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Identifier of the volume.
    pub(crate) volume: [u8; 16],
    /// Size of a block in bytes.
    pub(crate) block: u32,
    /// Size of a bucket in bytes.
    pub(crate) bucket: u32,
    /// Bytes per checksum or tag of an uncompressed extent.
    pub(crate) unit: u32,
    /// Largest logical size of an extent in bytes.
    pub(crate) extent_max: u32,
    /// Number of copies that each extent should have; a copy counts as often as the durability of its member
    /// says.
    pub(crate) replicas: u8,
    /// Checksum of the extents.
    pub(crate) checksum: Checksum,
    /// Compression of new extents.
    pub(crate) compression: Compressor,
    /// Compression that background work applies.
    pub(crate) background_compression: Compressor,
    /// Preferred members for new data. Empty if there is no preference.
    pub(crate) foreground: MemberSet,
    /// Members to which background work moves data. Empty if data stays where it is.
    pub(crate) background: MemberSet,
    /// Members with cached copies. Empty if there are none.
    pub(crate) promote: MemberSet,
    /// Preferred members for the journal and the checkpoints. Empty if there is no preference.
    pub(crate) metadata: MemberSet,
    /// True if the volume is encrypted.
    pub(crate) is_encrypted: bool,
    /// Logical size in bytes.
    pub(crate) size: u64,
    /// Number of buckets of the journal. Every member reserves its first buckets for a journal, so that any
    /// member can take it.
    pub(crate) journal_buckets: u32,
    /// Number of buckets of all members that were not removed.
    pub(crate) buckets: u64,
    /// Largest number of buckets of a checkpoint for which the size of the volume leaves room.
    pub(crate) checkpoint_buckets: u32,
}

impl Layout {
    /// Returns the layout that a superblock describes.
    pub(crate) fn of(superblock: &Superblock) -> Layout {
        let mut layout = Layout {
            volume: superblock.volume,
            block: superblock.block,
            bucket: superblock.bucket,
            unit: superblock.checksum_block,
            extent_max: superblock.extent_max,
            replicas: superblock.replicas,
            checksum: superblock.checksum,
            compression: superblock.compression,
            background_compression: superblock.background_compression,
            foreground: target::members_for(&superblock.targets.foreground, &superblock.members),
            background: target::members_for(&superblock.targets.background, &superblock.members),
            promote: target::members_for(&superblock.targets.promote, &superblock.members),
            metadata: target::members_for(&superblock.targets.metadata, &superblock.members),
            is_encrypted: superblock.key.is_some(),
            size: superblock.size,
            journal_buckets: superblock.journal_buckets,
            buckets: buckets(&superblock.members),
            checkpoint_buckets: 0,
        };
        // The size of a volume of an earlier version may leave less room.
        let has_room = layout.size <= largest(layout, &superblock.members);
        layout.checkpoint_buckets =
            if has_room { layout.checkpoint_max() } else { layout.former_checkpoint_max() };
        layout
    }

    /// Returns true if both layouts agree in the sizes, the checksum and the presence of encryption, which
    /// cannot change after the format.
    pub(crate) fn has_same_format(&self, other: &Layout) -> bool {
        let fixed = |layout: &Layout| {
            let Layout { block, bucket, unit, extent_max, journal_buckets, checksum, .. } = *layout;
            (block, bucket, unit, extent_max, journal_buckets, checksum, layout.is_encrypted)
        };
        fixed(self) == fixed(other)
    }

    /// Returns the offset of a bucket on its member.
    pub(crate) fn bucket_offset(&self, bucket: u32) -> u64 {
        let bytes = u64::from(self.bucket);
        (2 * SUPERBLOCK_SIZE as u64).next_multiple_of(bytes) + u64::from(bucket) * bytes
    }

    /// Returns the offset of a copy on its member.
    pub(crate) fn offset(&self, pointer: &Pointer) -> u64 {
        self.bucket_offset(pointer.bucket) + u64::from(pointer.offset) * u64::from(self.block)
    }

    /// Returns the number of blocks in a bucket.
    pub(crate) fn bucket_blocks(&self) -> u32 {
        self.bucket / self.block
    }

    /// Returns the length of the journal in bytes.
    pub(crate) fn journal_len(&self) -> u64 {
        u64::from(self.journal_buckets) * u64::from(self.bucket)
    }

    /// Returns the largest length of the records of an entry. With its header and padding, the entry takes at
    /// most a quarter of the journal.
    pub(crate) fn records_max(&self) -> usize {
        (self.journal_len() / 4) as usize - ENTRY_HEADER - self.block as usize
    }

    /// Returns the length of a run of a checkpoint.
    pub(crate) fn run_len(&self) -> u32 {
        self.bucket.min(256 << 10)
    }

    /// Returns how new extents are encoded.
    pub(crate) fn encoding(&self, keyring: Option<Keyring>) -> Encoding {
        Encoding {
            compressor: self.compression,
            checksum: self.checksum,
            checksum_unit: self.unit,
            block: self.block,
            keyring,
        }
    }

    /// Returns the offset of a run of a checkpoint on a member with this number of buckets; `None` if the run
    /// does not lie within a bucket that a checkpoint may use.
    pub(crate) fn run_offset(&self, place: Place, buckets: u32) -> Option<u64> {
        let Place { bucket, offset } = place;
        let end = offset.checked_add(self.run_len() / self.block)?;
        let fits = end <= self.bucket_blocks() && (self.journal_buckets..buckets).contains(&bucket);
        fits.then(|| self.bucket_offset(bucket) + u64::from(offset) * u64::from(self.block))
    }

    /// Returns an upper bound on the length of a record. The longest record maps an extent with an
    /// authentication tag for each unit.
    pub(crate) fn record_max(&self) -> u32 {
        128 + TAG_LEN as u32 * (self.extent_max / self.unit)
    }

    /// Returns an upper bound on the number of buckets of a checkpoint whose records have this total length.
    /// A run ends when another record might not fit into it.
    pub(crate) fn buckets_for(&self, records: u64) -> u32 {
        let run = u64::from(self.run_len() - self.record_max()) - RUN_HEADER as u64;
        let runs = records / run + 1;
        let buckets = runs.div_ceil(u64::from(self.bucket / self.run_len()));
        u32::try_from(buckets).unwrap_or(u32::MAX).min(CHECKPOINT_MAX)
    }

    /// Returns the number of buckets that a checkpoint needs if each block is an extent of its own, with all
    /// of its copies and, if there is a promote target, a cached copy.
    fn checkpoint_max(&self) -> u32 {
        let check = match self.checksum {
            _ if self.is_encrypted => TAG_LEN + TAG_WRITER_LEN,
            Checksum::Crc32c => 4,
            Checksum::Xxh3 => 8,
        };
        let copies = usize::from(self.replicas) + usize::from(!self.promote.is_empty());
        let extents = self.size / u64::from(self.block);
        let records = extents * Record::map_len(check, copies.min(POINTERS_MAX)) as u64;
        let records = records + self.buckets * OPEN_LEN as u64;
        self.buckets_for(records + records / SALTS)
    }

    /// Returns the number of buckets that earlier versions reserved for a checkpoint when they computed the size of a
    /// volume.
    fn former_checkpoint_max(&self) -> u32 {
        let check = if self.is_encrypted { TAG_LEN + TAG_WRITER_LEN } else { 4 };
        let bytes = self.size / u64::from(self.block) * (FORMER_BYTES + check as u64) * 9 / 8;
        let buckets = bytes.div_ceil(u64::from(self.bucket)) + 1;
        u32::try_from(buckets).unwrap_or(u32::MAX).min(self.checkpoint_max())
    }

    /// Returns the number of buckets that are reserved for a checkpoint on a member.
    pub(crate) fn reserve(&self, metadata: bool) -> u32 {
        if metadata { self.checkpoint_buckets } else { 0 }
    }
}

/// Determines the sizes of a new volume and the table of its members. The layout lacks the foreground and
/// background targets and the numbers of buckets, which [`Layout::of`] derives from the superblock.
pub(crate) fn plan(
    members: &[NewMember],
    options: &Options,
) -> Result<(Layout, Vec<MemberEntry>), VolumeError> {
    options.check()?;
    if members.is_empty() || members.len() > MEMBERS_MAX {
        let count = members.len();
        return Err(VolumeError::Option(format!("{count} members: a volume has 1 to {MEMBERS_MAX}")));
    }
    let mut layout = Layout {
        volume: options.volume,
        block: options.block,
        bucket: options.bucket,
        unit: options.checksum_block,
        extent_max: options.extent_max,
        replicas: options.replicas,
        checksum: options.checksum,
        compression: options.compression,
        background_compression: options.background_compression,
        foreground: MemberSet::EMPTY,
        background: MemberSet::EMPTY,
        promote: MemberSet::EMPTY,
        metadata: MemberSet::EMPTY,
        is_encrypted: options.encryption.is_some(),
        size: 0,
        journal_buckets: 0,
        buckets: 0,
        checkpoint_buckets: 0,
    };
    let mut entries = Vec::new();
    for (n, member) in members.iter().enumerate() {
        entries.push(entry(&layout, n, member, member_id(&options.volume, n))?);
    }
    check_replicas(options.replicas, &entries)?;
    options.targets.check(&entries)?;
    layout.metadata = target::members_for(&options.targets.metadata, &entries);
    choose_metadata(&mut entries, options.replicas, layout.metadata);
    let bucket = u64::from(layout.bucket);
    let (member, smallest) =
        entries.iter().enumerate().min_by_key(|(_, entry)| entry.buckets).expect("a volume has a member");
    let smallest = u64::from(smallest.buckets) * bucket;
    let journal = if options.journal == 0 { (smallest / 64).min(256 << 20) } else { options.journal };
    let permitted = limits::journal(layout.bucket);
    let journal = journal.max(*permitted.start()).next_multiple_of(bucket);
    if !permitted.contains(&journal) {
        let most = shown(*permitted.end());
        return Err(VolumeError::Option(format!("journal={}: at most {most} are permitted", shown(journal))));
    }
    if journal > smallest / 4 {
        let needed = 4 * journal + layout.bucket_offset(2);
        return Err(VolumeError::TooSmall { member, needed });
    }
    layout.journal_buckets = (journal / bucket) as u32;
    layout.promote = target::members_for(&options.targets.promote, &entries);
    layout.size = size(&layout, &entries, options.size)?;
    Ok((layout, entries))
}

/// Checks that a volume of these members can have this number of copies.
pub(crate) fn check_replicas(replicas: u8, members: &[MemberEntry]) -> Result<(), VolumeError> {
    let takes = members.iter().filter(|member| member.takes_data()).count();
    if (1..=takes.min(POINTERS_MAX)).contains(&usize::from(replicas)) {
        return Ok(());
    }
    Err(VolumeError::Option(format!(
        "replicas={replicas}: must be from 1 to {POINTERS_MAX}, and no more than the number of members that take data \
         ({takes})"
    )))
}

/// Returns the entry of a new member in the table.
pub(crate) fn entry(
    layout: &Layout,
    place: usize,
    member: &NewMember,
    id: [u8; 16],
) -> Result<MemberEntry, VolumeError> {
    let (geometry, bucket) = (member.device.geometry(), u64::from(layout.bucket));
    if !u64::from(layout.block).is_multiple_of(geometry.block) {
        let (block, needed) = (layout.block, geometry.block);
        return Err(VolumeError::Option(format!(
            "block={block}: member {place} needs a multiple of {needed}"
        )));
    }
    target::check_label(&member.label)?;
    let copy = SUPERBLOCK_SIZE as u64;
    let end = (geometry.capacity / copy).saturating_sub(1) * copy;
    let buckets = end.saturating_sub(layout.bucket_offset(0)) / bucket;
    let permitted = limits::buckets(layout.journal_buckets);
    let least = u64::from(*permitted.start());
    if buckets < least {
        let needed = layout.bucket_offset(0) + least * bucket + 2 * copy;
        return Err(VolumeError::TooSmall { member: place, needed });
    }
    Ok(MemberEntry {
        id,
        buckets: buckets.min(u64::from(*permitted.end())) as u32,
        durability: member.durability,
        metadata: false,
        label: member.label.clone(),
        state: MemberState::Rw,
        errors: ErrorCounts::default(),
    })
}

/// Chooses the members that have the journal and the checkpoints: as many as there are replicas, or all
/// members that take data if these are fewer. A member that takes no data is chosen only if no member takes
/// data. Members in the state `rw` come before spares. Within a state, members of the target come first, and
/// then members that already have the journal.
pub(crate) fn choose_metadata(entries: &mut [MemberEntry], replicas: u8, target: MemberSet) {
    let rank = |n: usize, entry: &MemberEntry| {
        let state = match entry.state {
            MemberState::Rw => 0,
            MemberState::Spare => 1,
            MemberState::Ro | MemberState::Evacuating => 2,
            MemberState::Removed => 3,
        };
        (!entry.takes_data(), state, !target.prefers(n), !entry.metadata, n)
    };
    let mut order: Vec<_> = entries.iter().enumerate().map(|(n, entry)| rank(n, entry)).collect();
    order.sort_unstable();
    let usable = entries.iter().filter(|entry| entry.takes_data()).count().max(1);
    let chosen: Vec<usize> = order.into_iter().take(usable.min(replicas.into())).map(|rank| rank.4).collect();
    for (n, entry) in entries.iter_mut().enumerate() {
        entry.metadata = chosen.contains(&n);
    }
}

/// Determines the logical size of a new volume. If `wanted` is zero, the volume gets the largest size.
fn size(layout: &Layout, entries: &[MemberEntry], wanted: u64) -> Result<u64, VolumeError> {
    let largest = largest(*layout, entries);
    let size = if wanted == 0 { largest } else { wanted };
    check_multiple(layout, size)?;
    if size > largest || size == 0 {
        let (size, limit) = (shown(size), limit(layout, largest));
        return Err(VolumeError::Option(format!("size={size}: {limit}")));
    }
    Ok(size)
}

/// Checks that a logical size is a multiple of the block size.
pub(crate) fn check_multiple(layout: &Layout, size: u64) -> Result<(), VolumeError> {
    if size.is_multiple_of(u64::from(layout.block)) {
        return Ok(());
    }
    let block = layout.block;
    Err(VolumeError::Option(format!("size={size}: a multiple of the block size of {block} bytes is needed")))
}

/// Describes the largest logical size, and what limits it.
pub(crate) fn limit(layout: &Layout, largest: u64) -> String {
    let copies = layout.replicas;
    let copies = if copies == 1 { "1 copy".to_owned() } else { format!("{copies} copies") };
    format!(
        "the members have room for {} ({largest} bytes) with {copies} of the data, in addition to the journal, the map \
         and the reserve for garbage collection",
        shown(largest)
    )
}

/// Returns the largest logical size, to within a bucket, for which these members can store all copies. The
/// checkpoints of a larger volume need more space, so the size and the reserve for checkpoints are found
/// together.
pub(crate) fn largest(mut layout: Layout, entries: &[MemberEntry]) -> u64 {
    let bucket = u64::from(layout.bucket);
    layout.buckets = buckets(entries);
    let available = |layout: &Layout| {
        let data = |entry: &MemberEntry| {
            if entry.durability == 0 || !matches!(entry.state, MemberState::Rw | MemberState::Ro) {
                return 0;
            }
            // The last checkpoint and the next one.
            let checkpoints = if entry.metadata { 2 * u64::from(layout.checkpoint_max()) } else { 0 };
            // The streams of new data and of collected data each have a bucket that is partly filled. Cached copies
            // give way.
            let reserve = u64::from(COLLECT_RESERVE + 2) + u64::from(layout.journal_buckets) + checkpoints;
            u64::from(entry.buckets).saturating_sub(reserve) * bucket
        };
        let space: Vec<u64> = entries.iter().map(data).collect();
        let usable = replicated(&space, u64::from(layout.replicas));
        (usable - usable / SPARE) / u64::from(layout.block) * u64::from(layout.block)
    };
    let raw = layout.buckets * bucket;
    // A larger size leaves less space for data, so a bisection finds the largest one.
    let (mut low, mut high) = (0, raw);
    while high - low > bucket {
        layout.size = low.midpoint(high);
        if available(&layout) >= layout.size { low = layout.size } else { high = layout.size }
    }
    let block = u64::from(layout.block);
    (low / block).min(BLOCKS_MAX - 1) * block
}

/// Returns the number of buckets of all members that were not removed.
fn buckets(entries: &[MemberEntry]) -> u64 {
    let current = entries.iter().filter(|entry| entry.state != MemberState::Removed);
    current.map(|entry| u64::from(entry.buckets)).sum()
}

/// Returns the largest amount of data for which members with this space can hold `copies` copies, each copy
/// on a different member.
fn replicated(space: &[u64], copies: u64) -> u64 {
    let (mut low, mut high) = (0, space.iter().sum::<u64>() / copies);
    while low < high {
        let middle = low.midpoint(high) + 1;
        let room: u64 = space.iter().map(|bytes| (*bytes).min(middle)).sum();
        if room / copies >= middle { low = middle } else { high = middle - 1 }
    }
    low
}

/// Derives the identifier of a member of a new volume from the identifier of the volume.
fn member_id(volume: &[u8; 16], member: usize) -> [u8; 16] {
    let (low, high) = (u64::from_le_bytes(half(volume, 0)), u64::from_le_bytes(half(volume, 8)));
    let low = flashlab_sim::mix(low ^ flashlab_sim::mix(member as u64 + 1));
    let mut id = [0; 16];
    id[..8].copy_from_slice(&low.to_le_bytes());
    id[8..].copy_from_slice(&flashlab_sim::mix(low ^ high).to_le_bytes());
    id
}

fn half(bytes: &[u8; 16], at: usize) -> [u8; 8] {
    *bytes[at..].first_chunk().expect("eight of sixteen bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A member that takes no data gets the journal only if no member takes data, even if it has the journal already.
    #[test]
    fn metadata_goes_to_members_that_take_data() {
        use MemberState::{Evacuating, Ro, Rw, Spare};
        let chosen = |members: &[(MemberState, u8)], replicas, target| {
            let entry = |&(state, durability): &(MemberState, u8)| MemberEntry {
                id: [0; 16],
                buckets: 32,
                durability,
                metadata: durability == 0,
                label: String::new(),
                state,
                errors: ErrorCounts::default(),
            };
            let mut entries: Vec<MemberEntry> = members.iter().map(entry).collect();
            choose_metadata(&mut entries, replicas, MemberSet::from_bits(target));
            entries.iter().zip(0..).map(|(entry, n)| u32::from(entry.metadata) << n).sum::<u32>()
        };
        assert_eq!(chosen(&[(Rw, 0), (Rw, 0), (Spare, 1), (Rw, 2)], 2, 1), 0b1100);
        assert_eq!(chosen(&[(Rw, 0), (Ro, 1), (Rw, 1), (Rw, 1)], 3, 0b1000), 0b1100);
        assert_eq!(chosen(&[(Rw, 1), (Rw, 1), (Rw, 1)], 1, 0b100), 0b100);
        assert_eq!(chosen(&[(Evacuating, 1), (Ro, 1)], 2, 0), 1);
    }

    #[test]
    fn copies_of_the_same_data_are_on_different_members() {
        assert_eq!(replicated(&[10, 10], 1), 20);
        assert_eq!(replicated(&[10, 10], 2), 10);
        assert_eq!(replicated(&[100, 10], 2), 10);
        assert_eq!(replicated(&[100, 10, 20], 2), 30);
        assert_eq!(replicated(&[10, 10, 10], 2), 15);
    }
}
