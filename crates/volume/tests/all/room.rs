//! The room of a volume: changes that would leave less room than its size are refused, with the ways out.

use crate::pool::{BLOCK, open, open_options, options, run};
use crate::tiers::{is_sound, labelled, reconcile, set};
use flashlab_block::conformance::execute;
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Io};
use flashlab_volume::{
    Change, Degraded, Growth, MemberState, NewMember, OpenOptions, Options, Volume, VolumeError,
};
use std::sync::Arc;

/// Returns the text of a refusal.
fn refused(result: Result<(), VolumeError>) -> String {
    result.expect_err("a change that the volume has no room for").to_string()
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
    assert!(text.contains(&format!("make the volume smaller (`volume set --size {of_two}`")), "{text}");
    // Data beyond the smaller size has to go first.
    let last = of_three - 4 * BLOCK;
    assert!(execute(&volume, Io::Write { offset: last, data: vec![1; 2048].into(), durable: false }).is_ok());
    let text = refused(remove(&volume, 2));
    assert!(text.contains("discard what lies behind it"), "{text}");
    let smaller = Change { size: Some(of_two), ..Change::default() };
    let text = refused(set(&volume, smaller.clone()));
    assert!(text.contains(&format!("the volume has data up to {of_three} bytes")), "{text}");
    assert!(execute(&volume, Io::Discard { offset: last, length: 2048, durable: true }).is_ok());
    set(&volume, smaller).expect("nothing lies beyond the new end");
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
    let text = refused(remove(&volume, 1));
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
    assert!(text.contains("make the volume smaller (`volume set --size "), "{text}");
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
