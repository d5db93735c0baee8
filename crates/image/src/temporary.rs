//! Temporary folders for images.

use crate::error::ImageError;
use flashlab_block::TemporaryFolder;
use std::path::Path;

/// Creates a folder where temporary files go: in TMPDIR, else in /tmp.
///
/// # Errors
/// Returns an error of the operating system.
pub fn folder() -> Result<TemporaryFolder, ImageError> {
    folder_in(&std::env::temp_dir())
}

/// Creates a folder in another one.
///
/// # Errors
/// Returns an error of the operating system.
pub fn folder_in(parent: &Path) -> Result<TemporaryFolder, ImageError> {
    TemporaryFolder::inside(parent, "flashlab-image-").map_err(|error| ImageError::file(parent, error))
}
