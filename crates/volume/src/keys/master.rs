//! The master key, from which the keys of epochs are derived with HChaCha20 (draft-irtf-cfrg-xchacha, section 2.2).

use super::{Cipher, EpochKey, EpochSalt};
use chacha20::R20;
use ring::hmac;
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Length of a master key in bytes.
pub const MASTER_KEY_LEN: usize = 32;
/// Length of the authentication code of a superblock in bytes.
pub const MAC_LEN: usize = 32;

/// Salt from which the key that authenticates superblocks is derived. Salts of epochs are random, so none has this
/// value.
const SUPERBLOCK_SALT: &EpochSalt = b"superblock's MAC";

/// The random key of a volume. It is overwritten when it is dropped.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct MasterKey([u8; MASTER_KEY_LEN]);

impl MasterKey {
    /// Creates the key from random bytes and overwrites the argument.
    pub fn from_random(bytes: &mut [u8; MASTER_KEY_LEN]) -> MasterKey {
        let key = MasterKey(*bytes);
        bytes.zeroize();
        key
    }

    /// Derives the key of the epoch with this salt.
    pub fn epoch(&self, cipher: Cipher, salt: &EpochSalt) -> EpochKey {
        EpochKey::new(cipher, &self.subkey(salt))
    }

    /// Returns the authentication code of a superblock.
    pub(super) fn authenticate(&self, superblock: &[u8]) -> [u8; MAC_LEN] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &*self.subkey(SUPERBLOCK_SALT));
        hmac::sign(&key, superblock).as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    fn subkey(&self, salt: &[u8; 16]) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(chacha20::hchacha::<R20>(&self.0.into(), &(*salt).into()).into())
    }

    pub(super) fn bytes(&self) -> &[u8; MASTER_KEY_LEN] {
        &self.0
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::hex;

    #[test]
    fn epoch_keys_derive_as_in_the_xchacha_draft() {
        // Section 2.2.1.
        let mut key: [u8; 32] = std::array::from_fn(|n| n as u8);
        let master = MasterKey::from_random(&mut key);
        assert_eq!(key, [0; 32], "the argument is overwritten");
        let salt = hex("000000090000004a0000000031415927").try_into().expect("16 bytes");
        let expected = hex("82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc");
        assert_eq!(master.subkey(&salt).to_vec(), expected);
        assert_eq!(format!("{master:?}"), "MasterKey");
    }
}
