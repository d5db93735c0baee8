//! A change of the passphrase: the new passphrase opens the volume, the old one does not, and no copy of the
//! old wrapped key remains. After a power loss during the change, either passphrase may open the volume;
//! opening with the new one completes the change.

use crate::pool::{
    BLOCK, QUICK_KDF, devices, disks, disks_of, encrypted, encryption, format, open, open_options, open_with,
    options, passphrase, run, switched, unlocking,
};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Executor, Io, IoError};
use flashlab_sim::Rng;
use flashlab_volume::format::{SUPERBLOCK_SIZE, Superblock};
use flashlab_volume::keys::{Cipher, KeyError};
use flashlab_volume::{Leftover, MemberState, OpenOptions, Options, Volume, VolumeError};
use std::sync::Arc;

fn open_as(disks: &[Disk], text: &str) -> Result<Volume, VolumeError> {
    open_with(disks, OpenOptions { passphrase: Some(passphrase(text)), ..open_options() })
}

/// Returns the salt, the encrypted key and the tag of the wrapped key in the first superblock of a disk.
fn wrapped_key(image: &Image) -> Vec<u8> {
    let mut bytes = vec![0; SUPERBLOCK_SIZE];
    image.read(0, &mut bytes);
    let key = Superblock::decode(&bytes).expect("a superblock").key.expect("an encrypted volume");
    key.to_bytes()[16..].to_vec()
}

/// Returns true if a disk contains one of the parts of 16 bytes into which the wrapped key divides.
fn contains_key(images: &[Image], key: &[u8]) -> bool {
    images.iter().any(|image| {
        let bytes = image.to_vec();
        key.chunks_exact(16).any(|part| bytes.windows(16).any(|window| window == part))
    })
}

fn images(disks: &[Disk]) -> Vec<Image> {
    disks.iter().map(Disk::image).collect()
}

/// Creates an encrypted volume with some data on three members, one of which has metadata.
fn volume() -> Vec<Disk> {
    let disks = disks(3);
    let encryption = Some(encryption(Cipher::Aes256Gcm));
    format(&disks, &Options { encryption, size: 512 << 10, ..options() }).expect("disks");
    let volume = open_as(&disks, "right").expect("a new volume");
    let write = Io::Write { offset: 0, data: vec![7; 8192].into(), durable: true };
    assert!(execute(&volume, write).is_ok());
    run(|cx| async move { volume.close(&cx).await }).expect("disks that work");
    disks
}

fn rekey(volume: &Volume, text: &str) -> Result<(), VolumeError> {
    let (volume, new) = (volume.clone(), passphrase(text));
    run(|cx| async move { volume.rekey(&cx, &new, QUICK_KDF, [8; 32]).await })
}

#[test]
fn a_new_passphrase_replaces_every_copy_of_the_old_wrapped_key() {
    let disks = volume();
    let old = wrapped_key(&disks[0].image());
    assert!(contains_key(&images(&disks), &old));
    let opened = open_as(&disks, "right").expect("the first passphrase");
    rekey(&opened, "new").expect("disks that work");
    assert!(!contains_key(&images(&disks), &old));
    // The volume remains usable, and its next checkpoint keeps the new key.
    let write = Io::Write { offset: 4096, data: vec![8; 1024].into(), durable: true };
    assert!(execute(&opened, write).is_ok());
    run(|cx| async move { opened.close(&cx).await }).expect("disks that work");
    assert!(!contains_key(&images(&disks), &old));
    assert_eq!(open_as(&disks, "right").map(drop), Err(VolumeError::Key(KeyError::WrongPassphrase)));
    let opened = open_as(&disks, "new").expect("the second passphrase");
    assert!(read(&opened, 0, 4096) == [7; 4096] && read(&opened, 4096, 1024) == [8; 1024]);
}

/// The master key stays the same, so an old wrapped key on a device that was given away would open the volume.
#[test]
fn a_removed_member_keeps_no_wrapped_key() {
    let disks = volume();
    let old = wrapped_key(&disks[0].image());
    let opened = open_as(&disks, "right").expect("the first passphrase");
    let removing = opened.clone();
    let removed = run(|cx| async move {
        removing.set_member_state(&cx, 2, MemberState::Evacuating).await?;
        removing.reconcile(&cx, 0, |_| true).await.expect("disks that work");
        removing.remove(&cx, 2).await
    });
    assert_eq!(removed, Ok(Leftover::Nothing));
    rekey(&opened, "new").expect("disks that work");
    assert!(!contains_key(&images(&disks), &old));
    drop(opened);
    let opened = open_as(&disks[..2], "new").expect("the second passphrase");
    assert!(read(&opened, 0, 8192) == [7; 8192]);
}

/// The removal succeeds without the device, and reports that its superblocks remain.
#[test]
fn the_removal_of_a_member_that_fails_says_that_its_superblocks_remain() {
    let disks = volume();
    let switches: Vec<_> = disks.iter().map(switched).collect();
    let members: Vec<Arc<dyn BlockDevice>> =
        switches.iter().map(|member| Arc::new(member.clone()) as Arc<dyn BlockDevice>).collect();
    let opened = run(|cx| async move { Volume::open(&cx, &members, unlocking()).await });
    let opened = opened.expect("the first passphrase");
    let removing = opened.clone();
    let removed = run(|cx| async move {
        removing.set_member_state(&cx, 2, MemberState::Evacuating).await?;
        removing.reconcile(&cx, 0, |_| true).await.expect("disks that work");
        switches[2].die();
        removing.remove(&cx, 2).await
    });
    assert_eq!(removed, Ok(Leftover::Key));
    drop(opened);
    assert!(read(&open_as(&disks[..2], "right").expect("the others"), 0, 8192) == [7; 8192]);
}

#[test]
fn a_power_loss_during_a_change_leaves_a_passphrase_that_works() {
    let before = volume();
    let old = wrapped_key(&before[0].image());
    let disks = disks_of(images(&before));
    let mut executor = Executor::new(5);
    let (cx, members) = (executor.context(), devices(&disks));
    executor.spawn(async move {
        let volume = Volume::open(&cx, &members, unlocking()).await.expect("the first passphrase");
        volume.rekey(&cx, &passphrase("new"), QUICK_KDF, [8; 32]).await.expect("disks that work");
    });
    let (mut rng, mut with_old, mut with_new, mut both) = (Rng::new(6), 0, 0, 0);
    while executor.step() {
        let point = Disk::point(&disks);
        for choice in point.choices(3, &mut rng) {
            let state = || -> Vec<Disk> {
                point.images(&choice).into_iter().map(|image| Disk::new(image, BLOCK)).collect()
            };
            // For each passphrase: `None` if it does not open the volume, otherwise true if the old key remains.
            let [first, second] = ["right", "new"].map(|text| {
                let disks = state();
                let opened = open_as(&disks, text).ok()?;
                assert!(read(&opened, 0, 8192) == [7; 8192]);
                Some(contains_key(&images(&disks), &old))
            });
            with_old += usize::from(first.is_some());
            with_new += usize::from(second.is_some());
            both += usize::from(first.is_some() && second.is_some());
            assert!(first.is_some() || second.is_some(), "after {choice:?}");
            // Opening with the new passphrase completes the change, so the old key is gone afterwards.
            assert_ne!(second, Some(true), "the old key remains after {choice:?}");
        }
    }
    assert!(with_old > 10 && with_new > 10 && both > 5, "{with_old}, {with_new}, {both}");
}

/// A superblock that cannot be written ends the change. Another attempt completes the change.
#[test]
fn a_change_that_failed_can_be_repeated() {
    let disks = volume();
    let old = wrapped_key(&disks[0].image());
    let switches: Vec<_> = disks.iter().map(switched).collect();
    let members: Vec<Arc<dyn BlockDevice>> =
        switches.iter().map(|member| Arc::new(member.clone()) as Arc<dyn BlockDevice>).collect();
    let opened = run(|cx| async move { Volume::open(&cx, &members, unlocking()).await });
    let opened = opened.expect("the first passphrase");
    switches[1].fail_change(0, false);
    assert!(matches!(rekey(&opened, "new"), Err(VolumeError::Member { member: 1, .. })));
    assert!(contains_key(&images(&disks), &old));
    rekey(&opened, "new").expect("disks that work");
    assert!(!contains_key(&images(&disks), &old));
    drop(opened);
    assert_eq!(open_as(&disks, "right").map(drop), Err(VolumeError::Key(KeyError::WrongPassphrase)));
    assert!(read(&open_as(&disks, "new").expect("the second passphrase"), 0, 8192) == [7; 8192]);
}

#[test]
fn plain_and_read_only_volumes_have_no_passphrase_to_change() {
    let plain = disks(1);
    format(&plain, &options()).expect("a disk of the right size");
    let error = rekey(&open(&plain).expect("a new volume"), "new").expect_err("not encrypted");
    assert_eq!(error.to_string(), "the volume is not encrypted");
    let locked = disks(1);
    format(&locked, &encrypted()).expect("a disk of the right size");
    let read_only = OpenOptions { read_only: true, ..unlocking() };
    let before = locked[0].image();
    let error = rekey(&open_with(&locked, read_only).expect("a new volume"), "new").expect_err("read-only");
    assert_eq!(error, VolumeError::Unchangeable(IoError::ReadOnly));
    assert!(locked[0].image() == before);
}
