//! Members that are missing, that fail, and that return: degraded opening, stale members, and the copies of
//! data after an acknowledged flush.

use crate::pool::{
    BLOCK, Switched, devices, disks, format, open, open_options, open_with, options, run, switched,
};
use crate::tiers::labelled;
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::{Contract, Disk, History, Image, Kept};
use flashlab_block::{Answer, BlockDevice, Context, Executor, Io, IoError};
use flashlab_sim::{Duration, Rng};
use flashlab_volume::{
    Degraded, MemberState, MissingMember, OpenOptions, Options, Targets, Volume, VolumeError,
};
use std::sync::Arc;

const BLOCKS: u64 = 64;

fn degraded(degraded: Degraded) -> OpenOptions {
    OpenOptions { degraded, ..open_options() }
}

pub(crate) fn open_degraded(disks: &[Disk], rule: Degraded) -> Result<Volume, VolumeError> {
    open_with(disks, degraded(rule))
}

pub(crate) fn write(volume: &Volume, block: u64, byte: u8) {
    let data = vec![byte; 1024].into();
    execute(volume, Io::Write { offset: block * BLOCK, data, durable: true }).expect("a member that works");
}

pub(crate) fn close(volume: &Volume) {
    let volume = volume.clone();
    run(|cx| async move { volume.close(&cx).await }).expect("a member that works");
}

pub(crate) fn findings(volume: &Volume) -> Vec<String> {
    let volume = volume.clone();
    run(|cx| async move { volume.check(&cx).await }).findings
}

/// Returns independent disks with the same contents.
pub(crate) fn copies(disks: &[Disk]) -> Vec<Disk> {
    disks.iter().map(|disk| Disk::new(disk.image(), BLOCK)).collect()
}

pub(crate) fn mirror(members: usize) -> Vec<Disk> {
    let disks = disks(members);
    format(&disks, &Options { replicas: 2, ..options() }).expect("disks of the right size");
    disks
}

#[test]
fn a_mirror_opens_without_a_member_if_asked_and_takes_it_back() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    write(&volume, 0, 1);
    close(&volume);
    for present in [0, 1] {
        let disks = copies(&disks);
        let half = &disks[present..=present];
        let missing = vec![MissingMember { number: 1 - present as u8, label: String::new() }];
        assert_eq!(open(half).map(drop), Err(VolumeError::Missing { missing, of: 2 }));
        for byte in [2, 3] {
            let volume = open_degraded(half, Degraded::Yes).expect("a copy of everything");
            write(&volume, 4, byte);
            assert_eq!(findings(&volume), [format!("member {} is missing", 1 - present)]);
        }
        // The member returns with an old journal. Its old data is still good.
        let volume = open(&disks).expect("both members");
        assert!(read(&volume, 0, 1024) == [1; 1024]);
        assert!(read(&volume, 4 * BLOCK, 1024) == [3; 1024]);
        write(&volume, 8, 4);
        assert_eq!(findings(&volume), [""; 0]);
        // The journal of the member that returned is current again.
        let other = &disks[1 - present..2 - present];
        let volume = open_degraded(other, Degraded::Very).expect("a current journal");
        assert!(read(&volume, 0, 1024) == [1; 1024]);
        assert!(read(&volume, 8 * BLOCK, 1024) == [4; 1024]);
        let lost = Io::Read { offset: 4 * BLOCK, buffer: vec![0; 1024] };
        assert_eq!(
            execute(&volume, lost).err(),
            Some(IoError::Medium),
            "it has a copy on the other member only"
        );
    }
}

#[test]
fn a_stripe_opens_without_a_member_only_if_missing_data_is_permitted() {
    let disks = disks(2);
    format(&disks, &options()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    (0..32).for_each(|n| write(&volume, 2 * n, n as u8 + 1));
    close(&volume);
    let error = open_degraded(&disks[..1], Degraded::Yes).map(drop).expect_err("half of the data");
    assert!(
        matches!(&error, VolumeError::DataMissing { missing, bytes: 1.. } if missing[0].number == 1),
        "{error}"
    );
    let volume = open_degraded(&disks[..1], Degraded::Very).expect("the half with the journal");
    let block = |n: u64| Io::Read { offset: 2 * n * BLOCK, buffer: vec![0; 1024] };
    let mut missing = 0;
    for n in 0..32 {
        match execute(&volume, block(n)) {
            Ok(Answer::Read(bytes)) => assert!(bytes == [n as u8 + 1; 1024]),
            other => {
                assert_eq!(other.err(), Some(IoError::Medium));
                missing += 1;
            }
        }
    }
    assert!(missing > 4, "{missing}");
    // A scrub does not poison data whose member may return.
    let scrubbing = volume.clone();
    let scrubbed = run(|cx| async move { scrubbing.scrub(&cx).await }).expect("a disk that works");
    assert_eq!((scrubbed.poisoned, scrubbed.repaired), (0, 0));
    drop(volume);
    let volume = open(&disks).expect("both members");
    assert!((0..32).all(|n| read(&volume, 2 * n * BLOCK, 1024) == [n as u8 + 1; 1024]));
}

/// The journal has moved to a member that is missing. The member that had the journal before knows that its
/// own checkpoint is old.
#[test]
fn a_member_that_gave_its_journal_away_does_not_open_alone() {
    let disks = disks(2);
    format(&disks, &options()).expect("disks of the right size");
    let volume = open(&disks).expect("a new volume");
    write(&volume, 0, 1);
    let moving = volume.clone();
    run(|cx| async move { moving.set_member_state(&cx, 0, MemberState::Evacuating).await })
        .expect("two disks");
    write(&volume, 0, 2);
    close(&volume);
    assert!(read(&open_degraded(&disks[1..], Degraded::Very).expect("the journal"), 0, 1024) == [2; 1024]);
    let alone = open_degraded(&disks[..1], Degraded::Very).map(drop);
    let missing = vec![MissingMember { number: 1, label: String::new() }];
    assert_eq!(alone, Err(VolumeError::JournalMissing { missing }));
}

/// Members that were changed independently of each other have no common state.
#[test]
fn halves_that_diverged_are_refused() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    write(&volume, 0, 1);
    close(&volume);
    for (n, byte) in [(0, 2), (1, 3)] {
        let half = open_degraded(&disks[n..=n], Degraded::Yes).expect("a copy of everything");
        write(&half, 0, byte);
        close(&half);
    }
    for rule in [Degraded::Refuse, Degraded::Yes, Degraded::Very] {
        let error = open_degraded(&disks, rule).map(drop);
        assert_eq!(error, Err(VolumeError::Diverged { members: (0, 1) }));
    }
    let half = open_degraded(&disks[1..], Degraded::Yes).expect("one half alone");
    assert!(read(&half, 0, 1024) == [3; 1024]);
}

/// A member that failed and was then changed alone has diverged from the member that the volume continued on.
#[test]
fn a_member_that_failed_and_was_then_used_alone_diverged() {
    let disks = mirror(2);
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    write(&volume, 0, 1);
    switches[1].die();
    write(&volume, 0, 2);
    drop(volume);
    let alone = open_degraded(&disks[1..], Degraded::Yes).expect("an old state");
    write(&alone, 4, 3);
    drop(alone);
    assert_eq!(open(&disks).map(drop), Err(VolumeError::Diverged { members: (0, 1) }));
}

/// The journal moves from the dead member to a third one. The other members still know the dead member as
/// absent, so it has diverged, too.
#[test]
fn a_member_whose_journal_moved_away_when_it_failed_diverged() {
    let disks = mirror(3);
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    for n in 0..16 {
        write(&volume, 2 * n, 1);
    }
    switches[1].die();
    for n in 0..16 {
        write(&volume, 2 * n, 2);
    }
    let metadata: Vec<bool> = volume.usage().members.iter().map(|member| member.metadata).collect();
    assert_eq!(metadata, [true, false, true]);
    drop(volume);
    let alone = open_degraded(&disks[1..2], Degraded::Very).expect("an old state");
    write(&alone, 100, 3);
    drop(alone);
    assert_eq!(open(&disks).map(drop), Err(VolumeError::Diverged { members: (0, 1) }));
}

/// A lost journal is replaced on a member of the metadata target.
#[test]
fn a_lost_journal_is_replaced_within_the_metadata_target() {
    let targets = Targets { metadata: "m".into(), ..Targets::default() };
    let options = Options { replicas: 2, targets, ..options() };
    let disks = labelled(&[("m.a", 1), ("m.b", 1), ("other", 1), ("m.c", 1)], &options);
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    let metadata = || volume.usage().members.iter().map(|member| member.metadata).collect::<Vec<_>>();
    assert_eq!(metadata(), [true, true, false, false]);
    switches[1].die();
    (0..16).for_each(|n| write(&volume, 2 * n, 1));
    assert_eq!(metadata(), [true, false, false, true]);
}

/// A member that was restored from a backup is never used.
#[test]
fn a_member_in_an_older_state_is_refused() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    write(&volume, 0, 1);
    close(&volume);
    let backup = disks[1].image();
    for byte in [2, 3] {
        let volume = open(&disks).expect("both members");
        write(&volume, 0, byte);
        close(&volume);
    }
    let disks = [disks[0].clone(), Disk::new(backup, BLOCK)];
    assert_eq!(open(&disks).map(drop), Err(VolumeError::Stale { member: 1 }));
    let volume = open_degraded(&disks, Degraded::Yes).expect("the other member");
    assert!(read(&volume, 0, 1024) == [3; 1024]);
    assert!(!volume.usage().members[1].present);
}

#[test]
fn an_unreadable_member_counts_as_missing() {
    let disks = mirror(2);
    write(&open(&disks).expect("a new volume"), 0, 7);
    let (first, second) = (disks[0].clone(), switched(&disks[1]));
    second.die();
    let devices: Vec<Arc<dyn BlockDevice>> = vec![Arc::new(first), Arc::new(second)];
    let (refused, given) = (devices.clone(), devices);
    let error = run(|cx| async move { Volume::open(&cx, &refused, open_options()).await }).map(drop);
    assert!(matches!(error, Err(VolumeError::NoSuperblock { member: 1, .. })), "{error:?}");
    let volume = run(|cx| async move { Volume::open(&cx, &given, degraded(Degraded::Yes)).await });
    assert!(read(&volume.expect("a copy of everything"), 0, 1024) == [7; 1024]);
}

pub(crate) fn open_switched(members: &[Switched]) -> Result<Volume, VolumeError> {
    let devices: Vec<Arc<dyn BlockDevice>> =
        members.iter().map(|member| Arc::new(member.clone()) as Arc<dyn BlockDevice>).collect();
    run(|cx| async move { Volume::open(&cx, &devices, degraded(Degraded::Yes)).await })
}

/// The power fails, and every unflushed write is lost.
fn after_power_loss(disks: &[Disk]) -> Vec<Image> {
    let point = Disk::point(disks);
    let nothing = flashlab_block::crash::Choice(vec![Kept::Nothing; point.unflushed()]);
    point.images(&nothing)
}

/// A member fails at each of twelve writes and flushes in turn while its journal moves to a second member,
/// which is missing later. A third member knows that the journal of the first one is old.
#[test]
fn an_old_journal_never_counts_although_its_member_fails_while_it_moves() {
    let mut acknowledged = 0;
    for (at, for_ever) in (0..12).flat_map(|at| [(at, false), (at, true)]) {
        let disks = disks(3);
        format(&disks, &options()).expect("disks of the right size");
        close(&open(&disks).expect("a new volume"));
        let switches: Vec<Switched> = disks.iter().map(switched).collect();
        let volume = open_switched(&switches).expect("a new volume");
        write(&volume, 0, 1);
        switches[0].fail_change(at, for_ever);
        let moving = volume.clone();
        let moved = run(|cx| async move { moving.set_member_state(&cx, 0, MemberState::Evacuating).await });
        let new = Io::Write { offset: 0, data: vec![2; 1024].into(), durable: true };
        if execute(&volume, new).is_err() {
            continue;
        }
        acknowledged += 1;
        let mut left = after_power_loss(&disks);
        left.remove(1);
        let left: Vec<Disk> = left.into_iter().map(|image| Disk::new(image, BLOCK)).collect();
        let Ok(volume) = open_degraded(&left, Degraded::Very) else { continue };
        let found = execute(&volume, Io::Read { offset: 0, buffer: vec![0; 1024] });
        let is_old = matches!(&found, Ok(Answer::Read(bytes)) if bytes[..] == [1; 1024]);
        assert!(!is_old, "write {at} fails{}: {moved:?}", if for_ever { " for ever" } else { "" });
    }
    assert!(acknowledged >= 12, "{acknowledged}");
}

/// A write or a flush of one member fails, once or for ever, at each of 24 requests in turn. All flushes are
/// still acknowledged. With two members, the acknowledged data survives the loss of the member that failed;
/// with three, it survives the loss of any one of the other members.
#[test]
fn an_acknowledged_flush_has_its_copies_although_a_member_fails() {
    for (members, for_ever) in [(2, false), (2, true), (3, false), (3, true)] {
        for at in 0..24 {
            let failing = (at % 3).min(members - 1);
            let disks = mirror(members);
            let switches: Vec<Switched> = disks.iter().map(switched).collect();
            let volume = open_switched(&switches).expect("a new volume");
            switches[failing].fail_change(at as u64, for_ever);
            let mut history = History::new(BLOCK as usize, BLOCKS);
            for n in 0..20 {
                let op = history.write(n..n + 4, false);
                let write = Io::Write { offset: n * BLOCK, data: history.data(op).into(), durable: false };
                execute(&volume, write).expect("another member works");
                history.answered(op);
                if n % 3 == 2 {
                    let started = history.flush();
                    execute(&volume, Io::Flush).expect("another member works");
                    history.flushed(started);
                }
            }
            let images = after_power_loss(&disks);
            // Opens the volume without the member that failed. With three members, opens it without any one
            // of the others.
            for missing in (0..members).filter(|n| if members == 2 { *n == failing } else { *n != failing }) {
                let mut left: Vec<Disk> =
                    images.iter().map(|image| Disk::new(image.clone(), BLOCK)).collect();
                left.remove(missing);
                let volume = open_degraded(&left, Degraded::Very);
                let volume =
                    volume.unwrap_or_else(|error| panic!("{members} members, request {at}: {error}"));
                let block = |n: u64| {
                    let read = Io::Read { offset: n * BLOCK, buffer: vec![0; BLOCK as usize] };
                    match execute(&volume, read) {
                        Ok(Answer::Read(bytes)) => Some(bytes),
                        _ => None,
                    }
                };
                let judged = history.check(Contract::Prefix, block);
                assert_eq!(judged, Ok(()), "{members} members, {failing} failed at {at}, {missing} missing");
            }
        }
    }
}

/// A member whose writes fail for 30 s of simulated time becomes read-only, and the superblocks say so.
#[test]
fn a_member_whose_writes_fail_for_30_seconds_becomes_read_only() {
    let disks = mirror(2);
    let switches: Vec<Switched> = disks.iter().map(switched).collect();
    let volume = open_switched(&switches).expect("a new volume");
    switches[1].fail_change(0, true);
    let mut executor = Executor::new(3);
    let (cx, writing) = (executor.context(), volume.clone());
    executor.block_on(async move {
        for second in 0..33u64 {
            let state = writing.usage().members[1].state;
            assert_eq!(
                state,
                if second <= 30 { MemberState::Rw } else { MemberState::Ro },
                "second {second}"
            );
            for _ in 0..3 {
                let write = Io::Write { offset: 0, data: vec![second as u8; 512].into(), durable: true };
                writing.start(&cx, write).outcome().await.map(drop).expect("another member works");
            }
            cx.sleep_until(cx.now() + Duration::from_secs(1)).await;
        }
    });
    let errors = volume.usage().members[1].errors;
    assert!((30..=40).contains(&errors.write), "one attempt in a second: {errors:?}");
    close(&volume);
    let volume = open(&disks).expect("both disks");
    let member = volume.usage().members[1].clone();
    assert_eq!((member.state, member.errors), (MemberState::Ro, errors));
    assert!(read(&volume, 0, 512) == [32; 512]);
}

#[test]
fn errors_are_counted_and_the_counts_persist() {
    let disks = mirror(2);
    let volume = open(&disks).expect("a new volume");
    write(&volume, 0, 9);
    let at = disks[0].image().to_vec().windows(1024).position(|bytes| bytes == [9; 1024]).expect("the data");
    disks[0].flip(at as u64, 1);
    assert!(read(&volume, 0, 1024) == [9; 1024]);
    assert_eq!(volume.usage().members[0].errors.checksum, 1);
    close(&volume);
    let errors = |n: usize| open(&disks).expect("both disks").usage().members[n].errors;
    assert_eq!((errors(0).checksum, errors(0).write, errors(1).checksum), (1, 0, 0));
}

/// Members are absent from some mounts, and some members die and return meanwhile. The power fails at the end
/// of each mount. All members together then show a prefix of the acknowledged requests with all flushed data.
#[test]
fn members_come_and_go_and_no_acknowledged_data_is_lost() {
    let seeds = if std::env::var_os("FLASHLAB_FULL").is_some() { 2_000 } else { 60 };
    for seed in 0..seeds {
        come_and_go(seed).unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
    }
}

fn come_and_go(seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let mut images: Vec<Image> = mirror(3).iter().map(Disk::image).collect();
    let mut history = History::new(BLOCK as usize, BLOCKS);
    for life in 0..5 {
        let disks: Vec<Disk> = images.iter().map(|image| Disk::new(image.clone(), BLOCK)).collect();
        let switches: Vec<Switched> = disks.iter().map(switched).collect();
        let (all, absent) = ((0..3).collect::<Vec<usize>>(), rng.below(4) as usize);
        let some: Vec<usize> = all.iter().copied().filter(|n| *n != absent).collect();
        let open =
            |list: &[usize]| open_switched(&list.iter().map(|n| switches[*n].clone()).collect::<Vec<_>>());
        // Old data may have its only copies on a member that is absent.
        let (volume, present) = match open(&some) {
            Ok(volume) => (volume, some),
            Err(VolumeError::DataMissing { .. }) => {
                (open(&all).map_err(|error| format!("life {life}: {error}"))?, all)
            }
            Err(error) => return Err(format!("life {life} with {some:?}: {error}")),
        };
        let dies = (present.len() == 3 && rng.below(2) == 0).then(|| rng.below(20));
        let victim = rng.below(3) as usize;
        // Members that are absent, or that died, return in half of the lives.
        let returns = rng.below(60);
        for step in 0..30 {
            if dies == Some(step) {
                switches[victim].die();
            }
            if step == returns {
                let away =
                    |n: &usize| !present.contains(n) || dies.is_some_and(|at| at < step) && *n == victim;
                for n in (0..3).filter(away) {
                    let (returning, device) = (volume.clone(), Arc::new(switched(&disks[n])));
                    match run(|cx| async move { returning.rejoin(&cx, device).await }) {
                        Ok(number) if usize::from(number) == n => {}
                        // No request has met the failure yet.
                        Err(VolumeError::NoMember(_)) if n == victim && present.contains(&n) => {}
                        other => return Err(format!("life {life}, return of {n}: {other:?}")),
                    }
                }
            }
            let start = rng.below(BLOCKS - 4);
            let op = history.write(start..start + 4, false);
            let write = Io::Write { offset: start * BLOCK, data: history.data(op).into(), durable: false };
            execute(&volume, write).map_err(|error| format!("life {life}, step {step}: {error}"))?;
            history.answered(op);
            if rng.below(5) == 0 || step == 29 && life < 4 {
                let started = history.flush();
                execute(&volume, Io::Flush).map_err(|error| format!("life {life}, flush: {error}"))?;
                history.flushed(started);
            }
        }
        let point = Disk::point(&disks);
        for choice in point.choices(if life == 4 { 8 } else { 1 }, &mut rng) {
            let disks: Vec<Disk> =
                point.images(&choice).into_iter().map(|image| Disk::new(image, BLOCK)).collect();
            judge(&disks, &history).map_err(|fault| format!("life {life}: {fault}"))?;
        }
        images = after_power_loss(&disks);
    }
    Ok(())
}

fn judge(disks: &[Disk], history: &History) -> Result<(), String> {
    let devices = devices(disks);
    let volume = run(|cx: Context| async move { Volume::open(&cx, &devices, open_options()).await });
    let volume = volume.map_err(|error| error.to_string())?;
    let report = findings(&volume);
    if !report.is_empty() {
        return Err(report.join("; "));
    }
    let bytes = read(&volume, 0, (BLOCKS * BLOCK) as usize);
    let block = |n: u64| Some(bytes[(n * BLOCK) as usize..][..BLOCK as usize].to_vec());
    history.check(Contract::Prefix, block).map_err(|violation| violation.to_string())
}
