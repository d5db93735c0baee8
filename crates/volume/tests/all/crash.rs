//! Power losses at random points of concurrent workloads, and during recovery.
//!
//! The oracle is the contract of the volume: the contents are those after a prefix of the requests, which
//! includes all requests that were acknowledged before the last acknowledged flush began. Data that later
//! writes replaced never returns. A discarded range shows zeroes or older contents of the same range. A
//! bucket that is reused too early shows as garbage. `FLASHLAB_FULL` runs more seeds.

use crate::pool::{
    BLOCK, Later, MEMBER, devices, disks_of, encryption, format, open, open_with, options, options_for, run,
};
use flashlab_block::conformance::read;
use flashlab_block::crash::{Choice, Contract, Disk, History, Image, Kept, Violation, minimal};
use flashlab_block::{Answer, BlockDevice, Context, Executor, Io, Started};
use flashlab_sim::{Duration, Instant, Rng};
use flashlab_volume::encode::{Checksum, Compressor};
use flashlab_volume::format::{SUPERBLOCK_SIZE, Superblock, copy_offsets};
use flashlab_volume::keys::Cipher;
use flashlab_volume::{Degraded, OpenOptions, Options, Targets, Volume};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// A request of the workload.
#[derive(Clone, Debug)]
enum Step {
    Write(Range<u64>, bool),
    Discard(Range<u64>, bool),
    Zero(Range<u64>, bool),
    Flush,
    Close,
}

/// A workload on a volume of some shape.
#[derive(Clone, Copy, Debug)]
struct Shape {
    members: usize,
    replicas: u8,
    /// Size of each member in bytes.
    member: u64,
    /// Size of the first member in bytes.
    first: u64,
    /// Blocks of the volume that the workload uses.
    blocks: u64,
    /// True if the workload uses all of the volume, so that the volume collects garbage all the time.
    tight: bool,
    /// Compression in the background, if data moves from the first member to the second one and is compressed
    /// there. Moves and reads then leave cached copies.
    tiers: Option<Compressor>,
    /// Cipher of an encrypted volume.
    cipher: Option<Cipher>,
    checksum: Checksum,
    /// True if the flushes of the last member have no effect.
    lies: bool,
}

impl Shape {
    /// Returns the number of steps of each client.
    fn steps(&self) -> usize {
        match self {
            Shape { first, member, .. } if first < member => 120,
            Shape { tight: true, .. } => 60,
            _ => 40,
        }
    }
}

const fn shape(members: usize, replicas: u8) -> Shape {
    Shape {
        members,
        replicas,
        member: MEMBER,
        first: MEMBER,
        blocks: 96,
        tight: false,
        tiers: None,
        cipher: None,
        checksum: Checksum::Crc32c,
        lies: false,
    }
}

const fn tight(members: usize, replicas: u8, blocks: u64) -> Shape {
    Shape {
        members,
        replicas,
        member: 432 << 10,
        first: 432 << 10,
        blocks,
        tight: true,
        tiers: None,
        cipher: None,
        checksum: Checksum::Crc32c,
        lies: false,
    }
}

const fn tiers(compressor: Compressor, shape: Shape) -> Shape {
    Shape { tiers: Some(compressor), ..shape }
}

/// Cached copies fill the first member, and give way to new data all the time.
const fn caching(shape: Shape) -> Shape {
    Shape { first: 288 << 10, ..tiers(Compressor::None, shape) }
}

const fn encrypted(cipher: Cipher, shape: Shape) -> Shape {
    Shape { cipher: Some(cipher), ..shape }
}

const fn xxh3(shape: Shape) -> Shape {
    Shape { checksum: Checksum::Xxh3, ..shape }
}

const fn lying(shape: Shape) -> Shape {
    Shape { lies: true, ..shape }
}

const SHAPES: [Shape; 13] = [
    shape(1, 1),
    tight(1, 1, 300),
    shape(2, 2),
    tight(2, 1, 700),
    tight(2, 2, 300),
    encrypted(Cipher::ChaCha20Poly1305, tight(1, 1, 260)),
    encrypted(Cipher::Aes256Gcm, shape(2, 2)),
    tiers(Compressor::Zstd(1), shape(2, 1)),
    encrypted(Cipher::ChaCha20Poly1305, tiers(Compressor::Zstd(1), tight(3, 2, 440))),
    caching(tight(2, 1, 300)),
    encrypted(Cipher::ChaCha20Poly1305, caching(tight(3, 2, 260))),
    xxh3(tight(4, 3, 400)),
    xxh3(tiers(Compressor::Lz4, shape(4, 4))),
];

/// Volumes with a member that ignores flushes.
const LYING: [Shape; 5] = [
    lying(shape(2, 2)),
    lying(tight(3, 2, 440)),
    lying(encrypted(Cipher::Aes256Gcm, tight(2, 2, 300))),
    lying(shape(1, 1)),
    lying(encrypted(Cipher::ChaCha20Poly1305, tight(2, 1, 500))),
];

fn draw(rng: &mut Rng, shape: Shape) -> Step {
    let start = rng.below(shape.blocks);
    let blocks = start..start + 1 + rng.below((shape.blocks - start).min(20));
    let durable = rng.below(10) == 0;
    match rng.below(20) {
        0..3 => Step::Flush,
        3 => Step::Discard(blocks, durable),
        4 => Step::Zero(blocks, durable),
        5 if rng.below(8) == 0 => Step::Close,
        // Repeated overwrites of one block without a flush broke another system.
        6..9 => Step::Write(7..8, durable),
        _ => Step::Write(blocks, durable),
    }
}

async fn execute(cx: &Context, volume: &Volume, history: &Mutex<History>, step: Step) {
    let lock = || history.lock().expect("no task panics");
    let (op, io) = match step {
        Step::Flush => {
            let started = lock().flush();
            if volume.start(cx, Io::Flush).outcome().await.is_ok() {
                lock().flushed(started);
            }
            return;
        }
        Step::Close => {
            let started = lock().flush();
            if volume.close(cx).await.is_ok() {
                lock().flushed(started);
            }
            return;
        }
        Step::Write(blocks, durable) => {
            let op = lock().write(blocks.clone(), durable);
            let data = lock().data(op).into();
            (op, Io::Write { offset: blocks.start * BLOCK, data, durable })
        }
        Step::Discard(blocks, durable) => {
            let (offset, length) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
            (lock().zero(blocks, durable), Io::Discard { offset, length, durable })
        }
        Step::Zero(blocks, durable) => {
            let (offset, length) = (blocks.start * BLOCK, (blocks.end - blocks.start) * BLOCK);
            let io = Io::WriteZeroes { offset, length, durable, allocate: false, fast: false };
            (lock().zero(blocks, durable), io)
        }
    };
    if volume.start(cx, io).outcome().await.is_ok() {
        lock().answered(op);
    }
}

/// A formatted volume, before it is opened.
fn formatted(shape: Shape) -> Vec<Image> {
    let sizes = (0..shape.members).map(|n| if n == 0 { shape.first } else { shape.member });
    let disks: Vec<Disk> = sizes.map(|size| Disk::new(Image::new(size), BLOCK)).collect();
    let size = if shape.tight { shape.blocks * BLOCK } else { 0 };
    let compression = if shape.members == 2 { Compressor::Lz4 } else { Compressor::None };
    let encryption = shape.cipher.map(encryption);
    let Shape { replicas, checksum, .. } = shape;
    let mut options = Options { replicas, checksum, compression, size, encryption, ..options() };
    if let Some(compressor) = shape.tiers {
        options.compression = Compressor::None;
        options.background_compression = compressor;
        options.targets = Targets {
            foreground: "0".into(),
            background: "1".into(),
            promote: "0".into(),
            metadata: if shape.first < shape.member { "1".into() } else { String::new() },
        };
    }
    format(&disks, &options).expect("disks of the right size");
    disks.iter().map(Disk::image).collect()
}

/// Judges the disks after a power loss. Returns the fault.
type Judge = fn(Shape, &History, Vec<Image>) -> Result<(), String>;

/// Checks that the history's contract holds for the disks after a power loss. Returns the fault.
fn judge(shape: Shape, history: &History, images: Vec<Image>) -> Result<(), String> {
    let mut disks: Vec<Disk> = images.into_iter().map(|image| Disk::new(image, BLOCK)).collect();
    if shape.lies {
        return judge_beside_a_liar(shape, history, &mut disks);
    }
    let volume = open(&disks).map_err(|error| format!("the volume does not open: {error}"))?;
    let checking = volume.clone();
    let report = run(|cx| async move { checking.check(&cx).await });
    if !report.findings.is_empty() {
        return Err(report.findings.join("; "));
    }
    let by_copies = volume.usage().by_copies;
    if by_copies.keys().any(|copies| *copies < usize::from(shape.replicas)) {
        return Err(format!("bytes by the number of their copies: {by_copies:?}"));
    }
    let bytes = read(&volume, 0, (shape.blocks * BLOCK) as usize);
    let block = |n: u64| Some(bytes[(n * BLOCK) as usize..][..BLOCK as usize].to_vec());
    history.check(Contract::Prefix, block).map_err(|violation| violation.to_string())
}

/// Checks the disks after a power loss without an opening for writing. Everything that an interrupted write left
/// behind is distinguished from damage, with one exception: if the write of the first or the last copy of a superblock
/// is torn and the journal has no entries, nothing else shows the power loss. Returns the findings.
fn check_unrepaired(_: Shape, _: &History, images: Vec<Image>) -> Result<(), String> {
    let is_torn = images.iter().any(has_invalid_copy_at_end);
    let disks: Vec<Disk> = images.into_iter().map(|image| Disk::new(image, BLOCK)).collect();
    let options = OpenOptions { read_only: true, ..options_for(&disks) };
    let volume = open_with(&disks, options).map_err(|error| format!("the volume does not open: {error}"))?;
    let mut findings = run(|cx| async move { volume.check(&cx).await }).findings;
    findings.retain(|finding| !is_torn || !finding.ends_with("a copy of the superblock is damaged or old"));
    if findings.is_empty() { Ok(()) } else { Err(findings.join("; ")) }
}

/// Returns true if the first or the last copy of a superblock is invalid, and the others are equal.
fn has_invalid_copy_at_end(image: &Image) -> bool {
    let [first, middle, last] = copy_offsets(image.size()).map(|at| {
        let mut bytes = vec![0; SUPERBLOCK_SIZE];
        image.read(at, &mut bytes);
        Superblock::decode(&bytes).ok()
    });
    middle.is_some() && (first.is_none() && middle == last || last.is_none() && middle == first)
}

/// Checks the disks after a power loss if the last member has ignored all flushes. If all data has a copy on
/// another member, the volume fulfils the contract without the last member. With the last member, the volume
/// may refuse to open, or its blocks may be unreadable; otherwise it fulfils the contract. If the only copies
/// were on the last member, old data may show, but no foreign bytes.
fn judge_beside_a_liar(shape: Shape, history: &History, disks: &mut Vec<Disk>) -> Result<(), String> {
    let contents = |volume: &Volume| {
        let block = |n: u64| {
            let read = Io::Read { offset: n * BLOCK, buffer: vec![0; BLOCK as usize] };
            match volume.start(&Context::new(Instant::ZERO), read) {
                Started::Done(Ok(Answer::Read(bytes))) => Some(bytes),
                _ => None,
            }
        };
        (0..shape.blocks).map(block).collect::<Vec<_>>()
    };
    let check =
        |contents: &[Option<Vec<u8>>]| history.check(Contract::Prefix, |n| contents[n as usize].clone());
    if let Ok(volume) = open(disks) {
        let contents = contents(&volume);
        let outcome = match shape.replicas {
            1 => {
                let zeroes = || vec![0; BLOCK as usize];
                let readable: Vec<_> =
                    contents.into_iter().map(|bytes| bytes.or_else(|| Some(zeroes()))).collect();
                check(&readable).or_else(|violation| match violation {
                    Violation::Garbage(_) => Err(violation),
                    _ => Ok(()),
                })
            }
            _ => check(&contents),
        };
        outcome.map_err(|violation| format!("with the member that ignores flushes: {violation}"))?;
    }
    if shape.replicas > 1 {
        disks.pop();
        let options = OpenOptions { degraded: Degraded::Yes, ..options_for(disks) };
        let volume = open_with(disks, options);
        let volume = volume.map_err(|error| format!("the other members do not open: {error}"))?;
        check(&contents(&volume)).map_err(|violation| format!("without the member: {violation}"))?;
    }
    Ok(())
}

/// Runs clients with these steps, and judges states at random points. Returns the number of states, or the first fault.
fn crash(
    (shape, judge): (Shape, Judge),
    seed: u64,
    clients: &[Vec<Step>],
    states_per_point: usize,
) -> Result<usize, String> {
    let mut executor = Executor::new(seed);
    let mut rng = Rng::for_purpose(seed, 99);
    let mut disks = disks_of(formatted(shape));
    if shape.lies {
        let last = disks.pop().expect("a volume has members");
        disks.push(last.with_lying_flushes());
    }
    let history = Arc::new(Mutex::new(History::new(BLOCK as usize, shape.blocks)));
    let (cx, members, opening) = (executor.context(), devices(&disks), options_for(&disks));
    let volume = executor.block_on(async move { Volume::open(&cx, &members, opening).await });
    let volume = volume.map_err(|error| format!("a new volume does not open: {error}"))?;
    if seed % 2 == 1 {
        // Other requests, and power losses, come between a request and its codec.
        volume.compute_on(Arc::new(Later(executor.context())));
    }
    for steps in clients.iter().cloned() {
        let (cx, volume, history) = (executor.context(), volume.clone(), history.clone());
        executor.spawn(async move {
            for step in steps {
                execute(&cx, &volume, &history, step).await;
                if shape.tiers.is_some() {
                    // Background work gives way to requests, so it needs pauses.
                    cx.sleep_until(cx.now() + Duration::from_ns(cx.random() % 1_500_000)).await;
                }
            }
        });
    }
    if shape.tiers.is_some() {
        let (cx, moving) = (executor.context(), volume.clone());
        executor.spawn(async move {
            for _ in 0..40 {
                let moved = moving.reconcile(&cx, 0, |_| true).await;
                moved.and(moving.promote(&cx).await).expect("disks that work");
                cx.sleep_until(cx.now() + Duration::from_us(500)).await;
            }
        });
        let (cx, reading) = (executor.context(), volume.clone());
        executor.spawn(async move {
            for n in 0..40 {
                let read = Io::Read { offset: n % 12 * 8 * BLOCK, buffer: vec![0; 8 * BLOCK as usize] };
                assert!(reading.start(&cx, read).outcome().await.is_ok(), "disks that work");
                cx.sleep_until(cx.now() + Duration::from_us(200)).await;
            }
        });
    }
    let mut states = 0;
    while executor.step() {
        if rng.below(24) != 0 {
            continue;
        }
        let point = Disk::point(&disks);
        let history = history.lock().expect("no task panics").clone();
        for choice in point.choices(states_per_point, &mut rng) {
            judge(shape, &history, point.images(&choice)).map_err(|fault| {
                let fails = |choice: &_| judge(shape, &history, point.images(choice)).is_err();
                let choice = point.simplify(&choice, fails);
                format!("{fault}, after a power loss that kept {choice:?}")
            })?;
            states += 1;
        }
    }
    judge(shape, &history.lock().expect("no task panics"), disks.iter().map(Disk::image).collect())?;
    Ok(states)
}

fn steps(shape: Shape, seed: u64, clients: u64, count: usize) -> Vec<Vec<Step>> {
    let client = |client| {
        let mut rng = Rng::for_purpose(seed, client);
        (0..count).map(|_| draw(&mut rng, shape)).collect()
    };
    (0..clients).map(client).collect()
}

/// Runs the workload of a seed. A failure is reduced to the steps that it needs.
fn check_seed(shapes: &[Shape], seed: u64, states_per_point: usize) -> usize {
    check_seed_with(judge, shapes, seed, states_per_point)
}

fn check_seed_with(judge: Judge, shapes: &[Shape], seed: u64, states_per_point: usize) -> usize {
    let shape = shapes[(seed % shapes.len() as u64) as usize];
    let clients = steps(shape, seed, 1 + seed / shapes.len() as u64 % 3, shape.steps());
    crash((shape, judge), seed, &clients, states_per_point).unwrap_or_else(|fault| {
        // With an injected fault, the first failure is enough.
        assert!(std::env::var_os("FLASHLAB_FAULT").is_none(), "seed {seed}: {fault}");
        let tagged: Vec<(usize, Step)> = clients
            .iter()
            .enumerate()
            .flat_map(|(n, steps)| steps.iter().cloned().map(move |s| (n, s)))
            .collect();
        let clients_of = |list: &[(usize, Step)]| {
            let of = |n: usize| list.iter().filter(|(m, _)| *m == n).map(|(_, step)| step.clone()).collect();
            (0..clients.len()).map(of).collect::<Vec<Vec<Step>>>()
        };
        let needed = minimal(&tagged, |list| {
            crash((shape, judge), seed, &clients_of(list), states_per_point).is_err()
        });
        panic!("seed {seed}, {shape:?}: {fault}; needed steps: {needed:?}")
    })
}

fn full() -> bool {
    std::env::var_os("FLASHLAB_FULL").is_some()
}

#[test]
fn a_power_loss_leaves_a_prefix_of_the_acknowledged_requests() {
    // An injected fault has to be found within the ten thousand states of a few seeds.
    let (seeds, states_per_point, expected) = match std::env::var_os("FLASHLAB_FAULT") {
        Some(_) => (61..77, 6, 3_000..10_000),
        None if full() => (0..1_300, 24, 1_000_000..usize::MAX),
        None => (0..132, 16, 100_000..usize::MAX),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    let states_of = |thread| {
        seeds
            .clone()
            .skip(thread)
            .step_by(threads)
            .map(|seed| check_seed(&SHAPES, seed, states_per_point))
            .sum()
    };
    let states: usize = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || -> usize { states_of(thread) })).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    });
    println!("{states} states");
    assert!(expected.contains(&states), "{states} states instead of {expected:?}");
}

/// Runs the seeds of `FLASHLAB_CRASH_SEEDS=FIRST..END`, for millions of states in parts. Each line of the
/// output names the seed from which to continue.
#[test]
fn the_seeds_of_the_environment_leave_prefixes() {
    let Some(seeds) = std::env::var_os("FLASHLAB_CRASH_SEEDS") else { return };
    let seeds = seeds.into_string().expect("ASCII");
    let (first, end) = seeds.split_once("..").expect("FLASHLAB_CRASH_SEEDS=FIRST..END");
    let [first, end]: [u64; 2] = [first, end].map(|seed| seed.parse().expect("a number"));
    let mut states = 0;
    for seed in first..end {
        states += check_seed(&SHAPES, seed, 24);
        if (seed + 1) % 500 == 0 || seed + 1 == end {
            println!("seeds {first}..{}: {states} states, no violation", seed + 1);
        }
    }
}

/// A check that comes before the next opening for writing tells the traces of the power loss from damage.
#[test]
fn a_check_after_a_power_loss_finds_no_damage() {
    let (seeds, states_per_point) = if full() { (260, 16) } else { (26, 8) };
    let states: usize =
        (0..seeds).map(|seed| check_seed_with(check_unrepaired, &SHAPES, seed, states_per_point)).sum();
    assert!(states > 5_000, "only {states} states");
}

#[test]
fn a_member_that_ignores_flushes_shows_no_wrong_data() {
    let seeds = if full() { 500 } else { 30 };
    let states: usize = (0..seeds).map(|seed| check_seed(&LYING, seed, 4)).sum();
    assert!(states > 1_000, "only {states} states");
}

/// The power fails again during the recovery from a power loss. Every recovery shows the same contents.
#[test]
fn a_power_loss_during_recovery_loses_nothing() {
    let seeds = if full() { 1_400 } else { 28 };
    let mut states = 0;
    for seed in 0..seeds {
        states += recover_twice(seed).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
    assert!(states > 1_000, "only {states} states");
}

/// Runs a workload, cuts the power at its end, and cuts it again during each of several recoveries.
fn recover_twice(seed: u64) -> Result<usize, String> {
    let shape = SHAPES[(seed % SHAPES.len() as u64) as usize];
    let mut executor = Executor::new(seed);
    let mut rng = Rng::for_purpose(seed, 98);
    let disks = disks_of(formatted(shape));
    let history = Arc::new(Mutex::new(History::new(BLOCK as usize, shape.blocks)));
    let (cx, members, record) = (executor.context(), devices(&disks), history.clone());
    let opening = options_for(&disks);
    executor.spawn(async move {
        let volume = Volume::open(&cx, &members, opening).await.expect("a new volume");
        for step in steps(shape, seed, 1, 60).remove(0) {
            execute(&cx, &volume, &record, step).await;
        }
    });
    for _ in 0..200 + rng.below(600) {
        executor.step();
    }
    let history = history.lock().expect("no task panics").clone();
    let point = Disk::point(&disks);
    let mut states = 0;
    for choice in point.choices(4, &mut rng) {
        let mut executor = Executor::new(seed);
        let disks = disks_of(point.images(&choice));
        let (cx, members) = (executor.context(), devices(&disks));
        let shown = Arc::new(Mutex::new(None));
        let (show, bytes) = (shown.clone(), (shape.blocks * BLOCK) as usize);
        let opening = options_for(&disks);
        executor.spawn(async move {
            let volume = Volume::open(&cx, &members, opening).await.expect("a valid state");
            let read = Io::Read { offset: 0, buffer: vec![0; bytes] };
            let outcome = volume.start(&cx, read).outcome().await;
            *show.lock().expect("no task panics") = Some(outcome.is_ok());
        });
        while executor.step() {
            if rng.below(4) == 0 {
                let point = Disk::point(&disks);
                for choice in point.choices(4, &mut rng) {
                    judge(shape, &history, point.images(&choice))?;
                    states += 1;
                }
            }
        }
        if *shown.lock().expect("no task panics") != Some(true) {
            return Err("the recovered volume cannot be read".to_owned());
        }
        // The second recovery must show the same contents as the first.
        let first = contents(shape, disks.iter().map(Disk::image).collect())?;
        let again = contents(shape, Disk::point(&disks).images(&nothing(&disks)))?;
        if first != again {
            return Err("a second power loss changed the contents".to_owned());
        }
    }
    Ok(states)
}

/// Returns the choice that keeps no unflushed write.
fn nothing(disks: &[Disk]) -> Choice {
    Choice(vec![Kept::Nothing; Disk::point(disks).unflushed()])
}

fn contents(shape: Shape, images: Vec<Image>) -> Result<Vec<u8>, String> {
    let disks: Vec<Disk> = images.into_iter().map(|image| Disk::new(image, BLOCK)).collect();
    let volume = open(&disks).map_err(|error| format!("the volume does not open: {error}"))?;
    Ok(read(&volume, 0, (shape.blocks * BLOCK) as usize))
}

/// The changes of a commit that is dropped before its end are lost, so no later flush may succeed.
#[test]
fn a_commit_that_is_dropped_ends_the_volume() {
    let disks = disks_of(vec![Image::new(MEMBER)]);
    format(&disks, &options()).expect("a disk of the right size");
    let (mut executor, given, opening) = (Executor::new(1), devices(&disks), options_for(&disks));
    let cx = executor.context();
    let volume = executor.block_on(async move { Volume::open(&cx, &given, opening).await });
    let volume = volume.expect("a new volume");
    let (cx, writing) = (executor.context(), volume.clone());
    executor.block_on(async move {
        let write = |block: u64, durable: bool| {
            let data = vec![block as u8 + 1; BLOCK as usize].into();
            writing.start(&cx, Io::Write { offset: block * BLOCK, data, durable })
        };
        assert!(write(0, true).outcome().await.is_ok() && write(1, false).outcome().await.is_ok());
        match writing.start(&cx, Io::Flush) {
            Started::Pending(future) => drop(future),
            Started::Done(_) => panic!("a flush waits for the disk"),
        }
        assert!(
            write(2, true).outcome().await.is_err() && writing.start(&cx, Io::Flush).outcome().await.is_err()
        );
    });
    assert!(volume.failure().is_some());
    drop(volume);
    let volume = open(&disks).expect("a volume after a power loss");
    assert_eq!(read(&volume, 0, BLOCK as usize)[0], 1, "the first write was durable");
}
