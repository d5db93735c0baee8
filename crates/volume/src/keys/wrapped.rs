//! The master key as the superblock stores it: encrypted under a key that is derived from the passphrase.
//!
//! ```text
//! offset length
//!      0      1  version, 1
//!      1      1  key derivation function: 1 Argon2id, 2 scrypt
//!      2      1  cipher of the volume's data: 1 ChaCha20-Poly1305, 2 AES-256-GCM
//!      3      1  zero
//!      4      4  Argon2id: memory in KiB    scrypt: log2 N
//!      8      4  Argon2id: passes           scrypt: r
//!     12      4  Argon2id: lanes            scrypt: p
//!     16     32  salt, random
//!     48     32  master key, encrypted
//!     80     16  authentication tag
//! ```
//!
//! Numbers are little-endian. The master key is sealed with ChaCha20-Poly1305 and a nonce of zeroes: the salt is random
//! for every wrapping, so the key of the cipher is used only once. The tag also covers the identifier of the volume and
//! the bytes before the encrypted key, so nobody can replace the cipher, the costs or the volume unnoticed.

use super::cipher::CipherKey;
use super::{Cipher, Kdf, KeyError, MASTER_KEY_LEN, MasterKey, Passphrase, SALT_LEN, TAG_LEN, Tag};
use zeroize::Zeroizing;

/// Length of a wrapped key in bytes.
pub const WRAPPED_KEY_LEN: usize = 96;

const VERSION: u8 = 1;
const HEAD_LEN: usize = 16 + SALT_LEN;
const KEY_END: usize = HEAD_LEN + MASTER_KEY_LEN;

/// A master key, wrapped under a passphrase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrappedKey {
    kdf: Kdf,
    cipher: Cipher,
    salt: [u8; SALT_LEN],
    key: [u8; MASTER_KEY_LEN],
    tag: Tag,
}

impl WrappedKey {
    /// Wraps a master key. `salt` is random, and new for every call.
    ///
    /// # Errors
    /// Returns [`KeyError::Cost`] if a cost is not permitted, and [`KeyError::OutOfMemory`] if there is too little
    /// memory for Argon2id.
    pub fn wrap(
        master: &MasterKey,
        cipher: Cipher,
        volume: &[u8; 16],
        passphrase: &Passphrase,
        kdf: Kdf,
        salt: [u8; SALT_LEN],
    ) -> Result<WrappedKey, KeyError> {
        let mut wrapped = WrappedKey { kdf, cipher, salt, key: [0; MASTER_KEY_LEN], tag: [0; TAG_LEN] };
        let wrapping = CipherKey::new(Cipher::ChaCha20Poly1305, &*kdf.derive(passphrase, &salt)?);
        let mut key = Zeroizing::new(*master.bytes());
        wrapped.tag = wrapping.seal([0; 12], &wrapped.associated(volume), &mut *key);
        wrapped.key = *key;
        Ok(wrapped)
    }

    /// Returns the master key.
    ///
    /// # Errors
    /// Returns [`KeyError::WrongPassphrase`] if the passphrase is wrong, or if the wrapped key was changed or belongs
    /// to another volume. The other errors are those of [`WrappedKey::wrap`].
    pub fn unwrap(&self, volume: &[u8; 16], passphrase: &Passphrase) -> Result<MasterKey, KeyError> {
        let wrapping = CipherKey::new(Cipher::ChaCha20Poly1305, &*self.kdf.derive(passphrase, &self.salt)?);
        let mut key = Zeroizing::new(self.key);
        if !wrapping.open([0; 12], &self.associated(volume), &mut *key, &self.tag) {
            return Err(KeyError::WrongPassphrase);
        }
        Ok(MasterKey::from_random(&mut key))
    }

    /// Returns the cipher of the volume's data.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Returns the key derivation function and its costs.
    pub fn kdf(&self) -> Kdf {
        self.kdf
    }

    /// Returns the bytes for the superblock.
    pub fn to_bytes(&self) -> [u8; WRAPPED_KEY_LEN] {
        let mut bytes = [0; WRAPPED_KEY_LEN];
        bytes[..HEAD_LEN].copy_from_slice(&self.head());
        bytes[HEAD_LEN..KEY_END].copy_from_slice(&self.key);
        bytes[KEY_END..].copy_from_slice(&self.tag);
        bytes
    }

    /// Reads a wrapped key from a superblock.
    ///
    /// # Errors
    /// Returns [`KeyError::Unknown`] for a field that this version does not know, and [`KeyError::Cost`] for a cost that
    /// is not permitted.
    pub fn from_bytes(bytes: &[u8; WRAPPED_KEY_LEN]) -> Result<WrappedKey, KeyError> {
        let unknown = |field, value| KeyError::Unknown { field, value };
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[0] != VERSION {
            return Err(unknown("version", bytes[0]));
        }
        let kdf = match bytes[1] {
            1 => Kdf::Argon2id { memory_kib: number(4), passes: number(8), lanes: number(12) },
            2 => {
                let log_n = u8::try_from(number(4)).unwrap_or(u8::MAX);
                Kdf::Scrypt { log_n, r: number(8), p: number(12) }
            }
            other => return Err(unknown("key derivation function", other)),
        };
        kdf.check()?;
        let cipher = Cipher::from_byte(bytes[2]).ok_or(unknown("cipher", bytes[2]))?;
        if bytes[3] != 0 {
            return Err(unknown("reserved byte", bytes[3]));
        }
        let mut wrapped =
            WrappedKey { kdf, cipher, salt: [0; SALT_LEN], key: [0; MASTER_KEY_LEN], tag: [0; TAG_LEN] };
        wrapped.salt.copy_from_slice(&bytes[16..HEAD_LEN]);
        wrapped.key.copy_from_slice(&bytes[HEAD_LEN..KEY_END]);
        wrapped.tag.copy_from_slice(&bytes[KEY_END..]);
        Ok(wrapped)
    }

    fn head(&self) -> [u8; HEAD_LEN] {
        let (kdf, costs) = match self.kdf {
            Kdf::Argon2id { memory_kib, passes, lanes } => (1, [memory_kib, passes, lanes]),
            Kdf::Scrypt { log_n, r, p } => (2, [log_n.into(), r, p]),
        };
        let mut head = [0; HEAD_LEN];
        head[..3].copy_from_slice(&[VERSION, kdf, self.cipher as u8]);
        for (field, cost) in head[4..16].chunks_exact_mut(4).zip(costs) {
            field.copy_from_slice(&cost.to_le_bytes());
        }
        head[16..].copy_from_slice(&self.salt);
        head
    }

    fn associated(&self, volume: &[u8; 16]) -> Vec<u8> {
        [&volume[..], &self.head()].concat()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUICK: [Kdf; 2] =
        [Kdf::Argon2id { memory_kib: 16, passes: 1, lanes: 2 }, Kdf::Scrypt { log_n: 4, r: 1, p: 2 }];

    fn passphrase(text: &str) -> Passphrase {
        Passphrase::new(text.as_bytes()).expect("not empty")
    }

    fn master() -> MasterKey {
        MasterKey::from_random(&mut [9; 32])
    }

    #[test]
    fn the_master_key_comes_back_with_its_passphrase_and_volume_only() {
        for kdf in QUICK {
            let wrapped =
                WrappedKey::wrap(&master(), Cipher::Aes256Gcm, &[1; 16], &passphrase("right"), kdf, [5; 32]);
            let wrapped = wrapped.expect("permitted costs");
            let read = WrappedKey::from_bytes(&wrapped.to_bytes()).expect("own bytes");
            assert_eq!((read.cipher(), read.kdf()), (Cipher::Aes256Gcm, kdf));
            assert_eq!(read, wrapped);
            assert_eq!(read.unwrap(&[1; 16], &passphrase("right")), Ok(master()));
            assert_eq!(read.unwrap(&[1; 16], &passphrase("wrong")), Err(KeyError::WrongPassphrase));
            assert_eq!(read.unwrap(&[2; 16], &passphrase("right")), Err(KeyError::WrongPassphrase));
        }
        let text = KeyError::WrongPassphrase.to_string();
        assert!(text.starts_with("required key not available"), "{text}");
    }

    #[test]
    fn each_changed_byte_of_a_wrapped_key_is_an_error() {
        let right = passphrase("right");
        for kdf in QUICK {
            let wrapped = WrappedKey::wrap(&master(), Cipher::default(), &[1; 16], &right, kdf, [5; 32])
                .expect("costs");
            // A change in the high bytes of a cost would be refused, or make the derivation take seconds.
            for at in (0..WRAPPED_KEY_LEN).filter(|at| !(4..16).contains(at) || at % 4 == 0) {
                let mut bytes = wrapped.to_bytes();
                bytes[at] ^= 3;
                let opened = WrappedKey::from_bytes(&bytes).and_then(|key| key.unwrap(&[1; 16], &right));
                assert!(opened.is_err(), "byte {at}");
            }
        }
    }
}
