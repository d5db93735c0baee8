//! Reader and writer of fio's iologs, versions 2 and 3, which record requests.
//!
//! Version 3, which fio 3.33 writes, begins every line with a time in microseconds. (The unit was measured on
//! fio, since its manual does not name it.) A replay preserves the differences between these times, even if
//! the replay is late. Version 2 has `wait` lines instead. The manual describes the number on such a line as
//! microseconds since the previous `wait`. Measurements show that fio 3.33 waits until that many
//! *milliseconds* have passed since the start, and so does a replay here.

mod error;
mod read;
mod write;

pub use error::{IologError, IologProblem};
pub use read::IologReader;
pub use write::{IologRecorder, IologWriter};

use flashlab_sim::Duration;

/// Version of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// `fio version 2 iolog`, with `wait` lines.
    Two,
    /// `fio version 3 iolog`, with a time on every line.
    Three,
}

impl Version {
    /// Returns the first line of an iolog.
    pub const fn header(self) -> &'static str {
        match self {
            Version::Two => "fio version 2 iolog",
            Version::Three => "fio version 3 iolog",
        }
    }
}

/// The action of a line. Opening and closing files takes no time here, so an [`Iolog`] does not contain these actions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Read the range.
    Read,
    /// Write the range.
    Write,
    /// Trim the range.
    Trim,
    /// `fsync`.
    Sync,
    /// `fdatasync`.
    DataSync,
}

impl Action {
    const ALL: [Action; 5] = [Action::Read, Action::Write, Action::Trim, Action::Sync, Action::DataSync];

    /// Returns the name of the action in an iolog.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Read => "read",
            Action::Write => "write",
            Action::Trim => "trim",
            Action::Sync => "sync",
            Action::DataSync => "datasync",
        }
    }

    /// Returns true if the action is a flush, whose range has no meaning.
    pub const fn is_flush(self) -> bool {
        matches!(self, Action::Sync | Action::DataSync)
    }
}

/// One request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// In version 3: recorded time since the first line after the header, never less than that of an earlier
    /// entry. In version 2: earliest time of the request, counted from the start of a replay.
    pub at: Duration,
    /// Action of the request.
    pub action: Action,
    /// Index of the file in [`Iolog::files`].
    pub file: u32,
    /// First byte of the request.
    pub offset: u64,
    /// Length of the request in bytes.
    pub length: u64,
}

/// A parsed iolog.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Iolog {
    /// Version of the format.
    pub version: Version,
    /// Names of the files, in the order of their `add` lines.
    pub files: Vec<String>,
    /// Requests in order. Their times do not decrease.
    pub entries: Vec<Entry>,
}
