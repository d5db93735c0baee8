//! `file`: a device whose bytes lie in a file or in another block device.
//!
//! - The file is sparse. Ranges that were never written, or were discarded, take no room on filesystems that punch
//!   holes.
//! - The data of an answered request is in the system's page cache, or on the disk with [`Access::Direct`],
//!   and survives the end of this process. Flushed data, and data written with FUA, is as durable as
//!   fdatasync makes it.
//! - A write that finds the disk full fails (ENOSPC); requests that were answered before are unaffected. A full quota
//!   and the limit on a file's size have the same effect.
//! - After one failed fdatasync the durable contents are unknown, because Linux forgets the pages that it could not
//!   write. From then on every flush fails.
//! - [`Access::Direct`] (O_DIRECT) bypasses the page cache. The device then has blocks of 4 KiB and the latency of the
//!   underlying disk.
//! - A block device that is opened for writing is opened exclusively (O_EXCL). The block device must not be
//!   mounted or otherwise in use, and Linux does not mount it while it is open.
//! - A file that is opened for writing must not be the backing file of a loop device, which may be mounted.
//! - The file is locked, so only one process can serve it, or several processes that all serve it read-only. File locks
//!   are advisory, so another program may still change the file's size. A file that has grown is served up to its
//!   original size. A file that has shrunk has lost bytes of answered writes, so every request fails once a
//!   request has found the file too short.

use crate::loop_device;
use crate::whole::sync_folder_of;
use crate::{Answer, BlockDevice, Context, Extent, Features, Geometry, Io, IoError, Outcome, Started};
use flashlab_sim::{Store, StoreError};
use rustix::fs::{Advice, FallocateFlags, OFlags, SeekFrom, fadvise, fallocate, fstatfs, seek};
use rustix::io::{Errno, ReadWriteFlags, preadv2, pwritev2};
use std::fmt;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Largest read or write, in bytes.
const REQUEST_MAX: u64 = 64 << 20;
/// Alignment that O_DIRECT needs for addresses, offsets and lengths, in bytes; no disk needs more.
const DIRECT_BLOCK: u64 = 4096;
/// Maximum size in bytes of one copy through an aligned buffer, and of one write of zeroes.
const PIECE: usize = 1 << 20;

/// Filesystems in memory, by their magic numbers in statfs(2): tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Mode of access to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// Through the page cache.
    #[default]
    Cached,
    /// Bypasses the page cache (O_DIRECT).
    Direct,
}

/// A device whose bytes lie in a file.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    size: u64,
    access: Access,
    read_only: bool,
    /// True for a regular file, false for a block device.
    regular: bool,
    /// True if the opening created the file.
    is_new: bool,
    shrunk: AtomicBool,
    /// Number of writes that did not look at the size first.
    blind_writes: AtomicU64,
    /// Number of these writes that a later look at the size covered.
    covered_writes: AtomicU64,
    can_punch: AtomicBool,
    can_zero: AtomicBool,
    /// True after a failed flush. The lock is held during a flush, because Linux reports a lost write to only
    /// one of several concurrent flushes.
    sync_failed: Mutex<bool>,
}

/// The reason why a file cannot be opened as a device.
#[derive(Debug)]
pub enum FileError {
    /// The system reports an error.
    System {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The file is locked by another process, or by another device of this process.
    Locked(PathBuf),
    /// The block device is mounted, or in use otherwise.
    InUse(PathBuf),
    /// The file is the backing file of a loop device.
    BelowLoopDevice {
        /// Path of the file.
        path: PathBuf,
        /// Name of the loop device, without its directory.
        device: String,
    },
    /// The file does not exist, and the caller gave no size for a new one.
    NoSize(PathBuf),
    /// The size of the file differs from the requested size.
    SizeMismatch {
        /// Path of the file.
        path: PathBuf,
        /// Size of the file, in bytes.
        found: u64,
    },
    /// The size is not a multiple of 4 KiB, which [`Access::Direct`] needs.
    Unaligned(PathBuf),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileError::System { path, error } => write!(f, "{}: {error}", path.display()),
            FileError::Locked(path) => {
                write!(
                    f,
                    "{}: this file is in use, by another process or by another device of this command; stop that process, or name the file once",
                    path.display()
                )
            }
            FileError::InUse(path) => write!(
                f,
                "{}: the block device is mounted, or in use by another program; unmount it or stop that program first, or open it read-only",
                path.display()
            ),
            FileError::BelowLoopDevice { path, device } => write!(
                f,
                "{}: this file is the backing file of /dev/{device}, which may be mounted; unmount it and detach it first (losetup -d /dev/{device}), or open the file read-only",
                path.display()
            ),
            FileError::NoSize(path) => {
                write!(f, "{0}: no such file; file:{0},size=1GiB creates it", path.display())
            }
            FileError::SizeMismatch { path, found } => write!(
                f,
                "{}: the file has {found} bytes; omit size=, or resize the file (truncate -s)",
                path.display()
            ),
            FileError::Unaligned(path) => {
                write!(f, "{}: direct=yes needs a size that is a multiple of 4KiB", path.display())
            }
        }
    }
}

impl std::error::Error for FileError {}

impl File {
    /// Returns the mode of access.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Opens the file at `path`. If `size` is given and `read_only` is not set, creates a missing file and
    /// extends an empty one; the file then consists of a single hole of `size` bytes. Removes a file that it
    /// created if it fails afterwards, unless another process has locked the file.
    pub fn open(path: &Path, size: Option<u64>, access: Access, read_only: bool) -> Result<File, FileError> {
        let mut options = fs::OpenOptions::new();
        // Without O_CREAT, O_EXCL claims a block device.
        let claims =
            !read_only && path.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device());
        options.read(true).write(!read_only);
        let mut flags = OFlags::empty();
        flags.set(OFlags::DIRECT, access == Access::Direct);
        flags.set(OFlags::EXCL, claims);
        options.custom_flags(flags.bits().cast_signed());
        let creates = !read_only && !claims && size.is_some();
        let (file, is_new) = open_or_create(&mut options, path, creates).map_err(|error| {
            let folder = path.parent().filter(|folder| *folder != Path::new(""));
            let can_be_created = !read_only && folder.is_none_or(Path::is_dir);
            match error.kind() {
                io::ErrorKind::NotFound if can_be_created => FileError::NoSize(path.to_owned()),
                io::ErrorKind::ResourceBusy if claims => FileError::InUse(path.to_owned()),
                _ => FileError::System { path: path.to_owned(), error },
            }
        })?;
        if !read_only && !is_new {
            check_loop_devices(&file, path)?;
        }
        let opened = File::of(file, path, size, access, read_only);
        // A file that another process has locked meanwhile is in use.
        if is_new && opened.as_ref().is_err_and(|error| !matches!(error, FileError::Locked(_))) {
            let _ = fs::remove_file(path);
        }
        opened.map(|file| File { is_new, ..file })
    }

    /// Locks an open file, and extends an empty one.
    fn of(
        file: fs::File,
        path: &Path,
        size: Option<u64>,
        access: Access,
        read_only: bool,
    ) -> Result<File, FileError> {
        let system = |error| FileError::System { path: path.to_owned(), error };
        let locked = if read_only { file.try_lock_shared() } else { file.try_lock() };
        match locked {
            Err(fs::TryLockError::WouldBlock) => return Err(FileError::Locked(path.to_owned())),
            // A filesystem without locks cannot report that another process holds one.
            Ok(()) | Err(fs::TryLockError::Error(_)) => {}
        }
        // The metadata of a block device has no length, so a seek finds the end of the device.
        let found = seek(&file, SeekFrom::End(0)).map_err(|error| system(error.into()))?;
        let size = match (found, size) {
            (0, Some(size)) if !read_only => {
                file.set_len(size).map_err(system)?;
                // A flush makes the file durable, but not its name.
                sync_folder_of(path).map_err(system)?;
                size
            }
            (found, Some(size)) if size != found => {
                return Err(FileError::SizeMismatch { path: path.to_owned(), found });
            }
            (found, _) => found,
        };
        let regular = file.metadata().map_err(system)?.is_file();
        let size = match access {
            // The sectors after the last whole block are left out, because requests consist of whole blocks.
            Access::Direct if !regular => size / DIRECT_BLOCK * DIRECT_BLOCK,
            Access::Direct if !size.is_multiple_of(DIRECT_BLOCK) => {
                return Err(FileError::Unaligned(path.to_owned()));
            }
            _ => size,
        };
        let [can_punch, can_zero, shrunk] = [true, true, false].map(AtomicBool::new);
        let (blind_writes, covered_writes) = Default::default();
        Ok(File {
            file,
            size,
            access,
            read_only,
            regular,
            is_new: false,
            shrunk,
            blind_writes,
            covered_writes,
            can_punch,
            can_zero,
            sync_failed: Mutex::new(false),
        })
    }

    /// Returns true if the opening created the file.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Fails if the file has become shorter than the device. A query for extents calls this method first,
    /// because the query would report the lost range as a hole.
    ///
    /// A write to the lost range extends the file again, with zeroes in place of the lost data. A write of the last byte
    /// hides the loss in this way, so it calls this method first. After any other write, the file stays too
    /// short, so [`check_after_blind_writes`](Self::check_after_blind_writes) of a later read notices the loss,
    /// and a flush does.
    fn check_size(&self) -> io::Result<()> {
        let writes = self.blind_writes.load(Ordering::SeqCst);
        if self.regular && self.file.metadata()?.len() < self.size {
            self.shrunk.store(true, Ordering::SeqCst);
        }
        self.covered_writes.fetch_max(writes, Ordering::SeqCst);
        match self.shrunk.load(Ordering::SeqCst) {
            true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file has shrunk")),
            false => Ok(()),
        }
    }

    /// Looks at the size, or notes that a write of `length` bytes does not.
    fn check_before_write(&self, offset: u64, length: usize) -> io::Result<()> {
        if offset + length as u64 >= self.size || self.shrunk.load(Ordering::SeqCst) {
            return self.check_size();
        }
        self.blind_writes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Looks at the size if writes since the last look did not. The bytes of a read may be zeroes in place of lost data
    /// otherwise.
    fn check_after_blind_writes(&self) -> io::Result<()> {
        match self.blind_writes.load(Ordering::SeqCst) == self.covered_writes.load(Ordering::SeqCst) {
            true => Ok(()),
            false => self.check_size(),
        }
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true if the file lies in memory (tmpfs or ramfs), so that no request waits for a disk.
    pub fn is_in_memory(&self) -> bool {
        fstatfs(&self.file).is_ok_and(|system| IN_MEMORY.contains(&(system.f_type as u64 & 0xffff_ffff)))
    }

    /// Reads from the page cache. Returns false if the disk would have to be read.
    pub(crate) fn read_now(&self, offset: u64, buffer: &mut [u8]) -> Result<bool, Errno> {
        if self.shrunk.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let length = buffer.len();
        let read = preadv2(&self.file, &mut [io::IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT);
        match read {
            Ok(read) => Ok(read == length && self.check_after_blind_writes().is_ok()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes to the page cache. Returns false if the write would have to wait. Even then, a part of the data
    /// may be written.
    pub(crate) fn write_now(&self, offset: u64, bytes: &[u8]) -> Result<bool, Errno> {
        if self.check_before_write(offset, bytes.len()).is_err() {
            return Ok(false);
        }
        match pwritev2(&self.file, &[io::IoSlice::new(bytes)], offset, ReadWriteFlags::NOWAIT) {
            Ok(written) => Ok(written == bytes.len()),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let read = self.read_all(offset, buffer);
        // A read that meets the end of the file shows that the file has shrunk.
        if read.is_err() || self.shrunk.load(Ordering::Relaxed) {
            self.check_size()?;
        }
        self.check_after_blind_writes()?;
        read
    }

    fn read_all(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        if self.access == Access::Cached {
            return self.file.read_exact_at(buffer, offset);
        }
        let mut aligned = Aligned::new(buffer.len());
        for (at, part) in (offset..).step_by(PIECE).zip(buffer.chunks_mut(PIECE)) {
            let aligned_part = aligned.of(part.len());
            self.file.read_exact_at(aligned_part, at)?;
            part.copy_from_slice(aligned_part);
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.check_before_write(offset, bytes.len())?;
        if self.access == Access::Cached {
            return self.file.write_all_at(bytes, offset);
        }
        let mut aligned = Aligned::new(bytes.len());
        for (at, part) in (offset..).step_by(PIECE).zip(bytes.chunks(PIECE)) {
            let aligned_part = aligned.of(part.len());
            aligned_part.copy_from_slice(part);
            self.file.write_all_at(aligned_part, at)?;
        }
        Ok(())
    }

    /// Punches a hole. Returns false if the filesystem does not support holes or rejects the range.
    fn punch(&self, offset: u64, length: u64) -> io::Result<bool> {
        self.allocate(&self.can_punch, FallocateFlags::PUNCH_HOLE, offset, length)
    }

    fn allocate(
        &self,
        supported: &AtomicBool,
        flags: FallocateFlags,
        offset: u64,
        length: u64,
    ) -> io::Result<bool> {
        if length == 0 || !supported.load(Ordering::Relaxed) {
            return Ok(length == 0);
        }
        self.check_size()?;
        match fallocate(&self.file, flags | FallocateFlags::KEEP_SIZE, offset, length) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                supported.store(false, Ordering::Relaxed);
                Ok(false)
            }
            // A block device rejects ranges that are not aligned to its own blocks.
            Err(Errno::INVAL) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_zeroes(&self, offset: u64, length: u64) -> io::Result<()> {
        let zeroes = vec![0; PIECE.min(length as usize)];
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let part = (end - at).min(PIECE as u64);
            self.write(at, &zeroes[..part as usize])?;
            at += part;
        }
        Ok(())
    }

    fn find_data(&self, range: Range<u64>) -> io::Result<Option<Range<u64>>> {
        self.check_size()?;
        let data = match seek(&self.file, SeekFrom::Data(range.start)) {
            // The rest of the file is a hole.
            Err(Errno::NXIO) => return Ok(None),
            // The filesystem does not report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(Some(range)),
            found => found?,
        };
        if data >= range.end {
            return Ok(None);
        }
        let hole = seek(&self.file, SeekFrom::Hole(data))?;
        Ok(Some(data..hole.clamp(data + 1, range.end)))
    }

    fn flush(&self) -> io::Result<()> {
        self.check_size()?;
        let mut failed = self.sync_failed.lock().unwrap_or_else(PoisonError::into_inner);
        if *failed {
            return Err(io::Error::other("an earlier flush failed"));
        }
        let synced = self.file.sync_data();
        *failed = synced.is_err();
        synced
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        let (mut extents, mut at, end) = (Vec::new(), offset, offset + length);
        while at < end {
            let data = self.find_data(at..end)?.unwrap_or(end..end);
            for (to, hole) in [(data.start, true), (data.end, false)] {
                if to > at {
                    Extent { length: to - at, hole, zero: hole }.append(&mut extents);
                    at = to;
                }
            }
        }
        Ok(extents)
    }

    fn execute(&self, io: Io) -> Outcome {
        io.check(&BlockDevice::geometry(self))?;
        if self.read_only && io.is_write() {
            return Err(IoError::ReadOnly);
        }
        let failed = |error: io::Error| IoError::from(store_error(&error));
        let durable = match io {
            Io::Read { offset, mut buffer } => {
                self.read(offset, &mut buffer).map_err(failed)?;
                return Ok(Answer::Read(buffer));
            }
            Io::Extents { offset, length } => {
                return self.extents(offset, length).map(Answer::Extents).map_err(failed);
            }
            Io::Write { offset, data, durable } => {
                self.write(offset, &data).map_err(failed)?;
                durable
            }
            Io::WriteZeroes { offset, length, durable, allocate, fast } => {
                let flags = FallocateFlags::ZERO_RANGE;
                let done = match allocate {
                    true => self.allocate(&self.can_zero, flags, offset, length),
                    false => self.punch(offset, length),
                };
                match done.map_err(failed)? {
                    true => {}
                    false if fast => return Err(IoError::Unsupported),
                    false => self.write_zeroes(offset, length).map_err(failed)?,
                }
                durable
            }
            Io::Discard { offset, length, durable } => {
                // A filesystem without holes leaves the old data in place, which a discard permits.
                self.punch(offset, length).map_err(failed)?;
                durable
            }
            Io::Flush => true,
            Io::Cache { offset, length } => {
                // The system may ignore the advice, so its result does not matter.
                let _ = fadvise(&self.file, offset, NonZeroU64::new(length), Advice::WillNeed);
                false
            }
        };
        if durable {
            self.flush().map_err(failed)?;
        }
        Ok(Answer::Done)
    }
}

/// Opens a file, and creates it if it does not exist and `creates` is set. Also returns true if this call created it.
fn open_or_create(options: &mut fs::OpenOptions, path: &Path, creates: bool) -> io::Result<(fs::File, bool)> {
    match options.open(path) {
        Err(error) if creates && error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened.map(|file| (file, false)),
    }
    match options.clone().create_new(true).open(path) {
        // Another process created the file meanwhile, or the path is a symbolic link to a missing file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create(true).open(path).map(|file| (file, false))
        }
        created => created.map(|file| (file, true)),
    }
}

/// Fails if an open file is the backing file of a loop device.
fn check_loop_devices(file: &fs::File, path: &Path) -> Result<(), FileError> {
    let metadata = file.metadata().map_err(|error| FileError::System { path: path.to_owned(), error })?;
    match loop_device::find(Path::new(loop_device::BLOCK_DEVICES), &metadata) {
        Some(device) => Err(FileError::BelowLoopDevice { path: path.to_owned(), device }),
        None => Ok(()),
    }
}

/// Translates an error of the system. A full disk, a full quota and a file at its size limit all mean that there is no
/// space.
fn store_error(error: &io::Error) -> StoreError {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | FileTooLarge => StoreError::NoSpace,
        _ => StoreError::Failed,
    }
}

/// A buffer at an address that O_DIRECT accepts.
struct Aligned {
    bytes: Vec<u8>,
    from: usize,
}

impl Aligned {
    fn new(length: usize) -> Aligned {
        let bytes = vec![0; length.min(PIECE) + DIRECT_BLOCK as usize];
        let from = bytes.as_ptr().align_offset(DIRECT_BLOCK as usize);
        Aligned { bytes, from }
    }
    fn of(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + length]
    }
}

impl Store for File {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), StoreError> {
        File::read(self, offset, buffer).map_err(|error| store_error(&error))
    }
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        File::write(self, offset, bytes).map_err(|error| store_error(&error))
    }
    fn discard(&self, offset: u64, length: u64) -> Result<(), StoreError> {
        match self.punch(offset, length) {
            Ok(false) => self.write_zeroes(offset, length),
            done => done.map(drop),
        }
        .map_err(|error| store_error(&error))
    }
    fn data_in(&self, range: Range<u64>) -> Result<Option<Range<u64>>, StoreError> {
        self.find_data(range).map_err(|error| store_error(&error))
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.flush().map_err(|error| store_error(&error))
    }
}

impl BlockDevice for File {
    fn geometry(&self) -> Geometry {
        let block = if self.access == Access::Direct { DIRECT_BLOCK } else { 1 };
        Geometry { capacity: self.size, block, request_max: REQUEST_MAX }
    }
    fn features(&self) -> Features {
        Features {
            read_only: self.read_only,
            discard: true,
            write_zeroes: true,
            extents: true,
            cache: self.access == Access::Cached,
            rotational: false,
            timed: false,
        }
    }
    fn start(&self, _cx: &Context, io: Io) -> Started {
        Started::Done(self.execute(io))
    }
}
