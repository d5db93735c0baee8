//! The file of `--pidfile`.

use crate::failure::Failure;
use crate::file;
use std::path::{Path, PathBuf};

/// File with the process id, removed on drop.
pub(in crate::command) struct Pidfile(PathBuf);

impl Pidfile {
    pub(in crate::command) fn write(path: &Path) -> Result<Pidfile, Failure> {
        Pidfile::write_and_leave(path)?;
        Ok(Pidfile(path.to_owned()))
    }

    /// Writes a file that remains when the process ends, as nbdkit does: a client on standard input may end the process
    /// before another program looks for the file.
    pub(super) fn write_and_leave(path: &Path) -> Result<(), Failure> {
        file::write(path, format!("{}\n", std::process::id()).as_bytes())
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // Another process may have removed the file already.
        let _ = std::fs::remove_file(&self.0);
    }
}
