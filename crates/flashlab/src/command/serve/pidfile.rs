//! The file of `--pidfile`.

use crate::failure::Failure;
use crate::file;
use std::fs;
use std::path::{Path, PathBuf};

/// File with the process id, removed on drop. A pipe or a device, which existed before, remains: its path is `None`.
pub(in crate::command) struct Pidfile(Option<PathBuf>);

impl Pidfile {
    pub(in crate::command) fn write(path: &Path) -> Result<Pidfile, Failure> {
        Pidfile::write_and_leave(path)?;
        // As in `file::write`, a symbolic link itself remains. The file that it points to is removed.
        Ok(Pidfile(fs::canonicalize(path).ok().filter(|written| written.is_file())))
    }

    /// Writes a file that remains when the process ends, as nbdkit does: a client on standard input may end the process
    /// before another program looks for the file.
    pub(super) fn write_and_leave(path: &Path) -> Result<(), Failure> {
        file::write(path, format!("{}\n", std::process::id()).as_bytes())
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Another process may have removed the file already.
            let _ = fs::remove_file(path);
        }
    }
}
