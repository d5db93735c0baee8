//! The room of a volume: changes that would leave less room than its size are refused, and the error has the
//! remedies.

use crate::pool::{BLOCK, encryption, open, open_options, options, run};
use crate::tiers::{data, fill, is_sound, is_written, labelled, reconcile, set};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Io, IoError};
use flashlab_sim::{Rng, mix};
use flashlab_volume::encode::Compressor;
use flashlab_volume::keys::Cipher;
use flashlab_volume::{
    Change, Degraded, Growth, MemberState, NewMember, OpenOptions, Options, Remedies, Volume, VolumeError,
};
use std::sync::Arc;

/// Returns the text of a refusal.
fn refused(result: Result<(), VolumeError>) -> String {
    result.expect_err("a change that the volume has no room for").to_string()
}

/// Returns the size of the volume that would permit the refused change, and the end of its data.
fn smaller_size(result: Result<(), VolumeError>) -> (u64, u64) {
    match result {
        Err(VolumeError::NoRoom { remedies: Remedies { size: Some(size), .. }, .. }) => {
            (size.bytes, size.data_end)
        }
        other => panic!("{other:?} names no smaller size"),
    }
}

fn remove(volume: &Volume, member: u8) -> Result<(), VolumeError> {
    let volume = volume.clone();
    run(|cx| async move { volume.remove(&cx, member).await.map(drop) })
}

#[test]
fn a_removal_is_refused_if_the_others_have_no_room_and_a_smaller_size_is_the_way_out() {
    let disks = labelled(&[("a", 1), ("b", 1)], &Options { replicas: 2, ..options() });
    let volume = open(&disks).expect("a new volume");
    let of_two = volume.geometry().capacity;
    let new = Disk::new(Image::new(crate::pool::MEMBER), BLOCK);
    let member = NewMember { label: "c".into(), ..NewMember::new(Arc::new(new.clone())) };
    run(|cx| async move { volume.add(&cx, &member, [7; 16], Growth::All).await }).expect("a new member");
    let all = [disks[0].clone(), disks[1].clone(), new];
    let volume = open(&all).expect("three members");
    let of_three = volume.geometry().capacity;
    assert!(of_three > of_two);
    let text = refused(remove(&volume, 2));
    assert!(text.contains("member 2: without it, the members have room for "), "{text}");
    assert!(text.contains(&format!("({of_two} bytes) with 2 copies")), "{text}");
    assert_eq!(smaller_size(remove(&volume, 2)), (of_two, 0));
    // Data beyond the smaller size has to be discarded first.
    let last = of_three - 4 * BLOCK;
    assert!(execute(&volume, Io::Write { offset: last, data: vec![1; 2048].into(), durable: false }).is_ok());
    assert_eq!(smaller_size(remove(&volume, 2)), (of_two, of_three));
    let smaller = Change { size: Some(of_two), ..Change::default() };
    let text = refused(set(&volume, smaller.clone()));
    assert!(text.contains(&format!("the volume has data in its first {of_three} bytes")), "{text}");
    assert!(execute(&volume, Io::Discard { offset: last, length: 2048, durable: true }).is_ok());
    set(&volume, smaller).expect("nothing lies beyond the new end");
    // The volume stays open, and clients may not know its new size yet.
    assert_eq!(volume.geometry().capacity, of_two);
    let write = Io::Write { offset: last, data: vec![1; 2048].into(), durable: false };
    let read_beyond = Io::Read { offset: last, buffer: vec![0; 2048] };
    let discard = Io::Discard { offset: of_two - BLOCK, length: 2 * BLOCK, durable: false };
    let errors = [write, read_beyond, discard].map(|io| execute(&volume, io).err());
    assert_eq!(errors, [Some(IoError::NoSpace), Some(IoError::Invalid), Some(IoError::Invalid)]);
    let volume = open(&all).expect("a smaller volume");
    assert_eq!(volume.geometry().capacity, of_two);
    set(&volume, Change { states: vec![(2, MemberState::Evacuating)], ..Change::default() })
        .expect("a member");
    let volume = open(&all).expect("a changed volume");
    reconcile(&volume);
    remove(&volume, 2).expect("the others have room");
    let volume = open(&disks).expect("two members");
    assert_eq!(volume.geometry().capacity, of_two);
    // All of the space that the volume promises can be written, and written again.
    for _ in 0..2 {
        for offset in (0..of_two).step_by(BLOCK as usize) {
            let io = Io::Write { offset, data: vec![2; BLOCK as usize].into(), durable: false };
            assert!(execute(&volume, io).is_ok(), "{offset}");
        }
    }
    is_sound(&volume);
    let refusal = remove(&volume, 1);
    assert!(
        matches!(
            refusal,
            Err(VolumeError::NoRoom { remedies: Remedies { copies: Some(1), size: None }, .. })
        ),
        "{refusal:?}"
    );
    let text = refused(refusal);
    assert!(text.contains("2 copies need 2 members that take data, and 1 would be left"), "{text}");
}

#[test]
fn copies_are_refused_if_the_size_cannot_be_stored_so_often() {
    let disks = labelled(&[("a", 1), ("b", 1)], &options());
    let volume = open(&disks).expect("a new volume");
    let size = volume.geometry().capacity;
    let twice = Change { replicas: Some(2), ..Change::default() };
    let text = refused(set(&volume, twice.clone()));
    assert!(text.starts_with("replicas=2: then the members have room for "), "{text}");
    assert!(smaller_size(set(&volume, twice.clone())).0 < size);
    set(&volume, Change { size: Some(size / 4), ..twice }).expect("a size that fits twice");
    let volume = open(&disks).expect("a changed volume");
    assert_eq!((volume.geometry().capacity, volume.usage().replicas), (size / 4, 2));
    let text = refused(set(&volume, Change { size: Some(10 << 30), ..Change::default() }));
    assert!(text.starts_with("size=10 GiB: the members have room for "), "{text}");
    let text = refused(set(&volume, Change { durability: vec![(0, 0)], ..Change::default() }));
    assert!(text.starts_with("durability: then "), "{text}");
    set(&volume, Change { replicas: Some(1), size: Some(0), ..Change::default() }).expect("one copy");
    assert_eq!(open(&disks).expect("a changed volume").geometry().capacity, size);
}

#[test]
fn a_member_added_in_the_place_of_a_lost_one_gives_no_room_twice() {
    let disks = labelled(&[("a", 1), ("b", 1)], &Options { replicas: 2, ..options() });
    let size = open(&disks).expect("a new volume").geometry().capacity;
    let without = |disks: &[Disk]| {
        let options = OpenOptions { degraded: Degraded::Yes, ..open_options() };
        crate::pool::open_with(disks, options).expect("all data has a copy")
    };
    let volume = without(&disks[..1]);
    let new = Disk::new(Image::new(crate::pool::MEMBER), BLOCK);
    let member = NewMember { label: "c".into(), ..NewMember::new(Arc::new(new.clone())) };
    run(|cx| async move { volume.add(&cx, &member, [7; 16], Growth::All).await }).expect("a new member");
    let present = [disks[0].clone(), new];
    let volume = without(&present);
    assert_eq!(volume.geometry().capacity, size);
    reconcile(&volume);
    remove(&volume, 1).expect("the new member has its room");
    assert_eq!(open(&present).expect("two members").geometry().capacity, size);
}

/// Later writes may replace a part of a compressed extent, or of an extent with large checksum units. The
/// rest keeps all stored bytes until a collection encodes it anew.
#[test]
fn random_overwrites_of_a_full_volume_find_space_for_ever() {
    for (compression, checksum_block, cipher) in [
        (Compressor::None, 1024, None),
        (Compressor::Lz4, 1024, None),
        (Compressor::None, 4096, None),
        (Compressor::Zstd(1), 2048, None),
        (Compressor::None, 4096, Some(Cipher::Aes256Gcm)),
        (Compressor::Lz4, 2048, Some(Cipher::ChaCha20Poly1305)),
    ] {
        for (replicas, members) in [(1, 1), (2, 2), (2, 3), (2, 4), (3, 5)] {
            let encryption = cipher.map(encryption);
            let options = Options { compression, checksum_block, replicas, encryption, ..options() };
            let disks = labelled(&vec![("", 1); members], &options);
            let volume = open(&disks).expect("a new volume");
            let blocks = volume.geometry().capacity / BLOCK;
            // Half of each 4 KiB is noise.
            let contents = |block: u64, version: u64| -> Vec<u8> {
                let is_noise = block % 8 < 4;
                let byte = |at: u64| if is_noise { mix(version << 40 | block << 16 | at) as u8 } else { 0 };
                (0..BLOCK).map(byte).collect()
            };
            for first in (0..blocks / 8 * 8).step_by(8) {
                let data: Vec<u8> = (first..first + 8).flat_map(|block| contents(block, 0)).collect();
                let write = Io::Write { offset: first * BLOCK, data: data.into(), durable: false };
                execute(&volume, write).expect("space");
            }
            let (mut rng, mut versions) = (Rng::new(9), vec![0; blocks as usize]);
            for n in 1..4 * blocks {
                let block = rng.below(blocks / 8 * 8);
                versions[block as usize] = n;
                let data = contents(block, n).into();
                let write = Io::Write { offset: block * BLOCK, data, durable: false };
                execute(&volume, write).unwrap_or_else(|error| {
                    panic!(
                        "{compression:?}, {checksum_block}, {cipher:?}, {replicas} copies on {members}, write {n}: {error}"
                    )
                });
                if n % 13 == 0 && members > 2 {
                    execute(&volume, Io::Flush).expect("space for the journal");
                }
            }
            for block in 0..blocks / 8 * 8 {
                let found = read(&volume, block * BLOCK, BLOCK as usize);
                assert!(found == contents(block, versions[block as usize]), "block {block}");
            }
            is_sound(&volume);
        }
    }
}

/// A copy on a member of durability 2 counts as two copies, so a collection must not replace it by a copy
/// that counts once.
#[test]
fn collections_keep_the_durability_of_copies() {
    for durabilities in [&[2, 1, 1][..], &[2, 2, 1, 1], &[1, 1, 2, 1]] {
        let members: Vec<_> = durabilities.iter().map(|durability| ("", *durability)).collect();
        let disks = labelled(&members, &Options { replicas: 2, ..options() });
        let volume = open(&disks).expect("a new volume");
        let blocks = volume.geometry().capacity / BLOCK;
        let mut rng = Rng::new(1);
        for n in 0..5 * blocks {
            let offset = if n < blocks { n } else { rng.below(blocks) } * BLOCK;
            let data = vec![mix(n) as u8; BLOCK as usize].into();
            let written = execute(&volume, Io::Write { offset, data, durable: n % 17 == 0 });
            written.unwrap_or_else(|error| panic!("{durabilities:?}, write {n}: {error}"));
        }
        let found = reconcile(&volume);
        assert_eq!((found.moved_bytes, found.pending.len()), (0, 0), "{durabilities:?}: {found:?}");
        is_sound(&volume);
    }
}

/// Repairs take space only temporarily, and do not use the reserve of garbage collection.
#[test]
fn a_scrub_of_a_full_mirror_repairs_everything_and_leaves_space_for_writes() {
    for bad in [60, 200] {
        let disks = labelled(&[("a", 1), ("b", 1)], &Options { replicas: 2, ..options() });
        let volume = open(&disks).expect("a new volume");
        let writes = volume.geometry().capacity / 2048;
        fill(&volume, writes);
        let mut rng = Rng::new(4);
        let overwrite = |n: u64| {
            let write = Io::Write { offset: n * 2048, data: data(n).into(), durable: false };
            execute(&volume, write).expect("space");
        };
        (0..3 * writes).for_each(|_| overwrite(rng.below(writes)));
        execute(&volume, Io::Flush).expect("disks that work");
        let image = disks[0].image().to_vec();
        let mut damaged = 0;
        for n in (0..bad).map(|n| n * 7 % writes) {
            let data = data(n);
            for at in (0..image.len() - 2048).step_by(BLOCK as usize) {
                if image[at..at + 2048] == data[..] {
                    disks[0].flip(at as u64 + 100, 1);
                    damaged += 1;
                }
            }
        }
        assert!(damaged > 40, "{damaged} copies");
        let scrubbing = volume.clone();
        let scrubbed = run(|cx| async move { scrubbing.scrub(&cx).await }).expect("disks that work");
        assert!(scrubbed.repaired > 40 && scrubbed.copies >= 2 * writes, "{scrubbed}");
        assert_eq!((scrubbed.poisoned, scrubbed.unreadable, scrubbed.pending), (0, 0, 0), "{scrubbed}");
        is_sound(&volume);
        (0..200).for_each(|_| overwrite(rng.below(writes)));
        assert!((0..writes).all(|n| is_written(&volume, n)));
    }
}
