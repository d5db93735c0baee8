//! Errors of images.

use crate::filesystem::{ErofsOptionError, Format};
use crate::table::TableError;
use flashlab_catalogue::profile::Place;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why an image could not be made.
#[derive(Debug)]
pub enum ImageError {
    /// The recipe is wrong.
    Recipe {
        /// The place in the recipe.
        place: Place,
        /// The problem and the way out.
        why: String,
    },
    /// A program is not installed.
    MissingTool {
        /// Name of the program.
        program: &'static str,
        /// Debian's package with the program.
        package: &'static str,
    },
    /// A program failed.
    Tool {
        /// Name of the program.
        program: &'static str,
        /// Messages of the program.
        messages: String,
    },
    /// A program printed no version that can be read.
    ToolVersion {
        /// Name of the program.
        program: &'static str,
        /// Messages of the program.
        messages: String,
    },
    /// A file cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// No space is left for the output or for the temporary files.
    DiskFull {
        /// The folder in which space ran out.
        folder: PathBuf,
    },
    /// Only root can unpack an archive with the owners of its files.
    UnpackNeedsRoot {
        /// The archive.
        archive: PathBuf,
    },
    /// A file or directory changed while it was read.
    Changed {
        /// The first file or directory that differs.
        path: PathBuf,
    },
    /// An entry of the tree cannot be stored.
    Tree {
        /// Path in the image.
        path: PathBuf,
        /// The problem.
        problem: TreeProblem,
    },
    /// The files need more space than the filesystem has.
    DoesNotFit {
        /// The first file beyond the end.
        path: PathBuf,
        /// Size of the filesystem in bytes.
        size: u64,
        /// Bytes of the files up to this one.
        needed: u64,
    },
    /// The files and the filesystem's own structures need more space than the filesystem has.
    Full {
        /// Size of the filesystem in bytes.
        size: u64,
        /// Bytes of the files.
        contents: u64,
    },
    /// The filesystem or image needs more space than it is given.
    TooSmall {
        /// The given size in bytes.
        size: u64,
        /// Bytes that the filesystem or image needs at least.
        needed: u64,
    },
    /// A partition of a recipe cannot be made.
    Partition {
        /// Number of the partition, counted from 1.
        number: usize,
        /// The problem.
        error: Box<ImageError>,
    },
    /// An option for mkfs.erofs would have no effect.
    ErofsOption(ErofsOptionError),
    /// The partition table cannot hold the partitions.
    Table(TableError),
}

/// A property of an entry that prevents it from being stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TreeProblem {
    /// The format has no entries of this kind.
    Kind {
        /// The format.
        format: Format,
        /// The kind: "a symbolic link".
        kind: &'static str,
    },
    /// The format does not permit the name.
    Name {
        /// The format.
        format: Format,
        /// The rule.
        rule: &'static str,
    },
    /// Two names are equal in the format.
    SameName {
        /// The format.
        format: Format,
        /// The other entry.
        other: PathBuf,
    },
    /// The file is longer than the format permits.
    TooLong {
        /// The format.
        format: Format,
        /// Largest size of a file in bytes.
        most: u64,
    },
    /// The time is outside the range of the format.
    Time {
        /// The format.
        format: Format,
        /// The time in seconds since 1970.
        seconds: i64,
    },
    /// The entry belongs to another user, and only root can store that.
    NeedsRoot {
        /// User of the entry.
        uid: u32,
        /// Group of the entry.
        gid: u32,
    },
    /// The entry is a device node, and only root can create one.
    DeviceNode,
    /// Another entry has the same path.
    Twice,
    /// The path leaves the tree, or is not a plain relative path.
    Path,
    /// The parent is not a directory.
    ParentIsNoDirectory,
}

impl ImageError {
    /// Returns the image error for an error of the operating system on `path`; a full disk becomes
    /// [`ImageError::DiskFull`].
    pub(crate) fn file(path: &Path, error: io::Error) -> ImageError {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
            return ImageError::DiskFull { folder: folder.to_owned() };
        }
        ImageError::File { path: path.to_owned(), error }
    }

    pub(crate) fn tree(path: &Path, problem: TreeProblem) -> ImageError {
        ImageError::Tree { path: path.to_owned(), problem }
    }

    /// Returns true if the input is wrong or a program is not installed.
    pub fn is_usage(&self) -> bool {
        match self {
            ImageError::Recipe { .. }
            | ImageError::Tree { .. }
            | ImageError::DoesNotFit { .. }
            | ImageError::Full { .. }
            | ImageError::TooSmall { .. }
            | ImageError::MissingTool { .. }
            | ImageError::ErofsOption(_)
            | ImageError::Table(_) => true,
            ImageError::Partition { error, .. } => error.is_usage(),
            _ => false,
        }
    }
}

impl From<TableError> for ImageError {
    fn from(error: TableError) -> Self {
        ImageError::Table(error)
    }
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImageError::Recipe { place, why } => write!(f, "{place}: {why}\n{}", place.picture()),
            ImageError::MissingTool { program, package } => write!(
                f,
                "the program {program} is not installed; it is in Debian's package {package} (apt-get install \
                 {package})"
            ),
            ImageError::Tool { program, messages } => write!(f, "{program} failed: {messages}"),
            ImageError::ToolVersion { program, messages } => {
                write!(f, "the version of {program} cannot be read from {messages:?}")
            }
            ImageError::File { path, error } => write!(f, "{}: {error}", path.display()),
            ImageError::DiskFull { folder } => write!(
                f,
                "no space is left in {}; free some, or set TMPDIR to a folder with more space if this one is for \
                 temporary files",
                folder.display()
            ),
            ImageError::UnpackNeedsRoot { archive } => write!(
                f,
                "{}: only root can unpack an archive with the owners of its files; run as root, or unpack it and name \
                 the directory",
                archive.display()
            ),
            ImageError::Changed { path } => write!(
                f,
                "{} changed while it was read, so the image would mix two states; stop the program that writes to \
                 it, or copy the directory first",
                path.display()
            ),
            ImageError::Tree { path, problem } => write!(f, "{}: {problem}", shown(path)),
            ImageError::DoesNotFit { path, size, needed } => write!(
                f,
                "{} does not fit: the files up to it need at least {needed} bytes, and the filesystem has {size}; \
                 choose a larger size, or leave files out",
                shown(path)
            ),
            ImageError::Full { size, contents } => write!(
                f,
                "the files of {contents} bytes and the filesystem's own structures do not fit in {size} bytes; \
                 choose a larger size, or leave files out"
            ),
            ImageError::TooSmall { size, needed } => write!(
                f,
                "the filesystem needs at least {needed} bytes, and has {size}; choose a larger size"
            ),
            ImageError::Partition { number, error } => write!(f, "partition {number}: {error}"),
            ImageError::ErofsOption(error) => error.fmt(f),
            ImageError::Table(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImageError {}

impl fmt::Display for TreeProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TreeProblem::Kind { format, kind } => write!(
                f,
                "{format} cannot store {kind}; leave the entry out, or choose ext4, squashfs or erofs"
            ),
            TreeProblem::Name { format, rule } => {
                write!(
                    f,
                    "{format} cannot store this name: {rule}; rename the file, or choose ext4 or squashfs"
                )
            }
            TreeProblem::SameName { format, other } => write!(
                f,
                "{format} ignores case, so this name is the same as {}; rename one of them, or choose ext4, squashfs \
                 or erofs",
                shown(other)
            ),
            TreeProblem::TooLong { format, most } => {
                write!(f, "{format} stores files of at most {most} bytes; choose ext4, squashfs or erofs")
            }
            TreeProblem::Time { format, seconds } => write!(
                f,
                "{format} cannot store the time of last modification, {seconds} s after 1970; set another with touch"
            ),
            TreeProblem::NeedsRoot { uid, gid } => write!(
                f,
                "it belongs to {uid}:{gid}, and only root can store another user's files; run as root, or give all \
                 files to root in the image"
            ),
            TreeProblem::DeviceNode => {
                f.write_str("only root can create a device node; run as root, or leave it out")
            }
            TreeProblem::Twice => f.write_str("two entries have this path; rename one of them"),
            TreeProblem::Path => f.write_str(
                "a path in the image has plain names between slashes, without `.` and `..`, and stays inside",
            ),
            TreeProblem::ParentIsNoDirectory => f.write_str("its parent in the image is not a directory"),
        }
    }
}

/// Formats the path of an entry for a message, with control characters escaped. The root has an empty path.
fn shown(path: &Path) -> String {
    if path.as_os_str().is_empty() {
        return "the root directory".to_owned();
    }
    let text = path.to_string_lossy();
    if text.chars().any(char::is_control) { format!("{text:?}") } else { text.into_owned() }
}
