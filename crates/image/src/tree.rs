//! A tree of files: names, modes, owners, times and the origin of the contents.
//!
//! The entries are sorted by path, component by component and byte by byte, so a directory precedes its contents. The
//! root is an entry with an empty path, and always exists.

use crate::error::{ImageError, TreeProblem};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Bits of a mode: permissions, set-user-ID, set-group-ID and sticky.
pub const MODE_BITS: u32 = 0o7777;

/// A tree of files.
#[derive(Clone, Debug)]
pub struct Tree {
    entries: BTreeMap<PathBuf, Entry>,
}

/// A file, directory or other entry of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Kind and contents.
    pub kind: Kind,
    /// Permissions, set-user-ID, set-group-ID and sticky bits.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Time of the last modification.
    pub modified: Time,
}

/// A time since 1970-01-01 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanoseconds: u32,
}

/// Kind of an entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File(Content),
    /// Another name of a regular file: the path of its first name in the tree.
    HardLink(PathBuf),
    /// A symbolic link to a path, which is not followed.
    Symlink(OsString),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharacterDevice(DeviceNumber),
    /// A block device.
    BlockDevice(DeviceNumber),
}

/// Number of a device node, as `rdev` of stat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceNumber(pub u64);

/// Origin of a file's contents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A file of the machine with this size.
    Copy {
        /// The file.
        from: PathBuf,
        /// Size in bytes.
        size: u64,
    },
}

impl Content {
    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Copy { size, .. } => *size,
        }
    }
}

impl Kind {
    /// Returns the name of the kind with its article, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Directory => "a directory",
            Kind::File(_) => "a file",
            Kind::HardLink(_) => "a hard link",
            Kind::Symlink(_) => "a symbolic link",
            Kind::Fifo => "a named pipe",
            Kind::Socket => "a socket",
            Kind::CharacterDevice(_) | Kind::BlockDevice(_) => "a device node",
        }
    }
}

impl Time {
    /// Returns a time of whole seconds.
    pub fn from_seconds(seconds: i64) -> Time {
        Time { seconds, nanoseconds: 0 }
    }
}

impl Entry {
    /// Returns a directory of root with mode 0755.
    pub fn directory(modified: Time) -> Entry {
        Entry { kind: Kind::Directory, mode: 0o755, uid: 0, gid: 0, modified }
    }

    /// Returns a file of root with mode 0644.
    pub fn file(content: Content, modified: Time) -> Entry {
        Entry { kind: Kind::File(content), mode: 0o644, uid: 0, gid: 0, modified }
    }
}

impl Tree {
    /// Creates a tree with the root alone.
    pub fn new(root: Entry) -> Tree {
        assert_eq!(root.kind, Kind::Directory, "the root is a directory");
        Tree { entries: BTreeMap::from([(PathBuf::new(), root)]) }
    }

    /// Returns the entries with their paths, each directory before its contents.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = (&Path, &Entry)> {
        self.entries.iter().map(|(path, entry)| (path.as_path(), entry))
    }

    /// Returns the entry at a path.
    pub fn get(&self, path: &Path) -> Option<&Entry> {
        self.entries.get(path)
    }

    /// Returns the root.
    pub fn root(&self) -> &Entry {
        &self.entries[Path::new("")]
    }

    /// Adds an entry. Directories that are missing on the way get the owner and the time of the root and mode 0755.
    ///
    /// # Errors
    /// Returns an error if the path is taken, leaves the tree, or leads through an entry that is not a directory. A
    /// directory may take the path of another directory, and then replaces its properties.
    pub fn insert(&mut self, path: &Path, entry: Entry) -> Result<(), ImageError> {
        let refuse = |problem| Err(ImageError::tree(path, problem));
        if path.components().any(|part| !matches!(part, Component::Normal(_))) {
            return refuse(TreeProblem::Path);
        }
        match self.entries.get(path) {
            Some(existing) if existing.kind == Kind::Directory && entry.kind == Kind::Directory => {}
            Some(_) => return refuse(TreeProblem::Twice),
            None => {}
        }
        let Entry { uid, gid, modified, .. } = *self.root();
        for ancestor in path.ancestors().skip(1) {
            match self.entries.get(ancestor) {
                Some(parent) if parent.kind == Kind::Directory => break,
                Some(_) => return refuse(TreeProblem::ParentIsNoDirectory),
                None => {
                    let parent = Entry { uid, gid, ..Entry::directory(modified) };
                    self.entries.insert(ancestor.to_owned(), parent);
                }
            }
        }
        // Components without their separators: `a//b` and `a/b` are the same path.
        self.entries.insert(path.components().collect(), entry);
        Ok(())
    }

    /// Applies `change` to every entry.
    pub fn for_each(&mut self, mut change: impl FnMut(&mut Entry)) {
        self.entries.values_mut().for_each(&mut change);
    }

    /// Returns true if all entries belong to root.
    pub fn belongs_to_root(&self) -> bool {
        self.entries.values().all(|entry| (entry.uid, entry.gid) == (0, 0))
    }

    /// Returns the latest time of modification, in whole seconds, rounded up.
    pub fn newest(&self) -> i64 {
        let seconds = |time: Time| time.seconds + i64::from(time.nanoseconds > 0);
        self.entries.values().map(|entry| seconds(entry.modified)).max().expect("a tree has a root")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::new(Entry::directory(Time::from_seconds(1)))
    }

    fn file() -> Entry {
        Entry::file(Content::Bytes(b"x".to_vec()), Time::from_seconds(2))
    }

    fn problem(result: Result<(), ImageError>) -> TreeProblem {
        match result {
            Err(ImageError::Tree { problem, .. }) => problem,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn missing_directories_appear_before_their_contents() {
        let mut tree = tree();
        tree.insert(Path::new("b/c/d"), file()).unwrap();
        tree.insert(Path::new("a"), file()).unwrap();
        let paths: Vec<&str> = tree.entries().map(|(path, _)| path.to_str().unwrap()).collect();
        assert_eq!(paths, ["", "a", "b", "b/c", "b/c/d"]);
        assert_eq!(tree.get(Path::new("b/c")).unwrap().modified, Time::from_seconds(1));
        assert_eq!(tree.newest(), 2);
    }

    #[test]
    fn paths_that_leave_the_tree_or_are_taken_are_refused() {
        let mut tree = tree();
        tree.insert(Path::new("a"), file()).unwrap();
        for path in ["../b", "/b", "b/../../c", "b/.."] {
            assert_eq!(problem(tree.insert(Path::new(path), file())), TreeProblem::Path, "{path}");
        }
        assert_eq!(problem(tree.insert(Path::new("a"), file())), TreeProblem::Twice);
        assert_eq!(problem(tree.insert(Path::new("a/b"), file())), TreeProblem::ParentIsNoDirectory);
        assert_eq!(problem(tree.insert(Path::new("a/b/c"), file())), TreeProblem::ParentIsNoDirectory);
    }
}
