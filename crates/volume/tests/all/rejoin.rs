//! Members that return while the volume is open.

use crate::members::{close, copies, findings, mirror, open_degraded, open_switched, write};
use crate::pool::{BLOCK, Switched, disks, format, open, options, run, switched};
use crate::tiers::{fill, is_filled, is_sound, live, reconcile};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Choice, Disk, Kept};
use flashlab_block::{BlockDevice, Io};
use flashlab_volume::{Degraded, Options, Volume, VolumeError};
use std::sync::Arc;

fn rejoin(volume: &Volume, disk: &Disk) -> Result<u8, VolumeError> {
    let (volume, device): (_, Arc<dyn BlockDevice>) = (volume.clone(), Arc::new(disk.clone()));
    run(|cx| async move { volume.rejoin(&cx, device).await })
}

/// Checks that all data has two copies after background work, and that the volume is sound.
fn has_two_copies(volume: &Volume, bytes: u64) {
    let done = reconcile(volume);
    assert!(done.pending.is_empty(), "{done:?}");
    assert_eq!(volume.usage().by_copies, [(2, bytes)].into());
    is_sound(volume);
}

#[test]
fn a_missing_member_returns_with_its_data_and_gets_what_it_lacks() {
    for present in [0, 1] {
        let disks = mirror(2);
        let volume = open(&disks).expect("a new volume");
        fill(&volume, 40);
        close(&volume);
        drop(volume);
        let volume = open_degraded(&disks[present..=present], Degraded::Yes).expect("a copy of everything");
        for block in [0, 4, 200] {
            write(&volume, block, 7);
        }
        let expected = read(&volume, 0, 60 * 2048);
        assert_eq!(rejoin(&volume, &disks[1 - present]), Ok(1 - present as u8));
        assert_eq!(findings(&volume), [""; 0]);
        assert_eq!(volume.usage().metadata_copies, 2);
        assert!(read(&volume, 0, 60 * 2048) == expected);
        has_two_copies(&volume, volume.usage().mapped);
        write(&volume, 8, 9);
        drop(volume);
        // Each member has everything, also after a power loss.
        for half in [0, 1] {
            let disks = copies(&disks);
            let volume = open_degraded(&disks[half..=half], Degraded::Yes).expect("a copy of everything");
            assert!(read(&volume, 8 * BLOCK, 1024) == [9; 1024] && read(&volume, 0, 1024) == [7; 1024]);
        }
        is_sound(&open(&disks).expect("both members"));
    }
}

#[test]
fn a_member_that_works_or_that_is_stale_foreign_or_diverged_does_not_return() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    write(&volume, 0, 1);
    let refused = rejoin(&volume, &disks[1]);
    assert!(matches!(&refused, Err(VolumeError::NoMember(why)) if why.contains("works")), "{refused:?}");
    close(&volume);
    drop(volume);
    let backup = copies(&disks).remove(1);
    for byte in [2, 3] {
        let volume = open(&disks).expect("both members");
        write(&volume, 0, byte);
        close(&volume);
    }
    let alone = copies(&disks).remove(1);
    let diverging = open_degraded(std::slice::from_ref(&alone), Degraded::Yes).expect("a copy of everything");
    write(&diverging, 0, 5);
    drop(diverging);
    let foreign = crate::pool::disks(1).remove(0);
    format(std::slice::from_ref(&foreign), &Options { volume: [9; 16], ..options() }).expect("a disk");
    let empty = crate::pool::disks(1).remove(0);
    let volume = open_degraded(&disks[..1], Degraded::Yes).expect("a copy of everything");
    write(&volume, 0, 4);
    assert_eq!(rejoin(&volume, &backup), Err(VolumeError::Stale { member: 0 }));
    for (disk, why) in [(&alone, "changed without the others"), (&foreign, "another volume")] {
        let refused = rejoin(&volume, disk);
        assert!(matches!(&refused, Err(VolumeError::NoMember(text)) if text.contains(why)), "{refused:?}");
    }
    let refused = rejoin(&volume, &empty);
    assert!(matches!(refused, Err(VolumeError::NoSuperblock { member: 0, .. })), "{refused:?}");
    // None of them changed the volume.
    assert!(read(&volume, 0, 1024) == [4; 1024]);
    assert_eq!(findings(&volume), ["member 1 is missing"]);
    assert_eq!(rejoin(&volume, &disks[1]), Ok(1));
    assert!(read(&volume, 0, 1024) == [4; 1024]);
    assert_eq!(findings(&volume), [""; 0]);
}

/// A member fails and loses its unflushed data. When the member returns as another device, nothing refers to
/// this data.
#[test]
fn a_member_that_failed_returns_without_what_it_lost() {
    for dies_with in [0, 10, 30] {
        let disks = disks(3);
        format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
        let switches: Vec<Switched> = disks.iter().map(switched).collect();
        let volume = open_switched(&switches).expect("a new volume");
        fill(&volume, 30);
        let put = |n: u64| {
            let data = crate::tiers::data(n).into();
            execute(&volume, Io::Write { offset: n * 2048, data, durable: false }).expect("other members");
        };
        (30..30 + dies_with).for_each(put);
        switches[1].die();
        (30 + dies_with..60).for_each(put);
        let point = Disk::point([&disks[1]]);
        let kept = point.images(&Choice(vec![Kept::Nothing; point.unflushed()])).remove(0);
        let returned = Disk::new(kept, BLOCK);
        if dies_with == 30 {
            // No request has failed yet.
            assert!(!volume.health()[1].failing);
            let _ = execute(&volume, Io::Flush);
        }
        assert_eq!(rejoin(&volume, &returned), Ok(1));
        assert!(is_filled(&volume, 60));
        assert!(!volume.health()[1].failing);
        has_two_copies(&volume, 60 * 2048);
        assert!(live(&volume)[1] > 0);
        execute(&volume, Io::Flush).expect("all members work");
        drop(volume);
        for left in [[0, 1], [1, 2], [0, 2]] {
            let all = [disks[0].clone(), returned.clone(), disks[2].clone()];
            let some = copies(&[all[left[0]].clone(), all[left[1]].clone()]);
            let volume = open_degraded(&some, Degraded::Yes).expect("a copy of everything");
            assert!(is_filled(&volume, 60), "{left:?}");
        }
    }
}
