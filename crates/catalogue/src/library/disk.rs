//! Reads a library's files from disk. The number, the size and the folder depth of the files are limited. Every error
//! names the path.

use super::LibraryError;
use flashlab_block::read_whole;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

/// Maximum size of one file in bytes. Golden tables and published figures are far smaller.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Maximum number of files in one folder, subfolders included.
const FILES_MAX: usize = 10_000;
/// Maximum depth of nested folders; symbolic links may form a cycle.
const DEPTH_MAX: usize = 8;

/// Reads a file of at most 16 MiB.
pub fn read_file(path: &Path) -> Result<Vec<u8>, LibraryError> {
    read_whole(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => {
            LibraryError::TooLarge { path: path.display().to_string(), most: FILE_BYTES_MAX }
        }
        _ => cannot_read(path, &error),
    })
}

/// Reads all files under `folder`. The keys are paths relative to `folder`, with `/` as separator. The result is empty
/// if the folder does not exist. Hidden files are skipped.
pub(super) fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, LibraryError> {
    let mut found = BTreeMap::new();
    if folder.is_dir() {
        collect(folder, "", 0, &mut found)?;
    }
    Ok(found)
}

fn collect(
    folder: &Path,
    prefix: &str,
    depth: usize,
    found: &mut BTreeMap<String, Vec<u8>>,
) -> Result<(), LibraryError> {
    let too_deep = || LibraryError::TooDeep { path: folder.display().to_string() };
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    for entry in fs::read_dir(folder).map_err(|e| cannot_read(folder, &e))? {
        let path = entry.map_err(|e| cannot_read(folder, &e))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let inside = format!("{prefix}{name}");
        if path.is_dir() {
            collect(&path, &format!("{inside}/"), depth + 1, found)?;
        } else if found.len() == FILES_MAX {
            return Err(too_deep());
        } else {
            found.insert(inside, read_file(&path)?);
        }
    }
    Ok(())
}

fn cannot_read(path: &Path, error: &io::Error) -> LibraryError {
    LibraryError::CannotRead { path: path.display().to_string(), why: error.to_string() }
}
