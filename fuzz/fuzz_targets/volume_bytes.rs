//! Fuzzes the bytes of extents, of a wrapped key, and of the structures of an encrypted volume, as a hostile image
//! contains them.
#![no_main]

use flashlab_volume::encode::{
    Checksum, Compression, Compressor, Encoding, Identity, decode, decode_units, encode,
};
use flashlab_volume::format::{Entry, Fault, Run, Superblock};
use flashlab_volume::keys::{Cipher, Keyring, MasterKey, WRAPPED_KEY_LEN, WrappedKey};
use libfuzzer_sys::fuzz_target;

const UNIT: u32 = 512;

fn encoding(compressor: Compressor, keyring: Option<Keyring>) -> Encoding {
    Encoding { compressor, checksum: Checksum::Crc32c, checksum_unit: UNIT, block: 512, keyring }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, low, high, first], bytes)) = bytes.split_first_chunk() else { return };
    let length = u32::from(u16::from_le_bytes([low, high]));
    let identity = Identity { volume: [1; 16], address: 0, length, epoch: 1, write: 1 };

    if let Some(wrapped) = bytes.first_chunk::<WRAPPED_KEY_LEN>() {
        match WrappedKey::from_bytes(wrapped) {
            Ok(key) => assert_eq!(&key.to_bytes(), wrapped),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }

    // Foreign structures. An encrypted volume accepts none, because its tags do not agree.
    let mut keyring = Keyring::new(MasterKey::from_random(&mut [2; 32]), Cipher::Aes256Gcm);
    keyring.add(1, &[3; 16]);
    let _ = Superblock::decode(bytes).map(|superblock| assert!(!superblock.is_authentic(&keyring)));
    let mut structure = bytes.to_vec();
    for (magic, header) in [(b"FLVjrnl1", 88), (b"FLVchkp1", 96)] {
        if structure.len() < header {
            break;
        }
        structure[..8].copy_from_slice(magic);
        let records = (structure.len() - header) as u32;
        structure[12..16].copy_from_slice(&records.to_le_bytes());
        structure[16..32].copy_from_slice(&[1; 16]);
        let sum = crc32c::crc32c(&structure[12..]);
        structure[8..12].copy_from_slice(&sum.to_le_bytes());
        let decoded = match header {
            88 => Entry::decode(&structure, &[1; 16], Some(&keyring)).map(drop),
            _ => Run::decode(&structure, &[1; 16], Some(&keyring)).map(drop),
        };
        assert_eq!(decoded, Err(Fault::NotAuthentic));
    }

    // Foreign bytes whose checksum is correct.
    let how = encoding(Compressor::None, None);
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let unit = if compression == Compression::None { UNIT } else { bytes.len().max(1) as u32 };
        let check = Checksum::Crc32c.of(bytes, unit);
        if let Ok(plain) = decode(bytes.to_vec(), compression, &check, &identity, &how) {
            assert_eq!(plain.len(), length as usize);
        }
        let _ = decode_units(bytes.to_vec(), first.into(), &check, &identity, &how);
    }

    // Own bytes come back, and one that changes in an encrypted extent is an error.
    if bytes.is_empty() {
        return;
    }
    let compressor = [Compressor::None, Compressor::Lz4, Compressor::Zstd(1)][usize::from(kind) % 3];
    let cipher = [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm][usize::from(kind / 3) % 2];
    let mut keyring = Keyring::new(MasterKey::from_random(&mut [2; 32]), cipher);
    keyring.add(1, &[3; 16]);
    let how = encoding(compressor, Some(keyring));
    let identity = Identity { length: bytes.len() as u32, ..identity };
    let encoded = encode(bytes.to_vec().into(), &identity, &how);
    let open = |stored| decode(stored, encoded.compression, &encoded.check, &identity, &how);
    assert_eq!(open(encoded.bytes.to_vec()).as_deref(), Ok(bytes));
    let mut changed = encoded.bytes.to_vec();
    changed[length as usize % encoded.bytes.len()] ^= first | 1;
    assert!(open(changed).is_err());
});
