//! The authenticated ciphers: ChaCha20-Poly1305 (RFC 8439) and AES-256-GCM (NIST SP 800-38D), from `ring`.

use ring::aead::{self, LessSafeKey, UnboundKey};
use std::fmt;
use std::hint::black_box;

/// Length of an authentication tag in bytes.
pub const TAG_LEN: usize = 16;

/// Authentication tag of sealed bytes.
pub type Tag = [u8; TAG_LEN];

/// An authenticated cipher with a key of 32 bytes. The number is the byte on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Cipher {
    /// ChaCha20-Poly1305: faster on processors without AES instructions.
    #[default]
    ChaCha20Poly1305 = 1,
    /// AES-256-GCM: faster on processors with instructions for AES and carry-less multiplication.
    Aes256Gcm = 2,
}

impl Cipher {
    /// Returns the cipher with this number, or `None` if the number is unknown.
    pub fn from_byte(byte: u8) -> Option<Cipher> {
        match byte {
            1 => Some(Cipher::ChaCha20Poly1305),
            2 => Some(Cipher::Aes256Gcm),
            _ => None,
        }
    }

    /// Returns the cipher with this name, or `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<Cipher> {
        [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm].into_iter().find(|cipher| cipher.name() == name)
    }

    /// Returns the name of the cipher, as options give it.
    pub fn name(self) -> &'static str {
        match self {
            Cipher::ChaCha20Poly1305 => "chacha20-poly1305",
            Cipher::Aes256Gcm => "aes-256-gcm",
        }
    }

    fn algorithm(self) -> &'static aead::Algorithm {
        match self {
            Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
            Cipher::Aes256Gcm => &aead::AES_256_GCM,
        }
    }
}

/// A cipher with its key. The key is overwritten when it is dropped.
///
/// The caller never seals two messages under the same key with the same nonce.
pub(super) struct CipherKey {
    cipher: Cipher,
    /// Boxed, so that a move of the owner leaves no copy.
    key: Box<LessSafeKey>,
}

impl CipherKey {
    pub(super) fn new(cipher: Cipher, key: &[u8; 32]) -> CipherKey {
        CipherKey { cipher, key: Box::new(expand(cipher, key)) }
    }

    /// Encrypts `bytes` in place and returns the tag, which also covers `associated`.
    pub(super) fn seal(&self, nonce: [u8; 12], associated: &[u8], bytes: &mut [u8]) -> Tag {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, aead::Aad::from(associated), bytes);
        let tag = tag.expect("an extent is far smaller than the 64 GiB that a nonce may cover");
        tag.as_ref().try_into().expect("both ciphers have tags of 16 bytes")
    }

    /// Decrypts `bytes` in place. Returns false, with `bytes` in an unspecified state, if the tag does not agree with
    /// the bytes and with `associated`.
    pub(super) fn open(&self, nonce: [u8; 12], associated: &[u8], bytes: &mut [u8], tag: &Tag) -> bool {
        let nonce = aead::Nonce::assume_unique_for_key(nonce);
        let (associated, tag) = (aead::Aad::from(associated), aead::Tag::from(*tag));
        self.key.open_in_place_separate_tag(nonce, associated, tag, bytes, 0..).is_ok()
    }
}

fn expand(cipher: Cipher, key: &[u8; 32]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(cipher.algorithm(), key).expect("both ciphers have keys of 32 bytes"))
}

impl Drop for CipherKey {
    /// Overwrites the key with the expanded form of a key of zeroes. `ring` has no function that erases a
    /// key.
    fn drop(&mut self) {
        *self.key = expand(self.cipher, &[0; 32]);
        black_box(&self.key);
    }
}

impl fmt::Debug for CipherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CipherKey").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::hex;

    fn check_vector(
        cipher: Cipher,
        key: &str,
        nonce: &str,
        aad: &str,
        plain: &[u8],
        sealed: &str,
        tag: &str,
    ) {
        let key = CipherKey::new(cipher, &hex(key).try_into().expect("32 bytes"));
        let nonce: [u8; 12] = hex(nonce).try_into().expect("12 bytes");
        let mut bytes = plain.to_vec();
        let got = key.seal(nonce, &hex(aad), &mut bytes);
        assert_eq!((&bytes, got.to_vec()), (&hex(sealed), hex(tag)));
        assert!(key.open(nonce, &hex(aad), &mut bytes, &got));
        assert_eq!(bytes, plain);
    }

    #[test]
    fn chacha20_poly1305_agrees_with_rfc_8439() {
        // Section 2.8.2.
        check_vector(
            Cipher::ChaCha20Poly1305,
            "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
            "070000004041424344454647",
            "50515253c0c1c2c3c4c5c6c7",
            b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
              sunscreen would be it.",
            "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b\
             1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc\
             3ff4def08e4b7a9de576d26586cec64b6116",
            "1ae10b594f09e26a7e902ecbd0600691",
        );
    }

    #[test]
    fn aes_256_gcm_agrees_with_the_published_vectors() {
        // Test case 16 of McGrew and Viega, "The Galois/Counter Mode of Operation".
        check_vector(
            Cipher::Aes256Gcm,
            "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            &hex("d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72\
                  1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39"),
            "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa\
             8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662",
            "76fc6ece0f4e1768cddf8853bb2d551b",
        );
    }

    #[test]
    fn each_part_of_a_sealed_message_is_authenticated() {
        for cipher in [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm] {
            let key = CipherKey::new(cipher, &[7; 32]);
            let mut sealed = *b"an extent";
            let tag = key.seal([1; 12], b"place", &mut sealed);
            let open = |key: &CipherKey, nonce, associated: &[u8], tag: &Tag| {
                key.open(nonce, associated, &mut sealed.clone(), tag)
            };
            assert!(open(&key, [1; 12], b"place", &tag));
            assert!(!open(&key, [2; 12], b"place", &tag));
            assert!(!open(&key, [1; 12], b"other", &tag));
            assert!(!open(&key, [1; 12], b"place", &[0; 16]));
            assert!(!open(&CipherKey::new(cipher, &[8; 32]), [1; 12], b"place", &tag));
            assert_eq!(Cipher::from_byte(cipher as u8), Some(cipher));
            assert_eq!(Cipher::from_name(cipher.name()), Some(cipher));
        }
    }
}
