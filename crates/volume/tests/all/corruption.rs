//! Damage of the medium: every changed byte is healed or causes an error, and never causes wrong data.
//!
//! `FLASHLAB_FULL` damages every byte of the used structures and every 16th byte of the rest.

use crate::journal::open_unreadable;
use crate::members::findings;
use crate::pool::{BLOCK, disks, encrypted, format, open, open_options, open_with, options, options_for};
use flashlab_block::conformance::execute;
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{Answer, Context, Io};
use flashlab_sim::{Instant, Rng};
use flashlab_volume::examine::{Damage, Examination};
use flashlab_volume::format::{
    ENTRY_HEADER, Entry, RUN_HEADER, Record, Run, SUPERBLOCK_SIZE, Superblock, copy_offsets,
};
use flashlab_volume::{OpenOptions, Options, Pointer, Volume};
use std::future::Future;
use std::pin::pin;

/// Logical bytes with data in the volumes of these tests.
const USED: usize = 24 << 10;

/// Creates a volume with some data. Returns its disks and the data.
fn filled(members: usize, base: &Options, close: bool) -> (Vec<Disk>, Vec<u8>) {
    let disks = disks(members);
    format(&disks, base).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    let mut rng = Rng::new(3);
    let mut data = vec![0; USED];
    for n in 0..30u8 {
        let length = (1 + rng.below(12)) * BLOCK;
        let offset = rng.below((USED as u64 - length) / BLOCK + 1) * BLOCK;
        data[offset as usize..(offset + length) as usize].fill(n + 1);
        let bytes = vec![n + 1; length as usize];
        let write = Io::Write { offset, data: bytes.into(), durable: n % 3 == 0 };
        assert!(execute(&volume, write).is_ok());
    }
    assert!(execute(&volume, Io::Flush).is_ok());
    if close {
        crate::pool::run(|cx| async move { volume.close(&cx).await }).expect("disks that work");
    }
    (disks, data)
}

/// Compares every readable block of a volume with `data`. Returns the number of unreadable blocks.
fn unreadable(volume: &Volume, data: &[u8], name: &str) -> usize {
    let mut unreadable = 0;
    for (n, expected) in data.chunks(BLOCK as usize).enumerate() {
        let read = Io::Read { offset: n as u64 * BLOCK, buffer: vec![0; BLOCK as usize] };
        match execute(volume, read) {
            Ok(Answer::Read(bytes)) => assert!(bytes == expected, "block {n} is wrong: {name}"),
            _ => unreadable += 1,
        }
    }
    let whole = Io::Read { offset: 0, buffer: vec![0; data.len()] };
    match execute(volume, whole) {
        Ok(Answer::Read(bytes)) => assert!(bytes == data && unreadable == 0, "one long read: {name}"),
        _ => assert!(unreadable > 0, "one long read fails, and short ones do not: {name}"),
    }
    unreadable
}

fn copies(images: &[Image]) -> Vec<Disk> {
    images.iter().map(|image| Disk::new(image.clone(), BLOCK)).collect()
}

/// Returns the offsets of the bytes to damage: a sample of the bytes that are not zero, or all of them if
/// `full` is set, and a sample of all bytes.
fn offsets(image: &Image, full: bool) -> Vec<u64> {
    let bytes = image.to_vec();
    let step = if full { 1 } else { 61 };
    let used = (0..).zip(&bytes).filter(|(_, byte)| **byte != 0).map(|(n, _)| n).step_by(step);
    used.chain((0..bytes.len() as u64).step_by(16 * step)).collect()
}

fn full() -> bool {
    std::env::var_os("FLASHLAB_FULL").is_some()
}

#[test]
fn a_damaged_byte_of_a_closed_volume_is_an_error_or_healed() {
    for base in [options(), encrypted()] {
        let (disks, data) = filled(1, &base, true);
        let images = [disks[0].image()];
        let (mut errors, mut healthy) = (0, 0);
        for offset in offsets(&images[0], full()) {
            let damaged = copies(&images);
            damaged[0].flip(offset, 1 << (offset % 8));
            match open(&damaged) {
                Err(_) => errors += 1,
                Ok(volume) if unreadable(&volume, &data, &format!("byte {offset}")) > 0 => errors += 1,
                Ok(_) => healthy += 1,
            }
        }
        assert!(errors > 50 && healthy > 50, "{errors} errors, {healthy} without effect");
    }
}

#[test]
fn a_damaged_byte_of_one_copy_is_no_error() {
    for base in [options(), encrypted()] {
        let (disks, data) = filled(2, &Options { replicas: 2, ..base }, true);
        let images: Vec<Image> = disks.iter().map(Disk::image).collect();
        for offset in offsets(&images[0], full()).into_iter().step_by(if full() { 1 } else { 2 }) {
            for member in 0..2 {
                let damaged = copies(&images);
                damaged[member].flip(offset, 0x10);
                let volume = open(&damaged).expect("the other member is sound");
                assert_eq!(unreadable(&volume, &data, &format!("byte {offset} of member {member}")), 0);
            }
        }
    }
}

#[test]
fn opening_heals_a_damaged_superblock() {
    let (disks, _) = filled(2, &options(), true);
    for disk in &disks {
        let at = copy_offsets(disk.image().size());
        disk.flip(at[0] + 20, 1);
        disk.flip(at[2] + 4, 1);
    }
    drop(open(&disks).expect("the second copy is sound"));
    for disk in &disks {
        for offset in copy_offsets(disk.image().size()) {
            let mut bytes = vec![0; SUPERBLOCK_SIZE];
            disk.image().read(offset, &mut bytes);
            assert!(Superblock::decode(&bytes).is_ok(), "the copy at {offset}");
        }
    }
}

/// Damage of an entry in the middle of the journal must not hide the flushed changes behind it.
#[test]
fn a_damaged_journal_entry_before_others_is_an_error() {
    let (disks, data) = filled(1, &options(), false);
    let images = [disks[0].image()];
    let bytes = images[0].to_vec();
    let entries: Vec<u64> = (0..bytes.len())
        .step_by(BLOCK as usize)
        .filter(|at| Entry::decode(&bytes[*at..], &options().volume, None).is_ok())
        .map(|at| at as u64)
        .collect();
    assert!(entries.len() > 8, "{entries:?}");
    let (last, earlier) = entries.split_last().expect("there are entries");
    for entry in earlier {
        let damaged = copies(&images);
        damaged[0].flip(entry + ENTRY_HEADER as u64 + 3, 4);
        let error = open(&damaged).map(drop).expect_err("a damaged entry");
        assert!(error.to_string().contains("follows it"), "{error}");
    }
    // A damaged last entry looks like a torn one, which no flush acknowledged.
    let damaged = copies(&images);
    damaged[0].flip(last + ENTRY_HEADER as u64 + 3, 4);
    drop(open(&damaged).expect("the entries before are sound"));
    let volume = open(&copies(&images)).expect("a sound volume");
    assert_eq!(unreadable(&volume, &data, "no damage"), 0);
}

/// Data that is copied to another place on the medium is an error there, unless nothing uses the place.
#[test]
fn moved_data_is_an_error_or_has_no_effect() {
    let (disks, data) = filled(1, &options(), true);
    let image = disks[0].image();
    let bytes = image.to_vec();
    let mut caught = 0;
    for from in (64 << 10..bytes.len() as u64 - 4096).step_by(2048) {
        let source = &bytes[from as usize..from as usize + 1024];
        let to = (from + 2048) as usize;
        if source == &bytes[to..to + 1024] || source.iter().all(|byte| *byte == 0) {
            continue;
        }
        let mut moved = image.clone();
        moved.write(from + 2048, source);
        match open(&copies(&[moved])) {
            Err(_) => caught += 1,
            Ok(volume) => caught += usize::from(unreadable(&volume, &data, "moved data") > 0),
        }
    }
    assert!(caught > 5, "{caught}");
}

/// Reads the journal and the checkpoint of a member, whatever its bytes are. Returns the entries and runs that are valid.
fn examine(image: &Image) -> Option<(Vec<u64>, Vec<u32>)> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    image.read(0, &mut bytes);
    let superblock = Superblock::decode(&bytes).ok()?;
    let disk = Disk::new(image.clone(), BLOCK);
    let examination = Examination::new(&disk, &superblock, None).ok()?;
    let (mut entries, mut runs) = (Vec::new(), Vec::new());
    let cx = Context::new(Instant::ZERO);
    let entry = |_, entry: Result<Entry, Damage>| entries.extend(entry.map(|entry| entry.sequence));
    // The disk answers at once.
    let run = |index, run: Result<Run, Damage>| runs.extend(run.map(|_| index));
    let mut poll = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(pin!(examination.journal(&cx, entry)).poll(&mut poll).is_ready());
    assert!(pin!(examination.checkpoint(&cx, run)).poll(&mut poll).is_ready());
    Some((entries, runs))
}

#[test]
fn an_examination_sees_the_entries_and_runs_of_a_sound_member() {
    let (disks, _) = filled(1, &options(), true);
    let (entries, runs) = examine(&disks[0].image()).expect("a sound superblock");
    let first = entries.iter().min().copied().expect("entries");
    let mut sorted = entries.clone();
    sorted.sort_unstable();
    assert!(entries.len() > 10 && sorted == (first..first + entries.len() as u64).collect::<Vec<_>>());
    assert_eq!(runs, (0..runs.len() as u32).collect::<Vec<_>>());
    assert!(!runs.is_empty());
}

#[test]
fn a_device_that_ends_within_the_journal_is_an_error() {
    let (disks, _) = filled(1, &options(), true);
    let bytes = disks[0].image().to_vec();
    let mut cut = Image::new(SUPERBLOCK_SIZE as u64 + 8192);
    cut.write(0, &bytes[..SUPERBLOCK_SIZE + 8192]);
    let error = open(&copies(std::slice::from_ref(&cut))).map(drop).expect_err("no journal");
    assert!(error.to_string().ends_with("the device is too small"), "{error}");
    let (entries, runs) = examine(&cut).expect("a sound superblock");
    assert!(entries.len() < 10 && runs.is_empty(), "{entries:?} {runs:?}");
}

/// Decoders accept any bytes. Changed structures with a correct checksum reach the checks that follow the
/// checksum.
#[test]
fn hostile_structures_cause_no_panic() {
    let (disks, data) = filled(1, &options(), true);
    let image = disks[0].image();
    let bytes = image.to_vec();
    let volume = options().volume;
    let mut rng = Rng::new(11);
    let run = (0..bytes.len()).step_by(BLOCK as usize).find_map(|at| {
        let run = Run::decode(&bytes[at..], &volume, None).ok()?;
        Some((at as u64, run))
    });
    let (at, run) = run.expect("a closed volume has a checkpoint");
    for _ in 0..if full() { 20_000 } else { 400 } {
        let mut run = run.clone();
        let n = rng.below(run.records.len() as u64) as usize;
        run.records[n] ^= 1 << rng.below(8);
        let mut hostile = image.clone();
        hostile.write(at, &run.encode(&volume, BLOCK as usize, None));
        examine(&hostile);
        // A structure with a forged checksum may point elsewhere. The checksums of the data then fail, unless
        // the place is the same.
        if let Ok(volume) = open(&copies(&[hostile])) {
            let read = Io::Read { offset: 0, buffer: vec![0; data.len()] };
            let _ = execute(&volume, read);
            assert!(execute(&volume, Io::Flush).is_ok());
        }
    }
    let superblock = Superblock::decode(&bytes).expect("a sound superblock");
    let encoded = superblock.encode();
    for n in 12..400 {
        for bit in 0..8 {
            let mut forged = encoded.clone();
            forged[n] ^= 1 << bit;
            let sum = crc32c::crc32c(&forged[12..]);
            forged[8..12].copy_from_slice(&sum.to_le_bytes());
            let mut hostile = image.clone();
            copy_offsets(image.size()).into_iter().for_each(|at| hostile.write(at, &forged));
            examine(&hostile);
            drop(open(&copies(&[hostile])));
        }
    }
}

/// Structures that were changed anywhere, but have a correct checksum, decode or give an error.
#[test]
fn decoders_accept_any_bytes() {
    let (disks, _) = filled(2, &Options { replicas: 2, ..options() }, false);
    let bytes = disks[0].image().to_vec();
    let volume = options().volume;
    let starts = (0..bytes.len()).step_by(BLOCK as usize);
    let is_structure = |at: &usize| {
        let at = &bytes[*at..];
        Entry::decode(at, &volume, None).is_ok()
            || Run::decode(at, &volume, None).is_ok()
            || Superblock::decode(at).is_ok()
    };
    let structures: Vec<usize> = starts.filter(is_structure).collect();
    let (mut decoded, mut rng) = (0, Rng::new(5));
    for n in 0..if full() { 2_000_000 } else { 20_000 } {
        let at = structures[n % structures.len()];
        let mut hostile = bytes[at..(at + SUPERBLOCK_SIZE).min(bytes.len())].to_vec();
        for _ in 0..=rng.below(3) {
            hostile[8 + rng.below(300) as usize] = rng.next_u64() as u8;
        }
        let length = u32::from_le_bytes(hostile[12..16].try_into().expect("four bytes")) as usize;
        for header in [ENTRY_HEADER, RUN_HEADER] {
            if let Some(covered) = hostile.get(12..header.saturating_add(length)) {
                let sum = crc32c::crc32c(covered);
                hostile[8..12].copy_from_slice(&sum.to_le_bytes());
            }
            let records = Entry::decode(&hostile, &volume, None).map(|entry| entry.records);
            let records = records.or_else(|_| Run::decode(&hostile, &volume, None).map(|run| run.records));
            decoded +=
                usize::from(records.is_ok_and(|records| Record::decode_all(&records, |_| Ok(())).is_ok()));
        }
        if hostile.len() == SUPERBLOCK_SIZE {
            let sum = crc32c::crc32c(&hostile[12..]);
            hostile[8..12].copy_from_slice(&sum.to_le_bytes());
            decoded += usize::from(Superblock::decode(&hostile).is_ok());
        }
    }
    assert!(decoded > 1_000, "only {decoded} structures got past their checksum");
}

/// Returns the offset of the first run on a disk, and the run.
fn first_run(disk: &Disk) -> (u64, Run) {
    let bytes = disk.image().to_vec();
    let decode = |at: usize| Some((at as u64, Run::decode(&bytes[at..], &options().volume, None).ok()?));
    (0..bytes.len()).step_by(BLOCK as usize).find_map(decode).expect("a closed volume has a checkpoint")
}

/// A run is shorter than its place, and the rest of the place is never written with it.
#[test]
fn an_unreadable_block_behind_a_run_of_the_checkpoint_has_no_effect() {
    let (disks, data) = filled(1, &options(), true);
    let (at, run) = first_run(&disks[0]);
    let length = (RUN_HEADER + run.records.len()).next_multiple_of(BLOCK as usize) as u64;
    assert!(length < 8192, "{length}");
    for offset in [at + length, at + (16 << 10) - BLOCK] {
        for read_only in [true, false] {
            let volume = open_unreadable(&disks, &[0], offset, read_only).expect("a sound run");
            assert_eq!(unreadable(&volume, &data, "a block behind the run"), 0);
            assert_eq!(findings(&volume), [""; 0]);
        }
    }
    for offset in [at, at + length - BLOCK] {
        let error = open_unreadable(&disks, &[0], offset, true).map(drop).expect_err("an unreadable run");
        assert!(error.to_string().ends_with("run 0: the medium failed"), "{error}");
    }
}

/// Opens a volume without a change, and returns the findings of a check.
fn checked(disks: &[Disk]) -> Vec<String> {
    let reading = OpenOptions { read_only: true, ..options_for(disks) };
    findings(&open_with(disks, reading).expect("one member is sound"))
}

/// The map of the other member is still good, but is the only good one.
#[test]
fn a_check_names_the_member_whose_checkpoint_or_journal_is_damaged() {
    let (disks, _) = filled(2, &Options { replicas: 2, ..options() }, true);
    assert_eq!(checked(&disks), [""; 0]);
    disks[1].flip(first_run(&disks[1]).0 + RUN_HEADER as u64 + 5, 1);
    assert_eq!(checked(&disks), ["member 1: the checkpoint is damaged: run 0: checksum mismatch"]);
    let volume = open(&disks).expect("one member is sound");
    assert_eq!(findings(&volume), [""; 0], "the opening stored another checkpoint");

    let (disks, _) = filled(2, &Options { replicas: 2, ..options() }, false);
    assert_eq!(checked(&disks), [""; 0]);
    let bytes = disks[0].image().to_vec();
    let mut starts = (0..bytes.len()).step_by(BLOCK as usize);
    let is_entry = |at: &usize| Entry::decode(&bytes[*at..], &options().volume, None).is_ok();
    disks[0].flip(starts.find(is_entry).expect("an entry") as u64 + ENTRY_HEADER as u64 + 1, 1);
    assert_eq!(checked(&disks), ["member 0: the journal lacks entry 1"]);
}

/// Two extents that refer to the same blocks are damage, even if the blocks have the contents of both.
#[test]
fn a_check_finds_extents_that_share_their_blocks() {
    let disks = disks(1);
    format(&disks, &options()).expect("a disk of the right size");
    let volume = open(&disks).expect("a new volume");
    for offset in [0, 8192] {
        let write = Io::Write { offset, data: vec![7; 2048].into(), durable: true };
        assert!(execute(&volume, write).is_ok());
    }
    // The parts of one extent share a unit.
    let write = Io::Write { offset: 8192 + BLOCK, data: vec![8; BLOCK as usize].into(), durable: true };
    assert!(execute(&volume, write).is_ok());
    crate::pool::run(|cx| async move { volume.close(&cx).await }).expect("a disk that works");
    assert_eq!(checked(&disks), [""; 0]);
    let (at, run) = first_run(&disks[0]);
    let (mut records, mut place) = (Vec::new(), None::<Pointer>);
    let forged = Record::decode_all(&run.records, |record| {
        match record {
            Record::Map(extent) => {
                let pointer = *place.get_or_insert(extent.pointers()[0]);
                Record::encode_map(&extent.with_pointers(&[pointer]), &mut records);
            }
            record => record.encode(&mut records),
        }
        Ok(())
    });
    forged.expect("a sound run");
    let mut image = disks[0].image();
    image.write(at, &Run { records, ..run }.encode(&options().volume, BLOCK as usize, None));
    let forged = [Disk::new(image, BLOCK)];
    let findings = findings(&open_with(&forged, open_options()).expect("a valid checkpoint"));
    assert!(findings.iter().any(|finding| finding.contains("refer to the same blocks")), "{findings:?}");
}
