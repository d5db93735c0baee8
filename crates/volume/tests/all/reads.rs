//! Reads beside moves of their data and beside failing members, and the choice of copies.

use crate::faulty::find;
use crate::pool::{Switched, disks, format, open_options, options, run, switched};
use crate::threads::Polled;
use crate::tiers::{data, fill, labelled, reconcile, set};
use flashlab_block::conformance::execute;
use flashlab_block::crash::Disk;
use flashlab_block::{
    Answer, BlockDevice, Context, Executor, Features, Geometry, Io, IoError, Promise, Started,
};
use flashlab_sim::Duration;
use flashlab_volume::{Change, MemberState, Options, Requests, Targets, Volume};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A disk with one read that waits until the test answers it.
struct Held {
    disk: Disk,
    /// True if the next read waits.
    holds: AtomicBool,
    waiting: Mutex<Option<(Io, Promise)>>,
}

impl Held {
    /// Starts a read of the first write that waits on this disk.
    fn hold_read(&self, volume: &Volume) -> Polled {
        self.holds.store(true, Ordering::SeqCst);
        Polled::start(volume, Io::Read { offset: 0, buffer: vec![0; 2048] })
    }

    fn waiting(&self) -> (Io, Promise) {
        self.waiting.lock().expect("no test panics with the lock").take().expect("a read waits")
    }

    /// Answers the read with the present bytes of the disk.
    fn answer(&self) {
        let (io, promise) = self.waiting();
        promise.resolve(execute(&self.disk, io));
    }

    /// Lets the read fail.
    fn fail(&self) {
        self.waiting().1.resolve(Err(IoError::Medium));
    }
}

impl BlockDevice for Held {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        if !matches!(io, Io::Read { .. }) || !self.holds.swap(false, Ordering::SeqCst) {
            return self.disk.start(cx, io);
        }
        let promise = Promise::default();
        *self.waiting.lock().expect("no test panics with the lock") = Some((io, promise.clone()));
        Started::Pending(Box::pin(promise))
    }
}

/// Opens a volume on two members. The first member is the foreground, and its reads can be made to wait.
fn held_foreground(targets: Targets) -> (Vec<Disk>, Arc<Held>, Volume) {
    let targets = Targets { foreground: "a".into(), ..targets };
    let disks = labelled(&[("a", 1), ("b", 1)], &Options { targets, size: 256 << 10, ..options() });
    let held = Held { disk: disks[0].clone(), holds: AtomicBool::new(false), waiting: Mutex::default() };
    let held = Arc::new(held);
    let given: Vec<Arc<dyn BlockDevice>> = vec![held.clone(), Arc::new(disks[1].clone())];
    let volume = run(|cx| async move { Volume::open(&cx, &given, open_options()).await });
    (disks, held, volume.expect("a new volume"))
}

fn assert_first_write(read: Polled) {
    let Answer::Read(bytes) = read.answer() else { panic!("a read") };
    assert!(bytes == data(0));
}

/// Background work moves the data, and the bucket gets a checkpoint before the disk answers.
#[test]
fn a_slow_read_whose_bucket_gets_a_checkpoint_reads_the_moved_data() {
    let targets = Targets { background: "b".into(), metadata: "a".into(), ..Targets::default() };
    let (disks, held, volume) = held_foreground(targets);
    fill(&volume, 100);
    let place = find(&disks[0], &data(0));
    let read = held.hold_read(&volume);
    assert_eq!(reconcile(&volume).moved_bytes, 100 * 2048);
    // Discards fill the journal. Only checkpoints take space, so a checkpoint overwrites the bucket.
    let is_overwritten = |_| {
        execute(&volume, Io::Discard { offset: 255 << 10, length: 512, durable: true }).expect("a disk");
        let mut bytes = vec![0; 2048];
        disks[0].image().read(place, &mut bytes);
        bytes != data(0)
    };
    assert!((0..20_000).any(is_overwritten));
    held.answer();
    assert_first_write(read);
    assert_eq!(volume.usage().members[0].errors.checksum, 0);
}

/// An evacuation rescues the data before the disk answers, with an error or with bad bytes.
#[test]
fn a_slow_read_from_a_failing_member_reads_the_evacuated_data() {
    for is_error in [true, false] {
        let (disks, held, volume) = held_foreground(Targets::default());
        fill(&volume, 40);
        let place = find(&disks[0], &data(0));
        set(&volume, Change { states: vec![(0, MemberState::Evacuating)], ..Change::default() })
            .expect("a member");
        let read = held.hold_read(&volume);
        assert_eq!(reconcile(&volume).moved_bytes, 40 * 2048);
        disks[0].flip(place, 1);
        if is_error {
            held.fail()
        } else {
            held.answer()
        }
        assert_first_write(read);
        assert_eq!(volume.usage().members[0].errors.checksum, 0);
    }
}

/// The members of a volume whose disks answer after a time.
struct Slow {
    executor: Executor,
    switches: Vec<Switched>,
    volume: Volume,
}

/// Writes that [`Slow::read_all`] reads.
const WRITES: u64 = 32;

impl Slow {
    /// Opens a volume that has a copy of each write on every member.
    fn new(latencies_us: &[u64]) -> Slow {
        let disks = disks(latencies_us.len());
        let replicas = latencies_us.len() as u8;
        format(&disks, &Options { replicas, ..options() }).expect("disks of the right size");
        let slow = |(disk, us): (Disk, &u64)| switched(&disk.with_latency(Duration::from_us(*us)));
        let switches: Vec<Switched> = disks.into_iter().zip(latencies_us).map(slow).collect();
        let given: Vec<Arc<dyn BlockDevice>> =
            switches.iter().map(|disk| Arc::new(disk.clone()) as Arc<dyn BlockDevice>).collect();
        let mut executor = Executor::new(3);
        let cx = executor.context();
        let volume = executor.block_on(async move {
            let volume = Volume::open(&cx, &given, open_options()).await.expect("a new volume");
            for n in 0..WRITES {
                let io = Io::Write { offset: n * 2048, data: data(n).into(), durable: n + 1 == WRITES };
                drop(volume.start(&cx, io).outcome().await.expect("a member that works"));
            }
            volume
        });
        Slow { executor, switches, volume }
    }

    /// Reads all writes a few times. Returns the number of reads of each member.
    fn read_all(&mut self, times: u64) -> Vec<u64> {
        let reads = |volume: &Volume| requests(volume).iter().map(|n| n.reads).collect::<Vec<_>>();
        let before = reads(&self.volume);
        let (cx, volume) = (self.executor.context(), self.volume.clone());
        self.executor.block_on(async move {
            for n in (0..times).flat_map(|_| 0..WRITES) {
                let io = Io::Read { offset: n * 2048, buffer: vec![0; 2048] };
                let Answer::Read(bytes) = volume.start(&cx, io).outcome().await.expect("a member that works")
                else {
                    panic!("a read")
                };
                assert!(bytes == data(n));
            }
        });
        reads(&self.volume).iter().zip(before).map(|(after, before)| after - before).collect()
    }

    fn wait(&mut self, time: Duration) {
        let cx = self.executor.context();
        self.executor.block_on(async move { cx.sleep_until(cx.now() + time).await });
    }
}

fn requests(volume: &Volume) -> Vec<Requests> {
    volume.usage().members.iter().map(|member| member.requests).collect()
}

/// A dead disk answers faster than any working disk, but the times of its answers do not count.
#[test]
fn a_member_whose_reads_fail_is_read_last_apart_from_one_attempt_per_second() {
    let mut slow = Slow::new(&[100, 100]);
    slow.read_all(4);
    let time_ns = requests(&slow.volume)[1].read_ns;
    slow.switches[1].die();
    assert_eq!(slow.read_all(4), [4 * WRITES, 1]);
    let member = slow.volume.usage().members[1].clone();
    assert_eq!((member.errors.read, member.requests.read_ns), (1, time_ns));
    slow.wait(Duration::from_secs(1));
    assert_eq!(slow.read_all(4), [4 * WRITES, 1]);
    slow.switches[1].revive();
    assert_eq!(slow.read_all(4), [4 * WRITES, 0]);
    slow.wait(Duration::from_secs(1));
    let reads = slow.read_all(4);
    assert!(reads[0] + reads[1] == 4 * WRITES && reads[1] > WRITES, "{reads:?}");
}

#[test]
fn a_member_whose_reads_fail_is_read_if_no_other_one_works() {
    let mut slow = Slow::new(&[100, 100]);
    slow.switches[1].die();
    slow.read_all(1);
    slow.switches[1].revive();
    slow.switches[0].die();
    let reads = slow.read_all(1);
    assert_eq!(reads[1], WRITES, "{reads:?}");
}

#[test]
fn each_of_several_copies_is_read_by_the_square_of_the_speed_of_its_member() {
    for (latencies_us, odds) in [
        (&[100, 200][..], &[4, 1][..]),
        (&[400, 100, 200], &[1, 16, 4]),
        (&[200, 200, 100, 200], &[1, 1, 4, 1]),
    ] {
        let all = odds.iter().sum::<u64>();
        let reads = Slow::new(latencies_us).read_all(2 * all);
        for (reads, odds) in reads.into_iter().zip(odds) {
            let expected = 2 * WRITES * odds;
            assert!(reads.abs_diff(expected) <= expected / 4, "{latencies_us:?}: {reads} of {expected}");
        }
    }
}
