//! Temporary folders for images.

use crate::error::ImageError;
use flashlab_block::TemporaryFolder;
use std::path::Path;

/// Creates a folder in the system's folder for temporary files: TMPDIR, or /tmp if that is not set.
///
/// # Errors
/// Returns an error of the operating system.
pub fn folder() -> Result<TemporaryFolder, ImageError> {
    folder_in(&std::env::temp_dir())
}

/// Creates a temporary folder inside `parent`.
///
/// # Errors
/// Returns an error of the operating system.
pub fn folder_in(parent: &Path) -> Result<TemporaryFolder, ImageError> {
    TemporaryFolder::inside(parent, "flashlab-image-").map_err(|error| ImageError::file(parent, error))
}
