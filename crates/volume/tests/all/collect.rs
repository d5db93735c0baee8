//! Garbage collection moves many extents at a time.

use crate::pool::{BLOCK, format, open, options};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Io};
use flashlab_sim::{Rng, mix};
use flashlab_volume::Options;

fn data(seed: u64) -> Vec<u8> {
    (0..BLOCK).map(|at| mix(seed << 16 | at) as u8).collect()
}

/// Random writes of one block leave a few extents in each bucket, which get adjacent places in another bucket.
#[test]
fn a_collection_writes_extents_with_adjacent_places_together() {
    let disk = Disk::new(Image::new(8 << 20), BLOCK);
    let options = Options { bucket: 128 << 10, ..options() };
    format(std::slice::from_ref(&disk), &options).expect("a disk of the right size");
    let volume = open(std::slice::from_ref(&disk)).expect("a new volume");
    let (mut rng, count) = (Rng::new(5), volume.geometry().capacity / BLOCK);
    let mut written = vec![None; count as usize];
    for seed in 0..3 * count {
        let at = rng.below(count);
        let io = Io::Write { offset: at * BLOCK, data: data(seed).into(), durable: false };
        execute(&volume, io).expect("garbage collection finds space");
        written[at as usize] = Some(seed);
    }
    // Besides the data of the client, the disk got the moved extents and the journal.
    let requests = volume.usage().members[0].requests;
    let (writes, bytes) = (requests.writes - 3 * count, requests.written_bytes - 3 * count * BLOCK);
    assert!(bytes > count * BLOCK, "{bytes} bytes: the collections moved too little for this test");
    assert!(bytes > writes * 8 * BLOCK, "{writes} writes for {bytes} bytes");
    for (at, seed) in written.into_iter().enumerate() {
        let expected = seed.map_or_else(|| vec![0; BLOCK as usize], data);
        assert!(read(&volume, at as u64 * BLOCK, BLOCK as usize) == expected, "block {at}");
    }
}
