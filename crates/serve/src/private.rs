//! A Unix socket that nobody else can reach.

use crate::Address;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A folder of one's own with a name for a socket in it; goes when it is dropped.
#[derive(Debug)]
pub struct PrivateSocket(PathBuf);

impl PrivateSocket {
    /// In the system's folder for temporary files.
    pub fn new() -> io::Result<PrivateSocket> {
        let (folder, pid) = (std::env::temp_dir(), std::process::id());
        for n in 0..1000 {
            let folder = folder.join(format!("flashlab-{pid}-{n}"));
            // Only a folder that this call made is one's own.
            match fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(PrivateSocket(folder)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The socket's path.
    pub fn path(&self) -> PathBuf {
        self.0.join("socket")
    }

    /// Where to listen.
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
        // What is left in a folder for temporary files harms nobody.
        let _ = fs::remove_dir_all(&self.0);
    }
}
