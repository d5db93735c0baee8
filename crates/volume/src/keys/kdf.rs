//! Derivation of the wrapping key from a passphrase: Argon2id (RFC 9106) or scrypt (RFC 7914).
//!
//! The costs are read from the superblock. [`Kdf::check`] limits them, so that a hostile image cannot exhaust memory or
//! time: at most 1 GiB of memory, and at most 4 GiB over all passes.

use super::{KeyError, Passphrase};
use argon2::{Algorithm, Argon2, Block, Version};
use zeroize::{Zeroize, Zeroizing};

/// Length of a salt in bytes.
pub const SALT_LEN: usize = 32;

/// Largest memory of a derivation, in KiB.
const MEMORY_KIB_MAX: u64 = 1 << 20;
/// Largest product of memory and passes over it, in KiB.
const WORK_KIB_MAX: u64 = 4 << 20;

/// A key derivation function with its costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kdf {
    /// Argon2id, version 1.3.
    Argon2id {
        /// Memory in KiB.
        memory_kib: u32,
        /// Number of passes over the memory.
        passes: u32,
        /// Number of lanes. The number affects the result, but the lanes are computed one after the other.
        lanes: u32,
    },
    /// scrypt.
    Scrypt {
        /// Binary logarithm of the cost N.
        log_n: u8,
        /// Block size r.
        r: u32,
        /// Parallelisation p; the parts are computed one after the other.
        p: u32,
    },
}

impl Kdf {
    /// The second recommended option of RFC 9106, section 4: 64 MiB, three passes, four lanes.
    pub const ARGON2ID: Kdf = Kdf::Argon2id { memory_kib: 64 << 10, passes: 3, lanes: 4 };
    /// scrypt with N = 16384, r = 8 and p = 16, as bcachefs uses it.
    pub const SCRYPT: Kdf = Kdf::Scrypt { log_n: 14, r: 8, p: 16 };

    /// Returns the function with this name at its default costs, or `None` if the name is unknown.
    pub fn from_name(name: &str) -> Option<Kdf> {
        match name {
            "argon2id" => Some(Kdf::ARGON2ID),
            "scrypt" => Some(Kdf::SCRYPT),
            _ => None,
        }
    }

    /// Returns the name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Kdf::Argon2id { .. } => "argon2id",
            Kdf::Scrypt { .. } => "scrypt",
        }
    }

    /// Checks that the costs are within the permitted ranges.
    ///
    /// # Errors
    /// Returns [`KeyError::Cost`] with the first cost that is outside its range.
    pub fn check(self) -> Result<(), KeyError> {
        match self {
            Kdf::Argon2id { memory_kib, passes, lanes } => {
                cost("lanes", lanes.into(), 1, 64)?;
                cost("a memory in KiB of", memory_kib.into(), 8 * u64::from(lanes), MEMORY_KIB_MAX)?;
                cost("passes", passes.into(), 1, WORK_KIB_MAX / u64::from(memory_kib))
            }
            Kdf::Scrypt { log_n, r, p } => {
                cost("a log2 N of", log_n.into(), 1, 23)?;
                cost("a block size of", r.into(), 1, 1 << 10)?;
                // N blocks of 128 r bytes.
                let memory_kib = (u64::from(r) << log_n).div_ceil(8);
                cost("a memory in KiB of", memory_kib, 1, MEMORY_KIB_MAX)?;
                cost("a parallelisation of", p.into(), 1, (WORK_KIB_MAX / memory_kib).min(1 << 10))
            }
        }
    }

    /// Derives a key of 32 bytes.
    ///
    /// # Errors
    /// Returns [`KeyError::Cost`] if a cost is not permitted, and [`KeyError::OutOfMemory`] if there is too little
    /// memory for Argon2id. Too little memory for scrypt ends the process, because its library does not
    /// report the error.
    pub(super) fn derive(
        self,
        passphrase: &Passphrase,
        salt: &[u8; SALT_LEN],
    ) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        self.derive_from(passphrase.bytes(), salt)
    }

    fn derive_from(self, passphrase: &[u8], salt: &[u8]) -> Result<Zeroizing<[u8; 32]>, KeyError> {
        self.check()?;
        let mut key = Zeroizing::new([0; 32]);
        match self {
            Kdf::Argon2id { memory_kib, passes, lanes } => {
                let params = argon2::Params::new(memory_kib, passes, lanes, Some(32));
                let params = params.expect("the costs are within the limits of this program");
                let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
                let mut blocks = blocks(memory_kib as usize)?;
                let done = argon2.hash_password_into_with_memory(passphrase, salt, &mut *key, &mut *blocks);
                blocks.iter_mut().for_each(Zeroize::zeroize);
                done.expect("the lengths of salt and key are permitted");
            }
            Kdf::Scrypt { log_n, r, p } => {
                let params = scrypt::Params::new(log_n, r, p);
                let params = params.expect("the costs are within the limits of this program");
                scrypt::scrypt(passphrase, salt, &params, &mut *key)
                    .expect("the length of the key is permitted");
            }
        }
        Ok(key)
    }
}

/// Allocates blocks of 1 KiB for Argon2.
fn blocks(count: usize) -> Result<Vec<Block>, KeyError> {
    let mut blocks = Vec::new();
    blocks.try_reserve_exact(count).map_err(|_| KeyError::OutOfMemory(count as u64))?;
    blocks.resize_with(count, Block::default);
    Ok(blocks)
}

fn cost(name: &'static str, value: u64, min: u64, max: u64) -> Result<(), KeyError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(KeyError::Cost { name, value, min, max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::hex;
    use proptest::prelude::*;

    #[test]
    fn argon2id_agrees_with_the_reference_implementation() {
        // From test.c of the reference implementation, for version 1.3.
        let kdf = Kdf::Argon2id { memory_kib: 256, passes: 2, lanes: 1 };
        let key = kdf.derive_from(b"password", b"somesalt").expect("permitted costs");
        assert_eq!(key.to_vec(), hex("9dfeb910e80bad0311fee20f9c0e2b12c17987b4cac90c2ef54d5b3021c68bfe"));
    }

    #[test]
    fn scrypt_agrees_with_rfc_7914() {
        // The first half of the third vector in section 12.
        let kdf = Kdf::Scrypt { log_n: 14, r: 8, p: 1 };
        let key = kdf.derive_from(b"pleaseletmein", b"SodiumChloride").expect("permitted costs");
        assert_eq!(key.to_vec(), hex("7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"));
    }

    #[test]
    fn costs_of_a_hostile_image_are_refused_before_any_work() {
        let passphrase = Passphrase::new(b"secret").expect("not empty");
        for kdf in [
            Kdf::Argon2id { memory_kib: u32::MAX, passes: 1, lanes: 1 },
            Kdf::Argon2id { memory_kib: 1 << 20, passes: 5, lanes: 1 },
            Kdf::Argon2id { memory_kib: 8, passes: u32::MAX, lanes: 1 },
            Kdf::Argon2id { memory_kib: 1 << 10, passes: 1, lanes: u32::MAX },
            Kdf::Argon2id { memory_kib: 0, passes: 0, lanes: 0 },
            Kdf::Argon2id { memory_kib: 8, passes: 1, lanes: 2 },
            Kdf::Scrypt { log_n: 63, r: 8, p: 1 },
            Kdf::Scrypt { log_n: 20, r: 1 << 10, p: 1 },
            Kdf::Scrypt { log_n: 14, r: 8, p: u32::MAX },
            Kdf::Scrypt { log_n: 14, r: u32::MAX, p: 1 },
            Kdf::Scrypt { log_n: 0, r: 0, p: 0 },
        ] {
            let error = kdf.derive(&passphrase, &[0; SALT_LEN]).expect_err("not permitted");
            assert!(matches!(error, KeyError::Cost { .. }), "{kdf:?}: {error}");
        }
        for kdf in [Kdf::ARGON2ID, Kdf::SCRYPT] {
            assert_eq!(kdf.check(), Ok(()));
            assert_eq!(Kdf::from_name(kdf.name()), Some(kdf));
        }
    }

    proptest! {
        #[test]
        fn permitted_costs_are_limited_and_fit_the_libraries(
            log_n in any::<u8>(), r in any::<u32>(), p in any::<u32>(),
            memory_kib in any::<u32>(), passes in any::<u32>(), lanes in any::<u32>(),
        ) {
            let argon2id = Kdf::Argon2id { memory_kib, passes, lanes };
            if argon2id.check().is_ok() {
                prop_assert!(u64::from(memory_kib) * u64::from(passes) <= WORK_KIB_MAX);
                prop_assert!(argon2::Params::new(memory_kib, passes, lanes, Some(32)).is_ok());
            }
            // Most random numbers are far too large, so small ones are tried, too.
            for (log_n, r, p) in [(log_n, r, p), (log_n % 26, r % 2048, p % 2048)] {
                let scrypt = Kdf::Scrypt { log_n, r, p };
                if scrypt.check().is_ok() {
                    prop_assert!((128 * u64::from(r)) << log_n <= MEMORY_KIB_MAX << 10);
                    prop_assert!(::scrypt::Params::new(log_n, r, p).is_ok());
                }
            }
        }
    }
}
