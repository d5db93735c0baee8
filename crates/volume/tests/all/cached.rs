//! Cached copies: reads and moves leave cached copies, which give way to other data and never count as
//! replicas.

use crate::faulty::find;
use crate::pool::{BLOCK, disks, open, open_options, options, run, switched};
use crate::tiers::{
    data, fill, is_filled, is_sound, is_written, labelled, labelled_on, live, reconcile, rests, set, tiers,
};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Disk, Image};
use flashlab_block::{Answer, BlockDevice, Executor, Io};
use flashlab_sim::{Duration, Rng};
use flashlab_volume::encode::Compressor;
use flashlab_volume::{
    Change, Degraded, MemberState, OpenOptions, Options, Scrubbed, Targets, Volume, VolumeError, Work,
};
use std::sync::Arc;

/// Cached copies do not count, and all data is there without them.
#[test]
fn reads_leave_cached_copies_that_do_not_count() {
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
    // All data is there without the member that has the cache. With this member, all data is there, too,
    // although the journal continued without it.
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
    let cached = promote_all(&volume);
    // The hdd is full, so data takes the buckets of the cache.
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

/// A bucket that was evicted gets new data before a journal entry records this data. After a power loss at
/// that time, no cached copy refers to the bucket.
#[test]
fn copies_that_were_evicted_do_not_return_after_a_power_loss() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let disks = labelled(&[("hdd", 1), ("ssd", 1)], &Options { targets, ..options() });
    let volume = open(&disks).expect("a new volume");
    // The oldest cached copies are not in the first buckets, which the next opening evicts first.
    let [_, cached] = [(); 2].map(|()| {
        execute(&volume, Io::Discard { offset: 0, length: 250 * 2048, durable: true })
            .expect("disks that work");
        fill(&volume, 250);
        promote_all(&volume)
    });
    for n in 250..volume.geometry().capacity / 2048 {
        let io = Io::Write { offset: n * 2048, data: data(n).into(), durable: false };
        execute(&volume, io).expect("disks that work");
        let after = open(&crate::pool::disks_of(disks.iter().map(Disk::image).collect())).expect("a volume");
        is_sound(&after);
        assert!(is_filled(&after, 250), "after write {n}");
    }
    assert!(volume.usage().members[1].buckets.cached < cached);
}

/// A scrub drops a bad cached copy even if another copy of the extent is bad.
#[test]
fn a_scrub_drops_a_bad_cached_copy_beside_a_bad_one_that_counts() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let options = Options { replicas: 2, size: 64 << 10, targets, ..options() };
    let disks = labelled(&[("hdd.a", 1), ("hdd.b", 1), ("ssd", 0)], &options);
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 1);
    assert!(is_filled(&volume, 1));
    promote(&volume);
    assert_eq!(live(&volume), [4, 4, 4]);
    for disk in [&disks[0], &disks[2]] {
        disk.flip(find(disk, &data(0)) + 100, 1);
    }
    let scrub = || {
        let volume = volume.clone();
        run(|cx| async move { volume.scrub(&cx).await }).expect("disks that work")
    };
    assert_eq!(scrub(), Scrubbed { copies: 3, repaired: 2, ..Scrubbed::default() });
    assert_eq!((scrub(), live(&volume)), (Scrubbed { copies: 2, ..Scrubbed::default() }, vec![4, 4, 0]));
}

/// Makes cached copies of the first 250 writes in the second member. Returns the number of their buckets.
fn promote_all(volume: &Volume) -> u32 {
    for _ in 0..8 {
        assert!(is_filled(volume, 250));
        promote(volume);
    }
    let cached = volume.usage().members[1].buckets.cached;
    assert!(cached > 10, "{cached}");
    cached
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
    // The checksum unit around the block stays, but does not count.
    assert_eq!(live(&volume), [400, 399]);
    is_sound(&volume);
    // Without the member that has the cache, everything else is there.
    drop(volume);
    let options = OpenOptions { degraded: Degraded::Very, ..open_options() };
    let volume = crate::pool::open_with(&disks[1..], options).expect("the background has the journal");
    assert!(read(&volume, 512, 1536) == rest);
    assert!((1..100).all(|n| is_written(&volume, n)));
}

/// The foreground is always full of cached copies, but new data never has to go elsewhere.
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
    // Reads create the cached copies again.
    assert!(is_filled(&volume, 50));
    promote(&volume);
    assert_eq!(live(&volume)[0], live(&volume)[1]);
    rests(&volume);
    is_sound(&volume);
}

/// A flush has to give new data all of its copies, although one member fails and the space for the copies is
/// full of cached ones.
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

/// Reads of whole extents have the stored bytes, so that their cached copies cost no further read, however many extents
/// wait. The copies of compressed and encrypted extents are the same bytes, too.
#[test]
fn cached_copies_of_extents_that_were_read_whole_cost_no_second_read() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let compressed = Options { compression: Compressor::Lz4, ..options() };
    for options in [options(), compressed, crate::pool::encrypted()] {
        let disks = labelled(&[("hdd", 1), ("ssd", 0)], &Options { targets: targets.clone(), ..options });
        let volume = open(&disks).expect("a new volume");
        fill(&volume, 200);
        let reads = || volume.usage().members[0].requests.reads;
        // One request for each extent, and then large requests for many extents.
        assert!(is_filled(&volume, 100));
        let expected: Vec<u8> = (100..200).flat_map(data).collect();
        assert!(read(&volume, 100 * 2048, 100 * 2048) == expected);
        let before = reads();
        promote(&volume);
        assert_eq!((reads(), live(&volume)[1]), (before, live(&volume)[0]));
        assert!(is_filled(&volume, 200));
        assert_eq!(reads(), before, "the cached copies are good");
        is_sound(&volume);
    }
}

/// A read of a part of an extent does not have all of its bytes.
#[test]
fn a_read_of_a_part_leaves_a_cached_copy_of_the_whole_extent() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let disks = labelled(&[("hdd", 1), ("ssd", 0)], &Options { targets, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 20);
    let reads = || volume.usage().members[0].requests.reads;
    assert!((0..20).all(|n| read(&volume, n * 2048 + 1024, 512) == data(n)[1024..1536]));
    let before = reads();
    promote(&volume);
    assert_eq!((reads(), live(&volume)), (before + 20, vec![80, 80]));
    assert!(is_filled(&volume, 20));
    assert_eq!(reads(), before + 20);
    is_sound(&volume);
}

/// Data that was overwritten after the read gets no cached copy of its old contents.
#[test]
fn an_overwrite_between_the_read_and_its_cached_copy_is_not_undone() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let disks = labelled(&[("hdd", 1), ("ssd", 0)], &Options { targets, ..options() });
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 20);
    assert!(is_filled(&volume, 20));
    for n in 0..10 {
        let io = Io::Write { offset: n * 2048, data: data(n + 50).into(), durable: false };
        execute(&volume, io).expect("disks that work");
    }
    promote(&volume);
    assert_eq!(live(&volume), [80, 40]);
    assert!((0..10).all(|n| read(&volume, n * 2048, 2048) == data(n + 50)));
    assert!((10..20).all(|n| is_written(&volume, n)));
    is_sound(&volume);
}

/// Background work promotes what many reads ask for without a pause.
#[test]
fn background_work_promotes_between_two_searches() {
    let targets = Targets { promote: "ssd".into(), foreground: "hdd".into(), ..Targets::default() };
    let options = Options {
        block: 4096,
        bucket: 1 << 20,
        checksum_block: 65_536,
        extent_max: 65_536,
        targets,
        ..options()
    };
    let disks = [64 << 20; 2].map(|size| Disk::new(Image::new(size), BLOCK)).to_vec();
    let disks = labelled_on(disks, &[("hdd", 1), ("ssd", 0)], &options);
    let volume = open(&disks).expect("a new volume");
    let io = |n: u64| (n * 65_536, vec![n as u8; 65_536]);
    for (offset, data) in (0..400).map(io) {
        execute(&volume, Io::Write { offset, data: data.into(), durable: false }).expect("disks that work");
    }
    let mut executor = Executor::new(1);
    let (cx, working) = (executor.context(), volume.clone());
    executor.spawn(async move {
        let end = cx.now() + Duration::from_ms(400);
        working.background(&cx, 0, &|| cx.now() >= end).await.expect("disks that work");
    });
    let (cx, reading) = (executor.context(), volume.clone());
    executor.block_on(async move {
        cx.sleep_until(cx.now() + Duration::from_ms(1)).await;
        for (offset, data) in (0..400).map(io) {
            let read = Io::Read { offset, buffer: vec![0; 65_536] };
            let Ok(Answer::Read(bytes)) = reading.start(&cx, read).outcome().await else {
                panic!("disks that work")
            };
            assert!(bytes == data);
            cx.sleep_until(cx.now() + Duration::from_us(100)).await;
        }
    });
    // The reads take 40 ms, and ask for more than waits at a time.
    assert!(live(&volume)[1] > live(&volume)[0] / 2, "{:?}", live(&volume));
}

/// Cached copies never count, so the member with the other copies cannot be removed.
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
    // An evacuation of the other member makes real copies from the cached ones.
    set(&volume, Change { states: vec![(1, MemberState::Evacuating)], ..Change::default() })
        .expect("a member");
    let volume = open(&disks).expect("a changed volume");
    let done = reconcile(&volume);
    assert!(done.pending.is_empty(), "{done:?}");
    let removing = volume.clone();
    run(|cx| async move { removing.remove(&cx, 1).await }).expect("an empty member");
    assert!(is_filled(&open(&disks[..1]).expect("the other member"), 20));
}
