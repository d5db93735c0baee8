//! The tree of a directory, and the check that the directory did not change while it was read.
//!
//! A directory in use cannot be read in one instant. [`Scan`] therefore keeps the state of every entry as
//! `lstat` returned it. The state includes the time of the last status change, which no program can set back.
//! After the last file is read, [`Scan::check_unchanged`] compares the states of all entries. A change that
//! affects none of these fields, such as a write through a shared mapping before the kernel updates the
//! times, is not detected.

use crate::error::ImageError;
use crate::tree::{Content, DeviceNumber, Entry, Kind, MODE_BITS, Time, Tree};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory with the state of its entries when it was listed, or a single file with its state.
#[derive(Debug)]
pub struct Scan {
    root: PathBuf,
    tree: Tree,
    stamps: BTreeMap<PathBuf, Stamp>,
}

/// State of an entry. Almost every change of the entry changes one of these numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    mode: u32,
    links: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            mode: metadata.mode(),
            links: metadata.nlink(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Scan {
    /// Lists a directory. Symbolic links in the directory become entries; `root` itself may be a symbolic
    /// link.
    ///
    /// # Errors
    /// Returns an error if a directory or link cannot be read.
    pub fn of(root: &Path) -> Result<Scan, ImageError> {
        let metadata = fs::metadata(root).map_err(|error| ImageError::file(root, error))?;
        if !metadata.is_dir() {
            return Err(ImageError::file(root, io::Error::from(io::ErrorKind::NotADirectory)));
        }
        let tree = Tree::new(entry(Kind::Directory, &metadata));
        let stamps = BTreeMap::from([(PathBuf::new(), Stamp::of(&metadata))]);
        let mut scan = Scan { root: root.to_owned(), tree, stamps };
        scan.list(Path::new(""), &mut BTreeMap::new())?;
        Ok(scan)
    }

    /// Lists a single file, and returns its contents as well. A symbolic link stands for the file that it points to.
    ///
    /// # Errors
    /// Returns an error if there is no such file.
    pub fn of_file(path: &Path) -> Result<(Scan, Content), ImageError> {
        let wrong = |error| ImageError::file(path, error);
        let from = fs::canonicalize(path).map_err(wrong)?;
        let metadata = fs::metadata(&from).map_err(wrong)?;
        if !metadata.is_file() {
            return Err(wrong(io::Error::other("it is not a regular file")));
        }
        let tree = Tree::new(Entry::directory(Time::default()));
        let stamps = BTreeMap::from([(PathBuf::new(), Stamp::of(&metadata))]);
        let content = Content::Copy { from: from.clone(), size: metadata.size() };
        Ok((Scan { root: from, tree, stamps }, content))
    }

    /// Returns the directory or file.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the tree.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Adds the entries of the directory `folder`. `linked` holds the first name of each file with several hard links.
    fn list(&mut self, folder: &Path, linked: &mut BTreeMap<(u64, u64), PathBuf>) -> Result<(), ImageError> {
        let place = self.root.join(folder);
        let names = fs::read_dir(&place)
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<Result<Vec<_>, _>>());
        let mut names = names.map_err(|error| ImageError::file(&place, error))?;
        names.sort();
        for name in names {
            let (path, from) = (folder.join(&name), place.join(&name));
            let metadata = fs::symlink_metadata(&from).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ImageError::Changed { path: from.clone() },
                _ => ImageError::file(&from, error),
            })?;
            let kind = kind(&from, &path, &metadata, linked)?;
            let is_directory = kind == Kind::Directory;
            self.tree.insert(&path, entry(kind, &metadata))?;
            self.stamps.insert(path.clone(), Stamp::of(&metadata));
            if is_directory {
                self.list(&path, linked)?;
            }
        }
        Ok(())
    }

    /// Returns the state that a file had when it was listed; `None` if the file does not belong to the
    /// directory.
    pub(crate) fn stamp(&self, from: &Path) -> Option<Stamp> {
        self.stamps.get(from.strip_prefix(&self.root).ok()?).copied()
    }

    /// Returns the path of an entry in the filesystem of this machine.
    fn at(&self, path: &Path) -> PathBuf {
        // Joining an empty path would add a slash.
        if path.as_os_str().is_empty() { self.root.clone() } else { self.root.join(path) }
    }

    /// Checks that every entry is as it was listed, and that no entry was added.
    ///
    /// # Errors
    /// Returns [`ImageError::Changed`] with the first entry that differs.
    pub fn check_unchanged(&self) -> Result<(), ImageError> {
        for (path, stamp) in &self.stamps {
            let from = self.at(path);
            let now =
                if path.as_os_str().is_empty() { fs::metadata(&from) } else { fs::symlink_metadata(&from) };
            // A new or removed name changes the time of its directory.
            if now.ok().map(|metadata| Stamp::of(&metadata)) != Some(*stamp) {
                return Err(ImageError::Changed { path: from });
            }
        }
        Ok(())
    }
}

fn entry(kind: Kind, metadata: &Metadata) -> Entry {
    let nanoseconds = u32::try_from(metadata.mtime_nsec()).unwrap_or(0);
    Entry {
        kind,
        mode: metadata.mode() & MODE_BITS,
        uid: metadata.uid(),
        gid: metadata.gid(),
        modified: Time { seconds: metadata.mtime(), nanoseconds },
    }
}

fn kind(
    from: &Path,
    path: &Path,
    metadata: &Metadata,
    linked: &mut BTreeMap<(u64, u64), PathBuf>,
) -> Result<Kind, ImageError> {
    let file_type = metadata.file_type();
    if file_type.is_file() && metadata.nlink() > 1 {
        let first = linked.entry((metadata.dev(), metadata.ino())).or_insert_with(|| path.to_owned());
        if first != path {
            return Ok(Kind::HardLink(first.clone()));
        }
    }
    let number = DeviceNumber(metadata.rdev());
    Ok(match file_type {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_symlink() => {
            let target = fs::read_link(from).map_err(|error| ImageError::file(from, error))?;
            Kind::Symlink(target.into_os_string())
        }
        kind if kind.is_fifo() => Kind::Fifo,
        kind if kind.is_socket() => Kind::Socket,
        kind if kind.is_char_device() => Kind::CharacterDevice(number),
        kind if kind.is_block_device() => Kind::BlockDevice(number),
        _ => Kind::File(Content::Copy { from: from.to_owned(), size: metadata.size() }),
    })
}
