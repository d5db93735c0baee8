//! Bytes that were made when the device was opened, such as the image of a directory. Nothing writes to them, and an
//! overlay takes all changes.
//!
//! Kept changes are valid only for the bytes on which they were made. Beside a file FILE with kept changes,
//! FILE.base contains the SHA-256 of these bytes. The digest prevents the changes from being applied to other
//! bytes.

use crate::error::ServedError;
use flashlab_block::write_whole;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

/// Bytes that were made when the device was opened.
#[derive(Debug)]
pub(crate) struct Made {
    /// The bytes.
    pub(crate) bytes: File,
}

impl Made {
    /// Checks that the changes in the file `keep`, if it exists, were made on these bytes, and records the
    /// digest of the bytes.
    pub(crate) fn check_changes(&self, keep: &Path) -> Result<(), ServedError> {
        let (digest, is_recorded) = check(&self.bytes, keep)?;
        if is_recorded {
            return Ok(());
        }
        let beside = base_of(keep);
        write_whole(&beside, format!("{digest}\n").as_bytes())
            .map_err(|error| ServedError::System { path: beside, error })
    }
}

/// Checks that the changes in the file `keep` were made on the image of a directory, whose bytes are `image`.
///
/// # Errors
/// Returns an error if the changes belong to another image, or if a file cannot be read.
#[cfg(feature = "image")]
pub fn check_kept_changes(image: &File, keep: &Path) -> Result<(), ServedError> {
    check(image, keep).map(drop)
}

/// Returns the digest of the bytes, and true if it is recorded beside the changes. Fails if the file `keep`
/// is not empty and its changes belong to other bytes.
fn check(bytes: &File, keep: &Path) -> Result<(String, bool), ServedError> {
    let beside = base_of(keep);
    let system = |error| ServedError::System { path: beside.clone(), error };
    let digest = digest(bytes).map_err(system)?;
    let recorded = match fs::read_to_string(&beside) {
        Ok(text) => Some(text.trim().to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(system(error)),
    };
    let has_changes = fs::metadata(keep).is_ok_and(|changes| changes.len() > 0);
    let is_recorded = recorded.as_ref() == Some(&digest);
    if has_changes && !is_recorded {
        return Err(ServedError::OtherBase { keep: keep.to_owned() });
    }
    Ok((digest, is_recorded))
}

/// Returns the path of the file with the digest of the bytes below kept changes.
fn base_of(keep: &Path) -> PathBuf {
    let mut name = keep.file_name().unwrap_or_default().to_owned();
    name.push(".base");
    keep.with_file_name(name)
}

fn digest(mut bytes: &File) -> io::Result<String> {
    io::Seek::rewind(&mut bytes)?;
    let (mut digest, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        match bytes.read(&mut piece)? {
            0 => return Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            length => digest.update(&piece[..length]),
        }
    }
}
