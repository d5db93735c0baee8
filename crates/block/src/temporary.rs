//! Temporary files and folders, and files that a command keeps only if it succeeds. All of them are also removed when a
//! signal ends the process.
//!
//! A list holds the paths that exist now. A signal handler, which ends the process without running destructors, removes
//! them with [`remove_temporary`].

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// Mode of a temporary folder: other users can neither list nor enter it.
const PRIVATE: u32 = 0o700;

/// The paths to remove when the process ends. The path of a temporary file or folder is created and listed under one lock.
static PATHS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn paths() -> MutexGuard<'static, Vec<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A temporary folder that only this user can enter. Dropping this value removes the folder.
#[derive(Debug)]
pub struct TemporaryFolder {
    /// `None` once the folder is removed.
    folder: Option<TempDir>,
}

impl TemporaryFolder {
    /// Creates a folder in the system's folder for temporary files: TMPDIR, or /tmp if that is not set. Its name is
    /// `prefix` and random letters.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn new(prefix: &str) -> io::Result<TemporaryFolder> {
        TemporaryFolder::inside(&std::env::temp_dir(), prefix)
    }

    /// Creates a temporary folder inside `parent`.
    ///
    /// # Errors
    /// Returns an error of the operating system.
    pub fn inside(parent: &Path, prefix: &str) -> io::Result<TemporaryFolder> {
        let mut paths = paths();
        let mut builder = tempfile::Builder::new();
        let folder =
            builder.prefix(prefix).permissions(Permissions::from_mode(PRIVATE)).tempdir_in(parent)?;
        paths.push(folder.path().to_owned());
        Ok(TemporaryFolder { folder: Some(folder) })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        self.folder.as_ref().expect("the folder is removed on drop only").path()
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let path = self.path().to_owned();
        drop(self.folder.take());
        paths().retain(|listed| *listed != path);
    }
}

/// A temporary file. Dropping this value removes the file, unless it was renamed.
#[derive(Debug)]
pub(crate) struct TemporaryFile {
    path: PathBuf,
}

impl TemporaryFile {
    /// Creates the file `path`. Empties a file of this name that an earlier process left behind.
    pub(crate) fn create(path: PathBuf) -> io::Result<(TemporaryFile, File)> {
        let mut paths = paths();
        let file = File::create(&path)?;
        paths.push(path.clone());
        Ok((TemporaryFile { path }, file))
    }

    /// Gives the file its final name.
    pub(crate) fn rename(self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let mut paths = paths();
        // A renamed file is no longer there.
        let _ = fs::remove_file(&self.path);
        paths.retain(|listed| *listed != self.path);
    }
}

/// A file that a command created, and that vanishes with the command unless the command succeeds. Dropping this value
/// removes the file, unless it is kept.
#[derive(Debug)]
pub struct NewFile {
    /// `None` once the file is kept.
    path: Option<PathBuf>,
}

impl NewFile {
    /// Takes over a file that did not exist before.
    pub fn new(path: &Path) -> NewFile {
        paths().push(path.to_owned());
        NewFile { path: Some(path.to_owned()) }
    }

    /// Lets the file survive a signal from now on, because it may be in use. Dropping this value still removes the file.
    pub fn survive_signals(&self) {
        paths().retain(|listed| Some(listed) != self.path.as_ref());
    }

    /// Keeps the file.
    pub fn keep(mut self) {
        self.survive_signals();
        self.path = None;
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // The error for which the file is removed matters more.
            let _ = fs::remove_file(path);
            self.survive_signals();
        }
    }
}

/// Proof that no temporary file or folder exists. While this value exists, a thread that tries to create a
/// temporary file or folder blocks.
#[derive(Debug)]
pub struct NoTemporary(
    #[allow(dead_code, reason = "only its drop matters")] MutexGuard<'static, Vec<PathBuf>>,
);

/// Removes all temporary files and folders of this process and the new files that it has not kept, before it ends.
pub fn remove_temporary() -> NoTemporary {
    let mut paths = paths();
    remove(&mut paths);
    NoTemporary(paths)
}

/// Like [`remove_temporary`], but removes nothing if another thread creates or removes a path at this instant. The
/// handler of a failed allocation calls this, because its own thread may hold the lock.
pub fn try_remove_temporary() -> Option<NoTemporary> {
    let mut paths = PATHS.try_lock().ok()?;
    remove(&mut paths);
    Some(NoTemporary(paths))
}

/// Removes the paths. The process is ending, so an error has no consequence.
fn remove(paths: &mut Vec<PathBuf>) {
    for path in paths.drain(..) {
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_temporary_folder_is_private_and_vanishes_with_its_contents() {
        let [first, second] =
            [0, 1].map(|_| TemporaryFolder::new("flashlab-test-").expect("a writable folder"));
        assert_ne!(first.path(), second.path());
        let path = first.path().to_owned();
        assert_eq!(fs::metadata(&path).expect("it exists").permissions().mode() & 0o777, PRIVATE);
        fs::write(path.join("file"), b"bytes").expect("a writable folder");
        drop(first);
        assert!(!path.exists() && second.path().exists());
        assert!(!paths().contains(&path) && paths().contains(&second.path().to_owned()));
    }

    #[test]
    fn a_new_file_vanishes_unless_it_is_kept() {
        let folder = TemporaryFolder::new("flashlab-test-").expect("a writable folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, b"bytes").expect("a writable folder");
            (NewFile::new(&path), path)
        };
        let is_listed = |path: &Path| paths().iter().any(|listed| listed == path);
        let [(kept, kept_path), (dropped, dropped_path), (used, used_path)] = ["a", "b", "c"].map(file);
        assert!([&kept_path, &dropped_path, &used_path].into_iter().all(|path| is_listed(path)));
        kept.keep();
        drop(dropped);
        used.survive_signals();
        assert!([&kept_path, &dropped_path, &used_path].into_iter().all(|path| !is_listed(path)));
        assert!(kept_path.exists() && !dropped_path.exists() && used_path.exists());
        drop(used);
        assert!(!used_path.exists());
    }
}
