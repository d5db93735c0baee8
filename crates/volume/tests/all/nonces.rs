//! No pair of key and nonce seals two messages, across overwrites, garbage collection, power losses, repeated
//! mounts and mounts of clones.
//!
//! The oracle sees the bytes that the engine writes to the members, but no key. Each block of test data is a number
//! followed by zeroes, and both ciphers are stream ciphers. The stored bytes after the number are therefore
//! the key stream, which is determined by key and nonce. Two units with the same key stream and different
//! numbers prove that a pair was repeated. Journal entries and runs show their salt and their number in their
//! headers.

use crate::pool::{BLOCK, MEMBER, encryption, options, run, unlocking};
use flashlab_block::conformance::execute;
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Context, Executor, Features, Geometry, Io, Started};
use flashlab_sim::{Duration, Rng};
use flashlab_volume::keys::Cipher;
use flashlab_volume::{NewMember, Options, Volume};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Arc, Mutex};

/// Bytes per authentication tag in these volumes.
const UNIT: usize = 1024;

/// Sealed messages, indexed by bytes that identify their key and nonce.
#[derive(Default)]
struct Seals {
    /// Stored bytes 64 to 127 of a unit, which are key stream, and the 64 bytes before them.
    units: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Kind, salt and number of a journal entry or run, and the message.
    structures: BTreeMap<(u64, Vec<u8>), Vec<u8>>,
    repeated: Option<String>,
}

impl Seals {
    fn observe(&mut self, offset: u64, data: &[u8]) {
        let (kind, header) = match data.first_chunk() {
            Some(b"FLVsuper") => return,
            Some(b"FLVjrnl1") => (1, 48),
            Some(b"FLVchkp1") => (2, 56),
            _ => {
                for (n, unit) in data.chunks(UNIT).enumerate() {
                    let (key, message) = (unit[64..128].to_vec(), unit[..64].to_vec());
                    let name = || format!("two units, the second one at {}", offset + (n * UNIT) as u64);
                    let repeated = insert(&mut self.units, key, message).then(name);
                    self.repeated = self.repeated.take().or(repeated);
                }
                return;
            }
        };
        let key = (kind, data[header..header + 24].to_vec());
        let repeated = insert(&mut self.structures, key, data.to_vec());
        let name = || format!("two structures of kind {kind}, the second one at {offset}");
        self.repeated = self.repeated.take().or(repeated.then(name));
    }
}

/// Adds a message. Returns true if a different message has the same key.
fn insert<K: Ord>(seals: &mut BTreeMap<K, Vec<u8>>, key: K, message: Vec<u8>) -> bool {
    match seals.entry(key) {
        Entry::Occupied(before) => *before.get() != message,
        Entry::Vacant(place) => {
            place.insert(message);
            false
        }
    }
}

/// A disk whose writes are observed.
#[derive(Clone)]
struct Observed(Disk, Arc<Mutex<Seals>>);

impl BlockDevice for Observed {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if let Io::Write { offset, data, .. } = &io {
            self.1.lock().expect("no test panics here").observe(*offset, data);
        }
        self.0.start(cx, io)
    }
}

/// Returns data for `blocks` blocks, each of which begins with a new number.
fn numbered(blocks: u64, next: &mut u64) -> Vec<u8> {
    let mut data = vec![0; (blocks * BLOCK) as usize];
    for block in data.chunks_mut(BLOCK as usize) {
        *next += 1;
        block[..8].copy_from_slice(&next.to_le_bytes());
    }
    data
}

/// Overwrites parts of a volume.
async fn write(cx: Context, volume: Volume, seed: u64, blocks: u64, next: Arc<Mutex<u64>>) {
    let mut rng = Rng::new(seed);
    for _ in 0..40 {
        let start = rng.below(blocks);
        let length = 1 + rng.below((blocks - start).min(12));
        let data = numbered(length, &mut next.lock().expect("no test panics here"));
        let io = Io::Write { offset: start * BLOCK, data: data.into(), durable: rng.below(8) == 0 };
        if let Started::Pending(future) = volume.start(&cx, io) {
            let _ = future.await;
        }
    }
    let _ = volume.close(&cx).await;
}

fn observed(images: &[Image], seals: &Arc<Mutex<Seals>>) -> (Vec<Disk>, Vec<Arc<dyn BlockDevice>>) {
    let disk = |image: &Image| Disk::new(image.clone(), BLOCK).with_latency(Duration::from_us(100));
    let disks: Vec<Disk> = images.iter().map(disk).collect();
    let device = |disk: &Disk| Arc::new(Observed(disk.clone(), seals.clone())) as Arc<dyn BlockDevice>;
    let devices = disks.iter().map(device).collect();
    (disks, devices)
}

/// Opens a volume on the images and overwrites parts of it. Returns states in which a power loss may leave the disks.
fn mount(images: &[Image], seed: u64, seals: &Arc<Mutex<Seals>>, next: &Arc<Mutex<u64>>) -> Vec<Vec<Image>> {
    let mut executor = Executor::new(seed);
    let (disks, devices) = observed(images, seals);
    let (cx, next) = (executor.context(), next.clone());
    executor.spawn(async move {
        let volume = Volume::open(&cx, &devices, unlocking()).await.expect("a state after a power loss");
        let blocks = volume.geometry().capacity / BLOCK;
        write(cx, volume, seed, blocks, next).await;
    });
    let mut rng = Rng::for_purpose(seed, 3);
    let mut states = Vec::new();
    while executor.step() {
        if rng.below(150) == 0 {
            let point = Disk::point(&disks);
            states.extend(point.choices(1, &mut rng).iter().map(|choice| point.images(choice)));
        }
    }
    states.push(disks.iter().map(Disk::image).collect());
    states
}

#[test]
fn no_pair_of_key_and_nonce_repeats_over_power_losses_mounts_and_clones() {
    let full = std::env::var_os("FLASHLAB_FULL").is_some();
    let mut messages = (0, 0);
    for seed in 0..if full { 200 } else { 6 } {
        let (seals, next) = (Arc::new(Mutex::new(Seals::default())), Arc::new(Mutex::new(0)));
        let size = if seed % 2 == 0 { MEMBER } else { 432 << 10 };
        let (disks, devices) = observed(&vec![Image::new(size); 1 + seed as usize % 2], &seals);
        let cipher = [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm][seed as usize / 2 % 2];
        let options = Options { encryption: Some(encryption(cipher)), ..options() };
        run(|cx| async move {
            let members: Vec<NewMember> = devices.into_iter().map(NewMember::new).collect();
            Volume::format(&cx, &members, &options).await
        })
        .expect("disks of the right size");
        let mut states = vec![disks.iter().map(Disk::image).collect::<Vec<Image>>()];
        let mut rng = Rng::for_purpose(seed, 4);
        for round in 0..12 {
            // Draws from all earlier states, so that clones of one state are mounted several times.
            let state = states[rng.below(states.len() as u64) as usize].clone();
            states.extend(mount(&state, seed << 8 | round, &seals, &next));
        }
        let seals = seals.lock().expect("no test panics here");
        assert_eq!(seals.repeated, None, "seed {seed}");
        messages = (messages.0 + seals.units.len(), messages.1 + seals.structures.len());
    }
    assert!(messages.0 > 5_000 && messages.1 > 300, "{messages:?}");
}

/// The oracle reports two different messages under the same key stream, but not two copies of one message.
#[test]
fn the_oracle_sees_a_repeated_key_stream() {
    let mut seals = Seals::default();
    let mut unit = vec![9; UNIT];
    seals.observe(0, &unit);
    seals.observe(4096, &unit);
    assert_eq!(seals.repeated, None, "a copy of the same bytes");
    unit[3] = 1;
    seals.observe(8192, &unit);
    assert_eq!(seals.repeated.as_deref(), Some("two units, the second one at 8192"));
}

/// A read-only mount seals nothing.
#[test]
fn a_read_only_mount_writes_nothing() {
    let seals = Arc::new(Mutex::new(Seals::default()));
    let (_, devices) = observed(&[Image::new(MEMBER)], &seals);
    let options = Options { encryption: Some(encryption(Cipher::Aes256Gcm)), ..options() };
    let volume = run(|cx| async move {
        Volume::format(&cx, &[NewMember::new(devices[0].clone())], &options).await.expect("a disk");
        let read_only = flashlab_volume::OpenOptions { read_only: true, ..unlocking() };
        Volume::open(&cx, &devices, read_only).await.expect("a new volume")
    });
    assert!(execute(&volume, Io::Flush).is_ok());
    let seals = seals.lock().expect("no test panics here");
    assert_eq!((seals.units.len(), seals.structures.len()), (0, 0));
}
