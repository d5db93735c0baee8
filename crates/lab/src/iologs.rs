//! The iologs that jobs replay with `read_iolog=`. The caller provides the function that reads the files.

use flashlab_fio::iolog::{Iolog, IologError};
use flashlab_fio::job::Job;
use std::fmt;

/// Size in bytes of the largest iolog that is read.
pub const BYTES_MAX: u64 = 4 << 30;

/// The reason why an iolog cannot be replayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum IologFileError {
    /// The file cannot be read.
    Unreadable {
        /// Path of the file.
        path: String,
        /// Error text of the reader.
        why: String,
    },
    /// The file is not a valid iolog.
    Invalid {
        /// Path of the file.
        path: String,
        /// The fault and its place.
        error: IologError,
    },
}

impl fmt::Display for IologFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IologFileError::Unreadable { path, why } => write!(f, "{path}: cannot read the iolog: {why}"),
            IologFileError::Invalid { path, error } => {
                write!(f, "{path}:{}:{}: {}", error.line, error.column, error.problem)
            }
        }
    }
}

impl std::error::Error for IologFileError {}

/// Returns the iologs that `jobs` replay, each once, with their paths. `read` returns the bytes of a file, or the
/// reason why it cannot be read.
pub fn read_all(
    jobs: &[Job],
    read: &dyn Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<(String, Iolog)>, IologFileError> {
    let mut iologs: Vec<(String, Iolog)> = Vec::new();
    for path in jobs.iter().filter_map(|job| job.read_iolog.as_ref()) {
        if !iologs.iter().any(|(known, _)| known == path) {
            iologs.push((path.clone(), read_one(path, read)?));
        }
    }
    Ok(iologs)
}

fn read_one(path: &str, read: &dyn Fn(&str) -> Result<Vec<u8>, String>) -> Result<Iolog, IologFileError> {
    let bytes = read(path).map_err(|why| IologFileError::Unreadable { path: path.to_owned(), why })?;
    Iolog::read(&bytes).map_err(|error| IologFileError::Invalid { path: path.to_owned(), error })
}
