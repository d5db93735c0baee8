//! A directory as a filesystem image: a snapshot of the directory when it was opened.
//!
//! The image is a copy in a temporary file: later changes of the directory do not affect the image, and changes of the
//! image do not affect the directory. Equal directories with equal times give identical images.

use crate::error::ImageError;
use crate::filesystem::{self, Format, Settings};
use crate::identity::Identity;
use crate::scan::Scan;
use crate::stage::Stage;
use crate::temporary;
use flashlab_block::TemporaryFolder;
use std::path::{Path, PathBuf};

/// A filesystem image of a directory in a temporary file, which is removed with this value.
#[derive(Debug)]
pub struct DirectoryImage {
    folder: TemporaryFolder,
}

impl DirectoryImage {
    /// Creates the image of `directory`. Files keep their owners, modes and times as far as the format
    /// supports them. `size` is the size of the filesystem. `None` stands for the size of the contents, plus
    /// some free space in formats that are not read-only.
    ///
    /// # Errors
    /// Returns an error if the format cannot store an entry, the directory changes while it is read, or a tool is
    /// missing.
    pub fn new(directory: &Path, format: Format, size: Option<u64>) -> Result<DirectoryImage, ImageError> {
        let scan = Scan::of(directory)?;
        filesystem::check(format, scan.tree())?;
        // The image's own time must not depend on the clock, and mkfs.erofs stores no file time that is later
        // than the image's.
        let time = scan.tree().newest().max(1);
        let settings = Settings {
            identity: Identity::new("directory"),
            label: String::new(),
            time,
            size,
            first_sector: 0,
            options: Vec::new(),
        };
        let stage = Stage::in_place(scan)?;
        let image = DirectoryImage { folder: temporary::folder()? };
        filesystem::make(format, &stage, &settings, &image.path())?;
        stage.check_unchanged()?;
        Ok(image)
    }

    /// Returns the path of the image.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("image")
    }
}
