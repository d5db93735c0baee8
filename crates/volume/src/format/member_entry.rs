//! The table of members in the superblock.

use super::Fault;
use super::wire::{Get, Put};

/// Length of a label in bytes, with at least one zero at its end.
const LABEL: usize = 32;

/// State of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum MemberState {
    /// The member takes new data.
    #[default]
    Rw = 0,
    /// The member serves reads, and takes no new data.
    Ro = 1,
    /// Background work moves all data to other members.
    Evacuating = 2,
    /// The member takes data only if the other members are too few for all copies.
    Spare = 3,
    /// The place in the table is free.
    Removed = 4,
}

impl MemberState {
    /// All states.
    pub const ALL: [MemberState; 5] =
        [MemberState::Rw, MemberState::Ro, MemberState::Evacuating, MemberState::Spare, MemberState::Removed];

    /// Returns the name of the state, as commands show it.
    pub fn name(self) -> &'static str {
        match self {
            MemberState::Rw => "rw",
            MemberState::Ro => "ro",
            MemberState::Evacuating => "evacuating",
            MemberState::Spare => "spare",
            MemberState::Removed => "removed",
        }
    }
}

/// Numbers of errors of a member since it joined the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ErrorCounts {
    /// Reads that failed.
    pub read: u32,
    /// Writes and flushes that failed.
    pub write: u32,
    /// Copies that did not agree with their checksum or tag.
    pub checksum: u32,
}

/// A member in the table of members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberEntry {
    /// Identifier of the member, unique within the volume.
    pub id: [u8; 16],
    /// Number of buckets.
    pub buckets: u32,
    /// Number of copies that one copy on this member counts as; 0 for a member with cached copies only.
    pub durability: u8,
    /// True if the member is to have the journal and the checkpoints.
    pub metadata: bool,
    /// Label of the member.
    pub label: String,
    /// State of the member.
    pub state: MemberState,
    /// Errors of the member.
    pub errors: ErrorCounts,
}

/// Knowledge that a superblock has about a member: an entry of its vector clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Largest clock of the member that is known to be durable on it.
    pub clock: u64,
    /// Largest clock of the member that the owner of the superblock knows. The owner took part in the change
    /// under this clock, or learned of the clock later.
    pub shared: u64,
    /// True if the volume has since been changed without the member.
    pub absent: bool,
}

impl MemberEntry {
    /// Returns true if the member takes data that counts as a copy, even if only when the other members are
    /// too few.
    pub(crate) fn takes_data(&self) -> bool {
        self.takes_data_in(self.state)
    }

    /// Returns true if the member would take data that counts as a copy if it were in this state.
    pub(crate) fn takes_data_in(&self, state: MemberState) -> bool {
        matches!(state, MemberState::Rw | MemberState::Spare) && self.durability > 0
    }

    pub(super) fn encode(&self, seen: Seen, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.id);
        bytes.u32(self.buckets);
        bytes.u8(self.durability);
        bytes.u8(u8::from(self.metadata));
        bytes.u8(self.state as u8);
        bytes.u8(u8::from(seen.absent));
        encode_label(&self.label, bytes);
        let ErrorCounts { read, write, checksum } = self.errors;
        [read, write, checksum].into_iter().for_each(|count| bytes.u32(count));
        bytes.u64(seen.clock);
        bytes.u64(seen.shared);
    }

    pub(super) fn decode(get: &mut Get<'_>) -> Result<(MemberEntry, Seen), Fault> {
        let (id, buckets, durability) = (get.array()?, get.u32()?, get.u8()?);
        let metadata = get.flag("metadata")?;
        let state = usize::from(get.u8()?);
        let state = MemberState::ALL.get(state).copied().ok_or(Fault::Field("state"))?;
        let absent = get.flag("absent")?;
        let label = decode_label(get)?;
        let errors = ErrorCounts { read: get.u32()?, write: get.u32()?, checksum: get.u32()? };
        let entry = MemberEntry { id, buckets, durability, metadata, label, state, errors };
        Ok((entry, Seen { clock: get.u64()?, shared: get.u64()?, absent }))
    }
}

/// Encodes a label or target, padded with zeroes.
pub(super) fn encode_label(label: &str, bytes: &mut Vec<u8>) {
    assert!(label.len() < LABEL, "labels and targets were checked when they were set");
    let end = bytes.len() + LABEL;
    bytes.extend_from_slice(label.as_bytes());
    bytes.resize(end, 0);
}

/// Decodes a label or target.
pub(super) fn decode_label(get: &mut Get<'_>) -> Result<String, Fault> {
    let label: [u8; LABEL] = get.array()?;
    let length = label.iter().position(|byte| *byte == 0).ok_or(Fault::Field("label"))?;
    if label[length..].iter().any(|byte| *byte != 0) {
        return Err(Fault::Field("label"));
    }
    String::from_utf8(label[..length].to_vec()).map_err(|_| Fault::Field("label"))
}
