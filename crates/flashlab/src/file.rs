//! Files that are there whole or not at all.

use crate::failure::Failure;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes `text` to `path`: beside it first, then renamed. Whatever stops it, no half-written file keeps the name, and
/// after an error nothing is left beside it.
pub(crate) fn write(path: &Path, text: &[u8]) -> Result<(), Failure> {
    let beside = beside(path);
    let written = fs::File::create(&beside).and_then(|mut file| {
        file.write_all(text)?;
        file.sync_all()
    });
    written.and_then(|()| fs::rename(&beside, path)).map_err(|error| {
        // The error that matters is the first one; the leftover may not even exist.
        let _ = fs::remove_file(&beside);
        Failure::io(path, &error)
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.partial", std::process::id()));
    path.with_file_name(name)
}

/// Writes to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| Failure::stdout(&error))
}
