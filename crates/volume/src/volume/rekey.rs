//! A new passphrase for an open volume.

use super::{Inner, Volume};
use crate::VolumeError;
use crate::encode::Encoding;
use crate::keys::{Kdf, KeyError, Passphrase, SALT_LEN, WrappedKey};
use flashlab_block::{Context, IoError};
use flashlab_sim::fault;

/// Estimated time of a derivation of a key, which is at least tens of milliseconds at the default costs.
const DERIVATION_NS: u64 = 50_000_000;

impl Volume {
    /// Wraps the master key under a new passphrase, and overwrites every copy of the old wrapped key on every member.
    /// Devices that were removed keep their copies if [`Volume::remove`] could not overwrite them. `salt` is random,
    /// and new for every call. The data is not encrypted anew: somebody who knew the old passphrase and has a copy of
    /// the old superblock can still read it.
    ///
    /// After a power loss during the change, the volume opens with the old or the new passphrase, or with
    /// both. If a superblock has the new key, opening for writing completes the change.
    ///
    /// # Errors
    /// Returns [`VolumeError::Key`] if the volume is not encrypted or if a cost of the KDF is not permitted,
    /// and [`VolumeError::Missing`] if a member is missing. Returns [`VolumeError::Unchangeable`] if the
    /// volume is read-only, and [`VolumeError::Member`] if a member cannot be written. After a failed write,
    /// the old or the new passphrase opens the volume, or both.
    pub async fn rekey(
        &self,
        cx: &Context,
        passphrase: &Passphrase,
        kdf: Kdf,
        salt: [u8; SALT_LEN],
    ) -> Result<(), VolumeError> {
        let current = self.gate.current();
        current.check_rekey()?;
        // The derivation takes long, so it runs outside the gate and the lock of the journal. Other requests
        // and changes of the volume continue.
        let (volume, passphrase) = (current.layout.volume, passphrase.clone());
        let wrap = move |how: &Encoding| {
            let keyring = how.keyring.as_ref().ok_or(KeyError::NotEncrypted)?;
            WrappedKey::wrap(keyring.master(), keyring.cipher(), &volume, &passphrase, kdf, salt)
        };
        let key = current.compute(DERIVATION_NS, wrap).await.map_err(VolumeError::Key)?;
        let inner = self.gate.pass().await;
        inner.check_rekey()?;
        let mut journal = inner.journal.lock().await;
        let is_there = |n: usize| inner.members[n].present;
        for (_, superblock) in journal.superblocks.iter_mut().enumerate().filter(|(n, _)| is_there(*n)) {
            superblock.sequence += 1;
            superblock.key_changes += 1;
            superblock.key = Some(key.clone());
        }
        let last = journal.superblocks.len() - usize::from(fault("volume-keeps-an-old-key"));
        for (n, superblock) in journal.superblocks.iter().enumerate().take(last).filter(|(n, _)| is_there(*n))
        {
            let written = inner.write_superblock(cx, superblock).await;
            written.map_err(|error| VolumeError::Member { member: n, error })?;
        }
        Ok(())
    }
}

impl Inner {
    /// Checks that the passphrase can be changed.
    fn check_rekey(&self) -> Result<(), VolumeError> {
        if self.encoding.keyring.is_none() {
            return Err(VolumeError::Key(KeyError::NotEncrypted));
        }
        if self.read_only {
            return Err(VolumeError::Unchangeable(IoError::ReadOnly));
        }
        // The old passphrase would still open the missing members.
        match self.missing() {
            (_, missing) if missing.is_empty() => Ok(()),
            (of, missing) => Err(VolumeError::Missing { missing, of }),
        }
    }
}
