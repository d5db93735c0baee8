//! Rings of the journal that are unreadable in parts, or that hold entries of another history of the volume.

use crate::members::{close, copies, findings, mirror, open_degraded, write};
use crate::pool::{BLOCK, disks, format, open_options, options, run};
use flashlab_block::conformance::{execute, read};
use flashlab_block::crash::Disk;
use flashlab_block::{BlockDevice, Context, Features, Geometry, Io, IoError, Started};
use flashlab_volume::format::Entry;
use flashlab_volume::{Degraded, Growth, NewMember, OpenOptions, Volume, VolumeError};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the ring of the small volumes, behind the first two copies of the superblock.
const RING: std::ops::Range<u64> = 16 << 10..80 << 10;

/// A disk with an unreadable block. A write to the block makes it readable again.
struct Unreadable {
    disk: Disk,
    at: u64,
    is_written: AtomicBool,
}

impl Unreadable {
    fn new(disk: Disk, at: u64) -> Unreadable {
        Unreadable { disk, at, is_written: AtomicBool::new(false) }
    }
}

impl BlockDevice for Unreadable {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }
    fn features(&self) -> Features {
        self.disk.features()
    }
    fn start(&self, cx: &Context, io: Io) -> Started {
        let is_covered = |(offset, length): (u64, u64)| (offset..offset + length).contains(&self.at);
        if io.range().is_some_and(is_covered) {
            match io {
                Io::Read { .. } if !self.is_written.load(Ordering::Relaxed) => {
                    return Started::Done(Err(IoError::Medium));
                }
                Io::Write { .. } => self.is_written.store(true, Ordering::Relaxed),
                _ => {}
            }
        }
        self.disk.start(cx, io)
    }
}

/// Opens a volume on copies of disks. The copies in `bad` cannot read the block at `offset`.
pub(crate) fn open_unreadable(
    disks: &[Disk],
    bad: &[usize],
    offset: u64,
    read_only: bool,
) -> Result<Volume, VolumeError> {
    let device = |(n, disk): (usize, Disk)| -> Arc<dyn BlockDevice> {
        if bad.contains(&n) { Arc::new(Unreadable::new(disk, offset)) } else { Arc::new(disk) }
    };
    let devices: Vec<Arc<dyn BlockDevice>> = copies(disks).into_iter().enumerate().map(device).collect();
    let options = OpenOptions { read_only, ..open_options() };
    run(|cx| async move { Volume::open(&cx, &devices, options).await })
}

/// Writes pairs of blocks, each durable. The volume is not closed.
fn write_entries(volume: &Volume) {
    (0..40).for_each(|n| write(volume, 2 * n, n as u8 + 1));
}

fn has_entries(volume: &Volume) -> bool {
    (0..40).all(|n| read(volume, 2 * n * BLOCK, 1024) == [n as u8 + 1; 1024])
}

#[test]
fn an_unreadable_block_of_the_only_journal_loses_no_acknowledged_write() {
    let disks = disks(1);
    format(&disks, &options()).expect("a disk of the right size");
    write_entries(&crate::pool::open(&disks).expect("a new volume"));
    let (mut refused, mut opened) = (0, 0);
    for offset in RING.step_by(BLOCK as usize) {
        match open_unreadable(&disks, &[0], offset, false) {
            Ok(volume) => {
                assert!(has_entries(&volume), "the block at {offset} is unreadable");
                opened += 1;
            }
            Err(VolumeError::Damaged(why)) => {
                assert!(why.contains("unreadable"), "{why}");
                refused += 1;
            }
            Err(error) => panic!("the block at {offset}: {error}"),
        }
    }
    // The salt, 40 writes, and the place of the next entry.
    assert_eq!((refused, opened), (42, 86));
}

/// After further entries, an unreadable block could not be told from the entry after the last one.
#[test]
fn an_opening_for_writing_makes_all_blocks_of_the_journal_readable() {
    let disks = disks(1);
    format(&disks, &options()).expect("a disk of the right size");
    write_entries(&crate::pool::open(&disks).expect("a new volume"));
    let device: Arc<dyn BlockDevice> = Arc::new(Unreadable::new(disks[0].clone(), RING.start + 80 * BLOCK));
    let open = |read_only| {
        let (devices, options) = (vec![device.clone()], OpenOptions { read_only, ..open_options() });
        run(|cx| async move { Volume::open(&cx, &devices, options).await }).expect("all entries")
    };
    for (read_only, found) in [(true, 1), (true, 1), (false, 0), (true, 0)] {
        let volume = open(read_only);
        assert!(has_entries(&volume));
        assert_eq!(findings(&volume).len(), found, "{:?}", findings(&volume));
    }
}

#[test]
fn a_journal_is_read_from_another_member_if_a_block_is_unreadable() {
    let disks = mirror(2);
    write_entries(&crate::pool::open(&disks).expect("a new volume"));
    for offset in RING.step_by(BLOCK as usize) {
        for member in 0..2 {
            let volume = open_unreadable(&disks, &[member], offset, false).expect("the other journal");
            assert!(has_entries(&volume), "the block at {offset} of member {member}");
        }
    }
    let both = open_unreadable(&disks, &[0, 1], RING.start + 8 * BLOCK, false).map(drop);
    assert!(matches!(&both, Err(VolumeError::Damaged(why)) if why.contains("unreadable")), "{both:?}");
}

/// Returns the numbers and checksums of all entries in the ring of a disk.
fn entries(disk: &Disk) -> BTreeSet<(u64, u32)> {
    let bytes = disk.image().to_vec();
    let decode = |at: u64| Entry::decode(&bytes[at as usize..], &options().volume, None).ok();
    RING.step_by(BLOCK as usize).filter_map(decode).map(|entry| (entry.sequence, entry.sum)).collect()
}

/// Two halves of a mirror were changed independently of each other. One half is kept, and the other one
/// becomes a new member beside it.
#[test]
fn a_half_that_diverged_becomes_a_new_member_of_the_other() {
    for flushes in [(50, 2), (2, 30), (20, 20)] {
        let disks = mirror(2);
        let volume = crate::pool::open(&disks).expect("a new volume");
        write(&volume, 0, 1);
        close(&volume);
        for (n, count) in [(1, flushes.0), (0, flushes.1)] {
            let half = open_degraded(&disks[n..=n], Degraded::Yes).expect("a copy of everything");
            (0..count).for_each(|flush| write(&half, 2 * flush, n as u8 + 2));
        }
        let error = crate::pool::open(&disks).map(drop);
        assert_eq!(error, Err(VolumeError::Diverged { members: (0, 1) }));
        let kept = open_degraded(&disks[..1], Degraded::Yes).expect("one half alone");
        let new = NewMember::new(Arc::new(disks[1].clone()) as Arc<dyn BlockDevice>);
        let changed = kept.clone();
        run(|cx| async move {
            changed.remove(&cx, 1).await?;
            changed.add(&cx, &new, [7; 16], Growth::None).await
        })
        .expect("all data is on the half that is kept");
        assert!(entries(&disks[1]).is_subset(&entries(&disks[0])), "the ring of the new member");
        close(&kept);
        for rule in [Degraded::Refuse, Degraded::Yes] {
            let volume = open_degraded(&disks, rule).expect("both members");
            assert!((0..flushes.1).all(|flush| read(&volume, 2 * flush * BLOCK, 1024) == [2; 1024]));
            assert!(execute(&volume, Io::Flush).is_ok());
        }
        let alone = open_degraded(&disks[1..], Degraded::Very).expect("a current journal");
        assert!(execute(&alone, Io::Flush).is_ok());
    }
}
