//! The journals of a volume as recovery reads them: a ring on each metadata member.
//!
//! An unreadable block may hold an entry. If further entries follow, their numbers show that an entry is
//! missing. If none follow, the block may hold the entry after the last one, which begins behind the last
//! entry or at the start of the ring. If no other ring shows that this entry does not exist, acknowledged
//! changes may be lost, so the volume refuses to open.
//!
//! A ring may also have entries of another history, from a time when the member was used without the others. Such
//! entries are valid, but the chain of checksums does not lead to them, so they are discarded.

use crate::VolumeError;
use crate::format::{Entries, Entry};
use crate::keys::Keyring;
use crate::layout::Layout;
use crate::member::{self, Member};
use crate::member_set::MemberSet;
use flashlab_block::Context;
use flashlab_sim::fault;
use std::collections::{BTreeMap, BTreeSet};

/// The ring of a member.
struct Ring {
    member: usize,
    /// Contents of the ring if it has unreadable blocks; empty otherwise, because the contents are not needed any more.
    bytes: Vec<u8>,
    /// Offsets of the blocks that cannot be read.
    unreadable: BTreeSet<u64>,
}

/// An entry of one or more rings.
pub(crate) struct Found {
    /// Offset within the ring.
    pub(crate) at: u64,
    pub(crate) entry: Entry,
    /// Members whose ring has the entry.
    members: MemberSet,
}

/// The end of the chain of entries.
pub(crate) struct End {
    /// Number of the last entry.
    pub(crate) sequence: u64,
    /// Checksum of the last entry.
    pub(crate) previous: u32,
    /// Number of the last mount.
    pub(crate) mount: u32,
    /// Offset of the next entry.
    pub(crate) at: u64,
}

/// The journals of the members whose journal is current.
pub(crate) struct Journals {
    layout: Layout,
    rings: Vec<Ring>,
    /// Entries after the checkpoint. Several have the same number if histories differ.
    entries: Vec<Found>,
    /// Index of each entry in `entries`, by its number, its offset and its checksum.
    known: BTreeMap<(u64, u64, u32), usize>,
    /// Number of the first entry of the chain that a member lacks, by member.
    lacking: BTreeMap<usize, u64>,
    /// Number of the last entry of the chain.
    last: u64,
}

/// A fault of the journal or the checkpoint of a member.
pub(crate) struct MemberFault {
    /// Number of the member.
    pub(crate) member: usize,
    /// Description of the fault.
    pub(crate) text: String,
    /// True if an unclean stop leaves this state, and the next opening for writing repairs it.
    pub(crate) is_of_a_stop: bool,
}

impl Journals {
    /// Reads the entries after number `after` from the rings of these members.
    pub(crate) async fn read(
        cx: &Context,
        (layout, keyring): (&Layout, Option<&Keyring>),
        members: &[Member],
        metadata: &[usize],
        after: u64,
    ) -> Journals {
        let mut journals = Journals {
            layout: *layout,
            rings: Vec::new(),
            entries: Vec::new(),
            known: BTreeMap::new(),
            lacking: BTreeMap::new(),
            last: after,
        };
        for n in metadata {
            let place = (layout.bucket_offset(0), layout.journal_len());
            let (bytes, unreadable) =
                member::read_blocks(&*members[*n].device, cx, place, u64::from(layout.block)).await;
            for (at, entry) in Entries::new(&bytes, layout.block, &layout.volume, keyring) {
                if let Ok(entry) = entry
                    && entry.sequence > after
                {
                    journals.add(*n, at as u64, entry);
                }
            }
            let bytes = if unreadable.is_empty() { Vec::new() } else { bytes };
            journals.rings.push(Ring { member: *n, bytes, unreadable });
        }
        journals
    }

    fn add(&mut self, member: usize, at: u64, entry: Entry) {
        let place = *self.known.entry((entry.sequence, at, entry.sum)).or_insert(self.entries.len());
        match self.entries.get_mut(place) {
            Some(found) => found.members.insert(member),
            None => self.entries.push(Found { at, entry, members: MemberSet::of(member) }),
        }
    }

    /// Passes the entries that continue the chain to `apply`, which returns the new end of the chain.
    /// Discards entries of other histories.
    ///
    /// # Errors
    /// Returns [`VolumeError::Damaged`] if an entry of the chain is missing, or may be in an unreadable block; or the
    /// first error of `apply`.
    pub(crate) fn follow(
        &mut self,
        mut end: End,
        mut apply: impl FnMut(Found) -> Result<End, VolumeError>,
    ) -> Result<(), VolumeError> {
        let (mut others, mut entries) = (BTreeSet::new(), std::mem::take(&mut self.entries));
        entries.sort_by_key(|found| found.entry.sequence);
        for found in entries {
            let Entry { sequence: number, previous, mount, sum, .. } = found.entry;
            let is_next = number == end.sequence + 1;
            if is_next && previous == end.previous && mount >= end.mount {
                for ring in self.rings.iter().filter(|ring| !found.members.contains(ring.member)) {
                    self.lacking.entry(ring.member).or_insert(number);
                }
                end = apply(found)?;
            } else if is_next || number <= end.sequence || others.contains(&previous) {
                others.insert(sum);
            } else if !fault("volume-ignores-a-gap-in-the-journal") {
                let lost = end.sequence + 1;
                let why = format!("journal entry {lost} is unreadable, and entry {number} follows it");
                return Err(VolumeError::Damaged(why));
            }
        }
        self.last = end.sequence;
        let may_hide = |ring: &Ring| ring.may_hide(&self.layout, &end);
        match self.rings.first() {
            Some(Ring { member, .. }) if self.rings.iter().all(may_hide) => {
                Err(VolumeError::Damaged(format!(
                    "a block in the journal of member {member} is unreadable, and may contain entry {}",
                    end.sequence + 1
                )))
            }
            _ => Ok(()),
        }
    }

    /// Returns the unreadable blocks: their members and their offsets within the ring.
    pub(crate) fn unreadable(&self) -> Vec<(usize, u64)> {
        let of_ring = |ring: &Ring| ring.unreadable.iter().map(|at| (ring.member, *at)).collect::<Vec<_>>();
        self.rings.iter().flat_map(of_ring).collect()
    }

    /// Returns the faults of the rings. An entry is written to all rings at once, and after the previous one is
    /// durable, so an unclean stop leaves rings that lack the last entry only.
    pub(crate) fn faults(&self) -> Vec<MemberFault> {
        let lacking = self.lacking.iter().map(|(member, number)| MemberFault {
            member: *member,
            text: format!("the journal lacks entry {number}"),
            is_of_a_stop: *number == self.last,
        });
        let bad = self.rings.iter().filter(|ring| !ring.unreadable.is_empty());
        let bad = bad.map(|ring| {
            let count = ring.unreadable.len();
            let blocks = if count == 1 { "block" } else { "blocks" };
            let text = format!("{count} {blocks} of the journal cannot be read");
            MemberFault { member: ring.member, text, is_of_a_stop: false }
        });
        lacking.chain(bad).collect()
    }
}

impl Ring {
    /// Returns true if the ring may hold the entry after `end` in blocks that cannot be read. This entry would begin at
    /// the end of the chain, or at the start of the ring.
    fn may_hide(&self, layout: &Layout, end: &End) -> bool {
        let block = u64::from(layout.block);
        let is_hidden = |at: u64| {
            let header = self.bytes.get(at as usize..).map(|bytes| Entry::peek(bytes, &layout.volume));
            let len = match header {
                Some(Ok((sequence, len))) if sequence == end.sequence + 1 => len,
                _ => 1,
            };
            self.unreadable.range(at / block * block..at.saturating_add(len)).next().is_some()
        };
        is_hidden(end.at) || is_hidden(0)
    }
}
