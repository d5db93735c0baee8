//! Power losses while options and members of a volume change beside requests.
//!
//! A change happens completely or not at all: the volume opens with the members before the change or with the
//! members after it, and shows a prefix of the acknowledged requests. Before a change begins, the volume
//! opens with the old members; after the change is answered, it opens with the new ones. The volume answers
//! all requests before, during and after the change.

use crate::pool::{
    BLOCK, MEMBER, devices, disks_of, encryption, format, open, open_options, options, options_for, run,
};
use flashlab_block::conformance::read;
use flashlab_block::crash::{Contract, Disk, History, Image};
use flashlab_block::{BlockDevice, Context, Executor, Io, Job, Started};
use flashlab_sim::{Instant, Rng};
use flashlab_volume::encode::Compressor;
use flashlab_volume::keys::Cipher;
use flashlab_volume::{
    Change, Degraded, Growth, MemberState, NewMember, OpenOptions, Options, Threads, Volume, VolumeError,
};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

/// Blocks that the workload uses.
const BLOCKS: u64 = 128;

/// A change of a volume of up to four disks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The number of copies and the compression.
    Set,
    /// The third disk becomes a member.
    Add,
    /// The second member is emptied and removed.
    Remove,
    /// The second member is emptied and removed, and another disk takes its place.
    Replace,
    /// The first member, which has the journal, is evacuated while the volume answers requests.
    State,
    /// The second member is missing, and returns.
    Return,
    /// The second member fails, and returns as another device.
    Reconnect,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Set, Kind::Add, Kind::Remove, Kind::Replace, Kind::State, Kind::Return, Kind::Reconnect];

    /// Returns the disks that are members before and after each step of the change.
    fn members(self) -> &'static [&'static [usize]] {
        match self {
            Kind::Set | Kind::State | Kind::Return | Kind::Reconnect => &[&[0, 1, 2], &[0, 1, 2]],
            Kind::Add => &[&[0, 1], &[0, 1, 2]],
            Kind::Remove => &[&[0, 1, 2], &[0, 2]],
            Kind::Replace => &[&[0, 1, 2], &[0, 2], &[0, 2, 3]],
        }
    }

    /// Returns true if a member returns.
    fn is_return(self) -> bool {
        matches!(self, Kind::Return | Kind::Reconnect)
    }
}

/// Progress of the change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Before,
    During,
    After,
}

/// Returns the disks with a volume that is ready for the change.
fn prepared(kind: Kind, seed: u64) -> Vec<Image> {
    let disks: Vec<Disk> = (0..4).map(|_| Disk::new(Image::new(MEMBER), BLOCK)).collect();
    let encryption = (seed % 2 == 1).then(|| encryption(Cipher::ChaCha20Poly1305));
    let replicas = if kind.is_return() { 2 } else { 1 };
    let options = Options { size: 256 << 10, encryption, replicas, ..options() };
    let members: Vec<Disk> = kind.members()[0].iter().map(|n| disks[*n].clone()).collect();
    format(&members, &options).expect("disks of the right size");
    if kind.is_return() {
        // Data that the workload does not change.
        let volume = open(&members).expect("a new volume");
        for n in 0..16 {
            let io =
                Io::Write { offset: BLOCKS * BLOCK + n * 2048, data: vec![7; 2048].into(), durable: false };
            flashlab_block::conformance::execute(&volume, io).expect("disks that work");
        }
        crate::members::close(&volume);
    }
    disks.iter().map(Disk::image).collect()
}

async fn empty(cx: &Context, volume: &Volume, member: u8) {
    volume.set_member_state(cx, member, MemberState::Evacuating).await.expect("disks that work");
    let done = volume.reconcile(cx, 0, |_| true).await.expect("disks that work");
    assert!(done.pending.is_empty(), "{done:?}");
}

async fn change(cx: &Context, volume: &Volume, kind: Kind, disks: &[Disk]) -> Result<(), VolumeError> {
    match kind {
        Kind::Set => {
            let background_compression = Some(Compressor::Zstd(1));
            let labels = vec![(0, "fast".to_owned())];
            let change = Change { replicas: Some(2), background_compression, labels, ..Change::default() };
            volume.set(cx, &change).await
        }
        Kind::Add => {
            volume.add(cx, &NewMember::new(Arc::new(disks[2].clone())), [9; 16], Growth::All).await?;
            Ok(())
        }
        Kind::Remove => {
            empty(cx, volume, 1).await;
            volume.remove(cx, 1).await.map(drop)
        }
        Kind::Replace => {
            empty(cx, volume, 1).await;
            volume.remove(cx, 1).await?;
            let place =
                volume.add(cx, &NewMember::new(Arc::new(disks[3].clone())), [9; 16], Growth::All).await?;
            assert_eq!(place, 1);
            Ok(())
        }
        Kind::State => {
            empty(cx, volume, 0).await;
            Ok(())
        }
        Kind::Return | Kind::Reconnect => {
            assert_eq!(volume.rejoin(cx, Arc::new(disks[1].clone())).await?, 1);
            Ok(())
        }
    }
}

/// Writes, and checks that the volume answers each write.
async fn write(cx: Context, volume: Volume, history: Arc<Mutex<History>>, mut rng: Rng, writes: u64) {
    for n in 0..writes {
        let start = rng.below(BLOCKS - 8);
        let blocks = start..start + 1 + rng.below(8);
        let op = history.lock().expect("no task panics").write(blocks, n % 7 == 6);
        let data = history.lock().expect("no task panics").data(op).into();
        let io = Io::Write { offset: start * BLOCK, data, durable: n % 7 == 6 };
        assert!(volume.start(&cx, io).outcome().await.is_ok(), "write {n}");
        history.lock().expect("no task panics").answered(op);
    }
}

/// Opens the volume on some of the disks, and judges its contents and options. Returns the fault.
fn judge(
    kind: Kind,
    stage: Stage,
    members: &[usize],
    images: &[Image],
    history: &History,
) -> Result<(), String> {
    let disks: Vec<Disk> = members.iter().map(|n| Disk::new(images[*n].clone(), BLOCK)).collect();
    let volume = open(&disks).map_err(|error| format!("with members {members:?}: {error}"))?;
    let checking = volume.clone();
    let report = run(|cx| async move { checking.check(&cx).await });
    if !report.findings.is_empty() {
        return Err(report.findings.join("; "));
    }
    let usage = volume.usage();
    let new = (2, Compressor::Zstd(1), "fast");
    let found = (usage.replicas, usage.background_compression, usage.members[0].label.as_str());
    if kind == Kind::Set
        && !(found == (1, Compressor::None, "") && stage != Stage::After
            || found == new && stage != Stage::Before)
    {
        return Err(format!("options {found:?} {stage:?}"));
    }
    let state = usage.members[0].state;
    if kind == Kind::State
        && !(state == MemberState::Rw && stage != Stage::After
            || state == MemberState::Evacuating && stage != Stage::Before)
    {
        return Err(format!("the member is {state:?} {stage:?}"));
    }
    if kind.is_return() && read(&volume, BLOCKS * BLOCK, 16 * 2048) != [7; 16 * 2048] {
        return Err("other data changed".into());
    }
    let bytes = read(&volume, 0, (BLOCKS * BLOCK) as usize);
    let block = |n: u64| Some(bytes[(n * BLOCK) as usize..][..BLOCK as usize].to_vec());
    history.check(Contract::Prefix, block).map_err(|violation| violation.to_string())
}

/// Judges a state. The volume must open with the members before or after a step of the change.
fn judge_either(kind: Kind, stage: Stage, images: &[Image], history: &History) -> Result<(), String> {
    let [old, .., new] = kind.members() else { unreachable!("a change has members before and after it") };
    match stage {
        Stage::Before => judge(kind, stage, old, images, history),
        Stage::After => judge(kind, stage, new, images, history),
        Stage::During => {
            let judge = |members: &&[usize]| judge(kind, stage, members, images, history);
            let faults: Result<Vec<String>, ()> =
                kind.members().iter().map(|members| judge(members).err().ok_or(())).collect();
            faults.map_or(Ok(()), |faults| Err(faults.join("; ")))
        }
    }
}

/// Changes a volume beside writes, and judges states at random points. Returns the number of states.
fn crash(seed: u64, states_per_point: usize) -> Result<usize, String> {
    let kind = Kind::ALL[(seed / 2) as usize % Kind::ALL.len()];
    let (mut executor, mut rng) = (Executor::new(seed), Rng::for_purpose(seed, 97));
    let disks = disks_of(prepared(kind, seed));
    let history = Arc::new(Mutex::new(History::new(BLOCK as usize, BLOCKS)));
    let stage = Arc::new(Mutex::new(Stage::Before));
    let (cx, members) = (executor.context(), kind.members()[0].iter().map(|n| disks[*n].clone()));
    let members: Vec<Disk> = members.collect();
    let opening = OpenOptions { degraded: Degraded::Yes, ..options_for(&members) };
    let (failing, mut members) = (crate::pool::switched(&disks[1]), devices(&members));
    match kind {
        Kind::Return => drop(members.remove(1)),
        Kind::Reconnect => members[1] = Arc::new(failing.clone()),
        _ => {}
    }
    let volume = executor.block_on(async move { Volume::open(&cx, &members, opening).await });
    let volume = volume.map_err(|error| format!("a new volume does not open: {error}"))?;
    let writes = 10 + rng.below(20);
    executor.spawn(write(executor.context(), volume.clone(), history.clone(), Rng::new(seed), 60));
    let (cx, record, now, all) = (executor.context(), history.clone(), stage.clone(), disks.clone());
    let changing = volume.clone();
    executor.spawn(async move {
        let volume = changing;
        write(cx.clone(), volume.clone(), record.clone(), Rng::for_purpose(seed, 5), writes).await;
        if kind == Kind::Reconnect {
            failing.die();
            // A write notices that the member fails.
            write(cx.clone(), volume.clone(), record.clone(), Rng::for_purpose(seed, 6), 7).await;
        }
        let started = record.lock().expect("no task panics").flush();
        *now.lock().expect("no task panics") = Stage::During;
        change(&cx, &volume, kind, &all).await.expect("disks that work");
        *now.lock().expect("no task panics") = Stage::After;
        record.lock().expect("no task panics").flushed(started);
    });
    let mut states = 0;
    while executor.step() {
        let current = *stage.lock().expect("no task panics");
        if rng.below(if current == Stage::During { 3 } else { 24 }) != 0 {
            continue;
        }
        let point = Disk::point(&disks);
        let history = history.lock().expect("no task panics").clone();
        for choice in point.choices(states_per_point, &mut rng) {
            judge_either(kind, current, &point.images(&choice), &history).map_err(|fault| {
                format!("{kind:?}, {current:?}: {fault}, after a power loss that kept {choice:?}")
            })?;
            states += 1;
        }
    }
    let current = *stage.lock().expect("no task panics");
    assert_eq!(current, Stage::After, "{kind:?} does not end");
    if kind == Kind::State {
        let usage = volume.usage();
        let left = (usage.members[0].metadata, usage.members[0].buckets.live_blocks);
        if left != (false, 0) {
            return Err(format!("the evacuated member has the journal or data: {left:?}"));
        }
    }
    let images: Vec<Image> = disks.iter().map(Disk::image).collect();
    judge_either(kind, current, &images, &history.lock().expect("no task panics"))?;
    Ok(states)
}

#[test]
fn a_power_loss_during_a_change_leaves_all_of_it_or_nothing() {
    let (seeds, least) =
        if std::env::var_os("FLASHLAB_FULL").is_some() { (600, 100_000) } else { (30, 3_000) };
    let states: usize =
        (0..seeds).map(|seed| crash(seed, 12).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"))).sum();
    println!("{states} states");
    assert!(states >= least, "only {states} states");
}

/// Threads that keep their first job until the test releases it.
#[derive(Default)]
struct Holding(Mutex<(bool, Option<Job>)>);

impl Threads for Holding {
    fn run(&self, job: Job) {
        let is_first = {
            let mut held = self.0.lock().expect("no test panics with the lock");
            !std::mem::replace(&mut held.0, true)
        };
        match is_first {
            true => self.0.lock().expect("no test panics with the lock").1 = Some(job),
            false => job(),
        }
    }
    fn worthwhile_ns(&self) -> u64 {
        0
    }
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    std::pin::Pin::new(future).poll(&mut std::task::Context::from_waker(Waker::noop()))
}

#[test]
fn a_change_waits_for_requests_in_flight_and_later_requests_wait_for_it() {
    let disks = crate::pool::disks(3);
    let options = Options { compression: Compressor::Lz4, ..options() };
    format(&disks[..2], &options).expect("disks of the right size");
    let volume = open(&disks[..2]).expect("a new volume");
    let (holding, cx) = (Arc::new(Holding::default()), Context::new(Instant::ZERO));
    volume.compute_on(holding.clone());
    let data = vec![7; 4096];
    let write = Io::Write { offset: 0, data: data.clone().into(), durable: true };
    let Started::Pending(mut early) = volume.start(&cx, write) else { panic!("its codec waits") };
    let new = NewMember::new(Arc::new(disks[2].clone()));
    let mut adding = Box::pin(volume.add(&cx, &new, [9; 16], Growth::All));
    assert!(poll(&mut adding).is_pending(), "the change passes a request in flight");
    let read = Io::Read { offset: 0, buffer: vec![0; 4096] };
    let Started::Pending(mut late) = volume.start(&cx, read) else { panic!("the change comes first") };
    assert!(poll(&mut early).is_pending() && poll(&mut late).is_pending());
    let job = holding.0.lock().expect("no test panics with the lock").1.take();
    job.expect("the codec of the write")();
    assert!(matches!(poll(&mut early), Poll::Ready(Ok(_))));
    assert!(poll(&mut late).is_pending());
    assert!(matches!(poll(&mut adding), Poll::Ready(Ok(2))));
    let Poll::Ready(Ok(flashlab_block::Answer::Read(read))) = poll(&mut late) else { panic!("it reads") };
    assert!(read == data);
    assert_eq!(volume.usage().members.len(), 3);
    // The same holds after a power loss.
    let disks = disks_of(disks.iter().map(Disk::image).collect());
    assert_eq!(open(&disks).expect("three members").usage().members.len(), 3);
}

#[test]
fn a_change_that_is_refused_or_fails_leaves_the_volume_as_it_was() {
    let disks = crate::pool::disks(3);
    format(&disks[..2], &options()).expect("disks of the right size");
    let volume = open(&disks[..2]).expect("a new volume");
    let cx = Context::new(Instant::ZERO);
    let set = |change: Change| {
        let (volume, cx) = (volume.clone(), cx.clone());
        run(|_| async move { volume.set(&cx, &change).await })
    };
    let refused = set(Change { replicas: Some(3), ..Change::default() });
    assert!(matches!(refused, Err(VolumeError::Option(_))), "{refused:?}");
    // Each write and flush of the new member's superblock fails in turn.
    for n in 0..6 {
        let broken = crate::pool::switched(&disks[2]);
        broken.fail_change(n, true);
        let (adding, cx, new) = (volume.clone(), cx.clone(), NewMember::new(Arc::new(broken)));
        let failed = run(|_| async move { adding.add(&cx, &new, [9; 16], Growth::All).await });
        assert!(matches!(failed, Err(VolumeError::Member { member: 2, .. })), "{failed:?}");
    }
    let data = vec![7; 4096];
    let write = Io::Write { offset: 0, data: data.clone().into(), durable: true };
    assert!(matches!(volume.start(&cx, write), Started::Done(Ok(_))));
    assert_eq!(volume.usage().members.len(), 2);
    drop(volume);
    let images: Vec<Image> = disks.iter().map(Disk::image).collect();
    assert_eq!(open(&disks_of(images.clone())).map(drop), Err(VolumeError::Removed { member: 2, number: 2 }));
    let disks = disks_of(images);
    assert!(read(&open(&disks[..2]).expect("the members"), 0, 4096) == data);
}

#[test]
fn members_that_join_or_leave_do_not_change_the_number_of_power_losses() {
    let disks = crate::pool::disks(3);
    format(&disks[..2], &Options { size: 256 << 10, ..options() }).expect("disks of the right size");
    let switched: Vec<_> = disks.iter().map(crate::pool::switched).collect();
    let [first, second, third] = [0, 1, 2].map(|n| Arc::new(switched[n].clone()));
    second.lose_power(1);
    third.lose_power(7);
    let devices: Vec<Arc<dyn BlockDevice>> = vec![first.clone(), second.clone()];
    let volume = run(|cx| async move { Volume::open(&cx, &devices, open_options()).await });
    let volume = volume.expect("a new volume");
    assert_eq!(volume.power_losses(), 1);
    let (changed, new) = (volume.clone(), NewMember::new(third.clone()));
    run(|cx| async move {
        empty(&cx, &changed, 1).await;
        changed.remove(&cx, 1).await.expect("an empty member");
        assert_eq!(changed.power_losses(), 1, "the member that left");
        changed.add(&cx, &new, [9; 16], Growth::None).await.expect("a disk that works");
    });
    assert_eq!(volume.power_losses(), 1, "the member that joined");
    second.lose_power(1);
    assert_eq!(volume.power_losses(), 1, "a former member");
    first.lose_power(1);
    third.lose_power(1);
    assert_eq!(volume.power_losses(), 3);
}
