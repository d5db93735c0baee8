//! The room of a volume: the largest size for which its members can store all copies.
//!
//! After a change that leaves the volume with less room than its size, later writes would fail for lack of
//! space. In this case, a removal, more copies, a smaller durability and a larger size are refused. A change
//! of states is permitted, because another change can undo it. If a missing member already leaves the volume
//! with less room than its size, a change is permitted unless it reduces the room further.
//!
//! The error of a refused change has the numbers and the remedies, and a program adds how to apply them.

use super::configure::no_member;
use super::{Inner, Volume};
use crate::error::{Remedies, SmallerSize, VolumeError, shown};
use crate::format::{MemberEntry, MemberState, Superblock};
use crate::layout::{self, Layout};
use crate::member_set::MemberSet;

impl Volume {
    /// Checks that the other members have room for all copies of the volume without this one.
    ///
    /// # Errors
    /// Returns [`VolumeError::NoRoom`] if they do not, and [`VolumeError::NoMember`] if there is no such member or if no
    /// other one takes data.
    pub fn check_removal(&self, member: u8) -> Result<(), VolumeError> {
        self.gate.current().check_removal(member)
    }
}

impl Inner {
    /// Checks that the other members have room for all copies of the volume without this one.
    pub(super) fn check_removal(&self, member: u8) -> Result<(), VolumeError> {
        let removed = usize::from(member);
        let entries = self.entries();
        let Some(entry) = entries.get(removed).filter(|entry| entry.state != MemberState::Removed) else {
            return Err(no_member(member));
        };
        // Evacuation is the first part of a removal.
        let mut before = entries.clone();
        if entry.state == MemberState::Evacuating {
            before[removed].state = MemberState::Rw;
        }
        let mut layout = self.layout;
        let is_present = self.members[removed].present;
        let takes =
            |(n, entry): &(usize, &MemberEntry)| *n != removed && self.is_counted(*n) && entry.takes_data();
        let others = entries.iter().enumerate().filter(takes).count();
        if !is_present {
            // The copies on the missing member are gone, so the data of the volume already has fewer copies.
            layout.replicas = layout.replicas.min(others.max(1) as u8);
        }
        let had = room(layout, before, |n| n == removed || self.is_counted(n));
        let room = room(layout, entries, |n| n != removed && self.is_counted(n));
        if layout.size <= room || room >= had {
            return Ok(());
        }
        let copies = layout.replicas;
        if others == 0 {
            return Err(VolumeError::NoMember(format!(
                "member {member} is the only one that takes data; add another member first"
            )));
        }
        if others < usize::from(copies) {
            let why = format!(
                "member {member}: {copies} copies need {copies} members that take data, and {others} would be left"
            );
            return Err(VolumeError::NoRoom {
                why,
                remedies: Remedies { copies: Some(others as u8), size: None },
            });
        }
        let why = format!(
            "member {member}: without it, {}, {} less than the size of the volume, which is {}",
            layout::limit(&layout, room),
            shown(layout.size - room),
            shown(layout.size)
        );
        Err(VolumeError::NoRoom { why, remedies: self.remedies(&layout, room) })
    }

    /// Checks that the members have room for the size of a changed table. `change` is the option that changes
    /// the table.
    pub(super) fn check_room(
        &self,
        change: &str,
        old: &Superblock,
        new: &Superblock,
    ) -> Result<(), VolumeError> {
        let (had, room) = (self.room_of(old, None), self.room_of(new, None));
        if new.size <= room || new.size <= old.size && room >= had {
            return Ok(());
        }
        let layout = Layout::of(new);
        let limit = layout::limit(&layout, room);
        let remedies = self.remedies(&layout, room);
        Err(if new.size > old.size {
            let remedies = Remedies { size: None, ..remedies };
            VolumeError::NoRoom { why: format!("{change}: {limit}"), remedies }
        } else {
            let why = format!("{change}: then {limit}, and the size of the volume is {}", shown(new.size));
            VolumeError::NoRoom { why, remedies }
        })
    }

    /// Returns the room of the present members of a table, together with a new member at the place `new`.
    pub(super) fn room_of(&self, table: &Superblock, new: Option<usize>) -> u64 {
        let counts = |n: usize| new == Some(n) || self.is_counted(n);
        room(Layout::of(table), table.members.clone(), counts)
    }

    /// Returns true if the device of a member is present.
    fn is_counted(&self, member: usize) -> bool {
        self.members.get(member).is_some_and(|member| member.present)
    }

    /// Returns the table of members with their present states.
    fn entries(&self) -> Vec<MemberEntry> {
        let state = self.lock();
        let entry = |(member, health): (&crate::member::Member, &super::health::Health)| MemberEntry {
            state: health.state,
            metadata: health.metadata,
            ..member.entry.clone()
        };
        self.members.iter().zip(&state.health).map(entry).collect()
    }

    /// Returns the ways in which a volume with the room `room` would have enough of it.
    fn remedies(&self, layout: &Layout, room: u64) -> Remedies {
        let size = (room > 0).then(|| SmallerSize { bytes: room, data_end: self.end() });
        Remedies { copies: (layout.replicas > 1).then(|| layout.replicas - 1), size }
    }
}

/// Returns the largest size for which the members that `counts` selects can store all copies.
fn room(layout: Layout, mut entries: Vec<MemberEntry>, counts: impl Fn(usize) -> bool) -> u64 {
    for (n, entry) in entries.iter_mut().enumerate() {
        if !counts(n) {
            (entry.state, entry.metadata) = (MemberState::Removed, false);
        }
    }
    let is = |entry: &&MemberEntry, state| entry.state == state;
    let copies: u32 = entries
        .iter()
        .filter(|entry| is(entry, MemberState::Rw))
        .map(|entry| u32::from(entry.durability))
        .sum();
    if copies < u32::from(layout.replicas) {
        entries.iter_mut().filter(|entry| entry.state == MemberState::Spare).for_each(|entry| {
            entry.state = MemberState::Rw;
        });
    }
    layout::choose_metadata(&mut entries, layout.replicas, MemberSet::EMPTY);
    layout::largest(layout, &entries)
}
