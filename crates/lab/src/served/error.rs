//! What can be wrong with a device that is to carry bytes.

use super::kept::KeptError;
use crate::device::{DeviceError, StateError};
use crate::profile::Place;
use crate::units::{UnitError, or_list};
use flashlab_block::layer::{FaultError, OverlayError};
use flashlab_block::{FileError, MemoryError};
use std::path::PathBuf;
use std::{fmt, io};

/// Why there is no such device.
#[derive(Debug)]
pub enum ServedError {
    /// The argument is wrong.
    Argument {
        /// Where; the line is always 1.
        place: Place,
        /// What.
        problem: Box<Problem>,
    },
    /// The simulated device that it names cannot be had.
    Device(DeviceError),
    /// The file cannot be had.
    File(FileError),
    /// Another file cannot be read or written.
    System {
        /// Which.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file's rule of what fails makes no sense.
    Rule {
        /// The file.
        path: PathBuf,
        /// Its line.
        line: usize,
        /// What is wrong in it.
        error: FaultError,
    },
    /// The changes of an overlay cannot be read.
    Overlay(OverlayError),
    /// The files of a kept device do not belong together, or are damaged.
    Kept(KeptError),
    /// A file of exports that is none.
    Exports {
        /// The file.
        path: PathBuf,
        /// Where and what.
        why: String,
    },
}

impl From<KeptError> for ServedError {
    fn from(error: KeptError) -> Self {
        ServedError::Kept(error)
    }
}

impl From<FileError> for ServedError {
    fn from(error: FileError) -> Self {
        ServedError::File(error)
    }
}

/// What can be wrong in an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// No name of a device.
    NoName,
    /// Something that is not `key=value`.
    NotASetting {
        /// One that would be.
        example: &'static str,
    },
    /// A key that the device does not have.
    UnknownKey {
        /// What does not have it.
        of: &'static str,
        /// As written.
        key: String,
        /// What it has.
        known: &'static [&'static str],
        /// The nearest of these.
        did_you_mean: Option<String>,
    },
    /// A word that is nearly the name of a layer.
    NoLayer {
        /// As written.
        word: String,
        /// The nearest name.
        did_you_mean: &'static str,
    },
    /// The same key again.
    Twice(String),
    /// Without this it cannot be made.
    Missing {
        /// The key.
        key: &'static str,
        /// The device with it.
        example: &'static str,
    },
    /// Not a number with the right unit.
    Unit {
        /// The key.
        key: &'static str,
        /// Why not.
        error: UnitError,
    },
    /// Not one of the words that the key takes.
    Word {
        /// The key.
        key: &'static str,
        /// As written.
        word: String,
        /// What it takes.
        known: &'static [&'static str],
    },
    /// There is no such memory device.
    Memory(MemoryError),
    /// An overlay that does not lie on a memory or file device.
    NotOnBytes,
    /// Nothing to slow down by.
    NoPace {
        /// The layer with something.
        example: &'static str,
    },
    /// Something other than an SD card by itself, where commands are to be given.
    NotACard,
    /// A rule that makes no sense.
    Fault(FaultError),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::NoName => {
                f.write_str("the device is missing; for example memory:size=1GiB or sd/kingston")
            }
            Problem::NotASetting { example } => write!(f, "expected key=value, for example {example}"),
            Problem::UnknownKey { of, key, did_you_mean: Some(nearest), .. } => {
                write!(f, "{of} has no {key}; did you mean {nearest}?")
            }
            Problem::UnknownKey { of, key, known: [], .. } => write!(f, "{of} has no {key}; it has no keys"),
            Problem::UnknownKey { of, key, known, .. } => {
                write!(f, "{of} has no {key}; it has {}", known.join(", "))
            }
            Problem::NoLayer { word, did_you_mean } => {
                write!(f, "there is no layer {word}; did you mean {did_you_mean}?")
            }
            Problem::Twice(key) => write!(f, "{key} is set twice"),
            Problem::Missing { key, example } => write!(f, "{key} is missing: {example}"),
            Problem::Unit { key, error } => write!(f, "{key}: {error}"),
            Problem::Word { key, word, known } => {
                write!(f, "{key}: {word:?} is not {}", or_list(known))
            }
            Problem::Memory(error) => write!(f, "size: {error}"),
            Problem::NotOnBytes => f.write_str(
                "an overlay lies on memory or a file, below all other layers: file:base.img+overlay",
            ),
            Problem::NoPace { example } => write!(f, "by what? for example {example}"),
            Problem::NotACard => f.write_str(
                "only an SD card takes commands, with nothing laid on it: sd/kingston, sd/kingston:state=FILE",
            ),
            Problem::Fault(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for ServedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServedError::Argument { place, problem } => {
                write!(f, "{place}: {problem}\n{}", place.picture())
            }
            ServedError::Device(error) => error.fmt(f),
            ServedError::File(error) => error.fmt(f),
            ServedError::System { path, error } => write!(f, "{}: {error}", path.display()),
            ServedError::Rule { path, line, error } => write!(f, "{}:{line}: {error}", path.display()),
            ServedError::Overlay(error) => error.fmt(f),
            ServedError::Kept(error) => error.fmt(f),
            ServedError::Exports { path, why } => write!(f, "{}: {why}", path.display()),
        }
    }
}

impl std::error::Error for ServedError {}

impl From<DeviceError> for ServedError {
    fn from(error: DeviceError) -> Self {
        ServedError::Device(error)
    }
}

impl From<StateError> for ServedError {
    fn from(error: StateError) -> Self {
        ServedError::Device(error.into())
    }
}
