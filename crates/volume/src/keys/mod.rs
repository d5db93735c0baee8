//! The keys of an encrypted volume.
//!
//! ```text
//! passphrase ── KDF(salt) ──▶ wrapping key ── ChaCha20-Poly1305 ──▶ master key (random, one per volume)
//! master key ── HChaCha20(epoch salt) ──▶ data key of an epoch ── nonce (purpose, part, number) ──▶ sealed bytes
//! master key ── HChaCha20(constant) ──▶ key of HMAC-SHA256 ──▶ authentication code of the superblocks
//! ```
//!
//! A passphrase only wraps the [`MasterKey`], so a change of the passphrase rewrites no data. Every mount begins an
//! epoch with a random salt. If two copies of an image are both mounted, they count their writes from the
//! same number, but under different keys. No pair of key and nonce therefore repeats.
//!
//! The passphrase, the wrapping key, the master key and the memory of Argon2id are overwritten when they are dropped.
//! The cipher's internal form of an epoch's key is overwritten in place, too. The memory of scrypt and the
//! state of HMAC remain, because their libraries do not overwrite them. Copies that the compiler leaves in
//! registers and on the stack also remain.

mod cipher;
mod epoch;
mod kdf;
mod master;
mod passphrase;
mod wrapped;

pub use cipher::{Cipher, TAG_LEN, Tag};
pub use epoch::{EpochKey, EpochSalt, Keyring, Nonce, Purpose};
pub use kdf::{Kdf, SALT_LEN};
pub use master::{MAC_LEN, MASTER_KEY_LEN, MasterKey};
pub use passphrase::{Passphrase, PassphraseError};
pub use wrapped::{WRAPPED_KEY_LEN, WrappedKey};

use std::fmt;

/// The reason why a key cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeyError {
    /// The volume is encrypted, and no passphrase was given.
    NotAvailable,
    /// The volume is not encrypted, so it has no passphrase.
    NotEncrypted,
    /// The passphrase does not open the wrapped key, or the wrapped key was changed.
    WrongPassphrase,
    /// A field of the wrapped key has a value that this program does not know.
    Unknown {
        /// Name of the field.
        field: &'static str,
        /// Value of the field.
        value: u8,
    },
    /// A cost of the KDF is outside of the permitted range.
    Cost {
        /// Name of the cost.
        name: &'static str,
        /// Value of the cost.
        value: u64,
        /// Smallest permitted value.
        min: u64,
        /// Largest permitted value.
        max: u64,
    },
    /// The memory for Argon2id cannot be allocated; the number is its size in KiB.
    OutOfMemory(u64),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The text of ENOKEY.
            KeyError::NotAvailable => f.write_str("required key not available"),
            KeyError::NotEncrypted => f.write_str("the volume is not encrypted"),
            KeyError::WrongPassphrase => {
                f.write_str("required key not available: the passphrase does not open this volume")
            }
            KeyError::Unknown { field, value } => {
                write!(f, "the wrapped key has {field} {value}, which this program does not know")
            }
            KeyError::Cost { name, value, min, max } => {
                write!(f, "the key derivation has {name} {value}; {min} to {max} are permitted")
            }
            KeyError::OutOfMemory(kib) => {
                write!(f, "the key derivation needs {kib} KiB of memory, which cannot be allocated")
            }
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}
