//! A Unix socket that no other user can reach.

use crate::Address;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A private directory for a socket. Dropping it removes the directory.
#[derive(Debug)]
pub struct PrivateSocket(PathBuf);

impl PrivateSocket {
    /// Creates a private directory in the system's directory for temporary files.
    pub fn new() -> io::Result<PrivateSocket> {
        let (folder, pid) = (std::env::temp_dir(), std::process::id());
        for n in 0..1000 {
            let folder = folder.join(format!("flashlab-{pid}-{n}"));
            // Only a directory that this call has created is private.
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(PrivateSocket(folder)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// Returns the address to listen on.
    pub fn address(&self) -> Address {
        Address::Unix(self.path())
    }
}

impl AsRef<Path> for PrivateSocket {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateSocket {
    fn drop(&mut self) {
        // A directory that is left among the temporary files does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}
