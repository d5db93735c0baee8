//! Fuzzes the bytes of extents, of a wrapped key, and of the structures of a volume, as a hostile image contains them.
#![no_main]

use flashlab_block::conformance::execute;
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Executor, Io};
use flashlab_volume::encode::{
    Checksum, Compression, Compressor, Encoding, Identity, decode, decode_units, encode,
};
use flashlab_volume::examine::Examination;
use flashlab_volume::format::{
    ENTRY_HEADER, Entry, Fault, RUN_HEADER, Record, Run, SUPERBLOCK_SIZE, Superblock, copy_offsets,
};
use flashlab_volume::keys::{Cipher, Keyring, MasterKey, WRAPPED_KEY_LEN, WrappedKey};
use flashlab_volume::{Degraded, NewMember, OpenOptions, Options, Volume};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

const UNIT: u32 = 512;
/// Identifier of the volume whose structures change.
const VOLUME: [u8; 16] = [1; 16];

/// A volume with a checkpoint and later journal entries, and the places and lengths of the volume's
/// structures.
static USED: LazyLock<(Image, Vec<(usize, usize)>)> = LazyLock::new(|| {
    let disk = Disk::new(Image::new(896 << 10), 512);
    let (device, options) = (Arc::new(disk.clone()) as Arc<dyn BlockDevice>, OpenOptions::default());
    let format = Options {
        block: UNIT,
        bucket: 16 << 10,
        checksum_block: 1024,
        extent_max: 4096,
        compression: Compressor::Lz4,
        ..Options::new(VOLUME)
    };
    let mut executor = Executor::new(1);
    let cx = executor.context();
    executor.block_on(async move {
        Volume::format(&cx, &[NewMember::new(device.clone())], &format).await.expect("a disk");
        let volume = Volume::open(&cx, &[device], options).await.expect("a new volume");
        for n in 0..20u64 {
            let data = (0..1024).map(|at| (at * n) as u8).collect::<Vec<u8>>().into();
            execute(&volume, Io::Write { offset: n * 1536, data, durable: true }).expect("a disk");
            if n == 10 {
                volume.close(&cx).await.expect("a disk");
            }
        }
    });
    let image = disk.image();
    let bytes = image.to_vec();
    let length = |at: usize| {
        let records = || u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("four bytes"));
        if Superblock::decode(&bytes[at..]).is_ok() {
            Some(SUPERBLOCK_SIZE)
        } else if Entry::decode(&bytes[at..], &VOLUME, None).is_ok() {
            Some(ENTRY_HEADER + records() as usize)
        } else {
            Run::decode(&bytes[at..], &VOLUME, None).ok().map(|_| RUN_HEADER + records() as usize)
        }
    };
    let starts = (0..bytes.len()).step_by(UNIT as usize);
    let structures = starts.filter_map(|at| length(at).map(|length| (at, length))).collect();
    (image, structures)
});

/// Opens and uses a volume after some bytes of one of its structures have changed, with a correct checksum.
fn open_changed(structure: usize, changes: &[u8]) {
    let (image, structures) = &*USED;
    let (at, length) = structures[structure % structures.len()];
    let mut bytes = vec![0; length];
    image.read(at as u64, &mut bytes);
    for change in changes.as_chunks::<3>().0.iter().take(16) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        bytes[12 + place % (length - 12)] = change[2];
    }
    let sum = crc32c::crc32c(&bytes[12..]);
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    let mut image = image.clone();
    let copies = copy_offsets(image.size());
    match copies.contains(&(at as u64)) {
        true => copies.into_iter().for_each(|at| image.write(at, &bytes)),
        false => image.write(at as u64, &bytes),
    }
    let mut superblock = vec![0; SUPERBLOCK_SIZE];
    image.read(copy_offsets(image.size())[0], &mut superblock);
    let device = Arc::new(Disk::new(image, 512)) as Arc<dyn BlockDevice>;
    let options = OpenOptions { salt: [9; 16], degraded: Degraded::Very, ..OpenOptions::default() };
    let mut executor = Executor::new(1);
    let cx = executor.context();
    executor.block_on(async move {
        let superblock = Superblock::decode(&superblock);
        // A change may mark the volume as encrypted; the passphrase is then missing.
        let examined = superblock.as_ref().map(|superblock| Examination::new(&*device, superblock, None));
        if let Ok(Ok(examination)) = examined {
            examination.journal(&cx, |_, _| {}).await;
            examination.checkpoint(&cx, |_, _| {}).await;
        }
        let Ok(volume) = Volume::open(&cx, &[device], options).await else { return };
        let _ = execute(&volume, Io::Read { offset: 0, buffer: vec![0; 32 << 10] });
        let _ = execute(&volume, Io::Write { offset: 512, data: vec![3; 8192].into(), durable: true });
        let _ = execute(&volume, Io::Discard { offset: 4096, length: 4096, durable: false });
        let _ = volume.check(&cx).await;
        let _ = volume.close(&cx).await;
    });
}

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

    open_changed(usize::from(kind), bytes);
    let _ = Record::decode_all(bytes, |_| Ok(()));

    // Foreign structures. An encrypted volume accepts none, because their authentication tags do not match.
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

    // Encoded bytes decode to the original bytes. A changed byte in an encrypted extent is an error.
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
