//! The encoding of an extent: compression, encryption and checksum, in this order, as pure functions over bytes.
//!
//! The engine stores the [`Encoded::bytes`] on members, padded with zeroes to whole blocks, and keeps everything else
//! in the map. Plain extents have one checksum per unit, so that a read of a part verifies only the units that it
//! touches; a compressed or encrypted extent is always read whole.

use flashlab_block::Payload;
use std::fmt;

/// Algorithm that compressed an extent. The number is the byte on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Compression {
    /// The extent is stored as it is.
    #[default]
    None = 0,
}

impl Compression {
    /// Returns the algorithm with this number, or `None` if the number is unknown.
    pub fn from_byte(byte: u8) -> Option<Compression> {
        match byte {
            0 => Some(Compression::None),
            _ => None,
        }
    }
}

/// Proof that stored bytes are the ones that were written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Check {
    /// CRC-32C of each unit of the stored bytes. A compressed extent has one unit.
    Crc32c(Vec<u32>),
}

/// Place and identity of an extent. An encrypted extent opens only under the identity with which it was sealed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// Identifier of the volume.
    pub volume: [u8; 16],
    /// Logical address of the first byte.
    pub address: u64,
    /// Logical length in bytes.
    pub length: u32,
    /// Number of the mount that wrote the extent; it selects the data key.
    pub epoch: u32,
    /// Number of the write, unique within its epoch; it is the nonce.
    pub write: u64,
}

/// Choices that determine how an extent is encoded.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// Compression to try. Data that does not shrink by at least a block is stored uncompressed.
    pub compression: Compression,
    /// Bytes per checksum of a plain extent.
    pub checksum_unit: u32,
    /// Block size of the volume in bytes.
    pub block: u32,
}

/// An encoded extent.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// Bytes to store, without padding. Uncompressed, unencrypted bytes share the buffer of the write.
    pub bytes: Payload,
    /// Number of stored bytes.
    pub stored_len: u32,
    /// Algorithm that was used.
    pub compression: Compression,
    /// Checksums or authentication tag of the stored bytes.
    pub check: Check,
}

/// The reason why stored bytes do not decode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The checksum or the tag does not agree with the bytes.
    Mismatch,
    /// The bytes agree with their checksum, but do not decompress to the expected length.
    Damaged,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DecodeError::Mismatch => "the stored bytes do not agree with their checksum",
            DecodeError::Damaged => "the stored bytes do not decompress",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Encodes the bytes of an extent.
pub fn encode(data: Payload, _identity: &Identity, how: &Encoding) -> Encoded {
    let check = Check::Crc32c(data.chunks(how.checksum_unit as usize).map(crc32c::crc32c).collect());
    Encoded { stored_len: data.len() as u32, bytes: data, compression: Compression::None, check }
}

/// Decodes the stored bytes of a whole extent.
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
    let Check::Crc32c(sums) = check;
    verify_units(&stored, sums, how.checksum_unit)?;
    match compression {
        Compression::None if stored.len() == identity.length as usize => Ok(stored),
        Compression::None => Err(DecodeError::Damaged),
    }
}

/// Verifies some units of a plain extent: `stored` begins at a unit, and `sums` are the checksums from this unit on.
///
/// # Errors
/// Returns [`DecodeError::Mismatch`] if a unit does not agree with its checksum.
pub fn verify_units(stored: &[u8], sums: &[u32], unit: u32) -> Result<(), DecodeError> {
    let units = stored.chunks(unit as usize);
    let agree = units.len() == sums.len() && units.zip(sums).all(|(unit, sum)| crc32c::crc32c(unit) == *sum);
    if agree { Ok(()) } else { Err(DecodeError::Mismatch) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_byte_is_found_in_its_unit_and_in_no_other() {
        let how = Encoding { compression: Compression::None, checksum_unit: 512, block: 512 };
        let identity = Identity { volume: [1; 16], address: 0, length: 1536, epoch: 1, write: 1 };
        let data: Vec<u8> = (0..1536u32).map(|n| (n * 7) as u8).collect();
        let encoded = encode(data.clone().into(), &identity, &how);
        let mut stored = encoded.bytes.to_vec();
        let decoded = decode(stored.clone(), encoded.compression, &encoded.check, &identity, &how);
        assert_eq!(decoded.as_deref(), Ok(&*data));
        stored[700] ^= 1;
        let Check::Crc32c(sums) = &encoded.check;
        let unit = |n: usize| verify_units(&stored[n * 512..][..512], &sums[n..=n], 512);
        assert_eq!([unit(0), unit(1), unit(2)], [Ok(()), Err(DecodeError::Mismatch), Ok(())]);
        let decoded = decode(stored, encoded.compression, &encoded.check, &identity, &how);
        assert_eq!(decoded, Err(DecodeError::Mismatch));
    }
}
