//! The encoding of an extent: compression, encryption and checksum, in this order, as pure functions over bytes.
//!
//! The engine stores the [`Encoded::bytes`] on members, padded with zeroes to whole blocks, and keeps everything else
//! in the map. An uncompressed extent has one checksum or authentication tag per unit, so that a read of a part touches
//! only the units that it needs. A compressed extent has a single checksum or tag, and is always read whole.
//!
//! Guarantees: [`decode`] and [`decode_units`] return the bytes that [`encode`] took, or an error. On an
//! encrypted volume, this guarantee holds against an adversary who can write to the members, but not to the
//! map. A sealed unit opens only in its own volume, at its own logical address, and for the write that sealed
//! it.

mod check;
mod compress;
mod seal;

pub use check::{Check, Checksum};
pub use compress::{Compression, Compressor, LEVEL_MAX};

use crate::keys::{KeyError, Keyring};
use flashlab_block::Payload;
use seal::Sealed;
use std::fmt;

/// Place and identity of an extent. An encrypted extent opens only under the identity with which it was sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Identifier of the volume.
    pub volume: [u8; 16],
    /// Logical address of the first byte of the stored extent. If a later write replaces the first units of an
    /// uncompressed extent, the address moves on to the first unit that is left.
    pub address: u64,
    /// Logical length of the stored extent in bytes.
    pub length: u32,
    /// Number of the mount that wrote the extent; it selects the data key.
    pub epoch: u32,
    /// Number of the write, unique within its epoch; it is a part of the nonce.
    pub write: u64,
}

/// Choices that determine how extents are encoded.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// Compression to try. Data that does not shrink by at least a block is stored uncompressed.
    pub compressor: Compressor,
    /// Checksum of extents that are not encrypted.
    pub checksum: Checksum,
    /// Bytes per checksum or tag of an uncompressed extent.
    pub checksum_unit: u32,
    /// Block size of the volume in bytes.
    pub block: u32,
    /// Keys of an encrypted volume; `None` for a volume without encryption.
    pub keyring: Option<Keyring>,
}

/// An encoded extent.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Bytes to store, without padding. Bytes that are neither compressed nor encrypted share the buffer of the write.
    pub bytes: Payload,
    /// Algorithm that was used.
    pub compression: Compression,
    /// Checksums or authentication tags of the stored bytes.
    pub check: Check,
}

/// The reason why stored bytes do not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// A checksum or a tag does not agree with the bytes.
    Mismatch,
    /// The bytes agree with their checksum, but do not decompress to the expected length.
    Damaged,
    /// The extent is encrypted, and the key of its epoch is not available.
    KeyNotAvailable,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Mismatch => f.write_str("the stored bytes do not agree with their checksum"),
            DecodeError::Damaged => f.write_str("the stored bytes do not decompress to their length"),
            DecodeError::KeyNotAvailable => KeyError::NotAvailable.fmt(f),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Encodes the bytes of an extent.
///
/// # Panics
/// Panics if the length differs from the one in `identity`, or if the keyring lacks the key of the epoch: the engine
/// adds the key before its first write.
pub fn encode(data: Payload, identity: &Identity, how: &Encoding) -> Encoded {
    assert_eq!(data.len(), identity.length as usize, "the length of the extent");
    match compress(&data, how) {
        Some(compressed) => seal(compressed.into(), how.compressor.compression(), identity, how),
        None => seal(data, Compression::None, identity, how),
    }
}

/// Compresses the bytes of an extent. Returns `None` if this saves no block.
pub(crate) fn compress(data: &[u8], how: &Encoding) -> Option<Vec<u8>> {
    how.compressor.compress(data, how.block as usize)
}

/// Encrypts the bytes of an extent, or computes their checksums. `compression` is the algorithm that compressed them.
///
/// # Panics
/// Panics if the keyring lacks the key of the epoch.
pub(crate) fn seal(bytes: Payload, compression: Compression, identity: &Identity, how: &Encoding) -> Encoded {
    let Some(keyring) = &how.keyring else {
        let check = how.checksum.of(&bytes, unit(compression, bytes.len(), how));
        return Encoded { bytes, compression, check };
    };
    let key = keyring.get(identity.epoch).expect("the epoch begins before its first write");
    let mut bytes = bytes.to_vec();
    let sealed = Sealed::new(identity, compression, bytes.len(), unit(compression, bytes.len(), how));
    let tags = sealed.seal(key, &mut bytes);
    Encoded { bytes: bytes.into(), compression, check: Check::Tags(tags) }
}

/// Decodes the stored bytes of a whole extent, without padding.
///
/// # Errors
/// Returns [`DecodeError`] if the bytes are not the ones that were written.
pub fn decode(
    stored: Vec<u8>,
    compression: Compression,
    check: &Check,
    identity: &Identity,
    how: &Encoding,
) -> Result<Vec<u8>, DecodeError> {
    let unit = unit(compression, stored.len(), how);
    let plain = Sealed::new(identity, compression, stored.len(), unit).verify(stored, 0, check, how)?;
    compression.decompress(plain, identity.length as usize)
}

/// Returns true if the stored bytes of a whole extent, without padding, are the ones that were written.
pub(crate) fn is_sound(
    stored: &[u8],
    compression: Compression,
    check: &Check,
    identity: &Identity,
    how: &Encoding,
) -> bool {
    match (&how.keyring, compression) {
        // No copy is necessary, because these bytes do not change when they are decoded.
        (None, Compression::None) => {
            let unit = unit(compression, stored.len(), how);
            Sealed::new(identity, compression, stored.len(), unit).verify_sums(stored, 0, check).is_ok()
        }
        _ => decode(stored.to_vec(), compression, check, identity, how).is_ok(),
    }
}

/// Verifies and decrypts some units of an uncompressed extent. `stored` consists of whole units, the first of
/// which has the index `first`. `check` covers the whole extent.
///
/// # Errors
/// Returns [`DecodeError`] if the bytes are not the ones that were written.
pub fn decode_units(
    stored: Vec<u8>,
    first: u32,
    check: &Check,
    identity: &Identity,
    how: &Encoding,
) -> Result<Vec<u8>, DecodeError> {
    let length = identity.length as usize;
    Sealed::new(identity, Compression::None, length, how.checksum_unit).verify(stored, first, check, how)
}

/// Verifies and decrypts some units like [`decode_units`], in place. After an error, the contents of `stored` are
/// unspecified.
pub(crate) fn open_units(
    stored: &mut [u8],
    first: u32,
    check: &Check,
    identity: &Identity,
    how: &Encoding,
) -> Result<(), DecodeError> {
    let length = identity.length as usize;
    Sealed::new(identity, Compression::None, length, how.checksum_unit).open(stored, first, check, how)
}

/// Returns the bytes per checksum or tag of an extent.
fn unit(compression: Compression, stored: usize, how: &Encoding) -> u32 {
    match compression {
        Compression::None => how.checksum_unit,
        Compression::Lz4 | Compression::Zstd => stored as u32,
    }
}
