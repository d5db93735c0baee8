//! What can be wrong with a library, or with a name looked up in it.

use crate::profile::{Kind, ProfileError, did_you_mean};
use std::fmt;

/// Why a library cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LibraryError {
    /// A profile is wrong.
    Profile(ProfileError),
    /// A file or folder cannot be read.
    CannotRead {
        /// Which.
        path: String,
        /// What the system says.
        why: String,
    },
    /// A file is too large to be part of a library.
    TooLarge {
        /// Which.
        path: String,
        /// The most bytes.
        most: u64,
    },
    /// Folders nest too deeply, or hold too much.
    TooDeep {
        /// Where.
        path: String,
    },
    /// A folder with neither profiles nor experiments.
    NotALibrary {
        /// Which.
        path: String,
    },
    /// A name that exists already.
    Twice {
        /// The name.
        name: String,
        /// Where it comes again.
        path: String,
        /// Where it is from.
        first: String,
    },
    /// A file name that could not be written in a device argument.
    BadName {
        /// The file.
        path: String,
    },
    /// A profile in the folder of another kind.
    Misplaced {
        /// The file.
        path: String,
        /// What it describes.
        kind: Kind,
        /// Where it belongs.
        folder: &'static str,
    },
    /// An experiment's folder without `experiment.toml`.
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
                write!(f, "{path}: no library; expected a folder with profiles/ or experiments/ in it")
            }
            LibraryError::Twice { name, path, first } => {
                write!(f, "{path}: there is {name} already, in {first}; choose another name")
            }
            LibraryError::BadName { path } => {
                write!(f, "{path}: names here are made of a to z, 0 to 9, `-`, `_` and `.`; rename the file")
            }
            LibraryError::Misplaced { path, kind, folder } => {
                write!(f, "{path}: describes {}; expected it in profiles/{folder}", kind.noun())
            }
            LibraryError::NoExperiment { path } => write!(f, "{path}: has no experiment.toml"),
        }
    }
}

impl std::error::Error for LibraryError {}

/// A name that nothing has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownName {
    /// What was looked for: `device`, `host`, `filesystem`, `experiment`.
    pub what: &'static str,
    /// The name.
    pub name: String,
    /// The nearest that exists.
    pub did_you_mean: Option<String>,
    /// The command that lists all.
    pub list: &'static str,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nearest = did_you_mean(self.did_you_mean.as_deref());
        let stop = if nearest.is_empty() { ";" } else { "" };
        write!(f, "no {} {}{nearest}{stop} `{}` lists all", self.what, self.name, self.list)
    }
}

impl std::error::Error for UnknownName {}

/// Profiles that do not go together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Untidy {
    /// A card's host has no profile.
    NoHost {
        /// The card's file.
        file: String,
        /// The host.
        unknown: UnknownName,
    },
    /// A `typical` value that differs between devices of one published table.
    NotTypical {
        /// The parameter.
        path: &'static str,
        /// The value and where it stands.
        first: String,
        /// The other one.
        second: String,
    },
}

impl fmt::Display for Untidy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Untidy::NoHost { file, unknown } => write!(f, "{file}: {unknown}"),
            Untidy::NotTypical { path, first, second } => write!(
                f,
                "{path}: {first}, but {second}; what is typical is the same for all devices of one published table"
            ),
        }
    }
}
