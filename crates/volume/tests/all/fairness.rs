//! Requests that wait for garbage collection are not overtaken for long.

use crate::pool::{BLOCK, MEMBER, disks_of, format, open_options, options};
use flashlab_block::crash::Image;
use flashlab_block::{BlockDevice, Executor, Io, Started};
use flashlab_sim::Rng;
use flashlab_volume::{Options, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of tasks that write at the same time.
const TASKS: u64 = 8;
/// Number of writes of each task, each of one extent.
const WRITES: u64 = 400;

/// Overwrites a full volume at random from several tasks. Returns the largest number of other writes that ended during one.
fn most_overtaken(seed: u64) -> u64 {
    let disks = disks_of(vec![Image::new(MEMBER); 2]);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    let devices = crate::pool::devices(&disks);
    let mut executor = Executor::new(seed);
    let cx = executor.context();
    let volume = executor
        .block_on(async move { Volume::open(&cx, &devices, open_options()).await })
        .expect("a volume");
    let (ended, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (cx, volume) = (executor.context(), volume.clone());
            let (ended, most) = (ended.clone(), most.clone());
            let mut rng = Rng::for_purpose(seed, task);
            async move {
                let extents = volume.geometry().capacity / (8 * BLOCK);
                for _ in 0..WRITES {
                    let (offset, began) = (rng.below(extents) * 8 * BLOCK, ended.load(Ordering::Relaxed));
                    let data = vec![task as u8; 8 * BLOCK as usize].into();
                    let outcome = match volume.start(&cx, Io::Write { offset, data, durable: false }) {
                        Started::Done(outcome) => outcome,
                        Started::Pending(future) => future.await,
                    };
                    outcome.expect("garbage collection finds space");
                    let during = ended.fetch_add(1, Ordering::Relaxed) - began;
                    most.fetch_max(during, Ordering::Relaxed);
                }
            }
        })
        .collect();
    tasks.into_iter().for_each(|task| executor.spawn(task));
    executor.run_until_idle();
    assert_eq!(ended.load(Ordering::Relaxed), TASKS * WRITES, "seed {seed}: every write ended");
    most.load(Ordering::Relaxed)
}

#[test]
fn a_write_that_waits_for_space_is_not_overtaken_for_long() {
    for seed in 0..10 {
        let most = most_overtaken(seed);
        assert!(most < 20 * TASKS, "seed {seed}: {most} writes ended before one that began earlier");
    }
}
