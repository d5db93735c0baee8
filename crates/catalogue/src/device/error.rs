//! Errors while opening a device or a filesystem.

use super::{ArgumentError, StateError};
use crate::library::LibraryError;
use std::fmt;

/// An error while opening a device or a filesystem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceError {
    /// The argument is invalid.
    Argument(ArgumentError),
    /// A profile that the argument names is invalid or cannot be read.
    File(LibraryError),
    /// The state file cannot be used.
    State(StateError),
    /// No name of a device matches the pattern.
    NoMatch {
        /// The pattern.
        pattern: String,
    },
}

impl From<ArgumentError> for DeviceError {
    fn from(error: ArgumentError) -> Self {
        DeviceError::Argument(error)
    }
}

impl From<StateError> for DeviceError {
    fn from(error: StateError) -> Self {
        DeviceError::State(error)
    }
}

impl From<LibraryError> for DeviceError {
    fn from(error: LibraryError) -> Self {
        DeviceError::File(error)
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::Argument(error) => error.fmt(f),
            DeviceError::File(error) => error.fmt(f),
            DeviceError::State(error) => error.fmt(f),
            DeviceError::NoMatch { pattern } => {
                write!(f, "no device matches {pattern}; `flashlab devices` lists all")
            }
        }
    }
}

impl std::error::Error for DeviceError {}
