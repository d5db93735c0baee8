//! Fuzzes the decoders of a volume: superblocks, journal entries, runs of checkpoints, and the records of the map, all
//! under correct checksums. Decoded structures survive another round trip.
#![no_main]

use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Executor};
use flashlab_volume::format::{ENTRY_HEADER, Entry, RUN_HEADER, Record, Run, SUPERBLOCK_SIZE, Superblock};
use flashlab_volume::{NewMember, Options, Volume};
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

const VOLUME: [u8; 16] = [1; 16];
const BLOCK: usize = 512;

/// The first superblock of a new volume.
static SUPERBLOCK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let disk = Disk::new(Image::new(1 << 20), BLOCK as u64);
    let member = NewMember::new(Arc::new(disk.clone()) as Arc<dyn BlockDevice>);
    let options = Options { block: BLOCK as u32, bucket: 16 << 10, extent_max: 4096, ..Options::new(VOLUME) };
    let mut executor = Executor::new(1);
    let cx = executor.context();
    executor.block_on(async move { Volume::format(&cx, &[member], &options).await.expect("a disk") });
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    disk.image().read(0, &mut bytes);
    bytes
});

/// Makes the checksum of a structure correct.
fn seal(mut structure: Vec<u8>) -> Vec<u8> {
    let sum = crc32c::crc32c(&structure[12..]);
    structure[8..12].copy_from_slice(&sum.to_le_bytes());
    structure
}

/// Returns a structure whose header and records are `bytes`, apart from the magic number and the length.
fn structure(magic: &[u8; 8], header: usize, bytes: &[u8]) -> Vec<u8> {
    let mut structure = vec![0; header.max(bytes.len())];
    structure[..bytes.len()].copy_from_slice(bytes);
    structure[..8].copy_from_slice(magic);
    let records = (structure.len() - header) as u32;
    structure[12..16].copy_from_slice(&records.to_le_bytes());
    structure[16..32].copy_from_slice(&VOLUME);
    seal(structure)
}

/// Returns the records of `bytes`, up to the first that is malformed.
fn records(bytes: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let _ = Record::decode_all(bytes, |record| {
        records.push(record);
        Ok(())
    });
    records
}

fuzz_target!(|bytes: &[u8]| {
    let mut changed = SUPERBLOCK.clone();
    for change in bytes.as_chunks::<3>().0.iter().take(64) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]]));
        changed[12 + place % (SUPERBLOCK_SIZE - 12)] = change[2];
    }
    if let Ok(superblock) = Superblock::decode(&seal(changed)) {
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    }

    if let Ok(entry) = Entry::decode(&structure(b"FLVjrnl1", ENTRY_HEADER, bytes), &VOLUME, None) {
        let numbers = (entry.sequence, entry.mount, entry.previous);
        let (encoded, sum) = Entry::encode(&VOLUME, numbers, &entry.records, BLOCK, None);
        assert_eq!(Entry::decode(&encoded, &VOLUME, None), Ok(Entry { sum, ..entry }));
    }
    if let Ok(run) = Run::decode(&structure(b"FLVchkp1", RUN_HEADER, bytes), &VOLUME, None) {
        assert_eq!(Run::decode(&run.encode(&VOLUME, BLOCK, None), &VOLUME, None), Ok(run));
    }

    let decoded = records(bytes);
    let mut encoded = Vec::new();
    decoded.iter().for_each(|record| record.encode(&mut encoded));
    assert_eq!(records(&encoded), decoded);
});
