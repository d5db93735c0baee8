//! The files that differ between two states of a device: a base, and the same base under an overlay.
//!
//! The filesystems are read directly, without mounting them: ext2, ext3 and ext4 with the crate `ext4-view`, which
//! applies a journal that was not replayed, and FAT with the crate `fatfs`. SquashFS and EROFS are read-only, so a
//! change in one of them is damage and not a changed file. A device with a partition table is compared partition by
//! partition.

mod bytes;
mod ext;
mod fat;
mod places;

pub use bytes::Bytes;

use places::Partition;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The files that differ in one filesystem.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// Number of the partition's entry in the table, counted from 1; `None` on a device without a partition table.
    pub partition: Option<usize>,
    /// The files, by path.
    pub changes: BTreeMap<PathBuf, Change>,
}

/// The difference of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Only the second state has the file.
    Added,
    /// Only the first state has the file.
    Removed,
    /// The properties that differ.
    Changed(Vec<Property>),
}

/// A property of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Property {
    /// Kind: file, directory, link, ...
    Kind,
    /// Contents, or the target of a symbolic link.
    Contents,
    /// Permissions, or the attributes of FAT.
    Mode,
    /// User or group.
    Owner,
    /// Time of the last modification.
    Time,
}

/// The reason why two states cannot be compared.
#[derive(Debug)]
pub enum DiffError {
    /// The bytes cannot be read.
    Bytes(io::Error),
    /// The state holds no filesystem that can be read.
    Unknown {
        /// Number of the partition; `None` for the whole device.
        partition: Option<usize>,
        /// The state without such a filesystem.
        state: State,
    },
    /// The bytes of a read-only filesystem differ.
    ReadOnly {
        /// Number of the partition; `None` for the whole device.
        partition: Option<usize>,
        /// Name of the format.
        format: &'static str,
        /// Offset of the first byte that differs.
        offset: u64,
    },
    /// The partition tables differ.
    Tables,
    /// The filesystem is damaged.
    Damaged {
        /// Number of the partition; `None` for the whole device.
        partition: Option<usize>,
        /// The state that is damaged.
        state: State,
        /// The damage.
        why: String,
    },
}

/// One of the two states.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The base.
    Base,
    /// The base with its changes.
    Changed,
}

/// A file of a filesystem, without its contents.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Listed {
    kind: ListedKind,
    mode: u32,
    owner: (u32, u32),
    modified: i64,
}

/// Kind of a listed file.
#[derive(Clone, PartialEq, Eq, Debug)]
enum ListedKind {
    Directory,
    File { size: u64 },
    Symlink(Vec<u8>),
    Other(&'static str),
}

/// Depth of the deepest directory that is read. The limit ends the search in a damaged filesystem with a
/// cycle.
const DEPTH_MAX: usize = 256;

/// The error of a filesystem's reader.
type Damage = String;

/// A filesystem that can be read.
trait Reader {
    /// Returns all files by path. The root has an empty path.
    fn list(&self) -> Result<BTreeMap<PathBuf, Listed>, Damage>;

    /// Passes the contents of a file to `to`, piece by piece.
    fn read(&self, path: &Path, to: &mut dyn FnMut(&[u8])) -> Result<(), Damage>;
}

/// Format of a filesystem, recognised by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    Ext,
    Fat,
    ReadOnly(&'static str),
}

/// Compares two states of a device.
///
/// # Errors
/// Returns an error if a state cannot be read or contains no known filesystem, if the partition tables
/// differ, or if the bytes of a read-only filesystem differ.
pub fn diff(base: &Bytes, changed: &Bytes) -> Result<Vec<Difference>, DiffError> {
    if places::format(base)?.is_some() {
        return Ok(vec![compare(None, base, changed)?]);
    }
    let (partitions, after) = (places::partitions(base)?, places::partitions(changed)?);
    if partitions.is_empty() {
        return Err(DiffError::Unknown { partition: None, state: State::Base });
    }
    if partitions != after {
        return Err(DiffError::Tables);
    }
    let compare = |&Partition { number, offset, size }: &Partition| {
        compare(Some(number), &base.part(offset, size), &changed.part(offset, size))
    };
    partitions.iter().map(compare).collect()
}

fn compare(partition: Option<usize>, base: &Bytes, changed: &Bytes) -> Result<Difference, DiffError> {
    let unknown = |state| DiffError::Unknown { partition, state };
    let format = places::format(base)?.ok_or_else(|| unknown(State::Base))?;
    if let Found::ReadOnly(format) = format {
        return match base.first_difference(changed).map_err(DiffError::Bytes)? {
            None => Ok(Difference { partition, changes: BTreeMap::new() }),
            Some(offset) => Err(DiffError::ReadOnly { partition, format, offset }),
        };
    }
    let after = places::format(changed)?.filter(|format| !matches!(format, Found::ReadOnly(_)));
    let damaged = |state| move |why| DiffError::Damaged { partition, state, why };
    let (in_base, in_changed) = (damaged(State::Base), damaged(State::Changed));
    let before = open(format, base).map_err(in_base)?;
    let after = open(after.ok_or_else(|| unknown(State::Changed))?, changed).map_err(in_changed)?;
    let (listed_before, listed_after) = (before.list().map_err(in_base)?, after.list().map_err(in_changed)?);
    let mut changes = BTreeMap::new();
    for (path, file) in &listed_before {
        let Some(other) = listed_after.get(path) else {
            changes.insert(path.clone(), Change::Removed);
            continue;
        };
        let mut properties = properties(file, other);
        if !properties.contains(&Property::Contents) {
            let is_file = matches!(file.kind, ListedKind::File { .. }) && file.kind == other.kind;
            let digest = |reader: &dyn Reader| digest(reader, path);
            if is_file && digest(&*before).map_err(in_base)? != digest(&*after).map_err(in_changed)? {
                properties.insert(0, Property::Contents);
            }
        }
        if !properties.is_empty() {
            changes.insert(path.clone(), Change::Changed(properties));
        }
    }
    for path in listed_after.keys().filter(|path| !listed_before.contains_key(*path)) {
        changes.insert(path.clone(), Change::Added);
    }
    Ok(Difference { partition, changes })
}

/// Returns the properties that differ. The caller compares the contents of files of equal length.
fn properties(a: &Listed, b: &Listed) -> Vec<Property> {
    let same_kind = std::mem::discriminant(&a.kind) == std::mem::discriminant(&b.kind);
    let differs = [
        (Property::Kind, !same_kind || matches!(a.kind, ListedKind::Other(_)) && a.kind != b.kind),
        (Property::Contents, same_kind && !matches!(a.kind, ListedKind::Other(_)) && a.kind != b.kind),
        (Property::Mode, a.mode != b.mode),
        (Property::Owner, a.owner != b.owner),
        (Property::Time, a.modified != b.modified),
    ];
    differs.into_iter().filter(|(_, differs)| *differs).map(|(property, _)| property).collect()
}

fn digest(reader: &dyn Reader, path: &Path) -> Result<[u8; 32], Damage> {
    let mut digest = Sha256::new();
    reader.read(path, &mut |bytes| digest.update(bytes))?;
    Ok(digest.finalize().into())
}

fn open(format: Found, bytes: &Bytes) -> Result<Box<dyn Reader>, Damage> {
    match format {
        Found::Ext => Ok(Box::new(ext::Ext::open(bytes)?)),
        Found::Fat => Ok(Box::new(fat::Fat::open(bytes)?)),
        Found::ReadOnly(format) => Err(format!("{format} has no files that could change")),
    }
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Property::Kind => "kind",
            Property::Contents => "contents",
            Property::Mode => "mode",
            Property::Owner => "owner",
            Property::Time => "time",
        })
    }
}

impl fmt::Display for DiffError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = |partition: &Option<usize>| match partition {
            Some(number) => format!("partition {number}"),
            None => "the device".to_owned(),
        };
        match self {
            DiffError::Bytes(error) => error.fmt(f),
            DiffError::Unknown { partition, state } => write!(
                f,
                "{} of {state} holds no filesystem that can be read (ext2, ext3, ext4, FAT) and no partition table",
                place(partition)
            ),
            DiffError::ReadOnly { partition, format, offset } => write!(
                f,
                "{} is {format}, which is read-only, but its bytes differ from byte {offset} on: something wrote to \
                 it without going through the filesystem",
                place(partition)
            ),
            DiffError::Tables => f.write_str(
                "the partition tables differ; compare the partitions one by one, after copying them out",
            ),
            DiffError::Damaged { partition, state, why } => write!(
                f,
                "{} of {state} cannot be read: {why}; unmount it first, or check it with its fsck",
                place(partition)
            ),
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            State::Base => "the base",
            State::Changed => "the changed device",
        })
    }
}

impl std::error::Error for DiffError {}
