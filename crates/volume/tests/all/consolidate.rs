//! Background work collects garbage to make room for copies. Overwrites leave unreferenced blocks in most
//! buckets of a member, so the free space is smaller than the room that the check of a change computes.

use crate::members::{close, findings, open_degraded};
use crate::pool::{BLOCK, encrypted, open, open_options, open_with, options, run};
use crate::reconcile::time_to_stop;
use crate::tiers::{data, fill, is_filled, is_sound, is_written, labelled, live, reconcile, rests, set};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::Disk;
use flashlab_block::{BlockDevice, Io};
use flashlab_sim::{Duration, Rng};
use flashlab_volume::encode::Compressor;
use flashlab_volume::{
    Change, Degraded, MemberState, OpenOptions, Options, Reason, Reconciled, Targets, Volume, Work,
};

/// Creates a volume with three members and data in its first `size` bytes. The blocks of the data are
/// overwritten at random until the members have few free buckets. Also returns the number of writes of the
/// data.
fn overwritten(replicas: u8, size: u64) -> (Vec<Disk>, Volume, u64) {
    overwritten_with(&Options { replicas, ..options() }, size)
}

fn overwritten_with(options: &Options, size: u64) -> (Vec<Disk>, Volume, u64) {
    let disks = labelled(&[("data.a", 1), ("b", 1), ("data.c", 1)], options);
    let volume = open(&disks).expect("a new volume");
    let (writes, mut rng) = (size / 2048, Rng::new(8));
    fill(&volume, writes);
    for n in 0..24 * writes {
        let at = rng.below(4 * writes);
        let block = data(at / 4)[(at % 4 * BLOCK) as usize..][..BLOCK as usize].to_vec();
        let write = Io::Write { offset: at * BLOCK, data: block.into(), durable: n % 16 == 0 };
        execute(&volume, write).expect("space");
    }
    (disks, volume, writes)
}

/// Returns the size of a volume of two members with this number of copies.
fn of_two(options: &Options) -> u64 {
    let disks = labelled(&[("a", 1), ("b", 1)], options);
    open(&disks).expect("a new volume").geometry().capacity / 2048 * 2048
}

/// Checks that further scans move nothing.
fn is_settled(volume: &Volume) {
    for _ in 0..3 {
        let again = reconcile(volume);
        assert_eq!(again.moved_bytes, 0, "{again:?}, {:?}", volume.usage().members);
    }
}

fn set_size(volume: &Volume, size: u64) {
    set(volume, Change { size: Some(size), ..Change::default() }).expect("room for the data");
}

#[test]
fn an_evacuation_collects_garbage_until_the_member_can_be_removed() {
    let kinds = [
        options(),
        Options { compression: Compressor::Lz4, checksum_block: 4096, ..options() },
        Options { checksum_block: 4096, ..encrypted() },
    ];
    let parts = [(1, 4), (2, 4), (1, 8), (2, 8)];
    for (base, (replicas, part)) in kinds.iter().flat_map(|base| parts.map(|parts| (base, parts))) {
        let options = Options { replicas, ..base.clone() };
        let size = of_two(&options);
        let (disks, volume, writes) = overwritten_with(&options, size / 8 * part / 2048 * 2048);
        set_size(&volume, size);
        volume_evacuates(&volume, 2);
        let done = reconcile(&volume);
        assert!(done.pending.is_empty(), "{replicas} copies, {part}/8 full: {done:?}");
        assert_eq!(live(&volume)[2], 0);
        is_settled(&volume);
        let removing = volume.clone();
        run(|cx| async move { removing.remove(&cx, 2).await }).expect("an empty member");
        let volume = open(&disks[..2]).expect("two members");
        assert!(is_filled(&volume, writes));
        is_sound(&volume);
    }
}

fn volume_evacuates(volume: &Volume, member: u8) {
    let states = vec![(member, MemberState::Evacuating)];
    set(volume, Change { states, ..Change::default() }).expect("a member");
}

#[test]
fn more_copies_find_the_room_that_overwrites_left() {
    let size = {
        let disks = labelled(&[("a", 1), ("b", 1), ("c", 1)], &Options { replicas: 2, ..options() });
        open(&disks).expect("a new volume").geometry().capacity
    };
    for part in [4, 7, 8] {
        let (_, volume, writes) = overwritten(1, size / 8 * part / 2048 * 2048);
        let change = Change { size: Some(size), replicas: Some(2), ..Change::default() };
        set(&volume, change).expect("room for two copies");
        let done = reconcile(&volume);
        assert!(done.pending.is_empty(), "{part}/8 full: {done:?}");
        assert_eq!(volume.usage().by_copies.into_keys().collect::<Vec<_>>(), [2]);
        is_settled(&volume);
        rests(&volume);
        assert!(is_filled(&volume, writes));
        is_sound(&volume);
    }
}

#[test]
fn the_copies_of_a_lost_member_find_the_room_that_overwrites_left() {
    for part in [5, 8] {
        let (disks, volume, writes) =
            overwritten(2, of_two(&Options { replicas: 2, ..options() }) / 8 * part / 2048 * 2048);
        close(&volume);
        let volume = open_degraded(&disks[..2], Degraded::Yes).expect("a copy of everything");
        let done = reconcile(&volume);
        assert!(done.pending.is_empty(), "{part}/8 full: {done:?}");
        assert!(done.done[&Work::Replicate].bytes > 0);
        assert_eq!(volume.usage().by_copies.into_keys().collect::<Vec<_>>(), [2]);
        is_settled(&volume);
        assert!(is_filled(&volume, writes));
        assert_eq!(findings(&volume), ["member 2 is missing"]);
    }
}

/// Two members cannot have two copies of data that fills three of them.
#[test]
fn copies_without_room_stay_pending_and_cost_nothing() {
    let disks = labelled(&[("a", 1), ("b", 1), ("c", 1)], &Options { replicas: 2, ..options() });
    let size = open(&disks).expect("a new volume").geometry().capacity / 2048 * 2048;
    let (disks, volume, writes) = overwritten(2, size);
    close(&volume);
    let volume = open_degraded(&disks[..2], Degraded::Yes).expect("a copy of everything");
    reconcile(&volume);
    for _ in 0..3 {
        let done = reconcile(&volume);
        assert_eq!(done.moved_bytes, 0, "{done:?}");
        assert!(done.pending.contains_key(&(Work::Replicate, Reason::NoSpace)), "{done:?}");
    }
    assert!(is_filled(&volume, writes));
}

/// Opens the members without the second one, which has one of the two journals. The first one has the other journal.
fn without_second(disks: &[Disk]) -> (Vec<Disk>, Volume) {
    let present = vec![disks[0].clone(), disks[2].clone()];
    let volume = open_degraded(&present, Degraded::Yes).expect("a copy of everything");
    (present, volume)
}

/// An overwritten volume has few free buckets, so its opening finds no room for the journal of the lost
/// member.
#[test]
fn background_work_makes_room_for_the_journal_of_a_lost_member() {
    let mut crowded = 0;
    // The lost member has the least data, so other background work makes little room.
    let targets = Targets { foreground: "data".into(), ..Targets::default() };
    let options = Options { replicas: 2, targets, ..options() };
    for part in [3, 4, 5, 6] {
        let size = of_two(&Options { replicas: 2, ..crate::pool::options() }) / 8 * part;
        let (disks, volume, writes) = overwritten_with(&options, size);
        assert_eq!(volume.usage().metadata_copies, 2);
        close(&volume);
        let (_, volume) = without_second(&disks);
        crowded += u32::from(volume.usage().metadata_copies == 1);
        reconcile(&volume);
        assert_eq!(volume.usage().metadata_copies, 2, "{part}/8 full: {:?}", volume.usage().members);
        is_settled(&volume);
        let write = Io::Write { offset: 0, data: vec![9; 2048].into(), durable: true };
        execute(&volume, write).expect("space");
        drop(volume);
        // The first member fails after the second one, and the second one returns.
        let volume = open_degraded(&disks[1..], Degraded::Very).expect("a current journal");
        assert!(read(&volume, 0, 2048) == [9; 2048]);
        assert!((1..writes).all(|n| is_written(&volume, n)));
    }
    assert!(crowded > 0, "each opening found room");
}

/// The collection for the journal of a lost member precedes all other background work.
#[test]
fn a_stop_ends_the_wait_of_a_collection_for_its_rate() {
    let targets = Targets { foreground: "data".into(), ..Targets::default() };
    let options = Options { replicas: 2, targets, ..options() };
    let size = of_two(&Options { replicas: 2, ..crate::pool::options() }) / 8 * 5;
    let (disks, volume, _) = overwritten_with(&options, size);
    close(&volume);
    let (_, volume) = without_second(&disks);
    assert_eq!(volume.usage().metadata_copies, 1, "the opening found room");
    let took = time_to_stop(&volume);
    assert!(took <= Duration::from_ms(500), "{took:?}");
}

/// The members that are left are full. The journal may find room or not, but the attempts end.
#[test]
fn attempts_to_make_room_for_the_journal_on_full_members_end() {
    let disks = labelled(&[("a", 1), ("b", 1), ("c", 1)], &Options { replicas: 2, ..options() });
    let size = open(&disks).expect("a new volume").geometry().capacity / 2048 * 2048;
    let (disks, volume, _) = overwritten(2, size);
    close(&volume);
    let (present, volume) = without_second(&disks);
    (0..4).for_each(|_| drop(reconcile(&volume)));
    let copies = volume.usage().metadata_copies;
    let written = || volume.usage().members.iter().map(|member| member.requests.written_bytes).sum::<u64>();
    let before = written();
    is_settled(&volume);
    assert_eq!((written(), volume.usage().metadata_copies), (before, copies));
    close(&volume);
    let options = OpenOptions { degraded: Degraded::Yes, read_only: true, ..open_options() };
    assert_eq!(open_with(&present, options).expect("a copy of everything").usage().metadata_copies, copies);
}

/// The power fails in the middle of a collection for an evacuation. All data was flushed before, so no data
/// is lost.
#[test]
fn a_power_loss_during_a_collection_loses_nothing() {
    let size = of_two(&options());
    let (disks, volume, writes) = overwritten(1, size / 8 * 7 / 2048 * 2048);
    set_size(&volume, size);
    volume_evacuates(&volume, 2);
    let (mut rng, mut losses) = (Rng::new(12), 0);
    loop {
        let (working, steps) = (volume.clone(), 1 + rng.below(12));
        let done = run(|cx| async move {
            let mut left = steps;
            let progress = |_: &Reconciled| {
                left -= 1;
                left > 0
            };
            working.reconcile(&cx, 0, progress).await
        });
        let done = done.expect("disks that work");
        let point = Disk::point(&disks);
        for choice in point.choices(4, &mut rng) {
            let images = point.images(&choice).into_iter();
            let after: Vec<Disk> = images.map(|image| Disk::new(image, BLOCK)).collect();
            let after = open(&after).expect("a valid state");
            assert!(is_filled(&after, writes), "after {losses} power losses");
            losses += 1;
        }
        if done.done.is_empty() && done.moved_bytes == 0 {
            break;
        }
    }
    assert!(losses > 60 && live(&volume)[2] == 0, "{losses}, {:?}", live(&volume));
}
