//! The volume as a block device: it reads like an array, even after it was opened again, and uses its space.

use crate::pool::{
    BLOCK, MEMBER, devices, disks, encrypted, encryption, format, open, open_options, options, run,
};
use crate::tiers::{fill, live, set};
use flashlab_block::conformance::{agrees_with_an_array, execute, read, rejects_requests_beyond_the_end};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{Answer, BlockDevice, Io, IoError};
use flashlab_sim::Rng;
use flashlab_volume::encode::{Checksum, Compressor};
use flashlab_volume::keys::Cipher;
use flashlab_volume::{
    Change, Degraded, MemberState, MissingMember, NewMember, OpenOptions, Options, Volume, VolumeError,
};

#[test]
fn a_volume_reads_like_a_plain_array() {
    let shapes = [
        (1, 1, 1, Compressor::None, Checksum::Crc32c, None),
        (2, 2, 1, Compressor::None, Checksum::Xxh3, None),
        (3, 3, 1, Compressor::Lz4, Checksum::Crc32c, None),
        (4, 2, 2, Compressor::Zstd(3), Checksum::Crc32c, None),
        (5, 3, 2, Compressor::Lz4, Checksum::Xxh3, None),
        (6, 1, 1, Compressor::None, Checksum::Crc32c, Some(Cipher::Aes256Gcm)),
        (7, 2, 2, Compressor::Lz4, Checksum::Crc32c, Some(Cipher::ChaCha20Poly1305)),
    ];
    for (seed, members, replicas, compression, checksum, cipher) in shapes {
        let disks = disks(members);
        let encryption = cipher.map(encryption);
        let options = Options { replicas, compression, checksum, encryption, ..options() };
        format(&disks, &options).expect("disks of the right size");
        let volume = open(&disks).expect("a new volume");
        agrees_with_an_array(&volume, seed, 400);
        let report = run(|cx| async move { volume.check(&cx).await });
        assert_eq!(report.findings, [""; 0], "seed {seed}");
    }
}

#[test]
fn requests_beyond_the_end_are_rejected() {
    let disks = disks(1);
    format(&disks, &options()).expect("disks of the right size");
    rejects_requests_beyond_the_end(&open(&disks).expect("a new volume"));
}

/// Writes random data everywhere, several times over, and compares after each opening.
#[test]
fn all_of_the_space_can_be_overwritten_again_and_again() {
    for (members, replicas, base) in [(1, 1, options()), (2, 1, encrypted()), (2, 2, options())] {
        let disks = disks(members);
        format(&disks, &Options { replicas, ..base }).expect("disks of the right size");
        let mut rng = Rng::new(7);
        let capacity = open(&disks).expect("a new volume").geometry().capacity;
        let mut array = vec![0; capacity as usize];
        for round in 0..4u8 {
            let volume = open(&disks).expect("the volume was closed");
            assert!(read(&volume, 0, array.len()) == array, "round {round}");
            for n in 0..1_500u64 {
                let length = (1 + rng.below(16)) * BLOCK;
                let offset = rng.below((capacity - length) / BLOCK + 1) * BLOCK;
                let bytes = vec![(n % 251) as u8 + 1; length as usize];
                array[offset as usize..(offset + length) as usize].copy_from_slice(&bytes);
                let write = Io::Write { offset, data: bytes.into(), durable: n % 50 == 0 };
                let done = execute(&volume, write);
                assert!(done.is_ok(), "round {round}, write {n}: {done:?}, {:?}", volume.usage());
            }
            for offset in (0..capacity).step_by(8192).filter(|_| round == 0) {
                let data = vec![3; 8192.min(capacity - offset) as usize];
                array[offset as usize..][..data.len()].copy_from_slice(&data);
                assert!(execute(&volume, Io::Write { offset, data: data.into(), durable: false }).is_ok());
            }
            assert!(read(&volume, 0, array.len()) == array, "round {round}");
            let closing = volume.clone();
            run(|cx| async move { closing.close(&cx).await }).expect("disks that work");
            let report = run(|cx| async move { volume.check(&cx).await });
            assert_eq!(report.findings, [""; 0], "round {round}");
        }
    }
}

#[test]
fn data_is_striped_over_the_members_by_their_space() {
    let disks = disks(2);
    format(&disks, &options()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    for n in 0..64 {
        let data = vec![1; 8192];
        assert!(execute(&volume, Io::Write { offset: n * 8192, data: data.into(), durable: false }).is_ok());
    }
    let usage = volume.usage();
    let [a, b] = [0, 1].map(|n| usage.members[n].buckets.live_blocks);
    assert_eq!(a + b, 64 * 16);
    assert!(a.abs_diff(b) <= 64, "{a} and {b} blocks");
    assert_eq!((usage.mapped, usage.stored), (64 * 8192, 64 * 8192));
}

/// A member that took no data for some time gets no extra share of new data afterwards.
#[test]
fn a_member_that_was_read_only_shares_new_data_with_the_others_again() {
    let disks = disks(2);
    format(&disks, &options()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    let state = |state| set(&volume, Change { states: vec![(1, state)], ..Change::default() });
    fill(&volume, 20);
    state(MemberState::Ro).expect("a member");
    (0..20).for_each(|_| fill(&volume, 20));
    state(MemberState::Rw).expect("a member");
    let before = live(&volume);
    for offset in (20..60).map(|n| n * 2048) {
        let write = Io::Write { offset, data: vec![1; 2048].into(), durable: false };
        assert!(execute(&volume, write).is_ok());
    }
    let new: Vec<u64> = live(&volume).iter().zip(before).map(|(after, before)| after - before).collect();
    assert!(new[0] + new[1] == 160 && new[0].abs_diff(new[1]) <= 32, "{new:?} blocks");
}

#[test]
fn compressible_data_takes_less_space() {
    let disks = disks(1);
    format(&disks, &Options { compression: Compressor::Lz4, ..options() }).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    for n in 0..16 {
        let data: Vec<u8> = (0..8192u32).map(|byte| (byte / 97 + n) as u8).collect();
        let write = Io::Write { offset: u64::from(n) * 8192, data: data.into(), durable: false };
        assert!(execute(&volume, write).is_ok());
    }
    let usage = volume.usage();
    assert_eq!(usage.mapped, 16 * 8192);
    assert!(usage.stored <= usage.mapped / 4, "{usage:?}");
    let volume = {
        assert!(execute(&volume, Io::Flush).is_ok());
        open(&disks).expect("a volume that was flushed")
    };
    for n in 0..16 {
        let data: Vec<u8> = (0..8192u32).map(|byte| (byte / 97 + n) as u8).collect();
        assert!(read(&volume, u64::from(n) * 8192, 8192) == data, "part {n}");
    }
}

#[test]
fn a_discard_of_everything_frees_all_buckets() {
    let disks = disks(1);
    format(&disks, &options()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    let capacity = volume.geometry().capacity;
    for offset in (0..capacity / 2).step_by(8192) {
        assert!(execute(&volume, Io::Write { offset, data: vec![1; 8192].into(), durable: false }).is_ok());
    }
    let before = volume.usage().members[0].buckets;
    assert!(execute(&volume, Io::Discard { offset: 0, length: capacity, durable: true }).is_ok());
    let after = volume.usage().members[0].buckets;
    assert_eq!((after.live_blocks, after.used), (0, 0));
    assert!(after.free > before.free);
    assert!(read(&volume, 0, 8192).iter().all(|byte| *byte == 0));
}

#[test]
fn members_are_found_in_any_order_and_wrong_ones_are_refused() {
    let all = disks(3);
    format(&all[..2], &options()).expect("disks of the right size");
    format(&all[2..], &Options { volume: [1; 16], ..options() }).expect("disks of the right size");
    let open_of = |order: &[usize]| {
        let disks: Vec<_> = order.iter().map(|n| all[*n].clone()).collect();
        open(&disks).map(drop)
    };
    assert_eq!(open_of(&[1, 0]), Ok(()));
    let missing = vec![MissingMember { number: 1, label: String::new() }];
    assert_eq!(open_of(&[0]), Err(VolumeError::Missing { missing, of: 2 }));
    assert_eq!(open_of(&[0, 2]), Err(VolumeError::Foreign { member: 1, first: 0 }));
    // The other devices are compared with the first device that can be read.
    let degraded = OpenOptions { degraded: Degraded::Very, ..open_options() };
    let given = devices(&[disks(1).remove(0), all[1].clone(), all[2].clone()]);
    let opened = run(|cx| async move { Volume::open(&cx, &given, degraded).await }).map(drop);
    assert_eq!(opened, Err(VolumeError::Foreign { member: 2, first: 1 }));
    assert_eq!(open_of(&[0, 0]), Err(VolumeError::Duplicate { member: 1 }));
    let blank = open(&disks(1)).map(drop);
    assert!(matches!(blank, Err(VolumeError::NoSuperblock { member: 0, .. })), "{blank:?}");
}

#[test]
fn a_read_only_volume_changes_nothing() {
    let disks = disks(1);
    format(&disks, &options()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    assert!(execute(&volume, Io::Write { offset: 0, data: vec![9; 512].into(), durable: true }).is_ok());
    let before = disks[0].image();
    let devices = devices(&disks);
    let read_only = OpenOptions { read_only: true, ..open_options() };
    let volume = run(|cx| async move { Volume::open(&cx, &devices, read_only).await }).expect("a volume");
    assert!(volume.features().read_only);
    let write = Io::Write { offset: 0, data: vec![1; 512].into(), durable: false };
    assert_eq!(execute(&volume, write).err(), Some(IoError::ReadOnly));
    let set =
        set(&volume, Change { replicas: Some(1), ..Change::default() }).expect_err("a read-only volume");
    assert_eq!(set.to_string(), format!("the volume cannot be changed: {}", IoError::ReadOnly));
    assert!(execute(&volume, Io::Flush).is_ok());
    assert!(read(&volume, 0, 512).iter().all(|byte| *byte == 9));
    assert!(disks[0].image() == before);
}

#[test]
fn options_that_do_not_fit_the_members_are_refused() {
    let too_large = format(&disks(1), &Options { size: 1 << 30, ..options() });
    assert!(matches!(too_large, Err(VolumeError::Option(_))), "{too_large:?}");
    let copies = format(&disks(1), &Options { replicas: 2, ..options() });
    assert!(copies.expect_err("one member").to_string().starts_with("replicas=2"));
    let small = flashlab_block::Memory::new(1 << 16, flashlab_block::Pages::Small).expect("a size");
    let members = vec![NewMember::new(std::sync::Arc::new(small))];
    let error = run(|cx| async move { Volume::format(&cx, &members, &options()).await });
    assert!(matches!(error, Err(VolumeError::TooSmall { member: 0, .. })), "{error:?}");
    let members = [disks(1).remove(0), Disk::new(Image::new(MEMBER / 2), BLOCK)];
    let error = format(&members, &Options { journal: 128 << 10, ..options() });
    assert!(matches!(error, Err(VolumeError::TooSmall { member: 1, .. })), "{error:?}");
}

/// On a stick or a card, most of the time of a request is the time of the command, so one request is faster
/// than several.
#[test]
fn a_read_of_extents_that_lie_side_by_side_is_one_request_to_the_member() {
    for base in [options(), encrypted()] {
        let disks = disks(1);
        format(&disks, &base).expect("disks of the right size");
        let volume = open(&disks).expect("a new volume");
        let data: Vec<u8> = (0..12 << 10).map(|n| (n / 7) as u8).collect();
        let write = Io::Write { offset: 0, data: data.clone().into(), durable: false };
        assert!(execute(&volume, write).is_ok());
        let reads = || volume.usage().members[0].requests.reads;
        for (offset, length, most) in [(0, 12 << 10, 1), (512, 8 << 10, 1), (0, 512, 1)] {
            let before = reads();
            let read = Io::Read { offset, buffer: vec![0; length] };
            let Ok(Answer::Read(bytes)) = execute(&volume, read) else { panic!("no answer") };
            assert!(bytes == data[offset as usize..offset as usize + length], "{length} bytes at {offset}");
            assert_eq!(reads() - before, most, "{length} bytes at {offset}");
        }
    }
}

/// The last copy of the superblock lies at the end of the device, so on a smaller device it must not reach into the
/// buckets.
#[test]
fn a_copy_of_a_member_on_a_smaller_device_keeps_its_data_or_is_refused() {
    let first = disks(1);
    format(&first, &options()).expect("a disk of the right size");
    let volume = open(&first).expect("a new volume");
    let mut written = 0;
    let write =
        |offset: u64| Io::Write { offset, data: vec![(offset >> 12) as u8 | 1; 4096].into(), durable: true };
    while written < volume.geometry().capacity && execute(&volume, write(written)).is_ok() {
        written += 4096;
    }
    run(|cx| async move { volume.close(&cx).await }).expect("disks that work");
    let (bytes, mut refused, mut opened) = (first[0].image().to_vec(), 0, 0);
    for size in (MEMBER - (64 << 10)..=MEMBER).step_by(4096) {
        let mut image = Image::new(size);
        image.write(0, &bytes[..size as usize]);
        match open(&[Disk::new(image, BLOCK)]) {
            Err(VolumeError::TooSmall { member: 0, .. }) => refused += 1,
            Err(error) => panic!("{size}: {error}"),
            Ok(volume) => {
                opened += 1;
                for offset in (0..written).step_by(4096) {
                    assert!(
                        read(&volume, offset, 4096) == [(offset >> 12) as u8 | 1; 4096],
                        "{size}: {offset}"
                    );
                }
            }
        }
    }
    assert!(refused > 0 && opened > 0, "{refused}, {opened}");
}
