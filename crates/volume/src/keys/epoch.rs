//! Epochs: each mount of an encrypted volume writes under a key of its own.
//!
//! Invariant: no pair of key and nonce seals two messages. A nonce consists of the purpose (1 byte), the part of the
//! message (3 bytes) and a number (8 bytes, little-endian) that the caller never repeats within an epoch.

use super::cipher::CipherKey;
use super::{Cipher, MAC_LEN, MasterKey, Tag};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Kind of the sealed bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Purpose {
    /// A unit of an extent, or a whole compressed extent; the number is that of the write.
    Extent = 0,
    /// An entry of the journal; the number counts the entries and runs that the epoch sealed.
    Journal = 1,
    /// A run of a checkpoint; its number is from the same count.
    Checkpoint = 2,
}

/// Nonce of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Nonce {
    /// Kind of the message.
    pub purpose: Purpose,
    /// Index of the part, below 2^24.
    pub part: u32,
    /// Number of the message, unique for this purpose within the epoch.
    pub number: u64,
}

impl Nonce {
    /// # Panics
    /// Panics if the part does not fit into its field, because nonces would repeat.
    fn to_bytes(self) -> [u8; 12] {
        assert!(self.part < 1 << 24, "part {} of a message", self.part);
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&((self.purpose as u32) << 24 | self.part).to_be_bytes());
        bytes[4..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }
}

/// Key of one epoch.
pub struct EpochKey(CipherKey);

impl EpochKey {
    pub(super) fn new(cipher: Cipher, key: &[u8; 32]) -> EpochKey {
        EpochKey(CipherKey::new(cipher, key))
    }

    /// Encrypts `bytes` in place and returns the tag, which also covers `associated`.
    pub fn seal(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8]) -> Tag {
        self.0.seal(nonce.to_bytes(), associated, bytes)
    }

    /// Decrypts `bytes` in place. Returns false if they are not the bytes that were sealed with this key, nonce and
    /// associated data; the contents of `bytes` are then unspecified.
    #[must_use]
    pub fn open(&self, nonce: Nonce, associated: &[u8], bytes: &mut [u8], tag: &Tag) -> bool {
        self.0.open(nonce.to_bytes(), associated, bytes, tag)
    }
}

impl fmt::Debug for EpochKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EpochKey").field(&self.0).finish()
    }
}

/// The keys of the epochs of a volume, by the number of the epoch. A copy shares the keys.
#[derive(Clone, Debug)]
pub struct Keyring {
    master: Arc<MasterKey>,
    cipher: Cipher,
    epochs: BTreeMap<u32, (EpochSalt, Arc<EpochKey>)>,
}

/// Random salt of an epoch.
pub type EpochSalt = [u8; 16];

impl Keyring {
    /// Creates a keyring without epochs.
    pub fn new(master: MasterKey, cipher: Cipher) -> Keyring {
        Keyring { master: Arc::new(master), cipher, epochs: BTreeMap::new() }
    }

    /// Derives the key of an epoch and adds it.
    pub fn add(&mut self, epoch: u32, salt: &EpochSalt) {
        self.epochs.insert(epoch, (*salt, Arc::new(self.derive(salt))));
    }

    /// Returns the key of an epoch, or `None` if the epoch was not added.
    pub fn get(&self, epoch: u32) -> Option<&EpochKey> {
        self.epochs.get(&epoch).map(|(_, key)| &**key)
    }

    /// Returns the key of an epoch and its salt, or `None` if the epoch was not added.
    pub fn get_with_salt(&self, epoch: u32) -> Option<(&EpochKey, &EpochSalt)> {
        self.epochs.get(&epoch).map(|(salt, key)| (&**key, salt))
    }

    /// Derives the key of the epoch with this salt, without adding it.
    pub fn derive(&self, salt: &EpochSalt) -> EpochKey {
        self.master.epoch(self.cipher, salt)
    }

    /// Returns the authentication code of a superblock: HMAC-SHA256 under a key that derives from the master key.
    pub fn authenticate(&self, superblock: &[u8]) -> [u8; MAC_LEN] {
        self.master.authenticate(superblock)
    }

    /// Returns the cipher of all epochs.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Returns the master key, so that a new passphrase can wrap it.
    pub fn master(&self) -> &MasterKey {
        &self.master
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_opens_only_in_its_epoch_under_its_own_nonce() {
        let mut keyring = Keyring::new(MasterKey::from_random(&mut [3; 32]), Cipher::ChaCha20Poly1305);
        keyring.add(1, &[1; 16]);
        keyring.add(2, &[2; 16]);
        let nonce = Nonce { purpose: Purpose::Journal, part: 0, number: 7 };
        let mut sealed = *b"entry";
        let tag = keyring.get(1).expect("added").seal(nonce, b"", &mut sealed);
        let opens =
            |epoch, nonce| keyring.get(epoch).expect("added").open(nonce, b"", &mut sealed.clone(), &tag);
        assert!(opens(1, nonce));
        assert!(!opens(2, nonce));
        assert!(!opens(1, Nonce { purpose: Purpose::Checkpoint, ..nonce }));
        assert!(!opens(1, Nonce { part: 1, ..nonce }));
        assert!(!opens(1, Nonce { number: 8, ..nonce }));
        assert!(keyring.get(3).is_none());
    }

    #[test]
    #[should_panic(expected = "part 16777216 of a message")]
    fn a_part_that_would_repeat_a_nonce_is_refused() {
        Nonce { purpose: Purpose::Extent, part: 1 << 24, number: 0 }.to_bytes();
    }
}
