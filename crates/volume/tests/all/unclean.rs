//! A check of a volume that was not closed tells the traces of an interrupted write from damage.

use crate::members::{copies, mirror, write};
use crate::pool::{BLOCK, open, open_options, open_with, options, run};
use flashlab_block::Io;
use flashlab_block::conformance::execute;
use flashlab_block::crash::{Disk, Image};
use flashlab_volume::format::{Entry, SUPERBLOCK_SIZE, Superblock, copy_offsets};
use flashlab_volume::{OpenOptions, Volume};

/// Returns the traces of an unclean stop and the findings of a check that changes nothing.
fn checked(images: &[Image]) -> (Vec<String>, Vec<String>) {
    let disks: Vec<Disk> = images.iter().map(|image| Disk::new(image.clone(), BLOCK)).collect();
    let volume = open_with(&disks, OpenOptions { read_only: true, ..open_options() });
    let volume = volume.expect("one member is sound");
    let report = run(|cx| async move { volume.check(&cx).await });
    (report.unclean, report.findings)
}

/// Checks that these images have traces of an unclean stop and no damage, and that an opening removes the traces.
fn is_unclean(images: &[Image], traces: &[&str]) {
    assert_eq!(checked(images), (traces.iter().map(ToString::to_string).collect(), Vec::new()));
    let disks: Vec<Disk> = images.iter().map(|image| Disk::new(image.clone(), BLOCK)).collect();
    drop(open(&disks).expect("an unclean stop is repaired"));
    let images: Vec<Image> = disks.iter().map(Disk::image).collect();
    assert_eq!(checked(&images), (Vec::new(), Vec::new()), "after the opening");
}

/// Checks that these images are damaged.
fn is_damaged(images: &[Image], findings: &[&str]) {
    assert_eq!(checked(images).1, findings);
}

fn commit(volume: &Volume, byte: u8) {
    write(volume, u64::from(byte), byte);
    execute(volume, Io::Flush).expect("disks that work");
}

fn images(disks: &[Disk]) -> Vec<Image> {
    disks.iter().map(Disk::image).collect()
}

#[test]
fn only_the_last_entry_of_a_journal_may_be_missing_on_a_member() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    (1..=3).for_each(|byte| commit(&volume, byte));
    let [first, second] = [0, 1].map(|n| disks[n].image());
    assert_eq!(checked(&[first.clone(), second.clone()]), (Vec::new(), Vec::new()));
    let without = without_entries;
    is_unclean(&[first.clone(), without(&second, &[4])], &["member 1: the journal lacks entry 4"]);
    is_unclean(&[without(&first, &[4]), second.clone()], &["member 0: the journal lacks entry 4"]);
    is_damaged(&[first.clone(), without(&second, &[3, 4])], &["member 1: the journal lacks entry 3"]);
    is_damaged(&[first, without(&second, &[3])], &["member 1: the journal lacks entry 3"]);
}

/// Returns an image whose journal lacks the entries with these numbers.
fn without_entries(image: &Image, numbers: &[u64]) -> Image {
    let (mut image, bytes) = (image.clone(), image.to_vec());
    for at in (0..bytes.len()).step_by(BLOCK as usize) {
        if Entry::decode(&bytes[at..], &options().volume, None)
            .is_ok_and(|entry| numbers.contains(&entry.sequence))
        {
            image.zero(at as u64, BLOCK);
        }
    }
    image
}

#[test]
fn a_member_may_lack_the_last_checkpoint_before_further_entries_only() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    commit(&volume, 1);
    let before = images(&disks);
    crate::members::close(&volume);
    let closed = images(&disks);
    let old = ["member 1: the journal and the checkpoint are old"];
    is_unclean(&[closed[0].clone(), before[1].clone()], &old);
    commit(&volume, 2);
    let after = images(&disks);
    let superblocks = [Some(&before[1]); 3];
    is_damaged(&[after[0].clone(), with_copies(&after[1], superblocks)], &old);
}

/// Returns an image with the copies of the superblock of other images; `None` is an invalid copy.
fn with_copies(of: &Image, copies: [Option<&Image>; 3]) -> Image {
    let mut image = of.clone();
    for (offset, copy) in copy_offsets(of.size()).into_iter().zip(copies) {
        let mut bytes = vec![0; SUPERBLOCK_SIZE];
        copy.unwrap_or(of).read(offset, &mut bytes);
        bytes[100] ^= u8::from(copy.is_none());
        image.write(offset, &bytes);
    }
    image
}

fn sequence(image: &Image) -> u64 {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    image.read(copy_offsets(image.size())[0], &mut bytes);
    Superblock::decode(&bytes).expect("a valid superblock").sequence
}

#[test]
fn copies_of_a_superblock_may_be_one_write_old_in_the_order_of_the_writes() {
    let disks = mirror(2);
    let formatted = images(&disks);
    let volume = open(&disks).expect("a new volume");
    let opened = images(&disks);
    commit(&volume, 1);
    crate::members::close(&volume);
    let closed = images(&disks);
    let [first, second, third] = [&formatted[1], &opened[1], &closed[1]];
    assert_eq!([first, second, third].map(sequence), [1, 2, 3]);
    let text = ["member 1: a copy of the superblock is damaged or old"];
    let with = |copies| [closed[0].clone(), with_copies(third, copies)];
    let (old, new) = (Some(second), Some(third));
    for copies in [[new, old, old], [new, new, old], [new, None, old], [None, new, old], [new, old, None]] {
        is_unclean(&with(copies), &text);
    }
    // The other states have an older copy before a newer one, two older ones, or two invalid ones. Nothing shows an
    // unclean stop if one copy is invalid and the others are equal.
    let older = Some(first);
    for copies in [
        [old, new, new],
        [new, old, new],
        [new, new, older],
        [new, old, older],
        [new, None, new],
        [new, None, None],
        [None, new, new],
        [new, new, None],
    ] {
        is_damaged(&with(copies), &text);
    }
}

/// Without the end of the journal, nothing else shows that the volume was not closed.
#[test]
fn the_first_or_the_last_copy_of_a_superblock_may_be_torn_if_the_journal_has_entries() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    commit(&volume, 1);
    let open = images(&copies(&disks));
    let text = ["member 0: a copy of the superblock is damaged or old"];
    let (good, torn) = (Some(&open[0]), None);
    for copies in [[torn, good, good], [good, good, torn]] {
        is_unclean(&[with_copies(&open[0], copies), open[1].clone()], &text);
    }
    for copies in [[good, torn, good], [torn, torn, good]] {
        is_damaged(&[with_copies(&open[0], copies), open[1].clone()], &text);
    }
}
