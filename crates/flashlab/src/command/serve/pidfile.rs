//! `--pidfile`.

use crate::failure::Failure;
use crate::file;
use std::path::{Path, PathBuf};

/// A file with the process id that goes with the process.
pub(in crate::command) struct Pidfile(PathBuf);

impl Pidfile {
    pub(in crate::command) fn write(path: &Path) -> Result<Pidfile, Failure> {
        Pidfile::write_and_leave(path)?;
        Ok(Pidfile(path.to_owned()))
    }

    /// Writes a file that stays when the process ends, as nbdkit's does: a client on standard input may have had its answers
    /// before anybody looks for the file.
    pub(super) fn write_and_leave(path: &Path) -> Result<(), Failure> {
        file::write(path, format!("{}\n", std::process::id()).as_bytes())
    }
}

impl Drop for Pidfile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}
