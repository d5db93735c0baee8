//! Errors of experiments.

use crate::bench::BenchError;
use flashlab_catalogue::device::DeviceError;
use flashlab_catalogue::library::{LibraryError, UnknownName};
use std::fmt;

/// The reason why an experiment gives no results.
#[derive(Clone, PartialEq, Debug)]
pub enum ExperimentError {
    /// No experiment has this name.
    Unknown(UnknownName),
    /// The argument is a path, but the folder does not exist.
    NoFolder(String),
    /// A folder has no `experiment.toml`.
    NoDefinition(String),
    /// The folder cannot be read.
    Library(LibraryError),
    /// A file of the experiment is invalid.
    Wrong {
        /// Path of the file.
        path: String,
        /// The fault and the expected content.
        what: String,
    },
    /// A device or filesystem of the experiment is invalid.
    Device {
        /// The file and the column or step that names it.
        place: String,
        /// The fault.
        error: DeviceError,
    },
    /// A job of the experiment is invalid.
    Job {
        /// The file and the step, or "preparation".
        place: String,
        /// The fault in the job's command line.
        error: flashlab_fio::error::Error,
    },
    /// A step failed.
    Bench {
        /// The cell.
        cell: String,
        /// The reason.
        error: BenchError,
    },
    /// The experiment is live and cannot be simulated.
    Live(String),
    /// The experiment lacks a chosen column. The text is a sentence that lists the existing columns.
    NoColumn(String),
    /// The experiment compares its columns with one another, so no column can run alone.
    Inseparable(String),
    /// The build lacks the cargo feature that the experiment needs.
    NeedsFeature(&'static str),
    /// The user stopped the run.
    Stopped,
}

impl ExperimentError {
    /// Adds to the place of a device's error the row whose keys the device has.
    pub(super) fn in_row(self, row: &str) -> ExperimentError {
        match self {
            ExperimentError::Device { place, error } if !row.is_empty() => {
                ExperimentError::Device { place: format!("{place}, row {row}"), error }
            }
            error => error,
        }
    }

    /// Returns the error of a failed run of `cell`.
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
                write!(f, "the folder {path} has no experiment.toml, so it is not an experiment")
            }
            ExperimentError::Library(error) => error.fmt(f),
            ExperimentError::Wrong { path, what } => write!(f, "{path}: {what}"),
            ExperimentError::Device { place, error } => write!(f, "{place}: {error}"),
            ExperimentError::Job { place, error } => write!(f, "{place}: {error}"),
            ExperimentError::Bench { cell, error } => write!(f, "{cell}: {error}"),
            ExperimentError::Live(name) => {
                write!(
                    f,
                    "{name} is a live experiment: `flashlab run {name}` measures it on this machine; it cannot be \
                     simulated"
                )
            }
            ExperimentError::NoColumn(what) => f.write_str(what),
            ExperimentError::Inseparable(name) => {
                write!(f, "{name} compares its columns with one another, so it runs all of them")
            }
            ExperimentError::NeedsFeature(feature) => {
                write!(
                    f,
                    "the experiment is not in this build; build with the feature `{feature}` (cargo build --release \
                     --features {feature}), or with all of them (--features full)"
                )
            }
            ExperimentError::Stopped => {
                f.write_str("stopped before the experiment was complete; no results were written")
            }
        }
    }
}

impl std::error::Error for ExperimentError {}
