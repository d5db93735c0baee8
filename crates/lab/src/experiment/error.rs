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
    /// The argument is a path, and there is no such folder.
    NoFolder(String),
    /// A folder has no `experiment.toml`.
    NoDefinition(String),
    /// Its folder cannot be read.
    Library(LibraryError),
    /// One of its files is wrong.
    Wrong {
        /// Which.
        path: String,
        /// What, and what was expected.
        what: String,
    },
    /// One of its devices or filesystems is.
    Device {
        /// The file and the column or step that names it.
        place: String,
        /// What is wrong with the name.
        error: DeviceError,
    },
    /// One of its jobs is.
    Job {
        /// The file and the step, or "preparation".
        place: String,
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
    /// It is live: nothing of it is simulated.
    Live(String),
    /// Somebody asked to stop.
    Stopped,
}

impl ExperimentError {
    /// Returns the error of a run of `cell`.
    pub(super) fn of_bench(cell: String, error: BenchError) -> Self {
        match error {
            BenchError::Stopped => ExperimentError::Stopped,
            error => ExperimentError::Bench { cell, error },
        }
    }
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExperimentError::Unknown(unknown) => unknown.fmt(f),
            ExperimentError::NoFolder(path) => {
                write!(f, "no such folder: {path}; `flashlab experiments` lists the built-in ones")
            }
            ExperimentError::NoDefinition(path) => {
                write!(f, "the folder {path} has no experiment.toml, which makes it an experiment")
            }
            ExperimentError::Library(error) => error.fmt(f),
            ExperimentError::Wrong { path, what } => write!(f, "{path}: {what}"),
            ExperimentError::Device { place, error } => write!(f, "{place}: {error}"),
            ExperimentError::Job { place, error } => write!(f, "{place}: {error}"),
            ExperimentError::Bench { cell, error } => write!(f, "{cell}: {error}"),
            ExperimentError::Live(name) => {
                write!(
                    f,
                    "{name} is live: it is measured on a machine, by `flashlab run {name}`, not simulated"
                )
            }
            ExperimentError::Stopped => {
                f.write_str("stopped before the experiment was done; nothing was written")
            }
        }
    }
}

impl std::error::Error for ExperimentError {}
