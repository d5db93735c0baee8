//! What can go wrong with an experiment.

use crate::bench::BenchError;
use crate::device::DeviceError;
use crate::library::{LibraryError, UnknownName};
use std::fmt;

/// Why an experiment gives no results.
#[derive(Clone, PartialEq, Debug)]
pub enum ExperimentError {
    /// No experiment has this name.
    Unknown(UnknownName),
    /// Its folder cannot be read.
    Library(LibraryError),
    /// One of its files is wrong.
    Wrong {
        /// Which.
        path: String,
        /// What, and what was expected.
        what: String,
    },
    /// One of its devices is.
    Device(DeviceError),
    /// One of its jobs is.
    Job {
        /// The step, or "preparation".
        step: String,
        /// What is wrong with its command line.
        error: flashlab_fio::error::Error,
    },
    /// A step could not be run.
    Bench {
        /// The cell.
        cell: String,
        /// Why.
        error: BenchError,
    },
    /// Somebody asked to stop.
    Stopped,
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentError::Unknown(unknown) => unknown.fmt(f),
            ExperimentError::Library(error) => error.fmt(f),
            ExperimentError::Wrong { path, what } => write!(f, "{path}: {what}"),
            ExperimentError::Device(error) => error.fmt(f),
            ExperimentError::Job { step, error } => write!(f, "the job of \"{step}\": {error}"),
            ExperimentError::Bench { cell, error } => write!(f, "{cell}: {error}"),
            ExperimentError::Stopped => {
                f.write_str("stopped before the experiment was done; nothing was written")
            }
        }
    }
}

impl std::error::Error for ExperimentError {}

impl From<DeviceError> for ExperimentError {
    fn from(error: DeviceError) -> Self {
        ExperimentError::Device(error)
    }
}
