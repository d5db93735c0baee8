//! Block devices and files, with direct I/O.

use crate::target::{Access, Channel, Target};
use rustix::fs::{FileType, OFlags, fstat};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Logical block of files in bytes. Direct I/O on a file must be aligned to the logical block of the
/// underlying device. 4 KiB suits every device.
pub(crate) const BLOCK_OF_FILE: u32 = 4096;

/// An open block device or file.
#[derive(Debug)]
pub struct Disk {
    file: Arc<File>,
    path: PathBuf,
    capacity: u64,
    block: u32,
    is_device: bool,
    access: Access,
}

impl Disk {
    /// Opens a block device or a file with direct I/O. A block device is opened exclusively: the kernel then
    /// refuses a device that is mounted, part of a volume, or in use as swap.
    pub fn open(path: &Path, access: Access) -> io::Result<Disk> {
        let is_device = rustix::fs::stat(path)
            .map(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice)
            .map_err(io::Error::from)?;
        let flags = if is_device { OFlags::DIRECT | OFlags::EXCL } else { OFlags::DIRECT };
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::ReadWrite)
            .custom_flags(flags.bits() as i32)
            .open(path)?;
        Disk::new(file, path, is_device, access)
    }

    /// Returns a disk for a file that is open for direct I/O.
    pub(crate) fn of_file(file: File, path: &Path) -> io::Result<Disk> {
        Disk::new(file, path, false, Access::ReadWrite)
    }

    fn new(file: File, path: &Path, is_device: bool, access: Access) -> io::Result<Disk> {
        let (capacity, block) = match is_device {
            true => {
                // The seek returns the size of a block device.
                let capacity = io::Seek::seek(&mut (&file), io::SeekFrom::End(0))?;
                (capacity, rustix::fs::ioctl_blksszget(&file).map_err(io::Error::from)?)
            }
            false => (fstat(&file).map_err(io::Error::from)?.st_size as u64, BLOCK_OF_FILE),
        };
        Ok(Disk { file: Arc::new(file), path: path.to_owned(), capacity, block, is_device, access })
    }

    /// Returns the path of the device or file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Target for Disk {
    fn capacity(&self) -> u64 {
        self.capacity
    }
    fn block(&self) -> u32 {
        self.block
    }
    fn discards(&self) -> bool {
        self.is_device && self.access == Access::ReadWrite
    }
    fn channel(&self) -> io::Result<Box<dyn Channel>> {
        Ok(Box::new(FileChannel { file: self.file.clone(), is_device: self.is_device }))
    }
}

struct FileChannel {
    file: Arc<File>,
    is_device: bool,
}

impl Channel for FileChannel {
    fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
    fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }
    fn discard(&mut self, offset: u64, length: u64) -> io::Result<()> {
        if !self.is_device {
            return Err(io::ErrorKind::Unsupported.into());
        }
        crate::discard::discard(&self.file, offset, length)
    }
    fn flush(&mut self, data_only: bool) -> io::Result<()> {
        if data_only { self.file.sync_data() } else { self.file.sync_all() }
    }
}
