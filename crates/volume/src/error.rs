//! The reasons why a volume cannot be created or opened.

use crate::keys::KeyError;
use flashlab_block::IoError;
use std::fmt;

/// The reason why a volume cannot be created or opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolumeError {
    /// An option is out of its range; the text names the option, its value and the range.
    Option(String),
    /// A member failed a request. The number is its place in the list of members given.
    Member {
        /// Place of the member in the list given.
        member: usize,
        /// Error of the request.
        error: IoError,
    },
    /// A member is too small for a volume.
    TooSmall {
        /// Place of the member in the list given.
        member: usize,
        /// Smallest size in bytes.
        needed: u64,
    },
    /// No copy of a member's superblock is valid.
    NoSuperblock {
        /// Place of the member in the list given.
        member: usize,
        /// Fault of the best copy.
        fault: String,
    },
    /// A member belongs to another volume than the first one.
    Foreign {
        /// Place of the member in the list given.
        member: usize,
    },
    /// A device was given twice, or a copy of a member beside the member.
    Duplicate {
        /// Place of the second one in the list given.
        member: usize,
    },
    /// Members are missing.
    Missing {
        /// Number of missing members.
        missing: usize,
        /// Number of members of the volume.
        of: usize,
    },
    /// A member returned in an older state than another member knows of it, for example from a backup.
    Stale {
        /// Place of the member in the list given.
        member: usize,
    },
    /// Two members were changed without each other, so that no common state exists.
    Diverged {
        /// Places of the members in the list given.
        members: (usize, usize),
    },
    /// Data of the volume has copies on missing members only.
    DataMissing {
        /// Number of missing members.
        missing: usize,
        /// Logical bytes without a copy.
        bytes: u64,
    },
    /// The number of a member names no member, or one that cannot be changed in this way.
    NoMember(String),
    /// A structure on the medium is damaged in all of its copies.
    Damaged(String),
    /// The volume is encrypted, and its key is not available.
    Key(KeyError),
    /// The superblock of a member was changed by somebody without the key.
    NotAuthentic {
        /// Place of the member in the list given.
        member: usize,
    },
}

impl fmt::Display for VolumeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VolumeError::Option(why) => f.write_str(why),
            VolumeError::Member { member, error } => write!(f, "member {member}: {error}"),
            VolumeError::TooSmall { member, needed } => {
                let mib = needed.div_ceil(1 << 20);
                write!(f, "member {member} is too small: a member has at least {mib} MiB")
            }
            VolumeError::NoSuperblock { member, fault } => {
                write!(f, "member {member} has no valid superblock: {fault}")
            }
            VolumeError::Foreign { member } => {
                write!(f, "member {member} belongs to another volume than member 0")
            }
            VolumeError::Duplicate { member } => {
                write!(f, "member {member} is given twice, or is a copy of another member given")
            }
            VolumeError::Missing { missing, of } => {
                write!(
                    f,
                    "{missing} of {of} members are missing; --degraded yes, or degraded=yes of serve and bench, opens the volume \
                     without them"
                )
            }
            VolumeError::Stale { member } => write!(
                f,
                "member {member} is in an older state than the other members know of it; without it, --degraded yes, or \
                 degraded=yes of serve and bench, opens the volume"
            ),
            VolumeError::Diverged { members: (a, b) } => write!(
                f,
                "members {a} and {b} were changed without each other; open the volume with one of them only"
            ),
            VolumeError::DataMissing { missing, bytes } => write!(
                f,
                "{bytes} bytes have copies on the {missing} missing members only; --degraded very, or degraded=very of \
                 serve and bench, opens the volume without them, and reads of these bytes fail"
            ),
            VolumeError::NoMember(why) => f.write_str(why),
            VolumeError::Damaged(what) => write!(f, "the volume is damaged: {what}"),
            VolumeError::Key(error) => error.fmt(f),
            VolumeError::NotAuthentic { member } => write!(
                f,
                "the superblock of member {member} does not agree with its authentication code: somebody without the key \
                 changed it"
            ),
        }
    }
}

impl std::error::Error for VolumeError {}
