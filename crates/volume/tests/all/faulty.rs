//! Members that fail: errors of flushes, writes and reads, bad copies, and limits on the length of requests.

use crate::members::open_switched;
use crate::pool::{BLOCK, MEMBER, Switched, disks, format, open, open_options, options, run, switched};
use crate::tiers::{data as data_of, fill, is_filled, is_sound};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Contract, Disk, History, Image, Kept};
use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Started};
use flashlab_sim::Rng;
use flashlab_volume::encode::Compressor;
use flashlab_volume::{Change, MemberState, NewMember, Options, Scrub, Scrubbed, Volume};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A disk that fails one flush.
struct FailingFlush {
    disk: Disk,
    flushes: AtomicU64,
    fails: u64,
}

impl BlockDevice for FailingFlush {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if matches!(io, Io::Flush) && self.flushes.fetch_add(1, Ordering::SeqCst) == self.fails {
            return Started::Done(Err(IoError::Medium));
        }
        self.disk.start(cx, io)
    }
}

/// Data of the flushes that were acknowledged before the failed flush must survive, and no later flush may
/// succeed.
#[test]
fn an_error_of_each_flush_in_turn_is_reported_and_loses_no_flushed_data() {
    const BLOCKS: u64 = 32;
    let mut reported = 0;
    for fails in 0..40 {
        let disk = disks(1).remove(0);
        format(std::slice::from_ref(&disk), &options()).expect("a disk of the right size");
        let failing = FailingFlush { disk: disk.clone(), flushes: AtomicU64::new(0), fails };
        let failing: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(failing)];
        let opened = run(|cx| async move { Volume::open(&cx, &failing, open_options()).await });
        let mut history = History::new(BLOCK as usize, BLOCKS);
        let mut failed = opened.is_err();
        if let Ok(volume) = opened {
            for n in 0..20 {
                let op = history.write(n..n + 4, false);
                let write = Io::Write { offset: n * BLOCK, data: history.data(op).into(), durable: false };
                if execute(&volume, write).is_ok() {
                    history.answered(op);
                }
                let started = history.flush();
                match execute(&volume, Io::Flush) {
                    Ok(_) => {
                        assert!(!failed, "a flush after the failed one was acknowledged: flush {fails}");
                        history.flushed(started);
                    }
                    Err(_) => failed = true,
                }
            }
        }
        reported += u64::from(failed);
        // A power loss keeps any part of the unflushed writes.
        let point = Disk::point([&disk]);
        for choice in point.choices(16, &mut Rng::new(fails)) {
            let image = point.images(&choice).remove(0);
            let volume = open(&[Disk::new(image, BLOCK)]).expect("a valid state");
            let block = |n: u64| Some(read(&volume, n * BLOCK, BLOCK as usize));
            assert_eq!(history.check(Contract::Prefix, block), Ok(()), "flush {fails}");
        }
    }
    assert!(reported >= 38, "{reported} of 40 errors were reported");
}

/// Returns the offset of the first block of a disk at which the bytes of `data` begin.
pub(crate) fn find(disk: &Disk, data: &[u8]) -> u64 {
    let bytes = disk.image().to_vec();
    let at =
        (0..MEMBER as usize - data.len()).step_by(BLOCK as usize).find(|at| bytes[*at..].starts_with(data));
    at.expect("the data is on the disk") as u64
}

fn scrub(volume: &Volume) -> Scrubbed {
    let volume = volume.clone();
    run(|cx| async move { volume.scrub(&cx).await }).expect("disks that work")
}

fn write(volume: &Volume, offset: u64, data: &[u8]) {
    assert!(execute(volume, Io::Write { offset, data: data.to_vec().into(), durable: true }).is_ok());
}

/// Poison persists: reads of the extent fail even after the volume is reopened and the medium has recovered.
#[test]
fn an_extent_without_a_good_copy_fails_until_it_is_overwritten() {
    let disks = disks(1);
    format(&disks, &options()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    let data: Vec<u8> = (0..1024u32).map(|n| (n % 253) as u8).collect();
    write(&volume, 4096, &data);
    write(&volume, 16384, &[7; 1024]);
    let at = find(&disks[0], &data);
    disks[0].flip(at + 100, 1);
    let expected = Scrubbed { copies: 2, poisoned: 1, ..Scrubbed::default() };
    assert_eq!(scrub(&volume), expected);
    disks[0].flip(at + 100, 1);
    let fails = |volume: &Volume| {
        let read = Io::Read { offset: 4096, buffer: vec![0; 512] };
        assert_eq!(execute(volume, read).err(), Some(IoError::Medium));
    };
    fails(&volume);
    let closing = volume.clone();
    run(|cx| async move { closing.close(&cx).await }).expect("disks that work");
    let volume = open(&disks).expect("a closed volume");
    fails(&volume);
    assert_eq!(scrub(&volume), Scrubbed { copies: 1, ..Scrubbed::default() });
    fails(&volume);
    assert!(read(&volume, 16384, 1024) == [7; 1024]);
    write(&volume, 4096, &data);
    assert!(read(&volume, 4096, 1024) == data);
}

#[test]
fn a_scrub_replaces_a_bad_copy_from_a_good_one() {
    let disks = disks(2);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    let data: Vec<u8> = (0..1024u32).map(|n| (n % 251) as u8).collect();
    write(&volume, 0, &data);
    let [first, second] = [0, 1].map(|n: usize| find(&disks[n], &data));
    disks[0].flip(first + 7, 4);
    // A read takes the other copy.
    assert!(read(&volume, 0, 1024) == data);
    assert_eq!(scrub(&volume), Scrubbed { copies: 2, repaired: 1, ..Scrubbed::default() });
    disks[1].flip(second + 7, 4);
    assert!(read(&volume, 0, 1024) == data);
    let volume = open(&disks).expect("a flushed volume");
    let read = Io::Read { offset: 0, buffer: vec![0; 1024] };
    assert!(matches!(execute(&volume, read), Ok(Answer::Read(bytes)) if bytes == data));
}

/// The only member that may take the new copy fails, so both the bad copy and the good one remain.
#[test]
fn a_scrub_in_parts_examines_and_repairs_every_copy_once() {
    let disks = disks(2);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 20);
    for n in [3, 17] {
        disks[0].flip(find(&disks[0], &data_of(n)) + 100, 1);
    }
    let scrubbing = volume.clone();
    let (parts, scrubbed) = run(|cx| async move {
        let (mut scrub, mut parts, mut reported) = (Scrub::default(), 1, 0);
        // Each part ends after one extent.
        let mut is_same = |read| read == std::mem::replace(&mut reported, read);
        while !scrub.run(&scrubbing, &cx, 0, &mut is_same).await? {
            parts += 1;
        }
        Ok::<_, IoError>((parts, scrub.result()))
    })
    .expect("disks that work");
    assert_eq!(parts, 21, "one part for each extent, and one for the end of the map");
    assert_eq!(scrubbed, Scrubbed { copies: 40, repaired: 2, ..Scrubbed::default() });
    assert_eq!(scrub(&volume), Scrubbed { copies: 40, ..Scrubbed::default() });
    is_sound(&volume);
}

/// A scrub with a limit reads 80 KiB at 16 KiB per second.
#[test]
fn a_scrub_keeps_to_its_rate() {
    let disks = disks(2);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 20);
    let took = |rate: u64| {
        let scrubbing = volume.clone();
        run(|cx| async move {
            let began = cx.now();
            Scrub::default().run(&scrubbing, &cx, rate, |_| true).await.expect("disks that work");
            (cx.now().as_ns() - began.as_ns()) as f64 / 1e9
        })
    };
    assert!(took(0) < 0.1, "{} s", took(0));
    let limited = took(16 << 10);
    assert!((5.0..5.1).contains(&limited), "{limited} s");
}

#[test]
fn a_scrub_whose_write_fails_keeps_the_good_copy() {
    let disks = disks(2);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    let data: Vec<u8> = (0..1024u32).map(|n| (n % 241) as u8).collect();
    write(&volume, 0, &data);
    disks[0].flip(find(&disks[0], &data) + 7, 4);
    switches[0].fail_change(0, true);
    assert_eq!(scrub(&volume), Scrubbed { copies: 2, pending: 1, ..Scrubbed::default() });
    assert!(read(&volume, 0, 1024) == data);
    assert!(execute(&volume, Io::Flush).is_ok());
    assert!(read(&open(&disks).expect("both members"), 0, 1024) == data);
}

/// Another member takes the copy whose write failed.
#[test]
fn a_scrub_repairs_a_copy_on_another_member_if_a_write_fails() {
    let disks = disks(3);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    let data: Vec<u8> = (0..1024u32).map(|n| (n % 239) as u8).collect();
    write(&volume, 0, &data);
    let is_on = |n: &usize| disks[*n].image().to_vec().windows(1024).any(|bytes| bytes == data);
    let on: Vec<usize> = (0..3).filter(is_on).collect();
    assert_eq!(on.len(), 2);
    let other = 3 - on[0] - on[1];
    disks[on[0]].flip(find(&disks[on[0]], &data) + 7, 4);
    // The allocation prefers the third member, which is empty.
    switches[other].fail_change(0, false);
    assert_eq!(scrub(&volume), Scrubbed { copies: 2, repaired: 1, ..Scrubbed::default() });
    assert!(read(&volume, 0, 1024) == data);
    is_sound(&volume);
}

/// Each of the first 60 writes and flushes of the disk fails in turn, while the writes of a client need
/// garbage collection.
#[test]
fn a_write_error_of_a_garbage_collection_loses_no_data() {
    let (mut failures, mut rng) = (0, Rng::new(7));
    for fails in 0..60 {
        let disks = disks(1);
        format(&disks, &options()).expect("a disk of the right size");
        let switches = vec![switched(&disks[0])];
        let volume = open_switched(&switches).expect("a new volume");
        let writes = volume.geometry().capacity / 2048;
        crate::tiers::fill(&volume, writes);
        // Overwrites with the same data leave partly unreferenced buckets.
        let mut rewrite = |volume: &Volume| {
            let n = rng.below(writes);
            execute(volume, Io::Write { offset: n * 2048, data: data_of(n).into(), durable: false })
        };
        for _ in 0..writes / 4 {
            rewrite(&volume).expect("a disk that works");
        }
        switches[0].fail_change(fails, false);
        failures += (0..64).filter(|_| rewrite(&volume).is_err()).count();
        assert!(is_filled(&volume, writes), "write {fails}");
    }
    assert!(failures > 0, "no write failed");
}

/// A thin disk that has no room for one write.
#[derive(Clone)]
struct Thin {
    disk: Disk,
    /// Number of writes before the write without room.
    left: Arc<Mutex<Option<u64>>>,
}

impl BlockDevice for Thin {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if matches!(io, Io::Write { .. }) {
            let mut left = self.left.lock().expect("no test panics here");
            let before = *left;
            *left = before.and_then(|before| before.checked_sub(1));
            if before == Some(0) {
                return Started::Done(Err(IoError::NoSpace));
            }
        }
        self.disk.start(cx, io)
    }
}

/// The garbage collection for a write fails after the write has taken its space.
#[test]
fn a_durable_write_is_durable_although_a_collection_for_it_fails() {
    let disk = Disk::new(Image::new(4 << 20), BLOCK);
    format(std::slice::from_ref(&disk), &options()).expect("a disk of the right size");
    let volume = open(std::slice::from_ref(&disk)).expect("a new volume");
    let (writes, mut rng) = (volume.geometry().capacity / 2048, Rng::new(7));
    crate::tiers::fill(&volume, writes);
    let write = |volume: &Volume, n: u64, data: u64, durable| {
        execute(volume, Io::Write { offset: n * 2048, data: data_of(data).into(), durable })
    };
    (0..writes)
        .for_each(|_| drop(write(&volume, rng.below(writes), 1 << 20, false).expect("a disk that works")));
    execute(&volume, Io::Flush).expect("a disk that works");
    let (image, mut answered) = (disk.image(), 0);
    for fails in 0..120 {
        let device = Thin { disk: Disk::new(image.clone(), BLOCK), left: Arc::default() };
        let given: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(device.clone())];
        let opened = run(|cx| async move { Volume::open(&cx, &given, open_options()).await });
        let volume = opened.expect("a flushed volume");
        *device.left.lock().expect("no test panics here") = Some(fails);
        for n in 0..400 {
            let place = rng.below(writes);
            let is_answered = write(&volume, place, 1000 + n, true).is_ok();
            if device.left.lock().expect("no test panics here").is_none() {
                let point = Disk::point([&device.disk]);
                let nothing = flashlab_block::crash::Choice(vec![Kept::Nothing; point.unflushed()]);
                let after = Disk::new(point.images(&nothing).remove(0), BLOCK);
                let after = open(&[after]).expect("a valid state");
                let is_durable = read(&after, place * 2048, 2048) == data_of(1000 + n);
                assert!(is_durable || !is_answered, "write {fails}");
                answered += u64::from(is_answered);
                break;
            }
        }
    }
    assert!(answered > 0, "no write was answered after an error");
}

/// A device that is unplugged and returns has all of its data: errors of reads change no extent.
#[test]
fn a_scrub_without_a_device_keeps_the_data_of_the_device() {
    let disks = disks(2);
    format(&disks, &options()).expect("disks of the right size");
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    crate::tiers::fill(&volume, 32);
    let on_second = volume.usage().members[1].buckets.live_blocks / 4;
    assert!(on_second > 4, "{on_second}");
    switches[1].die();
    assert_eq!(scrub(&volume), Scrubbed { copies: 32, unreadable: on_second, ..Scrubbed::default() });
    assert!(execute(&volume, Io::Flush).is_ok());
    drop(volume);
    let volume = open(&disks).expect("both devices");
    assert!(is_filled(&volume, 32));
    assert_eq!(scrub(&volume), Scrubbed { copies: 32, ..Scrubbed::default() });
}

/// A disk with blocks that cannot be read until they are written.
#[derive(Clone)]
struct BadBlocks {
    disk: Disk,
    bad: Arc<Mutex<BTreeSet<u64>>>,
    failed: Arc<AtomicU64>,
}

impl BlockDevice for BadBlocks {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let mut bad = self.bad.lock().expect("no test panics here");
        match &io {
            Io::Read { offset, buffer }
                if bad.range(*offset..offset + buffer.len() as u64).next().is_some() =>
            {
                self.failed.fetch_add(1, Ordering::SeqCst);
                return Started::Done(Err(IoError::Medium));
            }
            Io::Write { offset, data, .. } => {
                let written = *offset..offset + data.len() as u64;
                bad.retain(|at| !written.contains(at));
            }
            _ => {}
        }
        drop(bad);
        self.disk.start(cx, io)
    }
}

/// A bucket with data that cannot be read has the fewest blocks to move, but moving them fails each time.
#[test]
fn collections_do_not_begin_with_blocks_that_could_not_be_read() {
    let disk = Disk::new(Image::new(4 << 20), BLOCK);
    format(std::slice::from_ref(&disk), &options()).expect("a disk of the right size");
    let device = BadBlocks { disk: disk.clone(), bad: Arc::default(), failed: Arc::default() };
    let given: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(device.clone())];
    let volume =
        run(|cx| async move { Volume::open(&cx, &given, open_options()).await }).expect("a new volume");
    let writes = volume.geometry().capacity / 2048;
    let mut rng = Rng::new(7);
    let write = |n: u64| {
        let io = Io::Write { offset: n * 2048, data: data_of(n).into(), durable: false };
        execute(&volume, io).expect("space");
    };
    (0..writes).for_each(write);
    (0..writes).for_each(|_| write(rng.below(writes)));
    let image = disk.image().to_vec();
    for data in (0..16).map(data_of) {
        for at in (0..image.len() - 2048).step_by(BLOCK as usize) {
            if image[at..at + 2048] == data[..] {
                device.bad.lock().expect("no test panics here").insert(at as u64);
            }
        }
    }
    (0..3 * writes).for_each(|_| write(100 + rng.below(writes - 100)));
    let failed = device.failed.load(Ordering::SeqCst);
    assert!(failed > 0 && failed < 100, "{failed} failed reads");
}

/// A disk whose next reads return a wrong byte, although the stored bytes are right.
#[derive(Clone)]
struct NoisyBus {
    disk: Disk,
    /// Number of further reads that return a wrong byte.
    noisy: Arc<AtomicU64>,
}

impl BlockDevice for NoisyBus {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let is_noisy = matches!(io, Io::Read { .. })
            && self
                .noisy
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1))
                .is_ok();
        match self.disk.start(cx, io) {
            Started::Done(Ok(Answer::Read(mut bytes))) if is_noisy => {
                bytes[100] ^= 1;
                Started::Done(Ok(Answer::Read(bytes)))
            }
            started => started,
        }
    }
}

#[test]
fn data_that_a_bus_changed_once_is_not_poisoned() {
    let disk = disks(1).remove(0);
    format(std::slice::from_ref(&disk), &options()).expect("a disk of the right size");
    let device = NoisyBus { disk, noisy: Arc::default() };
    let given: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(device.clone())];
    let volume =
        run(|cx| async move { Volume::open(&cx, &given, open_options()).await }).expect("a new volume");
    crate::tiers::fill(&volume, 20);
    // The first read of the scrub, and the first read of the repair.
    device.noisy.store(2, Ordering::SeqCst);
    let scrubbing = volume.clone();
    let scrubbed = run(|cx| async move { scrubbing.scrub(&cx).await }).expect("a disk that works");
    assert_eq!((scrubbed.repaired, scrubbed.poisoned), (1, 0), "{scrubbed}");
    assert!(is_filled(&volume, 20));
}

/// A disk that fails one write or flush.
struct FailingChange {
    disk: Disk,
    changes: AtomicU64,
    fails: u64,
}

impl BlockDevice for FailingChange {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let is_change = matches!(io, Io::Flush | Io::Write { .. });
        if is_change && self.changes.fetch_add(1, Ordering::SeqCst) == self.fails {
            return Started::Done(Err(IoError::Medium));
        }
        self.disk.start(cx, io)
    }
}

/// Opens a volume on disks, the first `journals` of which fail one write or flush. Changes the volume in
/// several ways, and opens it again once the disks work.
fn survives_a_failure(images: &[Image], journals: usize, fails: u64, writes: u64) {
    let disks: Vec<Disk> = images.iter().map(|image| Disk::new(image.clone(), BLOCK)).collect();
    let member = |(n, disk): (usize, &Disk)| {
        let fails = if n < journals { fails } else { u64::MAX };
        Arc::new(FailingChange { disk: disk.clone(), changes: AtomicU64::new(0), fails })
            as Arc<dyn BlockDevice>
    };
    let failing: Vec<Arc<dyn BlockDevice>> = disks.iter().enumerate().map(member).collect();
    // Any step may fail, and may end the volume.
    run(|cx| async move {
        let Ok(volume) = Volume::open(&cx, &failing, open_options()).await else { return };
        for compression in [Compressor::Lz4, Compressor::None] {
            let change = Change { compression: Some(compression), ..Change::default() };
            let _ = volume.set(&cx, &change).await;
        }
        let _ = volume.set_member_state(&cx, 1, MemberState::Ro).await;
        let _ = volume.set_member_state(&cx, 1, MemberState::Rw).await;
        let _ = volume.close(&cx).await;
    });
    let volume = open(&disks).unwrap_or_else(|error| panic!("change {fails}: {error}"));
    assert!(is_filled(&volume, writes), "change {fails}");
    is_sound(&volume);
}

/// The working members do not record that the volume continues without the last journal, because it does not
/// continue.
#[test]
fn a_failure_of_all_journals_at_once_loses_nothing_once_they_work_again() {
    for (members, replicas) in [(2, 1), (3, 2)] {
        let disks = disks(members);
        format(&disks, &Options { replicas, ..options() }).expect("disks of the right size");
        let volume = open(&disks).expect("a new volume");
        fill(&volume, 20);
        run(|cx| async move { volume.close(&cx).await }).expect("disks that work");
        let images: Vec<Image> = disks.iter().map(Disk::image).collect();
        for fails in 0..60 {
            survives_a_failure(&images, replicas.into(), fails, 20);
        }
    }
}

/// A disk that supports only small requests.
struct SmallRequests(Disk);

const REQUEST_MAX: u64 = 3 * BLOCK;

impl BlockDevice for SmallRequests {
    fn geometry(&self) -> Geometry {
        Geometry { request_max: REQUEST_MAX, ..self.0.geometry() }
    }
    fn features(&self) -> Features {
        self.0.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let length = match &io {
            Io::Read { buffer, .. } => buffer.len() as u64,
            Io::Write { data, .. } => data.len() as u64,
            _ => 0,
        };
        if length > REQUEST_MAX {
            return Started::Done(Err(IoError::TooLarge));
        }
        self.0.start(cx, io)
    }
}

#[test]
fn a_member_gets_no_request_that_is_larger_than_it_supports() {
    let disk = disks(1).remove(0);
    let small = || vec![Arc::new(SmallRequests(disk.clone())) as Arc<dyn BlockDevice>];
    let members: Vec<NewMember> = small().into_iter().map(NewMember::new).collect();
    run(|cx| async move { Volume::format(&cx, &members, &options()).await }).expect("a disk");
    for _ in 0..2 {
        let devices = small();
        let volume =
            run(|cx| async move { Volume::open(&cx, &devices, open_options()).await }).expect("a volume");
        fill(&volume, 60);
        assert!(is_filled(&volume, 60));
        is_sound(&volume);
        run(|cx| async move { volume.close(&cx).await }).expect("a disk");
    }
}
