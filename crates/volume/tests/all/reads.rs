//! Reads beside moves of their data.

use crate::faulty::find;
use crate::pool::{open_options, options, run};
use crate::threads::Polled;
use crate::tiers::{data, fill, labelled, reconcile, set};
use flashlab_block::conformance::execute;
use flashlab_block::crash::Disk;
use flashlab_block::{Answer, BlockDevice, Context, Features, Geometry, Io, IoError, Promise, Started};
use flashlab_volume::{Change, MemberState, Options, Targets, Volume};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A disk of which one read waits until the test answers it.
struct Held {
    disk: Disk,
    /// The next read waits.
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

/// Opens a volume on two members whose foreground is the first one, of which a read can wait.
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
    // Discards fill the journal, and only checkpoints take space.
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
