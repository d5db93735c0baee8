//! A read-only check of the superblocks, the map and every copy, which also reports the faults that the
//! opening found in journals and checkpoints.

use super::{Inner, Volume};
use crate::extent::{Extent, ExtentState, Pointer};
use crate::format::MemberState;
use crate::member::{self, Copies};
use flashlab_block::Context;
use std::collections::BTreeMap;
use std::ops::Range;

/// Result of a check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Number of extents.
    pub extents: u64,
    /// Number of copies that were examined.
    pub copies: u64,
    /// Stored bytes of these copies.
    pub bytes: u64,
    /// Findings, one line each. Empty if the volume is sound.
    pub findings: Vec<String>,
    /// States that a power loss or the end of the process left in a volume that is open read-only, one line each.
    /// The next opening for writing repairs them.
    pub unclean: Vec<String>,
    /// Last range of blocks with each fault. The range grows while adjacent extents have the same fault.
    faulty: BTreeMap<Fault, Range<u64>>,
}

/// A fault of an extent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fault {
    /// Every copy was lost.
    Poisoned,
    /// The copy on this member is bad.
    Bad(u8),
}

impl Volume {
    /// Reads the superblocks and every copy of every extent on present members, and compares the map with the
    /// use of the buckets. Also reports faults of journals and checkpoints that the opening found. Writes
    /// nothing to the members. Writes of clients may continue meanwhile. A superblock whose first or last copy is
    /// invalid counts as a finding unless something else shows an unclean stop.
    pub async fn check(&self, cx: &Context) -> Report {
        self.check_with(cx, |_| ()).await
    }

    /// Checks as [`Volume::check`] does, and calls `progress` with the number of stored bytes read so far.
    pub async fn check_with(&self, cx: &Context, mut progress: impl FnMut(u64) + Send) -> Report {
        let mut report = Report::default();
        let inner = self.gate.pass().await;
        inner.check_metadata(cx, &mut report).await;
        inner.check_references(&mut report);
        let map = inner.lock().map.clone();
        drop(inner);
        for extent in map.iter() {
            report.extents += 1;
            let inner = self.gate.pass().await;
            if inner.has(extent) {
                inner.check_extent(cx, extent, &mut report).await;
                progress(report.bytes);
            }
        }
        let block = u64::from(self.gate.current().layout.block);
        for (fault, range) in std::mem::take(&mut report.faulty) {
            report.add_range(fault, &range, block);
        }
        report
    }
}

impl Report {
    /// Notes a fault of an extent. Adjacent extents with the same fault are one finding.
    fn note(&mut self, fault: Fault, live: Range<u64>, block: u64) {
        match self.faulty.get_mut(&fault) {
            Some(range) if range.end == live.start => range.end = live.end,
            Some(range) => {
                let done = std::mem::replace(range, live);
                self.add_range(fault, &done, block);
            }
            None => drop(self.faulty.insert(fault, live)),
        }
    }

    fn add_range(&mut self, fault: Fault, range: &Range<u64>, block: u64) {
        let what = match fault {
            Fault::Poisoned => "every copy was lost".to_owned(),
            Fault::Bad(member) => format!("the copy on member {member} is bad"),
        };
        self.findings.push(format!("bytes {} to {}: {what}", range.start * block, range.end * block));
    }
}

impl Inner {
    /// Reads the superblocks, and reports the faults that the opening found in journals and checkpoints.
    async fn check_metadata(&self, cx: &Context, report: &mut Report) {
        let mut invalid_at_end = Vec::new();
        // The copies of a superblock are written in turn, under this lock.
        let journal = self.journal.lock().await;
        for (n, member) in self.members.iter().enumerate() {
            if !member.present {
                if member.entry.state != MemberState::Removed {
                    report.findings.push(format!("member {n} is missing"));
                }
                continue;
            }
            let text = format!("member {n}: a copy of the superblock is damaged or old");
            match member::read_superblock(&*member.device, cx, n).await {
                Ok((_, Copies::Equal)) => {}
                // The opening of a volume for writing has written all copies.
                Ok((_, Copies::Interrupted)) if self.read_only => report.unclean.push(text),
                Ok((_, Copies::InvalidAtEnd)) if self.read_only => invalid_at_end.push(text),
                Ok(_) => report.findings.push(text),
                Err(error) => report.findings.push(error.to_string()),
            }
        }
        drop(journal);
        let state = self.lock();
        for fault in &state.faults {
            let is_repaired = self.read_only && fault.is_of_a_stop;
            let list = if is_repaired { &mut report.unclean } else { &mut report.findings };
            list.push(format!("member {}: {}", fault.member, fault.text));
        }
        let is_unclean = state.had_entries || !report.unclean.is_empty();
        let list = if is_unclean { &mut report.unclean } else { &mut report.findings };
        list.extend(invalid_at_end);
    }

    /// Verifies every copy of an extent.
    async fn check_extent(&self, cx: &Context, extent: &Extent, report: &mut Report) {
        let block = u64::from(self.layout.block);
        if extent.state() == ExtentState::Poisoned {
            report.note(Fault::Poisoned, extent.live(), block);
        }
        for pointer in &*extent.pointers() {
            let is_void = pointer.cached && !self.lock().allocator.is_current(pointer);
            if is_void || !self.members[usize::from(pointer.member)].present {
                continue;
            }
            report.copies += 1;
            report.bytes += u64::from(extent.stored());
            let good = self.read_stored_copy(cx, extent, pointer, true).await.is_ok();
            if !good && self.has(extent) {
                report.note(Fault::Bad(pointer.member), extent.live(), block);
            }
        }
    }

    /// Compares the references of the map with the counts of the buckets, and checks that no two extents
    /// overlap in the volume or on a member. Only the counts include writes in flight.
    fn check_references(&self, report: &mut Report) {
        let (map, mut live) = {
            let state = self.lock();
            (state.map.clone(), state.allocator.live())
        };
        let is_void = |pointer: &Pointer| pointer.cached && !self.lock().allocator.is_current(pointer);
        let mut places: Vec<Vec<Stored>> = self.members.iter().map(|_| Vec::new()).collect();
        let mut last = 0;
        for extent in map.iter() {
            if extent.start() < last || extent.end() > self.layout.size / u64::from(self.layout.block) {
                report.findings.push(format!("the map is out of order at block {}", extent.start()));
            }
            last = extent.end();
            for pointer in extent.pointers().iter().filter(|pointer| !is_void(pointer)) {
                places[usize::from(pointer.member)].push(Stored::new(extent, pointer, self.layout.block));
                let [held, cached] = live.entry((pointer.member, pointer.bucket)).or_default();
                let count = if pointer.cached { cached } else { held };
                match count.checked_sub(extent.held_blocks(self.layout.block)) {
                    Some(rest) => *count = rest,
                    None => report.findings.push(format!(
                        "bucket {} of member {} has more references in the map than were counted",
                        pointer.bucket, pointer.member
                    )),
                }
            }
        }
        for (n, places) in places.into_iter().enumerate() {
            report.findings.extend(shared(places).into_iter().map(|(a, b, bucket)| {
                format!("the extents at blocks {a} and {b} refer to the same blocks in bucket {bucket} of member {n}")
            }));
        }
    }
}

/// The place of a copy on its member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Stored {
    bucket: u32,
    offset: u32,
    /// Offset after the copy.
    end: u32,
    /// First logical block of the stored extent.
    start: u64,
}

impl Stored {
    fn new(extent: &Extent, pointer: &Pointer, block: u32) -> Stored {
        let end = pointer.offset.saturating_add(extent.stored_blocks(block));
        let start = extent.start().wrapping_sub(u64::from(extent.skip()));
        Stored { bucket: pointer.bucket, offset: pointer.offset, end, start }
    }

    /// Returns true if both copies are parts of one stored extent: the same logical blocks are at the same
    /// places.
    fn is_same_extent(&self, other: &Stored) -> bool {
        let origin = |stored: &Stored| stored.start.wrapping_sub(u64::from(stored.offset));
        origin(self) == origin(other)
    }
}

/// Returns the first blocks of different extents that share blocks of a member, with their bucket.
fn shared(mut places: Vec<Stored>) -> Vec<(u64, u64, u32)> {
    places.sort_unstable();
    let (mut shared, mut last) = (Vec::new(), None::<Stored>);
    for place in places {
        match last {
            Some(before) if before.bucket == place.bucket && place.offset < before.end => {
                if !before.is_same_extent(&place) {
                    shared.push((before.start, place.start, place.bucket));
                }
                if place.end > before.end {
                    last = Some(place);
                }
            }
            _ => last = Some(place),
        }
    }
    shared
}
