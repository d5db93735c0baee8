//! Changes of the options and of the table of members.
//!
//! Except for [`Volume::set_member_state`], a change passes the gate of the volume alone: it waits for the
//! requests in flight, and further requests wait for the change. After a checkpoint, the change is written to
//! the superblocks of all present members, and takes effect at once. Requests then continue, while a further
//! checkpoint stores the map on members that newly have the journal. After a power loss during a change, the
//! superblock with the most changes counts, so a change happens completely or not at all.

use super::commit::Journal;
use super::gate::Closed;
use super::health::Health;
use super::statistics::Statistics;
use super::{Inner, Volume};
use crate::encode::{Compressor, Encoding};
use crate::error::shown;
use crate::extent::Extent;
use crate::format::{MEMBERS_MAX, MemberEntry, MemberState, Seen, Superblock};
use crate::layout::{self, Layout};
use crate::member::{self, Member};
use crate::options::check_level;
use crate::target;
use crate::{NewMember, VolumeError};
use flashlab_block::{Context, IoError};
use flashlab_sim::fault;
use std::sync::Arc;

/// A change of options. `None` or an empty list leaves an option as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Change {
    /// Number of copies that each extent should have.
    pub replicas: Option<u8>,
    /// Compression of new extents.
    pub compression: Option<Compressor>,
    /// Compression that background work applies.
    pub background_compression: Option<Compressor>,
    /// Target for new data.
    pub foreground: Option<String>,
    /// Target to which background work moves data.
    pub background: Option<String>,
    /// Target for cached copies.
    pub promote: Option<String>,
    /// Target for the journal and the checkpoints.
    pub metadata: Option<String>,
    /// Logical size in bytes; zero means all of the space.
    pub size: Option<u64>,
    /// New labels of members, by their numbers.
    pub labels: Vec<(u8, String)>,
    /// New durabilities of members, by their numbers.
    pub durability: Vec<(u8, u8)>,
    /// New states of members, by their numbers.
    pub states: Vec<(u8, MemberState)>,
}

/// Size of a volume after it gets another member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Growth {
    /// The volume takes all of the space.
    All,
    /// The volume keeps its size, so that the space is left for more copies.
    None,
}

/// The superblocks of a device that was removed from a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leftover {
    /// All copies were overwritten.
    Nothing,
    /// The device was absent or failed, so that its superblocks remain.
    Superblocks,
    /// The superblocks remain, with the wrapped key of an encrypted volume.
    Key,
}

impl Leftover {
    /// Returns a text with the task that is left to the user; empty if there is none.
    pub fn text(self) -> &'static str {
        match self {
            Leftover::Nothing => "",
            Leftover::Superblocks => "; its superblocks could not be overwritten",
            Leftover::Key => {
                "; its superblocks could not be overwritten, and contain the wrapped key of an encrypted volume: overwrite \
                 the device before you give it away"
            }
        }
    }
}

impl Volume {
    /// Changes options, while the volume answers requests.
    ///
    /// # Errors
    /// Returns [`VolumeError`] if an option is out of range or names no member, or if no member can be written. An option
    /// that is out of range changes nothing.
    pub async fn set(&self, cx: &Context, change: &Change) -> Result<(), VolumeError> {
        let closed = self.gate.close().await;
        configure(closed, cx, None, |inner, table| change.apply(inner, table)).await
    }

    /// Changes the state of a member at once, while the volume answers requests. Background work then moves the data of an
    /// evacuating member, and the journal goes to another member if one can take it.
    ///
    /// # Errors
    /// Returns [`VolumeError`] if there is no such member, if no member would take data any more, or if no member can be
    /// written. In the first two cases, nothing changes.
    pub async fn set_member_state(
        &self,
        cx: &Context,
        member: u8,
        state: MemberState,
    ) -> Result<(), VolumeError> {
        let inner = self.gate.pass().await;
        if inner.read_only {
            return Err(VolumeError::Unchangeable(IoError::ReadOnly));
        }
        check_state(state)?;
        let mut journal = inner.journal.lock().await;
        inner.change_state(member, state)?;
        // The commit records the state in the superblocks, even in that of a member without a journal, before the
        // checkpoint.
        inner.commit_batch(cx, &mut journal, true).await.map_err(VolumeError::Unchangeable)
    }

    /// Adds a device as another member, with the random identifier `id`, while the volume answers requests. All
    /// contents of the device are lost. Returns the number of the member.
    ///
    /// # Errors
    /// Returns [`VolumeError`] if the device does not fit the volume or cannot be written, or if the table is full. If the
    /// device cannot be written, the volume goes on without it.
    pub async fn add(
        &self,
        cx: &Context,
        new: &NewMember,
        id: [u8; 16],
        growth: Growth,
    ) -> Result<u8, VolumeError> {
        let place_in = |members: &[Member]| {
            let free = members.iter().position(|member| member.entry.state == MemberState::Removed);
            free.unwrap_or(members.len())
        };
        // A device that does not answer must not hold up the requests of clients.
        let inner = self.gate.current();
        let failed = |error| VolumeError::Member { member: place_in(&inner.members), error };
        let block = vec![0; inner.layout.block as usize];
        member::read(&*new.device, cx, 0, block).await.map_err(failed)?;
        member::flush(&*new.device, cx).await.map_err(failed)?;
        let closed = self.gate.close().await;
        let place = place_in(&closed.members);
        if place == MEMBERS_MAX {
            return Err(VolumeError::NoMember(format!("a volume has at most {MEMBERS_MAX} members")));
        }
        let entry = layout::entry(&closed.layout, place, new, id)?;
        configure(closed, cx, Some((new, place)), |inner, table| {
            match table.members.get_mut(place) {
                Some(old) => *old = entry.clone(),
                None => table.members.push(entry.clone()),
            }
            if growth == Growth::All {
                table.size = table.size.max(inner.room_of(table, Some(place)));
            }
            Ok(())
        })
        .await?;
        Ok(place as u8)
    }

    /// Removes a member that holds no data any more, while the volume answers requests: its data was evacuated, or
    /// other members have copies of it. The volume no longer uses the device. When the change is durable on the other
    /// members, the superblocks of the device are overwritten, because they still contain the wrapped master
    /// key of the volume.
    ///
    /// # Errors
    /// Returns [`VolumeError::NoMember`] if the member has the only copies of data or of the journal, or if the others have
    /// no room for all copies of the volume.
    pub async fn remove(&self, cx: &Context, member: u8) -> Result<Leftover, VolumeError> {
        let closed = self.gate.close().await;
        if closed.read_only {
            return Err(VolumeError::Unchangeable(IoError::ReadOnly));
        }
        closed.check_removal(member)?;
        closed.drop_copies_on(member)?;
        let device = closed.members[usize::from(member)].device.clone();
        let remaining = if closed.layout.is_encrypted { Leftover::Key } else { Leftover::Superblocks };
        configure(closed, cx, None, |inner, table| {
            let entry = table.members.get_mut(usize::from(member));
            let entry = entry.ok_or_else(|| no_member(member))?;
            (entry.state, entry.metadata) = (MemberState::Removed, false);
            let is_journal = inner.lock().health[usize::from(member)].metadata;
            if is_journal && inner.members[usize::from(member)].present {
                return Err(VolumeError::NoMember(format!(
                    "member {member} has the journal; evacuate it first, with another member that can take it"
                )));
            }
            Ok(())
        })
        .await?;
        let is_erased = fault("volume-keeps-the-key-of-a-removed-member")
            || member::erase_superblocks(&*device, cx).await.is_ok();
        Ok(if is_erased { Leftover::Nothing } else { remaining })
    }
}

impl Change {
    fn apply(&self, inner: &Inner, table: &mut Superblock) -> Result<(), VolumeError> {
        let old = table.clone();
        let texts = [
            (&self.foreground, &mut table.targets.foreground),
            (&self.background, &mut table.targets.background),
            (&self.promote, &mut table.targets.promote),
            (&self.metadata, &mut table.targets.metadata),
        ];
        for (new, target) in texts {
            if let Some(new) = new {
                target.clone_from(new);
            }
        }
        table.replicas = self.replicas.unwrap_or(table.replicas);
        table.compression = self.compression.unwrap_or(table.compression);
        table.background_compression = self.background_compression.unwrap_or(table.background_compression);
        check_level("compression", table.compression)?;
        check_level("background_compression", table.background_compression)?;
        let current = |table: &mut Superblock, n: u8| match table.members.get(usize::from(n)) {
            Some(entry) if entry.state != MemberState::Removed => Ok(usize::from(n)),
            _ => Err(no_member(n)),
        };
        for (n, label) in &self.labels {
            target::check_label(label)?;
            let n = current(table, *n)?;
            table.members[n].label.clone_from(label);
        }
        for (n, durability) in &self.durability {
            let n = current(table, *n)?;
            table.members[n].durability = *durability;
        }
        for (n, state) in &self.states {
            let n = current(table, *n)?;
            check_state(*state)?;
            table.members[n].state = *state;
        }
        table.targets.check_change(&table.members, (&old.targets, &old.members))?;
        if !table.members.iter().any(MemberEntry::takes_data) {
            return Err(no_member_left());
        }
        self.replicas.map_or(Ok(()), |replicas| layout::check_replicas(replicas, &table.members))?;
        match self.size {
            None => {}
            Some(0) => table.size = table.size.max(inner.room_of(table, None)),
            Some(size) if size < inner.end() => {
                let (size, end) = (shown(size), inner.end());
                return Err(VolumeError::Option(format!(
                    "size={size}: the volume has data in its first {end} bytes; shrink the filesystem, and discard \
                     everything after it"
                )));
            }
            Some(size) => {
                layout::check_multiple(&Layout::of(table), size)?;
                table.size = size;
            }
        }
        match self {
            Change { size: Some(size), .. } if *size > 0 => {
                inner.check_room(&format!("size={}", shown(*size)), &old, table)
            }
            Change { replicas: Some(replicas), .. } => {
                inner.check_room(&format!("replicas={replicas}"), &old, table)
            }
            Change { durability, .. } if !durability.is_empty() => {
                inner.check_room("durability", &old, table)
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a member can be set to a state.
fn check_state(state: MemberState) -> Result<(), VolumeError> {
    match state {
        MemberState::Removed => Err(VolumeError::Option("state=removed: remove the member instead".into())),
        _ => Ok(()),
    }
}

fn no_member_left() -> VolumeError {
    VolumeError::Option("no member would take data any more".into())
}

pub(super) fn no_member(member: u8) -> VolumeError {
    VolumeError::NoMember(format!("there is no member {member}"))
}

impl Inner {
    /// Changes the state of a member in memory. The next commit records it.
    fn change_state(&self, member: u8, new: MemberState) -> Result<(), VolumeError> {
        let n = usize::from(member);
        let mut locked = self.lock();
        let known = locked.health.get(n).is_some_and(|health| health.state != MemberState::Removed);
        if !known {
            return Err(no_member(member));
        }
        let takes = |(other, health): (usize, &super::health::Health)| {
            let state = if other == n { new } else { health.state };
            let Member { present, entry, .. } = &self.members[other];
            *present && entry.takes_data_in(state)
        };
        if !locked.health.iter().enumerate().any(takes) {
            return Err(no_member_left());
        }
        let health = &mut locked.health[n];
        (health.state, health.unrecorded) = (new, true);
        self.update_writable(&mut locked, None);
        // This change has no records. It only makes background work look at the extents again.
        locked.changes.begin().map_err(VolumeError::Unchangeable)?;
        locked.changes.end();
        Ok(())
    }

    /// Returns the first byte after all data.
    pub(super) fn end(&self) -> u64 {
        self.lock().map.end() * u64::from(self.layout.block)
    }

    /// Removes the copies on a member from all extents. Fails if an extent does not have enough other copies.
    fn drop_copies_on(&self, member: u8) -> Result<(), VolumeError> {
        if usize::from(member) >= self.members.len() {
            return Err(no_member(member));
        }
        let mut state = self.lock();
        let is_on = |extent: &&Extent| extent.pointers().iter().any(|pointer| pointer.member == member);
        let affected: Vec<Extent> = state.map.iter().filter(is_on).cloned().collect();
        let mut rest = Vec::new();
        for extent in &affected {
            let kept: Vec<_> =
                extent.pointers().iter().filter(|pointer| pointer.member != member).copied().collect();
            let there: Vec<_> = kept
                .iter()
                .filter(|pointer| self.members[usize::from(pointer.member)].present)
                .copied()
                .collect();
            let had = state.allocator.durability(&extent.pointers()).min(usize::from(self.layout.replicas));
            let needed = if self.members[usize::from(member)].present { had } else { 1 };
            if state.allocator.durability(&there) < needed.max(1) {
                return Err(VolumeError::NoMember(format!(
                    "member {member} has copies of data that others lack; evacuate it first"
                )));
            }
            rest.push(extent.with_pointers(&kept));
        }
        let position = state.changes.begin().map_err(VolumeError::Unchangeable)?;
        for extent in rest {
            state.remap(extent, position, self.layout.block);
        }
        state.changes.end();
        Ok(())
    }

    /// Writes the superblock of a new member, with the changed table. Returns the superblock.
    async fn write_new(
        &self,
        cx: &Context,
        journal: &Journal,
        table: &Superblock,
        (new, place): (&NewMember, usize),
    ) -> Result<Superblock, VolumeError> {
        // The place may have belonged to another member, whose clock other members recorded.
        let mut seen = self.seen(journal);
        seen.resize(table.members.len(), Seen::default());
        let known = &mut seen[place];
        known.shared = known.shared.max(known.clock) + 1;
        let superblock = Superblock {
            member: place as u8,
            sequence: 1,
            clock: known.shared,
            changes: journal.changes,
            newest_checkpoint: journal.newest_checkpoint(),
            seen,
            root: crate::format::Root { checkpoint: 0, first: None, runs: 0, ..table.root },
            ..table.clone()
        };
        let keyring = self.encoding.keyring.as_ref();
        let written = member::write_superblock(&*new.device, cx, &superblock, keyring).await;
        written.map_err(|error| VolumeError::Member { member: place, error })?;
        Ok(superblock)
    }

    /// Writes a changed table to all present members. Returns false if one of them failed.
    async fn write_table(
        &self,
        cx: &Context,
        journal: &mut Journal,
        table: &Superblock,
    ) -> Result<bool, VolumeError> {
        {
            let mut state = self.lock();
            for (health, entry) in state.health.iter_mut().zip(&table.members) {
                (health.state, health.metadata) = (entry.state, entry.metadata);
            }
        }
        for superblock in &mut journal.superblocks {
            superblock.members.clone_from(&table.members);
            superblock.targets.clone_from(&table.targets);
            superblock.replicas = table.replicas;
            superblock.compression = table.compression;
            superblock.background_compression = table.background_compression;
            superblock.size = table.size;
        }
        let is_there = |n: &u8| {
            let n = usize::from(*n);
            self.members[n].present && table.members[n].state != MemberState::Removed
        };
        let present: Vec<u8> = (0..self.members.len() as u8).filter(is_there).collect();
        let results = self.write_superblocks(cx, journal, &present).await;
        journal.lose(&present, &results).map_err(VolumeError::Unchangeable)?;
        Ok(results.iter().all(Result::is_ok))
    }

    /// Returns the volume with a changed table. No request is in flight.
    fn with_table(&self, table: &Superblock, new: Option<(&NewMember, usize)>) -> Inner {
        let layout = Layout::of(table);
        let (mut members, mut statistics) = (self.members.clone(), self.statistics.clone());
        if let Some((new, place)) = new {
            let member =
                Member { device: new.device.clone(), entry: table.members[place].clone(), present: true };
            insert(&mut members, place, member);
            insert(&mut statistics, place, Arc::new(Statistics::default()));
        }
        for (member, entry) in members.iter_mut().zip(&table.members) {
            match entry.state {
                MemberState::Removed => *member = Member::absent(entry.clone()),
                _ => member.entry = entry.clone(),
            }
        }
        let encoding = Encoding { compressor: layout.compression, ..(*self.encoding).clone() };
        let core = self.core.clone();
        {
            let mut state = core.lock();
            if let Some((_, place)) = new {
                insert(&mut state.health, place, Health::new(&table.members[place]));
            }
            state.allocator.reconfigure(layout, &table.members);
        }
        Inner { layout, members, encoding: Arc::new(encoding), statistics, core }
    }
}

/// Replaces an item of a list, or adds one at its end.
fn insert<T>(list: &mut Vec<T>, place: usize, item: T) {
    match list.get_mut(place) {
        Some(old) => *old = item,
        None => list.push(item),
    }
}

/// Stores a checkpoint, and then the changed table in the superblocks. If the change adds a member, `new` is
/// the member and its place, and its superblock is written first. Then lets requests continue with the
/// change, and stores another checkpoint.
async fn configure(
    mut closed: Closed,
    cx: &Context,
    new: Option<(&NewMember, usize)>,
    change: impl FnOnce(&Inner, &mut Superblock) -> Result<(), VolumeError>,
) -> Result<(), VolumeError> {
    let inner = Arc::clone(&closed);
    if inner.read_only {
        return Err(VolumeError::Unchangeable(IoError::ReadOnly));
    }
    let mut journal = inner.checkpoint(cx).await.map_err(VolumeError::Unchangeable)?;
    // Without a checkpoint, the journal may still refer to a member or to blocks that the change removes. A new member
    // makes room for the next checkpoint.
    if journal.checkpoint_needs > 0 && new.is_none() {
        return Err(VolumeError::Unchangeable(IoError::NoSpace));
    }
    let background_compression = inner.layout.background_compression;
    let first = inner.journal_members(&journal).first().copied();
    let first = first.ok_or(VolumeError::Unchangeable(IoError::Medium))?;
    let mut table = journal.superblocks[usize::from(first)].clone();
    change(&inner, &mut table)?;
    let metadata = target::members_for(&table.targets.metadata, &table.members);
    layout::choose_metadata(&mut table.members, table.replicas, metadata);
    let had_journal = inner.journal_members(&journal);
    journal.changes += 1;
    let is_late = fault("volume-adds-a-member-late");
    let mut joined = None;
    if let Some(new) = new.filter(|_| !is_late) {
        match inner.write_new(cx, &journal, &table, new).await {
            Ok(superblock) => joined = Some(superblock),
            Err(error) => {
                // The table on the other members has to be newer than the one that the device may have
                // received.
                journal.changes += 1;
                let recorded = inner.record_members(cx, &mut journal).await;
                return Err(recorded.map_or_else(VolumeError::Unchangeable, |()| error));
            }
        }
    }
    let is_written = inner.write_table(cx, &mut journal, &table).await;
    // If every write failed, it is unknown whether a member has the new table.
    let is_complete = is_written.inspect_err(|_| inner.lock().changes.fail(IoError::Medium))?;
    if let Some(new) = new.filter(|_| is_late) {
        joined = Some(inner.write_new(cx, &journal, &table, new).await?);
    }
    if let Some((superblock, (_, place))) = joined.zip(new) {
        let (clock, shared) = (superblock.clock, superblock.clock);
        insert(&mut journal.seen, place, Seen { clock, shared, absent: false });
        journal.lost.remove(place);
        insert(&mut journal.superblocks, place, superblock);
    }
    closed.replace(inner.with_table(&table, new));
    let inner = Arc::clone(&closed);
    {
        let mut state = inner.lock();
        inner.update_writable(&mut state, None);
        if inner.layout.background_compression != background_compression {
            // The marks hold only for the former compression. A power loss before the next checkpoint
            // restores the marks.
            state.map.forget_incompressible();
        }
        // This change has no records. It only makes background work look at the extents again.
        state.changes.begin().map_err(VolumeError::Unchangeable)?;
        state.changes.end();
        for (n, health) in (0u8..).zip(&state.health) {
            // Members that newly have the journal need a checkpoint first.
            if health.metadata && !had_journal.contains(&n) {
                journal.lost.insert(n);
            }
        }
    }
    drop(closed);
    if !is_complete {
        inner.record_members(cx, &mut journal).await.map_err(VolumeError::Unchangeable)?;
    }
    inner.commit_batch(cx, &mut journal, true).await.map_err(VolumeError::Unchangeable)
}
