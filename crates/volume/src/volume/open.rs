//! Formatting, opening and closing.

use super::commit::Journal;
use super::unlock::unlock;
use super::{Inner, Pending, State, Volume};
use crate::format::{Record, Root, Superblock};
use crate::keys::{EpochSalt, Keyring, MAC_LEN, Passphrase, WrappedKey};
use crate::layout::{self, Layout};
use crate::member::{self, Member};
use crate::recover::{Recovered, recover};
use crate::{NewMember, Options, VolumeError};
use flashlab_block::{BlockDevice, Context, IoError};
use flashlab_sim::fault;
use futures_util::lock::Mutex as AsyncMutex;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// Options of opening a volume.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// Rejects writes, and changes nothing on the members.
    pub read_only: bool,
    /// Random salt of the mount. The engine has no source of randomness of its own.
    pub salt: EpochSalt,
    /// Passphrase of an encrypted volume. A volume without encryption ignores it.
    pub passphrase: Option<Passphrase>,
}

/// A member of a volume that is being opened.
pub(super) struct Found {
    /// Place of the member in the list given.
    pub(super) given: usize,
    device: Arc<dyn BlockDevice>,
    pub(super) superblock: Superblock,
    /// All copies of the superblock agree.
    pub(super) agree: bool,
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
        let mut found = find(cx, devices).await?;
        let unlocked = unlock(&mut found, options.passphrase.as_ref())?;
        let layout = Layout::of(&found[0].superblock);
        let entries = found[0].superblock.members.clone();
        let members: Vec<Member> = found
            .iter()
            .zip(entries)
            .map(|(found, entry)| Member { device: found.device.clone(), entry })
            .collect();
        let roots: Vec<Root> = found.iter().map(|found| found.superblock.root).collect();
        let recovered = recover(cx, layout, &members, &roots, unlocked.as_ref()).await?;
        let keyring = unlocked.map(|keyring| with_epochs(keyring, &recovered, &options)).transpose()?;
        let heal = found.iter().any(|found| !found.agree);
        let superblocks: Vec<Superblock> = found.iter().map(|found| found.superblock.clone()).collect();
        let (inner, incomplete) =
            assemble(layout, members, recovered, superblocks, (keyring, options.read_only));
        if !options.read_only {
            // Only metadata members get new superblocks with a checkpoint.
            inner
                .begin_epoch(cx, options.salt, incomplete || heal)
                .await
                .map_err(|error| VolumeError::Damaged(format!("the journal cannot be written: {error}")))?;
            for (n, found) in found.iter().enumerate() {
                if !found.agree && !inner.members[n].entry.metadata {
                    let written = member::write_superblock(
                        &*found.device,
                        cx,
                        &found.superblock,
                        inner.encoding.keyring.as_ref(),
                    )
                    .await;
                    written.map_err(|error| VolumeError::Member { member: found.given, error })?;
                }
            }
        }
        Ok(Volume { inner: Arc::new(inner) })
    }

    /// Makes all changes durable and stores a checkpoint, so that the next opening replays no journal.
    ///
    /// # Errors
    /// Returns the error of the member that failed. Flushed data is safe even then.
    pub async fn close(&self, cx: &Context) -> Result<(), IoError> {
        if self.inner.read_only { Ok(()) } else { self.inner.checkpoint(cx).await }
    }
}

/// Wraps the master key of a new volume. Returns it in both forms.
fn new_keys(options: &Options) -> Result<(Option<WrappedKey>, Option<Keyring>), VolumeError> {
    let Some(new) = &options.encryption else { return Ok((None, None)) };
    let wrapped =
        WrappedKey::wrap(&new.master, new.cipher, &options.volume, &new.passphrase, new.kdf, new.salt);
    let wrapped = wrapped.map_err(VolumeError::Key)?;
    Ok((Some(wrapped), Some(Keyring::new(new.master.clone(), new.cipher))))
}

/// Derives the keys of all mounts, and that of this one unless it only reads.
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
        keyring.add(recovered.mount + 1, &options.salt);
    }
    Ok(keyring)
}

/// Reads the superblocks and puts the members into the order of their table.
async fn find(cx: &Context, devices: &[Arc<dyn BlockDevice>]) -> Result<Vec<Found>, VolumeError> {
    let mut found: Vec<Found> = Vec::new();
    for (given, device) in devices.iter().enumerate() {
        let (superblock, agree) = member::read_superblock(&**device, cx, given).await?;
        if let Some(first) = found.first()
            && (first.superblock.volume != superblock.volume
                || first.superblock.members != superblock.members
                || Layout::of(&first.superblock) != Layout::of(&superblock))
        {
            return Err(VolumeError::Foreign { member: given });
        }
        if found.iter().any(|other| other.superblock.member == superblock.member) {
            return Err(VolumeError::Duplicate { member: given });
        }
        let layout = Layout::of(&superblock);
        let entry = &superblock.members[usize::from(superblock.member)];
        let needed = layout.bucket_offset(entry.buckets);
        if device.geometry().capacity < needed {
            return Err(VolumeError::TooSmall { member: given, needed });
        }
        found.push(Found { given, device: device.clone(), superblock, agree });
    }
    let Some(first) = found.first() else { return Err(VolumeError::Missing { missing: 0, of: 0 }) };
    let of = first.superblock.members.len();
    if found.len() < of {
        return Err(VolumeError::Missing { missing: of - found.len(), of });
    }
    found.sort_by_key(|found| found.superblock.member);
    Ok(found)
}

/// Assembles the engine from the recovered state. Returns it, and true if a new checkpoint is due.
fn assemble(
    layout: Layout,
    members: Vec<Member>,
    recovered: Recovered,
    superblocks: Vec<Superblock>,
    (keyring, read_only): (Option<Keyring>, bool),
) -> (Inner, bool) {
    let Recovered { map, allocator, salts, mount, sequence, previous, at, used, .. } = recovered;
    let mount = mount + u32::from(!read_only);
    let checkpoint_buckets = recovered.checkpoint_buckets;
    let journal = Journal { sequence, previous, mount, at, used, superblocks, checkpoint_buckets };
    let state = State {
        map,
        allocator,
        pending: Pending::default(),
        position: 0,
        durable: 0,
        // Data that an earlier mount wrote without a flush may not be durable.
        touched: u32::MAX,
        salts,
        failed: None,
    };
    let inner = Inner {
        layout,
        members,
        encoding: layout.encoding(keyring),
        epoch: mount,
        next_write: AtomicU64::new(0),
        seals: AtomicU64::new(0),
        read_only,
        state: Mutex::new(state),
        journal: AsyncMutex::new(journal),
        space: AsyncMutex::new(()),
    };
    (inner, recovered.incomplete)
}

impl Inner {
    /// Writes the salt of a new mount to the journal, before the first data of the mount.
    async fn begin_epoch(&self, cx: &Context, salt: EpochSalt, checkpoint: bool) -> Result<(), IoError> {
        let mut journal = self.journal.lock().await;
        {
            let mut state = self.lock();
            state.change()?;
            let mount = self.epoch;
            state.salts.insert(mount, salt);
            Record::Epoch { mount, salt }.encode(&mut state.pending.records);
            state.end_group();
        }
        self.commit_batch(cx, &mut journal, checkpoint).await
    }
}
