//! fio's iologs: requests as they were made, versions 2 and 3, read and written.
//!
//! Version 3, which fio 3.33 writes, begins every line with microseconds; a replay keeps the differences, also where it is
//! late (so fio was measured to do, though its manual does not name the unit). Version 2 has `wait` lines instead. The manual calls
//! their number microseconds since the previous one; fio 3.33 was measured to wait until that many *milliseconds* have
//! passed since the start, and so does a replay here.

mod error;
mod read;
mod write;

pub use error::{IologError, IologProblem};
pub use write::{IologWriter, Recording};

use flashlab_sim::Duration;

/// Which format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// `fio version 2 iolog`
    Two,
    /// `fio version 3 iolog`, with a time on every line.
    Three,
}

impl Version {
    /// The first line.
    pub const fn header(self) -> &'static str {
        match self {
            Version::Two => "fio version 2 iolog",
            Version::Three => "fio version 3 iolog",
        }
    }
}

/// What a line asks for. Opening and closing files takes no time here, and is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read the range.
    Read,
    /// Write the range.
    Write,
    /// Trim the range.
    Trim,
    /// fsync
    Sync,
    /// fdatasync
    DataSync,
}

impl Action {
    const ALL: [Action; 5] = [Action::Read, Action::Write, Action::Trim, Action::Sync, Action::DataSync];

    /// As iologs call it.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Read => "read",
            Action::Write => "write",
            Action::Trim => "trim",
            Action::Sync => "sync",
            Action::DataSync => "datasync",
        }
    }

    /// Whether it is a flush, whose range means nothing.
    pub const fn is_flush(self) -> bool {
        matches!(self, Action::Sync | Action::DataSync)
    }
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When it was recorded, since the first line; in version 2 how long after the start of a replay it comes at the
    /// earliest.
    pub at: Duration,
    /// What.
    pub action: Action,
    /// Which file, as an index of [`Iolog::files`].
    pub file: u32,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// An iolog that was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Iolog {
    /// Its format.
    pub version: Version,
    /// The files in the order in which they were added.
    pub files: Vec<String>,
    /// The requests in order; their times do not decrease.
    pub entries: Vec<Entry>,
}
