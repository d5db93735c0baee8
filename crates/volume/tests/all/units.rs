//! Damage of single units: each unit of an extent is read from a copy in which it is good, and only units
//! without a good copy are lost.

use crate::faulty::find;
use crate::members::{close, findings};
use crate::pool::{BLOCK, disks, encrypted, format, open, options, run};
use crate::tiers::reconcile;
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::Disk;
use flashlab_block::{BlockDevice, Io, IoError};
use flashlab_sim::{Rng, mix};
use flashlab_volume::encode::Checksum;
use flashlab_volume::{Options, Scrubbed, Volume};

const UNIT: usize = 1024;

/// Returns the data of the extent at the start of the volume, which has four units.
fn data() -> Vec<u8> {
    (0..4 * UNIT as u64).map(|at| mix(at / 8) as u8).collect()
}

/// Creates a volume with an extent of four units on each of some members.
fn filled(members: usize, options: &Options) -> (Vec<Disk>, Volume) {
    let disks = disks(members);
    format(&disks, &Options { replicas: members as u8, ..options.clone() }).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    execute(&volume, Io::Write { offset: 0, data: data().into(), durable: true }).expect("disks that work");
    (disks, volume)
}

/// Damages units of the copy of the extent on a disk, which begins at `at`.
fn damage(disk: &Disk, at: u64, units: &[usize]) {
    units.iter().for_each(|unit| disk.flip(at + (unit * UNIT) as u64 + 5, 0x10));
}

/// Returns the place of the extent on a disk. Before the extent, the buckets for data have only zeroes.
fn place(disk: &Disk, options: &Options) -> u64 {
    if options.encryption.is_none() {
        return find(disk, &data());
    }
    // The journal of the small volumes has 64 KiB behind two copies of the superblock with 8 KiB each.
    let bytes = disk.image().to_vec();
    (80 << 10..bytes.len()).find(|at| bytes[*at] != 0).expect("data") as u64 / BLOCK * BLOCK
}

fn scrub(volume: &Volume) -> Scrubbed {
    let volume = volume.clone();
    run(|cx| async move { volume.scrub(&cx).await }).expect("disks that work")
}

/// Returns the blocks of the extent that cannot be read; the others have the right contents.
fn unreadable(volume: &Volume) -> Vec<usize> {
    let is_lost = |block: &usize| {
        let range = block * BLOCK as usize..(block + 1) * BLOCK as usize;
        let io = Io::Read { offset: range.start as u64, buffer: vec![0; BLOCK as usize] };
        match execute(volume, io) {
            Ok(flashlab_block::Answer::Read(bytes)) => {
                assert!(bytes == data()[range], "block {block}");
                false
            }
            other => {
                assert_eq!(other.err(), Some(IoError::Medium));
                true
            }
        }
    };
    (0..data().len() / BLOCK as usize).filter(is_lost).collect()
}

fn checksum_errors(volume: &Volume) -> Vec<u32> {
    volume.usage().members.iter().map(|member| member.errors.checksum).collect()
}

#[test]
fn units_that_are_bad_in_different_copies_lose_nothing() {
    for options in [options(), Options { checksum: Checksum::Xxh3, ..options() }, encrypted()] {
        let (disks, volume) = filled(2, &options);
        for (disk, units) in disks.iter().zip([&[0, 3][..], &[1]]) {
            damage(disk, place(disk, &options), units);
        }
        assert!(read(&volume, 0, data().len()) == data(), "a read of the whole extent");
        assert!(read(&volume, BLOCK, 5 * UNIT / 2) == data()[BLOCK as usize..][..5 * UNIT / 2]);
        let before = checksum_errors(&volume);
        assert_eq!(scrub(&volume), Scrubbed { copies: 2, repaired: 2, ..Scrubbed::default() });
        let counted: Vec<u32> =
            checksum_errors(&volume).iter().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(counted, [1, 1], "a scrub counts each bad copy once");
        assert_eq!(findings(&volume), [""; 0]);
        assert!(read(&volume, 0, data().len()) == data());
    }
}

#[test]
fn a_scrub_poisons_only_the_units_that_are_bad_in_every_copy() {
    for options in [options(), encrypted()] {
        let (disks, volume) = filled(2, &options);
        for (disk, units) in disks.iter().zip([&[0, 2][..], &[2, 3]]) {
            damage(disk, place(disk, &options), units);
        }
        assert_eq!(unreadable(&volume), [4, 5]);
        let scrubbed = scrub(&volume);
        assert_eq!((scrubbed.poisoned, scrubbed.repaired, scrubbed.pending), (1, 2, 0), "{scrubbed}");
        assert_eq!((unreadable(&volume), volume.usage().poisoned), (vec![4, 5], UNIT as u64));
        assert_eq!(volume.lost_bytes(), UNIT as u64);
        close(&volume);
        let volume = open(&disks).expect("both disks");
        assert_eq!(unreadable(&volume), [4, 5]);
        assert_eq!(findings(&volume), ["bytes 2048 to 3072: every copy was lost"]);
        assert_eq!(volume.usage().by_copies[&2], 3 * UNIT as u64);
    }
}

/// The rest of an extent keeps units that were partly overwritten.
#[test]
fn a_scrub_of_the_rest_of_an_extent_poisons_its_bad_unit() {
    let (disks, volume) = filled(1, &options());
    let at = find(&disks[0], &data());
    let same = data()[BLOCK as usize..][..3 * BLOCK as usize].to_vec();
    execute(&volume, Io::Write { offset: BLOCK, data: same.into(), durable: true }).expect("space");
    damage(&disks[0], at, &[0, 3]);
    assert_eq!(unreadable(&volume), [0, 6, 7]);
    assert_eq!(scrub(&volume).poisoned, 2);
    assert_eq!((unreadable(&volume), volume.usage().poisoned), (vec![0, 6, 7], 3 * BLOCK));
}

#[test]
fn garbage_collection_keeps_the_good_units_of_a_damaged_extent() {
    for replicas in [1, 2] {
        let (disks, volume) = filled(replicas, &options());
        let places: Vec<u64> = disks.iter().map(|disk| find(disk, &data())).collect();
        for (disk, (at, units)) in disks.iter().zip(places.iter().zip([&[1][..], &[1, 2]])) {
            damage(disk, *at, units);
        }
        let blocks = volume.geometry().capacity / BLOCK;
        let mut rng = Rng::new(6);
        for n in 0..8 * blocks {
            let block = if n < blocks - 8 { 8 + n } else { 8 + rng.below(blocks - 8) };
            let data = vec![mix(n) as u8; BLOCK as usize].into();
            execute(&volume, Io::Write { offset: block * BLOCK, data, durable: false }).expect("space");
        }
        execute(&volume, Io::Flush).expect("disks that work");
        assert_eq!(volume.usage().poisoned, UNIT as u64, "a collection moved the extent");
        assert_eq!(unreadable(&volume), [2, 3]);
        assert!(reconcile(&volume).pending.is_empty());
    }
}
