//! Superblocks and records with correct checksums, but with values that no volume has. The result is an error
//! or a volume that works, and never a panic.

use crate::members::open_degraded;
use crate::pool::{BLOCK, disks, format, open, open_options, open_with, options, run};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Io};
use flashlab_sim::Rng;
use flashlab_volume::encode::Compressor;
use flashlab_volume::format::{
    ENTRY_HEADER, Entry, MemberEntry, RUN_HEADER, Record, Root, Run, SUPERBLOCK_SIZE, Superblock,
    copy_offsets,
};
use flashlab_volume::{Degraded, OpenOptions, Options, Pointer, Volume, VolumeError};

/// Creates a volume with 4 KiB of data, and closes it. Returns its disks.
fn closed(members: usize, base: Options) -> Vec<Disk> {
    let disks = disks(members);
    format(&disks, &base).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    let write = Io::Write { offset: 0, data: vec![7; 4096].into(), durable: true };
    assert!(execute(&volume, write).is_ok());
    run(|cx| async move { volume.close(&cx).await }).expect("disks that work");
    disks
}

/// Returns a disk whose superblock was changed, with a correct checksum.
fn forged(disk: &Disk, change: &dyn Fn(&mut Superblock)) -> Disk {
    let mut image = disk.image();
    let mut superblock = Superblock::decode(&image.to_vec()).expect("a sound superblock");
    change(&mut superblock);
    let bytes = superblock.encode();
    copy_offsets(image.size()).into_iter().for_each(|at| image.write(at, &bytes));
    Disk::new(image, BLOCK)
}

/// Returns a disk whose first run has other records.
fn forged_run(disk: &Disk, change: &dyn Fn(Record, u32, &mut Vec<u8>)) -> Disk {
    let (mut image, volume) = (disk.image(), options().volume);
    let bytes = image.to_vec();
    let decode = |at: usize| Some((at, Run::decode(&bytes[at..], &volume, None).ok()?));
    let found = (0..bytes.len()).step_by(BLOCK as usize).find_map(decode);
    let (at, run) = found.expect("a closed volume has a checkpoint");
    let bucket = (at as u32 >> 14) - 1;
    let mut records = Vec::new();
    let decoded = Record::decode_all(&run.records, |record| {
        change(record, bucket, &mut records);
        Ok(())
    });
    decoded.expect("a sound run");
    image.write(at as u64, &Run { records, ..run }.encode(&volume, BLOCK as usize, None));
    Disk::new(image, BLOCK)
}

/// Writes all of a volume twice.
fn overwrite(volume: &Volume) {
    for byte in [1, 2] {
        for offset in (0..volume.geometry().capacity).step_by(4096) {
            let length = 4096.min(volume.geometry().capacity - offset);
            let data = vec![byte; length as usize].into();
            assert!(execute(volume, Io::Write { offset, data, durable: false }).is_ok(), "{offset}");
        }
        assert!(execute(volume, Io::Flush).is_ok());
    }
    assert!(read(volume, 0, 4096) == [2; 4096]);
}

#[test]
fn impossible_values_are_refused_in_a_superblock() {
    let disk = closed(1, Options { compression: Compressor::Lz4, ..options() }).remove(0);
    type Case = (&'static str, &'static dyn Fn(&mut Superblock));
    let cases: [Case; 8] = [
        ("journal", &|one| {
            (one.block, one.checksum_block, one.journal_buckets) = (4096, 4096, 1);
            one.size = one.size / 4096 * 4096;
        }),
        ("extent_max", &|one| one.extent_max = 64 << 10),
        ("buckets", &|one| one.members[0].buckets = u32::MAX),
        ("buckets", &|one| one.members[0].buckets = one.journal_buckets),
        ("journal", &|one| one.root.journal_at = 100),
        ("counter", &|one| one.root.sequence = u64::MAX),
        ("counter", &|one| one.clock = u64::MAX),
        ("counter", &|one| one.seen[0].shared = u64::MAX),
    ];
    for (name, change) in cases {
        let error = open(&[forged(&disk, change)]).map(drop).expect_err(name).to_string();
        assert!(error.contains(&format!("impossible value of {name}")), "{name}: {error}");
    }
}

/// The authentication code is computed with zeroes in place of the padding, so other padding bytes are
/// refused.
#[test]
fn padding_of_a_superblock_is_zero() {
    let disk = closed(1, options()).remove(0);
    let mut image = disk.image();
    let mut bytes = image.to_vec()[..SUPERBLOCK_SIZE].to_vec();
    for at in [SUPERBLOCK_SIZE - 1, 300] {
        bytes[at] = 1;
        let sum = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        copy_offsets(image.size()).into_iter().for_each(|at| image.write(at, &bytes));
        let error = open(&[Disk::new(image.clone(), BLOCK)]).map(drop);
        assert!(matches!(error, Err(VolumeError::NoSuperblock { .. })), "byte {at}: {error:?}");
        bytes[at] = 0;
    }
}

#[test]
fn an_absent_member_has_a_limit_of_buckets() {
    let disks = closed(2, Options { replicas: 2, ..options() });
    let huge = |entry: &mut MemberEntry| entry.buckets = u32::MAX;
    let present = forged(&disks[0], &|one| huge(&mut one.members[1]));
    let error = open_degraded(&[present], Degraded::Yes).map(drop).expect_err("64 GiB of buckets");
    assert!(matches!(error, VolumeError::NoSuperblock { .. }), "{error}");
}

#[test]
fn the_last_number_of_a_mount_opens_for_reading_only() {
    let disk = closed(1, options()).remove(0);
    let last = forged(&disk, &|one| one.root = Root { mount: u32::MAX, ..one.root });
    let error = open(std::slice::from_ref(&last)).map(drop);
    assert!(matches!(error, Err(VolumeError::Damaged(_))), "{error:?}");
    let reading = OpenOptions { read_only: true, ..open_options() };
    assert!(read(&open_with(&[last], reading).expect("no new mount"), 0, 4096) == [7; 4096]);
}

/// No generation follows the last one, so such a bucket is not used again.
#[test]
fn buckets_with_the_last_generation_are_never_reused() {
    let disk = closed(1, options()).remove(0);
    let hostile = forged_run(&disk, &|record, _, records| {
        if let Record::Epoch { .. } = &record {
            for bucket in [20, 21] {
                Record::Open { member: 0, bucket, generation: u32::MAX }.encode(records);
            }
        }
        record.encode(records);
    });
    let volume = open(&[hostile]).expect("a sound checkpoint");
    overwrite(&volume);
}

/// A cached copy in a bucket of the checkpoint is void.
#[test]
fn a_cached_copy_in_a_bucket_of_the_checkpoint_is_dropped() {
    let disk = closed(1, options()).remove(0);
    let hostile = forged_run(&disk, &|record, bucket, records| match record {
        Record::Map(extent) => {
            let pointer = extent.pointers()[0];
            let cached = Pointer { cached: true, bucket, offset: 0, generation: 0, ..pointer };
            Record::encode_map(&extent.with_pointers(&[pointer, cached]), records);
        }
        record => record.encode(records),
    });
    let volume = open(&[hostile]).expect("a sound checkpoint");
    overwrite(&volume);
}

/// A volume with every structure: a checkpoint, and entries behind it.
fn used(members: usize, replicas: u8) -> Vec<Image> {
    let options = Options { replicas, compression: Compressor::Lz4, ..options() };
    let disks = closed(members, options);
    let volume = open(&disks).expect("a closed volume");
    for n in 0..20u64 {
        let data = (0..1024).map(|at| (at * n) as u8).collect::<Vec<u8>>().into();
        assert!(execute(&volume, Io::Write { offset: n * 1536, data, durable: true }).is_ok());
    }
    disks.iter().map(Disk::image).collect()
}

/// Returns the offsets and lengths of all structures of an image.
fn structures(bytes: &[u8]) -> Vec<(usize, usize)> {
    let volume = options().volume;
    let length = |at: usize| {
        let header = |header: usize| {
            header + u32::from_le_bytes(bytes[at + 12..at + 16].try_into().expect("four bytes")) as usize
        };
        let entry = Entry::decode(&bytes[at..], &volume, None).is_ok().then(|| header(ENTRY_HEADER));
        let run = || Run::decode(&bytes[at..], &volume, None).is_ok().then(|| header(RUN_HEADER));
        let superblock = || Superblock::decode(&bytes[at..]).is_ok().then_some(SUPERBLOCK_SIZE);
        entry.or_else(run).or_else(superblock)
    };
    let starts = (0..bytes.len()).step_by(BLOCK as usize);
    starts.filter_map(|at| length(at).map(|length| (at, length))).collect()
}

/// Fields have any values under a correct checksum. The volume may open or not, and requests may succeed or
/// not.
#[test]
fn any_values_under_a_correct_checksum_cause_no_panic() {
    let mut rng = Rng::new(17);
    let count = if std::env::var_os("FLASHLAB_FULL").is_some() { 20_000 } else { 300 };
    let (mut opened, mut refused) = (0, 0);
    for (members, replicas) in [(1, 1), (2, 2)] {
        let images = used(members, replicas);
        let structures = structures(&images[0].to_vec());
        for _ in 0..count {
            let (at, length) = structures[rng.below(structures.len() as u64) as usize];
            let mut bytes = images[0].to_vec()[at..at + length].to_vec();
            for _ in 0..=rng.below(2) {
                let field = 12 + rng.below(length as u64 - 20) as usize;
                let value = [0, 1, u64::MAX, 1 << rng.below(64), rng.next_u64()][rng.below(5) as usize];
                let size = 1 << rng.below(4);
                bytes[field..field + size].copy_from_slice(&value.to_le_bytes()[..size]);
            }
            let sum = crc32c::crc32c(&bytes[12..]);
            bytes[8..12].copy_from_slice(&sum.to_le_bytes());
            let mut hostile = images.clone();
            let copies = copy_offsets(hostile[0].size());
            match copies.contains(&(at as u64)) {
                true => copies.into_iter().for_each(|at| hostile[0].write(at, &bytes)),
                false => hostile[0].write(at as u64, &bytes),
            }
            let present = rng.below(members as u64) as usize + 1;
            let disks: Vec<Disk> =
                hostile.into_iter().take(present).map(|image| Disk::new(image, BLOCK)).collect();
            let Ok(volume) = open_degraded(&disks, Degraded::Very) else {
                refused += 1;
                continue;
            };
            opened += 1;
            for io in [
                Io::Read { offset: 0, buffer: vec![0; 32 << 10] },
                Io::Write { offset: 512, data: vec![3; 24 << 10].into(), durable: true },
                Io::Discard { offset: 4096, length: 4096, durable: false },
                Io::Flush,
            ] {
                let _ = execute(&volume, io);
            }
            let (checking, closing) = (volume.clone(), volume);
            let _ = run(|cx| async move { checking.check(&cx).await });
            let _ = run(|cx| async move { closing.close(&cx).await });
        }
    }
    assert!(opened > 100 && refused > 20, "{opened} opened, {refused} refused");
}
