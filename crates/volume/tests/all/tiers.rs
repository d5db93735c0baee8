//! Volumes whose members have labels, for tests of targets and background work.

use crate::pool::{devices, disks, options, run};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::Disk;
use flashlab_block::{BlockDevice, Io};
use flashlab_volume::{Change, NewMember, Options, Reconciled, Targets, Volume, VolumeError};
use std::sync::Arc;

/// Formats disks with labels and durabilities.
pub(crate) fn labelled(members: &[(&str, u8)], options: &Options) -> Vec<Disk> {
    labelled_on(disks(members.len()), members, options)
}

pub(crate) fn labelled_on(disks: Vec<Disk>, members: &[(&str, u8)], options: &Options) -> Vec<Disk> {
    let new = |(disk, (label, durability)): (Arc<dyn BlockDevice>, &(&str, u8))| NewMember {
        device: disk,
        label: (*label).to_owned(),
        durability: *durability,
    };
    let members: Vec<NewMember> = devices(&disks).into_iter().zip(members).map(new).collect();
    let options = options.clone();
    run(|cx| async move { Volume::format(&cx, &members, &options).await }).expect("disks of the right size");
    disks
}

pub(crate) fn tiers() -> Options {
    let targets = Targets { foreground: "ssd".into(), background: "hdd".into(), ..Targets::default() };
    Options { targets, ..options() }
}

pub(crate) fn reconcile(volume: &Volume) -> Reconciled {
    let volume = volume.clone();
    run(|cx| async move { volume.reconcile(&cx, 0, |_| true).await }).expect("a volume that works")
}

/// Returns the data of write `n`.
pub(crate) fn data(n: u64) -> Vec<u8> {
    (0..2048u64).map(|at| flashlab_sim::mix((n << 32) | (at / 8)) as u8).collect()
}

pub(crate) fn fill(volume: &Volume, writes: u64) {
    for n in 0..writes {
        let io = Io::Write { offset: n * 2048, data: data(n).into(), durable: false };
        execute(volume, io).unwrap_or_else(|error| panic!("write {n}: {error}"));
    }
    execute(volume, Io::Flush).expect("disks that work");
}

pub(crate) fn is_filled(volume: &Volume, writes: u64) -> bool {
    (0..writes).all(|n| is_written(volume, n))
}

pub(crate) fn is_written(volume: &Volume, n: u64) -> bool {
    read(volume, n * 2048, 2048) == data(n)
}

pub(crate) fn live(volume: &Volume) -> Vec<u64> {
    volume.usage().members.iter().map(|member| member.buckets.live_blocks).collect()
}

pub(crate) fn is_sound(volume: &Volume) {
    let checking = volume.clone();
    assert_eq!(run(|cx| async move { checking.check(&cx).await }).findings, [""; 0]);
}

pub(crate) fn set(volume: &Volume, change: Change) -> Result<(), VolumeError> {
    let volume = volume.clone();
    run(|cx| async move { volume.set(&cx, &change).await })
}

/// Checks that repeated scans without a change move nothing.
pub(crate) fn rests(volume: &Volume) {
    for _ in 0..3 {
        let again = reconcile(volume);
        assert_eq!((again.moved_bytes, again.done.len()), (0, 0), "{again:?}");
    }
}
