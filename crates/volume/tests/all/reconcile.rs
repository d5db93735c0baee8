//! Targets, cached copies and background work: every extent ends where the options want it, or pending with a reason.

use crate::pool::{BLOCK, devices, disks, open, open_options, options, run, switched};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{BlockDevice, Executor, Io, Started};
use flashlab_sim::{Duration, Rng};
use flashlab_volume::encode::Compressor;
use flashlab_volume::{
    Change, Degraded, Growth, MemberState, NewMember, OpenOptions, Options, Reason, Reconciled, Targets,
    Volume, VolumeError, Work,
};
use std::sync::Arc;

/// Formats disks with labels and durabilities.
fn labelled(members: &[(&str, u8)], options: &Options) -> Vec<Disk> {
    labelled_on(disks(members.len()), members, options)
}

fn labelled_on(disks: Vec<Disk>, members: &[(&str, u8)], options: &Options) -> Vec<Disk> {
    let new = |(disk, (label, durability)): (Arc<dyn BlockDevice>, &(&str, u8))| NewMember {
        device: disk,
        label: (*label).to_owned(),
        durability: *durability,
    };
    let members: Vec<NewMember> = devices(&disks).into_iter().zip(members).map(new).collect();
    let options = options.clone();
    run(|cx| async move { Volume::format(&cx, &members, &options).await }).expect("disks of the right size");
    disks
}

fn tiers() -> Options {
    let targets = Targets { foreground: "ssd".into(), background: "hdd".into(), ..Targets::default() };
    Options { targets, ..options() }
}

fn reconcile(volume: &Volume) -> Reconciled {
    let volume = volume.clone();
    run(|cx| async move { volume.reconcile(&cx, 0, |_| true).await }).expect("a volume that works")
}

fn fill(volume: &Volume, writes: u64) {
    for n in 0..writes {
        let data: Vec<u8> = (0..2048u64).map(|at| flashlab_sim::mix((n << 32) | (at / 8)) as u8).collect();
        let io = Io::Write { offset: n * 2048, data: data.into(), durable: false };
        execute(volume, io).unwrap_or_else(|error| panic!("write {n}: {error}"));
    }
    execute(volume, Io::Flush).expect("disks that work");
}

fn is_filled(volume: &Volume, writes: u64) -> bool {
    (0..writes).all(|n| is_written(volume, n))
}

fn is_written(volume: &Volume, n: u64) -> bool {
    let data: Vec<u8> = (0..2048u64).map(|at| flashlab_sim::mix((n << 32) | (at / 8)) as u8).collect();
    read(volume, n * 2048, 2048) == data
}

fn live(volume: &Volume) -> Vec<u64> {
    volume.usage().members.iter().map(|member| member.buckets.live_blocks).collect()
}

fn is_sound(volume: &Volume) {
    let checking = volume.clone();
    assert_eq!(run(|cx| async move { checking.check(&cx).await }).findings, [""; 0]);
}

fn set(volume: &Volume, change: Change) -> Result<(), VolumeError> {
    let volume = volume.clone();
    run(|cx| async move { volume.set(&cx, &change).await })
}

/// N scans without a change move nothing (I10).
fn rests(volume: &Volume) {
    for _ in 0..3 {
        let again = reconcile(volume);
        assert_eq!((again.moved_bytes, again.done.len()), (0, 0), "{again:?}");
    }
}

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
fn a_full_target_is_only_a_preference() {
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
    // Recompression takes the live range only.
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

/// Cached copies are evicted first and are never the only copy (I5).
#[test]
fn reads_leave_cached_copies_that_vanish_when_space_is_short() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let disks = labelled(&[("hdd", 1), ("ssd", 0)], &Options { targets, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 40);
    assert_eq!(live(&volume)[1], 0, "a member of durability 0 has cached copies only");
    assert!(is_filled(&volume, 40));
    let promoting = volume.clone();
    run(|cx| async move { promoting.promote(&cx).await }).expect("disks that work");
    let usage = volume.usage();
    assert_eq!((usage.members[1].buckets.live_blocks, usage.by_copies[&1]), (160, 40 * 2048));
    assert!(usage.members[1].buckets.cached > 0);
    assert!(is_filled(&volume, 40));
    assert!(volume.usage().members[1].requests.reads > 0 || usage.members[1].requests.read_ns == 0);
    // An overwrite of a part leaves a cached copy of the rest.
    execute(&volume, Io::Write { offset: 512, data: vec![9; 512].into(), durable: true }).expect("disks");
    assert!(read(&volume, 512, 512) == [9; 512]);
    is_sound(&volume);
    rests(&volume);
    // Without the cache, everything is there. With it, too, although its buckets are older than the journal says.
    drop(volume);
    let options = OpenOptions { degraded: Degraded::Yes, ..open_options() };
    let volume = crate::pool::open_with(&disks[..1], options).expect("all data");
    assert!(read(&volume, 2048, 2048) == read(&open(&disks).expect("both"), 2048, 2048));
}

#[test]
fn the_cache_gives_way_to_data_and_stale_copies_are_not_read() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let disks = labelled(&[("hdd", 1), ("ssd", 1)], &Options { targets, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 250);
    for _ in 0..8 {
        assert!(is_filled(&volume, 250));
        let promoting = volume.clone();
        run(|cx| async move { promoting.promote(&cx).await }).expect("disks that work");
    }
    let cached = volume.usage().members[1].buckets.cached;
    assert!(cached > 10, "{cached}");
    // The hdd is full: data takes the buckets of the cache.
    let capacity = volume.geometry().capacity / 2048;
    fill(&volume, capacity);
    assert!(volume.usage().members[1].buckets.cached < cached);
    assert!(is_filled(&volume, capacity));
    is_sound(&volume);
    drop(volume);
    let volume = open(&disks).expect("a flushed volume");
    assert!(is_filled(&volume, capacity));
    is_sound(&volume);
}

fn promote(volume: &Volume) {
    let volume = volume.clone();
    run(|cx| async move { volume.promote(&cx).await }).expect("disks that work");
}

/// Returns the options of a volume whose foreground is also its cache.
fn caching_tiers() -> Options {
    let targets = Targets { promote: "ssd".into(), ..tiers().targets };
    Options { targets, ..options() }
}

#[test]
fn data_that_moves_to_the_background_leaves_a_cached_copy_in_the_promote_target() {
    let targets = Targets { metadata: "hdd".into(), ..caching_tiers().targets };
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &Options { targets, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 100);
    let done = reconcile(&volume);
    assert_eq!((done.moved_bytes, done.pending.len()), (100 * 2048, 0));
    let is_cached = |volume: &Volume| {
        let usage = volume.usage();
        assert_eq!((live(volume), usage.by_copies), (vec![400, 400], [(1, 100 * 2048)].into()));
        assert_eq!((usage.members[0].buckets.used, usage.members[0].buckets.cached), (0, 13));
    };
    is_cached(&volume);
    rests(&volume);
    is_sound(&volume);
    // Reads use the cached copies, and need no further ones.
    let reads = |volume: &Volume| volume.usage().members.iter().map(|m| m.requests.reads).collect::<Vec<_>>();
    let before = reads(&volume);
    assert!(is_filled(&volume, 100));
    assert_eq!(reads(&volume), [before[0] + 100, before[1]]);
    promote(&volume);
    is_cached(&volume);
    // An overwrite replaces the copies of its block only.
    let disks = crate::pool::disks_of(disks.iter().map(Disk::image).collect());
    let volume = open(&disks).expect("a flushed volume");
    is_cached(&volume);
    let rest = read(&volume, 512, 1536);
    execute(&volume, Io::Write { offset: 0, data: vec![9; 512].into(), durable: true }).expect("disks");
    assert!(read(&volume, 0, 512) == [9; 512] && read(&volume, 512, 1536) == rest);
    // The unit of the checksum around it stays.
    assert_eq!(live(&volume), [401, 400]);
    is_sound(&volume);
    // Without the cache, everything else is there.
    drop(volume);
    let options = OpenOptions { degraded: Degraded::Very, ..open_options() };
    let volume = crate::pool::open_with(&disks[1..], options).expect("the background has the journal");
    assert!(read(&volume, 512, 1536) == rest);
    assert!((1..100).all(|n| is_written(&volume, n)));
}

/// The foreground is full of cached copies all the time, but new data never has to go elsewhere.
#[test]
fn cached_copies_give_way_to_new_data_in_the_foreground() {
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &Options { size: 512 << 10, ..caching_tiers() });
    let volume = open(&disks).expect("a new volume");
    let mut rng = Rng::new(3);
    fill(&volume, 200);
    reconcile(&volume);
    for round in 0..40 {
        for _ in 0..60 {
            let n = rng.below(200);
            let data: Vec<u8> =
                (0..2048u64).map(|at| flashlab_sim::mix((n << 32) | (at / 8)) as u8).collect();
            let io = Io::Write { offset: n * 2048, data: data.into(), durable: false };
            execute(&volume, io).expect("disks that work");
        }
        let backlog = volume.backlog().current_bytes();
        let done = reconcile(&volume);
        assert!(done.pending.is_empty(), "round {round}: {done:?}");
        assert_eq!(done.done[&Work::Move].bytes, backlog, "round {round}");
        let usage = volume.usage();
        assert_eq!(usage.by_copies, [(1, 400 << 10)].into());
        rests(&volume);
    }
    // The cache is almost as large as the member.
    let buckets = volume.usage().members[0].buckets;
    assert!(buckets.cached > 20 && buckets.used <= 3, "{buckets:?}");
    assert!(is_filled(&volume, 200));
    is_sound(&volume);
    drop(volume);
    let volume = open(&disks).expect("a flushed volume");
    assert!(is_filled(&volume, 200));
    is_sound(&volume);
    assert_eq!(volume.usage().members.iter().map(|member| member.errors.checksum).sum::<u32>(), 0);
}

/// One cached copy serves all reads.
#[test]
fn two_copies_that_move_leave_one_cached_copy() {
    let members = [("ssd.a", 1), ("ssd.b", 1), ("hdd.a", 1), ("hdd.b", 1)];
    let disks = labelled(&members, &Options { replicas: 2, size: 256 << 10, ..caching_tiers() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 50);
    reconcile(&volume);
    let live = live(&volume);
    assert_eq!((live[0] + live[1], live[2], live[3]), (200, 200, 200));
    assert_eq!(volume.usage().by_copies, [(2, 100 << 10)].into());
    rests(&volume);
    is_sound(&volume);
}

#[test]
fn evacuation_drops_cached_copies() {
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &Options { size: 256 << 10, ..caching_tiers() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 100);
    reconcile(&volume);
    assert_eq!(live(&volume), [400, 400]);
    set(&volume, Change { states: vec![(0, MemberState::Evacuating)], ..Change::default() })
        .expect("a member");
    let done = reconcile(&volume);
    assert_eq!((done.moved_bytes, live(&volume)), (0, vec![0, 400]));
    assert_eq!(done.done[&Work::Evacuate].extents, 100);
    rests(&volume);
    assert!(is_filled(&volume, 100));
    is_sound(&volume);
}

/// A copy that counts takes the place of a cached one on the same member.
#[test]
fn a_member_has_one_copy_of_an_extent_at_most() {
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &Options { size: 256 << 10, ..caching_tiers() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 100);
    reconcile(&volume);
    set(&volume, Change { replicas: Some(2), ..Change::default() }).expect("room for two copies");
    reconcile(&volume);
    assert_eq!((live(&volume), volume.usage().by_copies), (vec![400, 400], [(2, 200 << 10)].into()));
    rests(&volume);
    assert!(is_filled(&volume, 100));
    is_sound(&volume);
}

#[test]
fn recompression_drops_cached_copies_because_they_are_encoded_otherwise() {
    let compressed = Options { background_compression: Compressor::Zstd(3), ..caching_tiers() };
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &compressed);
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 50);
    reconcile(&volume);
    assert!(live(&volume)[0] == 0 && live(&volume)[1] < 200);
    // Reads bring them back.
    assert!(is_filled(&volume, 50));
    promote(&volume);
    assert_eq!(live(&volume)[0], live(&volume)[1]);
    rests(&volume);
    is_sound(&volume);
}

/// A flush has to give new data its copies although one member fails, and the space for them is full of cached copies (I4).
#[test]
fn copies_that_replace_lost_ones_take_the_space_of_cached_copies() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let replicated = Options { targets, replicas: 2, size: 480 << 10, ..options() };
    let mut disks = disks(3);
    disks[2] = Disk::new(Image::new(480 << 10), BLOCK);
    let disks = labelled_on(disks, &[("hdd.a", 1), ("hdd.b", 1), ("ssd", 1)], &replicated);
    fill(&open(&disks).expect("a new volume"), 150);
    let switches: Vec<_> = disks.iter().map(switched).collect();
    let given: Vec<Arc<dyn BlockDevice>> =
        switches.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn BlockDevice>).collect();
    let volume = run(|cx| async move { Volume::open(&cx, &given, open_options()).await }).expect("a volume");
    for _ in 0..5 {
        assert!(is_filled(&volume, 150));
        promote(&volume);
    }
    let buckets = volume.usage().members[2].buckets;
    assert!(buckets.free < 8, "{buckets:?}");
    execute(&volume, Io::Flush).expect("disks that work");
    for n in 150..240u64 {
        let data: Vec<u8> = (0..2048u64).map(|at| flashlab_sim::mix((n << 32) | (at / 8)) as u8).collect();
        execute(&volume, Io::Write { offset: n * 2048, data: data.into(), durable: false }).expect("a disk");
    }
    switches[1].die();
    execute(&volume, Io::Flush).expect("two members are left");
    drop(volume);
    let options = OpenOptions { degraded: Degraded::Yes, ..open_options() };
    let left = [disks[0].clone(), disks[2].clone()];
    let volume = crate::pool::open_with(&left, options).expect("all data has a copy");
    let (copies, new) = (volume.usage().by_copies, 90 * 2048);
    assert_eq!(copies[&2], new, "{copies:?}");
    assert!(is_filled(&volume, 240));
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
    let removing = volume.clone();
    run(|cx| async move { removing.remove(&cx, 0).await }).expect("an empty member");
    let volume = open(&disks[1..]).expect("the other members");
    assert!(is_filled(&volume, 200));
    is_sound(&volume);
    assert_eq!(open(&disks).map(drop), Err(VolumeError::Removed { member: 0, number: 0 }));
    // Another device takes its place.
    let new = Disk::new(Image::new(crate::pool::MEMBER), BLOCK);
    let member = NewMember { label: "d".into(), ..NewMember::new(Arc::new(new.clone())) };
    let adding = volume.clone();
    let place = run(|cx| async move { adding.add(&cx, &member, [7; 16], Growth::All).await });
    assert_eq!(place.expect("a new member"), 0);
    // The open volume uses it at once, and so does the next one.
    assert!(volume.geometry().capacity > 512 << 10);
    fill(&volume, 250);
    assert!(live(&volume)[0] > 0);
    assert!(is_filled(&volume, 250));
    is_sound(&volume);
    let both = [&disks[1], &disks[2], &disks[0], &new].map(Disk::clone);
    assert_eq!(open(&both).map(drop), Err(VolumeError::Removed { member: 2, number: 0 }));
    let both = [&new, &disks[1], &disks[2], &disks[0]].map(Disk::clone);
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

/// Overwrites leave unreferenced blocks in the buckets of the background target. Without a collection there, the later moves
/// would wait for ever, because new data always finds room in the foreground.
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
            let data: Vec<u8> =
                (0..2048u64).map(|at| flashlab_sim::mix((n << 32) | (at / 8)) as u8).collect();
            let io = Io::Write { offset: n * 2048, data: data.into(), durable: false };
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
fn reconcile_keeps_to_its_rate_and_gives_way_to_clients() {
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

async fn finish(started: Started) {
    match started {
        Started::Done(outcome) => outcome.map(drop).expect("disks that work"),
        Started::Pending(future) => future.await.map(drop).expect("disks that work"),
    }
}

/// Moves and recompression beside clients that overwrite the same blocks never bring old data back (I6).
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
                finish(writing.start(&cx, io)).await;
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

/// A copy on the cache's member never counts: the other member cannot be removed (I5).
#[test]
fn a_cached_copy_is_never_the_only_one() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let disks = labelled(&[("ssd", 1), ("hdd", 1)], &Options { targets, size: 256 << 10, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 20);
    assert!(is_filled(&volume, 20));
    let promoting = volume.clone();
    run(|cx| async move { promoting.promote(&cx).await }).expect("disks that work");
    assert!(live(&volume)[0] > 0);
    let removing = volume.clone();
    let refused = run(|cx| async move { removing.remove(&cx, 1).await });
    assert!(matches!(refused, Err(VolumeError::NoMember(_))), "{refused:?}");
    // An evacuation makes real copies from it.
    set(&volume, Change { states: vec![(1, MemberState::Evacuating)], ..Change::default() })
        .expect("a member");
    let volume = open(&disks).expect("a changed volume");
    let done = reconcile(&volume);
    assert!(done.pending.is_empty(), "{done:?}");
    let removing = volume.clone();
    run(|cx| async move { removing.remove(&cx, 1).await }).expect("an empty member");
    assert!(is_filled(&open(&disks[..1]).expect("the other member"), 20));
}

/// A thousand random changes of options and failures of members: background work ends at the goal, or says what is pending
/// and why.
#[test]
fn any_sequence_of_changes_ends_at_the_goal_or_with_reasons() {
    let (seeds, steps) = if std::env::var_os("FLASHLAB_FULL").is_some() { (40, 100) } else { (10, 20) };
    let (mut changes, mut reasons) = (0, std::collections::BTreeSet::new());
    for seed in 0..seeds {
        changes += change_at_random(seed, steps, &mut reasons);
    }
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
        is_sound(&volume);
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

/// Returns the text of a refusal.
fn refused(result: Result<(), VolumeError>) -> String {
    result.expect_err("a change that the volume has no room for").to_string()
}

fn remove(volume: &Volume, member: u8) -> Result<(), VolumeError> {
    let volume = volume.clone();
    run(|cx| async move { volume.remove(&cx, member).await })
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
