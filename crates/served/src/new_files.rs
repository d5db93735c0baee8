//! The files that the opening of devices creates, so that a command that fails leaves none of them.

use flashlab_block::NewFile;
use std::cell::RefCell;
use std::path::Path;

/// Files that this process created. They are removed when the value is dropped or a signal ends the process, unless they
/// are kept.
#[derive(Debug, Default)]
pub struct NewFiles(RefCell<Vec<NewFile>>);

impl NewFiles {
    /// Adds a file that did not exist before.
    pub(crate) fn add(&self, path: &Path) {
        self.0.borrow_mut().push(NewFile::new(path));
    }

    /// Returns true if there are no files.
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Lets the files survive a signal from now on, because a volume may refer to them. They are still removed when the
    /// value is dropped.
    pub fn survive_signals(&self) {
        self.0.borrow().iter().for_each(NewFile::survive_signals);
    }

    /// Keeps the files.
    pub fn keep(&self) {
        self.0.take().into_iter().for_each(NewFile::keep);
    }
}
