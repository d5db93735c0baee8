//! Files with recordings.

use crate::failure::Failure;
use crate::progress;
use flashlab_recording::Source;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

/// Number of bytes at the beginning of a file that suffice to tell a recording from a job file.
const BEGINNING_BYTES: u64 = 16;

/// Returns true if `path` is a file that begins like a recording.
pub(crate) fn is_recording(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let is_read = path.is_file()
        && File::open(path).and_then(|file| file.take(BEGINNING_BYTES).read_to_end(&mut beginning)).is_ok();
    is_read && Source::is_recording(&beginning)
}

/// Reads and checks the whole recording in `path`.
pub(crate) fn open(path: &Path) -> Result<Source, Failure> {
    // Each replay reads the file again, so the file cannot be a pipe.
    if path.exists() && !path.is_file() {
        return Err(fault(path, "a recording is read several times, so it has to be a regular file"));
    }
    let name = path.to_owned();
    let open =
        move || -> io::Result<Box<dyn Read + Send>> { Ok(Box::new(BufReader::new(File::open(&name)?))) };
    open().map_err(|error| Failure::io(path, &error))?;
    progress::show_elapsed(format!("reading {}", path.display()), || Source::new(open))
        .map_err(|error| fault(path, error))
}

/// Prefixes a fault of a file with its name.
pub(crate) fn fault(path: &Path, problem: impl std::fmt::Display) -> Failure {
    Failure::usage(format_args!("{}: {problem}", path.display()))
}
