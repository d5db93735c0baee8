//! The key of an encrypted volume that is being opened.

use super::open::Found;
use crate::VolumeError;
use crate::format::Superblock;
use crate::keys::{KeyError, Keyring, Passphrase, WrappedKey};

/// Returns the keyring of an encrypted volume, and `None` without encryption. Verifies the superblocks.
///
/// A volume without encryption does not open with a passphrase: somebody may have put it in the place of an
/// encrypted volume, and it would store further data in clear text.
///
/// An interrupted change of the passphrase leaves members with the old and with the new wrapped key. The volume then
/// opens with either passphrase, and all superblocks in `found` get the new wrapped key, so that opening for writing
/// completes the change.
pub(super) fn unlock(
    found: &mut [Found],
    passphrase: Option<&Passphrase>,
) -> Result<Option<Keyring>, VolumeError> {
    let mut wrapped: Vec<(u32, &WrappedKey)> = Vec::new();
    for Superblock { key, key_changes, .. } in found.iter().map(|found| &found.superblock) {
        let Some(key) = key else {
            let plain = passphrase.is_none().then_some(None);
            return plain.ok_or(VolumeError::Key(KeyError::NotEncrypted));
        };
        if !wrapped.contains(&(*key_changes, key)) {
            wrapped.push((*key_changes, key));
        }
    }
    wrapped.sort_by_key(|(changes, _)| std::cmp::Reverse(*changes));
    let passphrase = passphrase.ok_or(VolumeError::Key(KeyError::NotAvailable))?;
    let volume = found[0].superblock.volume;
    let mut error = KeyError::WrongPassphrase;
    let keyring = wrapped.into_iter().find_map(|(_, key)| match key.unwrap(&volume, passphrase) {
        Ok(master) => Some(Keyring::new(master, key.cipher())),
        Err(other) => {
            // Any other error says more than a wrong passphrase, which is normal for one of two wrapped keys.
            error = if error == KeyError::WrongPassphrase { other } else { error };
            None
        }
    });
    let keyring = keyring.ok_or(VolumeError::Key(error))?;
    if let Some(forged) = found.iter().find(|found| !found.superblock.is_authentic(&keyring)) {
        return Err(VolumeError::NotAuthentic { member: forged.given });
    }
    let newest = found.iter().map(|found| &found.superblock).max_by_key(|superblock| superblock.key_changes);
    let newest = newest.expect("a volume has a member");
    let (key, key_changes) = (newest.key.clone(), newest.key_changes);
    for Found { superblock, .. } in found {
        (superblock.key, superblock.key_changes) = (key.clone(), key_changes);
    }
    Ok(Some(keyring))
}
