//! Extents come back from their encoded form, and changed, moved or exchanged bytes are errors.

use flashlab_volume::encode::{
    Check, Checksum, Compression, Compressor, DecodeError, Encoded, Encoding, Identity, decode, decode_units,
    encode,
};
use flashlab_volume::keys::{Cipher, Keyring, MasterKey};
use proptest::prelude::*;

const COMPRESSORS: [Compressor; 3] = [Compressor::None, Compressor::Lz4, Compressor::Zstd(3)];
const CIPHERS: [Cipher; 2] = [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm];
const UNIT: usize = 1024;

fn keyring(cipher: Cipher) -> Keyring {
    let mut keyring = Keyring::new(MasterKey::from_random(&mut [7; 32]), cipher);
    keyring.add(1, &[1; 16]);
    keyring.add(2, &[2; 16]);
    keyring
}

fn encoding(compressor: Compressor, keyring: Option<Keyring>) -> Encoding {
    Encoding { compressor, checksum: Checksum::Crc32c, checksum_unit: UNIT as u32, block: 512, keyring }
}

fn identity(length: usize) -> Identity {
    Identity { volume: [4; 16], address: 1 << 40, length: length as u32, epoch: 1, write: 9 }
}

/// Returns all encodings that differ in form.
fn encodings() -> Vec<Encoding> {
    let mut all = Vec::new();
    for compressor in COMPRESSORS {
        all.push(encoding(compressor, None));
        all.push(Encoding { checksum: Checksum::Xxh3, ..encoding(compressor, None) });
        all.extend(CIPHERS.map(|cipher| encoding(compressor, Some(keyring(cipher)))));
    }
    all
}

/// Text that compresses, with a different line in each unit.
fn text(length: usize) -> Vec<u8> {
    (0..).flat_map(|line| format!("line {line} of the text\n").into_bytes()).take(length).collect()
}

fn decoded(encoded: &Encoded, identity: &Identity, how: &Encoding) -> Result<Vec<u8>, DecodeError> {
    decode(encoded.bytes.to_vec(), encoded.compression, &encoded.check, identity, how)
}

#[test]
fn compressible_data_shrinks_and_random_data_is_stored_as_it_is() {
    let random: Vec<u8> = (0..8192u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let random: Vec<u8> = random
        .iter()
        .scan(1u32, |state, byte| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223 + u32::from(*byte));
            Some((*state >> 24) as u8)
        })
        .collect();
    for how in encodings() {
        let encoded = encode(text(8192).into(), &identity(8192), &how);
        assert_eq!(encoded.compression, how.compressor.compression());
        assert_eq!(encoded.bytes.len() < 8192, how.compressor != Compressor::None);
        let encoded = encode(random.clone().into(), &identity(8192), &how);
        assert_eq!((encoded.compression, encoded.bytes.len()), (Compression::None, 8192));
    }
}

#[test]
fn plain_bytes_share_the_buffer_of_the_write() {
    let data: flashlab_block::Payload = text(4096).into();
    let encoded = encode(data.clone(), &identity(4096), &encoding(Compressor::None, None));
    assert_eq!(encoded.bytes.as_ptr(), data.as_ptr());
}

#[test]
fn each_changed_byte_of_an_extent_is_an_error() {
    for how in encodings() {
        let identity = identity(4000);
        let encoded = encode(text(4000).into(), &identity, &how);
        for at in 0..encoded.bytes.len() {
            let mut bytes = encoded.bytes.to_vec();
            bytes[at] ^= 0x10;
            let changed = decode(bytes, encoded.compression, &encoded.check, &identity, &how);
            assert_eq!(changed, Err(DecodeError::Mismatch), "byte {at} of {how:?}");
        }
        for len in [0, 1, encoded.bytes.len() - 1] {
            let short = encoded.bytes[..len].to_vec();
            assert!(
                decode(short, encoded.compression, &encoded.check, &identity, &how).is_err(),
                "{len} bytes"
            );
        }
    }
}

#[test]
fn each_changed_byte_of_a_tag_is_an_error() {
    for cipher in CIPHERS {
        let (how, identity) = (encoding(Compressor::None, Some(keyring(cipher))), identity(2048));
        let encoded = encode(text(2048).into(), &identity, &how);
        let Check::Tags(tags) = &encoded.check else { panic!("an encrypted extent has tags") };
        for (tag, byte) in (0..tags.len()).flat_map(|tag| (0..16).map(move |byte| (tag, byte))) {
            let mut tags = tags.clone();
            tags[tag][byte] ^= 1;
            let changed =
                decode(encoded.bytes.to_vec(), Compression::None, &Check::Tags(tags), &identity, &how);
            assert_eq!(changed, Err(DecodeError::Mismatch));
        }
    }
}

#[test]
fn a_moved_or_replayed_extent_does_not_open() {
    for (cipher, compressor) in
        CIPHERS.into_iter().flat_map(|cipher| COMPRESSORS.map(|other| (cipher, other)))
    {
        let how = encoding(compressor, Some(keyring(cipher)));
        let own = identity(4096);
        let encoded = encode(text(4096).into(), &own, &how);
        assert_eq!(decoded(&encoded, &own, &how), Ok(text(4096)));
        for other in [
            Identity { volume: [5; 16], ..own },
            Identity { address: own.address + 4096, ..own },
            Identity { length: own.length + 1, ..own },
            Identity { epoch: 2, ..own },
            Identity { write: own.write + 1, ..own },
        ] {
            assert!(decoded(&encoded, &other, &how).is_err(), "{other:?}");
        }
        let unknown = Identity { epoch: 3, ..own };
        assert_eq!(decoded(&encoded, &unknown, &how), Err(DecodeError::KeyNotAvailable));
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let as_other = decode(encoded.bytes.to_vec(), compression, &encoded.check, &own, &how);
            assert_eq!(as_other.is_ok(), compression == encoded.compression);
        }
    }
}

#[test]
fn exchanged_units_do_not_open_even_with_their_tags() {
    let (how, identity) = (encoding(Compressor::None, Some(keyring(CIPHERS[0]))), identity(4 * UNIT));
    let encoded = encode(text(4 * UNIT).into(), &identity, &how);
    let Check::Tags(mut tags) = encoded.check.clone() else { panic!("an encrypted extent has tags") };
    tags.swap(1, 2);
    let mut bytes = encoded.bytes.to_vec();
    let (left, right) = bytes.split_at_mut(2 * UNIT);
    left[UNIT..].swap_with_slice(&mut right[..UNIT]);
    let exchanged = decode(bytes, Compression::None, &Check::Tags(tags), &identity, &how);
    assert_eq!(exchanged, Err(DecodeError::Mismatch));
}

#[test]
fn units_open_without_the_units_before_and_after_them() {
    for how in encodings().into_iter().filter(|how| how.compressor == Compressor::None) {
        let whole = identity(5 * UNIT);
        let encoded = encode(text(5 * UNIT).into(), &whole, &how);
        let check = match encoded.check {
            Check::Crc32c(sums) => Check::Crc32c(sums[2..4].to_vec()),
            Check::Xxh3(sums) => Check::Xxh3(sums[2..4].to_vec()),
            Check::Tags(tags) => Check::Tags(tags[2..4].to_vec()),
        };
        let left = Identity { address: whole.address + 2 * UNIT as u64, length: 2 * UNIT as u32, ..whole };
        let stored = encoded.bytes[2 * UNIT..4 * UNIT].to_vec();
        let plain = decode(stored, Compression::None, &check, &left, &how);
        assert_eq!(plain.as_deref(), Ok(&text(5 * UNIT)[2 * UNIT..4 * UNIT]));
    }
}

#[test]
fn the_same_data_never_encrypts_to_the_same_bytes() {
    let how = encoding(Compressor::None, Some(keyring(CIPHERS[0])));
    let own = identity(2 * UNIT);
    let bytes = |identity: &Identity| encode(vec![0; 2 * UNIT].into(), identity, &how).bytes.to_vec();
    let first = bytes(&own);
    assert_ne!(first[..UNIT], first[UNIT..], "two units");
    assert_ne!(first, bytes(&Identity { write: own.write + 1, ..own }), "two writes");
    assert_ne!(first, bytes(&Identity { epoch: 2, ..own }), "two epochs");
}

#[test]
fn an_encrypted_volume_accepts_no_checksums_and_a_locked_one_no_tags() {
    let own = identity(4096);
    let (plain, locked) =
        (encoding(Compressor::None, None), encoding(Compressor::None, Some(keyring(CIPHERS[0]))));
    let forged = encode(text(4096).into(), &own, &plain);
    assert_eq!(decoded(&forged, &own, &locked), Err(DecodeError::Mismatch));
    let sealed = encode(text(4096).into(), &own, &locked);
    let error = decoded(&sealed, &own, &plain).expect_err("without a key");
    assert_eq!(error.to_string(), "required key not available");
}

proptest! {
    #[test]
    fn extents_and_their_units_come_back(
        length in 1usize..20_000, unit_log in 9u32..13, compressible in any::<bool>(), seed in any::<u64>(),
    ) {
        let mut state = seed;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        });
        let data: Vec<u8> = if compressible { text(length) } else { noise.take(length).collect() };
        let identity = identity(length);
        for mut how in encodings() {
            how.checksum_unit = 1 << unit_log;
            let unit = how.checksum_unit as usize;
            let encoded = encode(data.clone().into(), &identity, &how);
            prop_assert!(encoded.bytes.len() <= length);
            prop_assert_eq!(decoded(&encoded, &identity, &how), Ok(data.clone()));
            if encoded.compression != Compression::None {
                continue;
            }
            let units = length.div_ceil(unit);
            let (first, last) = ((seed as usize) % units, (seed as usize >> 8) % units);
            let (first, last) = (first.min(last), first.max(last));
            let range = first * unit..length.min((last + 1) * unit);
            let part = encoded.bytes[range.clone()].to_vec();
            let part = decode_units(part, first as u32, &encoded.check, &identity, &how);
            prop_assert_eq!(part.as_deref(), Ok(&data[range]));
        }
    }

    #[test]
    fn foreign_bytes_with_a_valid_checksum_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..3000), first in any::<u32>(), length in any::<u16>(),
    ) {
        let identity = identity(length.into());
        for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
            let how = encoding(Compressor::None, None);
            let unit = if compression == Compression::None { UNIT as u32 } else { bytes.len().max(1) as u32 };
            let check = Checksum::Crc32c.of(&bytes, unit);
            if let Ok(plain) = decode(bytes.clone(), compression, &check, &identity, &how) {
                prop_assert_eq!(plain.len(), usize::from(length));
            }
            let _ = decode_units(bytes.clone(), first, &check, &identity, &how);
        }
    }
}
