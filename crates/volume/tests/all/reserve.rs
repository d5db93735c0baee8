//! The space for checkpoints: a volume always has this space, even if it is full and fragmented into single
//! blocks.

use crate::members::{close, findings};
use crate::pool::{BLOCK, encrypted, format, open, options, run};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Io, IoError};
use flashlab_sim::Rng;
use flashlab_volume::format::{Superblock, copy_offsets};
use flashlab_volume::{Growth, NewMember, Options, Volume};
use std::sync::Arc;

/// Size of a member in bytes.
const MEMBER: u64 = 4 << 20;

fn disks(count: usize, bytes: u64) -> Vec<Disk> {
    (0..count).map(|_| Disk::new(Image::new(bytes), BLOCK)).collect()
}

/// Writes every block of a volume in a random order, and flushes now and then, until a request fails.
fn fill_at_random(volume: &Volume, rng: &mut Rng, byte: u8) -> Result<(), IoError> {
    let blocks = volume.geometry().capacity / BLOCK;
    let mut order: Vec<u64> = (0..blocks).collect();
    for n in (1..blocks).rev() {
        order.swap(n as usize, rng.below(n + 1) as usize);
    }
    for (n, block) in order.into_iter().enumerate() {
        let data = vec![byte; BLOCK as usize].into();
        execute(volume, Io::Write { offset: block * BLOCK, data, durable: false })?;
        if n % 50 == 0 {
            execute(volume, Io::Flush)?;
        }
    }
    Ok(())
}

/// Formats four disks, and gives the volume a size that an earlier version chose, with a smaller reserve.
fn former(replicas: u8, size: u64) -> Vec<Disk> {
    let disks = disks(4, MEMBER);
    format(&disks, &Options { replicas, ..options() }).expect("disks of the right size");
    let enlarge = |disk: Disk| {
        let mut image = disk.image();
        let superblock = Superblock::decode(&image.to_vec()).expect("a new superblock");
        assert!(superblock.size < size);
        let enlarged = Superblock { size, ..superblock }.encode();
        copy_offsets(image.size()).into_iter().for_each(|at| image.write(at, &enlarged));
        Disk::new(image, BLOCK)
    };
    disks.into_iter().map(enlarge).collect()
}

/// Fills a volume twice in random order, with a close after each time, and checks the start of its data and
/// its structures.
fn fill_twice(disks: &[Disk], seed: u64) {
    let mut rng = Rng::new(seed);
    for byte in 1..=2 {
        let volume = open(disks).expect("a volume with space");
        fill_at_random(&volume, &mut rng, byte).expect("a volume with space");
        close(&volume);
    }
    let volume = open(disks).expect("a closed volume");
    assert!(read(&volume, 0, 4096) == [2; 4096]);
    assert_eq!(findings(&volume), [""; 0]);
}

#[test]
fn a_full_and_fragmented_volume_has_space_for_its_checkpoints() {
    for (replicas, base) in [(4, options()), (2, encrypted())] {
        let disks = disks(4, MEMBER);
        format(&disks, &Options { replicas, ..base }).expect("disks of the right size");
        fill_twice(&disks, 7);
    }
}

/// The checkpoint of such a volume finds room after garbage collection.
#[test]
fn a_volume_with_the_reserve_of_an_earlier_version_makes_room_for_its_checkpoints() {
    // 0.3 % more than today, as with blocks of 4 KiB.
    let disks = former(2, 6_180_352);
    fill_twice(&disks, 8);
}

/// If such a volume is small and has many copies, its map does not fit at all. Writes then fail for lack of
/// space, but the volume opens, and continues with another member or with less data.
#[test]
fn a_volume_without_room_for_its_checkpoint_is_full_but_not_lost() {
    let disks = former(4, 3_104_768);
    let volume = open(&disks).expect("a new volume");
    assert_eq!(fill_at_random(&volume, &mut Rng::new(9), 1), Err(IoError::NoSpace));
    execute(&volume, Io::Flush).expect("the journal has room");
    assert_eq!(findings(&volume), [""; 0]);
    drop(volume);
    let volume = open(&disks).expect("a full volume");
    let length = volume.geometry().capacity / 2 / BLOCK * BLOCK;
    let new = Disk::new(Image::new(MEMBER), BLOCK);
    let (member, adding) = (NewMember::new(Arc::new(new.clone())), volume.clone());
    run(|cx| async move { adding.add(&cx, &member, [7; 16], Growth::None).await }).expect("a new member");
    execute(&volume, Io::Discard { offset: length, length, durable: true }).expect("the journal has room");
    execute(&volume, Io::Write { offset: 0, data: vec![2; 4096].into(), durable: true }).expect("room again");
    close(&volume);
    let all = [disks, vec![new]].concat();
    let volume = open(&all).expect("five members");
    assert!(read(&volume, 0, 4096) == [2; 4096]);
    assert!(read(&volume, length, 4096) == [0; 4096]);
    assert_eq!(findings(&volume), [""; 0]);
}
