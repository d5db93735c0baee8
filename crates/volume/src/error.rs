//! The reasons why a volume cannot be created, opened or changed.

use crate::keys::KeyError;
use flashlab_block::IoError;
use std::fmt;

/// The reason why a volume cannot be created, opened or changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeError {
    /// An option is out of its range; the text names the option, its value and the range.
    Option(String),
    /// A member failed a request.
    Member {
        /// Index of the device in the list that the caller passed, or its number in an open volume.
        member: usize,
        /// Error of the request.
        error: IoError,
    },
    /// A member is too small for a volume.
    TooSmall {
        /// Index of the device in the list that the caller passed, or its number in an open volume.
        member: usize,
        /// Smallest size in bytes.
        needed: u64,
    },
    /// No copy of a member's superblock is valid.
    NoSuperblock {
        /// Index of the device in the list that the caller passed.
        member: usize,
        /// Fault of the first copy.
        fault: String,
    },
    /// A member belongs to another volume than the first member that was read.
    Foreign {
        /// Index of the device in the list that the caller passed.
        member: usize,
        /// Index of the first member that was read.
        first: usize,
    },
    /// A device was given twice, or a member was given together with a copy of it.
    Duplicate {
        /// Index of the second device in the list that the caller passed.
        member: usize,
    },
    /// A device was removed from the volume, or another member took its place.
    Removed {
        /// Index of the device in the list that the caller passed.
        member: usize,
        /// Number that the device had as a member.
        number: u8,
    },
    /// Members are missing.
    Missing {
        /// The missing members.
        missing: Vec<MissingMember>,
        /// Number of members of the volume.
        of: usize,
    },
    /// A member is in an older state than another member recorded for it, for example because it was restored from a
    /// backup.
    Stale {
        /// Index of the device in the list that the caller passed.
        member: usize,
    },
    /// Two members were changed independently of each other (split brain), so no common state exists.
    Diverged {
        /// Indices of the devices in the list that the caller passed.
        members: (usize, usize),
    },
    /// Data of the volume has copies on missing members only.
    DataMissing {
        /// The missing members.
        missing: Vec<MissingMember>,
        /// Logical bytes whose copies, apart from cached ones, are all on missing members.
        bytes: u64,
    },
    /// No present member has the current journal.
    JournalMissing {
        /// The missing members that have a journal.
        missing: Vec<MissingMember>,
    },
    /// There is no member with the given number, or it cannot be changed in this way.
    NoMember(String),
    /// The members would not have the room for all copies of the volume.
    NoRoom {
        /// The change that is refused, and the reason with its numbers.
        why: String,
        /// The ways to get the room, apart from further members.
        remedies: Remedies,
    },
    /// A structure on the medium is damaged in all of its copies.
    Damaged(String),
    /// The volume accepts no changes, because it is read-only or full, or because requests to its members failed.
    Unchangeable(IoError),
    /// The volume is encrypted, and its key is not available.
    Key(KeyError),
    /// The superblock of a member was changed by somebody without the key.
    NotAuthentic {
        /// Index of the device in the list that the caller passed.
        member: usize,
    },
}

/// Changes after which a volume may have the room that a refused change needs. Further members are always another way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Remedies {
    /// Largest number of copies that may fit; `None` if the volume has one copy already.
    pub copies: Option<u8>,
    /// A smaller size of the volume; `None` if no size fits.
    pub size: Option<SmallerSize>,
}

/// A size for which a volume has room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SmallerSize {
    /// The size in bytes.
    pub bytes: u64,
    /// First byte after all data of the volume. If it is beyond the size, data has to be moved or discarded first.
    pub data_end: u64,
}

/// A member that a volume lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MissingMember {
    /// Number of the member.
    pub number: u8,
    /// Label of the member.
    pub label: String,
}

impl fmt::Display for MissingMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MissingMember { number, label } = self;
        if label.is_empty() { write!(f, "{number}") } else { write!(f, "{number} ({label})") }
    }
}

/// Lists missing members by their numbers and labels.
fn list(missing: &[MissingMember]) -> String {
    let names: Vec<String> = missing.iter().map(MissingMember::to_string).collect();
    format!("{} {}", if names.len() == 1 { "member" } else { "members" }, names.join(", "))
}

/// Writes a number of bytes with a binary unit and at most one decimal, rounded down.
pub(crate) fn shown(bytes: u64) -> String {
    let units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = (0..units.len()).rev().find(|unit| bytes >> (10 * unit) > 0).unwrap_or(0);
    let whole = bytes >> (10 * unit);
    let tenths = ((u128::from(bytes) * 10) >> (10 * unit)) % 10;
    let name = units[unit];
    if tenths == 0 { format!("{whole} {name}") } else { format!("{whole}.{tenths} {name}") }
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe(&|member| format!("member {member}")))
    }
}

impl VolumeError {
    /// Returns true if a change that failed with this error may be in effect all the same, or may be after the next
    /// opening.
    pub fn may_be_in_effect(&self) -> bool {
        matches!(self, VolumeError::Unchangeable(_))
    }

    /// Returns the text of the error. `name` returns the name of a device by its index in the list that the caller
    /// passed.
    pub fn describe(&self, name: &dyn Fn(usize) -> String) -> String {
        match self {
            VolumeError::Option(why) | VolumeError::NoMember(why) | VolumeError::NoRoom { why, .. } => {
                why.clone()
            }
            VolumeError::Member { member, error } => format!("{}: {error}", name(*member)),
            VolumeError::TooSmall { member, needed } => {
                let mib = needed.div_ceil(1 << 20);
                format!("{} is too small: a member needs at least {mib} MiB", name(*member))
            }
            VolumeError::NoSuperblock { member, fault } => {
                format!("{} has no valid superblock: {fault}", name(*member))
            }
            VolumeError::Foreign { member, first } => {
                format!("{} belongs to another volume than {}", name(*member), name(*first))
            }
            VolumeError::Duplicate { member } => {
                format!("{} is given twice, or is a copy of another member given", name(*member))
            }
            VolumeError::Removed { member, number } => format!(
                "{} was removed from this volume, of which it was member {number}; leave it out",
                name(*member)
            ),
            VolumeError::Missing { missing, of } => {
                let are = if missing.len() == 1 { "is" } else { "are" };
                format!("{} of {of} members {are} missing: {}", missing.len(), list(missing))
            }
            VolumeError::Stale { member } => {
                format!("{} is older than the state that the other members recorded for it", name(*member))
            }
            VolumeError::Diverged { members: (a, b) } => format!(
                "{} and {} were changed independently of each other; open the volume with only one of them",
                name(*a),
                name(*b)
            ),
            VolumeError::DataMissing { missing, bytes } => {
                format!("{} of data has copies only on missing members ({})", shown(*bytes), list(missing),)
            }
            VolumeError::JournalMissing { missing } => {
                format!(
                    "no present member has the current journal, which is on missing members ({})",
                    list(missing)
                )
            }
            VolumeError::Damaged(what) => format!("the volume is damaged: {what}"),
            VolumeError::Unchangeable(error) => format!("the volume cannot be changed: {error}"),
            VolumeError::Key(error) => error.to_string(),
            VolumeError::NotAuthentic { member } => format!(
                "the superblock of {} does not match its authentication code: it was changed without the key",
                name(*member)
            ),
        }
    }
}

impl std::error::Error for VolumeError {}

#[cfg(test)]
mod tests {
    use super::{MissingMember, Remedies, VolumeError, shown};

    /// A program adds the way out in its own terms.
    #[test]
    fn errors_about_members_and_room_name_no_option_of_a_program() {
        let missing = |number| MissingMember { number, label: "ssd".into() };
        let errors = [
            VolumeError::Missing { missing: vec![missing(1)], of: 2 },
            VolumeError::Missing { missing: vec![missing(1), missing(2)], of: 3 },
            VolumeError::Stale { member: 0 },
            VolumeError::DataMissing { missing: vec![missing(3)], bytes: 1536 },
            VolumeError::NoRoom {
                why: "replicas=3: then 1 GiB fits".into(),
                remedies: Remedies { copies: Some(2), size: None },
            },
            VolumeError::JournalMissing { missing: vec![missing(3)] },
        ];
        assert_eq!(
            errors.map(|error| error.to_string()),
            [
                "1 of 2 members is missing: member 1 (ssd)",
                "2 of 3 members are missing: members 1 (ssd), 2 (ssd)",
                "member 0 is older than the state that the other members recorded for it",
                "1.5 KiB of data has copies only on missing members (member 3 (ssd))",
                "replicas=3: then 1 GiB fits",
                "no present member has the current journal, which is on missing members (member 3 (ssd))",
            ]
        );
    }

    #[test]
    fn sizes_are_rounded_down_to_a_tenth_of_their_unit() {
        let sizes = [0, 1023, 1536, 49_774_592, 10 << 30, u64::MAX].map(shown);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1.5 KiB", "47.4 MiB", "10 GiB", "15.9 EiB"]);
    }
}
