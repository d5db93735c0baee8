//! Filesystems. Each format has its own tools, which make the filesystem from a staged tree. The result is
//! reproducible to the byte.
//!
//! - ext2, ext3, ext4: mke2fs, then debugfs for times and owners. Times are in whole seconds. The times of
//!   access and of status change are those of the image. The tools add a directory `lost+found`.
//! - squashfs: mksquashfs. Times are in whole seconds, and the filesystem is read-only.
//! - erofs: mkfs.erofs. The filesystem is read-only.
//! - vfat: mkfs.vfat, then mmd and mcopy. FAT has no modes, owners, links and extended attributes, so a hard
//!   link becomes a second copy. Times are in steps of 2 s, and the time of a directory is that of the image.
//!
//! [`check`] refuses everything else that a format cannot store.

mod erofs;
mod ext;
mod squashfs;
mod vfat;

pub use erofs::check_options as check_erofs_options;
pub use erofs::{Abilities as ErofsAbilities, ErofsVersion, OptionError as ErofsOptionError};

use crate::error::{ImageError, TreeProblem};
use crate::identity::Identity;
use crate::stage::Stage;
use crate::tool::{DEBUGFS, DUMPE2FS, MCOPY, MDIR, MKE2FS, MKFS_EROFS, MKFS_VFAT, MKSQUASHFS, MMD, Tool};
use crate::tree::{Entry, Kind, Tree};
use flashlab_catalogue::profile::suggest;
use std::fmt;
use std::fs;
use std::path::Path;

/// A filesystem format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// ext2: no journal.
    Ext2,
    /// ext3: ext2 with a journal.
    Ext3,
    /// ext4.
    Ext4,
    /// SquashFS: compressed, read-only.
    Squashfs,
    /// EROFS: read-only, compressed if the options say so.
    Erofs,
    /// FAT32 with long names.
    Vfat,
}

/// Names of the formats.
const NAMES: [(&str, Format); 6] = [
    ("ext2", Format::Ext2),
    ("ext3", Format::Ext3),
    ("ext4", Format::Ext4),
    ("squashfs", Format::Squashfs),
    ("erofs", Format::Erofs),
    ("vfat", Format::Vfat),
];

/// Settings of a filesystem.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Source of the UUID or serial number.
    pub identity: Identity,
    /// Label; empty for none.
    pub label: String,
    /// Time at which the filesystem was made, in seconds since 1970.
    pub time: i64,
    /// Size in bytes. With `None`, SquashFS and EROFS are as large as their contents, and the others have free space.
    pub size: Option<u64>,
    /// First sector of the filesystem on its disk, which the boot sector of FAT contains.
    pub first_sector: u32,
    /// Further options of the tool.
    pub options: Vec<String>,
}

impl Format {
    /// Returns the format with this name.
    ///
    /// # Errors
    /// Returns a message with the names that exist.
    pub fn parse(name: &str) -> Result<Format, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
        found.ok_or_else(|| {
            let known = NAMES.map(|(name, _)| name);
            match (name, suggest(name, known)) {
                ("exfat", _) => format!(
                    "there is no format \"exfat\", because no program copies files into its images; there are {}",
                    known.join(", ")
                ),
                ("fat32" | "fat" | "msdos", _) => format!("there is no format {name:?}; FAT32 is vfat"),
                (_, Some(nearest)) => format!("there is no format {name:?}; did you mean {nearest}?"),
                (_, None) => format!("there is no format {name:?}; there are {}", known.join(", ")),
            }
        })
    }

    /// Returns the tools that make the format.
    pub fn tools(self) -> &'static [Tool] {
        match self {
            Format::Ext2 | Format::Ext3 | Format::Ext4 => &[MKE2FS, DUMPE2FS, DEBUGFS],
            Format::Squashfs => &[MKSQUASHFS],
            Format::Erofs => &[MKFS_EROFS],
            Format::Vfat => &[MKFS_VFAT, MMD, MCOPY, MDIR],
        }
    }

    /// Returns the largest size of a file in bytes.
    fn file_max(self) -> u64 {
        match self {
            Format::Vfat => (1 << 32) - 1,
            // Blocks of 4 KiB reached by triple indirection; the count of 512-byte sectors has 32 bits.
            Format::Ext2 | Format::Ext3 => (1 << 41) - (1 << 12),
            Format::Ext4 => (1 << 44) - (1 << 12),
            Format::Squashfs | Format::Erofs => 1 << 60,
        }
    }

    /// Returns the times in seconds since 1970 that the tools can store: mke2fs and mksquashfs write 32 bits, and FAT
    /// counts from 1980 to 2107.
    pub(crate) fn times(self) -> std::ops::RangeInclusive<i64> {
        match self {
            Format::Ext2 | Format::Ext3 | Format::Ext4 => i32::MIN.into()..=i32::MAX.into(),
            Format::Squashfs => 0..=u32::MAX.into(),
            Format::Erofs => 0..=i64::MAX,
            Format::Vfat => 315_532_800..=4_354_819_198,
        }
    }

    /// Returns the unit in bytes in which the format stores files; `None` if the format can compress them.
    fn unit(self) -> Option<u64> {
        match self {
            Format::Ext2 | Format::Ext3 | Format::Ext4 => Some(4096),
            Format::Vfat => Some(512),
            Format::Squashfs | Format::Erofs => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(_, format)| format == self).map(|(name, _)| *name);
        f.write_str(name.expect("every format has a name"))
    }
}

/// Checks that a format can store a tree.
///
/// # Errors
/// Returns the first entry that it cannot store, with the reason.
pub fn check(format: Format, tree: &Tree) -> Result<(), ImageError> {
    for (path, entry) in tree.entries() {
        check_entry(format, entry).map_err(|problem| ImageError::tree(path, problem))?;
    }
    if format == Format::Vfat { vfat::check_names(tree) } else { Ok(()) }
}

fn check_entry(format: Format, entry: &Entry) -> Result<(), TreeProblem> {
    if let Kind::File(content) = &entry.kind
        && content.size() > format.file_max()
    {
        return Err(TreeProblem::TooLong { format, most: format.file_max() });
    }
    let seconds = entry.modified.seconds;
    // In FAT, a directory has the time of the image.
    let keeps_time = format != Format::Vfat || entry.kind != Kind::Directory;
    if keeps_time && !format.times().contains(&seconds) {
        return Err(TreeProblem::Time { format, seconds });
    }
    let has_files_alone = matches!(entry.kind, Kind::Directory | Kind::File(_) | Kind::HardLink(_));
    if format == Format::Vfat && !has_files_alone {
        return Err(TreeProblem::Kind { format, kind: entry.kind.name() });
    }
    Ok(())
}

/// Checks that the format permits the label.
///
/// # Errors
/// Returns the rule that the label breaks.
pub fn check_label(format: Format, label: &str) -> Result<(), &'static str> {
    match format {
        _ if label.is_empty() => Ok(()),
        Format::Squashfs | Format::Erofs => Err(
            "flashlab sets no label in this format; name the partition instead (name = ..., with table = \"gpt\")",
        ),
        Format::Ext2 | Format::Ext3 | Format::Ext4 if label.len() > 16 => Err("a label has at most 16 bytes"),
        Format::Vfat => vfat::check_label(label),
        _ => Ok(()),
    }
}

/// Makes a filesystem in the file `to`, which must not exist.
///
/// # Errors
/// Returns an error if the format cannot store the tree, the files do not fit, or a tool is missing or fails.
pub fn make(format: Format, stage: &Stage, settings: &Settings, to: &Path) -> Result<(), ImageError> {
    check(format, stage.tree())?;
    for tool in format.tools() {
        tool.find()?;
    }
    let size = settings.size.map_or_else(|| default_size(format, stage.tree()), Some);
    if let Some(size) = size {
        check_size(format, stage.tree(), size)?;
    }
    match (format, size) {
        (Format::Squashfs, _) => squashfs::make(stage, settings, to)?,
        (Format::Erofs, _) => erofs::make(stage, settings, to)?,
        (Format::Vfat, size) => vfat::make(stage, settings, size.expect("it has a default"), to)?,
        (_, size) => ext::make(format, stage, settings, size.expect("it has a default"), to)?,
    }
    let made = fs::metadata(to).map_err(|error| ImageError::file(to, error))?.len();
    match settings.size {
        Some(size) if made > size => Err(ImageError::TooSmall { size, needed: made }),
        _ => Ok(()),
    }
}

/// Returns a size that leaves free space: the size of the contents, plus a quarter, plus 32 MiB (96 MiB for
/// FAT). Returns `None` for a format without free space. The format must be able to store the tree.
pub(crate) fn default_size(format: Format, tree: &Tree) -> Option<u64> {
    let unit = format.unit()?;
    let mut contents = 0;
    for (_, entry) in tree.entries() {
        // A directory's names and a file's inode take less than this. FAT has clusters of up to 32 KiB.
        let unit = if format == Format::Vfat { 32 << 10 } else { unit };
        contents += size_on_disk(format, tree, entry, unit) + 1024;
    }
    let spare: u64 = if format == Format::Vfat { 96 << 20 } else { 32 << 20 };
    Some((contents + contents / 4 + spare).next_multiple_of(1 << 20))
}

/// Checks that the files fit into `size` bytes. The error names the first file that does not.
fn check_size(format: Format, tree: &Tree, size: u64) -> Result<(), ImageError> {
    let Some(unit) = format.unit() else { return Ok(()) };
    let mut needed = 0;
    for (path, entry) in tree.entries() {
        needed += size_on_disk(format, tree, entry, unit);
        if needed > size {
            return Err(ImageError::DoesNotFit { path: path.to_owned(), size, needed });
        }
    }
    Ok(())
}

/// Length of the shortest target of a symbolic link that does not fit into an inode of ext2, ext3 and ext4.
const LONG_TARGET: usize = 60;

fn size_on_disk(format: Format, tree: &Tree, entry: &Entry, unit: u64) -> u64 {
    match &entry.kind {
        Kind::File(content) => content.size().next_multiple_of(unit),
        // FAT stores a separate copy of the contents for each name of a file.
        Kind::HardLink(first) if format == Format::Vfat => {
            tree.get(first).map_or(0, |first| size_on_disk(format, tree, first, unit))
        }
        Kind::Symlink(target) if target.len() >= LONG_TARGET => unit,
        Kind::Directory => unit,
        _ => 0,
    }
}

/// Returns the number of bytes that the files take, for the message about a full filesystem.
fn contents(format: Format, tree: &Tree) -> u64 {
    let unit = format.unit().unwrap_or(1);
    tree.entries().map(|(_, entry)| size_on_disk(format, tree, entry, unit)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{Content, Time};

    fn tree(kinds: Vec<Kind>) -> Tree {
        let mut tree = Tree::new(Entry::directory(Time::from_seconds(1_000_000_000)));
        for (n, kind) in kinds.into_iter().enumerate() {
            let entry = Entry { kind, ..*tree.root() };
            tree.insert(Path::new(&n.to_string()), entry).unwrap();
        }
        tree
    }

    #[test]
    fn hard_links_take_space_in_fat_and_long_symbolic_links_in_ext() {
        let size = 200 << 20;
        let file = Kind::File(Content::Copy { from: "large".into(), size });
        let linked = tree(vec![file, Kind::HardLink("0".into())]);
        assert!(default_size(Format::Vfat, &linked).unwrap() > 2 * size);
        assert!(check_size(Format::Vfat, &linked, 3 * size / 2).is_err());
        assert!(check_size(Format::Ext4, &linked, 3 * size / 2).is_ok());
        let links = |length| tree(vec![Kind::Symlink("x".repeat(length).into()); 100]);
        assert!(check_size(Format::Ext4, &links(59), 100 << 12).is_ok());
        assert!(check_size(Format::Ext4, &links(60), 100 << 12).is_err());
    }

    #[test]
    fn the_time_of_a_directory_does_not_matter_in_fat() {
        let old = Tree::new(Entry::directory(Time::from_seconds(0)));
        assert!(check(Format::Vfat, &old).is_ok());
        let error = check(Format::Squashfs, &Tree::new(Entry::directory(Time::from_seconds(-1))));
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("the root directory: squashfs cannot store the time"), "{error}");
    }
}
