//! The superblock of a member: identity of volume and member, options, the table of members, and the root of the last
//! checkpoint.

use super::member_entry::{decode_label, encode_label};
use super::wire::{self, Get, Put};
use super::{Fault, MemberEntry, MemberState, Place, Seen};
use crate::encode::{Checksum, Compression, Compressor, LEVEL_MAX};
use crate::extent::{BLOCKS_MAX, POINTERS_MAX};
use crate::keys::{Keyring, MAC_LEN, WRAPPED_KEY_LEN, WrappedKey};
use crate::limits::{self, Sizes};
use crate::target::Targets;

const MAGIC: &[u8; 8] = b"FLVsuper";

/// Version of the format that this program reads and writes.
pub const VERSION: u32 = 3;
/// Length of a copy of the superblock in bytes.
pub const SUPERBLOCK_SIZE: usize = 8192;
/// Largest number of members of a volume.
pub const MEMBERS_MAX: usize = 32;

/// Offset of the authentication code.
const MAC: usize = 220;

/// Returns the offsets of the three copies of the superblock on a member of `size` bytes.
pub fn copy_offsets(size: u64) -> [u64; 3] {
    let copy = SUPERBLOCK_SIZE as u64;
    [0, copy, (size / copy).saturating_sub(1) * copy]
}

/// The superblock of a member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Sequence number of the superblock. The valid copy with the largest number is the current one.
    pub sequence: u64,
    /// Identifier of the volume.
    pub volume: [u8; 16],
    /// Place of this member in the table.
    pub member: u8,
    /// Size of a block in bytes.
    pub block: u32,
    /// Size of a bucket in bytes.
    pub bucket: u32,
    /// Bytes per checksum or tag of an uncompressed extent.
    pub checksum_block: u32,
    /// Largest logical size of an extent in bytes.
    pub extent_max: u32,
    /// Number of copies that each extent should have; a copy counts as often as the durability of its member
    /// says.
    pub replicas: u8,
    /// Checksum of the extents.
    pub checksum: Checksum,
    /// Compression of new extents.
    pub compression: Compressor,
    /// Compression that background work applies; [`Compressor::None`] leaves extents as they are.
    pub background_compression: Compressor,
    /// Targets for data of each kind.
    pub targets: Targets,
    /// Number of changes of the options and of the table of members. After an interrupted change, the
    /// superblocks of the members differ, and the one with the largest number is current.
    pub changes: u64,
    /// Counter of the events in which this member took part: opens of the volume, and losses and state changes of
    /// members.
    pub clock: u64,
    /// Number of the newest checkpoint on any member when the superblock was written. An older checkpoint is not
    /// current.
    pub newest_checkpoint: u64,
    /// Vector-clock entry for each member, in table order.
    pub seen: Vec<Seen>,
    /// Logical size of the volume in bytes.
    pub size: u64,
    /// Number of buckets of the journal on each metadata member.
    pub journal_buckets: u32,
    /// Master key, wrapped under the passphrase; `None` for a volume without encryption.
    pub key: Option<WrappedKey>,
    /// Number of changes of the passphrase. After an interrupted change, the superblocks of the members
    /// differ, and the one with the largest number is current.
    pub key_changes: u32,
    /// Authentication code of the superblock of an encrypted volume; zero without encryption.
    pub mac: [u8; MAC_LEN],
    /// Table of the members.
    pub members: Vec<MemberEntry>,
    /// Root of the last checkpoint.
    pub root: Root,
}

/// The last checkpoint, and the place where the journal continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// Number of the checkpoint.
    pub checkpoint: u64,
    /// Number of the last journal entry that the checkpoint contains.
    pub sequence: u64,
    /// Checksum of that entry.
    pub previous: u32,
    /// Number of the last mount.
    pub mount: u32,
    /// Place of the first run on this member; `None` if the member has no checkpoint.
    pub first: Option<Place>,
    /// Number of runs.
    pub runs: u32,
    /// Offset within the journal at which the next entry begins.
    pub journal_at: u64,
}

impl Superblock {
    /// Encodes the superblock.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = wire::begin(MAGIC);
        bytes.u32(VERSION);
        bytes.u64(self.sequence);
        bytes.extend_from_slice(&self.volume);
        bytes.u8(self.member);
        bytes.u8(self.members.len() as u8);
        bytes.u8(self.replicas);
        bytes.u8(self.checksum as u8);
        encode_compression(self.compression, &mut bytes);
        bytes.u16(u16::from(self.key.is_some()));
        for value in [self.block, self.bucket, self.checksum_block, self.extent_max, self.journal_buckets] {
            bytes.u32(value);
        }
        bytes.u64(self.size);
        let Root { checkpoint, sequence, previous, mount, first, runs, journal_at } = self.root;
        bytes.u64(checkpoint);
        bytes.u64(sequence);
        bytes.u32(previous);
        bytes.u32(mount);
        Place::encode(first, &mut bytes);
        bytes.u32(runs);
        bytes.u64(journal_at);
        bytes.u32(self.key_changes);
        bytes.extend_from_slice(&self.key.as_ref().map_or([0; WRAPPED_KEY_LEN], WrappedKey::to_bytes));
        debug_assert_eq!(bytes.len(), MAC);
        bytes.extend_from_slice(&self.mac);
        encode_compression(self.background_compression, &mut bytes);
        bytes.u64(self.changes);
        bytes.u64(self.clock);
        bytes.u64(self.newest_checkpoint);
        for (_, target) in self.targets.all() {
            encode_label(target, &mut bytes);
        }
        for (n, member) in self.members.iter().enumerate() {
            member.encode(self.seen.get(n).copied().unwrap_or_default(), &mut bytes);
        }
        bytes.resize(SUPERBLOCK_SIZE, 0);
        wire::seal(&mut bytes);
        bytes
    }

    /// Returns the superblock with its authentication code, computed under the key of an encrypted volume.
    #[must_use]
    pub fn signed(&self, keyring: Option<&Keyring>) -> Superblock {
        let mac = keyring.map_or([0; MAC_LEN], |keyring| self.compute_mac(keyring));
        Superblock { mac, ..self.clone() }
    }

    /// Returns true if the superblock was written by a holder of the key.
    pub fn is_authentic(&self, keyring: &Keyring) -> bool {
        self.mac == self.compute_mac(keyring)
    }

    /// Returns the authentication code of all bytes after the checksum, with the field of the code set to zero.
    fn compute_mac(&self, keyring: &Keyring) -> [u8; MAC_LEN] {
        let mut bytes = self.encode();
        bytes[MAC..MAC + MAC_LEN].fill(0);
        keyring.authenticate(&bytes[wire::CHECKSUM_END..])
    }

    /// Decodes a copy of the superblock.
    ///
    /// # Errors
    /// Returns the fault if the bytes are not a superblock of this version.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, Fault> {
        let bytes = bytes.get(..SUPERBLOCK_SIZE).ok_or(Fault::Short)?;
        let mut get = wire::open(bytes, MAGIC)?;
        get.u32()?;
        match get.u32()? {
            VERSION => {}
            version => return Err(Fault::Version(version)),
        }
        wire::verify(bytes)?;
        let (sequence, volume) = (get.u64()?, get.array()?);
        let (member, count, replicas) = (get.u8()?, get.u8()?, get.u8()?);
        let checksum = Checksum::from_byte(get.u8()?).ok_or(Fault::Field("checksum"))?;
        let compression = decode_compression(&mut get)?;
        let is_encrypted = get.u16()?;
        let (block, bucket, checksum_block) = (get.u32()?, get.u32()?, get.u32()?);
        let (extent_max, journal_buckets, size) = (get.u32()?, get.u32()?, get.u64()?);
        let root = decode_root(&mut get)?;
        let key_changes = get.u32()?;
        let key = decode_key(&mut get, is_encrypted)?;
        let mac = get.array()?;
        if usize::from(count) > MEMBERS_MAX || member >= count {
            return Err(Fault::Field("members"));
        }
        let background_compression = decode_compression(&mut get)?;
        let (changes, clock, newest_checkpoint) = (get.u64()?, get.u64()?, get.u64()?);
        let targets = Targets {
            foreground: decode_label(&mut get)?,
            background: decode_label(&mut get)?,
            promote: decode_label(&mut get)?,
            metadata: decode_label(&mut get)?,
        };
        let members = (0..count).map(|_| MemberEntry::decode(&mut get)).collect::<Result<Vec<_>, _>>()?;
        let (members, seen) = members.into_iter().unzip();
        if get.0.iter().any(|byte| *byte != 0) {
            return Err(Fault::Field("padding"));
        }
        let superblock = Superblock {
            sequence,
            volume,
            member,
            block,
            bucket,
            checksum_block,
            extent_max,
            replicas,
            checksum,
            compression,
            background_compression,
            targets,
            changes,
            clock,
            newest_checkpoint,
            seen,
            size,
            journal_buckets,
            key,
            key_changes,
            mac,
            members,
            root,
        };
        superblock.check().map(|()| superblock)
    }

    /// Checks that the fields are valid and consistent.
    fn check(&self) -> Result<(), Fault> {
        let Superblock { block, bucket, checksum_block, extent_max, .. } = *self;
        let sizes = Sizes { block, bucket, checksum_block, extent_max };
        sizes.check().map_err(|size| Fault::Field(size.name))?;
        let journal = u64::from(self.journal_buckets) * u64::from(self.bucket);
        let at = self.root.journal_at;
        if !limits::journal(bucket).contains(&journal) || at > journal || !at.is_multiple_of(u64::from(block))
        {
            return Err(Fault::Field("journal"));
        }
        let permitted = limits::buckets(self.journal_buckets);
        let mut current = self.members.iter().filter(|member| member.state != MemberState::Removed);
        if !current.all(|member| permitted.contains(&member.buckets)) {
            return Err(Fault::Field("buckets"));
        }
        if !self.members.iter().any(|member| member.metadata) {
            return Err(Fault::Field("metadata members"));
        }
        if self.members[usize::from(self.member)].state == MemberState::Removed {
            return Err(Fault::Field("state of this member"));
        }
        if self.replicas == 0 || usize::from(self.replicas) > POINTERS_MAX {
            return Err(Fault::Field("replicas"));
        }
        if self.counters().any(|counter| counter > COUNTER_MAX) || self.key_changes > KEY_CHANGES_MAX {
            return Err(Fault::Field("counter"));
        }
        let space: u64 = self.members.iter().map(|m| u64::from(m.buckets) * u64::from(self.bucket)).sum();
        let blocks = self.size / u64::from(self.block);
        let is_whole = self.size.is_multiple_of(u64::from(self.block)) && blocks > 0;
        if !is_whole || blocks >= BLOCKS_MAX || self.size / 64 > space {
            return Err(Fault::Field("size"));
        }
        Ok(())
    }

    /// Returns the 64-bit counters, none of which may overflow.
    fn counters(&self) -> impl Iterator<Item = u64> {
        let Superblock { sequence, changes, clock, newest_checkpoint, root, .. } = self;
        let own = [*sequence, *changes, *clock, *newest_checkpoint, root.checkpoint, root.sequence];
        own.into_iter().chain(self.seen.iter().flat_map(|seen| [seen.clock, seen.shared]))
    }
}

/// Largest valid value of a counter. No volume lives long enough to reach it, so further steps never
/// overflow.
const COUNTER_MAX: u64 = u64::MAX / 2;
/// Largest number of changes of the passphrase.
const KEY_CHANGES_MAX: u32 = u32::MAX / 2;

fn encode_compression(compressor: Compressor, bytes: &mut Vec<u8>) {
    bytes.u8(compressor.compression() as u8);
    bytes.u8(if let Compressor::Zstd(level) = compressor { level } else { 0 });
}

fn decode_compression(get: &mut Get<'_>) -> Result<Compressor, Fault> {
    let (algorithm, level) = (get.u8()?, get.u8()?);
    match (Compression::from_byte(algorithm), level) {
        (Some(Compression::None), 0) => Ok(Compressor::None),
        (Some(Compression::Lz4), 0) => Ok(Compressor::Lz4),
        (Some(Compression::Zstd), 1..=LEVEL_MAX) => Ok(Compressor::Zstd(level)),
        _ => Err(Fault::Field("compression")),
    }
}

fn decode_root(get: &mut Get<'_>) -> Result<Root, Fault> {
    let (checkpoint, sequence, previous, mount) = (get.u64()?, get.u64()?, get.u32()?, get.u32()?);
    let first = Place::decode(get)?;
    Ok(Root { checkpoint, sequence, previous, mount, first, runs: get.u32()?, journal_at: get.u64()? })
}

fn decode_key(get: &mut Get<'_>, is_encrypted: u16) -> Result<Option<WrappedKey>, Fault> {
    let bytes = get.array()?;
    match is_encrypted {
        0 if bytes == [0; WRAPPED_KEY_LEN] => Ok(None),
        1 => WrappedKey::from_bytes(&bytes).map(Some).map_err(Fault::Key),
        _ => Err(Fault::Field("encryption")),
    }
}
