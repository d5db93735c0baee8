//! A tree laid out in a temporary directory, from which the tools read.
//!
//! The tools read a copy instead of the user's files, so the contents, modes, owners and times that the tools
//! see are those of the tree. Holes of a file stay holes. Only a directory whose tree is packed unchanged
//! needs no copy: [`Stage::in_place`].

use crate::error::{ImageError, TreeProblem};
use crate::scan::{Scan, Stamp};
use crate::temporary;
use crate::tree::{Content, Entry, Kind, Tree};
use flashlab_block::TemporaryFolder;
use rustix::fs::{Access, CWD, access, mknodat, seek, utimensat};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, SeekFrom, Timespec, Timestamps};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};

/// A tree in a temporary directory, which is removed with this value, or in the user's own directory.
#[derive(Debug)]
pub struct Stage {
    folder: TemporaryFolder,
    root: PathBuf,
    tree: Tree,
    /// The directory that the tools read; `None` if they read a copy.
    in_place: Option<Scan>,
}

impl Stage {
    /// Lays out a tree. The files of `scans` must not change between their listing and the end of the last
    /// copy.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read, if it changed meanwhile, or if it belongs to
    /// another user and the caller is not root. A tree whose entries all belong to root needs no rights,
    /// because the tools then set the owner.
    pub fn new(tree: Tree, scans: &[Scan]) -> Result<Stage, ImageError> {
        let folder = temporary::folder()?;
        let stage = Stage { root: folder.path().join("root"), folder, tree, in_place: None };
        fs::create_dir(&stage.root).map_err(|error| ImageError::file(&stage.root, error))?;
        for (path, entry) in stage.tree.entries() {
            stage.create(path, entry, scans)?;
        }
        // Creating the contents of a directory changes its time and needs write access. Hence the contents come first.
        for (path, entry) in stage.tree.entries().rev() {
            stage.set_attributes(path, entry)?;
        }
        scans.iter().try_for_each(Scan::check_unchanged)?;
        Ok(stage)
    }

    /// Lets the tools read a directory itself. Afterwards, the caller calls [`Stage::check_unchanged`].
    ///
    /// # Errors
    /// Returns an error if a file cannot be read; mksquashfs would leave it out.
    pub fn in_place(scan: Scan) -> Result<Stage, ImageError> {
        let (root, tree) = (scan.root().to_owned(), scan.tree().clone());
        for (path, entry) in tree.entries() {
            if matches!(entry.kind, Kind::Directory | Kind::File(_)) {
                let from = root.join(path);
                access(&from, Access::READ_OK).map_err(|error| ImageError::file(&from, error.into()))?;
            }
        }
        Ok(Stage { folder: temporary::folder()?, root, tree, in_place: Some(scan) })
    }

    /// Checks that the directory of [`Stage::in_place`] did not change while the tools read it.
    ///
    /// # Errors
    /// Returns [`ImageError::Changed`] with the first entry that differs.
    pub fn check_unchanged(&self) -> Result<(), ImageError> {
        self.in_place.as_ref().map_or(Ok(()), Scan::check_unchanged)
    }

    /// Returns the directory with the tree's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns a path beside the root, for a file of a tool.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn create(&self, path: &Path, entry: &Entry, scans: &[Scan]) -> Result<(), ImageError> {
        let to = self.root().join(path);
        let node = |file_type, number| {
            mknodat(CWD, &to, file_type, Mode::from_raw_mode(0o600), number).map_err(io::Error::from)
        };
        let done = match &entry.kind {
            Kind::Directory if path.as_os_str().is_empty() => Ok(()),
            Kind::Directory => fs::create_dir(&to),
            Kind::File(Content::Bytes(bytes)) => fs::write(&to, bytes),
            Kind::File(Content::Copy { from, size }) => {
                let stamp = scans.iter().find_map(|scan| scan.stamp(from));
                return copy(from, *size, stamp, &to);
            }
            Kind::HardLink(first) => fs::hard_link(self.root().join(first), &to),
            Kind::Symlink(target) => symlink(target, &to),
            Kind::Fifo => node(FileType::Fifo, 0),
            Kind::Socket => node(FileType::Socket, 0),
            Kind::CharacterDevice(number) => node(FileType::CharacterDevice, number.0),
            Kind::BlockDevice(number) => node(FileType::BlockDevice, number.0),
        };
        let is_device = matches!(entry.kind, Kind::CharacterDevice(_) | Kind::BlockDevice(_));
        done.map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied if is_device => ImageError::tree(path, TreeProblem::DeviceNode),
            _ => ImageError::file(&to, error),
        })
    }

    fn set_attributes(&self, path: &Path, entry: &Entry) -> Result<(), ImageError> {
        if matches!(entry.kind, Kind::HardLink(_)) {
            return Ok(());
        }
        let to = self.root().join(path);
        let wrong = |error| ImageError::file(&to, error);
        let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if (entry.uid, entry.gid) != own && (own.0 == 0 || !self.tree.belongs_to_root()) {
            lchown(&to, Some(entry.uid), Some(entry.gid)).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    ImageError::tree(path, TreeProblem::NeedsRoot { uid: entry.uid, gid: entry.gid })
                }
                _ => wrong(error),
            })?;
        }
        if !matches!(entry.kind, Kind::Symlink(_)) {
            // The permissions come after the owner, because a change of the owner clears the set-user-ID bit.
            fs::set_permissions(&to, Permissions::from_mode(entry.mode)).map_err(wrong)?;
        }
        let time = Timespec { tv_sec: entry.modified.seconds, tv_nsec: entry.modified.nanoseconds.into() };
        let times = Timestamps { last_access: time, last_modification: time };
        utimensat(CWD, &to, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| wrong(error.into()))
    }
}

/// Copies a file of `size` bytes. A file that was listed before must still have the state `stamp`.
fn copy(from: &Path, size: u64, stamp: Option<Stamp>, to: &Path) -> Result<(), ImageError> {
    let unreadable = |error| ImageError::file(from, error);
    // Another entry may have taken the place of the file. A link must not be followed, and a pipe must not
    // block the reader.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = if stamp.is_some() { flags } else { OFlags::NONBLOCK.bits() };
    let opened = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(from);
    let mut source = match opened {
        Ok(source) => source,
        Err(error) if stamp.is_some() && is_replaced(&error) => {
            return Err(ImageError::Changed { path: from.to_owned() });
        }
        Err(error) => return Err(unreadable(error)),
    };
    let before = Stamp::of(&source.metadata().map_err(unreadable)?);
    let mut target = File::create_new(to).map_err(|error| ImageError::file(to, error))?;
    target.set_len(size).map_err(|error| ImageError::file(to, error))?;
    let copied = copy_data(&mut source, &mut target, size, 0).map_err(|error| match error {
        CopyError::Read(error) => unreadable(error),
        CopyError::Write(error) => ImageError::file(to, error),
    })?;
    let after = Stamp::of(&source.metadata().map_err(unreadable)?);
    if !copied || after != before || stamp.is_some_and(|stamp| stamp != before) {
        return Err(ImageError::Changed { path: from.to_owned() });
    }
    Ok(())
}

/// Returns true if an error from opening a file shows that another entry has taken its place.
fn is_replaced(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// The side of a copy that failed.
pub(crate) enum CopyError {
    Read(io::Error),
    Write(io::Error),
}

/// Copies the data of a file to `offset` in another file, and skips its holes. Returns false if the size of
/// the source is not `size` bytes.
pub(crate) fn copy_data(
    source: &mut File,
    target: &mut File,
    size: u64,
    offset: u64,
) -> Result<bool, CopyError> {
    let mut at = 0;
    let mut piece = vec![0; 1 << 20];
    while at < size {
        let (start, end) = match seek(&*source, SeekFrom::Data(at)) {
            Ok(start) if start >= size => break,
            Ok(start) => match seek(&*source, SeekFrom::Hole(start)) {
                Ok(end) => (start, end.min(size)),
                Err(error) => return Err(CopyError::Read(error.into())),
            },
            // The rest is a hole, or the file became shorter.
            Err(Errno::NXIO) => break,
            // The filesystem does not support holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => (at, size),
            Err(error) => return Err(CopyError::Read(error.into())),
        };
        source.seek(io::SeekFrom::Start(start)).map_err(CopyError::Read)?;
        target.seek(io::SeekFrom::Start(offset + start)).map_err(CopyError::Write)?;
        let mut left = end - start;
        while left > 0 {
            let length = left.min(piece.len() as u64) as usize;
            let read = source.read(&mut piece[..length]).map_err(CopyError::Read)?;
            if read == 0 {
                return Ok(false);
            }
            target.write_all(&piece[..read]).map_err(CopyError::Write)?;
            left -= read as u64;
        }
        at = end;
    }
    Ok(source.metadata().map_err(CopyError::Read)?.len() == size)
}
