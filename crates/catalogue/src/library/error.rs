//! Errors of a library, and of names looked up in it.

use crate::profile::{Kind, ProfileError, did_you_mean};
use std::fmt;

/// An error that makes a library unusable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LibraryError {
    /// A profile is invalid.
    Profile(ProfileError),
    /// A file or folder cannot be read.
    CannotRead {
        /// Path of the file or folder.
        path: String,
        /// Error text of the operating system.
        why: String,
    },
    /// A file is too large to be part of a library.
    TooLarge {
        /// Path of the file.
        path: String,
        /// Maximum size in bytes.
        most: u64,
    },
    /// A folder is nested too deeply or contains too many files.
    TooDeep {
        /// Path of the folder.
        path: String,
    },
    /// The folder contains neither profiles nor experiments.
    NotALibrary {
        /// Path of the folder.
        path: String,
    },
    /// The name exists already.
    DuplicateName {
        /// The name.
        name: String,
        /// Path of the second profile or experiment.
        path: String,
        /// Path of the first one.
        first: String,
    },
    /// The file's name contains characters that a device argument cannot contain.
    BadName {
        /// The file.
        path: String,
    },
    /// The profile is in the folder of another kind.
    Misplaced {
        /// The file.
        path: String,
        /// The kind that the profile describes.
        kind: Kind,
        /// The folder for profiles of that kind.
        folder: &'static str,
    },
    /// An experiment's folder lacks `experiment.toml`.
    NoExperiment {
        /// The folder.
        path: String,
    },
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LibraryError::Profile(error) => error.fmt(f),
            LibraryError::CannotRead { path, why } => write!(f, "{path}: cannot be read: {why}"),
            LibraryError::TooLarge { path, most } => {
                write!(f, "{path}: longer than {most} bytes; a library holds short text files")
            }
            LibraryError::TooDeep { path } => {
                write!(f, "{path}: too many files or folders; a library has profiles/ and experiments/ only")
            }
            LibraryError::NotALibrary { path } => {
                write!(f, "{path}: not a library; expected a folder that contains profiles/ or experiments/")
            }
            LibraryError::DuplicateName { name, path, first } => {
                write!(f, "{path}: {name} exists already, in {first}; choose another name")
            }
            LibraryError::BadName { path } => {
                write!(
                    f,
                    "{path}: a name may contain only a to z, 0 to 9, `-`, `_` and `.`; rename the file or folder"
                )
            }
            LibraryError::Misplaced { path, kind, folder } => {
                write!(f, "{path}: describes {}; expected it in profiles/{folder}", kind.noun())
            }
            LibraryError::NoExperiment { path } => write!(f, "{path}: has no experiment.toml"),
        }
    }
}

impl std::error::Error for LibraryError {}

/// A name that is not in the library.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// The kind of thing, such as `device`, `card`, `host`, `filesystem` or `experiment`.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The most similar existing name.
    pub did_you_mean: Option<String>,
    /// Remark on the commands that accept such a name.
    pub advice: Option<&'static str>,
    /// The command that lists all names.
    pub list: &'static str,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = did_you_mean(self.did_you_mean.as_deref());
        let stop = if nearest.is_empty() { ";" } else { "" };
        write!(f, "no {} {}{nearest}{stop} `{}` lists all", self.what, self.name, self.list)?;
        self.advice.map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl std::error::Error for UnknownName {}

/// A host that cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostError {
    /// No host has this name.
    Unknown(UnknownName),
    /// The file of a profile describes something else.
    NotAHost {
        /// The file.
        file: String,
        /// The kind that it describes.
        found: Kind,
    },
    /// The file of a profile cannot be read or is invalid.
    Profile(LibraryError),
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HostError::Unknown(unknown) => unknown.fmt(f),
            HostError::NotAHost { file, found } => {
                write!(f, "{file}: describes {}; expected a host", found.noun())
            }
            HostError::Profile(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for HostError {}

impl From<LibraryError> for HostError {
    fn from(error: LibraryError) -> Self {
        HostError::Profile(error)
    }
}

/// An inconsistency between profiles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Inconsistency {
    /// The host that a device names has no profile.
    NoHost {
        /// The device's file.
        file: String,
        /// The host.
        unknown: UnknownName,
    },
    /// A `typical` value differs between devices that were fitted on the same row of a published table.
    NotTypical {
        /// The parameter.
        path: &'static str,
        /// The first value and its place.
        first: String,
        /// The differing value and its place.
        second: String,
    },
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inconsistency::NoHost { file, unknown } => write!(f, "{file}: {unknown}"),
            Inconsistency::NotTypical { path, first, second } => write!(
                f,
                "{path}: {first}, but {second}; a typical value must be the same for all devices of one published table"
            ),
        }
    }
}
