//! Formatting, opening and closing of a volume.

use super::changes::Changes;
use super::codec::{Codec, CodecCosts};
use super::commit::Journal;
use super::gate::Gate;
use super::health::Health;
use super::numbers::Numbers;
use super::promotions::Promotions;
use super::statistics::{CacheReads, Statistics};
use super::storing::Writes;
use super::unflushed::Unflushed;
use super::unlock::unlock;
use super::{Core, Inner, State, Volume};
use crate::extent::{Extent, ExtentState};
use crate::format::{
    MemberEntry, MemberState, Record, Root, SUPERBLOCK_SIZE, Seen, Superblock, copy_offsets,
};
use crate::keys::{EpochSalt, Keyring, MAC_LEN, Passphrase, WrappedKey};
use crate::layout::{self, Layout};
use crate::member::{self, Member};
use crate::member_set::MemberSet;
use crate::membership::{self, Standing};
use crate::recover::{Recovered, recover};
use crate::{MissingMember, NewMember, Options, VolumeError};
use flashlab_block::{BlockDevice, Context, IoError, Payload};
use flashlab_sim::fault;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

/// Options of opening a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Rejects writes, and changes nothing on the members.
    pub read_only: bool,
    /// Random salt of the mount. The engine has no source of randomness of its own.
    pub salt: EpochSalt,
    /// Passphrase of an encrypted volume. A volume without encryption does not open with a passphrase.
    pub passphrase: Option<Passphrase>,
    /// Rule for opening the volume without some of its members.
    pub degraded: Degraded,
    /// Costs of codecs in a simulation; `None` for a live volume.
    pub codec: Option<CodecCosts>,
}

/// Rule for opening a volume when members are missing, unreadable or stale.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Degraded {
    /// The volume does not open.
    #[default]
    Refuse,
    /// The volume opens if all data has a copy on the present members.
    Yes,
    /// The volume opens even if data is missing. Reads of this data fail.
    Very,
}

impl std::str::FromStr for Degraded {
    type Err = String;

    fn from_str(text: &str) -> Result<Degraded, String> {
        match text {
            "refuse" => Ok(Degraded::Refuse),
            "yes" => Ok(Degraded::Yes),
            "very" => Ok(Degraded::Very),
            _ => Err(format!("{text}: refuse, yes or very is needed")),
        }
    }
}

/// A member of a volume that is being opened.
pub(super) struct Found {
    /// Index of the device in the list that the caller passed.
    pub(super) given: usize,
    device: Arc<dyn BlockDevice>,
    pub(super) superblock: Superblock,
}

impl Volume {
    /// Makes the devices members of a new volume. All their contents are lost.
    ///
    /// # Errors
    /// Returns [`VolumeError`] if an option is out of range, or if a member is too small or fails. Members may then have
    /// lost their contents.
    pub async fn format(cx: &Context, members: &[NewMember], options: &Options) -> Result<(), VolumeError> {
        let (layout, entries) = layout::plan(members, options)?;
        let (key, keyring) = new_keys(options)?;
        for (n, member) in members.iter().enumerate() {
            let superblock = Superblock {
                sequence: 1,
                volume: layout.volume,
                member: n as u8,
                block: layout.block,
                bucket: layout.bucket,
                checksum_block: layout.unit,
                extent_max: layout.extent_max,
                replicas: layout.replicas,
                checksum: layout.checksum,
                compression: layout.compression,
                background_compression: layout.background_compression,
                targets: options.targets.clone(),
                changes: 0,
                clock: 0,
                newest_checkpoint: 0,
                seen: vec![Seen::default(); entries.len()],
                size: layout.size,
                journal_buckets: layout.journal_buckets,
                key: key.clone(),
                key_changes: 0,
                mac: [0; MAC_LEN],
                members: entries.clone(),
                root: Root {
                    checkpoint: 0,
                    sequence: 0,
                    previous: 0,
                    mount: 0,
                    first: None,
                    runs: 0,
                    journal_at: 0,
                },
            };
            let written = member::write_superblock(&*member.device, cx, &superblock, keyring.as_ref()).await;
            written.map_err(|error| VolumeError::Member { member: n, error })?;
        }
        Ok(())
    }

    /// Opens a volume. The order of its members is arbitrary.
    ///
    /// # Errors
    /// Returns [`VolumeError`] if members are missing, foreign or damaged, or if the key of an encrypted volume is not
    /// available.
    pub async fn open(
        cx: &Context,
        devices: &[Arc<dyn BlockDevice>],
        mut options: OpenOptions,
    ) -> Result<Volume, VolumeError> {
        if fault("volume-repeats-a-salt") {
            options.salt = [1; 16];
        }
        let mut found = find(cx, devices, options.degraded).await?;
        if options.degraded == Degraded::Refuse {
            check_present(&found)?;
        }
        let unlocked = unlock(&mut found, options.passphrase.as_ref())?;
        let Assembled { found, table, behind, newest_checkpoint } =
            assemble_members(found, options.degraded)?;
        let layout = Layout::of(&table);
        let member = |(n, entry): (usize, &MemberEntry)| match &found[n] {
            Some(Found { device, .. }) => {
                Member { device: device.clone(), entry: entry.clone(), present: true }
            }
            None => Member::absent(entry.clone()),
        };
        let members: Vec<Member> = table.members.iter().enumerate().map(member).collect();
        let root = |(n, found): (usize, &Option<Found>)| {
            found.as_ref().filter(|_| !behind.contains(n)).map(|found| found.superblock.root)
        };
        let roots: Vec<Option<Root>> = found.iter().enumerate().map(root).collect();
        let mut recovered =
            recover(cx, layout, &members, (&roots, newest_checkpoint), unlocked.as_ref()).await?;
        check_missing(&layout, &members, &recovered, options.degraded)?;
        if !options.read_only {
            let next = recovered.mount.checked_add(1);
            let exhausted = || VolumeError::Damaged("the mount numbers are exhausted".into());
            recovered.mount = next.ok_or_else(exhausted)?;
        }
        let keyring = unlocked.map(|keyring| with_epochs(keyring, &recovered, &options)).transpose()?;
        let read_only = options.read_only;
        // Another member may take the place of a missing one that has a journal.
        let is_gap = |(found, entry): (&Option<Found>, &MemberEntry)| found.is_none() && entry.metadata;
        let has_gap = found.iter().zip(&table.members).any(is_gap);
        let incomplete = recovered.incomplete || !behind.is_empty() || has_gap;
        let journal = Journal::open(&recovered, superblocks(&found, &table), behind, &found);
        let unreadable = std::mem::take(&mut recovered.unreadable);
        let inner = Inner::new(layout, members, recovered, journal, (keyring, &options));
        if !read_only {
            inner.overwrite_journals(cx, &unreadable).await;
            inner.begin_epoch(cx, options.salt, incomplete).await?;
        }
        Ok(Volume { gate: Arc::new(Gate::new(inner)) })
    }

    /// Makes all changes durable, and stores a checkpoint if there is room for one, so that the next opening replays no
    /// journal.
    ///
    /// # Errors
    /// Returns the error of the member that failed. Flushed data is safe even then.
    pub async fn close(&self, cx: &Context) -> Result<(), IoError> {
        let inner = self.gate.pass().await;
        if inner.read_only { Ok(()) } else { inner.checkpoint(cx).await.map(drop) }
    }
}

/// Wraps the master key of a new volume. Returns the wrapped key and the keyring.
fn new_keys(options: &Options) -> Result<(Option<WrappedKey>, Option<Keyring>), VolumeError> {
    let Some(new) = &options.encryption else { return Ok((None, None)) };
    let wrapped =
        WrappedKey::wrap(&new.master, new.cipher, &options.volume, &new.passphrase, new.kdf, new.salt);
    let wrapped = wrapped.map_err(VolumeError::Key)?;
    Ok((Some(wrapped), Some(Keyring::new(new.master.clone(), new.cipher))))
}

/// Derives the keys of all earlier mounts, and the key of this mount unless it is read-only.
fn with_epochs(
    mut keyring: Keyring,
    recovered: &Recovered,
    options: &OpenOptions,
) -> Result<Keyring, VolumeError> {
    for (mount, salt) in &recovered.salts {
        if !options.read_only && *salt == options.salt && !fault("volume-repeats-a-salt") {
            return Err(VolumeError::Option("salt: an earlier mount had the same random salt".into()));
        }
        keyring.add(*mount, salt);
    }
    if !options.read_only {
        keyring.add(recovered.mount, &options.salt);
    }
    Ok(keyring)
}

/// Reads the superblocks of the devices.
async fn find(
    cx: &Context,
    devices: &[Arc<dyn BlockDevice>],
    degraded: Degraded,
) -> Result<Vec<Found>, VolumeError> {
    let mut found: Vec<Found> = Vec::new();
    let mut unreadable = None;
    for (given, device) in devices.iter().enumerate() {
        let superblock = match member::read_superblock(&**device, cx, given).await {
            Ok((superblock, _)) => superblock,
            Err(error) if degraded == Degraded::Refuse => return Err(error),
            Err(error) => {
                unreadable.get_or_insert(error);
                continue;
            }
        };
        if let Some(first) = found.first()
            && (first.superblock.volume != superblock.volume
                || !Layout::of(&first.superblock).has_same_format(&Layout::of(&superblock)))
        {
            return Err(VolumeError::Foreign { member: given, first: first.given });
        }
        if let Some(other) = found.iter().find(|other| other.superblock.member == superblock.member) {
            return Err(duplicate(other, given, &superblock));
        }
        found.push(Found { given, device: device.clone(), superblock });
    }
    match (found.is_empty(), unreadable) {
        (true, Some(error)) => Err(error),
        (true, None) => Err(VolumeError::Missing { missing: Vec::new(), of: 0 }),
        (false, _) => Ok(found),
    }
}

/// Returns true if a device is a member according to the table of another one.
fn is_member(table: &Superblock, device: &Superblock) -> bool {
    let entry = |superblock: &Superblock| superblock.members.get(usize::from(device.member)).cloned();
    let (entry, own) = (entry(table), entry(device));
    entry
        .is_some_and(|entry| entry.state != MemberState::Removed && own.is_some_and(|own| own.id == entry.id))
}

/// Returns the error for two devices that have the same number in the table of members. The number was given to one of
/// them after the removal of the other one, or they are copies of each other.
fn duplicate(one: &Found, given: usize, other: &Superblock) -> VolumeError {
    let number = other.member;
    let (one, one_given) = (&one.superblock, one.given);
    match one.changes.cmp(&other.changes) {
        Ordering::Less if !is_member(other, one) => VolumeError::Removed { member: one_given, number },
        Ordering::Greater if !is_member(one, other) => VolumeError::Removed { member: given, number },
        _ => VolumeError::Duplicate { member: given },
    }
}

/// Returns the members of the table that were not found.
fn missing_of(table: &[MemberEntry], is_found: impl Fn(usize) -> bool) -> Vec<MissingMember> {
    let is_missing =
        |(n, entry): &(usize, &MemberEntry)| entry.state != MemberState::Removed && !is_found(*n);
    let missing =
        |(n, entry): (usize, &MemberEntry)| MissingMember { number: n as u8, label: entry.label.clone() };
    table.iter().enumerate().filter(is_missing).map(missing).collect()
}

/// Returns the number of members in the table.
fn count(table: &[MemberEntry]) -> usize {
    table.iter().filter(|entry| entry.state != MemberState::Removed).count()
}

/// Checks that no member of an encrypted volume is missing. The check precedes the derivation of a key, which
/// takes a long time.
fn check_present(found: &[Found]) -> Result<(), VolumeError> {
    let table = found.iter().map(|found| &found.superblock).max_by_key(|one| (one.changes, one.clock));
    let Some(table) = table.filter(|table| table.key.is_some()) else { return Ok(()) };
    let is_found = |n: usize| found.iter().any(|found| usize::from(found.superblock.member) == n);
    let missing = missing_of(&table.members, is_found);
    if missing.is_empty() { Ok(()) } else { Err(VolumeError::Missing { missing, of: count(&table.members) }) }
}

/// The members of a volume that is being opened.
struct Assembled {
    /// The present members, in the order of the table.
    found: Vec<Option<Found>>,
    /// The superblock with the current options and table.
    table: Superblock,
    /// Members whose journals are not current.
    behind: MemberSet,
    /// Number of the newest checkpoint that any member knows.
    newest_checkpoint: u64,
}

/// Puts the members into the order of the current table. Leaves out the stale ones.
fn assemble_members(mut found: Vec<Found>, degraded: Degraded) -> Result<Assembled, VolumeError> {
    let given = |found: &[Found], member: u8| {
        let of = found.iter().find(|found| found.superblock.member == member);
        of.map_or(0, |found| found.given)
    };
    let present: Vec<&Superblock> = found.iter().map(|found| &found.superblock).collect();
    let standing = membership::judge(&present);
    let Standing { stale, behind } = standing.map_err(|(a, b)| {
        let (a, b) = (given(&found, a), given(&found, b));
        VolumeError::Diverged { members: (a.min(b), a.max(b)) }
    })?;
    let is = |found: &Found, members: MemberSet| members.contains(found.superblock.member);
    if let Some(stale) = found.iter().find(|found| is(found, stale))
        && degraded == Degraded::Refuse
    {
        let newest = found.iter().map(|found| &found.superblock).max_by_key(|one| one.changes);
        let is_removed = newest.is_some_and(|newest| !is_member(newest, &stale.superblock));
        let (member, number) = (stale.given, stale.superblock.member);
        return Err(match is_removed {
            true => VolumeError::Removed { member, number },
            false => VolumeError::Stale { member },
        });
    }
    found.retain(|found| !is(found, stale));
    let current = found.iter().filter(|found| !is(found, behind)).map(|found| &found.superblock);
    let newest_checkpoint = current.clone().map(|one| one.newest_checkpoint).max().unwrap_or(0);
    let table = current.max_by_key(|one| (one.changes, one.root.checkpoint, one.clock)).cloned();
    let table = table.ok_or_else(|| VolumeError::Damaged("no member has a current state".into()))?;
    let layout = Layout::of(&table);
    let mut places: Vec<Option<Found>> = table.members.iter().map(|_| None).collect();
    for found in found {
        let place = usize::from(found.superblock.member);
        let entry = table.members.get(place).filter(|_| is_member(&table, &found.superblock));
        let removed = || VolumeError::Removed { member: found.given, number: found.superblock.member };
        let entry = entry.ok_or_else(removed)?;
        // The last copy of the superblock lies behind the buckets, at the end of the device.
        let end = layout.bucket_offset(entry.buckets);
        let [.., last_copy] = copy_offsets(found.device.geometry().capacity);
        if last_copy < end {
            if degraded != Degraded::Refuse {
                // The device became too short for the member's buckets, so the member counts as missing.
                continue;
            }
            let needed = end + SUPERBLOCK_SIZE as u64;
            return Err(VolumeError::TooSmall { member: found.given, needed });
        }
        places[place] = Some(found);
    }
    let missing = missing_of(&table.members, |n| places[n].is_some());
    if !missing.is_empty() && degraded == Degraded::Refuse {
        return Err(VolumeError::Missing { missing, of: count(&table.members) });
    }
    Ok(Assembled { found: places, table, behind, newest_checkpoint })
}

/// Checks that all data has a copy on a present member, unless missing data is permitted.
fn check_missing(
    layout: &Layout,
    members: &[Member],
    recovered: &Recovered,
    degraded: Degraded,
) -> Result<(), VolumeError> {
    let table: Vec<MemberEntry> = members.iter().map(|member| member.entry.clone()).collect();
    let missing = missing_of(&table, |n| members[n].present);
    if missing.is_empty() || degraded == Degraded::Very {
        return Ok(());
    }
    let is_lost = |extent: &&Extent| {
        let pointers = extent.pointers();
        let mut durable = pointers.iter().filter(|pointer| !pointer.cached);
        extent.state() != ExtentState::Poisoned
            && !durable.any(|pointer| members[usize::from(pointer.member)].present)
    };
    let blocks: u64 = recovered.map.iter().filter(is_lost).map(|extent| u64::from(extent.length())).sum();
    match blocks * u64::from(layout.block) {
        0 => Ok(()),
        bytes => Err(VolumeError::DataMissing { missing, bytes }),
    }
}

/// Returns a superblock for each place in the table, with the current options. The superblocks of present
/// members keep the fields that belong to the member.
fn superblocks(found: &[Option<Found>], table: &Superblock) -> Vec<Superblock> {
    let superblock = |(n, found): (usize, &Option<Found>)| {
        let current = Superblock { member: n as u8, ..table.clone() };
        match found {
            None => Superblock { clock: 0, ..current },
            Some(Found { superblock: own, .. }) => Superblock {
                sequence: own.sequence,
                clock: own.clock,
                root: own.root,
                key: own.key.clone(),
                key_changes: own.key_changes,
                ..current
            },
        }
    };
    found.iter().enumerate().map(superblock).collect()
}

impl Journal {
    fn open(
        recovered: &Recovered,
        superblocks: Vec<Superblock>,
        behind: MemberSet,
        found: &[Option<Found>],
    ) -> Journal {
        let present: Vec<&Superblock> = found.iter().flatten().map(|found| &found.superblock).collect();
        let seen = membership::merge(&present, superblocks.len());
        let absent = found.iter().zip(0u8..).filter(|(found, _)| found.is_none());
        let absent: MemberSet = absent.map(|(_, n)| n).collect();
        Journal {
            sequence: recovered.sequence,
            previous: recovered.previous,
            mount: recovered.mount,
            at: recovered.at,
            used: recovered.used,
            changes: superblocks.first().map_or(0, |superblock| superblock.changes),
            seen,
            lost: behind | absent,
            checkpoint_needs: 0,
            renew: false,
            checkpoint_buckets: recovered.checkpoint_buckets.clone(),
            superblocks,
        }
    }
}

impl Inner {
    /// Creates the engine from the recovered state.
    fn new(
        layout: Layout,
        members: Vec<Member>,
        recovered: Recovered,
        journal: Journal,
        (keyring, options): (Option<Keyring>, &OpenOptions),
    ) -> Inner {
        let read_only = options.read_only;
        let Recovered { map, allocator, salts, faults, has_entries, .. } = recovered;
        let state = State {
            map,
            allocator,
            changes: Changes::default(),
            unflushed: Unflushed::default(),
            health: members.iter().map(|member| Health::new(&member.entry)).collect(),
            faults,
            had_entries: has_entries,
            salts,
            promotions: Promotions::default(),
            lost_copies: Vec::new(),
            stuck: BTreeSet::new(),
            exhausted: None,
            losses: 0,
        };
        let core = Core {
            threads: OnceLock::new(),
            numbers: Numbers::new(journal.mount),
            codec: options.codec.map(Codec::new),
            read_only,
            failing: AtomicU32::new(0),
            journals: AtomicU32::new(0),
            lost_blocks: AtomicU64::new(0),
            flush_failures: AtomicU64::new(0),
            writes: Writes::default(),
            promotable: tokio::sync::Notify::new(),
            requests: AtomicU32::new(0),
            cache_reads: CacheReads::default(),
            state: Mutex::new(state),
            journal: tokio::sync::Mutex::new(journal),
            space: tokio::sync::Mutex::new(()),
        };
        let inner = Inner {
            layout,
            encoding: Arc::new(layout.encoding(keyring)),
            statistics: members.iter().map(|_| Arc::new(Statistics::default())).collect(),
            members,
            core: Arc::new(core),
        };
        inner.update_writable(&mut inner.lock(), None);
        if let Ok(journal) = inner.journal.try_lock() {
            inner.note_journals(&journal);
        }
        inner
    }

    /// Overwrites unreadable blocks of the journals with zeroes, so that they can be read again. Otherwise, a later
    /// opening could not tell such a block from the entry after the last one. A block that cannot be written stays as it
    /// is.
    async fn overwrite_journals(&self, cx: &Context, unreadable: &[(usize, u64)]) {
        let zeroes = Payload::from(vec![0; self.layout.block as usize]);
        for (member, at) in unreadable {
            let offset = self.layout.bucket_offset(0) + at;
            let _ = member::write(&*self.members[*member].device, cx, offset, zeroes.clone()).await;
        }
    }

    /// Writes the superblocks of all present members, and then the salt of the new mount to the journal,
    /// before the first data of the mount.
    async fn begin_epoch(&self, cx: &Context, salt: EpochSalt, checkpoint: bool) -> Result<(), VolumeError> {
        let mut journal = self.journal.lock().await;
        let present: Vec<u8> =
            (0..self.members.len() as u8).filter(|n| self.members[usize::from(*n)].present).collect();
        journal.tick(&present);
        let results = self.write_superblocks(cx, &mut journal, &present).await;
        journal.lose(&present, &results).map_err(VolumeError::Unchangeable)?;
        if results.iter().any(Result::is_err) {
            self.record_members(cx, &mut journal).await.map_err(VolumeError::Unchangeable)?;
        }
        {
            let mut state = self.lock();
            state.changes.begin().map_err(VolumeError::Unchangeable)?;
            let mount = self.numbers.mount();
            state.salts.insert(mount, salt);
            state.changes.record(&Record::Epoch { mount, salt });
            state.changes.end();
        }
        self.commit_batch(cx, &mut journal, checkpoint).await.map_err(VolumeError::Unchangeable)
    }
}
