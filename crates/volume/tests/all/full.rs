//! Volumes that are full of extents that overwrites cannot divide: compressed extents, and encrypted extents
//! with large units. The rest of an overwritten extent keeps all stored bytes until garbage collection
//! encodes it anew. The new encoding needs space on every member with a copy. No write may fail as long as
//! the logical size has room for it.

use crate::members::close;
use crate::pool::{BLOCK, Switched, encrypted, format, open, open_with, options, options_for, run, switched};
use crate::tiers::{is_sound, set};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Io};
use flashlab_sim::{Rng, mix};
use flashlab_volume::encode::Compressor;
use flashlab_volume::{Change, Degraded, MemberState, OpenOptions, Options, Volume};
use std::sync::Arc;

/// Options of volumes with two copies whose extents cannot be divided.
fn cases() -> Vec<(&'static str, Options)> {
    let two = Options { replicas: 2, extent_max: 8192, bucket: 128 << 10, ..options() };
    let sealed = Options { checksum_block: 8192, encryption: encrypted().encryption, ..two.clone() };
    vec![
        ("lz4", Options { compression: Compressor::Lz4, ..two.clone() }),
        ("encrypted", sealed.clone()),
        ("encrypted lz4", Options { compression: Compressor::Lz4, ..sealed }),
        ("plain", two),
    ]
}

fn mirror(options: &Options) -> Vec<Disk> {
    let disks: Vec<Disk> = (0..2).map(|_| Disk::new(Image::new(8 << 20), BLOCK)).collect();
    format(&disks, options).expect("disks of the right size");
    disks
}

/// A client that remembers the data it wrote.
struct Client {
    rng: Rng,
    /// Seed of the data in each block.
    blocks: Vec<u64>,
}

impl Client {
    fn new(volume: &Volume, seed: u64, percent: u64) -> Client {
        let blocks = volume.geometry().capacity / BLOCK * percent / 100;
        Client { rng: Rng::new(seed), blocks: vec![0; blocks as usize] }
    }

    /// Returns the data of a block. Every second seed gives data that compresses.
    fn data(seed: u64) -> Vec<u8> {
        (0..BLOCK)
            .map(|at| mix(seed << 16 | if seed.is_multiple_of(2) { at } else { at / 64 }) as u8)
            .collect()
    }

    fn write(&mut self, volume: &Volume, at: usize, count: usize) -> Result<(), String> {
        let seeds = (0..count).map(|_| self.rng.next_u64() >> 24 | 1);
        let seeds: Vec<u64> = seeds.zip(0..).map(|(seed, n)| seed ^ (n % 2)).collect();
        let data: Vec<u8> = seeds.iter().flat_map(|seed| Client::data(*seed)).collect();
        self.blocks[at..at + count].copy_from_slice(&seeds);
        let io = Io::Write { offset: at as u64 * BLOCK, data: data.into(), durable: false };
        execute(volume, io).map(drop).map_err(|error| format!("{count} blocks at {at}: {error}"))
    }

    fn fill(&mut self, volume: &Volume) -> Result<(), String> {
        let blocks = self.blocks.len();
        (0..blocks).step_by(16).try_for_each(|at| self.write(volume, at, 16.min(blocks - at)))
    }

    /// Overwrites as many blocks as there are, `times` times, in pieces of all sizes.
    fn overwrite(&mut self, volume: &Volume, times: usize) -> Result<(), String> {
        let mut written = 0;
        while written < times * self.blocks.len() {
            let count = [1, 1, 1, 2, 3, 5, 16, 40][self.rng.below(8) as usize];
            let at = self.rng.below((self.blocks.len() - count) as u64) as usize;
            self.write(volume, at, count)?;
            written += count;
            if self.rng.below(16) == 0 {
                execute(volume, Io::Flush).map_err(|error| format!("a flush: {error}"))?;
            }
        }
        Ok(())
    }

    fn verify(&self, volume: &Volume) {
        for (at, seed) in self.blocks.iter().enumerate() {
            let found = read(volume, at as u64 * BLOCK, BLOCK as usize);
            assert!(found == Client::data(*seed), "block {at}");
        }
    }
}

#[test]
fn overwrites_of_a_full_mirror_always_find_space() {
    for (name, options) in cases() {
        for percent in [90, 100] {
            let volume = open(&mirror(&options)).expect("a new volume");
            let mut client = Client::new(&volume, 1, percent);
            let done = client.fill(&volume).and_then(|()| client.overwrite(&volume, 4));
            assert_eq!(done, Ok(()), "{name}, {percent} %");
            client.verify(&volume);
            is_sound(&volume);
        }
    }
}

#[test]
fn overwrites_of_a_full_mirror_without_one_member_find_space() {
    for (name, options) in cases() {
        for percent in [50, 100] {
            let disks = mirror(&options);
            let volume = open(&disks).expect("a new volume");
            let mut client = Client::new(&volume, 2, percent);
            let done = client.fill(&volume).and_then(|()| client.overwrite(&volume, 2));
            assert_eq!(done, Ok(()), "{name}, {percent} %, with both members");
            close(&volume);
            let one = OpenOptions { degraded: Degraded::Yes, ..options_for(&disks) };
            let volume = open_with(&disks[1..], one).expect("all data");
            assert_eq!(client.overwrite(&volume, 3), Ok(()), "{name}, {percent} %, with one member");
            client.verify(&volume);
            close(&volume);
            let volume = open(&disks).expect("both members");
            crate::tiers::reconcile(&volume);
            assert_eq!(client.overwrite(&volume, 2), Ok(()), "{name}, {percent} %, with both members again");
            crate::tiers::reconcile(&volume);
            client.verify(&volume);
            is_sound(&volume);
            assert_eq!(volume.usage().by_copies.keys().copied().collect::<Vec<_>>(), [2], "{name}");
        }
    }
}

#[test]
fn overwrites_of_a_full_mirror_find_space_beside_a_read_only_or_dead_member() {
    for (name, options) in cases() {
        for is_dead in [false, true] {
            let disks = mirror(&options);
            let switches: Vec<Switched> = disks.iter().map(switched).collect();
            let members: Vec<Arc<dyn BlockDevice>> =
                switches.iter().map(|one| Arc::new(one.clone()) as Arc<dyn BlockDevice>).collect();
            let how = options_for(&disks);
            let opened = run(|cx| async move { Volume::open(&cx, &members, how).await });
            let volume = opened.expect("a new volume");
            let mut client = Client::new(&volume, 3, 90);
            let done = client.fill(&volume).and_then(|()| client.overwrite(&volume, 2));
            assert_eq!(done, Ok(()), "{name}, with both members");
            let state = |state| Change { states: vec![(0, state)], ..Change::default() };
            match is_dead {
                true => switches[0].die(),
                false => set(&volume, state(MemberState::Ro)).expect("a state"),
            }
            assert_eq!(client.overwrite(&volume, 2), Ok(()), "{name}, dead: {is_dead}");
            client.verify(&volume);
            match is_dead {
                true => switches[0].revive(),
                false => set(&volume, state(MemberState::Rw)).expect("a state"),
            }
            crate::tiers::reconcile(&volume);
            assert_eq!(
                client.overwrite(&volume, 2),
                Ok(()),
                "{name}, dead: {is_dead}, with both members again"
            );
            client.verify(&volume);
            is_sound(&volume);
        }
    }
}

/// With the default sizes, a bucket holds 16 extents or more. Garbage collection must not move a part of a
/// bucket if the rest of the bucket finds no space, because such a mirror would run out of space.
#[test]
fn overwrites_of_a_full_mirror_with_the_default_sizes_find_space() {
    let two = Options { replicas: 2, ..Options::new([0x5a; 16]) };
    let sealed = Options { checksum_block: 64 << 10, encryption: encrypted().encryption, ..two.clone() };
    let lz4 = Options { compression: Compressor::Lz4, ..two };
    for (options, percent, seed) in [(&sealed, 90, 0), (&sealed, 100, 1), (&lz4, 100, 2)] {
        let disks: Vec<Disk> = (0..2).map(|_| Disk::new(Image::new(64 << 20), BLOCK)).collect();
        format(&disks, options).expect("disks of the right size");
        let volume = open(&disks).expect("a new volume");
        let blocks = volume.geometry().capacity / 4096 * percent / 100;
        let mut rng = Rng::new(seed);
        let block =
            |at: u64| if at.is_multiple_of(2) { vec![at as u8; 4096] } else { Client::data(at).repeat(8) };
        let write = |at: u64, count: u64| {
            let data: Vec<u8> = (at..at + count).flat_map(block).collect();
            let io = Io::Write { offset: at * 4096, data: data.into(), durable: false };
            execute(&volume, io).map(drop)
        };
        for at in (0..blocks - 16).step_by(16) {
            write(at, 16).expect("an empty volume");
        }
        for n in 0..2500 {
            let count = [1, 1, 1, 2, 8, 16, 40][rng.below(7) as usize];
            let done = write(rng.below(blocks - count), count);
            assert_eq!(done, Ok(()), "seed {seed}, write {n}");
            if rng.below(16) == 0 {
                execute(&volume, Io::Flush).expect("a flush");
            }
        }
    }
}
