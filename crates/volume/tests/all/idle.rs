//! Members without requests: background work reads them from time to time, and notices a dead one.

use crate::members::open_switched;
use crate::pool::{Switched, disks, format, open_options, options, run, switched};
use crate::tiers::{fill, is_filled, is_sound, live};
use flashlab_block::crash::Disk;
use flashlab_block::{BlockDevice, Context, Executor, Features, Geometry, Io, Started};
use flashlab_sim::Duration;
use flashlab_volume::{Options, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Does the background work of a number of seconds.
fn work(executor: &mut Executor, volume: &Volume, seconds: u64) {
    let (cx, working) = (executor.context(), volume.clone());
    executor.block_on(async move {
        let end = cx.now() + Duration::from_secs(seconds);
        working.background(&cx, 0, &|| cx.now() >= end).await.expect("enough members");
    });
}

#[test]
fn a_member_that_dies_without_a_request_becomes_unreachable_and_its_copies_are_replaced() {
    let disks = disks(3);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    fill(&volume, 60);
    let state = || (volume.health()[0].failing, volume.health()[0].unreachable);
    let mut executor = Executor::new(3);
    work(&mut executor, &volume, 40);
    assert_eq!(state(), (false, false));
    switches[0].die();
    work(&mut executor, &volume, 17);
    assert_eq!(state(), (true, false));
    work(&mut executor, &volume, 32);
    assert_eq!(state(), (true, true));
    assert_eq!(volume.usage().by_copies, [(2, 60 * 2048)].into());
    assert_eq!(live(&volume)[1..], [240, 240]);
    switches[0].revive();
    work(&mut executor, &volume, 3);
    assert!(!state().1);
    assert!(is_filled(&volume, 60));
    is_sound(&volume);
}

/// A disk that counts its reads, and that may be simulated.
#[derive(Clone)]
struct Counted {
    disk: Disk,
    is_simulated: bool,
    reads: Arc<AtomicU64>,
}

impl BlockDevice for Counted {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        Features { timed: self.is_simulated, ..self.disk.features() }
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        self.reads.fetch_add(u64::from(matches!(io, Io::Read { .. })), Ordering::Relaxed);
        self.disk.start(cx, io)
    }
}

/// A minute has four probes; probes of simulated members would change the results of experiments.
#[test]
fn idle_members_are_read_every_15_seconds_unless_they_are_simulated() {
    for (is_simulated, probes) in [(false, 4), (true, 0)] {
        let disk = disks(1).remove(0);
        format(std::slice::from_ref(&disk), &options()).expect("a disk of the right size");
        let device = Counted { disk, is_simulated, reads: Arc::default() };
        let given: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(device.clone())];
        let volume = run(|cx| async move { Volume::open(&cx, &given, open_options()).await });
        let volume = volume.expect("a new volume");
        let mut executor = Executor::new(3);
        let reads = || device.reads.load(Ordering::Relaxed);
        let before = reads();
        work(&mut executor, &volume, 62);
        assert_eq!(reads() - before, probes, "simulated: {is_simulated}");
        // Requests of clients show that the member works, so there is no probe beside them.
        for _ in 0..62 {
            fill(&volume, 1);
            work(&mut executor, &volume, 1);
        }
        assert_eq!(reads() - before, probes, "simulated: {is_simulated}");
    }
}
