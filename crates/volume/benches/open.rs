//! Opening of a volume of 1 TiB with many extents, after a close and after a power loss, and the memory of its map.
//!
//! `cargo bench -p flashlab-volume --bench open [-- EXTENTS]` (10 million by default) needs 3 GiB of memory.
//! The volume is on a device in memory that keeps superblocks, journal and checkpoints. The device drops the
//! data, because opening does not read it. The extents have 4 KiB each and are written in a scattered order,
//! so the leaves of the map are only partly filled.

#![allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]

use flashlab_block::{
    Answer, BlockDevice, Context, Executor, Features, Geometry, Io, IoError, Outcome, Started,
};
use flashlab_volume::keys::{Cipher, Kdf, MasterKey, Passphrase};
use flashlab_volume::{Encryption, NewMember, OpenOptions, Options, Volume};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

const CAPACITY: u64 = (1 << 40) + (160 << 30);
const SIZE: u64 = 1 << 40;
const BLOCK: u64 = 4096;
/// Blocks before this offset belong to superblocks and the journal.
const METADATA: u64 = 300 << 20;

/// A device that keeps metadata. The device drops writes of single blocks behind the journal, which are data.
#[derive(Default)]
struct MetadataDevice(Mutex<BTreeMap<u64, Box<[u8]>>>);

impl MetadataDevice {
    fn execute(&self, io: Io) -> Outcome {
        let mut blocks = self.0.lock().expect("no thread panics");
        match io {
            Io::Read { offset, mut buffer } => {
                let parts = (offset / BLOCK..).zip(buffer.chunks_mut(BLOCK as usize));
                parts.for_each(|(n, part)| match blocks.get(&n) {
                    Some(block) => part.copy_from_slice(block),
                    None => part.fill(0),
                });
                Ok(Answer::Read(buffer))
            }
            Io::Write { offset, data, .. } => {
                let is_data = offset >= METADATA && data.len() as u64 == BLOCK;
                let parts = (offset / BLOCK..).zip(data.chunks(BLOCK as usize)).filter(|_| !is_data);
                blocks.extend(parts.map(|(n, part)| (n, part.into())));
                Ok(Answer::Done)
            }
            Io::Flush => Ok(Answer::Done),
            _ => Err(IoError::Unsupported),
        }
    }
}

impl BlockDevice for MetadataDevice {
    fn geometry(&self) -> Geometry {
        Geometry { capacity: CAPACITY, block: BLOCK, request_max: 64 << 20 }
    }
    fn features(&self) -> Features {
        Features {
            read_only: false,
            discard: false,
            write_zeroes: false,
            extents: false,
            cache: false,
            rotational: false,
            timed: false,
        }
    }
    fn start(&self, _: &Context, io: Io) -> Started {
        Started::Done(self.execute(io))
    }
}

fn passphrase() -> Passphrase {
    Passphrase::new(b"correct horse battery staple").expect("a passphrase")
}

fn open(device: &Arc<dyn BlockDevice>, encrypted: bool, salt: u8) -> (Volume, f64) {
    let (mut executor, device, began) = (Executor::new(1), device.clone(), Instant::now());
    let cx = executor.context();
    let options =
        OpenOptions { passphrase: encrypted.then(passphrase), salt: [salt; 16], ..OpenOptions::default() };
    let volume = executor.block_on(async move { Volume::open(&cx, &[device], options).await });
    (volume.expect("the volume opens"), began.elapsed().as_secs_f64())
}

fn measure(extents: u64, encrypted: bool) {
    let device: Arc<dyn BlockDevice> = Arc::new(MetadataDevice::default());
    let mut executor = Executor::new(1);
    let (cx, member) = (executor.context(), NewMember::new(device.clone()));
    let options = Options {
        size: SIZE,
        encryption: encrypted.then(|| Encryption {
            cipher: Cipher::Aes256Gcm,
            kdf: Kdf::Argon2id { memory_kib: 64, passes: 1, lanes: 1 },
            passphrase: passphrase(),
            master: MasterKey::from_random(&mut [3; 32]),
            salt: [1; 32],
        }),
        ..Options::new([7; 16])
    };
    executor.block_on(async move { Volume::format(&cx, &[member], &options).await }).expect("it fits");
    let (volume, _) = open(&device, encrypted, 2);
    let (cx, data, began) =
        (Context::new(flashlab_sim::Instant::ZERO), vec![0; BLOCK as usize], Instant::now());
    let (step, data) = (SIZE / BLOCK / extents, flashlab_block::Payload::from(data));
    for n in 0..extents {
        // The factor has no divisor in common with the number of extents, unless the number is a multiple of
        // a large prime.
        let block = n * 2_654_435_761 % extents * step;
        let write = Io::Write { offset: block * BLOCK, data: data.clone(), durable: false };
        assert!(matches!(volume.start(&cx, write), Started::Done(Ok(_))), "write {n}");
    }
    assert!(matches!(volume.start(&cx, Io::Flush), Started::Done(Ok(_))), "the flush");
    let taken = began.elapsed().as_secs_f64();
    println!(
        "{}: {extents} extents written in {taken:.1} s",
        if encrypted { "aes-256-gcm" } else { "crc32c" }
    );
    drop(volume);
    let (volume, taken) = open(&device, encrypted, 3);
    println!("  after a power loss: opened in {taken:.2} s (goal 20)");
    let mut executor = Executor::new(1);
    let cx = executor.context();
    executor.block_on(async move { volume.close(&cx).await }).expect("the device works");
    let (volume, taken) = open(&device, encrypted, 4);
    println!("  after a close: opened in {taken:.2} s (goal 10)");
    let usage = volume.usage();
    let each = usage.map_memory as f64 / usage.extents as f64;
    let goal = if encrypted { 80 } else { 64 };
    println!("  {} extents in the map, {each:.1} B for each (goal {goal})", usage.extents);
}

fn main() {
    let extents = std::env::args().skip(1).find_map(|text| text.parse().ok()).unwrap_or(10_000_000);
    measure(extents, false);
    measure(extents, true);
}
