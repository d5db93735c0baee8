//! The temporary file through which `measure` measures the filesystem of a directory.

use crate::disk::Disk;
use crate::target::{Channel, Target};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate, open, statvfs};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file.
pub const NAME: &str = "flashlab-measure.tmp";

/// Size of the file's logical block in bytes.
pub const BLOCK: u32 = crate::disk::BLOCK_OF_FILE;

/// A file that the measurement has created, or that an interrupted measurement has left behind.
#[derive(Debug)]
pub struct OwnFile {
    disk: Disk,
    path: PathBuf,
}

impl OwnFile {
    /// Returns the maximum size of the file in `directory`: half of the free space.
    pub fn room(directory: &Path) -> io::Result<u64> {
        let stat = statvfs(directory).map_err(io::Error::from)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize) / 2)
    }

    /// Creates the file with `bytes` bytes. With `is_resumed`, opens the file that an interrupted measurement has left
    /// behind.
    ///
    /// # Errors
    /// Returns an error of the system. If `is_resumed` is false, an existing file is an error too, because it
    /// may belong to someone else.
    pub fn create(directory: &Path, bytes: u64, is_resumed: bool) -> io::Result<OwnFile> {
        let path = directory.join(NAME);
        let new = if is_resumed { OFlags::empty() } else { OFlags::CREATE | OFlags::EXCL };
        let flags = OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOFOLLOW | new;
        let file = File::from(open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(io::Error::from)?);
        if !is_resumed {
            let allocated = match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
                // The filesystem does not support preallocation.
                Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes),
                other => other.map_err(io::Error::from),
            };
            if let Err(error) = allocated {
                let _ = fs::remove_file(&path);
                return Err(error);
            }
        }
        Ok(OwnFile { disk: Disk::of_file(file, &path)?, path })
    }

    /// Removes the file.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Target for OwnFile {
    fn capacity(&self) -> u64 {
        self.disk.capacity()
    }
    fn block(&self) -> u32 {
        self.disk.block()
    }
    fn discards(&self) -> bool {
        false
    }
    fn channel(&self) -> io::Result<Box<dyn Channel>> {
        self.disk.channel()
    }
}
