//! Targets and background work: every extent ends up where the options want it, or stays pending with a reason.

use crate::members::{findings, open_switched};
use crate::pool::{BLOCK, devices, open, open_options, options, run, switched};
use crate::tiers::{data, fill, is_filled, is_sound, labelled, live, reconcile, rests, set, tiers};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Executor, Io};
use flashlab_sim::{Duration, Rng};
use flashlab_volume::encode::Compressor;
use flashlab_volume::{
    Change, Degraded, Growth, Leftover, MemberState, NewMember, OpenOptions, Options, Reason, Targets,
    Volume, VolumeError, Work,
};
use std::sync::Arc;

#[test]
fn new_data_goes_to_the_foreground_and_moves_to_the_background() {
    let disks = labelled(&[("ssd.a", 1), ("hdd.a", 1), ("ssd.b", 1), ("hdd.b", 1)], &tiers());
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 100);
    assert_eq!((live(&volume)[0] + live(&volume)[2], live(&volume)[1], live(&volume)[3]), (400, 0, 0));
    assert_eq!(volume.backlog().current[&Work::Move].bytes, 100 * 2048);
    let done = reconcile(&volume);
    assert_eq!((done.moved_bytes, done.pending.len()), (100 * 2048, 0));
    assert_eq!((live(&volume)[0], live(&volume)[2], live(&volume)[1] + live(&volume)[3]), (0, 0, 400));
    rests(&volume);
    assert!(is_filled(&volume, 100));
    is_sound(&volume);
    drop(volume);
    assert!(is_filled(&open(&disks).expect("a flushed volume"), 100));
}

#[test]
fn new_data_leaves_a_full_foreground_and_moves_to_a_full_background_wait() {
    let disks = labelled(&[("ssd", 1), ("hdd.a", 1), ("hdd.b", 1)], &tiers());
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 500);
    let before = live(&volume);
    assert!(before[0] > 1_000 && before[1] + before[2] > 200, "{before:?}");
    assert!(is_filled(&volume, 500));
    let targets = Targets { foreground: "hdd".into(), background: "ssd".into(), ..Targets::default() };
    let disks = labelled(&[("ssd", 1), ("hdd.a", 1), ("hdd.b", 1)], &Options { targets, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 800);
    let done = reconcile(&volume);
    assert!(done.moved_bytes > 0);
    assert!(done.pending.contains_key(&(Work::Move, Reason::TargetFull)), "{:?}", done.pending);
    rests(&volume);
    assert!(is_filled(&volume, 800));
    is_sound(&volume);
}

#[test]
fn background_compression_shrinks_what_shrinks_and_marks_the_rest() {
    let options = Options { background_compression: Compressor::Zstd(15), ..options() };
    let disks = labelled(&[("", 1)], &options);
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 50);
    let noise: Vec<u8> = (0..4096u64).map(|n| flashlab_sim::mix(n) as u8).collect();
    let write = |offset, data: &[u8]| {
        execute(&volume, Io::Write { offset, data: data.to_vec().into(), durable: true }).expect("a disk");
    };
    write(200 << 10, &noise);
    // Recompression processes only the live range.
    write(2048, &[1; 512]);
    let before = volume.usage().stored;
    reconcile(&volume);
    let usage = volume.usage();
    assert!(usage.stored < before * 2 / 3, "{} of {before}", usage.stored);
    assert_eq!(usage.by_compression["none"].0, 4096 + 512, "noise, and a single block");
    rests(&volume);
    assert!(read(&volume, 200 << 10, 4096) == noise && read(&volume, 2048, 512) == [1; 512]);
    assert!(is_filled(&volume, 1) && read(&volume, 4096, 96 << 10).len() == 96 << 10);
    is_sound(&volume);
    drop(volume);
    let volume = open(&disks).expect("a flushed volume");
    rests(&volume);
}

#[test]
fn evacuation_empties_a_member_that_can_then_be_removed() {
    let disks =
        labelled(&[("a", 1), ("b", 1), ("c", 1)], &Options { replicas: 2, size: 512 << 10, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 200);
    let removing = volume.clone();
    let early = run(|cx| async move { removing.remove(&cx, 0).await });
    assert!(matches!(early, Err(VolumeError::NoMember(_))), "{early:?}");
    set(&volume, Change { states: vec![(0, MemberState::Evacuating)], ..Change::default() })
        .expect("a member");
    let done = reconcile(&volume);
    assert_eq!((live(&volume)[0], done.pending.len()), (0, 0), "{done:?}");
    rests(&volume);
    let (removing, before) = (volume.clone(), Disk::new(disks[0].image(), BLOCK));
    let left = run(|cx| async move { removing.remove(&cx, 0).await }).expect("an empty member");
    assert_eq!(left, Leftover::Nothing);
    let volume = open(&disks[1..]).expect("the other members");
    assert!(is_filled(&volume, 200));
    is_sound(&volume);
    let erased = open(&disks).map(drop);
    assert!(matches!(erased, Err(VolumeError::NoSuperblock { member: 0, .. })), "{erased:?}");
    // A device whose superblocks could not be overwritten is recognised.
    let with_old = [before.clone(), disks[1].clone(), disks[2].clone()];
    assert_eq!(open(&with_old).map(drop), Err(VolumeError::Removed { member: 0, number: 0 }));
    // Another device takes its place.
    let new = Disk::new(Image::new(crate::pool::MEMBER), BLOCK);
    let member = NewMember { label: "d".into(), ..NewMember::new(Arc::new(new.clone())) };
    let adding = volume.clone();
    let place = run(|cx| async move { adding.add(&cx, &member, [7; 16], Growth::All).await });
    assert_eq!(place.expect("a new member"), 0);
    // The open volume uses the new member at once, and so does the volume when it is opened again.
    assert!(volume.geometry().capacity > 512 << 10);
    fill(&volume, 250);
    assert!(live(&volume)[0] > 0);
    assert!(is_filled(&volume, 250));
    is_sound(&volume);
    let both = [&disks[1], &disks[2], &before, &new].map(Disk::clone);
    assert_eq!(open(&both).map(drop), Err(VolumeError::Removed { member: 2, number: 0 }));
    let both = [&new, &disks[1], &disks[2], &before].map(Disk::clone);
    assert_eq!(open(&both).map(drop), Err(VolumeError::Removed { member: 3, number: 0 }));
    let volume = open(&[disks[1].clone(), disks[2].clone(), new]).expect("three members");
    assert!(volume.geometry().capacity > 512 << 10);
    fill(&volume, 300);
    assert!(live(&volume)[0] > 0);
    assert!(is_filled(&volume, 300));
    is_sound(&volume);
}

#[test]
fn a_lost_member_is_replaced_by_copies_on_others() {
    let disks =
        labelled(&[("a", 1), ("b", 1), ("c", 1)], &Options { replicas: 2, size: 512 << 10, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 200);
    drop(volume);
    let options = OpenOptions { degraded: Degraded::Yes, ..open_options() };
    let volume = crate::pool::open_with(&disks[1..], options).expect("a copy of everything");
    let done = reconcile(&volume);
    assert!(done.done[&Work::Replicate].bytes > 0 && done.pending.is_empty(), "{done:?}");
    assert_eq!(volume.usage().by_copies, [(2, 400 << 10)].into());
    rests(&volume);
    let removing = volume.clone();
    run(|cx| async move { removing.remove(&cx, 0).await }).expect("a member that is not needed");
    let volume = open(&disks[1..]).expect("no member is missing");
    assert!(is_filled(&volume, 200));
    is_sound(&volume);
}

/// Overwrites leave unreferenced blocks in the buckets of the background target. New data always finds room
/// in the foreground, so only a garbage collection in the background target lets later moves continue.
#[test]
fn moves_go_on_after_overwrites_filled_the_background_with_garbage() {
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &Options { size: 512 << 10, ..tiers() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 200);
    reconcile(&volume);
    let mut rng = Rng::new(3);
    for round in 0..30 {
        for _ in 0..60 {
            let n = rng.below(200);
            let io = Io::Write { offset: n * 2048, data: data(n).into(), durable: false };
            execute(&volume, io).expect("disks that work");
        }
        let done = reconcile(&volume);
        assert!(done.pending.is_empty(), "round {round}: {done:?}");
        assert_eq!(live(&volume)[0], 0, "round {round}");
        rests(&volume);
    }
    assert!(is_filled(&volume, 200));
    is_sound(&volume);
}

#[test]
fn more_and_fewer_replicas_take_effect() {
    let disks = labelled(&[("a", 1), ("b", 1), ("c", 1)], &Options { size: 512 << 10, ..options() });
    fill(&open(&disks).expect("a new volume"), 200);
    for (replicas, stored) in [(2, 800), (3, 1200), (1, 400)] {
        let volume = open(&disks).expect("a volume");
        set(&volume, Change { replicas: Some(replicas), ..Change::default() }).expect("enough members");
        let volume = open(&disks).expect("a changed volume");
        let done = reconcile(&volume);
        assert!(done.pending.is_empty(), "{done:?}");
        assert_eq!(volume.usage().stored, stored << 10);
        rests(&volume);
        assert!(is_filled(&volume, 200));
        is_sound(&volume);
    }
    let volume = open(&disks).expect("a volume");
    let error = set(&volume, Change { replicas: Some(4), ..Change::default() }).expect_err("three members");
    assert!(error.to_string().starts_with("replicas=4"), "{error}");
}

#[test]
fn reconcile_keeps_to_its_rate() {
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &tiers());
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 64);
    let mut executor = Executor::new(5);
    let (cx, moving) = (executor.context(), volume.clone());
    let took = executor.block_on(async move {
        let began = cx.now();
        let done = moving.reconcile(&cx, 64 << 10, |_| true).await.expect("disks that work");
        assert_eq!(done.moved_bytes, 128 << 10);
        cx.now().as_ns() - began.as_ns()
    });
    assert_eq!(took, Duration::from_secs(2).as_ns());
}

/// Returns the time from a stop to the end of background work that waits for a rate of one byte per second.
pub(crate) fn time_to_stop(volume: &Volume) -> Duration {
    let (mut executor, working) = (Executor::new(5), volume.clone());
    let cx = executor.context();
    executor.block_on(async move {
        let stop = cx.now() + Duration::from_secs(3);
        working.background(&cx, 1, &|| cx.now() >= stop).await.expect("members that work");
        Duration::from_ns(cx.now().as_ns() - stop.as_ns())
    })
}

#[test]
fn a_stop_ends_the_wait_for_the_rate() {
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &tiers());
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 64);
    let took = time_to_stop(&volume);
    assert!(live(&volume)[1] > 0 && took <= Duration::from_ms(500), "{took:?}");
    is_sound(&volume);
}

/// A write to a member fails once. Background work tries the member again after a second, without any request.
#[test]
fn background_work_retries_a_member_that_failed() {
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &tiers());
    let switches: Vec<_> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    fill(&volume, 20);
    switches[1].fail_change(0, false);
    let (mut executor, working) = (Executor::new(5), volume.clone());
    let cx = executor.context();
    let early = executor.block_on(async move {
        let early = working.reconcile(&cx, 0, |_| true).await.expect("the first member works");
        let end = cx.now() + Duration::from_secs(3);
        working.background(&cx, 0, &|| cx.now() >= end).await.expect("both members work");
        early
    });
    assert!(early.pending.keys().any(|(work, _)| *work == Work::Move), "{early:?}");
    assert_eq!(live(&volume), [0, 80]);
    is_sound(&volume);
}

/// A flush of a member fails once. Background work tries the flush again before any data moves to the member.
#[test]
fn background_work_retries_a_flush_that_failed() {
    let targets = Targets { foreground: "c".into(), background: "c".into(), ..Targets::default() };
    let disks = labelled(&[("a", 1), ("b", 1), ("c", 1)], &Options { replicas: 2, targets, ..options() });
    let switches: Vec<_> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    fill(&volume, 20);
    let write = Io::Write { offset: 0, data: data(0).into(), durable: false };
    execute(&volume, write).expect("all members work");
    switches[2].fail_change(0, false);
    execute(&volume, Io::Flush).expect("another member has all data");
    let fails = || volume.health().iter().map(|member| member.failing).collect::<Vec<_>>();
    assert_eq!((live(&volume)[2], volume.usage().members[2].failing), (76, true));
    assert_eq!(fails(), [false, false, true]);
    let (mut executor, working) = (Executor::new(5), volume.clone());
    let cx = executor.context();
    executor.block_on(async move {
        let end = cx.now() + Duration::from_secs(3);
        working.background(&cx, 0, &|| cx.now() >= end).await.expect("all members work");
    });
    assert_eq!((live(&volume)[2], volume.usage().members[2].failing), (80, false));
    assert_eq!(fails(), [false; 3]);
    assert_eq!(volume.usage().by_copies, [(2, 20 * 2048)].into());
    is_sound(&volume);
}

#[test]
fn moved_bytes_are_those_that_were_written() {
    let disks = labelled(&[("ssd", 1), ("hdd", 2)], &Options { replicas: 2, size: 64 << 10, ..tiers() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 20);
    // One copy on a member of durability 2 takes the place of two copies.
    assert_eq!((reconcile(&volume).moved_bytes, live(&volume)), (0, vec![0, 80]));
    set(&volume, Change { background: Some("ssd".into()), durability: vec![(0, 2)], ..Change::default() })
        .expect("targets");
    assert_eq!((reconcile(&volume).moved_bytes, live(&volume)), (20 * 2048, vec![80, 0]));
}

/// Data that does not shrink at a level of one algorithm may shrink with another algorithm.
#[test]
fn another_background_compression_is_tried_on_what_the_former_one_left() {
    let options = Options { background_compression: Compressor::Lz4, ..options() };
    let disks = labelled(&[("", 1)], &options);
    let volume = open(&disks).expect("a new volume");
    // Random hexadecimal digits have an entropy of four bits and no repetitions.
    let digits: Vec<u8> =
        (0..4096u64).map(|n| b"0123456789abcdef"[flashlab_sim::mix(n) as usize % 16]).collect();
    let write = Io::Write { offset: 0, data: digits.clone().into(), durable: true };
    execute(&volume, write).expect("a disk");
    reconcile(&volume);
    rests(&volume);
    assert_eq!(volume.usage().by_compression["none"].0, 4096);
    let change = Change { background_compression: Some(Compressor::Zstd(3)), ..Change::default() };
    set(&volume, change).expect("an algorithm");
    let volume = open(&disks).expect("the checkpoint of the change");
    reconcile(&volume);
    assert_eq!(volume.usage().by_compression["zstd"].0, 4096);
    assert!(read(&volume, 0, 4096) == digits);
}

/// Moves and recompression never bring old data back, even if clients overwrite the same blocks at the same
/// time.
#[test]
fn background_work_beside_overwrites_revives_nothing() {
    let seeds = if std::env::var_os("FLASHLAB_FULL").is_some() { 1_000 } else { 30 };
    for seed in 0..seeds {
        let options = Options { background_compression: Compressor::Zstd(3), ..tiers() };
        let images: Vec<Image> =
            labelled(&[("ssd", 1), ("hdd", 1)], &options).iter().map(Disk::image).collect();
        let disks = crate::pool::disks_of(images);
        let mut executor = Executor::new(seed);
        let (cx, members) = (executor.context(), devices(&disks));
        let volume = executor.block_on(async move { Volume::open(&cx, &members, open_options()).await });
        let volume = volume.expect("a new volume");
        let (cx, moving) = (executor.context(), volume.clone());
        executor.spawn(async move {
            for _ in 0..400 {
                moving.reconcile(&cx, 0, |_| true).await.expect("disks that work");
                cx.sleep_until(cx.now() + Duration::from_us(300)).await;
            }
        });
        let (cx, writing) = (executor.context(), volume.clone());
        let expected = executor.block_on(async move {
            let mut rng = Rng::new(seed);
            let mut array = vec![0u8; 64 * BLOCK as usize];
            for n in 0..90u64 {
                let start = rng.below(56);
                let length = 1 + rng.below(8);
                let byte = n as u8 + 1;
                let range = (start * BLOCK) as usize..((start + length) * BLOCK) as usize;
                array[range.clone()].fill(byte);
                let io = Io::Write {
                    offset: start * BLOCK,
                    data: vec![byte; range.len()].into(),
                    durable: n % 9 == 0,
                };
                writing.start(&cx, io).outcome().await.map(drop).expect("disks that work");
                // Background work gives way to requests, so it needs pauses.
                cx.sleep_until(cx.now() + Duration::from_us(rng.below(1_500))).await;
            }
            array
        });
        executor.run_until_idle();
        is_sound(&volume);
        assert!(read(&volume, 0, expected.len()) == expected, "seed {seed}");
    }
}

/// After random changes of options and failures of members, background work reaches the goal, or reports the
/// pending work with its reasons.
#[test]
fn any_sequence_of_changes_ends_at_the_goal_or_with_reasons() {
    let (seeds, steps) = if std::env::var_os("FLASHLAB_FULL").is_some() { (40, 100) } else { (10, 20) };
    let (mut changes, mut reasons) = (0, std::collections::BTreeSet::new());
    for seed in 0..seeds {
        changes += change_at_random(seed, steps, &mut reasons);
    }
    // With this seed, the journal was assigned to a member that can never hold it.
    changes += change_at_random(0, 100, &mut reasons);
    assert!(changes >= seeds * steps / 2, "{changes} changes");
    assert!(!reasons.is_empty());
}

fn change_at_random(seed: u64, steps: u64, reasons: &mut std::collections::BTreeSet<(Work, Reason)>) -> u64 {
    let mut rng = Rng::new(seed);
    let members = [("ssd.a", 1), ("ssd.b", 1), ("hdd.a", 1), ("hdd.b", 2)];
    let disks = labelled(&members, &Options { size: 300 << 10, ..options() });
    fill(&open(&disks).expect("a new volume"), 100);
    let mut changes = 0;
    for step in 0..steps {
        let volume = open(&disks).unwrap_or_else(|error| panic!("seed {seed}, step {step}: {error}"));
        let change = draw(&mut rng);
        changes += u64::from(set(&volume, change.clone()).is_ok());
        let absent = (rng.below(3) == 0).then(|| rng.below(4) as usize);
        let dies = (rng.below(3) == 0).then(|| rng.below(4) as usize);
        let present: Vec<usize> = (0..4).filter(|n| Some(*n) != absent).collect();
        let switches: Vec<_> = present.iter().map(|n| switched(&disks[*n])).collect();
        let given: Vec<Arc<dyn BlockDevice>> =
            switches.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn BlockDevice>).collect();
        let options = OpenOptions { degraded: Degraded::Yes, ..open_options() };
        let opened = run(|cx| async move { Volume::open(&cx, &given, options).await });
        let Ok(volume) = opened else { continue };
        if let Some(victim) = dies.and_then(|n| switches.get(n)) {
            victim.fail_change(rng.below(30), true);
        }
        let at = format!("seed {seed}, step {step}, {change:?}, without {absent:?}");
        let reconciling = volume.clone();
        let done = run(|cx| async move { reconciling.reconcile(&cx, 0, |_| true).await });
        // A failed member may have the only copy of new data, or the only journal.
        let Ok(done) = done else { continue };
        reasons.extend(done.pending.keys());
        let backlog = volume.backlog();
        let is_named = |work: &Work| done.pending.keys().any(|(pending, _)| pending == work);
        assert!(backlog.current.keys().all(is_named), "{at}: {backlog:?} after {done:?}");
        if dies.is_none() {
            rests(&volume);
            assert!(is_filled(&volume, 100), "{at}");
        }
        drop(volume);
        let volume = open(&disks).unwrap_or_else(|error| panic!("{at}: {error}"));
        assert!(is_filled(&volume, 100), "{at}");
        assert_eq!(findings(&volume), [""; 0], "{at}");
    }
    changes
}

fn draw(rng: &mut Rng) -> Change {
    let target = |rng: &mut Rng| Some(["", "ssd", "hdd", "ssd.a", "hdd.b"][rng.below(5) as usize].to_owned());
    let mut change = Change::default();
    match rng.below(6) {
        0 => change.replicas = Some(1 + rng.below(3) as u8),
        1 => change.foreground = target(rng),
        2 => change.background = target(rng),
        3 => {
            change.background_compression =
                Some([Compressor::None, Compressor::Lz4, Compressor::Zstd(3)][rng.below(3) as usize])
        }
        4 => {
            let states = [
                MemberState::Rw,
                MemberState::Rw,
                MemberState::Ro,
                MemberState::Evacuating,
                MemberState::Spare,
            ];
            change.states = vec![(rng.below(4) as u8, states[rng.below(5) as usize])];
        }
        _ => change.durability = vec![(rng.below(4) as u8, rng.below(3) as u8)],
    }
    change
}
