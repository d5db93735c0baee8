//! The files that the opening of devices creates, so that a command that fails leaves none of them.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that this process created. They are removed when the value is dropped, unless they are kept.
#[derive(Debug, Default)]
pub struct NewFiles(RefCell<Vec<PathBuf>>);

impl NewFiles {
    /// Adds a file that did not exist before.
    pub(crate) fn add(&self, path: &Path) {
        self.0.borrow_mut().push(path.to_owned());
    }

    /// Returns true if there are no files.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Keeps the files.
    pub fn keep(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Drop for NewFiles {
    fn drop(&mut self) {
        for path in self.0.get_mut() {
            // The error for which the files are removed matters more.
            let _ = fs::remove_file(path);
        }
    }
}
