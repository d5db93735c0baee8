//! Temporary folders, which are also removed when a signal ends the process.

use crate::error::ImageError;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// The folders that exist now.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder, which is removed with this value.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: TempDir,
}

impl TemporaryFolder {
    /// Creates a folder where temporary files go: in TMPDIR, else in /tmp.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn new() -> Result<TemporaryFolder, ImageError> {
        TemporaryFolder::inside(&std::env::temp_dir())
    }

    /// Creates a folder in another one.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn inside(parent: &Path) -> Result<TemporaryFolder, ImageError> {
        let folder = tempfile::Builder::new().prefix("flashlab-image-").tempdir_in(parent);
        let folder = folder.map_err(|error| ImageError::file(parent, error))?;
        folders().push(folder.path().to_owned());
        Ok(TemporaryFolder { folder })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        folders().retain(|path| path != self.folder.path());
    }
}

/// Removes all temporary folders of this process, which is about to end.
pub fn remove_temporary_folders() {
    for folder in folders().drain(..) {
        // The process is ending, so an error has no consequence.
        let _ = std::fs::remove_dir_all(folder);
    }
}
