//! Work on an extent never leaves it with fewer copies than it had: recompression, evacuation and the loss of
//! members. A failed flush puts the data that was written before it in doubt, and no other data.

use crate::members::{close, findings, mirror, open_degraded, open_switched};
use crate::pool::{Switched, disks, format, open, open_options, options, run, switched};
use crate::tiers::{data, fill, is_filled, is_sound, labelled, live, reconcile, set};
use flashlab_block::conformance::execute;
use flashlab_block::crash::Disk;
use flashlab_block::{
    Answer, BlockDevice, Context, Executor, Features, Geometry, Io, IoError, Outcome, Started,
};
use flashlab_sim::{Duration, Instant, Rng};
use flashlab_volume::encode::Compressor;
use flashlab_volume::{Change, Degraded, MemberState, Options, Targets, Volume};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Waker};

/// Returns the least number of copies that data of the volume has.
fn fewest_copies(volume: &Volume) -> usize {
    *volume.usage().by_copies.keys().next().expect("data")
}

#[test]
fn recompression_keeps_copies_on_members_that_take_no_new_data() {
    let options = Options { replicas: 2, background_compression: Compressor::Zstd(3), ..options() };
    let disks = labelled(&[("a", 1), ("b", 1)], &options);
    let volume = open(&disks).expect("a new volume");
    fill(&volume, 40);
    set(&volume, Change { states: vec![(1, MemberState::Ro)], ..Change::default() }).expect("a state");
    reconcile(&volume);
    assert_eq!(fewest_copies(&volume), 2);
    set(&volume, Change { states: vec![(1, MemberState::Rw)], ..Change::default() }).expect("a state");
    close(&volume);
    // Recompression also keeps the copies on a missing member.
    let volume = open_degraded(&disks[..1], Degraded::Yes).expect("all data");
    reconcile(&volume);
    close(&volume);
    let volume = open(&disks).expect("both members");
    assert_eq!(fewest_copies(&volume), 2);
    reconcile(&volume);
    assert_eq!((fewest_copies(&volume), is_filled(&volume, 40)), (2, true));
}

#[test]
fn an_evacuation_with_a_failed_write_keeps_the_old_copies() {
    let targets = Targets { foreground: "a".into(), ..Targets::default() };
    let options = Options { replicas: 2, size: 256 << 10, targets, ..options() };
    let disks = labelled(&[("a.1", 1), ("a.2", 1), ("b.1", 1), ("b.2", 1)], &options);
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    fill(&volume, 40);
    assert_eq!(live(&volume), [160, 160, 0, 0]);
    let states = vec![(0, MemberState::Evacuating), (1, MemberState::Evacuating)];
    set(&volume, Change { states, ..Change::default() }).expect("states");
    switches[3].fail_change(0, true);
    reconcile(&volume);
    assert!(fewest_copies(&volume) >= 2, "{:?}", volume.usage().by_copies);
}

#[test]
fn an_evacuation_does_not_count_on_a_member_that_fails() {
    let disks = disks(3);
    format(&disks, &Options { replicas: 3, ..options() }).expect("disks of the right size");
    for dead in [0, 2] {
        let disks = crate::pool::disks_of(disks.iter().map(Disk::image).collect());
        let switches: Vec<Switched> = disks.iter().map(switched).collect();
        let volume = open_switched(&switches).expect("a new volume");
        fill(&volume, 60);
        switches[dead].die();
        // The writes find out that the member fails.
        let write = Io::Write { offset: 60 * 2048, data: data(60).into(), durable: true };
        execute(&volume, write).expect("two members");
        set(&volume, Change { replicas: Some(2), ..Change::default() }).expect("fewer copies");
        reconcile(&volume);
        let left = live(&volume);
        assert_eq!(left[dead], 0, "the copies on the dead member go first: {left:?}");
        assert!(is_filled(&volume, 60));
    }
}

/// Garbage collection writes only to the present member, so the copies on the missing member stay as they
/// are.
#[test]
fn a_missing_member_keeps_its_state_and_the_copies_that_nobody_overwrote() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    let writes = volume.geometry().capacity / 2048;
    fill(&volume, writes);
    close(&volume);
    let volume = open_degraded(&disks[..1], Degraded::Yes).expect("all data");
    let mut executor = Executor::new(3);
    let (cx, writing) = (executor.context(), volume.clone());
    let overwritten = executor.block_on(async move {
        let (mut rng, mut overwritten) = (Rng::new(4), BTreeSet::new());
        for _ in 0..40 {
            for _ in 0..10 {
                let n = rng.below(writes / 4) * 4;
                overwritten.insert(n);
                let write = Io::Write { offset: n * 2048, data: data(n).into(), durable: false };
                writing.start(&cx, write).outcome().await.expect("space");
            }
            writing.start(&cx, Io::Flush).outcome().await.expect("a member that works");
            cx.sleep_until(cx.now() + Duration::from_secs(1)).await;
        }
        overwritten.len() as u64
    });
    close(&volume);
    let volume = open(&disks).expect("both members");
    let usage = volume.usage();
    assert_eq!((usage.members[1].state, usage.members[1].errors.write), (MemberState::Rw, 0));
    assert_eq!(usage.by_copies[&1], overwritten * 2048);
}

/// Offset of a write, and the bytes that it replaced.
type Replaced = (u64, Vec<u8>);

/// A disk that loses its unflushed writes when a flush fails.
#[derive(Clone)]
struct Dropping {
    disk: Disk,
    /// Unflushed writes.
    unflushed: Arc<Mutex<Vec<Replaced>>>,
    /// True if the next flush waits until the flag is cleared, and then fails.
    holds_flush: Arc<AtomicBool>,
    /// True if answers to writes wait until the flag is cleared.
    holds_answers: Arc<AtomicBool>,
}

impl Dropping {
    fn new(disk: &Disk) -> Dropping {
        let flag = Arc::<AtomicBool>::default;
        Dropping { disk: disk.clone(), unflushed: Arc::default(), holds_flush: flag(), holds_answers: flag() }
    }

    async fn wait_while(flag: Arc<AtomicBool>) {
        poll_fn(|_| if flag.load(Ordering::SeqCst) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    async fn fail_flush(self, cx: Context) -> Outcome {
        Dropping::wait_while(self.holds_flush.clone()).await;
        let unflushed = std::mem::take(&mut *self.unflushed.lock().expect("no task panics"));
        for (offset, old) in unflushed.into_iter().rev() {
            let undo = Io::Write { offset, data: old.into(), durable: false };
            self.disk.start(&cx, undo).outcome().await.expect("a disk");
        }
        Err(IoError::Medium)
    }
}

impl BlockDevice for Dropping {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        match &io {
            Io::Write { offset, data, .. } => {
                let mut old = vec![0; data.len()];
                self.disk.image().read(*offset, &mut old);
                self.unflushed.lock().expect("no task panics").push((*offset, old));
                if self.holds_answers.load(Ordering::SeqCst) {
                    let (started, flag) = (self.disk.start(cx, io), self.holds_answers.clone());
                    return Started::Pending(Box::pin(async move {
                        Dropping::wait_while(flag).await;
                        started.outcome().await
                    }));
                }
            }
            Io::Flush if self.holds_flush.load(Ordering::SeqCst) => {
                return Started::Pending(Box::pin(self.clone().fail_flush(cx.clone())));
            }
            Io::Flush => self.unflushed.lock().expect("no task panics").clear(),
            _ => {}
        }
        self.disk.start(cx, io)
    }
}

/// Opens a new volume on devices, and writes the first twenty extents, which no flush covers.
fn open_on<D: BlockDevice + Clone + 'static>(devices: &[D]) -> Volume {
    let given: Vec<_> = devices.iter().map(|d| Arc::new(d.clone()) as Arc<dyn BlockDevice>).collect();
    let volume =
        run(|cx| async move { Volume::open(&cx, &given, open_options()).await }).expect("a new volume");
    for n in 0..20 {
        run(|_| start_write(&volume, n).outcome()).expect("disks that work");
    }
    volume
}

/// Starts write `n`.
fn start_write(volume: &Volume, n: u64) -> Started {
    let write = Io::Write { offset: n * 2048, data: data(n).into(), durable: false };
    volume.start(&Context::new(Instant::ZERO), write)
}

/// Polls a request until it ends.
fn end(mut future: Pin<Box<dyn Future<Output = Outcome> + Send>>) -> Outcome {
    let mut task = task::Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut task) {
            return outcome;
        }
    }
}

/// Writes end beside a failing flush, before it fails or afterwards.
#[test]
fn a_failed_flush_puts_all_writes_before_it_in_doubt() {
    for are_held in [false, true] {
        let devices: Vec<Dropping> = mirror(3).iter().map(Dropping::new).collect();
        let (volume, cx) = (open_on(&devices), Context::new(Instant::ZERO));
        let start = |n| start_write(&volume, n);
        devices[2].holds_flush.store(true, Ordering::SeqCst);
        let Started::Pending(flush) = volume.start(&cx, Io::Flush) else { panic!("the flush waits") };
        devices[2].holds_answers.store(are_held, Ordering::SeqCst);
        let (mut waiting, mut ended) = (Vec::new(), 0);
        for n in 20..40 {
            match start(n) {
                Started::Done(outcome) => {
                    outcome.expect("disks that work");
                    ended += 1;
                }
                Started::Pending(future) => waiting.push(future),
            }
        }
        assert!(if are_held { waiting.len() > 5 } else { ended == 20 }, "{} wait", waiting.len());
        devices[2].holds_flush.store(false, Ordering::SeqCst);
        end(flush).expect("the other members have all data");
        devices[2].holds_answers.store(false, Ordering::SeqCst);
        waiting.into_iter().for_each(|write| drop(end(write).expect("the other members work")));
        execute(&volume, Io::Flush).expect("members that work");
        assert_eq!(findings(&volume), [""; 0], "answers held: {are_held}");
        assert!(is_filled(&volume, 40));
        assert_eq!(fewest_copies(&volume), 2);
    }
}

/// A disk with one flush that waits, then fails, and loses the unflushed writes.
#[derive(Clone)]
struct FailingOnce {
    inner: Dropping,
    /// Number of flushes before the one that fails; `None` if all flushes work.
    left: Arc<Mutex<Option<u64>>>,
    waits: Arc<AtomicBool>,
}

impl BlockDevice for FailingOnce {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn features(&self) -> Features {
        self.inner.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if matches!(io, Io::Flush) {
            let mut left = self.left.lock().expect("no task panics");
            let is_next = *left == Some(0);
            *left = left.and_then(|left| left.checked_sub(1));
            if is_next {
                self.waits.store(true, Ordering::SeqCst);
                self.inner.holds_flush.store(true, Ordering::SeqCst);
            }
        }
        self.inner.start(cx, io)
    }
}

/// The flushes of a change of the superblocks fail in turn, beside writes.
#[test]
fn a_failed_flush_of_a_superblock_puts_writes_in_doubt_too() {
    let mut failures = 0;
    for (replicas, nth) in [1, 2].into_iter().flat_map(|replicas| (0..12).map(move |nth| (replicas, nth))) {
        let disks = disks(3);
        format(&disks, &Options { replicas, ..options() }).expect("disks of the right size");
        let device =
            |disk| FailingOnce { inner: Dropping::new(disk), left: Arc::default(), waits: Arc::default() };
        let devices: Vec<FailingOnce> = disks.iter().map(device).collect();
        let (volume, cx) = (open_on(&devices), Context::new(Instant::ZERO));
        let start = |n| start_write(&volume, n);
        let target = &devices[usize::from(replicas == 1)];
        *target.left.lock().expect("no task panics") = Some(nth);
        let (changing, of_change) = (volume.clone(), cx.clone());
        let mut change = Box::pin(async move {
            let changed = changing.set_member_state(&of_change, 2, MemberState::Rw).await;
            changed.map(|()| Answer::Done).map_err(|_| IoError::Medium)
        });
        let mut task = task::Context::from_waker(Waker::noop());
        let has_ended = (0..2_000)
            .any(|_| change.as_mut().poll(&mut task).is_ready() || target.waits.load(Ordering::SeqCst))
            && !target.waits.load(Ordering::SeqCst);
        if has_ended {
            continue;
        }
        failures += 1;
        let mut waiting = Vec::new();
        for n in 20..40 {
            match start(n) {
                Started::Done(outcome) => drop(outcome.expect("disks that work")),
                Started::Pending(future) => waiting.push(future),
            }
        }
        target.inner.holds_flush.store(false, Ordering::SeqCst);
        let _ = end(change);
        let written = waiting.into_iter().filter_map(|write| end(write).ok()).count();
        let is_flushed = execute(&volume, Io::Flush).is_ok();
        // If the flush succeeds, all data has all of its copies.
        if is_flushed {
            assert_eq!(findings(&volume), [""; 0], "{replicas} copies, flush {nth}, {written} writes waited");
            assert!(is_filled(&volume, 40), "{replicas} copies, flush {nth}");
        }
        assert!(is_flushed || replicas == 1, "flush {nth}: the other members have all data");
    }
    assert!(failures > 8, "{failures} flushes failed");
}

/// Of three members, two have a copy of each extent. One member stops answering while the volume is open.
/// After 30 s, and not before, the other members get copies of its data. When the member answers again, the
/// surplus copies are dropped.
#[test]
fn the_copies_on_a_member_that_does_not_answer_for_30_seconds_are_replaced() {
    let disks = disks(3);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    for is_read in [false, true] {
        let disks = crate::pool::disks_of(disks.iter().map(Disk::image).collect());
        let switches: Vec<Switched> = disks.iter().map(switched).collect();
        let volume = open_switched(&switches).expect("a new volume");
        fill(&volume, 60);
        let filled = live(&volume);
        switches[0].die();
        // A request finds out that the member fails: a write, or the reads of all data.
        if is_read {
            assert!(is_filled(&volume, 60));
        } else {
            let write = Io::Write { offset: 0, data: data(0).into(), durable: true };
            execute(&volume, write).expect("two members");
        }
        let mut executor = Executor::new(3);
        let work = |executor: &mut Executor, seconds: u64| {
            let (cx, working) = (executor.context(), volume.clone());
            executor.block_on(async move {
                let end = cx.now() + Duration::from_secs(seconds);
                working.background(&cx, 0, &|| cx.now() >= end).await.expect("two members");
            });
        };
        work(&mut executor, 29);
        assert!(!volume.health()[0].unreachable);
        assert!(live(&volume)[0] >= filled[0] - 4, "{filled:?} {:?}", live(&volume));
        assert_eq!(fewest_copies(&volume), 2);
        work(&mut executor, 3);
        assert!(volume.health()[0].unreachable);
        assert_eq!(volume.usage().by_copies, [(2, 60 * 2048)].into(), "reads: {is_read}");
        // The copies on the member stay in the map: it may return.
        assert_eq!(live(&volume)[1..], [240, 240]);
        assert!(live(&volume)[0] > 0);
        switches[0].revive();
        work(&mut executor, 3);
        assert!(!volume.health()[0].unreachable);
        assert_eq!(volume.usage().by_copies, [(2, 60 * 2048)].into());
        assert_eq!(live(&volume).iter().sum::<u64>(), 480);
        assert!(is_filled(&volume, 60));
        is_sound(&volume);
    }
}
