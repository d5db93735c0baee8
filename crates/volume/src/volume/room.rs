//! The room of a volume: the largest size for which its members can store all copies.
//!
//! After a change that leaves the volume with less room than its size, later writes would fail for lack of
//! space. In this case, a removal, more copies, a smaller durability and a larger size are refused. A change
//! of states is permitted, because another change can undo it. If a missing member already leaves the volume
//! with less room than its size, a change is permitted unless it reduces the room further.

use super::configure::no_member;
use super::{Inner, Volume};
use crate::VolumeError;
use crate::error::shown;
use crate::format::{MemberEntry, MemberState, Superblock};
use crate::layout::{self, Layout};
use crate::member_set::MemberSet;

impl Volume {
    /// Checks that the other members have room for all copies of the volume without this one.
    ///
    /// # Errors
    /// Returns [`VolumeError::NoMember`] with the numbers and the possible remedies if they do not.
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
            return Err(VolumeError::NoMember(format!(
                "member {member}: {copies} copies need {copies} members that take data, and {others} would be left; add another \
                 member first, or keep fewer copies (`volume set --replicas {others}`)"
            )));
        }
        let (limit, rest) = (layout::limit(&layout, room), self.ways_out(&layout, room));
        Err(VolumeError::NoMember(format!(
            "member {member}: without it, {limit}, {} less than the size of the volume, which is {}; {rest}",
            shown(layout.size - room),
            shown(layout.size)
        )))
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
        Err(VolumeError::Option(if new.size > old.size {
            let fewer = if layout.replicas > 1 { ", or keep fewer copies (--replicas)" } else { "" };
            format!("{change}: {limit}; add members{fewer}")
        } else {
            let rest = self.ways_out(&layout, room);
            format!("{change}: then {limit}, and the size of the volume is {}; {rest}", shown(new.size))
        }))
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

    /// Describes how a volume that needs more room can get it.
    fn ways_out(&self, layout: &Layout, room: u64) -> String {
        let end = self.end();
        let fewer = if layout.replicas > 1 { ", or keep fewer copies (`volume set --replicas`)" } else { "" };
        let smaller = match room {
            0 => String::new(),
            room if end > room => format!(
                "shrink the filesystem, discard everything after it (the volume has data in its first {end} bytes), and \
                 make the volume smaller (`volume set --size {room}`), or "
            ),
            room => format!(
                "make the volume smaller (`volume set --size {room}`, after the filesystem on it), or "
            ),
        };
        format!("{smaller}add members{fewer}")
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
