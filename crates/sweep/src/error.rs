//! Errors of sweeps.

use std::fmt;
use std::path::{Path, PathBuf};

/// The reason why a sweep cannot run or continue.
#[derive(Debug)]
pub enum SweepError {
    /// The plan is not valid, or rows cannot be encoded or decoded.
    Plan(String),
    /// The device or the job of a point is not valid.
    Point {
        /// The point: `nand.blocks=40, ftl.victim=fifo`.
        point: String,
        /// The fault of the device or the job.
        fault: String,
    },
    /// A file cannot be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The fault.
        error: std::io::Error,
    },
    /// A file with results is damaged, or it is not a file of a sweep.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        fault: String,
    },
}

impl SweepError {
    pub(crate) fn io(path: &Path, error: std::io::Error) -> SweepError {
        SweepError::Io { path: path.to_owned(), error }
    }
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SweepError::Plan(fault) => f.write_str(fault),
            SweepError::Point { point, fault } => write!(f, "point {point}: {fault}"),
            SweepError::Io { path, error } => write!(f, "{}: {error}", path.display()),
            SweepError::Damaged { path, fault } => {
                let path = path.display();
                write!(f, "{path}: {fault}; remove the file, and the points in it run again")
            }
        }
    }
}

impl std::error::Error for SweepError {}
