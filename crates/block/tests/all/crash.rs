//! Tests of the crash library, and of an overlay and a timed device under power loss, judged by the library's oracle.

use crate::timed::models::{BLOCK as MODEL_BLOCK, BLOCKS as MODEL_BLOCKS, VolatileModel};
use flashlab_block::conformance::{agrees_with_an_array, execute};
use flashlab_block::crash::{Choice, Contract, Disk, History, Image, Kept, Point, Violation};
use flashlab_block::layer::Overlay;
use flashlab_block::{Answer, BlockDevice, Executor, Io, Memory, Pages, Timed};
use flashlab_sim::{Duration, Instant, Rng, Store};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const BLOCK: u64 = 1024;
const BLOCKS: u64 = 32;

/// A point of a run with the history up to this point.
type Recorded = (Point, History);

/// Runs concurrent clients on a disk, and records random points of the run.
fn run(disk: &Disk, seed: u64) -> Vec<Recorded> {
    let mut executor = Executor::new(seed);
    let history = Arc::new(Mutex::new(History::new(BLOCK as usize, BLOCKS)));
    for client in 0..3 {
        let (cx, disk, history) = (executor.context(), disk.clone(), history.clone());
        executor.spawn(async move {
            let mut rng = Rng::for_purpose(seed, client);
            for _ in 0..12 {
                step(&cx, &disk, &history, &mut rng).await;
            }
        });
    }
    let (mut points, mut rng) = (Vec::new(), Rng::new(seed));
    while executor.step() {
        if rng.below(8) == 0 {
            points.push((Disk::point([disk]), history.lock().expect("no task panics").clone()));
        }
    }
    points
}

async fn step(cx: &flashlab_block::Context, disk: &Disk, history: &Mutex<History>, rng: &mut Rng) {
    let start = rng.below(BLOCKS);
    let blocks = start..start + 1 + rng.below((BLOCKS - start).min(6));
    let (offset, length) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
    let durable = rng.below(6) == 0;
    let lock = || history.lock().expect("no task panics");
    match rng.below(8) {
        0 | 1 => {
            let started = lock().flush();
            disk.start(cx, Io::Flush).outcome().await.expect("the disk works until the cut");
            lock().flushed(started);
        }
        2 => {
            let op = lock().zero(blocks, durable);
            disk.start(cx, Io::Discard { offset, length, durable })
                .outcome()
                .await
                .expect("the disk works until the cut");
            lock().answered(op);
        }
        _ => {
            let op = lock().write(blocks, durable);
            let data = lock().data(op).into();
            disk.start(cx, Io::Write { offset, data, durable })
                .outcome()
                .await
                .expect("the disk works until the cut");
            lock().answered(op);
        }
    }
}

fn disk() -> Disk {
    Disk::new(Image::new(BLOCK * BLOCKS), BLOCK).with_latency(Duration::from_us(100))
}

fn block_of(image: &Image, block: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; BLOCK as usize];
    image.read(block * BLOCK, &mut bytes);
    Some(bytes)
}

/// Returns the number of states without a violation in a few runs, and the violation that ended the search, if any.
fn first_violation(contract: Contract, disk: impl Fn() -> Disk) -> (u32, Option<Violation>) {
    let mut states = 0;
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        for (point, history) in run(&disk(), seed) {
            for choice in point.choices(40, &mut rng) {
                let images = point.images(&choice);
                if let Err(violation) = history.check(contract, |block| block_of(&images[0], block)) {
                    return (states, Some(violation));
                }
                states += 1;
            }
        }
    }
    (states, None)
}

#[test]
fn a_disk_keeps_the_block_contract_but_not_the_prefix_contract() {
    let (states, violation) = first_violation(Contract::Block, disk);
    assert_eq!(violation, None);
    assert!(states > 3_000, "only {states} states");
    let (_, violation) = first_violation(Contract::Prefix, disk);
    assert!(
        matches!(violation, Some(Violation::Lost { .. })),
        "a cache that reorders writes was not caught: {violation:?}"
    );
}

#[test]
fn a_disk_that_ignores_flushes_is_caught() {
    let (_, violation) = first_violation(Contract::Block, || disk().with_lying_flushes());
    assert!(matches!(violation, Some(Violation::Lost { .. })), "{violation:?}");
}

#[test]
fn a_disk_reads_like_a_plain_array() {
    for seed in 0..4 {
        // The disk reports all of its range as data, which the comparison accepts.
        agrees_with_an_array(&Disk::new(Image::new(BLOCK * BLOCKS), 512), seed, 200);
    }
}

#[test]
fn states_are_enumerated_for_few_writes_and_sampled_for_many() {
    let disk = disk();
    let write = |n: u64| {
        let data = vec![n as u8 + 1; 2 * BLOCK as usize].into();
        assert!(execute(&disk, Io::Write { offset: 2 * n * BLOCK, data, durable: false }).is_ok());
    };
    (0..4).for_each(write);
    let point = Disk::point([&disk]);
    let choices = point.choices(16, &mut Rng::new(1));
    let distinct: BTreeSet<Vec<u8>> = choices.iter().map(|choice| point.images(choice)[0].to_vec()).collect();
    assert_eq!(distinct.len(), 16, "not all subsets of four writes occur");
    (4..14).for_each(write);
    let point = Disk::point([&disk]);
    let choices = point.choices(400, &mut Rng::new(1));
    assert_eq!(choices, point.choices(400, &mut Rng::new(1)));
    let torn = choices.iter().filter(|choice| choice.0.iter().any(|kept| matches!(kept, Kept::Sectors(_))));
    assert!(torn.count() > 100);
    let distinct: BTreeSet<Vec<u8>> = choices.iter().map(|choice| point.images(choice)[0].to_vec()).collect();
    assert!(distinct.len() > 200, "{}", distinct.len());
}

#[test]
fn a_failing_state_is_reduced_to_the_writes_that_matter() {
    let disk = disk();
    for n in 0..6 {
        let data = vec![n as u8 + 1; 2 * BLOCK as usize].into();
        assert!(execute(&disk, Io::Write { offset: 2 * n * BLOCK, data, durable: false }).is_ok());
    }
    let point = Disk::point([&disk]);
    // The state fails if the third write is there and the second block of the fifth write is not.
    let fails = |choice: &Choice| {
        let image = point.images(choice)[0].to_vec();
        image[4 * BLOCK as usize] == 3 && image[9 * BLOCK as usize] == 0
    };
    let torn = Kept::Sectors(vec![true, false]);
    let choice = Choice(vec![Kept::All, torn.clone(), Kept::All, Kept::All, torn, Kept::Nothing]);
    let expected = [Kept::Nothing, Kept::Nothing, Kept::All, Kept::Nothing, Kept::Nothing, Kept::Nothing];
    assert_eq!(point.simplify(&choice, fails).0, expected);
}

#[test]
fn a_synced_overlay_survives_a_power_loss() {
    const SIZE: u64 = 64 << 10;
    let mut states = 0;
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let size = Overlay::changes_size(SIZE).next_multiple_of(512);
        let changes = Disk::new(Image::new(size), 512);
        let overlay = |changes: Disk| {
            let base = Memory::new(SIZE, Pages::Small).expect("a size that is possible");
            Overlay::new(Box::new(base), SIZE, Box::new(changes)).expect("the changes can be read")
        };
        let device = overlay(changes.clone());
        let mut synced = vec![0; SIZE as usize];
        let mut touched: Vec<std::ops::Range<usize>> = Vec::new();
        for step in 0..30u8 {
            let length = (1 + rng.below(16)) * 512;
            let offset = rng.below((SIZE - length) / 512 + 1) * 512;
            device.write(offset, &vec![step + 1; length as usize]).expect("the disk works");
            touched.push((offset / 4096 * 4096) as usize..(offset + length).next_multiple_of(4096) as usize);
            if rng.below(4) == 0 {
                device.sync().expect("the disk works");
                device.read(0, &mut synced).expect("the disk works");
                touched.clear();
            }
            let point = Disk::point([&changes]);
            for choice in point.choices(6, &mut rng) {
                let image = point.images(&choice).remove(0);
                let mut found = vec![0; SIZE as usize];
                overlay(Disk::new(image, 512)).read(0, &mut found).expect("the disk works");
                // A power loss may damage the granules of changes after the sync, and no others.
                for granule in touched.iter().cloned() {
                    found[granule.clone()].copy_from_slice(&synced[granule]);
                }
                assert!(found == synced, "seed {seed}, step {step}, {choice:?}");
                states += 1;
            }
        }
    }
    assert!(states > 2_000, "only {states} states");
}

#[test]
fn a_timed_device_keeps_the_contract_of_a_disk() {
    for seed in 0..40 {
        let store = Memory::new(MODEL_BLOCKS * MODEL_BLOCK, Pages::Small).expect("a size that is possible");
        let device = Timed::new(Box::new(VolatileModel::new(seed)), Box::new(store));
        let mut history = History::new(MODEL_BLOCK as usize, MODEL_BLOCKS);
        let mut rng = Rng::new(seed);
        for _ in 0..30 {
            if rng.below(5) == 0 {
                let started = history.flush();
                assert!(execute(&device, Io::Flush).is_ok());
                history.flushed(started);
                continue;
            }
            let start = rng.below(MODEL_BLOCKS);
            let blocks = start..start + 1 + rng.below((MODEL_BLOCKS - start).min(3));
            let durable = rng.below(4) == 0;
            let op = history.write(blocks.clone(), durable);
            let data = history.data(op).into();
            let write = Io::Write { offset: blocks.start * MODEL_BLOCK, data, durable };
            assert!(execute(&device, write).is_ok());
            history.answered(op);
        }
        let cut = device.power_cut(Instant::ZERO).expect("memory does not fail");
        device.power_up(Instant::ZERO);
        let checked = history.check(Contract::Block, |block| {
            let read = Io::Read { offset: block * MODEL_BLOCK, buffer: vec![0; MODEL_BLOCK as usize] };
            match execute(&device, read) {
                Ok(Answer::Read(bytes)) => Some(bytes),
                // The cut names the blocks that it tore. The oracle has no notion of torn blocks, so a torn block
                // counts as its newest write.
                _ if cut.undecided.iter().any(|(range, _)| range.contains(&(block * MODEL_BLOCK))) => {
                    Some(history.newest(block))
                }
                _ => None,
            }
        });
        assert_eq!(checked, Ok(()), "seed {seed}");
    }
}
