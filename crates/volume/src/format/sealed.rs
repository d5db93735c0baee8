//! Encryption of the records in journal entries and runs of checkpoints.
//!
//! The last 40 bytes of the header describe the encryption; they are zero in a volume without encryption:
//!
//! ```text
//! length
//!      8  number of the message, unique within its mount
//!     16  salt of the mount
//!     16  authentication tag of the header before these fields, without magic number and checksum, and of the records
//! ```
//!
//! The salt determines the key, so a reader needs only the master key. The first entry of a mount, which
//! records the salt, is itself sealed with the key from this salt.

use super::Fault;
use super::wire::CHECKSUM_END;
use crate::keys::{Keyring, Nonce, Purpose, TAG_LEN};
use flashlab_sim::fault;

/// Length of the fields of the encryption.
pub(super) const SEAL_LEN: usize = 8 + 16 + TAG_LEN;

/// Keys and numbers with which a structure is sealed.
#[derive(Clone, Copy, Debug)]
pub struct SealWith<'a> {
    /// Keys of the volume, including the key of the mount.
    pub keyring: &'a Keyring,
    /// Number of the mount.
    pub mount: u32,
    /// Number of the message. No two structures of the mount have the same number.
    pub number: u64,
}

/// Seals the records after a header of `header` bytes.
pub(super) fn seal(bytes: &mut [u8], header: usize, purpose: Purpose, with: Option<SealWith<'_>>) {
    let Some(SealWith { keyring, mount, number }) = with else { return };
    let (head, records) = bytes.split_at_mut(header);
    let (head, fields) = head.split_at_mut(header - SEAL_LEN);
    let (key, salt) = keyring.get_with_salt(mount).expect("a mount begins with its key");
    let tag = key.seal(Nonce { purpose, part: 0, number }, &head[CHECKSUM_END..], records);
    fields[..8].copy_from_slice(&number.to_le_bytes());
    fields[8..24].copy_from_slice(salt);
    fields[24..].copy_from_slice(&tag);
}

/// Returns the records after a header of `header` bytes. An encrypted volume needs its `keyring`.
pub(super) fn open(
    bytes: &[u8],
    header: usize,
    purpose: Purpose,
    keyring: Option<&Keyring>,
) -> Result<Vec<u8>, Fault> {
    let (head, records) = bytes.split_at(header);
    let mut records = records.to_vec();
    let Some(keyring) = keyring else { return Ok(records) };
    let (head, fields) = head.split_at(header - SEAL_LEN);
    let (number, fields) = fields.split_first_chunk().expect("the fields have a fixed length");
    let (salt, tag) = fields.split_first_chunk().expect("the fields have a fixed length");
    let nonce = Nonce { purpose, part: 0, number: u64::from_le_bytes(*number) };
    let (key, tag) = (keyring.derive(salt), tag.try_into().expect("the fields end with the tag"));
    if fault("volume-ignores-tags-of-the-journal") {
        // The ciphers are stream ciphers: a second encryption decrypts.
        key.seal(nonce, &[], &mut records);
        return Ok(records);
    }
    let is_authentic = key.open(nonce, &head[CHECKSUM_END..], &mut records, tag);
    if is_authentic { Ok(records) } else { Err(Fault::NotAuthentic) }
}
