//! Encrypted volumes: only the passphrase opens a volume, and the members show neither data nor map. Changed,
//! moved and replayed bytes are errors or have no effect, even if their checksums are correct.

use crate::pool::{
    BLOCK, disks, encrypted, encryption, format, open, open_options, open_with, options, passphrase, run,
    unlocking,
};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{Answer, Io};
use flashlab_volume::encode::Compressor;
use flashlab_volume::format::{SUPERBLOCK_SIZE, Superblock, copy_offsets};
use flashlab_volume::keys::{Cipher, KeyError};
use flashlab_volume::{OpenOptions, Options, Volume, VolumeError};

fn open_as(disks: &[Disk], text: Option<&str>) -> Result<Volume, VolumeError> {
    open_with(disks, OpenOptions { passphrase: text.map(passphrase), ..open_options() })
}

fn write(volume: &Volume, offset: u64, data: Vec<u8>) {
    execute(volume, Io::Write { offset, data: data.into(), durable: true }).expect("a good volume");
}

fn close(volume: &Volume) {
    let volume = volume.clone();
    run(|cx| async move { volume.close(&cx).await }).expect("disks that work");
}

/// Returns text that compresses, with a different line in each block.
fn text(length: usize) -> Vec<u8> {
    (0..).flat_map(|line| format!("line {line} of a secret text\n").into_bytes()).take(length).collect()
}

fn contains(image: &Image, needle: &[u8]) -> bool {
    image.to_vec().windows(needle.len()).any(|bytes| bytes == needle)
}

/// Calculates the checksum of a structure at `offset` anew, as somebody who changed it does.
fn fix_checksum(image: &mut Image, offset: u64, length: usize) {
    let mut bytes = vec![0; length];
    image.read(offset, &mut bytes);
    image.write(offset + 8, &crc32c::crc32c(&bytes[12..]).to_le_bytes());
}

/// Somebody with access to the members could replace them by a volume without encryption, in order to read
/// the next writes.
#[test]
fn a_passphrase_does_not_open_a_volume_without_encryption() {
    let disks = disks(2);
    format(&disks, &options()).expect("disks of the right size");
    let before = [disks[0].image(), disks[1].image()];
    let error = open_as(&disks, Some("right")).map(drop);
    assert_eq!(error, Err(VolumeError::Key(KeyError::NotEncrypted)));
    assert!(before == [disks[0].image(), disks[1].image()]);
    open_as(&disks, None).expect("it has no passphrase");
}

#[test]
fn an_encrypted_volume_opens_with_its_passphrase_only() {
    for cipher in [Cipher::ChaCha20Poly1305, Cipher::Aes256Gcm] {
        let disks = disks(2);
        format(&disks, &Options { encryption: Some(encryption(cipher)), ..options() }).expect("good disks");
        let volume = open_as(&disks, Some("right")).expect("the right passphrase");
        write(&volume, 0, text(20_480));
        drop(volume);
        let locked = open_as(&disks, None).expect_err("no passphrase");
        assert_eq!(locked.to_string(), "required key not available");
        let wrong = open_as(&disks, Some("wrong")).expect_err("another passphrase");
        assert_eq!(wrong, VolumeError::Key(KeyError::WrongPassphrase));
        // The second mount writes under a key of its own, and reads the data that the first mount wrote.
        let volume = open_as(&disks, Some("right")).expect("the right passphrase");
        write(&volume, 4096, vec![7; 1024]);
        drop(volume);
        let volume = open_as(&disks, Some("right")).expect("the right passphrase");
        let mut expected = text(20_480);
        expected[4096..5120].fill(7);
        assert!(read(&volume, 0, 20_480) == expected);
    }
}

#[test]
fn members_show_neither_data_nor_map() {
    // The end of the extent in blocks, its length, its skip and its whole length, encoded as in its record in
    // the journal.
    let record: Vec<u8> =
        [&(1000u64 + 8).to_le_bytes()[..], &8u16.to_le_bytes(), &0u16.to_le_bytes(), &8u16.to_le_bytes()]
            .concat();
    for (options, is_visible) in [(options(), true), (encrypted(), false)] {
        let disks = disks(2);
        format(&disks, &options).expect("disks of the right size");
        let volume = open(&disks).expect("a new volume");
        write(&volume, 1000 * BLOCK, text(4096));
        close(&volume);
        for needle in [b"of a secret text", &record[..]] {
            assert_eq!(disks.iter().any(|disk| contains(&disk.image(), needle)), is_visible);
        }
    }
}

#[test]
fn a_repeated_salt_is_refused() {
    let disks = disks(1);
    format(&disks, &encrypted()).expect("disks of the right size");
    let options = unlocking();
    drop(open_with(&disks, options.clone()).expect("a new volume"));
    let error = open_with(&disks, options).map(drop).expect_err("the same salt");
    assert_eq!(error.to_string(), "salt: an earlier mount had the same random salt");
}

/// Salts of mounts without data leave the checkpoint, so that a volume may be opened any number of times.
#[test]
fn a_thousand_mounts_need_no_space() {
    let disks = disks(1);
    format(&disks, &encrypted()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    write(&volume, 0, text(4096));
    for _ in 0..1_000 {
        close(&open(&disks).expect("the passphrase is right"));
    }
    assert!(read(&open(&disks).expect("the passphrase is right"), 0, 4096) == text(4096));
    // 1,000 salts have 21,000 bytes.
    let volume = open(&disks).expect("the passphrase is right");
    assert!(volume.usage().members[0].buckets.metadata <= 5, "{:?}", volume.usage());
}

/// Two versions of a closed volume, and the data of the second version.
struct Versions {
    old: Image,
    new: Image,
    contents: Vec<u8>,
}

fn versions(base: Options) -> Versions {
    let disks = disks(1);
    format(&disks, &base).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    let data = |version: u8| -> Vec<u8> { (0..16_384).map(|n| (n / 512) as u8 ^ version).collect() };
    for (n, part) in data(0x40).chunks(2048).enumerate() {
        write(&volume, n as u64 * 2048, part.to_vec());
    }
    close(&volume);
    let old = disks[0].image();
    let volume = open(&disks).expect("a closed volume");
    for (n, part) in data(0x80).chunks(2048).enumerate() {
        write(&volume, n as u64 * 2048, part.to_vec());
    }
    close(&volume);
    Versions { old, new: disks[0].image(), contents: data(0x80) }
}

/// Opens a changed image. Returns true if the image does not open or a block cannot be read. A wrong block
/// fails the test.
fn is_refused(image: Image, contents: &[u8], name: &str) -> bool {
    let Ok(volume) = open(&[Disk::new(image, BLOCK)]) else { return true };
    let mut refused = false;
    for (n, expected) in contents.chunks(BLOCK as usize).enumerate() {
        let read = Io::Read { offset: n as u64 * BLOCK, buffer: vec![0; BLOCK as usize] };
        match execute(&volume, read) {
            Ok(Answer::Read(bytes)) => assert!(bytes == expected, "{name}: block {n} is wrong"),
            _ => refused = true,
        }
    }
    refused
}

/// Returns the offsets of the blocks that are not all zeroes, without the superblocks.
fn used(image: &Image) -> Vec<u64> {
    let bytes = image.to_vec();
    let is_superblock =
        |at: u64| copy_offsets(image.size()).iter().any(|copy| (*copy..copy + 8192).contains(&at));
    (0..image.size())
        .step_by(BLOCK as usize)
        .filter(|at| {
            bytes[*at as usize..][..BLOCK as usize].iter().any(|byte| *byte != 0) && !is_superblock(*at)
        })
        .collect()
}

fn block(image: &Image, at: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    image.read(at, &mut bytes);
    bytes
}

#[test]
fn moved_and_swapped_blocks_are_errors_or_have_no_effect() {
    for base in [encrypted(), Options { compression: Compressor::Lz4, ..encrypted() }] {
        let Versions { new, contents, .. } = versions(base);
        let blocks = used(&new);
        let mut refused = 0;
        for (n, from) in blocks.iter().enumerate() {
            let to = blocks[(n * 7 + 3) % blocks.len()];
            let (mut moved, mut swapped) = (new.clone(), new.clone());
            moved.write(to, &block(&new, *from));
            swapped.write(to, &block(&new, *from));
            swapped.write(*from, &block(&new, to));
            for image in [moved, swapped] {
                refused += usize::from(is_refused(image, &contents, &format!("from {from} to {to}")));
            }
        }
        assert!(refused > 20, "{refused} of {}", blocks.len());
    }
}

#[test]
fn blocks_of_an_older_copy_are_errors_or_have_no_effect() {
    let Versions { old, new, contents } = versions(encrypted());
    let (mut refused, blocks) = (0, used(&old));
    for at in &blocks {
        let mut image = new.clone();
        image.write(*at, &block(&old, *at));
        refused += usize::from(is_refused(image, &contents, &format!("replayed at {at}")));
        // The old data in place of each block of the new data.
        for to in used(&new).into_iter().filter(|to| (at / BLOCK + to / BLOCK).is_multiple_of(13)) {
            let mut image = new.clone();
            image.write(to, &block(&old, *at));
            refused += usize::from(is_refused(image, &contents, &format!("replayed at {to}")));
        }
    }
    assert!(refused > 20, "{refused} of {}", blocks.len());
}

#[test]
fn changed_runs_with_a_correct_checksum_are_errors_or_have_no_effect() {
    let Versions { new, contents, .. } = versions(encrypted());
    let runs = used(&new).into_iter().filter(|at| block(&new, *at).starts_with(b"FLVchkp1"));
    let mut refused = 0;
    for at in runs {
        let mut header = vec![0; 16];
        new.read(at, &mut header);
        let length = 96 + u32::from_le_bytes(header[12..].try_into().expect("four bytes")) as usize;
        for byte in 12..length {
            let mut image = new.clone();
            let mut changed = vec![0];
            new.read(at + byte as u64, &mut changed);
            changed[0] ^= 1 << (byte % 8);
            image.write(at + byte as u64, &changed);
            fix_checksum(&mut image, at, length);
            refused += usize::from(is_refused(image, &contents, &format!("byte {byte} of a run")));
        }
    }
    assert!(refused > 200, "{refused}");
}

#[test]
fn changed_journal_entries_with_a_correct_checksum_are_errors() {
    let disks = disks(1);
    format(&disks, &encrypted()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    for n in 0..6u8 {
        write(&volume, u64::from(n) * 2048, vec![n + 1; 2048]);
    }
    let image = disks[0].image();
    let contents: Vec<u8> = (0..6u8).flat_map(|n| [n + 1; 2048]).collect();
    let entries: Vec<u64> =
        used(&image).into_iter().filter(|at| block(&image, *at).starts_with(b"FLVjrnl1")).collect();
    assert_eq!(entries.len(), 7, "the epoch and six writes");
    let mut refused = 0;
    // The last entry of the journal can be cut off, as by a power loss, but no earlier entry can be changed.
    for at in &entries[..6] {
        let length =
            88 + u32::from_le_bytes(block(&image, *at)[12..16].try_into().expect("four bytes")) as usize;
        for byte in 12..length {
            let mut changed = image.clone();
            changed
                .write(at + byte as u64, &[block(&image, *at + byte as u64 / BLOCK * BLOCK)[byte % 512] ^ 4]);
            fix_checksum(&mut changed, *at, length);
            let is_refused = is_refused(changed, &contents, &format!("byte {byte} of an entry"));
            assert!(is_refused, "byte {byte} of the entry at {at}");
            refused += 1;
        }
    }
    assert!(refused > 600, "{refused}");
}

#[test]
fn a_changed_superblock_with_a_correct_checksum_is_an_error() {
    let Versions { new, .. } = versions(encrypted());
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    new.read(0, &mut bytes);
    let mut decoded = 0;
    for n in 16..330 {
        let mut forged = bytes.clone();
        forged[n] ^= 1;
        let sum = crc32c::crc32c(&forged[12..]);
        forged[8..12].copy_from_slice(&sum.to_le_bytes());
        decoded += usize::from(Superblock::decode(&forged).is_ok());
        let mut image = new.clone();
        copy_offsets(image.size()).into_iter().for_each(|at| image.write(at, &forged));
        let opened = open(&[Disk::new(image, BLOCK)]).map(drop);
        // A change that the decoder ignores may open.
        assert!(opened.is_err() || Superblock::decode(&forged) == Superblock::decode(&bytes), "byte {n}");
    }
    assert!(decoded > 100, "only {decoded} forged superblocks got past the decoder");
}
