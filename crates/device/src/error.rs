//! Errors of opening a device and of cutting its power.

use flashlab_catalogue::device::DeviceError;
use flashlab_catalogue::library::LibraryError;
use flashlab_sd::quirk::QuirkError;
use flashlab_served::{Problem, ServedError};
use flashlab_sim::StoreError;
use std::fmt;

/// The reason why a device cannot be opened, or its power cannot be cut.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The name of the device or one of its files is invalid. The text names the place and a remedy.
    Open(ServedError),
    /// The name of a simulated device or one of its files is invalid. The text names the place and a remedy.
    Device(DeviceError),
    /// The device does not accept SD commands.
    NotACard(String),
    /// The profiles that are part of the library cannot be read.
    Library(LibraryError),
    /// A quirk is unknown or malformed.
    Quirk(QuirkError),
    /// The device has no timing, so its power cannot be cut.
    NoPower,
    /// The store failed while the effects of a power cut were applied.
    Store(StoreError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Open(error) => error.fmt(f),
            Error::Device(error) => error.fmt(f),
            Error::NotACard(name) => write!(
                f,
                "{name} does not accept SD commands; only an SD card without layers does: sd/kingston, \
                 sd/kingston:state=FILE"
            ),
            Error::Library(error) => error.fmt(f),
            Error::Quirk(error) => error.fmt(f),
            Error::NoPower => f.write_str(
                "the device has no timing, so its power cannot be cut; \
                 use a simulated device such as sd/kingston, or add a layer: memory:size=1MiB+delay:read=100us",
            ),
            Error::Store(error) => write!(f, "the power was cut, but its effects are incomplete: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Open(error) => Some(error),
            Error::Device(error) => Some(error),
            Error::Library(error) => Some(error),
            Error::Quirk(error) => Some(error),
            Error::Store(error) => Some(error),
            Error::NoPower | Error::NotACard(_) => None,
        }
    }
}

impl Error {
    /// Returns the reason why `name` cannot be opened as a card.
    pub(crate) fn of_card(name: &str, error: ServedError) -> Error {
        match error {
            ServedError::Argument { problem, .. } if matches!(*problem, Problem::NotACard) => {
                Error::NotACard(name.to_owned())
            }
            error => Error::Open(error),
        }
    }
}

impl From<ServedError> for Error {
    fn from(error: ServedError) -> Error {
        Error::Open(error)
    }
}

impl From<LibraryError> for Error {
    fn from(error: LibraryError) -> Error {
        Error::Library(error)
    }
}

impl From<QuirkError> for Error {
    fn from(error: QuirkError) -> Error {
        Error::Quirk(error)
    }
}
