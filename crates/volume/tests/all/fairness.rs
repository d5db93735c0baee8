//! Writes that wait for garbage collection or for a commit are not overtaken for long.

use crate::pool::{BLOCK, MEMBER, disks_of, format, open_options, options};
use flashlab_block::crash::Image;
use flashlab_block::{BlockDevice, Executor, Io};
use flashlab_sim::Rng;
use flashlab_volume::{Options, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes that several tasks repeat.
#[derive(Clone, Copy, Debug)]
struct Load {
    tasks: u64,
    /// Length of each write in blocks.
    blocks: u64,
    /// Number of copies.
    replicas: u8,
    /// Number of writes of all tasks together after which no task begins another write.
    writes: u64,
    /// True if each write has FUA.
    durable: bool,
}

/// Writes to random places of a volume from several tasks. Returns the largest number of other writes that
/// ended during a single write.
fn most_overtaken(load: Load, seed: u64) -> u64 {
    let Load { tasks, blocks, replicas, writes, durable } = load;
    let disks = disks_of(vec![Image::new(MEMBER); replicas.into()]);
    format(&disks, &Options { replicas, ..options() }).expect("disks of the right size");
    let devices = crate::pool::devices(&disks);
    let mut executor = Executor::new(seed);
    let cx = executor.context();
    let volume = executor
        .block_on(async move { Volume::open(&cx, &devices, open_options()).await })
        .expect("a volume");
    let (ended, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for task in 0..tasks {
        let (cx, volume) = (executor.context(), volume.clone());
        let (ended, most) = (ended.clone(), most.clone());
        let mut rng = Rng::for_purpose(seed, task);
        executor.spawn(async move {
            let length = blocks * BLOCK;
            let extents = volume.geometry().capacity / length;
            while ended.load(Ordering::Relaxed) < writes {
                let (offset, began) = (rng.below(extents) * length, ended.load(Ordering::Relaxed));
                let data = vec![task as u8; length as usize].into();
                let outcome = volume.start(&cx, Io::Write { offset, data, durable }).outcome().await;
                outcome.expect("garbage collection finds space");
                let during = ended.fetch_add(1, Ordering::Relaxed) - began;
                most.fetch_max(during, Ordering::Relaxed);
            }
        });
    }
    executor.run_until_idle();
    assert!(ended.load(Ordering::Relaxed) >= writes, "{load:?}, seed {seed}: all tasks are stuck");
    most.load(Ordering::Relaxed)
}

/// Checks that no more than `rounds` writes for each task end during a single write.
fn is_fair(load: Load, rounds: u64) {
    for seed in 0..4 {
        let most = most_overtaken(load, seed);
        assert!(
            most <= rounds * load.tasks,
            "{load:?}, seed {seed}: {most} writes ended before one that began earlier"
        );
    }
}

#[test]
fn a_write_that_waits_for_space_is_not_overtaken_for_long() {
    let load = Load { tasks: 8, blocks: 8, replicas: 2, writes: 3_200, durable: false };
    is_fair(load, 20);
    // Different numbers of tasks and lengths of writes, with one copy.
    for (tasks, blocks) in [(8, 8), (16, 8), (8, 16), (12, 32), (2, 256), (2, 512), (4, 128)] {
        is_fair(Load { tasks, blocks, replicas: 1, ..load }, 8);
    }
}

#[test]
fn a_durable_write_is_not_overtaken_for_long() {
    for tasks in [2, 3, 4, 8] {
        is_fair(Load { tasks, blocks: 1, replicas: 1, writes: 2_000, durable: true }, 3);
    }
}
