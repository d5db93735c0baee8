//! The checksums of fio's `verify=`, as stored in a block's header (little-endian), and the numbers of their methods.
//!
//! The implementation is tested against blocks that fio 3.33 wrote. For sha1, sha256 and sha512, fio stores the state
//! of a hash that it never finalizes. This module uses the standard hashes instead, so blocks with these methods cannot
//! be exchanged with fio.

use crc::{Algorithm, CRC_7_MMC, CRC_16_ARC, CRC_32_ISCSI, CRC_64_REDIS, Crc};
use flashlab_fio::verify::Method;
use sha2::Digest;

/// fio's crc32: the polynomial of Ethernet, without reflection or inversion.
static CRC_32_PLAIN: Algorithm<u32> = Algorithm {
    width: 32,
    poly: 0x04c1_1db7,
    init: 0,
    refin: false,
    refout: false,
    xorout: 0,
    check: 0x89a1_897f,
    residue: 0,
};
/// fio's crc32c: Castagnoli's polynomial, without the final inversion.
static CRC_32C_OPEN: Algorithm<u32> = Algorithm { xorout: 0, check: 0x1cf9_6d7c, residue: 0, ..CRC_32_ISCSI };

static CRC_7: Crc<u8> = Crc::<u8>::new(&CRC_7_MMC);
static CRC_16: Crc<u16> = Crc::<u16>::new(&CRC_16_ARC);
static CRC_32: Crc<u32> = Crc::<u32>::new(&CRC_32_PLAIN);
static CRC_32C: Crc<u32> = Crc::<u32>::new(&CRC_32C_OPEN);
static CRC_64: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

/// Returns the checksum of a header's own bytes.
pub(super) fn of_header(bytes: &[u8]) -> u32 {
    CRC_32C.checksum(bytes)
}

/// Returns the number that identifies a method in a header.
pub(super) fn number(method: Method) -> u16 {
    use Method as M;
    match method {
        M::Md5 => 2,
        M::Crc64 => 3,
        M::Crc32 => 4,
        M::Crc32c => 5,
        M::Crc16 => 7,
        M::Crc7 => 8,
        M::Sha256 => 9,
        M::Sha512 => 10,
        M::Sha3_224 => 11,
        M::Sha3_256 => 12,
        M::Sha3_384 => 13,
        M::Sha3_512 => 14,
        M::Xxhash => 15,
        M::Sha1 => 16,
        M::PatternHeader => 17,
        // These methods have no header.
        M::Pattern | M::Null => 0,
    }
}

/// Returns the number of bytes that a header reserves for a method's checksum.
pub(super) fn length(method: Method) -> usize {
    use Method as M;
    match method {
        M::Md5 => 16,
        M::Crc64 => 8,
        M::Crc32 | M::Crc32c | M::Xxhash => 4,
        M::Crc16 => 2,
        M::Crc7 => 1,
        M::Sha1 => 20,
        M::Sha256 | M::Sha3_512 => 64,
        M::Sha512 => 128,
        M::Sha3_224 => 28,
        M::Sha3_256 => 32,
        M::Sha3_384 => 48,
        M::Pattern | M::PatternHeader | M::Null => 0,
    }
}

/// Returns a method's checksum of some bytes, padded with zeroes to the length in a header.
pub(super) fn of(method: Method, bytes: &[u8]) -> Vec<u8> {
    use Method as M;
    let mut sum = match method {
        M::Md5 => md5::Md5::digest(bytes).to_vec(),
        M::Crc64 => CRC_64.checksum(bytes).to_le_bytes().to_vec(),
        M::Crc32 => CRC_32.checksum(bytes).to_le_bytes().to_vec(),
        M::Crc32c => CRC_32C.checksum(bytes).to_le_bytes().to_vec(),
        M::Crc16 => CRC_16.checksum(bytes).to_le_bytes().to_vec(),
        M::Crc7 => vec![CRC_7.checksum(bytes)],
        M::Sha1 => sha1::Sha1::digest(bytes).to_vec(),
        M::Sha256 => sha2::Sha256::digest(bytes).to_vec(),
        M::Sha512 => sha2::Sha512::digest(bytes).to_vec(),
        M::Sha3_224 => sha3::Sha3_224::digest(bytes).to_vec(),
        M::Sha3_256 => sha3::Sha3_256::digest(bytes).to_vec(),
        M::Sha3_384 => sha3::Sha3_384::digest(bytes).to_vec(),
        M::Sha3_512 => sha3::Sha3_512::digest(bytes).to_vec(),
        M::Xxhash => twox_hash::XxHash32::oneshot(1, bytes).to_le_bytes().to_vec(),
        M::Pattern | M::PatternHeader | M::Null => Vec::new(),
    };
    sum.resize(length(method), 0);
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_123456789_match_the_check_values_of_their_algorithms() {
        let digits = b"123456789";
        assert_eq!(CRC_32.checksum(digits), CRC_32_PLAIN.check);
        assert_eq!(CRC_32C.checksum(digits), CRC_32C_OPEN.check);
        assert_eq!(CRC_7.checksum(digits), CRC_7_MMC.check);
    }
}
